#include "stage_plan.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"

namespace muster::cost {
namespace {

using model::ModelSpec;

// Steps of up to this many tokens run as captured graphs (vLLM's largest capture size; TensorRT-LLM's is similar).
constexpr double kGraphTokensMax = 512;

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
      LayerGroup& group = groups.emplace_back();
      group.count = 1;
      group.attention = attention;
      group.moe = moe;
    }
  }
  return groups;
}

// Adds `count` times an operator to one entry of the breakdown.
void add(StepBreakdown& b, double StepBreakdown::* entry, const OpTime& t, double count = 1) {
  b.*entry += count * t.s;
  if (t.compute_s == 0 && t.memory_s == 0) return;  // communication
  (t.compute_s > t.memory_s ? b.compute_bound_s : b.memory_bound_s) += count * t.s;
}

}  // namespace

double total_tokens(const StepShape& shape) {
  double tokens = static_cast<double>(shape.decode_sequences);
  for (const PrefillChunk& chunk : shape.prefills) tokens += static_cast<double>(chunk.tokens);
  return tokens;
}

Plan::Plan(const Deployment& d) : operators_(d), model_(*d.model), layout_(d.layout) {
  const double tp = layout_.tp;
  fused_elementwise_ = d.engine.fused_elementwise;
  dense_quantised_ = !(model_.only_experts_quantised && d.precision.weights == model_.default_dtype);
  attention_ = {.heads = model_.attention_heads / tp,
                .kv_heads = std::max(1.0, model_.kv_heads / tp),
                .head_dim = static_cast<double>(model_.head_dim),
                .window = 0,
                .kv_bytes = operators_.kv_bytes()};
  window_attention_ = attention_;
  window_attention_.window = model_.sliding_window ? model_.sliding_window->window : 0;
  if (model_.mla)
    mla_ = {.hidden = static_cast<double>(model_.hidden_size),
            .heads = model_.attention_heads / tp,
            .q_lora_rank = static_cast<double>(model_.mla->q_lora_rank),
            .kv_lora_rank = static_cast<double>(model_.mla->kv_lora_rank),
            .rope_dim = static_cast<double>(model_.mla->qk_rope_head_dim),
            .nope_dim = static_cast<double>(model_.mla->qk_nope_head_dim),
            .v_dim = static_cast<double>(model_.mla->v_head_dim),
            .kv_bytes = operators_.kv_bytes()};
  if (model_.moe)
    moe_ = {.hidden = static_cast<double>(model_.hidden_size),
            .columns = model_.moe->expert_intermediate_size * static_cast<double>(layout_.ep) / tp,
            .experts = static_cast<double>(model_.moe->experts),
            .experts_here = model_.moe->experts / static_cast<double>(layout_.ep),
            .top_k = static_cast<double>(model_.moe->experts_per_token),
            .matrices = model_.gated_mlp ? 3.0 : 2.0};
  const std::vector<int> layers = stage_layers(model_.layers, layout_.pp);
  int first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    StagePlan stage{.first = s == 0, .last = s + 1 == layers.size(), .groups = group_layers(model_, first, layers[s])};
    for (LayerGroup& group : stage.groups) {
      add_attention_gemms(group);
      add_mlp(group);
    }
    stages_.push_back(std::move(stage));
    first += layers[s];
  }
  head_ = operators_.compile_gemm({.n = model_.vocab_size / tp, .k = static_cast<double>(model_.hidden_size)}, false);
  note_domain();
}

void Plan::note_domain() {
  // The LM head is wider than any measured GEMM, and as regular: the widest one's utilisation holds for it.
  bool gemms = true;
  bool experts = true;
  for (const StagePlan& stage : stages_)
    for (const LayerGroup& group : stage.groups) {
      for (const CompiledGemm& gemm : group.gemms) gemms = gemms && operators_.measured(gemm.shape, gemm.quantised);
      if (group.experts) experts = experts && operators_.measured(group.experts->shape);
    }
  if (!gemms) outside_.push_back("GEMM");
  if (!experts) outside_.push_back("experts");
  if (!operators_.measured_collectives()) outside_.push_back("all-reduce");
}

std::vector<std::string> Plan::provenance() const {
  std::vector<std::string> lines = operators_.provenance();
  for (const char* op : outside_)
    lines.push_back(
        fmt::format("{}: a shape of this layout lies outside the measured domain; the nearest edge's "
                    "utilisation is held",
                    op));
  return lines;
}

double Plan::error_band() const {
  constexpr double kBandOutside = 0.20;
  return outside_.empty() ? operators_.error_band() : std::max(operators_.error_band(), kBandOutside);
}

void Plan::add_attention_gemms(LayerGroup& group) const {
  const double hidden = model_.hidden_size;
  const double bytes = operators_.activation_bytes();
  const auto gemm = [&](double n, double k) {
    group.gemms.push_back(operators_.compile_gemm({.n = n, .k = k}, dense_quantised_));
  };
  if (group.attention == AttentionKind::kLinear) {
    // Gated delta net: queries and keys, values and their gate in one projection; then a short convolution.
    const model::LinearAttention& l = *model_.linear_attention;
    const double keys = l.key_heads * static_cast<double>(l.key_head_dim) / layout_.tp;
    const double values = l.value_heads * static_cast<double>(l.value_head_dim) / layout_.tp;
    gemm(2 * keys + 2 * values, hidden);
    gemm(hidden, values);
    group.elementwise = {4 * (keys + values) * bytes, 4 * (keys + values) * bytes};
  } else if (!model_.mla) {
    const double query = attention_.heads * attention_.head_dim;
    const double kv = 2 * attention_.kv_heads * attention_.head_dim;
    gemm((model_.attention_output_gate ? 2 : 1) * query + kv, hidden);
    gemm(hidden, query);
    // Rotary embedding with the norms of queries and keys, and the write of keys and values into the cache.
    if (!fused_elementwise_) group.elementwise = {2 * (query + kv / 2) * bytes, 2 * kv * bytes};
    if (model_.qk_norm || model_.qk_norm_whole) group.elementwise.push_back(2 * (query + kv / 2) * bytes);
  }
  // Norms, joined with the residual addition: hidden state and residual are read and written.
  if (!fused_elementwise_ || layout_.tp == 1)
    for (int i = 0; i < model_.norms_per_layer; ++i) group.elementwise.push_back(4 * hidden * bytes);
  group.all_reduces = layout_.tp > 1 ? 2 : 0;
}

void Plan::add_mlp(LayerGroup& group) const {
  const double hidden = model_.hidden_size;
  const double tp = layout_.tp;
  const double matrices = model_.gated_mlp ? 2 : 1;
  double columns = model_.intermediate_size / tp;
  if (group.moe) {
    group.gemms.push_back(operators_.compile_gemm({.n = moe_.experts, .k = hidden}, false));  // router
    group.experts = operators_.compile_moe(moe_);
    columns = model_.moe->shared_intermediate_size / tp;
  }
  if (columns <= 0) return;
  group.gemms.push_back(operators_.compile_gemm({.n = matrices * columns, .k = hidden}, dense_quantised_));
  group.gemms.push_back(operators_.compile_gemm({.n = hidden, .k = columns}, dense_quantised_));
  group.elementwise.push_back((matrices + 1) * columns * operators_.activation_bytes());
}

StepBreakdown Plan::token_work(const StagePlan& stage, double tokens) const {
  StepBreakdown b;
  if (tokens <= 0) return b;
  const double row = model_.hidden_size * operators_.activation_bytes();  // bytes of one token's hidden state
  const OpTime reduce = operators_.all_reduce(tokens * row, tokens <= kGraphTokensMax);
  for (const LayerGroup& group : stage.groups) {
    const double count = group.count;
    for (const CompiledGemm& gemm : group.gemms) add(b, &StepBreakdown::gemm_s, operators_.gemm(gemm, tokens), count);
    for (const double bytes : group.elementwise)
      add(b, &StepBreakdown::elementwise_s, operators_.elementwise(tokens * bytes), count);
    if (group.experts) add(b, &StepBreakdown::moe_s, operators_.moe(*group.experts, tokens), count);
    // Experts divided over ranks of the same tensor-parallel group need no exchange of tokens (every rank has them
    // all); their partial results meet in the all-reduce that follows the MLP anyway.
    add(b, &StepBreakdown::all_reduce_s, reduce, count * group.all_reduces);
  }
  // A norm over all heads (MiniMax) sums squares over the ranks: one small all-reduce per layer.
  if (model_.qk_norm_whole && layout_.tp > 1)
    for (const LayerGroup& group : stage.groups)
      add(b, &StepBreakdown::all_reduce_s, operators_.all_reduce(tokens * 8, tokens <= kGraphTokensMax), group.count);
  if (stage.first) {
    add(b, &StepBreakdown::elementwise_s, operators_.elementwise(2 * tokens * row));
    add(b, &StepBreakdown::all_reduce_s, reduce);
  }
  // Hidden state and residual, each cut over the ranks of the group.
  if (!stage.last) add(b, &StepBreakdown::transfer_s, operators_.stage_send(2 * tokens * row / layout_.tp));
  return b;
}

StepBreakdown Plan::head_work(const StagePlan& stage, double rows) const {
  StepBreakdown b;
  if (!stage.last || rows <= 0) return b;
  const double vocabulary = model_.vocab_size;
  add(b, &StepBreakdown::head_s, operators_.gemm(*head_, rows));
  add(b, &StepBreakdown::head_s, operators_.all_gather(rows * vocabulary * operators_.activation_bytes()));
  // Sampling passes over the 32-bit logits: cast, softmax, draw.
  add(b, &StepBreakdown::head_s, operators_.elementwise(4 * rows * vocabulary * 4));
  return b;
}

StepBreakdown Plan::attention_work(const StagePlan& stage, const StepShape& shape) const {
  StepBreakdown b;
  const double sequences = static_cast<double>(shape.decode_sequences);
  const double kv_tokens = static_cast<double>(shape.decode_kv_tokens);
  for (const LayerGroup& group : stage.groups) {
    if (group.attention == AttentionKind::kLinear) {
      add_linear_attention(b, group, shape);
      continue;
    }
    const AttentionShape& dims = group.attention == AttentionKind::kWindow ? window_attention_ : attention_;
    PrefillWork work;  // all pieces of a step run in one call
    for (const PrefillChunk& chunk : shape.prefills)
      add_piece(work, static_cast<double>(chunk.tokens), static_cast<double>(chunk.prefix), dims.window);
    const double count = group.count;
    if (model_.mla) {
      add(b, &StepBreakdown::attention_s, operators_.mla_prefill(mla_, work), count);
      add(b, &StepBreakdown::attention_s, operators_.mla_decode(mla_, sequences, kv_tokens), count);
    } else {
      add(b, &StepBreakdown::attention_s, operators_.prefill_attention(dims, work), count);
      add(b, &StepBreakdown::attention_s, operators_.decode_attention(dims, sequences, kv_tokens), count);
    }
  }
  return b;
}

void Plan::add_linear_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const {
  // Every sequence reads and writes its state once per step; a prompt is worked through in chunks of 64 tokens.
  constexpr double kChunk = 64;
  const double state = model_.linear_attention->state_bytes_per_layer / layout_.tp;
  double passes = static_cast<double>(shape.decode_sequences);
  for (const PrefillChunk& chunk : shape.prefills) passes += std::ceil(static_cast<double>(chunk.tokens) / kChunk);
  add(b, &StepBreakdown::attention_s, operators_.elementwise(2 * passes * state), group.count);
}

}  // namespace muster::cost
