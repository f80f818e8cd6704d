#include "muster/workload/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "muster/core/rng.h"
#include "muster/core/statistics.h"

namespace muster::workload {
namespace {

using testing::HasSubstr;

constexpr Arrivals kAll[] = {Arrivals::kPoisson, Arrivals::kGamma, Arrivals::kWeibull, Arrivals::kOnOff,
                             Arrivals::kConstant};
const RateOverTime kTenPerSecond{.rates_rps = {10}, .window_s = 60, .duration_s = 20000};

std::vector<Duration> times_of(const ArrivalProcess& process, const RateOverTime& rate = kTenPerSecond,
                               std::uint64_t seed = 1, std::uint64_t run = 0) {
  return arrivals(process, rate, {.seed = seed, .run = run}).value();
}

double gap_cv(const std::vector<Duration>& times) {
  Moments gaps;
  for (std::size_t i = 1; i < times.size(); ++i) gaps.add(to_seconds(times[i] - times[i - 1]));
  return std::sqrt(gaps.variance()) / gaps.mean();
}

// Index of dispersion: variance / mean of the counts per `window_s`.
double dispersion(const std::vector<Duration>& times, double window_s, double duration_s) {
  std::vector<double> counts(static_cast<std::size_t>(duration_s / window_s), 0.0);
  for (const Duration t : times) {
    const auto i = static_cast<std::size_t>(to_seconds(t) / window_s);
    if (i < counts.size()) ++counts[i];
  }
  Moments moments;
  for (const double count : counts) moments.add(count);
  return moments.variance() / moments.mean();
}

TEST(Arrivals, HaveNames) {
  for (const Arrivals a : kAll) {
    EXPECT_EQ(parse_arrivals(name(a)), a);
    EXPECT_THAT(std::string(kArrivalsKnown), HasSubstr(std::string(name(a))));
  }
  EXPECT_EQ(parse_arrivals("onoff"), Arrivals::kOnOff);
  EXPECT_FALSE(parse_arrivals("bursts"));
}

TEST(WeibullShape, SolvesForTheCoefficientOfVariation) {
  EXPECT_NEAR(weibull_shape(1), 1, 1e-12);                                    // the exponential
  EXPECT_NEAR(weibull_shape(std::sqrt(4 / std::numbers::pi - 1)), 2, 1e-12);  // Rayleigh
  EXPECT_NEAR(weibull_shape(std::sqrt(5.0)), 0.5, 1e-12);                     // gamma(5) / gamma(3)^2 - 1 = 5
  for (const double cv : {0.01, 0.1, 0.7, 3.0, 10.0, 100.0, 1000.0}) {
    const double k = weibull_shape(cv);
    const double mean = std::tgamma(1 + 1 / k);
    EXPECT_NEAR(std::sqrt(std::tgamma(1 + 2 / k) / (mean * mean) - 1), cv, 1e-9 * cv) << cv;
  }
}

TEST(Arrivals, HaveTheRateAndTheBurstinessThatWasAskedFor) {
  for (const Arrivals kind : {Arrivals::kGamma, Arrivals::kWeibull})
    for (const double cv : {0.3, 1.0, 2.5}) {
      SCOPED_TRACE(testing::Message() << name(kind) << " cv " << cv);
      const std::vector<Duration> times = times_of({.kind = kind, .cv = cv});
      // A renewal process's count varies as cv^2 x its mean: 5 standard deviations.
      EXPECT_NEAR(static_cast<double>(times.size()), 200000, 5 * cv * std::sqrt(200000));
      EXPECT_NEAR(gap_cv(times), cv, 0.04 * cv);
      // Its index of dispersion tends to cv^2 over long windows (here 100 mean gaps, of 2000 of them).
      EXPECT_NEAR(dispersion(times, 10, 20000), cv * cv, 0.2 * cv * cv + 0.01);
    }
  const std::vector<Duration> poisson = times_of({.kind = Arrivals::kPoisson});
  EXPECT_NEAR(static_cast<double>(poisson.size()), 200000, 5 * std::sqrt(200000));
  EXPECT_NEAR(gap_cv(poisson), 1, 0.02);
  EXPECT_NEAR(dispersion(poisson, 10, 20000), 1, 0.16);  // 5 x sqrt(2 / 2000)
  const std::vector<Duration> even = times_of({.kind = Arrivals::kConstant});
  EXPECT_EQ(even.size(), 200000u);
  EXPECT_NEAR(gap_cv(even), 0, 1e-6);
}

// The interrupted Poisson process, rate r on average, on and off means a and b: squared CV of the gaps
// 1 + 2 r a (1 - share)^2 / share; dispersion over long windows 1 + 2 r b^2 / (a + b).
TEST(Arrivals, OnOffIsAnInterruptedPoissonProcess) {
  const Bursts bursts = bursts_of(4, 12);
  EXPECT_DOUBLE_EQ(bursts.on_share, 0.25);
  const RateOverTime rate{.rates_rps = {2}, .window_s = 60, .duration_s = 400000};
  const std::vector<Duration> times = times_of({.kind = Arrivals::kOnOff, .bursts = bursts}, rate);
  EXPECT_NEAR(static_cast<double>(times.size()) / 400000, 2, 0.05);
  EXPECT_NEAR(gap_cv(times), std::sqrt(1 + 2 * 2 * 4 * 0.75 * 0.75 / 0.25), 0.2);
  EXPECT_NEAR(dispersion(times, 400, 400000), 1 + 2 * 2 * 12.0 * 12.0 / 16, 8);
}

// Every window from the first on has its rate: 4.5 standard errors of what was seen.
TEST(Arrivals, HonourTheRateOfEveryWindow) {
  const RateOverTime rate{.rates_rps = {1, 0, 4}, .window_s = 10, .duration_s = 55};
  for (const Arrivals kind : kAll) {
    SCOPED_TRACE(name(kind));
    std::vector<Moments> counts(6);
    for (std::uint64_t run = 0; run < 3000; ++run) {
      std::vector<double> count(6, 0);
      for (const Duration t : times_of({.kind = kind, .cv = 2, .bursts = bursts_of(3, 5)}, rate, 1, run)) {
        ASSERT_LT(to_seconds(t), 55);
        ++count[static_cast<std::size_t>(to_seconds(t) / 10)];
      }
      for (std::size_t i = 0; i < 6; ++i) counts[i].add(count[i]);
    }
    const double expected[] = {10, 0, 40, 10, 0, 20};
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(counts[i].mean(), expected[i], 4.5 * std::sqrt(counts[i].variance() / 3000) + 1e-9) << i;
  }
}

TEST(Arrivals, RepeatBySeedAndRun) {
  const RateOverTime rate{.rates_rps = {10}, .window_s = 60, .duration_s = 100};
  for (const Arrivals kind : kAll) {
    const ArrivalProcess process{.kind = kind, .cv = 2};
    EXPECT_EQ(times_of(process, rate, 7, 3), times_of(process, rate, 7, 3));
    EXPECT_NE(times_of(process, rate, 7, 3), times_of(process, rate, 7, 4));
    EXPECT_NE(times_of(process, rate, 7, 3), times_of(process, rate, 8, 3));
  }
}

TEST(Arrivals, RefuseSenselessSettings) {
  const auto error = [](const ArrivalProcess& process, const RateOverTime& rate = kTenPerSecond) {
    const auto times = arrivals(process, rate, {.arrivals_max = 1'000'000});
    return times ? "no error" : times.error().message;
  };
  EXPECT_THAT(error({.kind = Arrivals::kWeibull, .cv = -1}), HasSubstr("variation of the gaps is -1; 0 to 1000"));
  EXPECT_THAT(error({.kind = Arrivals::kGamma, .cv = std::nan("")}), HasSubstr("is nan; 0 to 1000"));
  EXPECT_THAT(error({.kind = Arrivals::kOnOff, .bursts = {.on_share = 0}}), HasSubstr("on is 0; over 0 and up to 1"));
  EXPECT_THAT(error({.kind = Arrivals::kOnOff, .bursts = {.on_s = -2}}), HasSubstr("mean on time is -2 s"));
  EXPECT_THAT(error({}, {.rates_rps = {1, -3}}), HasSubstr("a rate is -3 per second"));
  EXPECT_THAT(error({}, {.rates_rps = {1}, .duration_s = 0}), HasSubstr("the duration is 0 s"));
  EXPECT_THAT(error({}, {.rates_rps = {1e9}}), HasSubstr("at most 1000000 are allowed"));
}

}  // namespace
}  // namespace muster::workload
