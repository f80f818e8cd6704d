// Step times from measured times of single layers on the very device (docs/formats/layer-tables.md), for one rank
// without communication. More exact than operator tables where a profile of the model on the device exists.
#pragma once

#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/cost/engine.h"
#include "muster/sim/step_timer.h"

namespace muster::app {

// A table over several axes: exact at its points, linear between them on each axis, and continued with the last slope
// beyond the end of an axis. Axes may differ between branches (a grid with holes).
class NestedTable {
 public:
  void add(const std::vector<double>& point, double value);  // one value per axis; a repeated point replaces
  double at(const double* point) const;                      // as many values as the points have
  bool empty() const { return keys_.empty(); }

 private:
  std::vector<double> keys_;           // ascending
  std::vector<NestedTable> children_;  // [keys], or
  std::vector<double> values_;         // [keys] on the last axis
};

class LayerTableTimer final : public sim::StepTimer {
 public:
  // `prefix`: the common beginning of the files: <prefix>__dense.csv.gz, __per_sequence.csv.gz, __attention.csv.gz.
  // `layers`: decoder layers of the model. Host times are those of `engine`. Fails on a missing file or layer.
  static Result<LayerTableTimer> read(const std::string& prefix, int layers, const cost::EngineProfile& engine);

  int stages() const override { return 1; }
  Duration stage_time(int stage, const cost::StepShape& shape) const override;

 private:
  LayerTableTimer() = default;

  cost::EngineProfile engine_;
  int layers_ = 0;
  NestedTable tokens_;     // [tokens] us of all layers but attention, once per step
  NestedTable sequences_;  // [sampled sequences] us of the head and the sampler
  NestedTable attention_;  // [prefill chunk, its prefix, decodes, their mean KV length] us of one layer
};

}  // namespace muster::app
