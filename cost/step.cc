#include "muster/cost/step.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"
#include "operators.h"

namespace muster::cost {
namespace {

using model::ModelSpec;

enum class AttentionKind { kFull, kWindow, kLinear };

// Layers of one stage that do the same work.
struct LayerGroup {
  int count = 0;
  AttentionKind attention = AttentionKind::kFull;
  bool moe = false;
};

struct Stage {
  int layers = 0;
  std::vector<LayerGroup> groups;
  bool first = false;
  bool last = false;
};

std::vector<LayerGroup> group_layers(const ModelSpec& model, int first, int count) {
  std::vector<LayerGroup> groups;
  for (int layer = first; layer < first + count; ++layer) {
    const AttentionKind attention = model.is_linear_layer(layer)  ? AttentionKind::kLinear
                                    : model.is_local_layer(layer) ? AttentionKind::kWindow
                                                                  : AttentionKind::kFull;
    const bool moe = model.is_moe_layer(layer);
    const auto same = [&](const LayerGroup& g) { return g.attention == attention && g.moe == moe; };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found != groups.end()) {
      ++found->count;
    } else {
      groups.push_back({.count = 1, .attention = attention, .moe = moe});
    }
  }
  return groups;
}

}  // namespace

struct StepModel::Data {
  Operators operators;
  ModelSpec model;
  Layout layout;
  EngineProfile engine;
  std::vector<Stage> stages;
  // Shapes of one rank.
  AttentionShape attention, window_attention;
  MlaShape mla;
  MoeShape moe;
  bool dense_quantised = true;  // false: only the experts are stored in the low precision (gpt-oss)

  explicit Data(const Deployment& d);
  void add_projections(StepBreakdown& b, const LayerGroup& group, double tokens) const;
  void add_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const;
  void add_linear_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const;
  void add_mlp(StepBreakdown& b, const LayerGroup& group, double tokens) const;
  void add_head(StepBreakdown& b, double rows) const;
  StepBreakdown evaluate(const Stage& stage, const StepShape& shape) const;
  double host_s(const StepShape& shape, double tokens) const;
};

namespace {

// Adds `count` times an operator to one entry of the breakdown.
void add(StepBreakdown& b, double StepBreakdown::*entry, const OpTime& t, double count = 1) {
  b.*entry += count * t.s;
  if (t.compute_s == 0 && t.memory_s == 0) return;  // communication
  (t.compute_s > t.memory_s ? b.compute_bound_s : b.memory_bound_s) += count * t.s;
}

}  // namespace

StepModel::Data::Data(const Deployment& d) : operators(d), model(*d.model), layout(d.layout), engine(d.engine) {
  const double tp = layout.tp;
  dense_quantised = !(model.only_experts_quantised && d.precision.weights == model.default_dtype);
  const std::vector<int> layers = stage_layers(model.layers, layout.pp);
  int first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    stages.push_back({.layers = layers[s],
                      .groups = group_layers(model, first, layers[s]),
                      .first = s == 0,
                      .last = s + 1 == layers.size()});
    first += layers[s];
  }
  attention = {.heads = model.attention_heads / tp,
               .kv_heads = std::max(1.0, model.kv_heads / tp),
               .head_dim = static_cast<double>(model.head_dim),
               .window = 0};
  window_attention = attention;
  window_attention.window = model.sliding_window ? model.sliding_window->window : 0;
  if (model.mla)
    mla = {.heads = model.attention_heads / tp,
           .kv_lora_rank = static_cast<double>(model.mla->kv_lora_rank),
           .rope_dim = static_cast<double>(model.mla->qk_rope_head_dim),
           .nope_dim = static_cast<double>(model.mla->qk_nope_head_dim),
           .v_dim = static_cast<double>(model.mla->v_head_dim)};
  if (model.moe)
    moe = {.hidden = static_cast<double>(model.hidden_size),
           .columns = model.moe->expert_intermediate_size * static_cast<double>(layout.ep) / tp,
           .experts = static_cast<double>(model.moe->experts),
           .experts_here = model.moe->experts / static_cast<double>(layout.ep),
           .top_k = static_cast<double>(model.moe->experts_per_token),
           .matrices = model.gated_mlp ? 3.0 : 2.0};
}

void StepModel::Data::add_projections(StepBreakdown& b, const LayerGroup& group, double tokens) const {
  const double count = group.count;
  const double hidden = model.hidden_size;
  const double tp = layout.tp;
  const double bytes = operators.activation_bytes();
  const bool dense = dense_quantised;
  double query_width = attention.heads * attention.head_dim;
  if (group.attention == AttentionKind::kLinear) {
    // Gated delta net: queries and keys, values and their gate in one projection; then a short convolution.
    const model::LinearAttention& l = *model.linear_attention;
    const double keys = l.key_heads * static_cast<double>(l.key_head_dim) / tp;
    const double values = l.value_heads * static_cast<double>(l.value_head_dim) / tp;
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = 2 * keys + 2 * values, .k = hidden}, tokens, dense), count);
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = hidden, .k = values}, tokens, dense), count);
    add(b, &StepBreakdown::elementwise_s, operators.elementwise(4 * tokens * (keys + values) * bytes), 2 * count);
  } else if (model.mla) {
    const model::Mla& m = *model.mla;
    const double latent = m.kv_lora_rank + m.qk_rope_head_dim;
    const double query = mla.heads * (m.qk_nope_head_dim + m.qk_rope_head_dim);
    if (m.q_lora_rank > 0) {
      add(b, &StepBreakdown::gemm_s, operators.gemm({.n = m.q_lora_rank + latent, .k = hidden}, tokens, dense), count);
      add(b, &StepBreakdown::gemm_s, operators.gemm({.n = query, .k = static_cast<double>(m.q_lora_rank)}, tokens, dense),
          count);
    } else {
      add(b, &StepBreakdown::gemm_s, operators.gemm({.n = query + latent, .k = hidden}, tokens, dense), count);
    }
    query_width = mla.heads * m.v_head_dim;
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = hidden, .k = query_width}, tokens, dense), count);
    add(b, &StepBreakdown::elementwise_s, operators.elementwise(2 * tokens * (query + latent) * bytes), count);
  } else {
    const double kv_width = 2 * attention.kv_heads * attention.head_dim;
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = (model.attention_output_gate ? 2 : 1) * query_width + kv_width, .k = hidden}, tokens, dense), count);
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = hidden, .k = query_width}, tokens, dense), count);
    // Rotary embedding, and the write of keys and values into the cache.
    add(b, &StepBreakdown::elementwise_s, operators.elementwise(2 * tokens * (query_width + kv_width) * bytes), count);
    add(b, &StepBreakdown::elementwise_s, operators.elementwise(2 * tokens * kv_width * bytes), count);
    if (model.qk_norm)
      add(b, &StepBreakdown::elementwise_s, operators.elementwise(2 * tokens * (query_width + kv_width / 2) * bytes),
          2 * count);
  }
  // Norms read the hidden state and the residual and write both.
  add(b, &StepBreakdown::elementwise_s, operators.elementwise(4 * tokens * hidden * bytes),
      count * model.norms_per_layer);
  add(b, &StepBreakdown::all_reduce_s, operators.all_reduce(tokens * hidden * bytes), count);
}

void StepModel::Data::add_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const {
  const double sequences = static_cast<double>(shape.decode_sequences);
  const double kv_tokens = static_cast<double>(shape.decode_kv_tokens);
  if (group.attention == AttentionKind::kLinear) {
    add_linear_attention(b, group, shape);
    return;
  }
  const AttentionShape& dims = group.attention == AttentionKind::kWindow ? window_attention : attention;
  for (const PrefillChunk& chunk : shape.prefills) {
    const double tokens = static_cast<double>(chunk.tokens);
    const double prefix = static_cast<double>(chunk.prefix);
    add(b, &StepBreakdown::attention_s,
        model.mla ? operators.mla_prefill(mla, tokens, prefix) : operators.prefill_attention(dims, tokens, prefix),
        group.count);
  }
  add(b, &StepBreakdown::attention_s,
      model.mla ? operators.mla_decode(mla, sequences, kv_tokens)
                : operators.decode_attention(dims, sequences, kv_tokens),
      group.count);
}

void StepModel::Data::add_linear_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const {
  // Every sequence reads and writes its state once per step; a prompt is worked through in chunks of 64 tokens.
  constexpr double kChunk = 64;
  const double state = model.linear_attention->state_bytes_per_layer / layout.tp;
  double passes = static_cast<double>(shape.decode_sequences);
  for (const PrefillChunk& chunk : shape.prefills) passes += std::ceil(static_cast<double>(chunk.tokens) / kChunk);
  add(b, &StepBreakdown::attention_s, operators.elementwise(2 * passes * state), group.count);
}

void StepModel::Data::add_mlp(StepBreakdown& b, const LayerGroup& group, double tokens) const {
  const double count = group.count;
  const double hidden = model.hidden_size;
  const double bytes = operators.activation_bytes();
  const bool dense = dense_quantised;
  const double matrices = model.gated_mlp ? 2 : 1;
  double columns = model.intermediate_size / static_cast<double>(layout.tp);
  if (group.moe) {
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = moe.experts, .k = hidden}, tokens, false), count);
    add(b, &StepBreakdown::moe_s, operators.moe(moe, tokens), count);
    columns = model.moe->shared_intermediate_size / static_cast<double>(layout.tp);
  }
  if (columns > 0) {
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = matrices * columns, .k = hidden}, tokens, dense), count);
    add(b, &StepBreakdown::gemm_s, operators.gemm({.n = hidden, .k = columns}, tokens, dense), count);
    add(b, &StepBreakdown::elementwise_s, operators.elementwise((matrices + 1) * tokens * columns * bytes), count);
  }
  // Experts divided over ranks of the same tensor-parallel group need no exchange of tokens (every rank has them all);
  // their partial results meet in this all-reduce.
  add(b, &StepBreakdown::all_reduce_s, operators.all_reduce(tokens * hidden * bytes), count);
}

void StepModel::Data::add_head(StepBreakdown& b, double rows) const {
  const double vocabulary = model.vocab_size;
  const double hidden = model.hidden_size;
  add(b, &StepBreakdown::head_s, operators.gemm({.n = vocabulary / layout.tp, .k = hidden}, rows, false));
  add(b, &StepBreakdown::head_s, operators.all_gather(rows * vocabulary * operators.activation_bytes()));
  // Sampling passes over the 32-bit logits: cast, softmax, draw.
  add(b, &StepBreakdown::head_s, operators.elementwise(4 * rows * vocabulary * 4));
}

StepBreakdown StepModel::Data::evaluate(const Stage& stage, const StepShape& shape) const {
  StepBreakdown b;
  double tokens = static_cast<double>(shape.decode_sequences);
  for (const PrefillChunk& chunk : shape.prefills) tokens += static_cast<double>(chunk.tokens);
  if (tokens > 0) {
    for (const LayerGroup& group : stage.groups) {
      add_projections(b, group, tokens);
      add_attention(b, group, shape);
      add_mlp(b, group, tokens);
    }
    const double bytes = operators.activation_bytes();
    if (stage.first) {
      add(b, &StepBreakdown::elementwise_s, operators.elementwise(2 * tokens * model.hidden_size * bytes));
      add(b, &StepBreakdown::all_reduce_s, operators.all_reduce(tokens * model.hidden_size * bytes));
    }
    if (stage.last) add_head(b, static_cast<double>(shape.sampled_sequences));
    // Hidden state and residual, each cut over the ranks of the group.
    if (!stage.last)
      add(b, &StepBreakdown::transfer_s,
          operators.stage_send(2 * tokens * model.hidden_size * bytes / layout.tp));
  }
  if (stage.first) b.host_s = host_s(shape, tokens);
  return b;
}

double StepModel::Data::host_s(const StepShape& shape, double tokens) const {
  const double decodes = static_cast<double>(shape.decode_sequences);
  const double sequences = decodes + static_cast<double>(shape.prefills.size());
  return to_seconds(engine.host_fixed) + to_seconds(engine.host_per_sequence) * sequences +
         engine.host_per_prefill_token_ns * 1e-9 * (tokens - decodes);
}

StepModel StepModel::make(const Deployment& deployment) {
  return StepModel(std::make_shared<const Data>(deployment));
}

int StepModel::stages() const { return static_cast<int>(data_->stages.size()); }

StepBreakdown StepModel::breakdown(int stage, const StepShape& shape) const {
  return data_->evaluate(data_->stages[static_cast<std::size_t>(stage)], shape);
}

Duration StepModel::stage_time(int stage, const StepShape& shape) const {
  const StepBreakdown b = breakdown(stage, shape);
  // A scheduler that runs ahead hides the shorter of the two.
  const double seconds =
      data_->engine.asynchronous_scheduling ? std::max(b.device_s(), b.host_s) : b.device_s() + b.host_s;
  return std::max(Duration(1), from_seconds(seconds));
}

Duration StepModel::latency(const StepShape& shape) const {
  Duration sum{0};
  for (int s = 0; s < stages(); ++s) sum += stage_time(s, shape);
  return sum;
}

const std::vector<std::string>& StepModel::provenance() const { return data_->operators.provenance(); }
bool StepModel::is_estimate() const { return data_->operators.is_estimate(); }
double StepModel::error_band() const { return data_->operators.error_band(); }

}  // namespace muster::cost
