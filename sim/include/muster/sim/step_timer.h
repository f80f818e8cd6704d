// What the simulator asks of a device: how long each pipeline stage is busy with a step.
#pragma once

#include <utility>

#include "muster/core/time.h"
#include "muster/cost/step.h"

namespace muster::sim {

// Must be a pure function of its arguments: the same shape, the same time. At least 1 ns.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  virtual int stages() const = 0;  // at least 1
  virtual Duration stage_time(int stage, const cost::StepShape& shape) const = 0;
};

class CostStepTimer final : public StepTimer {
 public:
  explicit CostStepTimer(cost::StepModel model) : model_(std::move(model)) {}  // cheap: models share their data
  int stages() const override { return model_.stages(); }
  Duration stage_time(int stage, const cost::StepShape& shape) const override {
    return model_.stage_time(stage, shape);
  }

 private:
  cost::StepModel model_;
};

}  // namespace muster::sim
