#include "muster/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "muster/core/check.h"

namespace muster::planner {
namespace {

model::Dtype kv_dtype(const Question& question, model::Dtype weights) {
  if (question.kv) return *question.kv;
  const bool wide = weights == model::Dtype::kFp32 || weights == model::Dtype::kTf32;
  return wide ? model::Dtype::kFp32 : model::Dtype::kBf16;
}

// Powers of two, and the pinned value alone when there is one.
std::vector<int> degrees(const std::optional<int>& pinned, int max) {
  if (pinned) return {*pinned};
  std::vector<int> all;
  for (int n = 1; n <= max; n *= 2) all.push_back(n);
  return all;
}

std::vector<model::Dtype> precisions_of(const Question& question, const hardware::Gpu& gpu) {
  if (!question.precisions.empty()) return question.precisions;
  std::vector<model::Dtype> supported;
  for (const model::Dtype dtype : model::kDtypes)
    if (!cost::refuse_device(gpu, cost::Layout{}, {.weights = dtype, .kv = kv_dtype(question, dtype)}))
      supported.push_back(dtype);
  return supported;
}

// Smaller is better.
double badness(const Candidate& candidate, Goal goal) {
  switch (goal) {
    case Goal::kThroughputPerGpu:
      return -candidate.output_tok_s_per_gpu();
    case Goal::kLatency:
      return candidate.speed->tpot_ms;
    case Goal::kCost:
      return candidate.usd_per_mtok().value_or(1e18 - candidate.output_tok_s_per_gpu());
  }
  return 0;
}

}  // namespace

std::optional<Goal> parse_goal(std::string_view text) {
  if (text == "throughput") return Goal::kThroughputPerGpu;
  if (text == "cost") return Goal::kCost;
  if (text == "latency") return Goal::kLatency;
  return std::nullopt;
}

std::optional<double> Candidate::usd_h() const {
  if (!gpu->price) return std::nullopt;
  return gpu->price->usd_per_gpu_hour * layout.gpus();
}

std::optional<double> Candidate::usd_per_mtok() const {
  const std::optional<double> hourly = usd_h();
  if (!hourly || output_tok_s() <= 0) return std::nullopt;
  return *hourly / (output_tok_s() * 3600) * 1e6;
}

cost::Deployment deployment(const Question& question, const Candidate& candidate) {
  return {.model = question.model,
          .gpu = candidate.gpu,
          .engine = question.engine,
          .layout = candidate.layout,
          .precision = candidate.precision,
          .max_model_len = question.max_model_len,
          .max_num_batched_tokens = question.max_num_batched_tokens,
          .max_num_seqs = question.max_num_seqs,
          .memory_fraction = question.memory_fraction,
          .kv_blocks = question.kv_blocks};
}

Candidate evaluate(const Question& question, const hardware::Gpu& gpu, const cost::Layout& layout,
                   model::Dtype weights) {
  Candidate candidate{.gpu = &gpu, .layout = layout, .precision = {weights, kv_dtype(question, weights)}};
  std::optional<std::string> refusal = cost::refuse_layout(*question.model, layout);
  if (!refusal) refusal = cost::refuse_device(gpu, layout, candidate.precision);
  if (refusal) {
    candidate.why = *refusal;
    return candidate;
  }
  const cost::Deployment asked = deployment(question, candidate);
  candidate.memory = cost::memory(asked);
  candidate.fits = candidate.memory->fits;
  candidate.why = candidate.memory->why;
  if (!candidate.fits) return candidate;
  const cost::StepModel step = cost::StepModel::make(asked);
  candidate.speed = cost::steady_state(step, asked, *candidate.memory, question.input_tokens, question.output_tokens,
                                       question.concurrency);
  candidate.error_band = step.error_band();
  candidate.provenance = step.provenance();
  return candidate;
}

std::vector<Candidate> enumerate(const Question& question) {
  MUSTER_CHECK(question.model != nullptr && !question.gpus.empty(), "a plan needs a model and a device");
  std::vector<Candidate> fitting, rejected;
  for (const hardware::Gpu& gpu : question.gpus)
    for (const model::Dtype precision : precisions_of(question, gpu))
      for (const int pp : degrees(question.pp, question.gpus_per_replica_max))
        for (const int tp : degrees(question.tp, question.gpus_per_replica_max / pp)) {
          std::vector<int> expert_degrees = {1};
          if (question.model->moe && tp > 1) expert_degrees.push_back(tp);
          if (question.ep) expert_degrees = {*question.ep};
          for (const int ep : expert_degrees) {
            Candidate candidate = evaluate(question, gpu, {.tp = tp, .pp = pp, .dp = question.dp, .ep = ep}, precision);
            (candidate.fits ? fitting : rejected).push_back(std::move(candidate));
          }
        }
  std::ranges::stable_sort(fitting, [&](const Candidate& a, const Candidate& b) {
    return std::tuple(badness(a, question.goal), a.layout.gpus()) <
           std::tuple(badness(b, question.goal), b.layout.gpus());
  });
  fitting.insert(fitting.end(), std::make_move_iterator(rejected.begin()), std::make_move_iterator(rejected.end()));
  return fitting;
}

}  // namespace muster::planner
