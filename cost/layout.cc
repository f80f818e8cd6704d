#include "muster/cost/layout.h"

#include <fmt/format.h>

#include "muster/core/check.h"

namespace muster::cost {
namespace {

using hardware::Format;
using model::Dtype;

constexpr int kVocabularyPadding = 64;  // vLLM vocab_parallel_embedding.py: DEFAULT_VOCAB_PADDING_SIZE
constexpr int kPcieServerGpus = 8;      // PCIe has no scale-up domain; a server holds at most eight

bool is_pcie(const hardware::Link& link) {
  return link.technology.find("PCIe") != std::string::npos;
}

std::optional<std::string> refuse_experts(const model::ModelSpec& model, const Layout& layout) {
  if (!model.moe) {
    if (layout.ep > 1) return fmt::format("ep {}: {} has no experts to divide", layout.ep, model.key);
    return std::nullopt;
  }
  const model::Moe& moe = *model.moe;
  if (layout.tp % layout.ep != 0) return fmt::format("ep {} does not divide tp {}", layout.ep, layout.tp);
  if (moe.experts % layout.ep != 0) return fmt::format("{} experts do not divide over ep {}", moe.experts, layout.ep);
  const int columns_over = layout.tp / layout.ep;
  if (moe.expert_intermediate_size % columns_over != 0)
    return fmt::format("expert width {} does not divide over {} ranks", moe.expert_intermediate_size, columns_over);
  if (moe.shared_intermediate_size % layout.tp != 0)
    return fmt::format("shared-expert width {} does not divide over tp {}", moe.shared_intermediate_size, layout.tp);
  return std::nullopt;
}

bool has_dense_mlp(const model::ModelSpec& model) {
  for (int layer = 0; layer < model.layers; ++layer)
    if (!model.is_moe_layer(layer)) return true;
  return false;
}

}  // namespace

std::string text(const Layout& layout) {
  std::string out = fmt::format("tp{}", layout.tp);
  if (layout.pp > 1) out += fmt::format(" pp{}", layout.pp);
  if (layout.dp > 1) out += fmt::format(" dp{}", layout.dp);
  if (layout.ep > 1) out += fmt::format(" ep{}", layout.ep);
  return out;
}

std::optional<hardware::Format> compute_format(const hardware::Gpu& gpu, Dtype weights) {
  const auto supported = [&gpu](Format format) { return gpu.flops(format).has_value(); };
  const auto half = [&]() -> std::optional<Format> {
    if (supported(Format::kBf16)) return Format::kBf16;
    if (supported(Format::kFp16)) return Format::kFp16;
    if (supported(Format::kFp32)) return Format::kFp32;
    return std::nullopt;
  };
  const auto exactly = [&](Format format) { return supported(format) ? std::optional(format) : std::nullopt; };
  switch (weights) {
    case Dtype::kFp32:
      return exactly(Format::kFp32);
    case Dtype::kTf32:
      return exactly(Format::kTf32);
    case Dtype::kFp16:
      return exactly(Format::kFp16);
    case Dtype::kBf16:
      return exactly(Format::kBf16);
    case Dtype::kFp8:
      return exactly(Format::kFp8);
    case Dtype::kInt8:
      return exactly(Format::kInt8);
    case Dtype::kInt4:
      return half();
    case Dtype::kFp4:
      return supported(Format::kFp4) ? std::optional(Format::kFp4) : half();
  }
  return std::nullopt;
}

int tensor_parallel_limit(const hardware::Gpu& gpu) {
  if (gpu.is_slice) return 1;
  return gpu.scale_up.domain_gpus > 1 ? gpu.scale_up.domain_gpus : kPcieServerGpus;
}

std::optional<std::string> refuse_layout(const model::ModelSpec& model, const Layout& layout) {
  const int tp = layout.tp;
  if (tp < 1 || layout.pp < 1 || layout.dp < 1 || layout.ep < 1)
    return fmt::format("{}: every degree must be at least 1", text(layout));
  if (layout.pp > model.layers) return fmt::format("pp {} exceeds the {} layers", layout.pp, model.layers);
  if (model.attention_heads % tp != 0)
    return fmt::format("{} attention heads do not divide over tp {}", model.attention_heads, tp);
  const int padded = (model.vocab_size + kVocabularyPadding - 1) / kVocabularyPadding * kVocabularyPadding;
  if (padded % tp != 0)
    return fmt::format("vocabulary {} (padded to {}) does not divide over tp {}", model.vocab_size, padded, tp);
  if (!model.mla && model.kv_heads > 0) {
    if (tp <= model.kv_heads && model.kv_heads % tp != 0)
      return fmt::format("{} KV heads do not divide over tp {}", model.kv_heads, tp);
    if (tp > model.kv_heads && tp % model.kv_heads != 0)
      return fmt::format("tp {} is not a multiple of the {} KV heads to copy", tp, model.kv_heads);
  }
  if (model.intermediate_size % tp != 0 && has_dense_mlp(model))
    return fmt::format("MLP width {} does not divide over tp {}", model.intermediate_size, tp);
  return refuse_experts(model, layout);
}

std::optional<std::string> refuse_device(const hardware::Gpu& gpu, const Layout& layout, const Precision& precision) {
  if (gpu.is_slice && layout.tp * layout.pp > 1)
    return fmt::format(
        "{} is a slice: slices have no link to each other, so {} cannot run on it (NVLink and peer "
        "access are off under MIG); use a whole device",
        gpu.key, text(layout));
  const int limit = tensor_parallel_limit(gpu);
  if (layout.tp > limit)
    return fmt::format(
        "tp {} exceeds the {} devices that {} joins: every layer would all-reduce over the network; "
        "use pp across nodes",
        layout.tp, limit,
        gpu.scale_up.technology.empty() || is_pcie(gpu.scale_up) ? "one server" : gpu.scale_up.technology);
  if (!compute_format(gpu, precision.weights)) {
    return fmt::format("{} has no {} matrix units", gpu.key, model::name(precision.weights));
  }
  if (precision.kv == Dtype::kInt4 || precision.kv == Dtype::kFp4 || precision.kv == Dtype::kTf32)
    return fmt::format("no engine keeps the KV cache in {}", model::name(precision.kv));
  return std::nullopt;
}

std::vector<int> stage_layers(int layers, int pp) {
  MUSTER_CHECK(pp >= 1 && layers >= pp, "stage_layers({}, {})", layers, pp);
  // vLLM distributed/utils.py get_pp_indices: the remainder goes to the stages before the last, from the back.
  std::vector<int> stages(static_cast<std::size_t>(pp), layers / pp);
  const int remainder = layers % pp;
  for (int i = 0; i < remainder; ++i) stages[static_cast<std::size_t>(pp - 2 - i)] += 1;
  return stages;
}

}  // namespace muster::cost
