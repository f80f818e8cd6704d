// Closed-form throughput of one replica, for planning before any simulation.
#include <algorithm>
#include <array>
#include <cmath>

#include "muster/cost/step.h"

namespace muster::cost {
namespace {

std::int64_t whole(double x) {
  return static_cast<std::int64_t>(std::llround(x));
}

// Planning asks for a dozen steps of a layout and moves on, so it adds operators up instead of compiling curves.
double stage_s(const StepModel& step, int stage, const StepShape& shape) {
  const StepBreakdown b = step.breakdown(stage, shape);
  return b.device_s() + b.host_s;
}

double latency_s(const StepModel& step, const StepShape& shape) {
  double sum = 0;
  for (int s = 0; s < step.stages(); ++s) sum += stage_s(step, s, shape);
  return sum;
}

// Time from one step of a sequence to its next, when `stages` micro-batches of this shape are in flight: the slowest
// stage sets the pace.
double cycle_s(const StepModel& step, const StepShape& shape) {
  double slowest = 0;
  for (int s = 0; s < step.stages(); ++s) slowest = std::max(slowest, stage_s(step, s, shape));
  return slowest * step.stages();
}

double prompt_s(const StepModel& step, const Deployment& deployment, double input_tokens) {
  const std::int64_t budget = max_num_batched_tokens(deployment);
  const std::int64_t total = std::max<std::int64_t>(1, whole(input_tokens));
  double seconds = 0;
  for (std::int64_t done = 0; done < total; done += budget) {
    const std::array<PrefillChunk, 1> chunk{PrefillChunk{.tokens = std::min(budget, total - done), .prefix = done}};
    const bool ends = done + budget >= total;
    seconds += latency_s(step, {.prefills = chunk, .sampled_sequences = ends ? 1 : 0});
  }
  return seconds;
}

// The steps of one micro-batch in steady state.
struct Mix {
  double plain_s = 0;   // cycle with decodes only
  double prompt_s = 0;  // what the prefill of one prompt adds to the cycles that its pieces share
};

Mix mix(const StepModel& step, const Deployment& deployment, double input_tokens, double sequences, double context) {
  const std::int64_t decodes = whole(sequences);
  const std::int64_t kv = whole(sequences * context);
  const double plain = cycle_s(
      step, {.prefills = {}, .decode_sequences = decodes, .decode_kv_tokens = kv, .sampled_sequences = decodes});
  const std::int64_t budget = std::max<std::int64_t>(1, max_num_batched_tokens(deployment) - decodes);
  const std::int64_t total = std::max<std::int64_t>(1, whole(input_tokens));
  const std::int64_t pieces = (total + budget - 1) / budget;
  // A middle piece stands for all: attention grows linearly with the prefix, so the mean prefix gives the mean time.
  const std::array<PrefillChunk, 1> chunk{
      PrefillChunk{.tokens = total / pieces, .prefix = (pieces - 1) * (total / pieces) / 2}};
  const double mixed = cycle_s(
      step, {.prefills = chunk, .decode_sequences = decodes, .decode_kv_tokens = kv, .sampled_sequences = decodes + 1});
  // Only one of the micro-batches in flight carries the piece.
  return {.plain_s = plain, .prompt_s = static_cast<double>(pieces) * std::max(0.0, mixed - plain) / step.stages()};
}

std::string what_binds(const StepModel& step, const StepShape& shape) {
  double communication = 0;
  double compute = 0;
  double bandwidth = 0;
  for (int s = 0; s < step.stages(); ++s) {
    const StepBreakdown b = step.breakdown(s, shape);
    communication += b.all_reduce_s + b.all_to_all_s + b.transfer_s;
    compute += b.compute_bound_s;
    bandwidth += b.memory_bound_s;
  }
  if (communication > compute && communication > bandwidth) return "communication";
  return compute > bandwidth ? "compute" : "bandwidth";
}

}  // namespace

SteadyState steady_state(const StepModel& step, const Deployment& deployment, const MemoryVerdict& memory,
                         double input_tokens, double output_tokens, double concurrency) {
  SteadyState state;
  if (!memory.fits) return state;
  const double context = input_tokens + output_tokens / 2;  // mean over the life of a request
  const double needed = kv_tokens_of_sequence(deployment, context);
  const double by_memory = needed > 0 ? static_cast<double>(memory.kv_tokens.value) / needed : 1e9;
  const double by_flag = max_num_seqs(deployment);
  double limit = std::max(1.0, std::floor(std::min(by_memory, by_flag)));
  const bool asked_less = concurrency > 0 && concurrency <= limit;
  if (asked_less) limit = concurrency;

  const double prompt = prompt_s(step, deployment, input_tokens);
  const double outputs = std::max(1.0, output_tokens - 1);
  double decoding = limit;  // of the concurrent requests, those past their prompt
  double tpot = 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    const Mix m = mix(step, deployment, input_tokens, std::max(1.0, decoding / step.stages()), context);
    // Each request that leaves is replaced by one whose prompt runs among the decodes of the others.
    tpot = m.plain_s + std::max(0.0, decoding - 1) / outputs * m.prompt_s;
    const double waiting = std::max(prompt, m.prompt_s);
    decoding = std::max(1.0, limit * outputs * tpot / (waiting + outputs * tpot));
  }
  state.batch = limit;
  state.tpot_ms = tpot * 1e3;
  state.ttft_ms = prompt * 1e3;
  state.output_tok_s = decoding / tpot;
  const std::int64_t decodes = whole(std::max(1.0, decoding / step.stages()));
  state.binding = asked_less ? what_binds(step, {.prefills = {},
                                                 .decode_sequences = decodes,
                                                 .decode_kv_tokens = whole(static_cast<double>(decodes) * context),
                                                 .sampled_sequences = decodes})
                             : (by_memory < by_flag ? "kv_memory" : "max_num_seqs");
  return state;
}

}  // namespace muster::cost
