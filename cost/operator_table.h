// Fitted operator times of one GPU and engine: factors over the roofline on coarse grids.
// docs/formats/operator-tables.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/result.h"
#include "roofline.h"

namespace muster::cost {

struct Axis {
  std::string name;
  std::vector<double> knots;  // ascending, at least one
};

// Where a coordinate falls on an axis: knot[index] and knot[index + 1] with weights 1 - fraction and fraction. Outside
// the axis the edge holds.
struct Bracket {
  std::size_t index = 0;
  double fraction = 0;
};
Bracket bracket(std::span<const double> knots, double x);

// measured time = reference time x factor; the factor is interpolated linearly per axis.
struct Grid {
  std::string op;       // "gemm", "prefill", "decode", "mla_prefill", "mla_decode", "moe", "all_reduce", "all_gather"
  std::string key;      // format of weights or KV, head_dim, graph or eager
  double launch_s = 0;  // of the reference time
  std::vector<Axis> axes;
  std::vector<double> factors;  // row-major, the last axis fastest
  // The fit over all source rows.
  std::int64_t rows = 0;
  double median_error = 0;
  double p90_error = 0;
  std::int64_t faster_than_ideal = 0;  // source rows that beat the roofline; their knots were clamped to it
  std::string source;

  double factor(std::span<const double> coordinates) const;
  // The grid along its first axis at fixed coordinates of the others.
  std::vector<double> first_axis_factors(std::span<const double> others) const;
  bool covers(std::span<const double> coordinates) const;
};

struct OperatorTable {
  std::string gpu;     // key of the measured device
  std::string engine;  // "vllm", "trtllm"
  std::string engine_version;
  DeviceRates rates;  // of the measured device, as used in the fit
  std::vector<Grid> grids;

  const Grid* find(std::string_view op, std::string_view key) const;
};

Result<OperatorTable> parse_operator_table(std::string_view text, const std::string& name);
std::string to_text(const OperatorTable& table);

}  // namespace muster::cost
