#include "muster/model/tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/core/check.h"

namespace muster::model {
namespace {

using std::int64_t;

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Collects the tensors of one block. `in` and `out` are widths of a linear layer; `units` says what of it stays
// together.
class Collector {
 public:
  // A weight that quantised checkpoints store in low precision.
  void linear(std::string_view name, std::string_view fused, Shard shard, int64_t units, int64_t elements) {
    tensors_.push_back({name, fused, shard, elements, units, true});
  }
  void plain(std::string_view name, Shard shard, int64_t units, int64_t elements) {
    tensors_.push_back({name, name, shard, elements, units, false});
  }
  void replicated(std::string_view name, int64_t elements) { plain(name, Shard::kReplicated, 1, elements); }
  std::vector<Tensor> take() { return std::move(tensors_); }

 private:
  std::vector<Tensor> tensors_;
};

void add_sparse_indexer(const ModelSpec& spec, Collector& out) {
  if (!spec.sparse_indexer) return;
  const int64_t heads = spec.sparse_indexer->heads, dim = spec.sparse_indexer->head_dim;
  const int64_t query_input = spec.mla->q_lora_rank > 0 ? spec.mla->q_lora_rank : spec.hidden_size;
  out.linear("indexer.wq_b", "indexer.wq_b", Shard::kReplicated, 1, query_input * heads * dim);
  out.linear("indexer.wk", "indexer.wk", Shard::kReplicated, 1, spec.hidden_size * dim);
  out.replicated("indexer.k_norm", 2 * dim);  // LayerNorm: weight and bias
  out.replicated("indexer.weights_proj", spec.hidden_size * heads);
}

// DeepSeek-V2 (arXiv 2405.04434), section 2.1: down-projections are small and whole on every rank, up-projections are
// divided by head.
void add_mla(const ModelSpec& spec, Collector& out) {
  const Mla& mla = *spec.mla;
  const int64_t hidden = spec.hidden_size, heads = spec.attention_heads;
  const int64_t qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  if (mla.q_lora_rank > 0) {
    out.linear("q_a_proj", "fused_qkv_a_proj", Shard::kReplicated, 1, hidden * mla.q_lora_rank);
    out.linear("kv_a_proj_with_mqa", "fused_qkv_a_proj", Shard::kReplicated, 1,
               hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim));
    out.replicated("q_a_layernorm", mla.q_lora_rank);
    out.linear("q_b_proj", "q_b_proj", Shard::kHeads, heads, mla.q_lora_rank * heads * qk);
  } else {
    out.linear("q_proj", "q_proj", Shard::kHeads, heads, hidden * heads * qk);
    out.linear("kv_a_proj_with_mqa", "kv_a_proj_with_mqa", Shard::kReplicated, 1,
               hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim));
  }
  out.replicated("kv_a_layernorm", mla.kv_lora_rank);
  out.linear("kv_b_proj", "kv_b_proj", Shard::kHeads, heads,
             mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim));
  out.linear("o_proj", "o_proj", Shard::kHeads, heads, heads * mla.v_head_dim * hidden);
  add_sparse_indexer(spec, out);
}

// Gated delta net as in Qwen3-Next: q, k, v and the gate z in one projection, b and a (decay) in another.
void add_linear_attention(const ModelSpec& spec, Collector& out) {
  const LinearAttention& linear = *spec.linear_attention;
  const int64_t hidden = spec.hidden_size, units = linear.key_heads;
  const int64_t keys = int64_t{linear.key_heads} * linear.key_head_dim;
  const int64_t values = int64_t{linear.value_heads} * linear.value_head_dim;
  out.linear("in_proj_qkvz", "in_proj_qkvz", Shard::kHeads, units, hidden * (2 * keys + 2 * values));
  out.plain("in_proj_ba", Shard::kHeads, units, hidden * 2 * linear.value_heads);
  out.plain("conv1d", Shard::kHeads, units, (2 * keys + values) * linear.conv_kernel);
  out.plain("dt_bias", Shard::kHeads, units, linear.value_heads);
  out.plain("A_log", Shard::kHeads, units, linear.value_heads);
  out.replicated("linear_attn.norm", linear.value_head_dim);
  out.linear("out_proj", "out_proj", Shard::kHeads, units, values * hidden);
}

void add_attention(const ModelSpec& spec, Collector& out) {
  const int64_t hidden = spec.hidden_size, heads = spec.attention_heads, kv_heads = spec.kv_heads;
  const int64_t query_width = heads * spec.head_dim, kv_width = kv_heads * spec.head_dim;
  const int64_t query_outputs = query_width * (spec.attention_output_gate ? 2 : 1);
  out.linear("q_proj", "qkv_proj", Shard::kHeads, heads, hidden * query_outputs);
  out.linear("k_proj", "qkv_proj", Shard::kKvHeads, kv_heads, hidden * kv_width);
  out.linear("v_proj", "qkv_proj", Shard::kKvHeads, kv_heads, hidden * kv_width);
  if (spec.qkv_bias) {
    out.plain("q_proj.bias", Shard::kHeads, heads, query_outputs);
    out.plain("k_proj.bias", Shard::kKvHeads, kv_heads, kv_width);
    out.plain("v_proj.bias", Shard::kKvHeads, kv_heads, kv_width);
  }
  if (spec.qk_norm && spec.qk_norm_whole) {
    out.plain("q_norm", Shard::kHeads, heads, query_width);
    out.plain("k_norm", Shard::kKvHeads, kv_heads, kv_width);
  } else if (spec.qk_norm) {
    out.replicated("q_norm", spec.head_dim);
    out.replicated("k_norm", spec.head_dim);
  }
  if (spec.attention_sinks) out.plain("sinks", Shard::kHeads, heads, heads);
  out.linear("o_proj", "o_proj", Shard::kHeads, heads, query_width * hidden);
  // The bias behind a row-parallel matrix is added once, so every rank keeps it whole.
  if (spec.output_bias) out.replicated("o_proj.bias", hidden);
}

void add_mlp(const ModelSpec& spec, Collector& out) {
  const int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  if (spec.gated_mlp) out.linear("gate_proj", "gate_up_proj", Shard::kIntermediate, width, hidden * width);
  out.linear("up_proj", "gate_up_proj", Shard::kIntermediate, width, hidden * width);
  if (spec.mlp_bias) out.plain("up_proj.bias", Shard::kIntermediate, width, width * (spec.gated_mlp ? 2 : 1));
  out.linear("down_proj", "down_proj", Shard::kIntermediate, width, width * hidden);
  if (spec.mlp_bias) out.replicated("down_proj.bias", hidden);
}

void add_moe(const ModelSpec& spec, Collector& out) {
  const Moe& moe = *spec.moe;
  const int64_t hidden = spec.hidden_size, experts = moe.experts, width = moe.expert_intermediate_size;
  out.replicated("router", hidden * experts);
  if (moe.router_bias) out.replicated("router.bias", experts);
  const int64_t inputs = spec.gated_mlp ? 2 : 1;
  out.linear("experts.gate_up_proj", "experts.gate_up_proj", Shard::kExperts, width, experts * inputs * hidden * width);
  if (moe.expert_bias) out.plain("experts.gate_up_proj.bias", Shard::kExperts, width, experts * inputs * width);
  out.linear("experts.down_proj", "experts.down_proj", Shard::kExperts, width, experts * width * hidden);
  if (moe.expert_bias) out.plain("experts.down_proj.bias", Shard::kExperts, 1, experts * hidden);
  if (moe.shared_intermediate_size > 0) {
    const int64_t shared = moe.shared_intermediate_size;
    out.linear("shared_experts.gate_up_proj", "shared_experts.gate_up_proj", Shard::kIntermediate, shared,
               inputs * hidden * shared);
    out.linear("shared_experts.down_proj", "shared_experts.down_proj", Shard::kIntermediate, shared, shared * hidden);
    if (moe.shared_expert_gate) out.replicated("shared_expert_gate", hidden);
  }
}

int64_t norm_elements(const ModelSpec& spec) {
  return int64_t{spec.hidden_size} * (spec.norm_bias ? 2 : 1);
}

// Layers differ only in two ways, so the tensors of at most four layers describe the model.
struct LayerKind {
  int layer = 0;  // an example
  int count = 0;
};
std::array<LayerKind, 4> layer_kinds(const ModelSpec& spec, int first, int count) {
  std::array<LayerKind, 4> kinds{};
  for (int layer = first; layer < first + count; ++layer) {
    const std::size_t kind = (spec.is_moe_layer(layer) ? 1U : 0U) + (spec.is_linear_layer(layer) ? 2U : 0U);
    kinds[kind].layer = layer;
    ++kinds[kind].count;
  }
  return kinds;
}

int64_t sum(const std::vector<Tensor>& tensors) {
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) elements += tensor.elements;
  return elements;
}

// PyTorch's caching allocator asks the driver for a multiple of 2 MiB from 10 MiB upwards and keeps a rest of up to
// 1 MiB with the tensor instead of splitting it off, so that it counts as allocated (c10/cuda/CUDACachingAllocator.cpp:
// kMinLargeAlloc, kRoundLarge, kSmallSize). Checked against the vLLM start-up logs: it is the 56 MiB that Qwen2.5-7B
// takes beyond its tensors.
double allocated(double bytes) {
  constexpr double kMiB = 1 << 20;
  if (bytes < 10 * kMiB) return bytes;
  const double rounded = std::ceil(bytes / (2 * kMiB)) * 2 * kMiB;
  return rounded - bytes <= kMiB ? rounded : bytes;
}

// The bytes of one rank, tensor by tensor.
class RankBytes {
 public:
  explicit RankBytes(const ShardedWeights& question) : question_(question), spec_(*question.spec) {
    full_bytes_ = question.dtype == Dtype::kFp32 || question.dtype == Dtype::kTf32 ? 4 : 2;
    quantised_bytes_ = model::weight_bytes(question.dtype);
    const bool published = question.dtype == spec_.default_dtype;
    if (published && spec_.quantisation_group > 0 && question.dtype == Dtype::kInt4)
      quantised_bytes_ = 0.5 + 2.0 / spec_.quantisation_group;
    only_experts_ = published && spec_.only_experts_quantised;
  }

  double of(const Tensor& tensor) const {
    const bool low = tensor.quantised && (!only_experts_ || tensor.shard == Shard::kExperts);
    return elements(tensor) * (low ? quantised_bytes_ : full_bytes_);
  }

  // Tensors that engines keep fused stand next to each other and are allocated as one.
  double of(const std::vector<Tensor>& tensors) const {
    double total = 0;
    for (std::size_t i = 0; i < tensors.size();) {
      double bytes = 0;
      const std::string_view fused = tensors[i].fused;
      for (; i < tensors.size() && tensors[i].fused == fused; ++i) bytes += of(tensors[i]);
      total += question_.as_loaded ? allocated(bytes) : bytes;
    }
    return total;
  }

  // MLA engines multiply kv_b_proj into the query and output projections and keep that copy in the activation's format
  // beside the original (vLLM: W_UK_T and W_UV; SGLang: w_kc and w_vc).
  double absorbed_copy() const {
    if (!spec_.mla) return 0;
    const int64_t heads = ceil_div(spec_.attention_heads, question_.tp);
    const int64_t width = spec_.mla->qk_nope_head_dim + spec_.mla->v_head_dim;
    return static_cast<double>(heads * spec_.mla->kv_lora_rank * width) * full_bytes_;
  }

  // Sines and cosines for every position, shared by all layers.
  double rotary_tables() const {
    const double width = spec_.mla ? spec_.mla->qk_rope_head_dim : spec_.rotary_fraction * spec_.head_dim;
    return spec_.rotary_tables * spec_.max_position_embeddings * width * full_bytes_;
  }

  double other() const { return static_cast<double>(spec_.other_parameters) * full_bytes_; }

 private:
  double elements(const Tensor& tensor) const {
    const int64_t tp = question_.tp;
    const int64_t unit = tensor.elements / tensor.units;
    switch (tensor.shard) {
      case Shard::kReplicated:
        return static_cast<double>(tensor.elements);
      case Shard::kHeads:
      case Shard::kKvHeads:
      case Shard::kIntermediate:
        return static_cast<double>(unit * ceil_div(tensor.units, tp));
      case Shard::kVocabulary:
        return static_cast<double>(unit * ceil_div(ceil_div(tensor.units, 64) * 64, tp));
      case Shard::kExperts: {
        const int64_t experts = spec_.moe->experts, ep = std::min<int64_t>(question_.ep, experts);
        const int64_t column = unit / experts;
        int64_t columns = ceil_div(tensor.units, std::max<int64_t>(1, tp / question_.ep));
        // The MXFP4 expert kernels work on blocks of 256 columns: gpt-oss has 2880 and is loaded with 3072 (vLLM logs
        // 13.47 GiB for the 20B model; without the padding it would be 12.83).
        const bool padded = question_.as_loaded && question_.dtype == Dtype::kFp4 && tensor.quantised;
        if (padded) columns = ceil_div(columns, 256) * 256;
        return static_cast<double>(ceil_div(experts, ep) * column * columns);
      }
    }
    MUSTER_CHECK(false, "shard {}", static_cast<int>(tensor.shard));
  }

  const ShardedWeights& question_;
  const ModelSpec& spec_;
  double full_bytes_ = 2;
  double quantised_bytes_ = 2;
  bool only_experts_ = false;
};

}  // namespace

std::vector<Tensor> layer_tensors(const ModelSpec& spec, int layer) {
  MUSTER_CHECK(layer >= 0 && layer < spec.layers, "layer {} of {}", layer, spec.layers);
  Collector out;
  if (spec.norms_per_layer > 0) out.replicated("norms", spec.norms_per_layer * norm_elements(spec));
  if (spec.is_linear_layer(layer))
    add_linear_attention(spec, out);
  else if (spec.mla)
    add_mla(spec, out);
  else
    add_attention(spec, out);
  if (spec.is_moe_layer(layer))
    add_moe(spec, out);
  else
    add_mlp(spec, out);
  return out.take();
}

std::vector<Tensor> embedding_tensors(const ModelSpec& spec) {
  Collector out;
  out.plain("embed_tokens", Shard::kVocabulary, spec.vocab_size, int64_t{spec.vocab_size} * spec.hidden_size);
  if (spec.learned_positions > 0) out.replicated("embed_positions", int64_t{spec.learned_positions} * spec.hidden_size);
  if (spec.embedding_norm) out.replicated("embed_norm", norm_elements(spec));
  return out.take();
}

std::vector<Tensor> head_tensors(const ModelSpec& spec) {
  Collector out;
  if (!spec.tied_embeddings)
    out.plain("lm_head", Shard::kVocabulary, spec.vocab_size, int64_t{spec.vocab_size} * spec.hidden_size);
  if (spec.head_bias) out.plain("lm_head.bias", Shard::kVocabulary, spec.vocab_size, spec.vocab_size);
  return out.take();
}

int64_t embedding_elements(const ModelSpec& spec) {
  return sum(embedding_tensors(spec));
}
int64_t final_norm_elements(const ModelSpec& spec) {
  return norm_elements(spec);
}
int64_t head_elements(const ModelSpec& spec) {
  return sum(head_tensors(spec));
}

int64_t parameter_count(const ModelSpec& spec) {
  int64_t total = embedding_elements(spec) + final_norm_elements(spec) + head_elements(spec);
  for (const LayerKind& kind : layer_kinds(spec, 0, spec.layers))
    if (kind.count > 0) total += kind.count * sum(layer_tensors(spec, kind.layer));
  return total;
}

int64_t active_parameter_count(const ModelSpec& spec) {
  int64_t total = embedding_elements(spec) + final_norm_elements(spec) + head_elements(spec);
  for (const LayerKind& kind : layer_kinds(spec, 0, spec.layers)) {
    if (kind.count == 0) continue;
    for (const Tensor& tensor : layer_tensors(spec, kind.layer)) {
      const bool routed = tensor.shard == Shard::kExperts;
      total +=
          kind.count * (routed ? tensor.elements / spec.moe->experts * spec.moe->experts_per_token : tensor.elements);
    }
  }
  return total;
}

Bytes weight_bytes_per_rank(const ShardedWeights& question) {
  const ModelSpec& spec = *question.spec;
  MUSTER_CHECK(question.tp >= 1 && question.ep >= 1, "tp {} ep {}", question.tp, question.ep);
  MUSTER_CHECK(question.first_layer >= 0 && question.layer_count >= 0 &&
                   question.first_layer + question.layer_count <= spec.layers,
               "layers {}+{} of {}", question.first_layer, question.layer_count, spec.layers);
  const RankBytes bytes(question);
  double total = 0;
  for (const LayerKind& kind : layer_kinds(spec, question.first_layer, question.layer_count)) {
    if (kind.count == 0) continue;
    double layer = bytes.of(layer_tensors(spec, kind.layer));
    if (question.as_loaded && !spec.is_linear_layer(kind.layer)) layer += bytes.absorbed_copy();
    total += kind.count * layer;
  }
  if (question.has_embedding) total += bytes.of(embedding_tensors(spec)) + bytes.other();
  if (question.has_head) {
    total += bytes.of(Tensor{.name = "final_norm", .fused = "final_norm", .elements = final_norm_elements(spec)});
    total += bytes.of(head_tensors(spec));
    if (spec.tied_embeddings && !question.has_embedding) total += bytes.of(embedding_tensors(spec).front());
  }
  if (question.as_loaded && question.layer_count > 0) total += bytes.rotary_tables();
  return Bytes(static_cast<int64_t>(std::llround(total)));
}

Bytes kv_bytes_per_token_and_layer(const ModelSpec& spec, int layer, Dtype kv, int tp) {
  MUSTER_CHECK(layer >= 0 && layer < spec.layers && tp >= 1, "layer {} of {}, tp {}", layer, spec.layers, tp);
  if (spec.is_linear_layer(layer)) return Bytes(0);
  double elements = 0;
  if (spec.mla)
    elements = spec.mla->kv_lora_rank + spec.mla->qk_rope_head_dim;  // one latent for all heads, whole on every rank
  else
    elements = 2.0 * static_cast<double>(ceil_div(spec.kv_heads, tp)) * spec.head_dim;
  double bytes = elements * kv_element_bytes(kv);
  if (spec.sparse_indexer) bytes += spec.sparse_indexer->head_dim + 4;
  return Bytes(static_cast<int64_t>(std::llround(bytes)));
}

Bytes kv_bytes_per_token(const ModelSpec& spec, Dtype kv) {
  Bytes total;
  for (int layer = 0; layer < spec.layers; ++layer) total += kv_bytes_per_token_and_layer(spec, layer, kv, 1);
  return total;
}

}  // namespace muster::model
