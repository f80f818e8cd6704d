// The prediction of one measured row.
#pragma once

#include <string>
#include <vector>

#include "validate_case.h"

namespace muster::app {

struct Prediction {
  bool answered = false;
  std::string why_not;  // when it is not
  std::optional<double> ttft_ms, tpot_ms, output_tok_s;
  bool saturated = false;  // requests waited for KV blocks or sequence slots
  bool estimate = false;   // a term is a bare roofline
  double error_band = 0;   // relative half-width of the step times
  std::vector<std::string> marks;
};

// Deterministic. Closed loops run at most `waves_max` requests per user: the first wave, in which all prompts come
// together, is weighted as in the run that the row describes.
Prediction predict(const ValidationCase& c, const Catalogues& catalogues, int waves_max = 4);

}  // namespace muster::app
