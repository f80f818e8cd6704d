// Which parallel layouts of a model fit on which devices, how fast they are, and why the others are rejected.
//
// Pure functions of the question: no files, no clock. All figures come from `cost`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/cost/memory.h"
#include "muster/cost/step.h"
#include "muster/hardware/gpu.h"
#include "muster/model/spec.h"

namespace muster::planner {

enum class Goal { kThroughputPerGpu, kCost, kLatency };
std::optional<Goal> parse_goal(std::string_view text);  // "throughput", "cost", "latency"

struct Question {
  const model::ModelSpec* model = nullptr;
  std::vector<hardware::Gpu> gpus;  // devices to consider, at least one
  cost::EngineProfile engine;
  std::vector<model::Dtype> precisions;  // empty: every one that the device supports
  std::optional<model::Dtype> kv;        // nullopt: 16 bits, or 32 for 32-bit weights (the engines' "auto")
  int gpus_per_replica_max = 8;
  std::optional<int> tp, pp, ep;                    // pin
  int dp = 1;                                       // copies behind a balancer: multiplies GPUs, speed and cost
  double input_tokens = 1024, output_tokens = 256;  // the operating point
  double concurrency = 0;                           // 0: as many as fit
  int max_model_len = 0, max_num_batched_tokens = 0, max_num_seqs = 0;  // 0: the defaults of model and engine
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> kv_blocks;
  Goal goal = Goal::kThroughputPerGpu;
};

struct Candidate {
  const hardware::Gpu* gpu = nullptr;  // into Question::gpus
  cost::Layout layout;
  cost::Precision precision;
  bool fits = false;
  std::string why;                            // one line: the verdict and its reason
  std::optional<cost::MemoryVerdict> memory;  // absent when the layout or device was refused
  std::optional<cost::SteadyState> speed;     // present when it fits; per copy (dp = 1)
  double error_band = 0;                      // relative half-width of the speed figures
  std::vector<std::string> provenance;

  double output_tok_s() const { return speed ? speed->output_tok_s * layout.dp : 0; }
  double output_tok_s_per_gpu() const { return output_tok_s() / layout.gpus(); }
  std::optional<double> usd_h() const;         // nullopt: no price known
  std::optional<double> usd_per_mtok() const;  // per million output tokens at full load
};

// Fit and speed of one layout. Any layout may be asked; a refused one says why.
Candidate evaluate(const Question& question, const hardware::Gpu& gpu, const cost::Layout& layout,
                   model::Dtype weights);

// The deployment that a candidate stands for; `question` and the candidate's GPU must outlive it.
cost::Deployment deployment(const Question& question, const Candidate& candidate);

// Every device x precision x layout up to gpus_per_replica_max: those that fit first, best first by the goal (ties:
// fewer GPUs), then the rejected ones in the order of the question.
std::vector<Candidate> enumerate(const Question& question);

// A question that people ask about a plan, and its answer here, in numbers.
struct Option {
  std::string option;   // "Tensor parallelism"
  std::string verdict;  // "required", "helps", "no gain", "worse", "refused", "chosen"
  std::string code;     // "tp", "pp", "tp_pp", "dp", "larger_batch", "fp32", "fp8", "int4", "mig", "more_memory",
                        // "disaggregation"
  std::string why;      // why people choose it; why it is or is not right here
};
// Verdicts around `chosen`, which must fit. `larger` and `slices`: devices to compare with (more memory; MIG).
std::vector<Option> explain(const Question& question, const Candidate& chosen, const std::vector<hardware::Gpu>& larger,
                            const std::vector<hardware::Gpu>& slices);

}  // namespace muster::planner
