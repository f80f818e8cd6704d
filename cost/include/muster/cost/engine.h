// What depends on the serving engine and its version: memory budget rule, overhead tables, host time, default flags.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/core/time.h"

namespace muster::cost {

struct EngineVersion {
  std::string engine;   // "vllm", "sglang", "tensorrt-llm", "llama.cpp", "muster"
  std::string version;  // "0.19"; empty: the newest that muster has figures for

  std::string text() const { return version.empty() ? engine : engine + "@" + version; }
};
Result<EngineVersion> parse_engine(const std::string& text);  // "vllm@0.19"; fails with "did you mean"

// How the engine turns memory into KV cache.
enum class BudgetRule {
  kFractionOfTotal,  // vLLM: total * utilisation - weights - activation - non-torch [- graphs]
  kFractionOfFree,   // TensorRT-LLM: (total - weights - activation - non-torch - graphs) * fraction
  kStaticFraction,   // SGLang: total * fraction - weights - non-torch; activations and graphs live in the remainder
};

// One row of data/engines/*.yaml, resolved for one engine version.
struct EngineProfile {
  EngineVersion version;
  std::string matched_version;        // the row of the table that was used (the newest not after the asked one)
  BudgetRule budget_rule = BudgetRule::kFractionOfTotal;
  double memory_fraction = 0.9;       // the engine's default
  bool graphs_in_budget = false;      // vLLM from 0.21 reserves CUDA-graph memory inside the budget
  int kv_block_tokens = 16;
  int max_num_batched_tokens = 2048;  // defaults of the server
  int max_num_seqs = 256;
  int large_max_num_batched_tokens = 0;  // vLLM on devices of 70 GiB and more (the A100 excepted); 0: no such rule
  int large_max_num_seqs = 0;
  // Host time of one step: fixed + per_sequence * scheduled sequences + per_prefill_token * prefill tokens. Calibrated.
  Duration host_fixed{0};
  Duration host_per_sequence{0};
  double host_per_prefill_token_ns = 0;
  bool asynchronous_scheduling = false;  // the host term overlaps the device: the step takes the larger of the two
  // ... plus what even then cannot overlap (input copies, sampling results).
  Duration host_serial_fixed{0};
  Duration host_serial_per_sequence{0};
  bool fused_elementwise = false;  // norms join the all-reduce, rotary embedding and cache write the attention kernel
  std::vector<std::string> sources;   // where each of the above comes from
  // Memory beside weights and KV, GiB per GPU, for 16-bit activations (32-bit ones take twice the first two). The
  // engine reserves the larger of two peaks: the largest forward pass, and the sampler over max_num_seqs rows.
  double activation_gib_per_k_tokens_hidden = 0;  // forward: GiB per (1024 tokens x 1024 hidden)
  double activation_gib_per_k_tokens_mlp = 0;     // forward: GiB per (1024 tokens x 1024 MLP columns of this rank)
  double activation_fixed_gib = 0;
  double logits_gib_per_k_seqs_vocab = 0;         // sampler: GiB per (1024 sequences x 1024 vocabulary)
  bool moe_workspace = false;                     // expert buffers for the largest step stay allocated
  bool repacks_int4 = false;                      // loading holds one extra copy of the largest 4-bit weight (Marlin)
  bool groups_kv_layers = false;                  // vLLM: windowed and full layers share one page size, in equal groups
  double non_torch_tp1_gib = 0;
  double non_torch_tp_gib = 0;        // tp > 1 (NCCL and custom all-reduce buffers)
  double non_torch_pp_gib = 0;        // pp > 1, tp = 1
  double graph_fixed_gib = 0;
  double graph_gib_per_layer = 0;
};

std::vector<std::string> engine_names();
Result<EngineProfile> engine_profile(const EngineVersion& version);

}  // namespace muster::cost
