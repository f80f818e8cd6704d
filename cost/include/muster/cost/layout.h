// Parallel layouts and which of them a model allows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/hardware/gpu.h"
#include "muster/model/spec.h"

namespace muster::cost {

struct Layout {
  int tp = 1;  // tensor-parallel ranks
  int pp = 1;  // pipeline stages
  int dp = 1;  // copies of the whole model behind one balancer; never helps to fit
  int ep = 1;  // ranks over which whole experts are divided; divides tp here

  int gpus_per_replica() const { return tp * pp; }
  int gpus() const { return tp * pp * dp; }
  friend bool operator==(const Layout&, const Layout&) = default;
};
std::string text(const Layout& layout);  // "tp4", "tp4 pp2", "tp8 ep8"

struct Precision {
  model::Dtype weights = model::Dtype::kBf16;
  model::Dtype kv = model::Dtype::kBf16;
};

// The matrix format in which weights of `weights` are multiplied on this device: weight-only formats (int4, and fp4 on
// devices without FP4 units) compute in 16 bits. nullopt: the device cannot.
std::optional<hardware::Format> compute_format(const hardware::Gpu& gpu, model::Dtype weights);

// GPUs that one tensor-parallel group may span: the scale-up domain, or one 8-GPU server over PCIe; 1 for a slice.
int tensor_parallel_limit(const hardware::Gpu& gpu);

// Why the model cannot be cut like this, in one line; nullopt: it can.
std::optional<std::string> refuse_layout(const model::ModelSpec& model, const Layout& layout);
// Why the device cannot run this layout or precision (slices have no links; no FP8 units; tp beyond the link domain).
std::optional<std::string> refuse_device(const hardware::Gpu& gpu, const Layout& layout, const Precision& precision);

// Layers of each stage: as even as possible; the middle stages take the extra ones, as the first also holds the
// embedding and the last the head.
std::vector<int> stage_layers(int layers, int pp);

}  // namespace muster::cost
