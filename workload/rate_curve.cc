#include "rate_curve.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"

namespace muster::workload {

RateCurve::RateCurve(const std::vector<double>& rates_rps, double window_s, double duration_s)
    : window_s_(window_s), duration_s_(duration_s) {
  MUSTER_CHECK(!rates_rps.empty() && window_s > 0 && duration_s > 0, "{} rates, window {} s, duration {} s",
               rates_rps.size(), window_s, duration_s);
  integral_.push_back(0);
  for (std::size_t i = 0; static_cast<double>(i) * window_s < duration_s; ++i) {
    const double width = std::min(window_s, duration_s - static_cast<double>(i) * window_s);
    integral_.push_back(integral_.back() + width * rates_rps[i % rates_rps.size()]);
  }
}

double RateCurve::integral(double t_s) const {
  if (t_s <= 0) return 0;
  if (t_s >= duration_s_) return total();
  const auto i = std::min(static_cast<std::size_t>(t_s / window_s_), integral_.size() - 2);
  const double begin = static_cast<double>(i) * window_s_;
  const double width = std::min(window_s_, duration_s_ - begin);
  return integral_[i] + (integral_[i + 1] - integral_[i]) * std::clamp((t_s - begin) / width, 0.0, 1.0);
}

double RateCurve::inverse(double requests) const {
  // The window in which the integral passes `requests`: the first whose end lies beyond it, so its rate is not 0.
  const auto end = std::upper_bound(integral_.begin() + 1, integral_.end(), requests);
  if (end == integral_.end()) return duration_s_;
  const auto i = static_cast<std::size_t>(end - integral_.begin()) - 1;
  const double begin = static_cast<double>(i) * window_s_;
  const double width = std::min(window_s_, duration_s_ - begin);
  return begin + width * (requests - integral_[i]) / (integral_[i + 1] - integral_[i]);
}

std::vector<double> measured_rates(const Trace& trace, double window_s) {
  const double span_s = to_seconds(trace.span());
  if (span_s <= 0) return {};
  const auto windows = static_cast<std::size_t>(std::ceil(span_s / window_s));
  std::vector<double> rates(windows, 0.0);
  for (const Request& r : trace.requests) {
    const double t = to_seconds(r.arrival - trace.requests.front().arrival);
    rates[std::min(static_cast<std::size_t>(t / window_s), windows - 1)] += 1;
  }
  for (std::size_t i = 0; i < windows; ++i) rates[i] /= std::min(window_s, span_s - static_cast<double>(i) * window_s);
  return rates;
}

}  // namespace muster::workload
