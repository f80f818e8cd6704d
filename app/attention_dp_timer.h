// Step times of attention data parallelism: every rank (of `dp` groups of `tp`) attends for its own sequences with the
// whole attention weights, and all tp x dp ranks share the experts. The groups step together.
#pragma once

#include "muster/cost/memory.h"
#include "muster/cost/step.h"
#include "muster/sim/step_timer.h"

namespace muster::app {

class AttentionDpTimer final : public sim::StepTimer {
 public:
  // `deployment.layout`: tp of the attention, dp groups, ep over all tp x dp ranks. Requires that refuse_layout accepts
  // both {tp} and {tp x dp, ep}.
  explicit AttentionDpTimer(const cost::Deployment& deployment);

  int stages() const override { return stages_; }  // alike: each has an equal share of the layers
  // `shape` is of all groups together: sequences and prompt tokens are spread evenly.
  Duration stage_time(int stage, const cost::StepShape& shape) const override;
  bool is_estimate() const { return group_.is_estimate() || whole_.is_estimate(); }

 private:
  int groups_, stages_;
  cost::EngineProfile engine_;
  cost::StepModel group_;  // one attention group
  cost::StepModel whole_;  // every rank in one tensor-parallel group: experts and their communication
};

// KV tokens of all groups together, and whether the weights leave room.
cost::MemoryVerdict attention_dp_memory(const cost::Deployment& deployment);

}  // namespace muster::app
