#include "muster/model/catalogue.h"

#include <algorithm>
#include <filesystem>

#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster/files/lines.h"
#include "muster_model_data.h"

namespace muster::model {
namespace {

using files::MapReader;
using files::Node;

Result<Moe> read_moe(Node node) {
  Moe moe;
  MapReader read(node);
  read.required("experts", moe.experts);
  read.required("experts_per_token", moe.experts_per_token);
  read.required("expert_intermediate_size", moe.expert_intermediate_size);
  read.optional("shared_experts", moe.shared_experts);
  read.optional("shared_intermediate_size", moe.shared_intermediate_size);
  read.optional("shared_expert_gate", moe.shared_expert_gate);
  read.optional("first_dense_layers", moe.first_dense_layers);
  read.optional("layer_interval", moe.layer_interval);
  read.optional("router_bias", moe.router_bias);
  read.optional("expert_bias", moe.expert_bias);
  MUSTER_TRY_VOID(read.finish());
  return moe;
}

Result<Mla> read_mla(Node node) {
  Mla mla;
  MapReader read(node);
  read.optional("q_lora_rank", mla.q_lora_rank);
  read.required("kv_lora_rank", mla.kv_lora_rank);
  read.required("qk_nope_head_dim", mla.qk_nope_head_dim);
  read.required("qk_rope_head_dim", mla.qk_rope_head_dim);
  read.required("v_head_dim", mla.v_head_dim);
  MUSTER_TRY_VOID(read.finish());
  return mla;
}

Result<SparseIndexer> read_sparse_indexer(Node node) {
  SparseIndexer indexer;
  MapReader read(node);
  read.required("heads", indexer.heads);
  read.required("head_dim", indexer.head_dim);
  MUSTER_TRY_VOID(read.finish());
  return indexer;
}

// The number of layers bounds what the two readers below allocate.
Result<void> check_layers(const Node& node, const ModelSpec& spec) {
  if (spec.layers < 1 || spec.layers > 4096)
    return node.error(fmt::format("layers is {}; needed: 1 to 4096", spec.layers));
  return {};
}

Result<SlidingWindow> read_sliding_window(Node node, const ModelSpec& spec) {
  MUSTER_TRY_VOID(check_layers(node, spec));
  int window = 0, global_every = 0;
  MapReader read(node);
  read.required("window", window);
  read.optional("global_every", global_every);
  MUSTER_TRY_VOID(read.finish());
  return sliding_window(spec.layers, window, global_every);
}

Result<LinearAttention> read_linear_attention(Node node, const ModelSpec& spec) {
  MUSTER_TRY_VOID(check_layers(node, spec));
  LinearAttention linear;
  int full_every = 0;
  MapReader read(node);
  read.required("full_attention_every", full_every);
  read.required("key_heads", linear.key_heads);
  read.required("value_heads", linear.value_heads);
  read.required("key_head_dim", linear.key_head_dim);
  read.required("value_head_dim", linear.value_head_dim);
  read.required("conv_kernel", linear.conv_kernel);
  MUSTER_TRY_VOID(read.finish());
  linear.linear = linear_layers(spec.layers, full_every);
  linear.state_bytes_per_layer = linear_state_bytes(linear);
  return linear;
}

void read_dimensions(MapReader& read, ModelSpec& spec) {
  read.required("layers", spec.layers);
  read.required("hidden_size", spec.hidden_size);
  read.optional("intermediate_size", spec.intermediate_size);
  read.required("attention_heads", spec.attention_heads);
  spec.kv_heads = spec.attention_heads;
  read.optional("kv_heads", spec.kv_heads);
  read.required("head_dim", spec.head_dim);
  read.required("vocab_size", spec.vocab_size);
  read.optional("tied_embeddings", spec.tied_embeddings);
  read.required("max_position_embeddings", spec.max_position_embeddings);
  read.optional("learned_positions", spec.learned_positions);
  read.optional("qkv_bias", spec.qkv_bias);
  read.optional("output_bias", spec.output_bias);
  read.optional("mlp_bias", spec.mlp_bias);
  read.optional("qk_norm", spec.qk_norm);
  read.optional("qk_norm_whole", spec.qk_norm_whole);
  read.optional("attention_sinks", spec.attention_sinks);
  read.optional("attention_output_gate", spec.attention_output_gate);
  read.optional("gated_mlp", spec.gated_mlp);
  read.optional("norms_per_layer", spec.norms_per_layer);
  read.optional("norm_bias", spec.norm_bias);
  read.optional("embedding_norm", spec.embedding_norm);
  read.optional("head_bias", spec.head_bias);
  read.optional("rotary_fraction", spec.rotary_fraction);
  read.optional("rotary_tables", spec.rotary_tables);
}

Result<void> read_parts(MapReader& read, ModelSpec& spec) {
  if (const auto node = read.child("moe")) {
    MUSTER_TRY(spec.moe, read_moe(*node));
  }
  if (const auto node = read.child("mla")) {
    MUSTER_TRY(spec.mla, read_mla(*node));
  }
  if (const auto node = read.child("sparse_indexer")) {
    MUSTER_TRY(spec.sparse_indexer, read_sparse_indexer(*node));
  }
  if (const auto node = read.child("sliding_window")) {
    MUSTER_TRY(spec.sliding_window, read_sliding_window(*node, spec));
  }
  if (const auto node = read.child("linear_attention")) {
    MUSTER_TRY(spec.linear_attention, read_linear_attention(*node, spec));
  }
  return {};
}

Result<void> read_format(MapReader& read, ModelSpec& spec) {
  if (const auto node = read.child("default_dtype")) {
    MUSTER_TRY(const std::string text, node->text());
    const auto dtype = parse_dtype(text);
    if (!dtype)
      return node->error(
          fmt::format("{} is not a number format; needed: bf16, fp16, fp8, int8, int4, fp4 or fp32", text));
    spec.default_dtype = *dtype;
  }
  if (const auto node = read.child("quantised")) {
    MUSTER_TRY(const std::string text, node->text());
    if (text != "experts" && text != "linear")
      return node->error(fmt::format("{} found; needed: linear or experts", text));
    spec.only_experts_quantised = text == "experts";
  }
  read.optional("quantisation_group", spec.quantisation_group);
  return {};
}

Result<ModelSpec> read_model(const Node& node) {
  ModelSpec spec;
  MapReader read(node);
  read.required("key", spec.key);
  read.required("name", spec.name);
  read.optional("family", spec.family);
  read_dimensions(read, spec);
  if (!read.ok()) {
    MUSTER_TRY_VOID(read.finish());
  }
  MUSTER_TRY_VOID(read_format(read, spec));
  MUSTER_TRY_VOID(read_parts(read, spec));
  read.optional("other_parameters", spec.other_parameters);
  read.optional("other_source", spec.other_source);
  std::int64_t published = 0;
  read.optional("published_parameters", published);
  if (published > 0) spec.published_parameters = published;
  read.optional("published_includes_other", spec.published_includes_other);
  read.optional("published_source", spec.published_source);
  read.optional("note", spec.note);
  read.required("sources", spec.sources);
  MUSTER_TRY_VOID(read.finish());
  if (auto valid = validate(spec); !valid) return node.error(valid.error().message);
  return spec;
}

// Muster's own format, or a Hugging Face config.json (which has no `layers`).
Result<ModelSpec> read_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? (fs::path(path) / "config.json").string() : path;
  if (file.ends_with(".gguf"))
    return fail("{}: a GGUF file does not carry all dimensions in one place; give the config.json of the model instead",
                file);
  MUSTER_TRY(const std::string text, files::read_file(file));
  MUSTER_TRY(const Node node, files::parse_document(text, file));
  if (node.is_map() && node.find("layers") && node.find("sources")) return read_model(node);
  return from_hugging_face_config(text, file);
}

}  // namespace

Result<Catalogue> Catalogue::built_in() {
  Catalogue out;
  for (const embedded::File& file : embedded_files()) {
    MUSTER_TRY(const Node node, files::parse_document(file.content, std::string(file.name)));
    MUSTER_TRY(ModelSpec spec, read_model(node));
    out.models_.push_back(std::move(spec));
  }
  std::ranges::sort(out.models_, {}, &ModelSpec::key);
  return out;
}

Result<void> Catalogue::add_file(const std::string& path) {
  MUSTER_TRY(ModelSpec spec, read_file(path));
  // A config.json has no key of its own: its file name is the key, or its folder when it is called just config.json.
  const std::filesystem::path file(path);
  if (spec.key == path) spec.key = (file.stem() == "config" ? file.parent_path().filename() : file.stem()).string();
  const auto at = std::ranges::lower_bound(models_, spec.key, {}, &ModelSpec::key);
  if (at != models_.end() && at->key == spec.key)
    *at = std::move(spec);
  else
    models_.insert(at, std::move(spec));
  return {};
}

std::vector<std::string> Catalogue::keys() const {
  std::vector<std::string> out;
  out.reserve(models_.size());
  for (const ModelSpec& spec : models_) out.push_back(spec.key);
  return out;
}

Result<ModelSpec> Catalogue::find(const std::string& what) const {
  const auto at = std::ranges::lower_bound(models_, what, {}, &ModelSpec::key);
  if (at != models_.end() && at->key == what) return *at;
  std::error_code ignored;
  const bool looks_like_a_path = what.find('/') != std::string::npos || what.ends_with(".json") ||
                                 what.ends_with(".yaml") || what.ends_with(".gguf");
  if (looks_like_a_path || std::filesystem::exists(what, ignored)) {
    if (std::filesystem::exists(what, ignored)) return read_file(what);
    const std::vector<std::string> known = keys();
    // "meta-llama/Llama-3.1-70B": the part behind the slash is often close to a key.
    const std::string last = what.substr(what.find_last_of('/') + 1);
    return fail("model {}: no such file{}", what, did_you_mean(last, known));
  }
  return fail(
      "model {} is not in the catalogue{}; `muster catalog list models` lists them, a path to a config.json works too",
      what, did_you_mean(what, keys()));
}

}  // namespace muster::model
