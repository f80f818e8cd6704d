#include "attention_dp_timer.h"

#include <algorithm>
#include <vector>

#include "muster/model/tensors.h"

namespace muster::app {
namespace {

cost::Deployment with_layout(cost::Deployment d, const cost::Layout& layout) {
  d.layout = layout;
  return d;
}
cost::Layout group_layout(const cost::Deployment& d) {
  return {.tp = d.layout.tp};
}
cost::Layout whole_layout(const cost::Deployment& d) {
  return {.tp = d.layout.tp * d.layout.dp, .pp = 1, .dp = 1, .ep = d.layout.ep};
}

// Bytes of all routed experts of the model.
double expert_bytes(const cost::Deployment& d) {
  double bytes = 0;
  for (int layer = 0; layer < d.model->layers; ++layer)
    for (const model::Tensor& tensor : model::layer_tensors(*d.model, layer))
      if (tensor.shard == model::Shard::kExperts)
        bytes +=
            static_cast<double>(tensor.elements) * (tensor.quantised ? model::weight_bytes(d.precision.weights) : 2.0);
  return bytes;
}

}  // namespace

AttentionDpTimer::AttentionDpTimer(const cost::Deployment& d)
    : groups_(d.layout.dp),
      stages_(d.layout.pp),
      engine_(d.engine),
      group_(cost::StepModel::make(with_layout(d, group_layout(d)))),
      whole_(cost::StepModel::make(with_layout(d, whole_layout(d)))) {}

Duration AttentionDpTimer::stage_time(int, const cost::StepShape& shape) const {
  const auto share = [this](std::int64_t n) { return (n + groups_ - 1) / groups_; };
  // The engine holds prompts back until every group has one (TensorRT-LLM attention_dp_config enable_balance): a group
  // computes its share of the tokens. A share of a chunk attends over the mean context of the whole chunk.
  std::vector<cost::PrefillChunk> own;
  std::int64_t tokens = shape.decode_sequences;
  for (const cost::PrefillChunk& chunk : shape.prefills) {
    tokens += chunk.tokens;
    const std::int64_t mine = share(chunk.tokens);
    own.push_back({.tokens = mine, .prefix = chunk.prefix + (chunk.tokens - mine) / 2});
  }
  const cost::StepBreakdown group = group_.breakdown(0, {.prefills = own,
                                                         .decode_sequences = share(shape.decode_sequences),
                                                         .decode_kv_tokens = share(shape.decode_kv_tokens),
                                                         .sampled_sequences = share(shape.sampled_sequences)});
  const cost::StepBreakdown whole = whole_.breakdown(
      0, {.prefills = {}, .decode_sequences = tokens, .decode_kv_tokens = tokens, .sampled_sequences = 0});
  // Tokens are gathered before the experts and their results scattered after: together the volume of one all-reduce, of
  // the two that a tensor-parallel layer has.
  const double device = group.device_s() - group.moe_s + whole.moe_s + whole.all_to_all_s + whole.all_reduce_s / 2;
  // Each group has a scheduler of its own, for its own sequences.
  const double sequences =
      static_cast<double>(share(shape.decode_sequences) + share(static_cast<std::int64_t>(own.size())));
  const double host =
      to_seconds(engine_.host_fixed) + to_seconds(engine_.host_per_sequence) * sequences +
      engine_.host_per_prefill_token_ns * 1e-9 * static_cast<double>(share(tokens - shape.decode_sequences));
  const double serial =
      to_seconds(engine_.host_serial_fixed) + to_seconds(engine_.host_serial_per_sequence) * sequences;
  const double together = engine_.asynchronous_scheduling ? std::max(device, host) : device + host;
  return std::max(Duration(1), from_seconds((together + serial) / stages_));
}

cost::MemoryVerdict attention_dp_memory(const cost::Deployment& d) {
  cost::Layout staged = whole_layout(d);
  staged.pp = d.layout.pp;
  cost::MemoryVerdict verdict = cost::memory(with_layout(d, staged));
  cost::StageMemory& stage = verdict.stages[static_cast<std::size_t>(verdict.tightest)];
  const cost::Layout group = group_layout(d);
  const double whole_weights = static_cast<double>(model::weight_bytes_per_rank({.spec = d.model,
                                                                                 .dtype = d.precision.weights,
                                                                                 .tp = group.tp,
                                                                                 .ep = 1,
                                                                                 .first_layer = 0,
                                                                                 .layer_count = d.model->layers,
                                                                                 .has_embedding = true,
                                                                                 .has_head = true})
                                                       .value);
  const double experts = expert_bytes(d);
  const double ranks = group.tp * d.layout.dp;
  const double weights = (whole_weights - experts / group.tp + experts / ranks) / d.layout.pp;
  const double more = std::max(0.0, weights - static_cast<double>(stage.weights.value));
  const double room = static_cast<double>(stage.kv.value) - more;
  std::int64_t per_token = 0;
  for (int layer = 0; layer < d.model->layers; ++layer)
    per_token += model::kv_bytes_per_token_and_layer(*d.model, layer, d.precision.kv, group.tp).value;
  per_token = (per_token + d.layout.pp - 1) / d.layout.pp;
  stage.weights = Bytes(static_cast<std::int64_t>(weights));
  stage.kv = Bytes(static_cast<std::int64_t>(std::max(0.0, room)));
  const double tokens = room > 0 && per_token > 0 ? room / static_cast<double>(per_token) : 0;
  verdict.kv_tokens = Tokens(static_cast<std::int64_t>(tokens) * d.layout.dp);
  verdict.fits = verdict.fits && tokens >= cost::max_model_len(d);
  if (!verdict.fits && verdict.why.empty()) verdict.why = "no room for one request beside the attention weights";
  return verdict;
}

}  // namespace muster::app
