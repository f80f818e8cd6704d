// What a Hugging Face config.json leaves out because the modelling code of its architecture fixes it.
#pragma once

#include <string_view>

namespace muster::model {

struct Architecture {
  std::string_view model_type;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool attention_bias_covers_output = true;  // what the config's attention_bias means
  bool qk_norm = false;
  bool tied = false;  // when the config is silent
  bool gated_mlp = true;
  bool norm_bias = false;
  int norms_per_layer = 2;
  bool head_bias = false;
  bool router_bias = false;
  bool shared_expert_gate = false;
  bool output_gate = false;
  double rotary_fraction = 1;
  int position_offset = 0;  // OPT keeps two rows more than max_position_embeddings
  bool learned_positions = false;
};

// nullptr: not known, to be read as Llama-like.
const Architecture* find_architecture(std::string_view model_type);

// Not decoder-only transformers: their tensors are others, so a Llama-like count would be plainly wrong.
bool is_refused_architecture(std::string_view model_type);

}  // namespace muster::model
