// The traffic that a fleet is sized for: what it is like, and the stretch at peak rate that every replication
// simulates.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/report/results.h"
#include "muster/workload/profile.h"
#include "muster/workload/trace.h"
#include "size_file.h"

namespace muster::app {

struct SizingTraffic {
  workload::Profile profile;  // as read, or fitted from the trace
  workload::Arrivals arrivals = workload::Arrivals::kGamma;
  double scale = 1;
  double peak_rate_rps = 0;  // mean over the busiest stretch of peak_window_s, scaled
  double peak_window_s = 300;
  double warm_up_s = 60;                  // simulated before it and not counted
  report::Traffic description;            // of the whole trace (or one synthesis of the profile), scaled
  std::vector<workload::Request> sample;  // its requests, for percentiles

  // Replication `run`: warm_up_s + peak_window_s at the peak rate.
  Result<workload::Trace> replication(std::uint64_t seed, std::uint64_t run) const;
};

Result<SizingTraffic> sizing_traffic(const TrafficSpec& spec, std::uint64_t seed);

report::Traffic describe(const workload::Trace& trace, Duration peak_window);

// Mean input and output length of the requests whose context (input + output) lies within two percentile ranks of
// `percentile` (0..1).
struct PercentileLengths {
  double context = 0, input = 0, output = 0;  // tokens
};
PercentileLengths lengths_at(const std::vector<workload::Request>& requests, double percentile);

}  // namespace muster::app
