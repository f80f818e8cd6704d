// What a trace is like: rate, burstiness, peak, and length percentiles.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/core/statistics.h"
#include "muster/workload/trace.h"

namespace muster::workload {

// Percentiles interpolate linearly between the two nearest ranks (numpy's default, which published tables use).
struct LengthStatistics {
  double mean = 0;
  double p10 = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;  // tokens
};

struct TraceStatistics {
  std::uint64_t requests = 0;
  double span_s = 0;
  double rate_rps = 0;         // requests / span; 0 if the span is
  double interarrival_cv = 0;  // standard deviation / mean of the gaps; 1 for Poisson
  double dispersion = 0;       // variance / mean of the counts per whole rate window; 1 for Poisson; more: bursts
  double peak_rate_rps = 0;    // of the busiest window
  double peak_begin_s = 0;
  double peak_window_s = 0;
  std::vector<double> rate_curve_rps;       // from the first arrival, per rate_window_s; the last over what it covers
  double rate_window_s = 0;                 // 60, or a tenth of a shorter trace
  LengthStatistics input, output, context;  // context = input + output
  double length_correlation = 0;  // Spearman rank correlation of input and output (of every k-th request over 200,000)
  double prefix_reuse = 0;        // share of the prompts' blocks seen before (an infinite cache's hit rate); 0 without
  std::uint64_t sessions = 0;     // conversations; 0 where the trace does not know them
  double turns_per_session = 0;   // mean, of the requests in sessions
};

// `peak_window`: the width over which the peak rate is taken (5 minutes is usual; shrunk to a tenth of a shorter
// trace); the window may begin at any arrival. The deviations are of the population. An empty trace has zeros
// everywhere.
TraceStatistics statistics(const Trace& trace, Duration peak_window);

}  // namespace muster::workload
