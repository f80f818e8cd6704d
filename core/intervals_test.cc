#include "muster/core/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/core/rng.h"
#include "muster/core/statistics.h"

namespace muster {
namespace {

// P(B <= k) for B ~ Binomial(n, q) by its definition.
double binomial_cdf(std::uint64_t n, double q, std::uint64_t k) {
  const auto trials = static_cast<double>(n);
  double sum = 0;
  for (double i = 0; i <= static_cast<double>(k); ++i)
    sum += std::exp(std::lgamma(trials + 1) - std::lgamma(i + 1) - std::lgamma(trials - i + 1) + i * std::log(q) +
                    (trials - i) * std::log1p(-q));
  return sum;
}

TEST(QuantileRanks, AreTheTightestThatTheBinomialAllows) {
  for (const std::uint64_t n : {5u, 6u, 8u, 30u, 59u, 100u, 368u, 1000u, 5000u})
    for (const double q : {0.05, 0.5, 0.9, 0.95, 0.99}) {
      SCOPED_TRACE(testing::Message() << "n " << n << " q " << q);
      const auto ranks = quantile_ranks_95(n, q);
      if (!ranks) {  // one end or the other is missing: not even the extremes enclose it
        EXPECT_TRUE(std::pow(1 - q, n) > 0.025 || std::pow(q, n) > 0.025);
        continue;
      }
      EXPECT_LE(binomial_cdf(n, q, ranks->low - 1), 0.025 + 1e-12);
      EXPECT_GT(binomial_cdf(n, q, ranks->low), 0.025);
      EXPECT_LE(1 - binomial_cdf(n, q, ranks->high - 1), 0.025 + 1e-9);
      if (ranks->high >= 2) {
        EXPECT_GT(1 - binomial_cdf(n, q, ranks->high - 2), 0.025);
      }
    }
  EXPECT_FALSE(quantile_ranks_95(0, 0.5));
  const auto many =
      quantile_ranks_95(100'000'000, 0.99);  // fast at any size; about 1.96 sqrt(n q (1 - q)) to each side
  ASSERT_TRUE(many);
  EXPECT_NEAR(static_cast<double>(many->high - many->low), 2 * 1.96 * std::sqrt(1e8 * 0.99 * 0.01), 20);
}

// The share of `runs` intervals that contain `truth`.
template <class Make>
double coverage(int runs, double truth, Make make) {
  int inside = 0;
  for (int run = 0; run < runs; ++run) {
    const std::optional<Interval> interval = make(run);
    inside += interval && !interval->excludes(truth);
  }
  return static_cast<double>(inside) / runs;
}

TEST(QuantileRanks, CoverTheQuantileOfAnExponential) {
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const double q : {0.5, 0.95, 0.99}) {
    const double covered = coverage(2000, -std::log1p(-q), [&](int run) {
      Rng rng = Rng::stream(kSeed, static_cast<std::uint64_t>(run), "exponential");
      std::vector<double> x(1000);
      for (double& v : x) v = rng.exponential(1);
      std::ranges::sort(x);
      const auto r = quantile_ranks_95(x.size(), q).value();
      return std::optional(Interval{x[r.low - 1], x[r.high - 1]});
    });
    EXPECT_GE(covered, 0.935) << "q " << q;  // at least 95 % in theory; three standard errors of 2000 runs are 1.5 %
    EXPECT_LE(covered, 0.985) << "q " << q;
  }
}

TEST(MeanConfidence, CoversTheMeanOfAFewReplications) {
  constexpr std::uint64_t kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const std::size_t n : {2u, 3u, 8u, 31u, 40u}) {
    const double covered = coverage(4000, 7, [&](int run) {
      Rng rng = Rng::stream(kSeed, static_cast<std::uint64_t>(run), "normal");
      std::vector<double> x(n);
      for (double& v : x) v = 7 + 3 * rng.normal();
      return mean_confidence_95(x);
    });
    EXPECT_NEAR(covered, 0.95, 0.0105) << n << " replications";  // three standard errors
  }
  EXPECT_FALSE(mean_confidence_95(std::vector<double>{1}));
}

// Waiting times of an M/M/1 queue at 60 % load by Lindley's recursion, started in its stationary state.
std::vector<double> waits(std::uint64_t seed, int run, std::size_t n) {
  constexpr double kLoad = 0.6;
  Rng rng = Rng::stream(seed, static_cast<std::uint64_t>(run), "mm1");
  double wait = rng.uniform() < kLoad ? rng.exponential(1 / (1 - kLoad)) : 0;
  std::vector<double> out(n);
  for (double& w : out) {
    w = wait;
    wait = std::max(0.0, wait + rng.exponential(1) - rng.exponential(1 / kLoad));
  }
  return out;
}

double quantile(std::vector<double> x, double q) {
  std::ranges::sort(x);
  return x[static_cast<std::size_t>(std::ceil(q * static_cast<double>(x.size()))) - 1];
}

// P(W > t) = 0.6 exp(-0.4 t): the oracle. The order statistics, which take the waits for independent, cover it far too
// rarely; sections do not.
TEST(SectionConfidence, CoversQuantilesOfAnAutocorrelatedQueue) {
  constexpr std::uint64_t kSeed = 13;
  constexpr std::size_t kWaits = 20000, kSections = 10;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const double q : {0.5, 0.95, 0.99}) {
    const double truth = std::log(0.6 / (1 - q)) / 0.4;
    const double sections = coverage(200, truth, [&](int run) {
      const std::vector<double> x = waits(kSeed, run, kWaits);
      std::vector<double> parts;
      for (std::size_t i = 0; i < kSections; ++i)
        parts.push_back(quantile({x.begin() + static_cast<std::ptrdiff_t>(i * kWaits / kSections),
                                  x.begin() + static_cast<std::ptrdiff_t>((i + 1) * kWaits / kSections)},
                                 q));
      return section_confidence_95(quantile(x, q), parts);
    });
    EXPECT_GE(sections, 0.90) << "q " << q;
    EXPECT_LE(sections, 0.99) << "q " << q;
    const double ranks = coverage(200, truth, [&](int run) {
      std::vector<double> x = waits(kSeed, run, kWaits);
      std::ranges::sort(x);
      const auto r = quantile_ranks_95(x.size(), q).value();
      return std::optional(Interval{x[r.low - 1], x[r.high - 1]});
    });
    EXPECT_LT(ranks, 0.80) << "q " << q;
  }
}

// The obvious way, cut by cut.
std::size_t slow_mser_5(const std::vector<double>& series) {
  std::vector<double> z;
  for (std::size_t i = 0; i + 5 <= series.size(); i += 5)
    z.push_back((series[i] + series[i + 1] + series[i + 2] + series[i + 3] + series[i + 4]) / 5);
  std::size_t best_cut = 0;
  double best = INFINITY;
  for (std::size_t cut = 0; cut + 5 <= z.size(); ++cut) {
    const auto n = static_cast<double>(z.size() - cut);
    double mean = 0, squares = 0;
    for (std::size_t i = cut; i < z.size(); ++i) mean += z[i] / n;
    for (std::size_t i = cut; i < z.size(); ++i) squares += (z[i] - mean) * (z[i] - mean);
    if (squares / (n * n) < best) best = squares / (n * n), best_cut = cut;
  }
  return best_cut * 5;
}

TEST(Mser, CutsTheRampAndAgreesWithTheSlowWay) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng = Rng::stream(seed, 0, "ramp");
    const std::size_t n = 200 + rng.below(800), ramp = rng.below(n / 4);
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i)
      x[i] = 10 * std::min(1.0, static_cast<double>(i) / static_cast<double>(ramp + 1)) + 0.3 * rng.normal();
    const std::size_t slow = slow_mser_5(x);
    const auto cut = mser_5(x);
    if (slow / 5 > n / 5 / 2) {
      EXPECT_FALSE(cut);
      continue;
    }
    ASSERT_TRUE(cut);
    EXPECT_EQ(*cut, slow);
    EXPECT_GE(static_cast<double>(*cut) + 10, 0.8 * static_cast<double>(ramp));
  }
}

TEST(Mser, KnowsWhenItCannotTell) {
  std::vector<double> rising(1000);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<double>(i);
  EXPECT_FALSE(mser_5(rising)) << "it never settles";
  EXPECT_FALSE(mser_5(std::vector<double>(49, 1.0)));
  EXPECT_EQ(mser_5(std::vector<double>(1000, 4.0)), 0u) << "nothing to leave out";
}

}  // namespace
}  // namespace muster
