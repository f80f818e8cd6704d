// What a model is: the dimensions of a decoder-only transformer, enough to count every tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/model/dtype.h"

namespace muster::model {

// Mixture of experts. Layers that are not MoE layers have a dense MLP of ModelSpec::intermediate_size.
struct Moe {
  int experts = 0;
  int experts_per_token = 0;
  int expert_intermediate_size = 0;
  int shared_experts = 0;             // always-on experts
  int shared_intermediate_size = 0;   // total width of the shared experts; 0 when there are none
  int first_dense_layers = 0;         // DeepSeek: the first k layers are dense
  int layer_interval = 1;             // Llama 4 Maverick: every second layer is MoE (the last of each interval)
  bool router_bias = false;           // gpt-oss, and DeepSeek's correction bias
  bool expert_bias = false;           // gpt-oss
};

// Multi-head latent attention (DeepSeek): the cache holds kv_lora_rank + qk_rope_head_dim numbers per token and layer.
struct Mla {
  int q_lora_rank = 0;                // 0: q is projected directly
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
};

// Layers whose attention sees only the last `window` tokens.
struct SlidingWindow {
  int window = 0;                     // tokens
  std::vector<bool> local;            // [layers]; true: windowed
};

// Layers whose attention is linear (a state of constant size instead of a growing cache), as in Qwen3.5.
struct LinearAttention {
  std::vector<bool> linear;           // [layers]; true: no KV cache
  double parameters_per_layer = 0;    // 0: counted like a full-attention layer
  double state_bytes_per_layer = 0;   // per sequence
};

struct ModelSpec {
  std::string key;                    // catalogue key, or the file it came from
  std::string name;
  std::string family;
  int layers = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int attention_heads = 0;
  int kv_heads = 0;                   // of each attention layer; equals attention_heads for MHA; unused for MLA
  int head_dim = 0;
  int vocab_size = 0;
  bool tied_embeddings = false;
  int max_position_embeddings = 0;    // tokens
  bool qkv_bias = false;
  bool output_bias = false;           // of the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;
  bool attention_sinks = false;       // one learned number per head (gpt-oss)
  bool gated_mlp = true;              // three matrices (SwiGLU and kin); false: two
  int norms_per_layer = 2;            // RMSNorm vectors of hidden_size; 4 for Gemma 2/3, 1 for Falcon with one shared norm
  bool norm_bias = false;             // LayerNorm (Falcon, BLOOM): each norm has a bias vector too
  Dtype default_dtype = Dtype::kBf16; // of the published checkpoint
  std::optional<Moe> moe;
  std::optional<Mla> mla;
  std::optional<SlidingWindow> sliding_window;
  std::optional<LinearAttention> linear_attention;
  std::vector<std::string> sources;   // where the figures come from
  std::optional<std::int64_t> published_parameters;
  std::string published_source;
  std::string note;

  bool is_moe_layer(int layer) const;
  bool is_local_layer(int layer) const;   // sliding window
  bool is_linear_layer(int layer) const;  // no KV cache
};

// Fails, naming model and field, if a dimension is missing, negative, absurd or inconsistent.
Result<void> validate(const ModelSpec& spec);

// From the text of a Hugging Face config.json (also one that nests the language model under "text_config").
// `name` is used for messages and becomes the key. Fails naming the missing field or the unknown architecture.
Result<ModelSpec> from_hugging_face_config(std::string_view json, const std::string& name);

}  // namespace muster::model
