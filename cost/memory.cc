#include "muster/cost/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kv_groups.h"
#include "muster/core/check.h"
#include "muster/model/tensors.h"

namespace muster::cost {
namespace {

using model::Dtype;
using model::ModelSpec;

// Devices of at least this much memory get the larger default flags (vLLM get_batch_defaults; not the A100).
constexpr std::int64_t kLargeDeviceBytes = 70 * kGiB;

bool is_large_device(const hardware::Gpu& gpu) {
  return gpu.memory.value >= kLargeDeviceBytes && gpu.key.find("a100") == std::string::npos;
}

std::int64_t bytes_of_gib(double gib) {
  return static_cast<std::int64_t>(gib * static_cast<double>(kGiB));
}

double k(std::int64_t x) {
  return static_cast<double>(x) / 1024.0;
}

// Bytes of one extra copy of the largest 4-bit weight, which the loader holds while it repacks that weight for the
// Marlin kernels; the engine's own figure for "weights" is the peak while loading, so it includes the copy.
std::int64_t repack_bytes(const Deployment& d) {
  if (!d.engine.repacks_int4 || d.precision.weights != Dtype::kInt4) return 0;
  std::int64_t largest = 0;
  for (const model::Tensor& tensor : model::layer_tensors(*d.model, d.model->layers - 1))
    if (tensor.quantised) largest = std::max(largest, tensor.elements);
  if (d.model->gated_mlp && !d.model->moe) largest *= 2;  // gate and up are one weight
  return static_cast<std::int64_t>(static_cast<double>(largest) * model::weight_bytes(Dtype::kInt4)) / d.layout.tp;
}

// Expert buffers for the largest step: each routed copy of a token holds max(columns, hidden) numbers, and again
// max(2 x columns, hidden) (vLLM modular_kernel.py, workspace shapes of the Triton experts).
std::int64_t moe_workspace_bytes(const Deployment& d) {
  if (!d.engine.moe_workspace || !d.model->moe) return 0;
  const model::Moe& moe = *d.model->moe;
  const std::int64_t copies = std::int64_t{max_num_batched_tokens(d)} * moe.experts_per_token;
  const std::int64_t columns = moe.expert_intermediate_size / (d.layout.tp / d.layout.ep);
  const std::int64_t hidden = d.model->hidden_size;
  return copies * (std::max(columns, hidden) + std::max(2 * columns, hidden)) * 2;
}

std::int64_t activation_bytes(const Deployment& d, bool has_head) {
  const ModelSpec& m = *d.model;
  const EngineProfile& e = d.engine;
  const std::int64_t tokens = max_num_batched_tokens(d);
  const double width = d.precision.weights == Dtype::kFp32 || d.precision.weights == Dtype::kTf32 ? 2 : 1;
  const double token_hidden = k(tokens) * k(m.hidden_size);
  const std::int64_t columns = m.moe ? m.moe->shared_intermediate_size : m.intermediate_size;
  const double forward = width * (e.activation_gib_per_k_tokens_hidden * token_hidden +
                                  e.activation_gib_per_k_tokens_mlp * k(tokens) * k(columns) / d.layout.tp);
  double sampler = 0;
  if (has_head) {
    // While sampling, the hidden states of the whole step are still held: about 1.5 16-bit copies.
    constexpr double kHeldGib = 1.5 * 2.0 / 1024.0;
    // 32-bit logits have no 16-bit copy beside them: 16 bytes instead of 14.
    const double logits = width > 1 ? 16.0 / 14.0 : 1.0;
    sampler =
        logits * e.logits_gib_per_k_seqs_vocab * k(max_num_seqs(d)) * k(m.vocab_size) + width * kHeldGib * token_hidden;
  }
  return bytes_of_gib(e.activation_fixed_gib + std::max(forward, sampler)) + moe_workspace_bytes(d);
}

std::int64_t non_torch_bytes(const Deployment& d) {
  if (d.layout.tp > 1) return bytes_of_gib(d.engine.non_torch_tp_gib);
  if (d.layout.pp > 1) return bytes_of_gib(d.engine.non_torch_pp_gib);
  return bytes_of_gib(d.engine.non_torch_tp1_gib);
}

Bytes device_memory(const Deployment& d) {
  return d.device_memory.value_or(visible_memory(*d.gpu));
}

double memory_fraction(const Deployment& d) {
  return d.memory_fraction.value_or(d.engine.memory_fraction);
}

// What the engine would give to the KV cache on this stage; negative when even the rest does not fit.
std::int64_t kv_room(const Deployment& d, const StageMemory& stage) {
  const double total = static_cast<double>(device_memory(d).value);
  const double fraction = memory_fraction(d);
  const std::int64_t resident = stage.weights.value + stage.non_torch.value;
  switch (d.engine.budget_rule) {
    case BudgetRule::kFractionOfTotal:
      return static_cast<std::int64_t>(total * fraction) - resident - stage.activation.value -
             (d.engine.graphs_in_budget ? stage.graph.value : 0);
    case BudgetRule::kFractionOfFree: {
      const std::int64_t left = device_memory(d).value - resident - stage.activation.value - stage.graph.value;
      return left > 0 ? static_cast<std::int64_t>(static_cast<double>(left) * fraction) : left;
    }
    case BudgetRule::kStaticFraction: {
      const std::int64_t left = static_cast<std::int64_t>(total * fraction) - resident;
      const std::int64_t all = device_memory(d).value - resident - stage.activation.value - stage.graph.value;
      return std::min(left, all);
    }
  }
  return 0;
}

StageMemory stage_memory(const Deployment& d, int first, int count, bool has_embedding, bool has_head) {
  StageMemory stage;
  stage.layers = count;
  stage.weights = model::weight_bytes_per_rank({.spec = d.model,
                                                .dtype = d.precision.weights,
                                                .tp = d.layout.tp,
                                                .ep = d.layout.ep,
                                                .first_layer = first,
                                                .layer_count = count,
                                                .has_embedding = has_embedding,
                                                .has_head = has_head}) +
                  Bytes(repack_bytes(d));
  stage.activation = Bytes(activation_bytes(d, has_head));
  stage.non_torch = Bytes(non_torch_bytes(d));
  stage.graph = Bytes(bytes_of_gib(d.engine.graph_fixed_gib + d.engine.graph_gib_per_layer * count));
  return stage;
}

struct Filled {
  MemoryVerdict verdict;  // without `why`
  double needed = 0;      // KV tokens of one request of the maximum length
};
Filled fill(const Deployment& d);

bool fits(const Filled& filled) {
  return filled.verdict.stage().free.value >= 0 && static_cast<double>(filled.verdict.kv_tokens.value) >= filled.needed;
}

// The smallest power of two of tensor parallelism above the present one that fits, if any.
std::optional<int> larger_tp_that_fits(const Deployment& d) {
  Deployment other = d;
  other.kv_blocks.reset();
  for (other.layout.tp *= 2; other.layout.tp <= tensor_parallel_limit(*d.gpu); other.layout.tp *= 2)
    if (!refuse_layout(*d.model, other.layout) && fits(fill(other))) return other.layout.tp;
  return std::nullopt;
}

std::string ways_to_fit(const Deployment& d, const StageMemory& stage, std::int64_t budget) {
  std::string ways;
  const auto add = [&ways](const std::string& way) { ways += (ways.empty() ? "use " : ", or ") + way; };
  if (const auto tp = larger_tp_that_fits(d)) add(fmt::format("--tp {}", *tp));
  for (const Dtype dtype : {Dtype::kFp8, Dtype::kInt4}) {
    Deployment other = d;
    other.precision.weights = dtype;
    if (model::weight_bytes(dtype) < model::weight_bytes(d.precision.weights) && compute_format(*d.gpu, dtype) &&
        fits(fill(other))) {
      add(fmt::format("--precision {}", model::name(dtype)));
      break;
    }
  }
  if (ways.empty() && !d.gpu->is_slice) {
    const std::int64_t stages =
        budget > 0 ? (stage.weights.value * d.layout.pp + budget - 1) / budget : std::int64_t{0};
    if (stages > d.layout.pp && stages <= d.model->layers) add(fmt::format("--pp {}", stages));
  }
  return ways.empty() ? "use a device with more memory" : ways;
}

std::string why_weights_do_not_fit(const Deployment& d, const StageMemory& stage) {
  const std::int64_t budget = stage.free.value + stage.weights.value;  // what is left for the weights
  return fmt::format("needs {:.1f} GiB of weights per GPU, has {:.1f}: {}", to_gib(stage.weights),
                     std::max(0.0, to_gib(Bytes(budget))), ways_to_fit(d, stage, budget));
}

std::string why_context_does_not_fit(const Deployment& d, const MemoryVerdict& verdict, double needed) {
  const double tokens = static_cast<double>(verdict.kv_tokens.value);
  // The longest context that fits: the need grows with the context, so halve the interval.
  int low = 0;
  int high = max_model_len(d);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (kv_tokens_of_sequence(d, middle) <= tokens ? low : high) = middle;
  }
  const int fits = low / d.engine.kv_block_tokens * d.engine.kv_block_tokens;
  std::string why = fmt::format("one request of {} tokens needs {:.0f} tokens of KV, there is room for {}",
                                max_model_len(d), needed, verdict.kv_tokens.value);
  if (fits > 0) return why + fmt::format(": --max-model-len {} would fit", fits);
  return why + ": use a larger --gpu-memory-utilization, --tp or --kv-precision fp8";
}

}  // namespace

Bytes visible_memory(const hardware::Gpu& gpu) {
  if (gpu.vendor != "nvidia" || gpu.is_slice) return gpu.memory;
  // The driver keeps about 0.46 GiB: an H100 SXM reports 79.65 GiB and offers 79.19, an RTX 4090 23.99 and 23.52
  // (start-ups logged in llm-d-planner; LLMServingSim's run metadata). Marketing figures read as GiB are 1 % or more
  // higher still.
  constexpr double kReservedGib = 0.46;
  if (gpu.memory_basis.starts_with("reported by the driver")) return gpu.memory - Bytes(bytes_of_gib(kReservedGib));
  if (gpu.memory_basis.starts_with("marketing"))
    return Bytes(static_cast<std::int64_t>(static_cast<double>(gpu.memory.value) * 0.99)) -
           Bytes(bytes_of_gib(kReservedGib));
  return gpu.memory;
}

int max_model_len(const Deployment& d) {
  return d.max_model_len > 0 ? d.max_model_len : d.model->max_position_embeddings;
}

int max_num_batched_tokens(const Deployment& d) {
  if (d.max_num_batched_tokens > 0) return d.max_num_batched_tokens;
  const bool large = d.engine.large_max_num_batched_tokens > 0 && is_large_device(*d.gpu);
  return large ? d.engine.large_max_num_batched_tokens : d.engine.max_num_batched_tokens;
}

int max_num_seqs(const Deployment& d) {
  if (d.max_num_seqs > 0) return d.max_num_seqs;
  const bool large = d.engine.large_max_num_seqs > 0 && is_large_device(*d.gpu);
  return large ? d.engine.large_max_num_seqs : d.engine.max_num_seqs;
}

KvGroups kv_groups(const Deployment& d, int first, int count) {
  const ModelSpec& m = *d.model;
  KvGroups groups;
  int full = 0;
  int local = 0;
  for (int layer = first; layer < first + count; ++layer) {
    if (m.is_linear_layer(layer)) {
      ++groups.linear_layers;
      continue;
    }
    ++(m.is_local_layer(layer) ? local : full);
    if (groups.bytes_per_token_and_layer == 0)
      groups.bytes_per_token_and_layer =
          model::kv_bytes_per_token_and_layer(m, layer, d.precision.kv, d.layout.tp).value;
  }
  groups.window = m.sliding_window ? m.sliding_window->window : 0;
  if (d.engine.groups_kv_layers && full > 0 && local > 0) {
    // vLLM kv_cache_utils.py: groups as large as the rarer kind, or as the commoner one when it is less than 1.5 times
    // as frequent; the last group of each kind is padded.
    const int rare = std::min(full, local);
    const int common = std::max(full, local);
    groups.layers_per_group = 2 * common < 3 * rare ? common : rare;
    groups.full_groups = (full + groups.layers_per_group - 1) / groups.layers_per_group;
    groups.window_groups = (local + groups.layers_per_group - 1) / groups.layers_per_group;
  } else {
    groups.layers_per_group = 1;
    groups.full_groups = full;
    groups.window_groups = local;
  }
  return groups;
}

double kv_tokens_of_sequence(const Deployment& d, double context) {
  const KvGroups groups = kv_groups(d, 0, d.model->layers);
  if (groups.groups() == 0) return 0;
  const double windowed = groups.window > 0 ? std::min(context, static_cast<double>(groups.window)) : context;
  double tokens = (groups.full_groups * context + groups.window_groups * windowed) / groups.groups();
  if (groups.linear_layers > 0 && d.model->linear_attention && groups.bytes_per_token() > 0)
    tokens += d.model->linear_attention->state_bytes_per_layer * groups.linear_layers /
              (static_cast<double>(groups.bytes_per_token()) * d.layout.tp);
  return tokens;
}

namespace {

Filled fill(const Deployment& d) {
  const std::vector<int> layers = stage_layers(d.model->layers, d.layout.pp);
  MemoryVerdict verdict;
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_room = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> bytes_per_token;
  int first = 0;
  for (int s = 0; s < d.layout.pp; ++s) {
    const int count = layers[static_cast<std::size_t>(s)];
    StageMemory stage = stage_memory(d, first, count, s == 0, s + 1 == d.layout.pp);
    const std::int64_t room = kv_room(d, stage);
    stage.kv = Bytes(room);
    const std::int64_t per_token = kv_groups(d, first, count).bytes_per_token();
    bytes_per_token.push_back(per_token);
    // Stages without any KV (all layers linear) do not limit the tokens, but their room may still be negative.
    const std::int64_t stage_tokens =
        room < 0 ? room : (per_token > 0 ? room / per_token : std::numeric_limits<std::int64_t>::max() - 1);
    if (stage_tokens < tokens || (stage_tokens < 0 && room < least_room)) {
      tokens = stage_tokens;
      least_room = room;
      verdict.tightest = s;
    }
    verdict.stages.push_back(stage);
    first += count;
  }
  const std::int64_t block = d.engine.kv_block_tokens;
  const std::int64_t room = verdict.stage().kv.value;
  tokens = tokens > 0 ? tokens / block * block : 0;
  if (d.kv_blocks && room >= 0) {
    const KvGroups groups = kv_groups(d, 0, d.model->layers);
    const int share = d.engine.groups_kv_layers && groups.layers_per_group > 1 ? std::max(1, groups.groups()) : 1;
    tokens = *d.kv_blocks / share * block;
  }
  verdict.kv_tokens = Tokens(tokens);
  for (std::size_t s = 0; s < verdict.stages.size(); ++s) {
    StageMemory& stage = verdict.stages[s];
    // Every stage holds the same number of blocks: those of the tightest one.
    const std::int64_t kv = s == static_cast<std::size_t>(verdict.tightest) && !d.kv_blocks
                                ? std::max<std::int64_t>(0, stage.kv.value)
                                : tokens * bytes_per_token[s];
    const std::int64_t short_of = std::min<std::int64_t>(0, stage.kv.value);
    stage.kv = Bytes(kv);
    stage.free = short_of < 0
                     ? Bytes(short_of)
                     : device_memory(d) - stage.weights - stage.activation - stage.non_torch - stage.graph - stage.kv;
  }
  const double needed = kv_tokens_of_sequence(d, max_model_len(d));
  verdict.max_concurrency = needed > 0 ? static_cast<double>(tokens) / needed : 0;
  return {.verdict = std::move(verdict), .needed = needed};
}

}  // namespace

MemoryVerdict memory(const Deployment& d) {
  MUSTER_CHECK(d.model && d.gpu, "a deployment needs a model and a device");
  Filled filled = fill(d);
  MemoryVerdict& verdict = filled.verdict;
  verdict.fits = fits(filled);
  const StageMemory& stage = verdict.stage();
  if (verdict.fits) {
    verdict.why = fmt::format("{:.1f} GiB of weights and {:.1f} GiB of KV per GPU: {} tokens, {:.1f} requests of {}",
                              to_gib(stage.weights), to_gib(stage.kv), verdict.kv_tokens.value, verdict.max_concurrency,
                              max_model_len(d));
  } else if (stage.free.value < 0) {
    verdict.why = why_weights_do_not_fit(d, stage);
  } else {
    verdict.why = why_context_does_not_fit(d, verdict, filled.needed);
  }
  return verdict;
}

}  // namespace muster::cost
