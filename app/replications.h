// Replications of a simulation and paired comparisons of two fleets.
//
// Replication i (0, 1, ...) is the run of seed first_seed + i: `muster simulate --seed` of that number alone gives the
// same digest. The seed makes the traffic (profile, scaled trace), the zones that requests enter and the router's
// draws, each a random stream of its own, so two fleets meet the same traffic (common random numbers).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fleet_run.h"
#include "muster/report/comparison.h"
#include "muster/report/results.h"
#include "traffic_source.h"

namespace muster::app {

struct WarmUp {
  std::string method = "none";  // "none", "fixed", "MSER-5"
  double seconds = 0;
  std::vector<std::string> notes;
};

struct ReplicationSettings {
  RunSettings run;  // its seed is the first; observer and progress are set here
  double scale = 1;
  int replications = 1;
  int threads = 1;
  WarmUp warm_up;
  std::function<void(double)> progress = [](double) {};  // share done; called by one thread at a time
};

// Where the run of the first seed has settled: MSER-5 on the number of requests in the system (waiting and running) up
// to the last arrival. One run of the simulation.
Result<WarmUp> find_warm_up(const FleetUnderTest& fleet, const TrafficSource& traffic,
                            const ReplicationSettings& settings);

struct Replicated {
  FleetRun first;            // of the first seed; its metrics carry the uncertainty
  bool targets_met = false;  // in every replication
};
// Independent of the number of threads.
Result<Replicated> replicate(const FleetUnderTest& fleet, const TrafficSource& traffic,
                             const ReplicationSettings& settings);

struct FleetComparison {
  report::Comparison comparison;
  FleetRun first_a, first_b;
};
Result<FleetComparison> compare(const FleetUnderTest& a, const FleetUnderTest& b, const TrafficSource& traffic,
                                const ReplicationSettings& settings, const std::string& name_a,
                                const std::string& name_b);

// For tests and the words of a comparison: rows from the figures of each replication, paired by place.
std::vector<report::ComparisonRow> paired_rows(const std::vector<report::RunMetrics>& a,
                                               const std::vector<report::RunMetrics>& b);
std::vector<report::Estimate> replicated_estimates(const std::vector<report::RunMetrics>& runs);
std::vector<std::string> comparison_words(const report::Comparison& comparison);

}  // namespace muster::app
