#include "replications.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/core/rng.h"
#include "muster/report/measures.h"
#include "muster/workload/read.h"
#include "within_run.h"

namespace muster::app {
namespace {

using testing::HasSubstr;
using Verdict = report::ComparisonRow::Verdict;

std::string profile() {
  return std::string(MUSTER_SOURCE_DIR) + "/examples/profiles/azure-conv.yaml";
}

FleetUnderTest fleet(int replicas, std::string_view routing = "least-work") {
  const std::string text = fmt::format(
      "fleet: f\npools: [{{name: p, model: llama-3.1-8b, engine: vllm@0.19, gpu: h100-sxm, replicas: {{initial: "
      "{}}}}}]\n"
      "classes: [{{name: c, rank: 0, slo: {{e2e_p95_ms: 60000}}}}]\nrouting: {{policy: {}}}\n",
      replicas, routing);
  const Catalogues catalogues = load_catalogues({}).value();
  Result<FleetUnderTest> made = FleetUnderTest::prepare(parse_fleet(text, "f.yaml").value(), "", catalogues);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(Replications, AreTheRunsOfTheirSeedsWhateverTheThreads) {
  const TrafficSource traffic = TrafficSource::open("", profile()).value();
  const FleetUnderTest f = fleet(2);
  ReplicationSettings settings{.run = {.seed = 5}, .scale = 0.2, .replications = 3, .threads = 1};
  const Replicated one = replicate(f, traffic, settings).value();
  settings.threads = 3;
  const Replicated three = replicate(f, traffic, settings).value();
  const report::Uncertainty& u = *one.first.metrics.uncertainty;
  EXPECT_EQ(u.digests, three.first.metrics.uncertainty->digests);
  ASSERT_EQ(u.estimates.size(), three.first.metrics.uncertainty->estimates.size());
  for (std::size_t i = 0; i < u.estimates.size(); ++i)
    EXPECT_EQ(u.estimates[i].value, three.first.metrics.uncertainty->estimates[i].value);
  double p95 = 0;
  for (std::uint64_t seed = 5; seed < 8; ++seed) {
    const auto trace = traffic.make(0.2, seed).value();
    const FleetRun alone = f.run(*trace, {.seed = seed}).value();
    EXPECT_EQ(alone.metrics.digest, u.digests[seed - 5]);
    p95 += alone.metrics.ttft_ms.p95 / 3;
  }
  const auto ttft = std::ranges::find(u.estimates, "ttft_ms.p95", &report::Estimate::name);
  EXPECT_NEAR(ttft->value, p95, 1e-9 * p95);
  EXPECT_LT(*ttft->low, p95);
  EXPECT_GT(*ttft->high, p95);
}

TEST(Replications, OfAReplayedTraceSayThatTheyAreOneRun) {
  const std::string path = testing::TempDir() + "replayed.csv";
  const workload::Trace recorded = *TrafficSource::open("", profile()).value().make(0.02, 1).value();
  ASSERT_TRUE(workload::write_trace(recorded, path));
  const TrafficSource traffic = TrafficSource::open(path, "").value();
  const auto notes = [&](const FleetUnderTest& f) {
    return replicate(f, traffic, {.replications = 2}).value().first.metrics.uncertainty->notes;
  };
  EXPECT_THAT(notes(fleet(2)), testing::ElementsAre(HasSubstr("one and the same run")));
  EXPECT_THAT(notes(fleet(2, "power-of-two")), testing::ElementsAre(HasSubstr("router draws only")));
}

TEST(Comparison, OfAFleetWithItselfFindsNoDifference) {
  const TrafficSource traffic = TrafficSource::open("", profile()).value();
  const FleetUnderTest f = fleet(2);
  for (const int n : {1, 2}) {
    const FleetComparison same =
        compare(f, f, traffic, {.scale = 0.2, .replications = n, .threads = 2}, "a.yaml", "a.yaml").value();
    for (const report::ComparisonRow& row : same.comparison.rows) {
      EXPECT_EQ(row.difference, 0) << row.name;
      EXPECT_EQ(row.verdict, Verdict::kEqual) << row.name;
    }
    for (const report::PairedRequests& p : same.comparison.requests) EXPECT_EQ(p.b_lower + p.b_higher, 0) << p.name;
    EXPECT_THAT(same.comparison.words.front(), HasSubstr("No deciding figure"));
  }
}

TEST(Comparison, ShowsThatMoreReplicasWaitLessAndCostMore) {
  const TrafficSource traffic = TrafficSource::open("", profile()).value();
  const FleetUnderTest small = fleet(1), large = fleet(2);
  const FleetComparison c =
      compare(small, large, traffic, {.scale = 2, .replications = 3, .threads = 2}, "a", "b").value();
  const auto verdict = [&](std::string_view name) {
    return std::ranges::find(c.comparison.rows, name, &report::ComparisonRow::name)->verdict;
  };
  EXPECT_EQ(verdict("e2e_ms.p95"), Verdict::kB);
  EXPECT_EQ(verdict("gpu_hours"), Verdict::kA);
  EXPECT_THAT(c.comparison.words, testing::Contains(HasSubstr("B is better (B - A")));
  const auto e2e = std::ranges::find(c.comparison.requests, "e2e_ms", &report::PairedRequests::name);
  EXPECT_LT(*e2e->high, 0) << "request by request too";
  EXPECT_GT(e2e->b_lower, 0.5);
}

// Worked by hand: differences 2, 4, 6; mean 4, standard error 2 / sqrt(3), t(2) = 4.303.
TEST(Comparison, PairsByPlace) {
  std::vector<report::RunMetrics> a(3), b(3);
  for (std::size_t i = 0; i < 3; ++i) {
    a[i].e2e_ms.p95 = 100 * static_cast<double>(i + 1);
    b[i].e2e_ms.p95 = a[i].e2e_ms.p95 + 2 * static_cast<double>(i + 1);
  }
  const auto rows = paired_rows(a, b);
  const auto row = std::ranges::find(rows, "e2e_ms.p95", &report::ComparisonRow::name);
  EXPECT_DOUBLE_EQ(row->a, 200);
  EXPECT_DOUBLE_EQ(row->b, 204);
  EXPECT_NEAR(*row->low, 4 - 4.303 * 2 / std::sqrt(3), 1e-9);
  EXPECT_EQ(row->verdict, Verdict::kNotShown) << "the interval holds 0";
}

workload::Trace trace_of(std::size_t n) {
  workload::Trace trace;
  for (std::size_t i = 0; i < n; ++i)
    trace.requests.push_back(
        {.arrival = Duration(static_cast<std::int64_t>(i) * 1'000'000), .input_tokens = 1, .output_tokens = 2});
  return trace;
}

// Requests whose end-to-end time is exponential with mean 1 s.
report::RunMetrics feed(WithinRun& within, const workload::Trace& trace, Rng& rng) {
  QuantileSketch e2e;
  for (std::uint32_t i = 0; i < trace.requests.size(); ++i) {
    const Instant arrival(trace.requests[i].arrival);
    const Instant last = arrival + from_seconds(rng.exponential(1));
    within.on_answered({.id = RequestId{i},
                        .arrival = arrival,
                        .first_scheduled = arrival,
                        .first_token = arrival,
                        .last_token = last,
                        .output_tokens = 2,
                        .end = sim::RequestRecord::End::kCompleted});
    if (trace.requests[i].arrival >= 100ms) e2e.add(to_ms(last - arrival));
  }
  report::RunMetrics run;
  run.e2e_ms = latency(e2e);
  return run;
}

TEST(WithinRun, CoversTheTruePercentilesAndSaysHow) {
  constexpr std::uint64_t kSeed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const auto& [n, by] : {std::pair{12100, "sections"}, {1100, "order statistics"}}) {
    const workload::Trace trace = trace_of(static_cast<std::size_t>(n));
    int inside = 0;
    constexpr int kRuns = 200;
    for (std::uint64_t run = 0; run < kRuns; ++run) {
      Rng rng = Rng::stream(kSeed, run, by);
      WithinRun within(trace, 0.1);
      const report::RunMetrics metrics = feed(within, trace, rng);
      const auto estimates = within.estimates(metrics);
      const auto p99 = std::ranges::find(estimates, "e2e_ms.p99", &report::Estimate::name);
      ASSERT_TRUE(p99->low);
      EXPECT_EQ(p99->by, by);
      const double truth = 1000 * std::log(100.0);
      inside += *p99->low <= truth && truth <= *p99->high;
    }
    EXPECT_GE(inside, 180) << by;  // 190 expected of 200; three standard errors are 9
    EXPECT_LE(inside, 199) << by;
  }
  WithinRun few(trace_of(120), 0.1);
  Rng rng = Rng::stream(kSeed, 0, "few");
  const workload::Trace trace = trace_of(120);
  const auto estimates = few.estimates(feed(few, trace, rng));
  EXPECT_FALSE(std::ranges::find(estimates, "e2e_ms.p99", &report::Estimate::name)->low)
      << "20 requests say nothing about a p99";
}

TEST(WarmUp, LeavesOutTheFillingOfTheFleet) {
  const TrafficSource traffic = TrafficSource::open("", profile()).value();
  const WarmUp warm_up = find_warm_up(fleet(6), traffic, {.scale = 1}).value();
  EXPECT_EQ(warm_up.method, "MSER-5");
  EXPECT_GE(warm_up.seconds, 0);
  EXPECT_LE(warm_up.seconds, 1800) << "never beyond the middle of the hour";
}

}  // namespace
}  // namespace muster::app
