#include "muster/model/dtype.h"

#include <algorithm>
#include <string>
#include <utility>

#include "muster/core/check.h"
#include "muster/core/text.h"

namespace muster::model {

std::string_view name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return "fp32";
    case Dtype::kTf32:
      return "tf32";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kFp16:
      return "fp16";
    case Dtype::kFp8:
      return "fp8";
    case Dtype::kInt8:
      return "int8";
    case Dtype::kInt4:
      return "int4";
    case Dtype::kFp4:
      return "fp4";
  }
  MUSTER_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

std::optional<Dtype> parse_dtype(std::string_view text) {
  // The names that Hugging Face configs, engine flags and published result tables use.
  static constexpr std::pair<std::string_view, Dtype> kNames[] = {
      {"fp32", Dtype::kFp32},         {"float32", Dtype::kFp32},    {"float", Dtype::kFp32},
      {"f32", Dtype::kFp32},          {"tf32", Dtype::kTf32},       {"bf16", Dtype::kBf16},
      {"bfloat16", Dtype::kBf16},     {"fp16", Dtype::kFp16},       {"float16", Dtype::kFp16},
      {"half", Dtype::kFp16},         {"f16", Dtype::kFp16},        {"fp8", Dtype::kFp8},
      {"float8", Dtype::kFp8},        {"f8", Dtype::kFp8},          {"e4m3", Dtype::kFp8},
      {"fp8_e4m3", Dtype::kFp8},      {"fp8_e5m2", Dtype::kFp8},    {"float8_e4m3", Dtype::kFp8},
      {"float8_e4m3fn", Dtype::kFp8}, {"float8_e5m2", Dtype::kFp8}, {"int8", Dtype::kInt8},
      {"w8a8", Dtype::kInt8},         {"w8a16", Dtype::kInt8},      {"int4", Dtype::kInt4},
      {"w4a16", Dtype::kInt4},        {"awq", Dtype::kInt4},        {"gptq", Dtype::kInt4},
      {"fp4", Dtype::kFp4},           {"mxfp4", Dtype::kFp4},       {"nvfp4", Dtype::kFp4},
  };
  const std::string wanted = lower(trim(text));
  const auto found = std::ranges::find(kNames, wanted, [](const auto& entry) { return entry.first; });
  if (found == std::end(kNames)) return std::nullopt;
  return found->second;
}

double weight_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
    case Dtype::kTf32:
      return 4;
    case Dtype::kBf16:
    case Dtype::kFp16:
      return 2;
    // One fp32 scale per 128 x 128 block (DeepSeek-V3). One per output channel, as other checkpoints have it, costs
    // about as much: 4 bytes per few thousand elements.
    case Dtype::kFp8:
    case Dtype::kInt8:
      return 1 + 4.0 / (128 * 128);
    case Dtype::kInt4:
      return 0.5 + 2.0 / 128;  // GPTQ/AWQ: one fp16 scale per 128 elements
    case Dtype::kFp4:
      return 0.5 + 1.0 / 32;  // OCP MXFP4: one 8-bit scale per 32 elements
  }
  MUSTER_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

double kv_element_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
    case Dtype::kTf32:
      return 4;
    case Dtype::kBf16:
    case Dtype::kFp16:
      return 2;
    case Dtype::kFp8:
    case Dtype::kInt8:
      return 1;
    case Dtype::kInt4:
    case Dtype::kFp4:
      return 0.5;
  }
  MUSTER_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

Dtype compute_dtype(Dtype weights) {
  return weights == Dtype::kInt4 ? Dtype::kBf16 : weights;
}

}  // namespace muster::model
