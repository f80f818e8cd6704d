// Number formats of weights, activations and KV caches.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace muster::model {

enum class Dtype { kFp32, kTf32, kBf16, kFp16, kFp8, kInt8, kInt4, kFp4 };
inline constexpr std::array kDtypes = {Dtype::kFp32, Dtype::kTf32, Dtype::kBf16, Dtype::kFp16,
                                       Dtype::kFp8,  Dtype::kInt8, Dtype::kInt4, Dtype::kFp4};

std::string_view name(Dtype dtype);                       // "fp32" ... "fp4"
// The names above, and those of configs and engine flags: "bfloat16", "float16", "half", "w4a16", "mxfp4", ...
std::optional<Dtype> parse_dtype(std::string_view text);

// Stored bytes of one element of a quantisable linear weight, with its scales (group 128 for int4, 32 for fp4/MXFP4).
// tf32 is stored as fp32. The remaining tensors (norms, embeddings of quantised checkpoints) stay in 16 bits.
double weight_bytes(Dtype dtype);
// Stored bytes of one KV-cache element.
double kv_element_bytes(Dtype dtype);
// The format in which the matrix units multiply: int4 weight-only computes in bf16; tf32 in tf32; others in themselves.
Dtype compute_dtype(Dtype weights);

}  // namespace muster::model
