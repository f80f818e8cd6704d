#include "muster/workload/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "muster/core/rng.h"
#include "muster/workload/sessions.h"
#include "muster/workload/statistics.h"

namespace muster::workload {
namespace {

// `n` gamma gaps of the given burstiness around a rate that doubles for the middle third.
Trace bursty(std::size_t n, double cv, std::uint64_t seed, bool blocks = false) {
  Rng rng = Rng::stream(seed, 0, "bursty");
  Trace trace;
  double t = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = i > n / 4 && i < 3 * n / 4 ? 0.1 : 0.2;
    t += rng.gamma(1 / (cv * cv), mean * cv * cv);
    Request r;
    r.arrival = from_seconds(t);
    r.input_tokens = static_cast<std::int32_t>(1 + rng.below(4000));
    r.output_tokens = static_cast<std::int32_t>(1 + rng.below(400));
    if (blocks) {
      r.first_block = static_cast<std::uint32_t>(trace.block_ids.size());
      r.block_count = 2;
      trace.block_ids.push_back(rng.below(50));
      trace.block_ids.push_back(1000 + i);
    }
    trace.requests.push_back(r);
  }
  trace.block_tokens = blocks ? 512 : 0;
  return trace;
}

std::map<std::pair<int, int>, int> length_counts(const Trace& trace) {
  std::map<std::pair<int, int>, int> counts;
  for (const Request& r : trace.requests) ++counts[{r.input_tokens, r.output_tokens}];
  return counts;
}

bool sorted(const Trace& trace) {
  return std::is_sorted(trace.requests.begin(), trace.requests.end(),
                        [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
}

TEST(Scale, ByOneChangesNothing) {
  const Trace trace = bursty(500, 2, 1, true);
  const Trace same = scale(trace, 1, 7).value();
  ASSERT_EQ(same.requests.size(), trace.requests.size());
  for (std::size_t i = 0; i < trace.requests.size(); ++i)
    EXPECT_EQ(same.requests[i].arrival, trace.requests[i].arrival);
  EXPECT_EQ(same.block_ids, trace.block_ids);
}

TEST(Scale, WholeFactorsKeepEveryLengthAndTheSpan) {
  const Trace trace = bursty(2000, 1, 2);
  const Trace tripled = scale(trace, 3, 7).value();
  auto expected = length_counts(trace);
  for (auto& [lengths, count] : expected) count *= 3;
  EXPECT_EQ(length_counts(tripled), expected);
  EXPECT_TRUE(sorted(tripled));
  EXPECT_EQ(tripled.requests.front().arrival, trace.requests.front().arrival);
  EXPECT_EQ(tripled.requests.back().arrival, trace.requests.back().arrival);
}

TEST(Scale, CountsAreExactForEveryFactor) {
  const Trace trace = bursty(997, 1, 3);
  for (const double factor : {0.001, 0.1, 0.5, 0.999, 1.0, 1.25, 2.0, 7.3}) {
    const Trace scaled = scale(trace, factor, 7).value();
    const double whole = std::floor(factor);
    EXPECT_EQ(static_cast<double>(scaled.requests.size()), whole * 997 + std::round((factor - whole) * 997)) << factor;
    EXPECT_TRUE(sorted(scaled));
  }
}

// The shape: the rate in each window is `factor` times what it was within what counting allows (5 standard deviations
// of the fewer requests of the two), and Poisson traffic stays Poisson, bursty traffic bursty.
TEST(Scale, KeepsTheRateCurveAndTheBurstiness) {
  for (const double cv : {1.0, 2.5})
    for (const double factor : {0.5, 1.5, 2.0, 4.0, 10.0}) {
      SCOPED_TRACE(testing::Message() << "cv " << cv << " factor " << factor);
      const Trace trace = bursty(20000, cv, 4);
      const TraceStatistics before = statistics(trace, 300s);
      const TraceStatistics after = statistics(scale(trace, factor, 7).value(), 300s);
      ASSERT_EQ(after.rate_curve_rps.size(), before.rate_curve_rps.size());
      for (std::size_t i = 0; i + 1 < before.rate_curve_rps.size(); ++i) {
        const double count = before.rate_curve_rps[i] * 60;
        EXPECT_NEAR(after.rate_curve_rps[i] / factor, before.rate_curve_rps[i],
                    5 * std::sqrt(count / std::min(factor, 1.0)) / 60);
      }
      EXPECT_NEAR(after.interarrival_cv, before.interarrival_cv, (factor < 1 ? 0.3 : 0.15) * before.interarrival_cv);
      EXPECT_NEAR(after.peak_rate_rps, factor * before.peak_rate_rps, 0.05 * factor * before.peak_rate_rps);
    }
}

TEST(Scale, SimultaneousRequestsStayTogether) {
  Trace trace = bursty(1000, 1, 5);
  for (std::size_t i = 0; i < 1000; ++i) trace.requests[i].arrival = trace.requests[i - i % 10].arrival;
  std::map<Duration, int> batches;
  const Trace scaled = scale(trace, 3, 7).value();
  for (const Request& r : scaled.requests) ++batches[r.arrival];
  for (const auto& [at, count] : batches) EXPECT_EQ(count % 10, 0) << at.count();
}

TEST(Scale, CopiesHavePrefixBlocksOfTheirOwn) {
  const Trace trace = bursty(2000, 1, 6, true);
  const Trace scaled = scale(trace, 3, 7).value();
  EXPECT_NEAR(statistics(scaled, 300s).prefix_reuse, statistics(trace, 300s).prefix_reuse, 1e-9);
  EXPECT_EQ(std::set<std::uint64_t>(scaled.block_ids.begin(), scaled.block_ids.end()).size(),
            3 * std::set<std::uint64_t>(trace.block_ids.begin(), trace.block_ids.end()).size());
  for (const Request& r : scaled.requests) EXPECT_LE(r.first_block + r.block_count, scaled.block_ids.size());
}

TEST(Scale, SessionsStayWhole) {
  const Trace trace = synthesise_sessions({.span = 1000s}).value();
  const auto turns = [](const Trace& t) {
    std::map<std::uint32_t, std::vector<Request>> sessions;
    for (const Request& r : t.requests) sessions[r.session].push_back(r);
    return sessions;
  };
  const auto before = turns(trace);
  const TraceStatistics was = statistics(trace, 300s);
  for (const double factor : {0.5, 2.0, 3.5}) {
    SCOPED_TRACE(factor);
    const Trace scaled = scale(trace, factor, 7).value();
    EXPECT_TRUE(sorted(scaled));
    const auto after = turns(scaled);
    EXPECT_EQ(static_cast<double>(after.size()),
              std::floor(factor) * static_cast<double>(before.size()) +
                  std::round((factor - std::floor(factor)) * static_cast<double>(before.size())));
    EXPECT_NEAR(statistics(scaled, 300s).turns_per_session, was.turns_per_session, factor == 2 ? 1e-9 : 1);
    for (const auto& [session, all] : after) {
      EXPECT_EQ(all[0].think, Duration(0));
      for (std::size_t k = 1; k < all.size(); ++k) {
        EXPECT_GT(all[k].input_tokens, all[k - 1].input_tokens + all[k - 1].output_tokens);
        EXPECT_GT(content_blocks(scaled, all[k]).size(), 0u);
      }
    }
  }
}

TEST(Scale, RepeatsBySeed) {
  const Trace trace = bursty(500, 1, 8);
  const auto arrivals = [](const Trace& t) {
    std::vector<Duration> all;
    for (const Request& r : t.requests) all.push_back(r.arrival);
    return all;
  };
  EXPECT_EQ(arrivals(scale(trace, 2.5, 7).value()), arrivals(scale(trace, 2.5, 7).value()));
  EXPECT_NE(arrivals(scale(trace, 2.5, 7).value()), arrivals(scale(trace, 2.5, 8).value()));
}

TEST(Scale, RefusesSenselessFactors) {
  const Trace trace = bursty(10, 1, 9);
  for (const double factor : {0.0, -1.0, std::nan(""), 1e9, static_cast<double>(INFINITY)})
    EXPECT_FALSE(scale(trace, factor, 7)) << factor;
  EXPECT_TRUE(scale(Trace(), 2, 7)->requests.empty());
}

TEST(Window, CutsAndMovesToZero) {
  const Trace trace = bursty(500, 1, 10, true);
  const Duration begin = trace.requests[100].arrival;
  const Duration end = trace.requests[200].arrival;
  const Trace cut = window(trace, begin, end);
  ASSERT_EQ(cut.requests.size(), 100u);
  EXPECT_EQ(cut.requests.front().arrival, 0ns);
  EXPECT_EQ(cut.requests.back().arrival, trace.requests[199].arrival - begin);
  EXPECT_EQ(cut.block_ids.size(), 200u);
  EXPECT_EQ(cut.block_ids[cut.requests[5].first_block], trace.block_ids[trace.requests[105].first_block]);
}

}  // namespace
}  // namespace muster::workload
