// Results as text for a terminal: no line is wider than style.width unless a single word is.
// Every text ends with a newline. Untrusted text (names from files) is printed without control characters.
#pragma once

#include <string>

#include "muster/report/results.h"
#include "muster/report/table.h"

namespace muster::report {

std::string terminal(const Size& size,
                     const TerminalStyle& style);  // in the order of the six questions that `size` answers
std::string terminal(const Plan& plan, const TerminalStyle& style);
std::string terminal(const RunMetrics& run, const TerminalStyle& style);
std::string terminal(const Traffic& traffic, const TerminalStyle& style);

// One character per mark, at most `width` marks, height in proportion to the value (negative and unknown values as 0);
// each mark is the mean of its share of the values.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool unicode);

}  // namespace muster::report
