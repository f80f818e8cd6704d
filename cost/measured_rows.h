// Rows of measured operator tables as observations for a fit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fit_grid.h"
#include "muster/core/result.h"

namespace muster::cost {

// Observations by grid key ("bf16", "hd128 kv bf16", "graph").
using KeyedObservations = std::map<std::string, std::vector<Observation>>;

struct MeasuredTable {
  std::string path;
  std::string framework;  // "vllm", "trtllm", "nccl"
  DeviceRates rates;      // of the measured device
};

// Each reads one file of its operator; rows that no grid uses (windowed attention, formats without a known layout) are
// passed over.
Result<KeyedObservations> read_gemm(const MeasuredTable& measured);
Result<KeyedObservations> read_context_attention(const MeasuredTable& measured);
Result<KeyedObservations> read_generation_attention(const MeasuredTable& measured);
Result<KeyedObservations> read_mla_context_module(const MeasuredTable& measured);
Result<KeyedObservations> read_mla_generation_module(const MeasuredTable& measured);
Result<KeyedObservations> read_moe(const MeasuredTable& measured);
Result<KeyedObservations> read_custom_all_reduce(const MeasuredTable& measured);
Result<KeyedObservations> read_nccl(const MeasuredTable& measured);

// An empty grid of an operator with its axes and launch time. `op` as in Grid.
Grid grid_of(const std::string& op, const std::string& key);

}  // namespace muster::cost
