// Self-contained report pages: styles, charting library (Chart.js) and data are inside, nothing is loaded from
// anywhere, and the page forbids it to itself. All text is escaped, so that names from files cannot become markup or
// script. The size is bounded: at most 1000 points per series, 32 replicas one by one, 500 rows per table of layouts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/report/results.h"

namespace muster::report {

std::string html(const Size& size);
// `slos`: targets to hold the run against; may be empty. Their `measured_ms` is taken from `run` where it is not given.
std::string html(const RunMetrics& run, const RunPlots& plots, std::string_view title,
                 const std::vector<Slo>& slos = {});

}  // namespace muster::report
