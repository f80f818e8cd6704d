#include "muster/workload/arrivals.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"
#include "muster/core/rng.h"
#include "rate_curve.h"

namespace muster::workload {
namespace {

constexpr double kWindowsMax = 1e7;  // of a repeated rate curve
constexpr double kPeriodsMax = 1e9;  // on and off periods of one trace
constexpr double kRegularCv = 0.01;  // under it the gaps are all equal: gamma's shape would be over 10,000
constexpr double kCvMax = 1000;
constexpr double kBurstMax = 1e7;  // seconds

// Gaps of mean 1, the process running since for ever when the trace begins.
class Renewal {
 public:
  explicit Renewal(const ArrivalProcess& process) {
    const bool poisson = process.kind == Arrivals::kPoisson || process.kind == Arrivals::kOnOff;
    const double cv = poisson ? 1 : process.cv;
    if (process.kind == Arrivals::kConstant || cv <= kRegularCv) return;
    kind_ = process.kind == Arrivals::kWeibull ? Kind::kWeibull : Kind::kGamma;
    shape_ = kind_ == Kind::kWeibull ? weibull_shape(cv) : 1 / (cv * cv);
    scale_ = kind_ == Kind::kWeibull ? 1 / std::tgamma(1 + 1 / shape_) : 1 / shape_;
  }

  // From the beginning to the first point: a uniform part of a gap drawn by its length (inspection paradox), so that
  // the expected count of any stretch is its length. A gamma gap drawn by its length is gamma of shape + 1; of a
  // Weibull gap (x / scale)^shape, exponential by itself, is then gamma of shape 1 + 1 / shape.
  double first(Rng& rng) const {
    const double part = rng.uniform();
    switch (kind_) {
      case Kind::kEqual:
        return part;
      case Kind::kGamma:
        return part * rng.gamma(shape_ + 1, scale_);
      case Kind::kWeibull:
        return part * scale_ * std::pow(rng.gamma(1 + 1 / shape_, 1), 1 / shape_);
    }
    return part;
  }
  double next(Rng& rng) const {
    switch (kind_) {
      case Kind::kEqual:
        return 1;
      case Kind::kGamma:
        return rng.gamma(shape_, scale_);
      case Kind::kWeibull:
        return rng.weibull(shape_, scale_);
    }
    return 1;
  }

 private:
  enum class Kind { kEqual, kGamma, kWeibull };  // an exponential gap is a gamma gap of shape 1
  Kind kind_ = Kind::kEqual;
  double shape_ = 1, scale_ = 1;
};

// Collects arrivals; add() is false once there are too many.
class Collector {
 public:
  Collector(const RateCurve& curve, std::uint64_t arrivals_max) : curve_(curve), arrivals_max_(arrivals_max) {
    times.reserve(static_cast<std::size_t>(curve.total() * 1.05) + 64);
  }
  bool add(double operational_time) {
    if (times.size() >= arrivals_max_) return false;
    times.push_back(from_seconds(curve_.inverse(operational_time)));
    return true;
  }

  std::vector<Duration> times;

 private:
  const RateCurve& curve_;
  std::uint64_t arrivals_max_;
};

bool renewal_arrivals(const RateCurve& curve, const Renewal& gaps, Rng rng, Collector& collector) {
  for (double at = gaps.first(rng); at < curve.total(); at += gaps.next(rng))
    if (!collector.add(at)) return false;
  return true;
}

// On and off periods in real time, from their stationary state; while on, Poisson at the curve's rate / share.
bool on_off_arrivals(const RateCurve& curve, Bursts bursts, double duration_s, Rng periods, Rng rng,
                     Collector& collector) {
  const double off_s = bursts.on_s * (1 - bursts.on_share) / bursts.on_share;
  bool on = periods.uniform() < bursts.on_share;
  for (double begin = 0; begin < duration_s;) {
    const double end = std::min(duration_s, begin + periods.exponential(on ? bursts.on_s : off_s));
    if (on) {
      const double last = curve.integral(end);
      // Memoryless: each period may begin with a new gap.
      for (double at = curve.integral(begin) + bursts.on_share * rng.exponential(1); at < last;
           at += bursts.on_share * rng.exponential(1))
        if (!collector.add(at)) return false;
    }
    on = !on;
    begin = end;
  }
  return true;
}

Result<void> check(const ArrivalProcess& process, const RateOverTime& rate) {
  const bool uses_cv = process.kind == Arrivals::kGamma || process.kind == Arrivals::kWeibull;
  if (uses_cv && !(process.cv >= 0 && process.cv <= kCvMax))
    return fail("the coefficient of variation of the gaps is {}; 0 to {} is needed", process.cv, kCvMax);
  const Bursts& bursts = process.bursts;
  if (process.kind == Arrivals::kOnOff) {
    if (!(bursts.on_share > 0 && bursts.on_share <= 1))
      return fail("the share of the time that is on is {}; over 0 and up to 1 is needed", bursts.on_share);
    if (!(bursts.on_s > 0 && bursts.on_s <= kBurstMax))
      return fail("the mean on time is {} s; over 0 and up to {} s is needed", bursts.on_s, kBurstMax);
    if (bursts.on_share < 1 && rate.duration_s / bursts.on_s > kPeriodsMax)
      return fail("{} s are more than {} bursts of {} s", rate.duration_s, kPeriodsMax, bursts.on_s);
  }
  if (!(rate.duration_s > 0 && rate.duration_s <= 1e9))
    return fail("the duration is {} s; over 0 and up to 1e9 is needed", rate.duration_s);
  if (!(rate.window_s > 0) || rate.duration_s / rate.window_s > kWindowsMax)
    return fail("{} s are more than {} windows of {} s", rate.duration_s, kWindowsMax, rate.window_s);
  const auto bad = std::ranges::find_if(rate.rates_rps, [](double r) { return !(r >= 0) || !std::isfinite(r); });
  if (bad != rate.rates_rps.end()) return fail("a rate is {} per second; a number of 0 or more is needed", *bad);
  if (rate.rates_rps.empty()) return fail("there are no rates; at least one is needed");
  return {};
}

}  // namespace

std::optional<Arrivals> parse_arrivals(std::string_view text) {
  if (text == "onoff") return Arrivals::kOnOff;
  for (const Arrivals a :
       {Arrivals::kPoisson, Arrivals::kGamma, Arrivals::kWeibull, Arrivals::kOnOff, Arrivals::kConstant})
    if (text == name(a)) return a;
  return std::nullopt;
}

std::string_view name(Arrivals arrivals) {
  switch (arrivals) {
    case Arrivals::kPoisson:
      return "poisson";
    case Arrivals::kGamma:
      return "gamma";
    case Arrivals::kWeibull:
      return "weibull";
    case Arrivals::kOnOff:
      return "on-off";
    case Arrivals::kConstant:
      return "constant";
  }
  return "";
}

Bursts bursts_of(double on_s, double off_s) {
  return {.on_share = on_s / (on_s + off_s), .on_s = on_s};
}

double weibull_shape(double cv) {
  MUSTER_CHECK(cv >= 0.01 && cv <= 1000, "Weibull of coefficient of variation {}", cv);
  // cv rises with x = 1 / shape: from 0.0013 at 0.001 to over 1e11 at 40, where gamma(1 + 2 x) is still finite.
  double low = 0.001, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double x = 0.5 * (low + high);
    const double mean = std::tgamma(1 + x);
    const bool under = std::tgamma(1 + 2 * x) / (mean * mean) - 1 < cv * cv;
    (under ? low : high) = x;
  }
  return 2 / (low + high);
}

Result<std::vector<Duration>> arrivals(const ArrivalProcess& process, const RateOverTime& rate,
                                       const ArrivalsLimits& limits) {
  MUSTER_TRY_VOID(check(process, rate));
  const RateCurve curve(rate.rates_rps, rate.window_s, rate.duration_s);
  if (curve.total() > static_cast<double>(limits.arrivals_max))
    return fail("about {:.0f} arrivals would come; at most {} are allowed", curve.total(), limits.arrivals_max);
  Collector collector(curve, limits.arrivals_max);
  Rng rng = Rng::stream(limits.seed, limits.run, "arrivals");
  const bool bursts = process.kind == Arrivals::kOnOff && process.bursts.on_share < 1;
  const bool fits = bursts ? on_off_arrivals(curve, process.bursts, rate.duration_s,
                                             Rng::stream(limits.seed, limits.run, "bursts"), rng, collector)
                           : renewal_arrivals(curve, Renewal(process), rng, collector);
  if (!fits) return fail("more than {} arrivals come", limits.arrivals_max);
  return std::move(collector.times);
}

}  // namespace muster::workload
