// Fits operator tables (data/operators) from measured operator latencies.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/hardware/gpu.h"

namespace muster::cost {

// The error of one fitted grid over all rows that went into it.
struct FitReport {
  std::string op;   // "gemm"
  std::string key;  // "fp8"
  std::int64_t rows = 0;
  double median_error = 0;  // of |relative error|
  double p90_error = 0;
  std::int64_t faster_than_ideal = 0;  // rows that beat the roofline; fitted as if they met it
};

struct FittedTable {
  std::string file_name;  // "h100-sxm__vllm.table"
  std::string content;    // in the format of docs/formats/operator-tables.md
  std::vector<FitReport> grids;
};

// Reads every table of `folder` whose name is DEVICE__FRAMEWORK_VERSION__OPERATOR.csv[.gz] (latencies in microseconds,
// as in aiconfigurator's tables; columns as listed in docs/formats/operator-tables.md), and index.json for the sources
// if it is there. `gpus` gives the peak rates of the devices. `progress` is called with the name of each file before it
// is read. Fails on an unreadable file, a missing column, a bad number, or a folder without such tables.
Result<std::vector<FittedTable>> fit_operators(const std::string& folder, std::span<const hardware::Gpu> gpus,
                                               const std::function<void(const std::string&)>& progress);

}  // namespace muster::cost
