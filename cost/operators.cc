#include "operators.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"

namespace muster::cost {
namespace {

using hardware::Format;
using model::Dtype;

// Roofline efficiencies. Medians of aiconfigurator's H100 tables (vLLM 0.14): large 16-bit GEMM 0.82 of the peak;
// weight-streaming GEMM of >= 32 MB 0.81 of the bandwidth and of 4-40 MB 0.47, which a launch of 2.5 us plus 0.85 of
// the bandwidth reproduces; decode attention up to 0.87 of the bandwidth.
constexpr double kGemmCompute = 0.80;
constexpr double kGemmMemory = 0.85;
constexpr double kGemmLaunch_s = 2.5e-6;
constexpr double kPrefillAttentionCompute = 0.55;
constexpr double kDecodeAttentionMemory = 0.80;
constexpr double kDecodeAttentionCompute = 0.35;
constexpr double kAttentionLaunch_s = 6e-6;
constexpr double kMoeCompute = 0.60;
constexpr double kMoeMemory = 0.70;
constexpr double kMoeLaunch_s = 15e-6;      // routing, permutation and two grouped GEMMs
constexpr double kElementwiseMemory = 0.80;
constexpr double kElementwiseLaunch_s = 2.5e-6;

// All-reduce on NVLink: 4.4-4.9 us inside a graph; 16 MiB take 79/101/122 us on 2/4/8 H100.
constexpr double kLinkEfficiency = 0.50;
constexpr double kNvlinkLatency_s = 4.5e-6;
constexpr double kPcieLatency_s = 15e-6;
constexpr double kPcieEfficiency = 0.70;
// Between servers: one 400 Gb/s NIC per GPU, and 10 us per message (aiconfigurator's p2p latency).
constexpr double kNetworkBytesPerS = 50e9 * 0.9;
constexpr double kNetworkLatency_s = 10e-6;

// Devices without matrix units in 16 bits compute in 32.
double half_flops(const hardware::Gpu& gpu) {
  for (const Format format : {Format::kBf16, Format::kFp16, Format::kTf32, Format::kFp32})
    if (const auto flops = gpu.flops(format)) return *flops;
  return 1e12;
}

double larger_with_overlap_loss(double a, double b) {
  // The two never overlap perfectly: a tenth of the smaller one shows.
  return std::max(a, b) + 0.1 * std::min(a, b);
}

}  // namespace

Operators::Operators(const Deployment& d) {
  const hardware::Gpu& gpu = *d.gpu;
  const auto format = compute_format(gpu, d.precision.weights);
  MUSTER_CHECK(format, "{} cannot compute in {}", gpu.key, model::name(d.precision.weights));
  half_flops_ = half_flops(gpu);
  weight_flops_ = *gpu.flops(*format);
  memory_bytes_per_s_ = gpu.memory_bytes_per_s;
  weight_bytes_ = model::weight_bytes(d.precision.weights);
  kv_bytes_ = model::kv_element_bytes(d.precision.kv);
  activation_bytes_ = d.precision.weights == Dtype::kFp32 || d.precision.weights == Dtype::kTf32 ? 4 : 2;
  const bool narrow = *format == Format::kFp8 || *format == Format::kInt8;
  input_bytes_ = *format == Format::kFp4 ? 0.5625 : (narrow ? 1 : activation_bytes_);
  tp_ = d.layout.tp;
  const bool fast_link = gpu.scale_up.domain_gpus > 1;
  link_bytes_per_s_ = fast_link ? gpu.scale_up.bytes_per_s * kLinkEfficiency : gpu.pcie_bytes_per_s * kPcieEfficiency;
  link_latency_s_ = fast_link ? kNvlinkLatency_s : kPcieLatency_s;
  if (link_bytes_per_s_ <= 0) link_bytes_per_s_ = 16e9 * kPcieEfficiency;  // PCIe 3 x16, when nothing is known
  const bool same_server = d.layout.tp * d.layout.pp <= tensor_parallel_limit(gpu);
  stage_bytes_per_s_ = same_server ? link_bytes_per_s_ : kNetworkBytesPerS;
  stage_latency_s_ = same_server ? link_latency_s_ : kNetworkLatency_s;
  provenance_.push_back(fmt::format("all operators: roofline of {} with the efficiencies of H100 tables", gpu.key));
}

OpTime Operators::gemm(const GemmShape& shape, double m, bool quantised) const {
  if (m <= 0) return {};
  OpTime t;
  const double flops = quantised ? weight_flops_ : half_flops_;
  const double weight = quantised ? weight_bytes_ : activation_bytes_;
  const double input = quantised ? input_bytes_ : activation_bytes_;
  t.compute_s = 2 * m * shape.n * shape.k / flops;
  t.memory_s = (shape.n * shape.k * weight + m * shape.k * input + m * shape.n * activation_bytes_) / memory_bytes_per_s_;
  t.s = kGemmLaunch_s + larger_with_overlap_loss(t.compute_s / kGemmCompute, t.memory_s / kGemmMemory);
  return t;
}

OpTime Operators::prefill_attention(const AttentionShape& shape, double tokens, double prefix) const {
  if (tokens <= 0) return {};
  OpTime t;
  // Pairs (query, key) under the causal mask, and under the window if there is one.
  double pairs = tokens * prefix + tokens * (tokens + 1) / 2;
  double keys = prefix + tokens;
  if (shape.window > 0) {
    pairs = std::min(pairs, tokens * shape.window);
    keys = std::min(keys, tokens + shape.window);
  }
  t.compute_s = 4 * pairs * shape.heads * shape.head_dim / half_flops_;
  t.memory_s = (2 * keys * shape.kv_heads * shape.head_dim * kv_bytes_ +
                2 * tokens * shape.heads * shape.head_dim * activation_bytes_) / memory_bytes_per_s_;
  t.s = kAttentionLaunch_s +
        larger_with_overlap_loss(t.compute_s / kPrefillAttentionCompute, t.memory_s / kDecodeAttentionMemory);
  return t;
}

OpTime Operators::decode_attention(const AttentionShape& shape, double sequences, double kv_tokens) const {
  if (sequences <= 0) return {};
  OpTime t;
  const double seen = shape.window > 0 ? std::min(kv_tokens, sequences * shape.window) : kv_tokens;
  t.compute_s = 4 * seen * shape.heads * shape.head_dim / half_flops_;
  t.memory_s = (2 * seen * shape.kv_heads * shape.head_dim * kv_bytes_ +
                2 * sequences * shape.heads * shape.head_dim * activation_bytes_) / memory_bytes_per_s_;
  t.s = kAttentionLaunch_s +
        larger_with_overlap_loss(t.compute_s / kDecodeAttentionCompute, t.memory_s / kDecodeAttentionMemory);
  return t;
}

OpTime Operators::mla_prefill(const MlaShape& shape, double tokens, double prefix) const {
  if (tokens <= 0) return {};
  OpTime t;
  const double pairs = tokens * prefix + tokens * (tokens + 1) / 2;
  const double keys = prefix + tokens;
  // Keys and values are expanded from the latent for the whole context, then ordinary multi-head attention.
  const double expand = 2 * keys * shape.heads * (shape.nope_dim + shape.v_dim) * shape.kv_lora_rank;
  t.compute_s = (expand + 2 * pairs * shape.heads * (shape.nope_dim + shape.rope_dim + shape.v_dim)) / half_flops_;
  t.memory_s = (keys * (shape.kv_lora_rank + shape.rope_dim) * kv_bytes_ +
                4 * keys * shape.heads * (shape.nope_dim + shape.v_dim) * activation_bytes_) / memory_bytes_per_s_;
  t.s = kAttentionLaunch_s + kGemmLaunch_s +
        larger_with_overlap_loss(t.compute_s / kPrefillAttentionCompute, t.memory_s / kDecodeAttentionMemory);
  return t;
}

OpTime Operators::mla_decode(const MlaShape& shape, double sequences, double kv_tokens) const {
  if (sequences <= 0) return {};
  OpTime t;
  const double latent = shape.kv_lora_rank + shape.rope_dim;
  // Queries into the latent space and values out of it, per head; then attention over the latent cache itself.
  const double absorb = 2 * sequences * shape.heads * (shape.nope_dim + shape.v_dim) * shape.kv_lora_rank;
  t.compute_s = (absorb + 2 * kv_tokens * shape.heads * (latent + shape.kv_lora_rank)) / half_flops_;
  t.memory_s = (kv_tokens * latent * kv_bytes_ +
                shape.heads * (shape.nope_dim + shape.v_dim) * shape.kv_lora_rank * activation_bytes_) /
               memory_bytes_per_s_;
  t.s = kAttentionLaunch_s + 2 * kGemmLaunch_s +
        larger_with_overlap_loss(t.compute_s / kDecodeAttentionCompute, t.memory_s / kDecodeAttentionMemory);
  return t;
}

OpTime Operators::moe(const MoeShape& shape, double tokens) const {
  if (tokens <= 0) return {};
  OpTime t;
  // Expected number of distinct experts that the tokens reach, when each token picks top_k of all at random.
  const double missed = std::pow(1 - shape.top_k / shape.experts, tokens);
  const double touched = shape.experts_here * (1 - missed);
  const double rows = tokens * shape.top_k * shape.experts_here / shape.experts;
  const double weights_per_expert = shape.matrices * shape.hidden * shape.columns;
  t.compute_s = 2 * rows * weights_per_expert / weight_flops_;
  t.memory_s = (touched * weights_per_expert * weight_bytes_ +
                rows * (2 * shape.hidden + shape.matrices * shape.columns) * activation_bytes_) / memory_bytes_per_s_;
  t.s = kMoeLaunch_s + larger_with_overlap_loss(t.compute_s / kMoeCompute, t.memory_s / kMoeMemory);
  return t;
}

OpTime Operators::elementwise(double bytes) const {
  if (bytes <= 0) return {};
  const double memory_s = bytes / memory_bytes_per_s_;
  return {.s = kElementwiseLaunch_s + memory_s / kElementwiseMemory, .compute_s = 0, .memory_s = memory_s};
}

OpTime Operators::all_reduce(double bytes) const {
  if (tp_ == 1 || bytes <= 0) return {};
  const double n = tp_;
  return {.s = link_latency_s_ + 2 * (n - 1) / n * bytes / link_bytes_per_s_, .compute_s = 0, .memory_s = 0};
}

OpTime Operators::all_gather(double bytes_out) const {
  if (tp_ == 1 || bytes_out <= 0) return {};
  const double n = tp_;
  return {.s = link_latency_s_ + (n - 1) / n * bytes_out / link_bytes_per_s_, .compute_s = 0, .memory_s = 0};
}

OpTime Operators::stage_send(double bytes) const {
  if (bytes <= 0) return {};
  return {.s = stage_latency_s_ + bytes / stage_bytes_per_s_, .compute_s = 0, .memory_s = 0};
}

}  // namespace muster::cost
