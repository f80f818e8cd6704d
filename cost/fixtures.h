// Models and devices for tests, written out by hand so that the tests do not depend on the catalogue.
#pragma once

#include <optional>
#include <string>

#include "muster/cost/step.h"

namespace muster::cost::fixtures {

inline hardware::Gpu h100() {
  hardware::Gpu gpu;
  gpu.key = "h100-sxm";
  gpu.name = "NVIDIA H100 SXM";
  gpu.vendor = "nvidia";
  gpu.architecture = "Hopper";
  gpu.memory = Bytes(static_cast<std::int64_t>(79.19 * static_cast<double>(kGiB)));
  gpu.memory_bytes_per_s = 3.35e12;
  const auto set = [&gpu](hardware::Format format, double flops) {
    gpu.dense_flops[static_cast<std::size_t>(format)] = flops;
  };
  set(hardware::Format::kFp32, 67e12);
  set(hardware::Format::kTf32, 494.7e12);
  set(hardware::Format::kFp16, 989.4e12);
  set(hardware::Format::kBf16, 989.4e12);
  set(hardware::Format::kFp8, 1978.9e12);
  set(hardware::Format::kInt8, 1978.9e12);
  gpu.scale_up = {.technology = "NVLink 4", .bytes_per_s = 450e9, .domain_gpus = 8, .all_to_all = true};
  gpu.pcie_bytes_per_s = 64e9;
  return gpu;
}

inline hardware::Gpu h100_slice() {
  hardware::Gpu gpu = h100();
  gpu.key = "h100-sxm/1g.10gb";
  gpu.is_slice = true;
  gpu.compute_share = 1.0 / 7;
  gpu.memory_share = 1.0 / 8;
  gpu.memory = Bytes(gpu.memory.value / 8);
  gpu.memory_bytes_per_s /= 8;
  for (auto& flops : gpu.dense_flops)
    if (flops) flops = *flops / 7;
  gpu.scale_up = {.technology = "none", .bytes_per_s = 0, .domain_gpus = 1, .all_to_all = false};
  return gpu;
}

struct Dense {
  const char* key;
  int layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary;
  bool tied = false;
  bool qkv_bias = false;
  bool qk_norm = false;
};

inline model::ModelSpec dense(const Dense& d) {
  model::ModelSpec m;
  m.key = d.key;
  m.name = d.key;
  m.family = d.key;
  m.layers = d.layers;
  m.hidden_size = d.hidden;
  m.intermediate_size = d.intermediate;
  m.attention_heads = d.heads;
  m.kv_heads = d.kv_heads;
  m.head_dim = d.head_dim;
  m.vocab_size = d.vocabulary;
  m.tied_embeddings = d.tied;
  m.qkv_bias = d.qkv_bias;
  m.qk_norm = d.qk_norm;
  m.max_position_embeddings = 131072;
  return m;
}

inline model::ModelSpec llama_8b() {
  return dense({"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256});
}
inline model::ModelSpec llama_70b() {
  return dense({"llama-3.1-70b", 80, 8192, 28672, 64, 8, 128, 128256});
}
inline model::ModelSpec qwen3_14b() {
  return dense({"qwen3-14b", 40, 5120, 17408, 40, 8, 128, 151936, false, false, true});
}
inline model::ModelSpec qwen3_32b() {
  return dense({"qwen3-32b", 64, 5120, 25600, 64, 8, 128, 151936, false, false, true});
}

inline model::ModelSpec mixtral() {
  model::ModelSpec m = dense({"mixtral-8x7b", 32, 4096, 14336, 32, 8, 128, 32000});
  m.moe = model::Moe{.experts = 8, .experts_per_token = 2, .expert_intermediate_size = 14336};
  return m;
}

// DeepSeek-V2-Lite and, with another vocabulary, the language model of Kimi-VL-A3B.
inline model::ModelSpec deepseek_v2_lite(const char* key = "deepseek-v2-lite", int vocabulary = 102400) {
  model::ModelSpec m = dense({key, 27, 2048, 10944, 16, 16, 192, vocabulary});
  m.moe = model::Moe{.experts = 64,
                     .experts_per_token = 6,
                     .expert_intermediate_size = 1408,
                     .shared_experts = 2,
                     .shared_intermediate_size = 2816,
                     .first_dense_layers = 1};
  m.mla = model::Mla{
      .q_lora_rank = 0, .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128};
  return m;
}

struct Windowed {
  int window;
  int period;  // one full-attention layer in each `period`
};

inline model::ModelSpec gemma(const Dense& d, const Windowed& w) {
  model::ModelSpec m = dense(d);
  m.norms_per_layer = 4;
  m.max_position_embeddings = w.window == 4096 ? 8192 : 131072;  // Gemma 2, Gemma 3
  model::SlidingWindow window{.window = w.window, .local = {}};
  for (int layer = 0; layer < m.layers; ++layer) window.local.push_back((layer + 1) % w.period != 0);
  m.sliding_window = window;
  return m;
}

inline EngineProfile engine(const char* text) {
  return *engine_profile(*parse_engine(text));
}

}  // namespace muster::cost::fixtures
