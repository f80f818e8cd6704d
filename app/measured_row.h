// Rows of measured serving runs, as `muster validate` reads them: one CSV, columns of docs/formats/measured-rows.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/core/result.h"

namespace muster::app {

// Text as printed by the source; an empty number means that the source does not state it.
struct MeasuredRow {
  std::string row_id, source, source_ref, date;
  std::string engine, engine_version, model, model_key, gpu, gpu_key, precision, kv_precision;
  std::string mode, scenario, load_kind, note, ttft_stat, tpot_stat;
  std::optional<int> tp, pp, dp, ep, num_gpus;
  std::optional<double> isl, osl, concurrency, request_rate;     // tokens, tokens, requests, requests/s
  std::optional<double> output_tok_s, ttft_ms, tpot_ms, e2e_ms;  // output_tok_s over all GPUs
};

// Fails, naming file, line and column, when `model_key` or `gpu_key` is no column or a number is not one. Other columns
// may be missing. Rows without a row_id get "line N".
Result<std::vector<MeasuredRow>> read_measured_rows(const std::string& path);

}  // namespace muster::app
