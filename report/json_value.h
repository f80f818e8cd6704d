// How figures and documents are written in JSON, for the result documents and for the data inside the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "muster/report/results.h"

namespace muster::report {

// `digits` significant digits; a whole number as an integer; null for what is not finite.
nlohmann::ordered_json number_json(double x, int digits);
std::string dump(const nlohmann::ordered_json& document, int indent);  // indent -1: one line

// A run as `predict` and `simulate` write it, for documents that hold several.
nlohmann::ordered_json run_document(const RunMetrics& run);
nlohmann::ordered_json uncertainty_document(const Uncertainty& uncertainty);  // uncertainty.cc

}  // namespace muster::report
