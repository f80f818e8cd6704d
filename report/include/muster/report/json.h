// Results as JSON documents: field names of docs/formats/result-json.md, stable key order, two spaces per level, UTF-8,
// a newline at the end. Figures have six significant digits; whole numbers have no point; what is not a number is null.
#pragma once

#include <string>

#include "muster/report/results.h"

namespace muster::report {

std::string to_json(const RunMetrics& run);  // of `predict` and `simulate`
std::string to_json(const Plan& plan);
std::string to_json(const Size& size);  // result.json; without the series that report.html plots
std::string to_json(const Traffic& traffic);

}  // namespace muster::report
