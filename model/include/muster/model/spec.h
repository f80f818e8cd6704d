// What a model is: the dimensions of a decoder-only transformer, enough to count every tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  bool shared_expert_gate = false;    // Qwen: a learned scalar gate in front of the shared expert
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

// Sparse attention in front of MLA (DeepSeek V3.2, GLM-5): a small indexer scores the cached tokens and the attention
// reads only the best ones. The indexer keeps a cache of its own, one key of head_dim per token and layer.
struct SparseIndexer {
  int heads = 0;
  int head_dim = 0;
};

// Layers whose attention sees only the last `window` tokens.
struct SlidingWindow {
  int window = 0;                     // tokens
  std::vector<bool> local;            // [layers]; true: windowed
};

// Layers whose attention is linear (a state of constant size instead of a growing cache): the gated delta net of
// Qwen3-Next and Qwen3.5.
struct LinearAttention {
  std::vector<bool> linear;           // [layers]; true: no KV cache
  int key_heads = 0;
  int value_heads = 0;
  int key_head_dim = 0;
  int value_head_dim = 0;
  int conv_kernel = 0;                // taps of the causal convolution in front of the recurrence
  // Per sequence, over all ranks: the fp32 recurrent state and the 16-bit tail of the convolution. Follows from the
  // dimensions (linear_state_bytes); the readers fill it in.
  double state_bytes_per_layer = 0;
};
double linear_state_bytes(const LinearAttention& attention);

struct ModelSpec {
  std::string key;                    // catalogue key, or the file it came from
  std::string name;
  std::string family;
  int layers = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int attention_heads = 0;
  int kv_heads = 0;                   // of each attention layer; equals attention_heads for MHA; unused for MLA
  int head_dim = 0;                   // for MLA: qk_nope_head_dim + qk_rope_head_dim
  int vocab_size = 0;
  bool tied_embeddings = false;
  int max_position_embeddings = 0;    // tokens
  bool qkv_bias = false;
  bool output_bias = false;           // of the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;               // a norm over each query and key head
  bool qk_norm_whole = false;         // MiniMax, OLMo 2: that norm spans all heads, one weight per channel
  bool attention_sinks = false;       // one learned number per head (gpt-oss)
  bool attention_output_gate = false; // Qwen3-Next: q_proj also makes a gate, so that it is twice as wide
  bool gated_mlp = true;              // three matrices (SwiGLU and kin); false: two
  int norms_per_layer = 2;            // vectors of hidden_size; 4 for Gemma 2/3, 1 where attention and MLP share one
  bool norm_bias = false;             // LayerNorm (Falcon, BLOOM): each norm has a bias vector too
  bool embedding_norm = false;        // BLOOM: a norm right behind the embedding
  bool head_bias = false;             // GPT-J, Phi-2: the output head has a bias
  int learned_positions = 0;          // rows of a learned position embedding (GPT-2, OPT); 0: none
  double rotary_fraction = 1;         // part of head_dim that is rotated; 0: no rotary embedding. MLA: its rope part
  double rotary_tables = 1;           // sin/cos tables that engines keep, in units of max_position_embeddings rows;
                                      // 9 for Gemma 3 (one for local layers, one stretched by 8 for global ones)
  Dtype default_dtype = Dtype::kBf16; // of the published checkpoint
  bool only_experts_quantised = false;  // the published checkpoint is in default_dtype for experts, 16 bit for the rest
  int quantisation_group = 0;         // elements per scale in that checkpoint; 0: the usual of the format
  std::optional<Moe> moe;
  std::optional<Mla> mla;
  std::optional<SparseIndexer> sparse_indexer;
  std::optional<SlidingWindow> sliding_window;
  std::optional<LinearAttention> linear_attention;
  std::vector<std::string> sources;   // where the figures come from
  // Weights outside the decoder that are loaded with it, in 16 bit: vision tower and projector. Not in parameter_count.
  std::int64_t other_parameters = 0;
  std::string other_source;
  std::optional<std::int64_t> published_parameters;
  bool published_includes_other = false;  // the published total counts other_parameters too
  std::string published_source;
  std::string note;

  bool is_moe_layer(int layer) const;
  bool is_local_layer(int layer) const;   // sliding window
  bool is_linear_layer(int layer) const;  // no KV cache
};

// The local layers of a model in which every `global_every`-th layer sees the whole context (0: none does).
SlidingWindow sliding_window(int layers, int window, int global_every);
// The linear layers of a model in which every `full_every`-th layer has full attention.
std::vector<bool> linear_layers(int layers, int full_every);

// Fails, naming model and field, if a dimension is missing, negative, absurd or inconsistent.
Result<void> validate(const ModelSpec& spec);

// From the text of a Hugging Face config.json (also one that nests the language model under "text_config").
// `name` is used for messages and becomes the key. Fails naming the missing field, and for architectures that are not
// decoder-only transformers. An architecture that is not known is read with the usual field names; `note` then says so.
Result<ModelSpec> from_hugging_face_config(std::string_view json, const std::string& name);

}  // namespace muster::model
