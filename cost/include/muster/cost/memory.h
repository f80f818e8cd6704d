// Does it fit: bytes per GPU on each stage, and what is left for the KV cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/core/units.h"
#include "muster/cost/engine.h"
#include "muster/cost/layout.h"

namespace muster::cost {

struct Deployment {
  const model::ModelSpec* model = nullptr;
  const hardware::Gpu* gpu = nullptr;
  EngineProfile engine;
  Layout layout;
  Precision precision;
  int max_model_len = 0;                         // 0: the model's own maximum
  int max_num_batched_tokens = 0;                // 0: the engine's default
  int max_num_seqs = 0;                          // 0: the engine's default
  std::optional<double> memory_fraction;         // nullopt: the engine's default
  std::optional<Bytes> device_memory;            // as the engine sees it, from its log; else visible_memory(*gpu)
  std::optional<std::int64_t> kv_blocks;         // a measured number of KV blocks overrides the computed one
};

// What CUDA offers of a device: less than nvidia-smi reports, and that less than the marketing figure.
Bytes visible_memory(const hardware::Gpu& gpu);

// The limits that are in force: the deployment's own, else the engine's defaults for this device.
int max_model_len(const Deployment& deployment);
int max_num_batched_tokens(const Deployment& deployment);
int max_num_seqs(const Deployment& deployment);

struct StageMemory {
  int layers = 0;
  Bytes weights, activation, non_torch, graph, kv, free;  // per GPU; free is negative when it does not fit
};

struct MemoryVerdict {
  bool fits = false;              // the weights load and one request of max_model_len has room for its KV
  std::vector<StageMemory> stages;
  int tightest = 0;               // index of the stage with the least KV room for its layers
  Tokens kv_tokens;               // capacity of one replica
  double max_concurrency = 0;     // requests of max_model_len at once
  std::string why;                // one line; when it does not fit, also the flag or layout that would help
  const StageMemory& stage() const { return stages[static_cast<std::size_t>(tightest)]; }
};

// Requires a layout that refuse_layout accepts.
MemoryVerdict memory(const Deployment& deployment);

// KV tokens that one sequence of `context` tokens occupies, in full-attention-equivalent tokens: sliding-window layers
// stop growing where the engine lets them.
double kv_tokens_of_sequence(const Deployment& deployment, double context);

}  // namespace muster::cost
