#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "muster/core/statistics.h"
#include "muster/workload/profile.h"
#include "quantile.h"
#include "rate_curve.h"

namespace muster::workload {
namespace {

// Closer together where lengths have their long tails.
constexpr double kProbabilities[] = {0,   0.02, 0.05, 0.1,  0.2,  0.3,  0.4,   0.5,   0.6, 0.7,
                                     0.8, 0.9,  0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 1};
constexpr std::size_t kBinsMax = 8;
constexpr std::size_t kRequestsPerBin = 50;

double rounded(double x, double to) {
  return std::round(x / to) * to;
}

// Rounds to `digits` significant digits, so that a profile is short to read and survives its own file exactly.
double significant(double x, int digits) {
  if (x == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - digits + 1);
  return std::stod(fmt::format("{:.{}g}", rounded(x, unit), digits));
}

double window_for(double span_s) {
  constexpr double kWindows[] = {60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200};
  if (span_s < 600) return significant(span_s / 10, 4);
  for (const double window : kWindows)
    if (span_s / window <= 240) return window;
  return 86400;
}

struct Gaps {
  double cv = 1;
  double dispersion_16 = 1;  // of the counts in windows of 16 mean gaps
};

// Of the arrivals in the time of the integrated rate curve, in which a Poisson process has 1 and 1.
Gaps operational_gaps(const Trace& trace, const RateCurve& curve) {
  constexpr double kWindow = 16;
  Moments gaps, counts;
  double last = 0;
  double in_window = 0;
  double window_end = kWindow;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const double at = curve.integral(to_seconds(trace.requests[i].arrival - trace.requests.front().arrival));
    if (i > 0) gaps.add(at - last);
    last = at;
    for (; at >= window_end; window_end += kWindow) {
      counts.add(in_window);
      in_window = 0;
    }
    ++in_window;
  }
  return {.cv = gaps.mean() > 0 ? std::sqrt(gaps.variance()) / gaps.mean() : 1,
          .dispersion_16 = counts.mean() > 0 ? counts.variance() / counts.mean() : 1};
}

// The interrupted Poisson process with these gaps. With theta the sum of its switching rates (per mean gap) and s its
// on-share, the gaps' squared CV is c2 = 1 + 2 (1 - s) / (s theta), and the dispersion of counts over w is
// c2 - (c2 - 1) (1 - exp(-theta w)) / (theta w) (Kuczura 1973; Fischer and Meier-Hellstern 1993).
void fit_on_off(const Gaps& gaps, double mean_rate_rps, Profile& profile) {
  const double c2 = gaps.cv * gaps.cv;
  if (c2 < 1.05) {
    profile.on_share = 1;
    profile.burst_s = 10;
    return;
  }
  const double share = std::clamp((c2 - gaps.dispersion_16) / (c2 - 1), 0.01, 0.99);  // (1 - exp(-x)) / x
  double low = 1e-6;
  double high = 200;
  for (int i = 0; i < 60; ++i) {
    const double x = 0.5 * (low + high);
    (-std::expm1(-x) / x > share ? low : high) = x;
  }
  const double theta = low / 16;
  const double s = std::clamp(2 / (2 + theta * (c2 - 1)), 0.02, 0.98);
  const double cycle_rate = 2 * (1 - s) / (s * (c2 - 1));  // theta again, kept true to c2 where s was clamped
  profile.on_share = significant(s, 3);
  profile.burst_s = significant(std::clamp(1 / (cycle_rate * (1 - s)) / mean_rate_rps, 1e-3, 3600.0), 3);
}

std::vector<double> quantiles_of(std::vector<std::int32_t> values) {
  std::sort(values.begin(), values.end());
  std::vector<double> quantiles;
  for (const double p : kProbabilities)
    quantiles.push_back(significant(interpolated_quantile(std::span<const std::int32_t>(values), p), 5));
  return quantiles;
}

void fit_lengths(const Trace& trace, Profile& profile) {
  const std::size_t n = trace.requests.size();
  const std::size_t bins = std::clamp<std::size_t>(n / kRequestsPerBin, 1, kBinsMax);
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(trace.requests[a].input_tokens, a) < std::pair(trace.requests[b].input_tokens, b);
  });
  profile.probabilities.assign(std::begin(kProbabilities), std::end(kProbabilities));
  for (std::size_t bin = 0; bin < bins; ++bin) {
    std::vector<std::int32_t> inputs, outputs;
    for (std::size_t i = n * bin / bins; i < n * (bin + 1) / bins; ++i) {
      inputs.push_back(trace.requests[order[i]].input_tokens);
      outputs.push_back(trace.requests[order[i]].output_tokens);
    }
    profile.bins.push_back({quantiles_of(std::move(inputs)), quantiles_of(std::move(outputs))});
  }
}

}  // namespace

Result<Profile> fit(const Trace& trace, const std::string& name) {
  const double span_s = to_seconds(trace.span());
  if (trace.requests.size() < 2 || span_s <= 0)
    return fail("{}: {} requests over {} s; a profile needs at least 2 at different times", trace.source,
                trace.requests.size(), span_s);
  Profile profile;
  profile.name = name;
  profile.source = trace.source;
  profile.requests = trace.requests.size();
  profile.rate_window_s = window_for(span_s);
  std::vector<double> rates = measured_rates(trace, profile.rate_window_s);
  const Gaps gaps = operational_gaps(trace, RateCurve(rates, profile.rate_window_s, span_s));
  profile.interarrival_cv = significant(gaps.cv, 4);
  fit_on_off(gaps, static_cast<double>(trace.requests.size()) / span_s, profile);

  // A last window that the trace covers by less than half says little about its rate.
  const double last_covers = span_s - static_cast<double>(rates.size() - 1) * profile.rate_window_s;
  if (rates.size() > 1 && last_covers < 0.5 * profile.rate_window_s) rates.pop_back();
  for (double& rate : rates) rate = significant(rate, 5);
  profile.rate_curve_rps = std::move(rates);
  fit_lengths(trace, profile);
  return profile;
}

}  // namespace muster::workload
