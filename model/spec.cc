#include "muster/model/spec.h"

#include "muster/core/check.h"

namespace muster::model {
namespace {

struct Range {
  std::string_view field;
  std::int64_t value;
  std::int64_t min;
  std::int64_t max;
};

Result<void> check_ranges(const ModelSpec& spec, std::initializer_list<Range> ranges) {
  for (const Range& range : ranges)
    if (range.value < range.min || range.value > range.max)
      return fail("{}: {} is {}; needed: {} to {}", spec.key, range.field, range.value, range.min, range.max);
  return {};
}

Result<void> validate_attention(const ModelSpec& spec) {
  if (spec.mla) {
    const Mla& mla = *spec.mla;
    MUSTER_TRY_VOID(check_ranges(spec, {{"mla.q_lora_rank", mla.q_lora_rank, 0, 1 << 20},
                                        {"mla.kv_lora_rank", mla.kv_lora_rank, 1, 1 << 20},
                                        {"mla.qk_nope_head_dim", mla.qk_nope_head_dim, 1, 1 << 16},
                                        {"mla.qk_rope_head_dim", mla.qk_rope_head_dim, 0, 1 << 16},
                                        {"mla.v_head_dim", mla.v_head_dim, 1, 1 << 16}}));
  } else if (spec.attention_heads % spec.kv_heads != 0) {
    return fail("{}: attention_heads {} is not a multiple of kv_heads {}", spec.key, spec.attention_heads,
                spec.kv_heads);
  }
  if (spec.sparse_indexer) {
    if (!spec.mla)
      return fail("{}: sparse_indexer without mla: only sparse attention in front of MLA is known", spec.key);
    MUSTER_TRY_VOID(check_ranges(spec, {{"sparse_indexer.heads", spec.sparse_indexer->heads, 1, 1 << 16},
                                        {"sparse_indexer.head_dim", spec.sparse_indexer->head_dim, 1, 1 << 16}}));
  }
  if (spec.sliding_window) {
    MUSTER_TRY_VOID(check_ranges(spec, {{"sliding_window.window", spec.sliding_window->window, 1, 1 << 30}}));
    if (std::ssize(spec.sliding_window->local) != spec.layers)
      return fail("{}: sliding_window describes {} layers; needed: layers = {}", spec.key,
                  spec.sliding_window->local.size(), spec.layers);
  }
  if (spec.linear_attention) {
    const LinearAttention& linear = *spec.linear_attention;
    MUSTER_TRY_VOID(check_ranges(spec, {{"linear_attention.key_heads", linear.key_heads, 1, 1 << 16},
                                        {"linear_attention.value_heads", linear.value_heads, 1, 1 << 16},
                                        {"linear_attention.key_head_dim", linear.key_head_dim, 1, 1 << 16},
                                        {"linear_attention.value_head_dim", linear.value_head_dim, 1, 1 << 16},
                                        {"linear_attention.conv_kernel", linear.conv_kernel, 1, 1 << 10}}));
    if (linear.value_heads % linear.key_heads != 0)
      return fail("{}: linear_attention.value_heads {} is not a multiple of key_heads {}", spec.key, linear.value_heads,
                  linear.key_heads);
    if (std::ssize(linear.linear) != spec.layers)
      return fail("{}: linear_attention describes {} layers; needed: layers = {}", spec.key, linear.linear.size(),
                  spec.layers);
  }
  return {};
}

Result<void> validate_moe(const ModelSpec& spec) {
  const Moe& moe = *spec.moe;
  MUSTER_TRY_VOID(check_ranges(spec, {{"moe.experts", moe.experts, 1, 1 << 20},
                                      {"moe.experts_per_token", moe.experts_per_token, 1, moe.experts},
                                      {"moe.expert_intermediate_size", moe.expert_intermediate_size, 1, 1 << 22},
                                      {"moe.shared_experts", moe.shared_experts, 0, 1 << 16},
                                      {"moe.shared_intermediate_size", moe.shared_intermediate_size, 0, 1 << 22},
                                      {"moe.first_dense_layers", moe.first_dense_layers, 0, spec.layers},
                                      {"moe.layer_interval", moe.layer_interval, 1, spec.layers}}));
  if ((moe.shared_experts > 0) != (moe.shared_intermediate_size > 0))
    return fail("{}: moe.shared_experts is {} but moe.shared_intermediate_size is {}: both or none", spec.key,
                moe.shared_experts, moe.shared_intermediate_size);
  return {};
}

bool has_dense_layer(const ModelSpec& spec) {
  for (int layer = 0; layer < spec.layers; ++layer)
    if (!spec.is_moe_layer(layer)) return true;
  return false;
}

// A rough count in floating point: field by field all may look sane and still overflow 64 bits together.
Result<void> validate_size(const ModelSpec& spec) {
  const double hidden = spec.hidden_size;
  double layer = 4.0 * spec.attention_heads * spec.head_dim * hidden + 3.0 * spec.intermediate_size * hidden;
  if (spec.moe)
    layer += 3.0 * hidden *
             (static_cast<double>(spec.moe->experts) * spec.moe->expert_intermediate_size +
              spec.moe->shared_intermediate_size);
  if (spec.mla)
    layer += (static_cast<double>(spec.mla->q_lora_rank) + spec.mla->kv_lora_rank + hidden) * spec.attention_heads *
             (spec.mla->qk_nope_head_dim + spec.mla->qk_rope_head_dim + spec.mla->v_head_dim);
  if (spec.linear_attention)
    layer += 4.0 * hidden *
             (static_cast<double>(spec.linear_attention->key_heads) * spec.linear_attention->key_head_dim +
              static_cast<double>(spec.linear_attention->value_heads) * spec.linear_attention->value_head_dim);
  const double total = layer * spec.layers + 2.0 * (spec.vocab_size + spec.learned_positions) * hidden;
  if (total > 1e15)
    return fail("{}: the dimensions give about {:.1e} parameters; needed: at most 1e15", spec.key, total);
  return {};
}

}  // namespace

double linear_state_bytes(const LinearAttention& attention) {
  const double recurrent = 4.0 * attention.value_heads * attention.key_head_dim * attention.value_head_dim;
  const double channels = 2.0 * attention.key_heads * attention.key_head_dim +
                          static_cast<double>(attention.value_heads) * attention.value_head_dim;
  return recurrent + 2.0 * channels * (attention.conv_kernel - 1);
}

bool ModelSpec::is_moe_layer(int layer) const {
  return moe && layer >= moe->first_dense_layers && (layer + 1) % moe->layer_interval == 0;
}

bool ModelSpec::is_local_layer(int layer) const {
  return sliding_window && sliding_window->local[static_cast<std::size_t>(layer)];
}

bool ModelSpec::is_linear_layer(int layer) const {
  return linear_attention && linear_attention->linear[static_cast<std::size_t>(layer)];
}

SlidingWindow sliding_window(int layers, int window, int global_every) {
  SlidingWindow out{.window = window, .local = std::vector<bool>(static_cast<std::size_t>(layers), true)};
  if (global_every > 0)
    for (int layer = global_every - 1; layer < layers; layer += global_every)
      out.local[static_cast<std::size_t>(layer)] = false;
  return out;
}

std::vector<bool> linear_layers(int layers, int full_every) {
  return sliding_window(layers, 1, full_every).local;
}

Result<void> validate(const ModelSpec& spec) {
  // The upper limits are far beyond any model; they keep products of two fields within 64 bits.
  MUSTER_TRY_VOID(check_ranges(spec, {{"layers", spec.layers, 1, 4096},
                                      {"hidden_size", spec.hidden_size, 1, 1 << 20},
                                      {"attention_heads", spec.attention_heads, 1, 1 << 16},
                                      {"kv_heads", spec.kv_heads, 1, 1 << 16},
                                      {"head_dim", spec.head_dim, 1, 1 << 16},
                                      {"vocab_size", spec.vocab_size, 1, 1 << 26},
                                      {"max_position_embeddings", spec.max_position_embeddings, 1, 1 << 30},
                                      {"learned_positions", spec.learned_positions, 0, 1 << 26},
                                      {"norms_per_layer", spec.norms_per_layer, 0, 16},
                                      {"quantisation_group", spec.quantisation_group, 0, 1 << 20},
                                      {"other_parameters", spec.other_parameters, 0, std::int64_t{1} << 50}}));
  if (!(spec.rotary_fraction >= 0 && spec.rotary_fraction <= 1))
    return fail("{}: rotary_fraction is {}; needed: 0 to 1", spec.key, spec.rotary_fraction);
  if (!(spec.rotary_tables >= 0 && spec.rotary_tables <= 1e6))
    return fail("{}: rotary_tables is {}; needed: 0 to 1e6", spec.key, spec.rotary_tables);
  if (spec.moe) MUSTER_TRY_VOID(validate_moe(spec));
  if (has_dense_layer(spec))
    MUSTER_TRY_VOID(check_ranges(spec, {{"intermediate_size", spec.intermediate_size, 1, 1 << 24}}));
  MUSTER_TRY_VOID(validate_attention(spec));
  return validate_size(spec);
}

}  // namespace muster::model
