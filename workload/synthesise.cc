#include <algorithm>
#include <cmath>

#include "muster/core/rng.h"
#include "muster/workload/profile.h"
#include "rate_curve.h"

namespace muster::workload {
namespace {

constexpr double kWindowsMax = 1e7;  // of a repeated rate curve
constexpr double kPeriodsMax = 1e9;  // on and off periods of one trace

// Gaps of mean 1 and coefficient of variation cv, the process running since for ever when the trace begins.
class Renewal {
 public:
  explicit Renewal(double cv) : shape_(cv > kRegular ? 1 / (cv * cv) : 0) {}

  // From the beginning to the first point: a uniform part of a gap drawn by its length (inspection paradox), so that
  // the expected count of any stretch is its length. A gamma gap drawn by its length is gamma of shape + 1.
  double first(Rng& rng) const { return rng.uniform() * (shape_ > 0 ? rng.gamma(shape_ + 1, 1 / shape_) : 1); }
  double next(Rng& rng) const { return shape_ > 0 ? rng.gamma(shape_, 1 / shape_) : 1; }

 private:
  static constexpr double kRegular = 0.01;  // under it the gaps are all 1: gamma's shape would be over 10,000
  double shape_;
};

class Lengths {
 public:
  Lengths(const Profile& profile, Rng rng) : profile_(profile), rng_(rng) {}

  void draw(Request& request) {
    const LengthBin& bin = profile_.bins[rng_.below(profile_.bins.size())];
    request.input_tokens = at(bin.input_quantiles, rng_.uniform());
    request.output_tokens = at(bin.output_quantiles, rng_.uniform());
  }

 private:
  std::int32_t at(const std::vector<double>& quantiles, double p) const {
    const std::vector<double>& probabilities = profile_.probabilities;
    const auto above = std::upper_bound(probabilities.begin() + 1, probabilities.end() - 1, p);
    const auto i = static_cast<std::size_t>(above - probabilities.begin());
    const double share = (p - probabilities[i - 1]) / (probabilities[i] - probabilities[i - 1]);
    const double tokens = quantiles[i - 1] + share * (quantiles[i] - quantiles[i - 1]);
    return static_cast<std::int32_t>(std::clamp(std::llround(tokens), 1LL, static_cast<long long>(kTokensMax)));
  }

  const Profile& profile_;
  Rng rng_;
};

// Appends a request at `t_s`; false once there are too many.
class Collector {
 public:
  Collector(Trace& trace, Lengths lengths, std::uint64_t requests_max)
      : trace_(trace), lengths_(lengths), requests_max_(requests_max) {}
  bool add(double t_s) {
    if (trace_.requests.size() >= requests_max_) return false;
    Request request;
    request.arrival = from_seconds(t_s);
    lengths_.draw(request);
    trace_.requests.push_back(request);
    return true;
  }

 private:
  Trace& trace_;
  Lengths lengths_;
  std::uint64_t requests_max_;
};

bool renewal_arrivals(const RateCurve& curve, const Renewal& gaps, Rng rng, Collector& collector) {
  for (double at = gaps.first(rng); at < curve.total(); at += gaps.next(rng))
    if (!collector.add(curve.inverse(at))) return false;
  return true;
}

struct OnOff {
  double share = 1;
  double on_s = 0;  // mean length of an on period
};

// On and off periods in real time, from their stationary state; while on, Poisson at the curve's rate / share.
bool on_off_arrivals(const RateCurve& curve, OnOff bursts, double duration_s, Rng periods, Rng rng,
                     Collector& collector) {
  const double off_s = bursts.on_s * (1 - bursts.share) / bursts.share;
  bool on = periods.uniform() < bursts.share;
  for (double begin = 0; begin < duration_s;) {
    const double end = std::min(duration_s, begin + periods.exponential(on ? bursts.on_s : off_s));
    if (on) {
      const double last = curve.integral(end);
      // Memoryless: each period may begin with a new gap.
      for (double at = curve.integral(begin) + bursts.share * rng.exponential(1); at < last;
           at += bursts.share * rng.exponential(1))
        if (!collector.add(curve.inverse(at))) return false;
    }
    on = !on;
    begin = end;
  }
  return true;
}

bool positive(double x) {
  return std::isfinite(x) && x > 0;
}

Result<void> check_options(const Profile& profile, const SynthesisOptions& options, double duration_s) {
  if (!positive(options.scale)) return fail("the scale is {}; a number over 0 is needed", options.scale);
  if (options.constant_rate_rps && !positive(*options.constant_rate_rps))
    return fail("the rate is {} requests/s; a number over 0 is needed", *options.constant_rate_rps);
  if (!positive(duration_s) || duration_s > 1e9)
    return fail("the duration is {} s; over 0 and up to 1e9 is needed", duration_s);
  if (profile.bins.empty() || profile.rate_curve_rps.empty() || !(profile.rate_window_s > 0))
    return fail("the profile {} has no lengths or no rates", profile.name);
  if (duration_s / profile.rate_window_s > kWindowsMax)
    return fail("{} s are more than {} windows of {} s", duration_s, kWindowsMax, profile.rate_window_s);
  if (options.arrivals == Arrivals::kOnOff && profile.on_share < 1 && duration_s / profile.burst_s > kPeriodsMax)
    return fail("{} s are more than {} bursts of {} s", duration_s, kPeriodsMax, profile.burst_s);
  return {};
}

}  // namespace

Result<Trace> synthesise(const Profile& profile, const SynthesisOptions& options) {
  const double duration_s = options.duration ? to_seconds(*options.duration) : profile.span_s();
  MUSTER_TRY_VOID(check_options(profile, options, duration_s));
  std::vector<double> rates = profile.rate_curve_rps;
  if (options.constant_rate_rps) rates = {*options.constant_rate_rps};
  for (double& rate : rates) rate *= options.scale;
  const RateCurve curve(rates, profile.rate_window_s, duration_s);
  if (curve.total() > static_cast<double>(options.requests_max))
    return fail("{} would make about {:.0f} requests; at most {} are allowed", profile.name, curve.total(),
                options.requests_max);

  Trace trace;
  trace.source = profile.name;
  trace.requests.reserve(static_cast<std::size_t>(curve.total() * 1.05) + 64);
  Rng arrivals = Rng::stream(options.seed, options.run, "arrivals");
  Collector collector(trace, Lengths(profile, Rng::stream(options.seed, options.run, "lengths")), options.requests_max);
  bool fits = false;
  if (options.arrivals == Arrivals::kOnOff && profile.on_share < 1)
    fits = on_off_arrivals(curve, {.share = profile.on_share, .on_s = profile.burst_s}, duration_s,
                           Rng::stream(options.seed, options.run, "bursts"), arrivals, collector);
  else
    fits = renewal_arrivals(curve, Renewal(options.arrivals == Arrivals::kGamma ? profile.interarrival_cv : 1),
                            arrivals, collector);
  if (!fits) return fail("{} makes more than {} requests", profile.name, options.requests_max);
  return trace;
}

}  // namespace muster::workload
