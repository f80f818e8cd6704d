#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/core/digest.h"
#include "muster/core/result.h"
#include "muster/core/rng.h"
#include "muster/core/statistics.h"
#include "muster/core/text.h"
#include "muster/core/time.h"
#include "muster/core/units.h"

namespace muster {
namespace {

TEST(Rng, StreamsRepeatAndDiffer) {
  Rng a = Rng::stream(7, 0, "arrivals");
  Rng b = Rng::stream(7, 0, "arrivals");
  Rng other_name = Rng::stream(7, 0, "lengths");
  Rng other_run = Rng::stream(7, 1, "arrivals");
  const std::uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, other_name.next());
  EXPECT_NE(first, other_run.next());
}

// The first values are written down: a change of generator or seeding would silently change every simulation.
TEST(Rng, TheSequenceIsFixedForEver) {
  Rng rng = Rng::stream(1, 0, "test");
  EXPECT_EQ(rng.next(), 0x1d0ac29cfa08e86fULL);
  EXPECT_EQ(rng.next(), 0xefccaab64ae85d1fULL);
  EXPECT_EQ(rng.next(), 0xb7ae5581dc6f1af4ULL);
}

TEST(Rng, DistributionsHaveTheirMoments) {
  Rng rng = Rng::stream(3, 0, "moments");
  Moments uniform, exponential, normal, gamma_small, gamma_large, weibull;
  for (int i = 0; i < 200000; ++i) {
    uniform.add(rng.uniform());
    exponential.add(rng.exponential(2));
    normal.add(rng.normal());
    gamma_small.add(rng.gamma(0.25, 4));
    gamma_large.add(rng.gamma(3, 0.5));
    weibull.add(rng.weibull(2, 1));
  }
  EXPECT_NEAR(uniform.mean(), 0.5, 0.003);
  EXPECT_NEAR(exponential.mean(), 2, 0.02);
  EXPECT_NEAR(exponential.variance(), 4, 0.1);
  EXPECT_NEAR(normal.mean(), 0, 0.01);
  EXPECT_NEAR(normal.variance(), 1, 0.02);
  EXPECT_NEAR(gamma_small.mean(), 1, 0.02);
  EXPECT_NEAR(gamma_small.variance(), 4, 0.2);
  EXPECT_NEAR(gamma_large.mean(), 1.5, 0.01);
  EXPECT_NEAR(gamma_large.variance(), 0.75, 0.02);
  EXPECT_NEAR(weibull.mean(), 0.886227, 0.005);      // gamma(1.5)
  EXPECT_NEAR(weibull.variance(), 0.214602, 0.005);  // 1 - pi / 4
}

TEST(Rng, BelowIsUniformAndInRange) {
  Rng rng = Rng::stream(4, 0, "below");
  std::array<int, 7> hits{};
  for (int i = 0; i < 70000; ++i) ++hits.at(rng.below(7));
  for (const int n : hits) EXPECT_NEAR(n, 10000, 500);
}

TEST(QuantileSketch, NearestRankWhileExact) {
  QuantileSketch s;
  for (const double x : {5.0, 1.0, 3.0, 2.0, 4.0}) s.add(x);
  EXPECT_EQ(s.quantile(0.5), 3);
  EXPECT_EQ(s.quantile(0.2), 1);
  EXPECT_EQ(s.quantile(0.21), 2);
  EXPECT_EQ(s.quantile(1), 5);
  EXPECT_EQ(s.quantile(0), 1);
  EXPECT_EQ(QuantileSketch().quantile(0.95), 0);
}

TEST(QuantileSketch, BucketsStayWithinHalfAPercentOfTheSortedSamples) {
  Rng rng = Rng::stream(5, 0, "sketch");
  QuantileSketch whole, left, right;
  std::vector<double> all;
  for (int i = 0; i < 150000; ++i) {
    const double x = rng.exponential(0.2) * (i % 10 == 0 ? 50 : 1);
    all.push_back(x);
    whole.add(x);
    (i % 3 == 0 ? left : right).add(x);
  }
  std::sort(all.begin(), all.end());
  left.merge(right);
  EXPECT_FALSE(whole.exact());
  EXPECT_EQ(left.count(), all.size());
  for (const double q : {0.01, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    const double exact = all[static_cast<std::size_t>(std::ceil(q * static_cast<double>(all.size()))) - 1];
    EXPECT_NEAR(whole.quantile(q), exact, 0.0051 * exact) << q;
    EXPECT_NEAR(left.quantile(q), exact, 0.0051 * exact) << q;
  }
  EXPECT_EQ(whole.max(), all.back());
  EXPECT_NEAR(left.mean(), whole.mean(), 1e-9);
}

TEST(MeanInterval, CoversTheTruthAboutAsOftenAsItClaims) {
  Rng rng = Rng::stream(6, 0, "coverage");
  int covered = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 5; ++i) values.push_back(10 + rng.normal());
    const MeanInterval m = mean_interval_95(values);
    covered += std::abs(m.mean - 10) <= m.half_width ? 1 : 0;
  }
  EXPECT_NEAR(covered / 2000.0, 0.95, 0.015);
}

TEST(Text, FindsTheSlipOfThePen) {
  const std::vector<std::string> keys = {"llama-3.1-70b", "llama-3.1-8b", "qwen3-32b"};
  EXPECT_EQ(nearest("llama-3.1-70", keys), "llama-3.1-70b");
  EXPECT_EQ(nearest("LLama-3.1-70B", keys), "llama-3.1-70b");
  EXPECT_EQ(nearest("something-else", keys), "");
  EXPECT_EQ(did_you_mean("qwen3-23b", keys), " (did you mean qwen3-32b?)");
}

TEST(Text, SplitsAndTrims) {
  EXPECT_THAT(split("a,,b", ','), testing::ElementsAre("a", "", "b"));
  EXPECT_EQ(trim("  x y\r\n"), "x y");
  EXPECT_EQ(trim(" \t"), "");
}

TEST(Time, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(from_seconds(1.5), 1500ms);
  EXPECT_EQ(from_seconds(0.4e-9), 0ns);
  EXPECT_EQ(from_seconds(-0.6e-9), -1ns);
}

TEST(Digest, DependsOnValuesAndOrder) {
  Digest a, b, c;
  a.add(std::uint64_t{1});
  a.add(std::uint64_t{2});
  b.add(std::uint64_t{2});
  b.add(std::uint64_t{1});
  c.add(std::uint64_t{1});
  c.add(std::uint64_t{2});
  EXPECT_NE(a.value(), b.value());
  EXPECT_EQ(a.hex(), c.hex());
}

Result<int> half(int x) {
  if (x % 2 != 0) return fail("{} is odd; an even number is needed", x);
  return x / 2;
}
Result<int> quarter(int x) {
  MUSTER_TRY(const int h, half(x));
  MUSTER_TRY(const int q, half(h));
  return q;
}
TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd; an even number is needed");
}

}  // namespace
}  // namespace muster
