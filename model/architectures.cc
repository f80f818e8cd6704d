#include "architectures.h"

#include <algorithm>
#include <array>

namespace muster::model {
namespace {

constexpr std::array kArchitectures = {
    Architecture{.model_type = "llama"},
    Architecture{.model_type = "mistral"},
    Architecture{.model_type = "mistral3"},
    Architecture{.model_type = "ministral"},
    Architecture{.model_type = "mixtral"},
    Architecture{.model_type = "smollm3"},
    Architecture{.model_type = "granite"},
    Architecture{.model_type = "granitemoe"},
    Architecture{.model_type = "qwen2", .qkv_bias = true, .attention_bias_covers_output = false},
    Architecture{
        .model_type = "qwen2_moe", .qkv_bias = true, .attention_bias_covers_output = false, .shared_expert_gate = true},
    Architecture{.model_type = "qwen3", .qk_norm = true},
    Architecture{.model_type = "qwen3_moe", .qk_norm = true},
    Architecture{.model_type = "qwen3_next",
                 .qk_norm = true,
                 .shared_expert_gate = true,
                 .output_gate = true,
                 .rotary_fraction = 0.25},
    Architecture{.model_type = "qwen3_5", .qk_norm = true, .output_gate = true, .rotary_fraction = 0.25},
    Architecture{.model_type = "qwen3_5_moe",
                 .qk_norm = true,
                 .shared_expert_gate = true,
                 .output_gate = true,
                 .rotary_fraction = 0.25},
    Architecture{.model_type = "gemma", .tied = true},
    Architecture{.model_type = "gemma2", .tied = true, .norms_per_layer = 4},
    Architecture{.model_type = "gemma3", .qk_norm = true, .tied = true, .norms_per_layer = 4},
    Architecture{.model_type = "phi",
                 .qkv_bias = true,
                 .output_bias = true,
                 .mlp_bias = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .norms_per_layer = 1,
                 .head_bias = true,
                 .rotary_fraction = 0.5},
    Architecture{.model_type = "phi3"},
    Architecture{.model_type = "gpt_oss", .qkv_bias = true, .output_bias = true, .router_bias = true},
    Architecture{.model_type = "deepseek_v2"},
    Architecture{.model_type = "deepseek_v3", .router_bias = true},
    Architecture{.model_type = "deepseek_v32", .router_bias = true},
    Architecture{.model_type = "kimi_k2", .router_bias = true},
    Architecture{.model_type = "kimi_vl"},
    Architecture{.model_type = "kimi_k25"},
    Architecture{.model_type = "glm", .attention_bias_covers_output = false, .rotary_fraction = 0.5},
    Architecture{
        .model_type = "glm4", .attention_bias_covers_output = false, .norms_per_layer = 4, .rotary_fraction = 0.5},
    Architecture{
        .model_type = "glm4_moe", .attention_bias_covers_output = false, .router_bias = true, .rotary_fraction = 0.5},
    Architecture{.model_type = "glm_moe_dsa", .router_bias = true},
    Architecture{.model_type = "falcon", .tied = true, .gated_mlp = false, .norm_bias = true},
    Architecture{.model_type = "llama4"},
    Architecture{.model_type = "minimax_m2", .attention_bias_covers_output = false},
    Architecture{.model_type = "gpt2",
                 .qkv_bias = true,
                 .output_bias = true,
                 .mlp_bias = true,
                 .tied = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .rotary_fraction = 0,
                 .learned_positions = true},
    Architecture{.model_type = "opt",
                 .qkv_bias = true,
                 .output_bias = true,
                 .mlp_bias = true,
                 .tied = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .rotary_fraction = 0,
                 .position_offset = 2,
                 .learned_positions = true},
    Architecture{.model_type = "bloom",
                 .qkv_bias = true,
                 .output_bias = true,
                 .mlp_bias = true,
                 .tied = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .rotary_fraction = 0},
    Architecture{.model_type = "gptj",
                 .mlp_bias = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .norms_per_layer = 1,
                 .head_bias = true},
    Architecture{.model_type = "gpt_neox",
                 .qkv_bias = true,
                 .output_bias = true,
                 .mlp_bias = true,
                 .gated_mlp = false,
                 .norm_bias = true,
                 .rotary_fraction = 0.25},
};

constexpr std::array<std::string_view, 18> kRefused = {
    "bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "modernbert", "t5",           "mt5",
    "bart", "whisper", "clip",        "vit",        "mamba",  "mamba2",  "rwkv",       "falcon_mamba", "jamba"};

}  // namespace

const Architecture* find_architecture(std::string_view model_type) {
  const auto found = std::ranges::find(kArchitectures, model_type, &Architecture::model_type);
  return found != kArchitectures.end() ? &*found : nullptr;
}

bool is_refused_architecture(std::string_view model_type) {
  return std::ranges::find(kRefused, model_type) != kRefused.end();
}

}  // namespace muster::model
