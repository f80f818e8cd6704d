#include "muster/planner/disaggregation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/model/tensors.h"

namespace muster::planner {
namespace {

// Prompts per second of a replica that does nothing else.
double prefill_rate(const cost::StepModel& step, std::int64_t input_tokens, std::int64_t budget) {
  if (input_tokens <= budget) {
    const std::vector<cost::PrefillChunk> prompts(static_cast<std::size_t>(budget / input_tokens),
                                                  {.tokens = input_tokens, .prefix = 0});
    const auto n = static_cast<std::int64_t>(prompts.size());
    const Duration time = step.latency({.prefills = prompts, .decode_kv_tokens = 0, .sampled_sequences = n});
    return static_cast<double>(n) / to_seconds(time);
  }
  Duration time(0);
  for (std::int64_t done = 0; done < input_tokens; done += budget) {
    const cost::PrefillChunk chunk{.tokens = std::min(budget, input_tokens - done), .prefix = done};
    const bool is_last = done + budget >= input_tokens;
    time += step.latency({.prefills = {&chunk, 1}, .decode_kv_tokens = 0, .sampled_sequences = is_last ? 1 : 0});
  }
  return 1 / to_seconds(time);
}

double decode_step_ms(const cost::StepModel& step, std::int64_t batch, double context_tokens) {
  const auto kv_tokens = static_cast<std::int64_t>(static_cast<double>(batch) * context_tokens);
  return to_ms(step.latency(
      {.prefills = {}, .decode_sequences = batch, .decode_kv_tokens = kv_tokens, .sampled_sequences = batch}));
}

// The largest batch up to `batch_max` whose step takes at most `tpot_ms`; 0: not even one.
std::int64_t largest_batch(const cost::StepModel& step, double context_tokens, std::int64_t batch_max, double tpot_ms) {
  std::int64_t fits = 0, too_many = batch_max + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (decode_step_ms(step, middle, context_tokens) <= tpot_ms ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

std::optional<Disaggregated> disaggregate(const Question& question, const Candidate& candidate) {
  if (!candidate.fits || !candidate.speed || candidate.layout.pp > 1 || question.output_tokens <= 1)
    return std::nullopt;
  const cost::Deployment d = deployment(question, candidate);
  const cost::StepModel step = cost::StepModel::make(d);
  const auto input_tokens = std::max<std::int64_t>(1, std::llround(question.input_tokens));
  const double context = question.input_tokens + question.output_tokens / 2;  // halfway through the answer
  const double whole = question.input_tokens + question.output_tokens;
  const auto in_kv = static_cast<std::int64_t>(static_cast<double>(candidate.memory->kv_tokens.value) / whole);
  const std::int64_t batch_max = std::min<std::int64_t>(in_kv, cost::max_num_seqs(d));
  const std::int64_t batch = largest_batch(step, context, batch_max, candidate.speed->tpot_ms);
  if (batch < 1) return std::nullopt;

  Disaggregated result;
  result.decode_batch = static_cast<double>(batch);
  result.tpot_ms = decode_step_ms(step, batch, context);
  result.prefill_rps = prefill_rate(step, input_tokens, cost::max_num_batched_tokens(d));
  // The first token comes from the prefill.
  result.decode_rps = result.decode_batch / ((question.output_tokens - 1) * result.tpot_ms / 1000);
  const int gpus = candidate.layout.gpus_per_replica();
  for (int p = 1; p <= kReplicasOfOneRoleMax; ++p) {
    for (int n = 1; n <= kReplicasOfOneRoleMax; ++n) {
      const double rate = std::min(p * result.prefill_rps, n * result.decode_rps) / ((p + n) * gpus);
      if (rate <= result.requests_s_per_gpu * (1 + 1e-9)) continue;
      result.requests_s_per_gpu = rate;
      result.prefill_replicas = p;
      result.decode_replicas = n;
    }
  }
  result.mixed_requests_s_per_gpu = candidate.speed->output_tok_s / question.output_tokens / gpus;
  const double kv_bytes = static_cast<double>(input_tokens) *
                          static_cast<double>(model::kv_bytes_per_token(*question.model, candidate.precision.kv).value);
  result.kv_transfer_ms = 1e3 * kv_bytes / kLinkBytesPerSecond;
  return result;
}

}  // namespace muster::planner
