// Reads the config.json of Hugging Face transformers. Field names and defaults are those of the public configuration
// classes (transformers, src/transformers/models/*/configuration_*.py).
#include <algorithm>
#include <initializer_list>

#include "architectures.h"
#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster/model/spec.h"

namespace muster::model {
namespace {

using files::Node;

// The config, with the language model's part first where it is nested.
class Config {
 public:
  Config(Node root, std::string name) : root_(root), text_(root), name_(std::move(name)) {
    for (const char* key : {"text_config", "llm_config", "language_config"})
      if (const auto nested = root.find(key); nested && nested->is_map()) text_ = *nested;
  }

  const std::string& name() const { return name_; }

  std::optional<Node> find(std::string_view key) const {
    if (auto found = text_.find(key)) return found;
    return root_.find(key);
  }
  std::optional<Node> language(std::string_view key) const { return text_.find(key); }
  std::optional<Node> root(std::string_view key) const { return root_.find(key); }

  // The first of several names of one field; `fallback` when none is there.
  Result<std::int64_t> integer(std::initializer_list<std::string_view> keys,
                               std::optional<std::int64_t> fallback) const {
    for (const std::string_view key : keys)
      if (const auto node = find(key)) return node->integer();
    if (fallback) return *fallback;
    const std::string_view first = *keys.begin();
    std::string others;
    for (auto key = keys.begin() + 1; key != keys.end(); ++key)
      others += fmt::format("{}{}", others.empty() ? "" : ", ", *key);
    if (others.empty()) return fail("{}: field {} is missing", name_, first);
    return fail("{}: field {} is missing (nor is there any of {})", name_, first, others);
  }
  Result<bool> boolean(std::initializer_list<std::string_view> keys, bool fallback) const {
    for (const std::string_view key : keys)
      if (const auto node = find(key)) return node->boolean();
    return fallback;
  }
  Result<double> number(std::initializer_list<std::string_view> keys, double fallback) const {
    for (const std::string_view key : keys)
      if (const auto node = find(key)) return node->number();
    return fallback;
  }

 private:
  Node root_, text_;
  std::string name_;
};

// int fields of a config, range-checked: nonsense is refused by validate(), but must get there unharmed.
Result<void> read_int(const Config& config, std::initializer_list<std::string_view> keys,
                      std::optional<std::int64_t> fallback, int& out) {
  MUSTER_TRY(const std::int64_t value, config.integer(keys, fallback));
  if (value < 0 || value > (1 << 30))
    return fail("{}: {} is {}; needed: 0 to {}", config.name(), *keys.begin(), value, 1 << 30);
  out = static_cast<int>(value);
  return {};
}

Result<std::string> model_type(const Config& config, const Node& root) {
  std::string type;
  if (const auto node = config.language("model_type")) {
    MUSTER_TRY(type, node->text());
  } else if (const auto outer = root.find("model_type")) {
    MUSTER_TRY(type, outer->text());
  }
  for (const std::string_view suffix : {"_text", "_language"})
    if (type.ends_with(suffix)) type.resize(type.size() - suffix.size());
  if (type == "deepseek_vl_v2" || type == "kimi_linear")
    return fail("{}: architecture {} is not supported", config.name(), type);
  if (type == "minimax") type = "minimax_m2";
  if (type.starts_with("Refined"))
    type = "falcon";  // RefinedWeb, RefinedWebModel: Falcon before it was in transformers
  return type;
}

Result<void> read_quantisation(const Config& config, ModelSpec& spec) {
  for (const char* key : {"torch_dtype", "dtype"})
    if (const auto node = config.find(key)) {
      MUSTER_TRY(const std::string text, node->text());
      if (const auto dtype = parse_dtype(text)) spec.default_dtype = *dtype;
    }
  const auto quantisation = config.find("quantization_config");
  if (!quantisation || !quantisation->is_map()) return {};
  std::string method;
  if (const auto node = quantisation->find("quant_method")) {
    MUSTER_TRY(method, node->text());
  }
  if (const auto node = quantisation->find("quant_algo")) {  // ModelOpt: FP8, NVFP4, W4A16_AWQ
    MUSTER_TRY(const std::string text, node->text());
    method = lower(text);
  }
  std::int64_t bits = 0;
  std::string kind = "int";
  Node scheme = *quantisation;
  if (const auto groups = quantisation->find("config_groups"))  // compressed-tensors
    for (const auto& [group_name, group] : groups->entries())
      if (const auto weights = group.find("weights")) scheme = *weights;
  for (const char* key : {"num_bits", "bits", "w_bit"})
    if (const auto node = scheme.find(key)) {
      MUSTER_TRY(bits, node->integer());
    }
  if (const auto node = scheme.find("type")) {
    MUSTER_TRY(kind, node->text());
  }
  if (const auto node = scheme.find("group_size")) {
    MUSTER_TRY(const std::int64_t group, node->integer());
    if (group > 0) spec.quantisation_group = static_cast<int>(std::min<std::int64_t>(group, 1 << 20));
  }
  const auto flag = [&](const char* key) {
    const auto node = quantisation->find(key);
    return node && node->boolean().value_or(false);
  };
  if (method.find("fp4") != std::string::npos)
    spec.default_dtype = Dtype::kFp4;
  else if (method.find("fp8") != std::string::npos || method == "fbgemm_fp8" || (bits == 8 && kind == "float"))
    spec.default_dtype = Dtype::kFp8;
  else if (bits == 8 || flag("load_in_8bit"))
    spec.default_dtype = Dtype::kInt8;
  else if (bits == 4 && kind == "float")
    spec.default_dtype = Dtype::kFp4;
  else if (bits == 4 || flag("load_in_4bit") || method == "awq" || method == "gptq")
    spec.default_dtype = Dtype::kInt4;
  // Checkpoints that leave attention in 16 bit quantise their experts only (gpt-oss, Kimi K2.5).
  for (const char* key : {"ignore", "modules_to_not_convert", "ignored_layers"})
    if (const auto list = quantisation->find(key))
      for (const Node& item : list->items()) {
        const std::string text = item.text().value_or("");
        if (text.find("self_attn") != std::string::npos && spec.moe) spec.only_experts_quantised = true;
      }
  if (method == "mxfp4" && spec.moe) spec.only_experts_quantised = true;
  return {};
}

Result<void> read_moe(const Config& config, const std::string& type, const Architecture& architecture,
                      ModelSpec& spec) {
  Moe moe;
  MUSTER_TRY_VOID(
      read_int(config, {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"}, 0, moe.experts));
  if (moe.experts <= 1) return {};
  MUSTER_TRY_VOID(read_int(
      config,
      {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", "top_k_experts"}, {},
      moe.experts_per_token));
  MUSTER_TRY_VOID(read_int(config, {"moe_intermediate_size", "intermediate_size"}, {}, moe.expert_intermediate_size));
  MUSTER_TRY_VOID(read_int(config, {"first_k_dense_replace"}, 0, moe.first_dense_layers));
  MUSTER_TRY_VOID(
      read_int(config, {"interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"}, 1, moe.layer_interval));
  if (const auto dense = config.find("mlp_only_layers"))
    for (const Node& item : dense->items()) {
      MUSTER_TRY(const std::int64_t layer, item.integer());
      if (layer != moe.first_dense_layers)
        return item.error("dense layers other than the first ones are not supported");
      ++moe.first_dense_layers;
    }
  if (type == "llama4") {
    moe.shared_experts = 1;
    moe.shared_intermediate_size = moe.expert_intermediate_size;
    MUSTER_TRY_VOID(read_int(config, {"intermediate_size_mlp"}, {}, spec.intermediate_size));
  } else {
    int shared_width = 0;
    MUSTER_TRY_VOID(read_int(config, {"n_shared_experts", "num_shared_experts"}, 0, moe.shared_experts));
    MUSTER_TRY_VOID(read_int(config, {"shared_expert_intermediate_size", "shared_intermediate_size"}, 0, shared_width));
    if (shared_width > 0) moe.shared_experts = std::max(1, moe.shared_experts);
    moe.shared_intermediate_size = shared_width > 0 ? shared_width : moe.shared_experts * moe.expert_intermediate_size;
  }
  moe.shared_expert_gate = architecture.shared_expert_gate && moe.shared_experts > 0;
  MUSTER_TRY(moe.router_bias, config.boolean({"use_routing_bias"}, architecture.router_bias));
  if (const auto method = config.find("topk_method")) moe.router_bias = method->text().value_or("") == "noaux_tc";
  moe.expert_bias = type == "gpt_oss";
  spec.moe = moe;
  return {};
}

Result<void> read_mla(const Config& config, ModelSpec& spec) {
  if (!config.find("kv_lora_rank")) return {};
  Mla mla;
  MUSTER_TRY_VOID(read_int(config, {"q_lora_rank"}, 0, mla.q_lora_rank));
  MUSTER_TRY_VOID(read_int(config, {"kv_lora_rank"}, {}, mla.kv_lora_rank));
  MUSTER_TRY_VOID(read_int(config, {"qk_nope_head_dim"}, {}, mla.qk_nope_head_dim));
  MUSTER_TRY_VOID(read_int(config, {"qk_rope_head_dim"}, {}, mla.qk_rope_head_dim));
  MUSTER_TRY_VOID(read_int(config, {"v_head_dim"}, {}, mla.v_head_dim));
  spec.mla = mla;
  spec.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  SparseIndexer indexer;
  MUSTER_TRY_VOID(read_int(config, {"index_n_heads"}, 0, indexer.heads));
  MUSTER_TRY_VOID(read_int(config, {"index_head_dim"}, 0, indexer.head_dim));
  if (indexer.heads > 0 && indexer.head_dim > 0) spec.sparse_indexer = indexer;
  return {};
}

Result<void> read_linear_attention(const Config& config, ModelSpec& spec) {
  if (!config.find("linear_num_value_heads")) return {};
  LinearAttention linear;
  MUSTER_TRY_VOID(read_int(config, {"linear_num_key_heads"}, {}, linear.key_heads));
  MUSTER_TRY_VOID(read_int(config, {"linear_num_value_heads"}, {}, linear.value_heads));
  MUSTER_TRY_VOID(read_int(config, {"linear_key_head_dim"}, {}, linear.key_head_dim));
  MUSTER_TRY_VOID(read_int(config, {"linear_value_head_dim"}, {}, linear.value_head_dim));
  MUSTER_TRY_VOID(read_int(config, {"linear_conv_kernel_dim"}, 4, linear.conv_kernel));
  int every = 0;
  MUSTER_TRY_VOID(read_int(config, {"full_attention_interval"}, 4, every));
  linear.linear = linear_layers(spec.layers, every);
  if (const auto types = config.find("layer_types"); types && types->is_list()) {
    linear.linear.clear();
    for (const Node& item : types->items()) linear.linear.push_back(item.text().value_or("") == "linear_attention");
  }
  linear.state_bytes_per_layer = linear_state_bytes(linear);
  spec.linear_attention = std::move(linear);
  return {};
}

// Layers with a window: named one by one (layer_types), by a pattern, or all of them.
Result<void> read_sliding_window(const Config& config, const std::string& type, ModelSpec& spec) {
  int window = 0;
  MUSTER_TRY_VOID(read_int(config, {"sliding_window"}, 0, window));
  if (window <= 0 || window >= spec.max_position_embeddings) return {};
  if (const auto types = config.find("layer_types"); types && types->is_list()) {
    SlidingWindow out{.window = window, .local = {}};
    for (const Node& item : types->items()) out.local.push_back(item.text().value_or("") == "sliding_attention");
    if (std::ranges::find(out.local, true) != out.local.end()) spec.sliding_window = std::move(out);
    return {};
  }
  int global_every = 0;
  if (type == "gemma2" || type == "gpt_oss") global_every = 2;
  if (type == "gemma3") global_every = 6;
  MUSTER_TRY_VOID(read_int(config, {"sliding_window_pattern", "_sliding_window_pattern"}, global_every, global_every));
  if (type.starts_with("qwen")) {  // only with use_sliding_window, and then only from max_window_layers on
    MUSTER_TRY(const bool used, config.boolean({"use_sliding_window"}, false));
    if (!used) return {};
    int first = 0;
    MUSTER_TRY_VOID(read_int(config, {"max_window_layers"}, 28, first));
    SlidingWindow out{.window = window, .local = std::vector<bool>(static_cast<std::size_t>(spec.layers), false)};
    for (int layer = first; layer < spec.layers; ++layer) out.local[static_cast<std::size_t>(layer)] = true;
    if (first < spec.layers) spec.sliding_window = std::move(out);
    return {};
  }
  spec.sliding_window = sliding_window(spec.layers, window, global_every);
  return {};
}

Result<void> read_rotary(const Config& config, const std::string& type, const Architecture& architecture,
                         ModelSpec& spec) {
  MUSTER_TRY(spec.rotary_fraction,
             config.number({"partial_rotary_factor", "rotary_pct"}, architecture.rotary_fraction));
  if (type == "gptj" || type == "minimax_m2") {
    int rotary_dim = 0;
    MUSTER_TRY_VOID(read_int(config, {"rotary_dim"}, spec.head_dim, rotary_dim));
    spec.rotary_fraction = std::min(1.0, static_cast<double>(rotary_dim) / std::max(1, spec.head_dim));
  }
  MUSTER_TRY(const bool alibi, config.boolean({"alibi"}, false));
  if (alibi) spec.rotary_fraction = 0;
  double factor = 1, original = 0;
  std::string kind;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto scaling = config.find(key);
    if (!scaling || !scaling->is_map()) continue;
    for (const char* field : {"type", "rope_type"})
      if (const auto node = scaling->find(field)) kind = node->text().value_or("");
    if (const auto node = scaling->find("factor")) factor = node->number().value_or(1);
    if (const auto node = scaling->find("original_max_position_embeddings")) original = node->number().value_or(0);
    if (const auto node = scaling->find("partial_rotary_factor")) spec.rotary_fraction = node->number().value_or(1);
  }
  // Engines build their tables for the stretched context: max x factor for linear scaling, original x factor for YaRN.
  if (kind == "linear") spec.rotary_tables = factor;
  if (kind == "yarn" || kind == "deepseek_yarn") {
    const double rows = (original > 0 ? original : spec.max_position_embeddings) * factor;
    spec.rotary_tables = rows / std::max(1, spec.max_position_embeddings);
  }
  if (type == "gemma3") spec.rotary_tables += 1;  // local layers have a table of their own, not stretched
  return {};
}

Result<void> read_falcon(const Config& config, ModelSpec& spec) {
  MUSTER_TRY(const bool new_decoder, config.boolean({"new_decoder_architecture"}, false));
  MUSTER_TRY(const bool multi_query, config.boolean({"multi_query"}, true));
  MUSTER_TRY(const bool parallel, config.boolean({"parallel_attn"}, true));
  MUSTER_TRY(const bool bias, config.boolean({"bias"}, false));
  if (new_decoder)
    MUSTER_TRY_VOID(read_int(config, {"num_kv_heads", "n_head_kv"}, spec.attention_heads, spec.kv_heads));
  else
    spec.kv_heads = multi_query ? 1 : spec.attention_heads;
  int parallel_norms = 0;
  MUSTER_TRY_VOID(read_int(config, {"num_ln_in_parallel_attn"}, new_decoder ? 2 : 1, parallel_norms));
  spec.norms_per_layer = parallel || new_decoder ? parallel_norms : 2;
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = bias;
  return {};
}

Result<void> read_attention(const Config& config, const std::string& type, const Architecture& architecture,
                            ModelSpec& spec) {
  MUSTER_TRY_VOID(read_int(config, {"num_attention_heads", "n_head", "num_heads"}, {}, spec.attention_heads));
  MUSTER_TRY_VOID(read_int(config, {"num_key_value_heads", "num_kv_heads", "multi_query_group_num"},
                           spec.attention_heads, spec.kv_heads));
  if (spec.attention_heads < 1)
    return fail("{}: num_attention_heads is {}; needed: at least 1", config.name(), spec.attention_heads);
  MUSTER_TRY_VOID(
      read_int(config, {"head_dim", "kv_channels"}, spec.hidden_size / spec.attention_heads, spec.head_dim));
  spec.qkv_bias = architecture.qkv_bias;
  spec.output_bias = architecture.output_bias;
  for (const char* key : {"attention_bias", "qkv_bias", "add_qkv_bias"})
    if (const auto node = config.language(key)) {
      MUSTER_TRY(spec.qkv_bias, node->boolean());
      spec.output_bias =
          spec.qkv_bias && std::string_view(key) == "attention_bias" && architecture.attention_bias_covers_output;
    }
  MUSTER_TRY(spec.qk_norm, config.boolean({"use_qk_norm"}, architecture.qk_norm));
  if (type == "llama4") spec.qk_norm = false;  // a norm without weights
  spec.qk_norm_whole = type == "minimax_m2";
  spec.attention_sinks = type == "gpt_oss";
  MUSTER_TRY(spec.attention_output_gate, config.boolean({"attn_output_gate"}, architecture.output_gate));
  MUSTER_TRY_VOID(read_mla(config, spec));
  return {};
}

Result<ModelSpec> read_config(const Config& config, const std::string& type, const Architecture& architecture) {
  ModelSpec spec;
  spec.key = spec.name = config.name();
  spec.family = type;
  MUSTER_TRY_VOID(read_int(config, {"hidden_size", "n_embd", "d_model"}, {}, spec.hidden_size));
  MUSTER_TRY_VOID(read_int(config, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}, {}, spec.layers));
  if (spec.layers < 1 || spec.layers > 4096)  // before anything is made per layer
    return fail("{}: num_hidden_layers is {}; needed: 1 to 4096", config.name(), spec.layers);
  MUSTER_TRY_VOID(read_int(config, {"vocab_size", "padded_vocab_size"}, {}, spec.vocab_size));
  // BLOOM and Falcon leave out what their code fixes: a context of 2048 and an MLP of four times the hidden size.
  const bool older = type == "falcon" || type == "bloom" || type == "gpt2" || type == "gptj";
  MUSTER_TRY_VOID(read_int(
      config,
      {"max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx", "model_max_length"},
      older ? std::optional<std::int64_t>(2048) : std::nullopt, spec.max_position_embeddings));
  const bool moe_only = config.find("moe_intermediate_size").has_value();
  MUSTER_TRY_VOID(read_int(config, {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"},
                           older      ? std::optional<std::int64_t>(4 * std::int64_t{spec.hidden_size})
                           : moe_only ? std::optional<std::int64_t>(0)
                                      : std::nullopt,
                           spec.intermediate_size));
  MUSTER_TRY_VOID(read_attention(config, type, architecture, spec));
  MUSTER_TRY(spec.mlp_bias, config.boolean({"mlp_bias"}, architecture.mlp_bias));
  spec.gated_mlp = architecture.gated_mlp;
  spec.norms_per_layer = architecture.norms_per_layer;
  spec.norm_bias = architecture.norm_bias;
  spec.head_bias = architecture.head_bias;
  spec.embedding_norm = type == "bloom";
  MUSTER_TRY(spec.tied_embeddings, config.boolean({"tie_word_embeddings"}, architecture.tied));
  if (architecture.learned_positions)
    spec.learned_positions = spec.max_position_embeddings + architecture.position_offset;
  if (type == "falcon") MUSTER_TRY_VOID(read_falcon(config, spec));
  if (type == "opt") {
    int projection = 0;
    MUSTER_TRY_VOID(read_int(config, {"word_embed_proj_dim"}, spec.hidden_size, projection));
    if (projection != spec.hidden_size)
      return fail("{}: word_embed_proj_dim is {}; needed: hidden_size = {}", config.name(), projection,
                  spec.hidden_size);
  }
  MUSTER_TRY_VOID(read_moe(config, type, architecture, spec));
  MUSTER_TRY_VOID(read_rotary(config, type, architecture, spec));
  MUSTER_TRY_VOID(read_sliding_window(config, type, spec));
  MUSTER_TRY_VOID(read_linear_attention(config, spec));
  MUSTER_TRY_VOID(read_quantisation(config, spec));
  return spec;
}

}  // namespace

Result<ModelSpec> from_hugging_face_config(std::string_view json, const std::string& name) {
  MUSTER_TRY(const Node root, files::parse_document(json, name));
  if (!root.is_map()) return root.error("needed: the object of a Hugging Face config.json");
  const Config config(root, name);
  MUSTER_TRY(const std::string type, model_type(config, root));
  MUSTER_TRY(const bool two_parts, config.boolean({"is_encoder_decoder"}, false));
  if (two_parts || is_refused_architecture(type))
    return fail("{}: architecture {} is not a decoder-only transformer, so its memory and speed cannot be predicted",
                name, type);

  const Architecture* known = find_architecture(type);
  MUSTER_TRY(ModelSpec spec, read_config(config, type, known ? *known : Architecture{}));
  spec.sources = {name};
  if (!known)
    spec.note = type.empty() ? "No model_type given: assumed to be Llama-like."
                             : fmt::format("Architecture {} is not known: assumed to be Llama-like.", type);
  if (config.root("vision_config"))
    spec.note += fmt::format("{}The vision part is not counted.", spec.note.empty() ? "" : " ");
  MUSTER_TRY_VOID(validate(spec));
  return spec;
}

}  // namespace muster::model
