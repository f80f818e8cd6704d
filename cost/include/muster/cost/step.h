// The time of one engine step of one replica, from operators: GEMM, attention, MoE, communication, head, host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/core/time.h"
#include "muster/cost/memory.h"

namespace muster::cost {

// One prompt piece of a step: `tokens` new tokens after `prefix` tokens whose KV is already there.
struct PrefillChunk {
  std::int64_t tokens = 0;
  std::int64_t prefix = 0;
};

struct StepShape {
  std::span<const PrefillChunk> prefills;
  std::int64_t decode_sequences = 0;
  std::int64_t decode_kv_tokens = 0;   // sum of their KV lengths
  std::int64_t sampled_sequences = 0;  // rows of the LM head: decodes and prompts that end in this step
};

// Where the time of a step goes, seconds, summed over the layers of one stage.
struct StepBreakdown {
  double gemm_s = 0, attention_s = 0, moe_s = 0, elementwise_s = 0, all_reduce_s = 0, all_to_all_s = 0, head_s = 0,
         transfer_s = 0, host_s = 0;
  double compute_bound_s = 0;   // of the device time: limited by arithmetic
  double memory_bound_s = 0;    // ... by memory bandwidth
  double device_s() const {
    return gemm_s + attention_s + moe_s + elementwise_s + all_reduce_s + all_to_all_s + head_s + transfer_s;
  }
};

// Step times of one deployment, compiled for fast evaluation. Immutable after make(): may be shared between threads.
class StepModel {
 public:
  // Requires a layout that refuse_layout and refuse_device accept.
  static StepModel make(const Deployment& deployment);

  int stages() const;
  // Time that stage `stage` is busy with this step, host term included on the first stage; at least 1 ns.
  Duration stage_time(int stage, const StepShape& shape) const;
  // Sum over the stages: the latency of a step through an empty pipeline.
  Duration latency(const StepShape& shape) const;
  StepBreakdown breakdown(int stage, const StepShape& shape) const;

  // The sources of its terms ("gemm: fitted on ..., median error 6 %"), and whether any is a bare roofline.
  const std::vector<std::string>& provenance() const;
  bool is_estimate() const;
  double error_band() const;   // relative half-width of the band to put around a step time (0.1: +-10 %)

  struct Data;
 private:
  explicit StepModel(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

// Closed-form figures of one replica in steady state, for planning before any simulation.
struct SteadyState {
  double batch = 0;              // concurrent sequences that KV memory and max_num_seqs allow
  double tpot_ms = 0;            // at that batch, with the prefill of replacements mixed in
  double ttft_ms = 0;            // one prompt on an otherwise idle replica
  double output_tok_s = 0;       // per replica
  std::string binding;           // "kv_memory", "max_num_seqs", "compute", "bandwidth", "communication"
};
// Throughput at concurrency min(asked, what fits); `concurrency` 0: as many as fit.
SteadyState steady_state(const StepModel& step, const Deployment& deployment, const MemoryVerdict& memory,
                         double input_tokens, double output_tokens, double concurrency);

}  // namespace muster::cost
