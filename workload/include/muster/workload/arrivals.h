// When requests (or sessions) arrive: a point process around a rate that may change over time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/core/result.h"
#include "muster/core/time.h"

namespace muster::workload {

enum class Arrivals {
  kPoisson,   // exponential gaps
  kGamma,     // gamma gaps of a coefficient of variation: over 1 bursty, under 1 even
  kWeibull,   // Weibull gaps of a coefficient of variation: a longer tail than gamma's where that is over 1
  kOnOff,     // bursts: Poisson at rate / on_share while on, silent while off; exponential on and off times
  kConstant,  // equal gaps
};
inline constexpr std::string_view kArrivalsKnown = "poisson, gamma, weibull, on-off, constant";
std::optional<Arrivals> parse_arrivals(std::string_view text);  // one of kArrivalsKnown, or "onoff"
std::string_view name(Arrivals arrivals);

struct Bursts {
  double on_share = 0.5;  // share of the time that is on; 1: always, which is Poisson
  double on_s = 10;       // mean length of an on period
};
Bursts bursts_of(double on_s, double off_s);  // by the mean lengths of both periods; requires on_s > 0, off_s >= 0

struct ArrivalProcess {
  Arrivals kind = Arrivals::kPoisson;
  double cv = 1;  // of the gaps, for kGamma and kWeibull; under 0.01: equal gaps
  Bursts bursts;  // for kOnOff
};

// Mean rates in windows of `window_s`, repeated or cut to `duration_s`.
struct RateOverTime {
  std::vector<double> rates_rps;
  double window_s = 60;
  double duration_s = 60;
};

struct ArrivalsLimits {
  std::uint64_t seed = 1;
  std::uint64_t run = 0;  // replication
  std::uint64_t arrivals_max = 100'000'000;
};

// Times in [0, duration_s), never falling. Gaps are drawn with mean 1 in the time of the integrated rate and moved back
// through it (time rescaling: Brown et al. 2002, Neural Computation 14), the process running since for ever at 0: so
// every window's expected count is its rate times its width for every kind. On and off periods are in real time.
// Deterministic by (seed, run). Fails on a cv, bursts or rates that are not finite and in range, and where over
// arrivals_max would come.
Result<std::vector<Duration>> arrivals(const ArrivalProcess& process, const RateOverTime& rate,
                                       const ArrivalsLimits& limits);

// The shape k of the Weibull distribution with this coefficient of variation:
// cv^2 = Gamma(1 + 2/k) / Gamma(1 + 1/k)^2 - 1 (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1,
// chapter 21), solved by bisection to the last bits. Requires 0.01 <= cv <= 1000.
double weibull_shape(double cv);

}  // namespace muster::workload
