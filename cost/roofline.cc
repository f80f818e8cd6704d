#include "roofline.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::cost {

using hardware::Format;

double DeviceRates::half() const {
  for (const Format format : {Format::kBf16, Format::kFp16, Format::kTf32, Format::kFp32})
    if (peak(format) > 0) return peak(format);
  return 1e12;
}

DeviceRates device_rates(const hardware::Gpu& gpu) {
  DeviceRates rates;
  for (std::size_t i = 0; i < hardware::kFormats; ++i) rates.flops[i] = gpu.dense_flops[i].value_or(0);
  rates.memory_bytes_per_s = gpu.memory_bytes_per_s;
  rates.link_bytes_per_s = gpu.scale_up.domain_gpus > 1 ? gpu.scale_up.bytes_per_s : gpu.pcie_bytes_per_s;
  if (rates.link_bytes_per_s <= 0) rates.link_bytes_per_s = 16e9;  // PCIe 3 x16, when nothing is known
  return rates;
}

WeightFormat weight_format(const std::string& name) {
  if (name.empty() || name == "bfloat16" || name == "bf16") return {};
  const auto narrow = [](const char* key, double weight_bytes, double input_bytes, Format format) {
    return WeightFormat{
        .key = key, .weight_bytes = weight_bytes, .input_bytes = input_bytes, .output_bytes = 2, .format = format};
  };
  if (name == "fp8") return narrow("fp8", 1, 1, Format::kFp8);
  if (name == "fp8_block") return narrow("fp8_block", 1 + 4.0 / (128 * 128), 1 + 4.0 / 128, Format::kFp8);
  // 4-bit floats: 16 elements share an 8-bit scale (NVFP4), or 32 do (MXFP4).
  if (name == "nvfp4") return narrow("nvfp4", 0.5625, 0.5625, Format::kFp4);
  if (name == "w4a16_mxfp4") return narrow("w4a16_mxfp4", 0.53125, 2, Format::kBf16);
  if (name == "w4a8_mxfp4_mxfp8") return narrow("w4a8_mxfp4_mxfp8", 0.53125, 1.03125, Format::kFp8);
  if (name == "int4_wo") return narrow("int4", 0.5 + 2.0 / 128, 2, Format::kBf16);
  if (name == "int8_wo") return narrow("int8_wo", 1, 2, Format::kBf16);
  if (name == "sq") return narrow("int8", 1, 1, Format::kInt8);
  return narrow("", 0, 0, Format::kBf16);
}

namespace {
double rate_of(const DeviceRates& rates, const WeightFormat& format) {
  const double peak = rates.peak(format.format);
  return peak > 0 ? peak : rates.half();
}
}  // namespace

double PrefillWork::square_length() const {
  return sequences > 0 ? std::sqrt(2 * pairs / sequences) : 0;
}

void add_piece(PrefillWork& work, double tokens, double prefix, double window) {
  double pairs = tokens * prefix + tokens * (tokens + 1) / 2;
  double keys = prefix + tokens;
  if (window > 0) {
    // Queries beyond the window see `window` keys; the first ones of a fresh prompt fewer.
    const double ramp = std::clamp(window - prefix, 0.0, tokens);
    pairs = std::min(pairs, ramp * prefix + ramp * (ramp + 1) / 2 + (tokens - ramp) * window);
    keys = std::min(keys, tokens + window);
  }
  work.sequences += 1;
  work.tokens += tokens;
  work.keys += keys;
  work.pairs += pairs;
}

Ideal ideal_gemm(const DeviceRates& rates, const WeightFormat& format, const GemmShape& shape, double m) {
  return {.compute_s = 2 * m * shape.n * shape.k / rate_of(rates, format),
          .memory_s = (shape.n * shape.k * format.weight_bytes + m * shape.k * format.input_bytes +
                       m * shape.n * format.output_bytes) /
                      rates.memory_bytes_per_s};
}

Ideal ideal_prefill(const DeviceRates& rates, const AttentionShape& shape, const PrefillWork& work) {
  return {.compute_s = 4 * work.pairs * shape.heads * shape.head_dim / rates.half(),
          .memory_s = (2 * work.keys * shape.kv_heads * shape.head_dim * shape.kv_bytes +
                       4 * work.tokens * shape.heads * shape.head_dim) /
                      rates.memory_bytes_per_s};
}

Ideal ideal_decode(const DeviceRates& rates, const AttentionShape& shape, double sequences, double kv_tokens) {
  const double seen = shape.window > 0 ? std::min(kv_tokens, sequences * shape.window) : kv_tokens;
  return {.compute_s = 4 * seen * shape.heads * shape.head_dim / rates.half(),
          .memory_s = (2 * seen * shape.kv_heads * shape.head_dim * shape.kv_bytes +
                       4 * sequences * shape.heads * shape.head_dim) /
                      rates.memory_bytes_per_s};
}

namespace {

// Elements of the projections that every token goes through: down- and up-projection of q, down-projection of kv,
// output.
double mla_projection_elements(const MlaShape& s) {
  const double query = s.heads * (s.nope_dim + s.rope_dim);
  const double into_query = s.q_lora_rank > 0 ? s.q_lora_rank * (s.hidden + query) : s.hidden * query;
  return into_query + s.hidden * (s.kv_lora_rank + s.rope_dim) + s.heads * s.v_dim * s.hidden;
}

}  // namespace

Ideal ideal_mla_prefill(const DeviceRates& rates, const WeightFormat& format, const MlaShape& s,
                        const PrefillWork& work) {
  const double projections = mla_projection_elements(s);
  // Keys and values are expanded from the latent for the whole context; then ordinary multi-head attention.
  const double expansion = s.heads * (s.nope_dim + s.v_dim) * s.kv_lora_rank;
  const double attention = 2 * work.pairs * s.heads * (s.nope_dim + s.rope_dim + s.v_dim);
  return {.compute_s = 2 * (work.tokens * projections + work.keys * expansion) / rate_of(rates, format) +
                       attention / rates.half(),
          .memory_s = ((projections + expansion) * format.weight_bytes +
                       work.keys * (s.kv_lora_rank + s.rope_dim) * s.kv_bytes +
                       4 * work.keys * s.heads * (s.nope_dim + s.v_dim) + 4 * work.tokens * s.hidden) /
                      rates.memory_bytes_per_s};
}

Ideal ideal_mla_decode(const DeviceRates& rates, const WeightFormat& format, const MlaShape& s, double sequences,
                       double kv_tokens) {
  const double projections = mla_projection_elements(s);
  const double absorbed = s.heads * (s.nope_dim + s.v_dim) * s.kv_lora_rank;  // kept in 16 bits
  const double latent = s.kv_lora_rank + s.rope_dim;
  return {.compute_s = 2 * sequences * projections / rate_of(rates, format) +
                       (2 * sequences * absorbed + 2 * kv_tokens * s.heads * (latent + s.kv_lora_rank)) / rates.half(),
          .memory_s = (projections * format.weight_bytes + 2 * absorbed + kv_tokens * latent * s.kv_bytes +
                       4 * sequences * s.hidden) /
                      rates.memory_bytes_per_s};
}

Ideal ideal_moe(const DeviceRates& rates, const WeightFormat& format, const MoeShape& shape, double tokens) {
  // Expected number of distinct experts that the tokens reach when each picks top_k of all at random.
  const double missed = std::pow(1 - shape.top_k / shape.experts, tokens);
  const double touched = shape.experts_here * (1 - missed);
  const double rows = shape.rows_per_expert(tokens) * shape.experts_here;
  const double weights_per_expert = shape.matrices * shape.hidden * shape.columns;
  return {.compute_s = 2 * rows * weights_per_expert / rate_of(rates, format),
          .memory_s = (touched * weights_per_expert * format.weight_bytes +
                       rows * 2 * (2 * shape.hidden + shape.matrices * shape.columns)) /
                      rates.memory_bytes_per_s};
}

Ideal ideal_all_reduce(const DeviceRates& rates, double bytes, double ranks) {
  return {.compute_s = 0, .memory_s = 2 * (ranks - 1) / ranks * bytes / rates.link_bytes_per_s};
}

Ideal ideal_all_gather(const DeviceRates& rates, double bytes_out, double ranks) {
  return {.compute_s = 0, .memory_s = (ranks - 1) / ranks * bytes_out / rates.link_bytes_per_s};
}

}  // namespace muster::cost
