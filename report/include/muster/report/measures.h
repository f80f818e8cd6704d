// The figures of a run that are compared, repeated and swept: one table of names, units and which way is better, so
// that replications, comparisons and sweeps speak of the same things.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/report/results.h"

namespace muster::report {

enum class Better { kLower, kHigher, kNeither };

struct Measure {
  std::string_view name;   // of the figure in the result document: "ttft_ms.p95", "output_tok_s", "usd_per_mtok"
  std::string_view label;  // for people: "TTFT p95"; "cost per M tok" is per million output tokens
  Better better = Better::kNeither;
  std::string (*format)(double) = nullptr;
  bool share = false;  // differences are given in percentage points (pp)
  std::optional<double> (*value)(const RunMetrics&) = nullptr;
};

std::span<const Measure> measures();                 // in the order in which they are shown
const Measure* find_measure(std::string_view name);  // null if there is none

std::string signed_difference(const Measure& measure, double difference);  // "+120 ms", "-1.20 pp"

}  // namespace muster::report
