// Predicted against measured, by group.
#pragma once

#include <span>

#include "muster/report/validation.h"
#include "validate_predict.h"

namespace muster::app {

// One row beside its prediction. Errors are (predicted - measured) / measured.
struct Compared {
  MeasuredRow row;
  std::optional<ValidationCase> expressed;
  std::string why_not;  // when it is not expressed or not answered
  Prediction prediction;

  bool answered() const { return expressed && prediction.answered; }
  std::optional<double> tpot_error() const;
  std::optional<double> throughput_error() const;
  std::optional<double> ttft_error() const;  // only where the harness is known
  std::optional<double> main_error() const;  // of TPOT, else of throughput, else of TTFT
};

Compared compare(const MeasuredRow& row, const Catalogues& catalogues, int waves_max = 4);
std::vector<Compared> compare_all(std::span<const MeasuredRow> rows, const Catalogues& catalogues, int waves_max,
                                  int threads);

report::ValidationGroup group_of(const std::string& key, std::span<const Compared* const> rows);
// All rows, by source, engine, model, GPU, layout and load, and engine x model x GPU; worst rows with the likely
// reason.
report::Validation summarise(const std::string& file, std::span<const Compared> rows);

std::string likely_reason(const Compared& compared);

}  // namespace muster::app
