// A piecewise constant request rate and its integral, the "operational time" in which arrivals have mean rate 1.
#pragma once

#include <cstddef>
#include <vector>

#include "muster/workload/trace.h"

namespace muster::workload {

class RateCurve {
 public:
  // `rates_rps` per `window_s`, repeated or cut to `duration_s`. Requires a rate > 0 and both times > 0.
  RateCurve(const std::vector<double>& rates_rps, double window_s, double duration_s);

  double total() const { return integral_.back(); }  // requests expected over the whole duration
  double integral(double t_s) const;                 // requests expected in [0, t)
  double inverse(double requests) const;             // the time at which integral() reaches `requests` < total()

 private:
  double window_s_;
  double duration_s_;
  std::vector<double> integral_;  // at the windows' beginnings, and at the end
};

// The trace's own rates from its first arrival in windows of `window_s`; the last over the part that the span covers.
std::vector<double> measured_rates(const Trace& trace, double window_s);

}  // namespace muster::workload
