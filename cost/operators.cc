#include "operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/core/check.h"

namespace muster::cost {
namespace {

using hardware::Format;
using model::Dtype;

// Efficiencies of the bare roofline. Medians of aiconfigurator's H100 tables (vLLM 0.14): large 16-bit GEMM 0.82 of the
// peak; weight-streaming GEMM of >= 32 MB 0.81 of the bandwidth and of 4-40 MB 0.47, which the launch plus 0.85 of the
// bandwidth reproduces; decode attention up to 0.87 of the bandwidth.
struct Efficiency {
  double compute = 0;
  double memory = 0;
};
constexpr Efficiency kGemmEfficiency{.compute = 0.80, .memory = 0.85};
constexpr Efficiency kPrefillEfficiency{.compute = 0.55, .memory = 0.80};
constexpr Efficiency kDecodeEfficiency{.compute = 0.35, .memory = 0.80};
constexpr Efficiency kMoeEfficiency{.compute = 0.60, .memory = 0.70};
constexpr Efficiency kMlaEfficiency{.compute = 0.50, .memory = 0.70};

constexpr double kElementwiseMemory = 0.80;
constexpr double kElementwiseLaunch_s = 2.2e-6;  // of a small kernel inside a graph

// All-reduce without a table: half of the NVLink rate; over PCIe 0.7 of it and a slower start.
constexpr double kLinkEfficiency = 0.50;
constexpr double kPcieEfficiency = 0.70;
constexpr double kPcieLatency_s = 15e-6;
constexpr double kEagerLatency_s = 20e-6;
// Between servers: one 400 Gb/s NIC per GPU, and 10 us per message (aiconfigurator's p2p latency).
constexpr double kNetworkBytesPerS = 50e9 * 0.9;
constexpr double kNetworkLatency_s = 10e-6;

// How far to widen the band for what is not measured on this device with this engine.
constexpr double kBandOtherEngine = 0.12;
constexpr double kBandOtherFormat = 0.20;
constexpr double kBandOtherDevice = 0.25;
constexpr double kBandRoofline = 0.35;

OpTime without_table(const Ideal& ideal, const Efficiency& efficiency, double launch_s) {
  const double compute = ideal.compute_s / efficiency.compute;
  const double memory = ideal.memory_s / efficiency.memory;
  // The two never overlap perfectly: a tenth of the smaller one shows.
  return {.s = launch_s + std::max(compute, memory) + 0.1 * std::min(compute, memory),
          .compute_s = ideal.compute_s,
          .memory_s = ideal.memory_s};
}

OpTime with_factor(const Ideal& ideal, double launch_s, double factor) {
  return {.s = (launch_s + ideal.bound_s()) * factor, .compute_s = ideal.compute_s, .memory_s = ideal.memory_s};
}

// FP8 checkpoints have one scale per 128 x 128 block when they were published in FP8, and mostly so for mixtures of
// experts (Qwen3, GLM, MiniMax, DeepSeek); dense models and the older mixtures are quantised per tensor or channel.
bool has_block_scales(const model::ModelSpec& model) {
  if (model.default_dtype == Dtype::kFp8) return true;
  return model.moe && model.family != "mixtral" && model.family != "llama4";
}

std::string kv_key(Dtype kv) {
  return model::kv_element_bytes(kv) < 2 ? "fp8" : "bf16";
}

}  // namespace

double Factors::at(double x) const {
  const Bracket b = bracket(knots, x);
  if (knots.size() == 1) return values.front();
  return values[b.index] * (1 - b.fraction) + values[b.index + 1] * b.fraction;
}

Operators::Operators(const Deployment& d) : choice_(choose_table(*d.gpu, d.engine.version.engine)) {
  const hardware::Gpu& gpu = *d.gpu;
  rates_ = choice_.same_device ? choice_.table->rates : device_rates(gpu);
  ranks_ = d.layout.tp;
  ep_ = d.layout.ep;
  kv_bytes_ = model::kv_element_bytes(d.precision.kv);
  on_pcie_ = gpu.scale_up.domain_gpus <= 1;
  const double link = rates_.link_bytes_per_s * (on_pcie_ ? kPcieEfficiency : kLinkEfficiency);
  const bool same_server = d.layout.tp * d.layout.pp <= tensor_parallel_limit(gpu);
  stage_bytes_per_s_ = same_server ? link : kNetworkBytesPerS;
  stage_latency_s_ = same_server ? (on_pcie_ ? kPcieLatency_s : kCollectiveLaunch_s) : kNetworkLatency_s;
  choose_formats(d);
  choose_grids(d);
}

void Operators::choose_formats(const Deployment& d) {
  const Dtype weights = d.precision.weights;
  const auto format = compute_format(*d.gpu, weights);
  MUSTER_CHECK(format, "{} cannot compute in {}", d.gpu->key, model::name(weights));
  const bool has_fp4 = *format == Format::kFp4;
  std::string name = "bf16";
  std::string moe_name;
  if (weights == Dtype::kFp8) {
    name = has_block_scales(*d.model) ? "fp8_block" : "fp8";
  } else if (weights == Dtype::kInt8) {
    name = "sq";
  } else if (weights == Dtype::kInt4) {
    name = "int4_wo";
  } else if (weights == Dtype::kFp4) {
    name = has_fp4 ? "nvfp4" : "w4a16_mxfp4";
    // gpt-oss: its 4-bit experts take MXFP8 activations where there are FP4 units, 16-bit ones elsewhere.
    if (d.model->only_experts_quantised) moe_name = has_fp4 ? "w4a8_mxfp4_mxfp8" : "w4a16_mxfp4";
  }
  gemm_format_ = weight_format(name);
  moe_format_ = moe_name.empty() ? gemm_format_ : weight_format(moe_name);
  if (weights == Dtype::kFp32 || weights == Dtype::kTf32) {
    activation_bytes_ = 4;
    gemm_format_ = {.key = "bf16", .weight_bytes = 4, .input_bytes = 4, .output_bytes = 4, .format = *format};
    moe_format_ = gemm_format_;
    plain_format_ = gemm_format_;
  } else if (gemm_format_.format == Format::kBf16) {
    // Devices without BF16 run the same kernels in FP16.
    if (rates_.peak(Format::kBf16) <= 0)
      gemm_format_.format = moe_format_.format = plain_format_.format = Format::kFp16;
  }
}

Operators::Found Operators::find(const std::string& op, const std::vector<std::string>& keys) const {
  if (!choice_.table) return {};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (const Grid* grid = choice_.table->find(op, keys[i]))
      return {.grid = grid, .table = choice_.table, .exact = i == 0};
    const OperatorTable* other = other_engine_table(*choice_.table);
    const Grid* grid = other ? other->find(op, keys[i]) : nullptr;
    if (grid) return {.grid = grid, .table = other, .exact = false};
  }
  return {};
}

const Grid* Operators::adopt(const std::string& op, const std::vector<std::string>& keys, const char* what) {
  const Found found = find(op, keys);
  double band = found.grid ? std::max(0.08, 2 * found.grid->median_error) : kBandRoofline;
  if (found.grid && !choice_.same_engine) band = std::max(band, kBandOtherEngine);
  if (found.grid && !found.exact) band = std::max(band, kBandOtherFormat);
  if (found.grid && !choice_.same_device) band = std::max(band, kBandOtherDevice);
  if (!found.grid || !found.exact || !choice_.same_device || !choice_.same_engine) estimate_ = true;
  adopted_.push_back({.what = what, .found = found, .asked = keys.front()});
  error_band_ = std::max(error_band_, band);
  return found.grid;
}

void Operators::choose_grids(const Deployment& d) {
  const model::ModelSpec& m = *d.model;
  const std::string kv = kv_key(d.precision.kv);
  const std::string& key = gemm_format_.key;
  const bool narrow = key == "fp8" || key == "fp8_block" || key == "int8";
  gemm_grid_ = adopt(
      "gemm", narrow ? std::vector<std::string>{key, "fp8", "bf16"} : std::vector<std::string>{key, "bf16"}, "GEMM");
  plain_gemm_grid_ = find("gemm", {"bf16"}).grid;
  if (m.moe) {
    moe_over_ranks_ = ep_ > 1;
    const std::string suffix = moe_over_ranks_ ? " ep" : "";
    moe_grid_ =
        adopt("moe", {moe_format_.key + suffix, (narrow ? "fp8" : "bf16") + suffix, "bf16" + suffix}, "experts");
  }
  if (m.mla) {
    const std::string weights = key == "fp8" ? "fp8_block" : key;
    const std::vector<std::string> keys{fmt::format("{} kv {}", weights, kv), weights + " kv bf16", "bf16 kv bf16"};
    mla_prefill_grid_ = adopt("mla_prefill", keys, "MLA block, prefill");
    mla_decode_grid_ = adopt("mla_decode", keys, "MLA block, decode");
  } else if (m.attention_heads > 0) {
    const int head_dim = m.head_dim <= 96 ? 64 : (m.head_dim <= 192 ? 128 : 256);
    std::vector<std::string> keys{fmt::format("hd{} kv {}", head_dim, kv), fmt::format("hd{} kv bf16", head_dim),
                                  "hd128 kv " + kv, "hd128 kv bf16"};
    if (m.head_dim != head_dim) keys.insert(keys.begin(), fmt::format("hd{} kv {}", m.head_dim, kv));
    prefill_grid_ = adopt("prefill", keys, "attention, prefill");
    decode_grid_ = adopt("decode", keys, "attention, decode");
  }
  if (ranks_ > 1) {
    // A table of NVSwitch parts says nothing about PCIe, and the reverse.
    const bool measured_on_pcie = choice_.table && choice_.table->rates.link_bytes_per_s < 100e9;
    if (choice_.table && measured_on_pcie == on_pcie_) {
      all_reduce_grid_ = adopt("all_reduce", {"graph"}, "all-reduce");
      all_reduce_eager_grid_ = find("all_reduce", {"eager", "graph"}).grid;
      all_gather_grid_ = find("all_gather", {"nccl"}).grid;
    } else {
      adopted_.push_back({.what = "all-reduce", .found = {}, .asked = ""});
      error_band_ = std::max(error_band_, kBandOtherDevice);
      estimate_ = true;
    }
  }
}

std::vector<std::string> Operators::provenance() const {
  std::vector<std::string> lines;
  for (const Adopted& a : adopted_) {
    const Grid* grid = a.found.grid;
    if (!grid) {
      lines.push_back(fmt::format("{}: estimate: roofline with general efficiencies ({})", a.what,
                                  choice_.table ? "not measured" : choice_.text));
      continue;
    }
    std::string line =
        fmt::format("{}: fitted on {} rows of {} ({}), median error {:.1f} %, p90 {:.1f} %: {}", a.what, grid->rows,
                    grid->key, a.found.table == choice_.table ? choice_.text : describe(*a.found.table),
                    100 * grid->median_error, 100 * grid->p90_error, grid->source);
    if (!a.found.exact) line += fmt::format(" (estimate: stands in for {} of {})", a.asked, choice_.text);
    lines.push_back(std::move(line));
  }
  lines.push_back("element-wise kernels: estimate: bytes at 0.8 of the bandwidth and 2.2 us each");
  return lines;
}

CompiledGemm Operators::compile_gemm(const GemmShape& shape, bool quantised) const {
  CompiledGemm out{
      .shape = shape, .quantised = quantised, .format = quantised ? gemm_format_ : plain_format_, .factors = {}};
  if (const Grid* grid = quantised ? gemm_grid_ : plain_gemm_grid_) {
    const std::array<double, 2> at{shape.n, shape.k};
    out.factors = {.knots = grid->axes.front().knots, .values = grid->first_axis_factors(at)};
  }
  return out;
}

CompiledMoe Operators::compile_moe(const MoeShape& shape) const {
  CompiledMoe out{.shape = shape, .format = moe_format_, .factors = {}};
  if (moe_grid_) {
    const std::array<double, 3> at{shape.columns, shape.experts_here, moe_over_ranks_ ? ep_ : shape.hidden};
    out.factors = {.knots = moe_grid_->axes.front().knots, .values = moe_grid_->first_axis_factors(at)};
  }
  return out;
}

namespace {

bool inside(const Axis& axis, double x) {
  return x >= axis.knots.front() && x <= axis.knots.back();
}

}  // namespace

bool Operators::measured(const GemmShape& shape, bool quantised) const {
  const Grid* grid = quantised ? gemm_grid_ : plain_gemm_grid_;
  return !grid || (inside(grid->axes[1], shape.n) && inside(grid->axes[2], shape.k));
}

bool Operators::measured(const MoeShape& shape) const {
  return !moe_grid_ || (inside(moe_grid_->axes[1], shape.columns) && inside(moe_grid_->axes[2], shape.experts_here));
}

bool Operators::measured_collectives() const {
  return !all_reduce_grid_ || inside(all_reduce_grid_->axes[1], ranks_);
}

OpTime Operators::gemm(const CompiledGemm& g, double m) const {
  if (m <= 0) return {};
  const Ideal ideal = ideal_gemm(rates_, g.format, g.shape, m);
  if (g.factors.values.empty()) return without_table(ideal, kGemmEfficiency, kGemmLaunch_s);
  return with_factor(ideal, kGemmLaunch_s, g.factors.at(m));
}

OpTime Operators::moe(const CompiledMoe& moe, double tokens) const {
  if (tokens <= 0) return {};
  const Ideal ideal = ideal_moe(rates_, moe.format, moe.shape, tokens);
  if (moe.factors.values.empty()) return without_table(ideal, kMoeEfficiency, kMoeLaunch_s);
  return with_factor(ideal, kMoeLaunch_s, moe.factors.at(moe.shape.rows_per_expert(tokens)));
}

OpTime Operators::prefill_attention(const AttentionShape& shape, const PrefillWork& work) const {
  if (work.tokens <= 0) return {};
  const Ideal ideal = ideal_prefill(rates_, shape, work);
  if (!prefill_grid_) return without_table(ideal, kPrefillEfficiency, kAttentionLaunch_s);
  const std::array<double, 3> at{work.square_length(), work.sequences * shape.heads, shape.group()};
  return with_factor(ideal, kAttentionLaunch_s, prefill_grid_->factor(at));
}

OpTime Operators::decode_attention(const AttentionShape& shape, double sequences, double kv_tokens) const {
  if (sequences <= 0) return {};
  const Ideal ideal = ideal_decode(rates_, shape, sequences, kv_tokens);
  if (!decode_grid_) return without_table(ideal, kDecodeEfficiency, kAttentionLaunch_s);
  double length = kv_tokens / sequences;
  if (shape.window > 0) length = std::min(length, shape.window);
  const std::array<double, 3> at{length, sequences * shape.kv_heads, shape.group()};
  return with_factor(ideal, kAttentionLaunch_s, decode_grid_->factor(at));
}

OpTime Operators::mla_prefill(const MlaShape& shape, const PrefillWork& work) const {
  if (work.tokens <= 0) return {};
  const Ideal ideal = ideal_mla_prefill(rates_, gemm_format_, shape, work);
  if (!mla_prefill_grid_) return without_table(ideal, kMlaEfficiency, kMlaLaunch_s);
  const std::array<double, 3> at{work.square_length(), work.sequences, shape.heads};
  return with_factor(ideal, kMlaLaunch_s, mla_prefill_grid_->factor(at));
}

OpTime Operators::mla_decode(const MlaShape& shape, double sequences, double kv_tokens) const {
  if (sequences <= 0) return {};
  const Ideal ideal = ideal_mla_decode(rates_, gemm_format_, shape, sequences, kv_tokens);
  if (!mla_decode_grid_) return without_table(ideal, kMlaEfficiency, kMlaLaunch_s);
  const std::array<double, 3> at{kv_tokens / sequences, sequences, shape.heads};
  return with_factor(ideal, kMlaLaunch_s, mla_decode_grid_->factor(at));
}

OpTime Operators::elementwise(double bytes) const {
  if (bytes <= 0) return {};
  const double memory_s = bytes / rates_.memory_bytes_per_s;
  return {.s = kElementwiseLaunch_s + memory_s / kElementwiseMemory, .compute_s = 0, .memory_s = memory_s};
}

OpTime Operators::all_reduce(double bytes, bool graph) const {
  if (ranks_ <= 1 || bytes <= 0) return {};
  const double ideal = ideal_all_reduce(rates_, bytes, ranks_).memory_s;
  if (const Grid* grid = graph ? all_reduce_grid_ : all_reduce_eager_grid_) {
    const std::array<double, 2> at{bytes, ranks_};
    return {.s = (kCollectiveLaunch_s + ideal) * grid->factor(at)};
  }
  const double launch = on_pcie_ ? kPcieLatency_s : kCollectiveLaunch_s;
  return {.s = (graph ? launch : kEagerLatency_s) + ideal / (on_pcie_ ? kPcieEfficiency : kLinkEfficiency)};
}

OpTime Operators::all_gather(double bytes_out) const {
  if (ranks_ <= 1 || bytes_out <= 0) return {};
  const double ideal = ideal_all_gather(rates_, bytes_out, ranks_).memory_s;
  if (all_gather_grid_) {
    const std::array<double, 2> at{bytes_out, ranks_};
    return {.s = (kCollectiveLaunch_s + ideal) * all_gather_grid_->factor(at)};
  }
  return {.s = (on_pcie_ ? kPcieLatency_s : kCollectiveLaunch_s) +
               ideal / (on_pcie_ ? kPcieEfficiency : kLinkEfficiency)};
}

OpTime Operators::stage_send(double bytes) const {
  if (bytes <= 0) return {};
  return {.s = stage_latency_s_ + bytes / stage_bytes_per_s_};
}

}  // namespace muster::cost
