// Predictions beside measurements: what `muster validate` found. Errors are (predicted - measured) / measured.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/report/table.h"

namespace muster::report {

struct ErrorFigures {
  std::size_t n = 0;
  double mape = 0, bias = 0, median = 0, p90 = 0;  // mean |error|, mean error, median and 90th percentile of |error|
};
struct ValidationGroup {
  std::string key;                                     // "all", "engine=vllm", "load=static batch", ...
  std::size_t n = 0;                                   // rows with an answer
  std::optional<ErrorFigures> tpot, ttft, throughput;  // absent: no row states it (TTFT: no harness is known)
  double bias = 0;                                     // of TPOT, where a row has no TPOT of its throughput
};
struct ValidationReason {
  std::string reason;
  std::size_t n = 0;
};
struct ValidationRow {
  std::string row_id, text, metric;  // "tpot_ms", "output_tok_s" or "ttft_ms"
  double measured = 0, predicted = 0, error = 0;
  std::string group;   // a colour in the plot
  std::string reason;  // the likely one, of the error
};
struct Validation {
  std::string file;
  std::size_t rows = 0, expressible = 0;
  std::size_t aggregated_rows = 0, aggregated_expressible = 0;  // without disaggregated ones
  std::vector<ValidationGroup> groups;
  std::vector<ValidationReason> not_expressed;  // most frequent first
  std::vector<ValidationReason> marks;          // what was assumed, most frequent first
  std::vector<ValidationRow> worst;             // at most 20
  std::vector<ValidationRow> points;            // every compared row, worst first
  double wall_s = 0;
};

std::string to_json(const Validation& validation);
std::string terminal(const Validation& validation, const TerminalStyle& style);
// A self-contained page: scatter of predicted against measured, groups, worst rows.
std::string html(const Validation& validation);

}  // namespace muster::report
