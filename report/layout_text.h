// Words and figures that the terminal and the page share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/report/results.h"

namespace muster::report {

std::string layout_label(const Candidate& c);  // "TP4", "TP4 PP2", "TP8 EP8", "DP2 TP4"

// SLO names: "<queue_wait|ttft|tpot|e2e>_<mean|p50|p90|p95|p99|max>_ms".
struct SloName {
  std::string_view metric;         // "e2e"
  std::optional<double> quantile;  // 0.95; nullopt for mean and max
};
std::optional<SloName> parse_slo(std::string_view slo_name);
// The value that an SLO bounds; nullopt for names of another form and for a run without requests.
std::optional<double> slo_value(const RunMetrics& run, std::string_view slo_name);
std::string slo_label(std::string_view slo_name);  // "E2E p95"; other names as they are

// The SLO that Size::steps is held against: e2e_p95_ms, or the first one when there is no such; nullptr without any.
const Slo* sizing_slo(const Size& size);

// Layouts of one device and precision that do not fit, with the reason of the one on the most GPUs (of those whose
// memory was computed at all, if any: an impossible split says little about the device).
struct Rejected {
  std::string gpu, precision, layouts, why;
};
std::vector<Rejected> group_rejected(const std::vector<Candidate>& candidates);

int standby_in_zone(const Size& size, std::size_t zone);  // spread evenly, the first zones get the rest
std::string replicas_by_zone(const Size& size);           // "a 4 + 1, b 4 + 1 (serving + warm standby)"
std::string confidence_statement(const Size& size);       // "9 replicas; 10 at 95 %"
// One entry per fleet size that was tried, the one with the most seeds, by size.
std::vector<SizeStep> steps_by_size(const Size& size);
bool meets_sizing_slo(const Size& size, const SizeStep& step);
const Candidate* same_layout(const std::vector<Candidate>& candidates, const Candidate& chosen);

}  // namespace muster::report
