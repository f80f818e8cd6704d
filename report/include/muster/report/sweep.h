// A sweep: the figures of many variants of a fleet, as CSV, JSON, terminal text and a page with a plot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/report/results.h"
#include "muster/report/table.h"

namespace muster::report {

struct SweepRow {
  std::vector<std::string> settings;  // [axes]
  double scale = 1;                   // of the traffic
  std::string refused;                // why this variant cannot run; empty: it ran
  std::optional<double> targets_met;  // share of the seeds in which every class kept its targets; absent: no targets
  bool pareto = false;  // no variant at the same scale is better in cost or attainment and as good in the other
  std::vector<std::optional<Estimate>> figures;  // [measures()] mean over the seeds with its interval
};

struct Sweep {
  std::string fleet, traffic;
  std::vector<std::string> axes;  // paths into the fleet file
  std::vector<std::uint64_t> seeds;
  std::vector<SweepRow> rows;
};

void mark_pareto(
    Sweep& sweep);  // cost (usd where every row has it, else GPU-hours; to 3 digits) against slo_attainment (to 0.01 %)

std::string to_csv(const Sweep& sweep);
std::string to_json(const Sweep& sweep);
std::string terminal(const Sweep& sweep, const TerminalStyle& style);
std::string html(const Sweep& sweep);

}  // namespace muster::report
