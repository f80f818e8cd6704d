#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "muster/model/catalogue.h"
#include "muster/model/spec.h"
#include "muster/model/tensors.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

// The fields of the public config.json files that matter here, and the catalogue entry they must agree with.
constexpr std::pair<const char*, const char*> kConfigs[] = {
    {"llama-3.1-70b", R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
      "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
      "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "torch_dtype": "bfloat16",
      "rope_scaling": {"factor": 8.0, "rope_type": "llama3", "original_max_position_embeddings": 8192}})"},
    {"llama-2-7b", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
      "num_hidden_layers": 32,
      "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096, "torch_dtype": "float16"})"},
    {"mistral-nemo-12b", R"({"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336,
      "head_dim": 128,
      "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072,
      "max_position_embeddings": 131072, "sliding_window": null, "torch_dtype": "bfloat16"})"},
    {"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768,
      "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null, "torch_dtype": "bfloat16"})"},
    {"qwen2.5-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
      "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
      "use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 28, "torch_dtype": "bfloat16"})"},
    {"qwen3-32b", R"({"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
      "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
      "attention_bias": false,
      "max_position_embeddings": 40960, "sliding_window": null, "torch_dtype": "bfloat16"})"},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 48,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128,
      "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
      "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})"},
    {"qwen3-next-80b-a3b", R"({"model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120,
      "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
      "vocab_size": 151936,
      "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128,
      "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "partial_rotary_factor": 0.25,
      "max_position_embeddings": 262144, "torch_dtype": "bfloat16"})"},
    {"qwen3.5-397b-a17b", R"({"model_type": "qwen3_5_moe", "vision_config": {"depth": 27}, "text_config": {
      "model_type": "qwen3_5_moe_text", "hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32,
      "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320, "num_experts": 512, "num_experts_per_tok": 10,
      "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "attn_output_gate": true,
      "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128,
      "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "max_position_embeddings": 262144,
      "dtype": "bfloat16",
      "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}})"},
    {"gemma-2-27b", R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864,
      "num_hidden_layers": 46,
      "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 256000,
      "sliding_window": 4096,
      "max_position_embeddings": 8192, "torch_dtype": "bfloat16"})"},
    {"gemma-3-27b", R"({"model_type": "gemma3", "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152},
      "text_config": {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
      "num_hidden_layers": 62,
      "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 262144,
      "sliding_window": 1024,
      "sliding_window_pattern": 6, "max_position_embeddings": 131072, "rope_scaling": {"factor": 8.0,
      "rope_type": "linear"}}})"},
    {"phi-4", R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40,
      "num_attention_heads": 40, "num_key_value_heads": 10, "vocab_size": 100352, "max_position_embeddings": 16384,
      "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"phi-2", R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
      "num_attention_heads": 32, "vocab_size": 51200, "max_position_embeddings": 2048, "partial_rotary_factor": 0.4,
      "torch_dtype": "float16"})"},
    {"gpt-oss-20b", R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
      "num_hidden_layers": 24,
      "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
      "attention_bias": true,
      "max_position_embeddings": 131072, "sliding_window": 128, "num_local_experts": 32, "num_experts_per_tok": 4,
      "rope_scaling": {"factor": 32.0, "rope_type": "yarn", "original_max_position_embeddings": 4096},
      "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
      "lm_head"]}})"},
    {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400,
      "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "topk_method": "greedy", "max_position_embeddings": 163840,
      "rope_scaling": {"factor": 40, "type": "yarn", "original_max_position_embeddings": 4096},
      "torch_dtype": "bfloat16"})"},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
      "num_hidden_layers": 61,
      "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "kv_lora_rank": 512,
      "q_lora_rank": 1536,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
      "n_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
      "topk_method": "noaux_tc", "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
      "rope_scaling": {"factor": 40, "type": "yarn", "original_max_position_embeddings": 4096},
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})"},
    {"kimi-k2.5", R"({"model_type": "kimi_k25", "vision_config": {}, "text_config": {"model_type": "kimi_k2",
      "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 64,
      "num_key_value_heads": 64, "vocab_size": 163840, "kv_lora_rank": 512, "q_lora_rank": 1536,
      "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 384, "n_shared_experts": 1,
      "num_experts_per_tok": 8,
      "moe_intermediate_size": 2048, "first_k_dense_replace": 1, "topk_method": "noaux_tc",
      "max_position_embeddings": 262144,
      "quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*"],
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "type": "int"}}}}}})"},
    {"glm-4.6", R"({"model_type": "glm4_moe", "hidden_size": 5120, "intermediate_size": 12288,
      "num_hidden_layers": 92,
      "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552,
      "attention_bias": true,
      "use_qk_norm": true, "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8,
      "dtype": "bfloat16",
      "moe_intermediate_size": 1536, "first_k_dense_replace": 3, "partial_rotary_factor": 0.5,
      "max_position_embeddings": 202752})"},
    {"glm-5", R"({"model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288,
      "num_hidden_layers": 78,
      "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 64, "vocab_size": 154880, "kv_lora_rank": 512,
      "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "index_n_heads": 32,
      "index_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
      "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "topk_method": "noaux_tc",
      "max_position_embeddings": 202752})"},
    {"falcon-180b", R"({"model_type": "falcon", "hidden_size": 14848, "num_hidden_layers": 80,
      "num_attention_heads": 232,
      "num_kv_heads": 8, "new_decoder_architecture": true, "parallel_attn": true, "multi_query": true, "bias": false,
      "alibi": false, "vocab_size": 65024, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"llama-4-maverick", R"({"model_type": "llama4", "vision_config": {}, "text_config": {"model_type": "llama4_text",
      "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_hidden_layers": 48,
      "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048,
      "use_qk_norm": false,
      "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_bias": false,
      "max_position_embeddings": 1048576, "torch_dtype": "bfloat16"}})"},
    {"minimax-m2.5", R"({"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536,
      "num_hidden_layers": 62,
      "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 200064, "rotary_dim": 64,
      "num_local_experts": 256, "num_experts_per_tok": 8, "use_qk_norm": true, "use_routing_bias": true,
      "max_position_embeddings": 196608, "tie_word_embeddings": false,
      "quantization_config": {"quant_method": "fp8"}})"},
    {"gpt-j-6b", R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048,
      "n_inner": null,
      "rotary_dim": 64, "vocab_size": 50400, "tie_word_embeddings": false, "torch_dtype": "float16"})"},
    {"bloom-176b", R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112,
      "vocab_size": 250880})"},
    {"smollm2-135m", R"({"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
      "num_hidden_layers": 30,
      "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
};

std::int64_t loaded_bytes(const ModelSpec& spec, Dtype dtype, int tp) {
  return weight_bytes_per_rank({.spec = &spec,
                                .dtype = dtype,
                                .tp = tp,
                                .ep = 1,
                                .first_layer = 0,
                                .layer_count = spec.layers,
                                .has_embedding = true,
                                .has_head = true})
      .value;
}

TEST(HuggingFaceConfig, AgreesWithTheCatalogue) {
  const Catalogue catalogue = Catalogue::built_in().value();
  for (const auto& [key, json] : kConfigs) {
    SCOPED_TRACE(key);
    const auto read = from_hugging_face_config(json, "config.json");
    ASSERT_TRUE(read) << read.error().message;
    ModelSpec known = catalogue.find(key).value();
    known.other_parameters = 0;  // the config describes the vision tower in other terms
    EXPECT_EQ(read->key, "config.json");
    EXPECT_EQ(parameter_count(*read), parameter_count(known));
    EXPECT_EQ(active_parameter_count(*read), active_parameter_count(known));
    EXPECT_EQ(kv_bytes_per_token(*read, Dtype::kBf16), kv_bytes_per_token(known, Dtype::kBf16));
    EXPECT_EQ(read->default_dtype, known.default_dtype);
    EXPECT_EQ(read->only_experts_quantised, known.only_experts_quantised);
    EXPECT_EQ(read->max_position_embeddings, known.max_position_embeddings);
    for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp8, known.default_dtype})
      EXPECT_EQ(loaded_bytes(*read, dtype, 2), loaded_bytes(known, dtype, 2)) << name(dtype);
    for (int layer = 0; layer < known.layers; ++layer) {
      EXPECT_EQ(read->is_local_layer(layer), known.is_local_layer(layer)) << layer;
      EXPECT_EQ(read->is_linear_layer(layer), known.is_linear_layer(layer)) << layer;
    }
  }
}

// Models outside the catalogue, by their published totals.
TEST(HuggingFaceConfig, OlderArchitectures) {
  const std::pair<std::int64_t, const char*> configs[] = {
      {124439808, R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
      "vocab_size": 50257})"},
      {125239296, R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
      "vocab_size": 50272,
        "num_attention_heads": 12, "max_position_embeddings": 2048, "word_embed_proj_dim": 768})"},
      {6857302016, R"({"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384,
      "num_hidden_layers": 32,
        "num_attention_heads": 32, "vocab_size": 50432, "max_position_embeddings": 2048,
      "tie_word_embeddings": false})"},
      {2506172416, R"({"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384,
      "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
      "max_position_embeddings": 8192})"},
      {14315784192, R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
      "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60,
      "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "max_position_embeddings": 8192})"},
  };
  for (const auto& [total, json] : configs) {
    const auto spec = from_hugging_face_config(json, "config.json");
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(parameter_count(*spec), total) << spec->family;
  }
}

constexpr std::string_view kMinimal = R"({"model_type": "MODEL", "hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512EXTRA})";

Result<ModelSpec> minimal(const std::string& model, const std::string& extra = "") {
  std::string text(kMinimal);
  text.replace(text.find("MODEL"), 5, model);
  text.replace(text.find("EXTRA"), 5, extra);
  return from_hugging_face_config(text, "config.json");
}

TEST(HuggingFaceConfig, UnknownArchitecturesAreReadAsLlamaLikeAndSaySo) {
  const auto spec = minimal("brand_new");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_THAT(spec->note, HasSubstr("Architecture brand_new is not known"));
  EXPECT_EQ(minimal("llama")->note, "");
  EXPECT_EQ(parameter_count(*spec), parameter_count(*minimal("llama")));
}

TEST(HuggingFaceConfig, QuantisationConfigs) {
  const auto dtype = [](const std::string& json) {
    return minimal("llama", ", \"quantization_config\": " + json)->default_dtype;
  };
  EXPECT_EQ(dtype(R"({"quant_method": "awq", "bits": 4, "group_size": 128})"), Dtype::kInt4);
  EXPECT_EQ(dtype(R"({"quant_method": "gptq", "bits": 8})"), Dtype::kInt8);
  EXPECT_EQ(dtype(R"({"quant_method": "fp8"})"), Dtype::kFp8);
  EXPECT_EQ(dtype(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"), Dtype::kFp4);
  EXPECT_EQ(dtype(R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false})"), Dtype::kInt4);
  EXPECT_EQ(dtype(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights":
    {"num_bits": 8, "type": "float"}}}})"),
            Dtype::kFp8);
  EXPECT_EQ(dtype(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights":
    {"num_bits": 8, "type": "int"}}}})"),
            Dtype::kInt8);
}

TEST(HuggingFaceConfig, ComplaintsNameTheField) {
  const auto message = [](std::string_view json) {
    const auto spec = from_hugging_face_config(json, "config.json");
    return spec ? std::string("accepted") : spec.error().message;
  };
  EXPECT_THAT(message("{}"),
              HasSubstr("config.json: field hidden_size is missing (nor is there any of n_embd, d_model)"));
  EXPECT_THAT(message(R"({"hidden_size": 64})"), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(message(R"({"hidden_size": "big"})"), HasSubstr("hidden_size"));
  EXPECT_THAT(message("[1]"), HasSubstr("config.json"));
  EXPECT_THAT(message("{\"a\""), HasSubstr("config.json:1"));
  EXPECT_THAT(message(R"({"model_type": "bert"})"), HasSubstr("architecture bert is not a decoder-only transformer"));
  EXPECT_THAT(message(R"({"model_type": "x", "is_encoder_decoder": true})"), HasSubstr("not a decoder-only"));
  EXPECT_THAT(minimal("llama", R"(, "num_key_value_heads": 3)").error().message,
              HasSubstr("not a multiple of kv_heads 3"));
  EXPECT_THAT(minimal("llama", R"(, "head_dim": -1)").error().message, HasSubstr("head_dim"));
  EXPECT_THAT(minimal("qwen3_moe", R"(, "num_experts": 8)").error().message, HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(from_hugging_face_config(R"({"hidden_size": 8, "num_hidden_layers": 99999, "vocab_size": 8,
    "max_position_embeddings": 8, "intermediate_size": 8, "num_attention_heads": 1,
      "layer_types": ["sliding_attention"],
    "sliding_window": 4})",
                                       "config.json")
                  .error()
                  .message,
              HasSubstr("layers is 99999"));
}

}  // namespace
}  // namespace muster::model
