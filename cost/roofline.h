// What an ideal device needs for an operator: its arithmetic at the peak rate, its bytes at the full bandwidth. Shared
// by the fit of measured tables and by their use, so that a fitted factor means the same in both.
#pragma once

#include <array>
#include <string>

#include "muster/hardware/gpu.h"

namespace muster::cost {

struct DeviceRates {
  std::array<double, hardware::kFormats> flops{};  // FLOP/s; 0: not supported
  double memory_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // between the devices of one server, one direction

  double peak(hardware::Format format) const { return flops[static_cast<std::size_t>(format)]; }
  double half() const;  // 16-bit matrix units, or what the device has instead
};
DeviceRates device_rates(const hardware::Gpu& gpu);

struct Ideal {
  double compute_s = 0;
  double memory_s = 0;
  double bound_s() const { return compute_s > memory_s ? compute_s : memory_s; }
};

// Reference times are launch + max(compute, memory). The launches are near the smallest time that any kernel of the
// kind takes in the H100 tables; they keep the fitted factors close to one where nothing else does.
inline constexpr double kGemmLaunch_s = 3e-6;
inline constexpr double kAttentionLaunch_s = 10e-6;
inline constexpr double kMoeLaunch_s = 15e-6;
inline constexpr double kMlaLaunch_s = 40e-6;
inline constexpr double kCollectiveLaunch_s = 4e-6;

// How one weight format is stored and multiplied.
struct WeightFormat {
  std::string key = "bf16";  // of the fitted grids: "bf16", "fp8", "fp8_block", "nvfp4", "w4a16_mxfp4", "int4", ...
  double weight_bytes = 2;   // per element, with scales
  double input_bytes = 2;    // per element of the activations that enter
  double output_bytes = 2;   // ... and that leave
  hardware::Format format = hardware::Format::kBf16;  // of the multiplication
};
// By the names of measured tables ("bfloat16", "fp8_block", "nvfp4", "w4a16_mxfp4", "int4_wo", "sq", ...); an unknown
// name gives an empty key.
WeightFormat weight_format(const std::string& name);

struct GemmShape {  // C[m, n] = A[m, k] B[k, n]; m is given at evaluation
  double n = 0;
  double k = 0;
};

struct AttentionShape {  // one layer, one rank
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double window = 0;    // tokens; 0: full attention
  double kv_bytes = 2;  // per KV element
  double group() const { return heads / kv_heads; }
};

struct MlaShape {  // one layer, one rank; the whole block with its projections
  double hidden = 0;
  double heads = 0;
  double q_lora_rank = 0;  // 0: q is projected directly
  double kv_lora_rank = 0;
  double rope_dim = 0;
  double nope_dim = 0;
  double v_dim = 0;
  double kv_bytes = 2;
};

struct MoeShape {  // one layer
  double hidden = 0;
  double columns = 0;       // of one expert on one rank: expert width / (tp / ep)
  double experts = 0;       // of the layer
  double experts_here = 0;  // on one rank: experts / ep
  double top_k = 0;
  double matrices = 3;  // gate, up, down
  double rows_per_expert(double tokens) const { return tokens * top_k / experts; }
};

// Prompt pieces that run in one kernel call.
struct PrefillWork {
  double sequences = 0;
  double tokens = 0;  // new
  double keys = 0;    // cached and new
  double pairs = 0;   // (query, key) under the causal mask
  // Length of the square causal problem with as many pairs per sequence: what a measured table is looked up by.
  double square_length() const;
};
// A piece of `tokens` after `prefix` cached ones; `window` 0: full attention.
void add_piece(PrefillWork& work, double tokens, double prefix, double window);

Ideal ideal_gemm(const DeviceRates& rates, const WeightFormat& format, const GemmShape& shape, double m);
Ideal ideal_prefill(const DeviceRates& rates, const AttentionShape& shape, const PrefillWork& work);
Ideal ideal_decode(const DeviceRates& rates, const AttentionShape& shape, double sequences, double kv_tokens);
Ideal ideal_mla_prefill(const DeviceRates& rates, const WeightFormat& format, const MlaShape& shape,
                        const PrefillWork& work);
Ideal ideal_mla_decode(const DeviceRates& rates, const WeightFormat& format, const MlaShape& shape, double sequences,
                       double kv_tokens);
Ideal ideal_moe(const DeviceRates& rates, const WeightFormat& format, const MoeShape& shape, double tokens);
Ideal ideal_all_reduce(const DeviceRates& rates, double bytes, double ranks);
Ideal ideal_all_gather(const DeviceRates& rates, double bytes_out, double ranks);

}  // namespace muster::cost
