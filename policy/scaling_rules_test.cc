#include "muster/policy/scaling_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/core/rng.h"

namespace muster::policy {
namespace {

PoolMetrics pool(Duration now, std::uint32_t serving, std::uint64_t waiting) {
  return PoolMetrics{.sampled_at = Instant(now), .arrivals_per_s = 1.0, .waiting = waiting, .serving = serving};
}

// The pool that a rule would lead to at once; the rule's own periods are driven by `at`.
std::uint32_t after(ScalingRule& rule, Duration at, const PoolMetrics& metrics) {
  const auto decision = rule.on_metrics(Instant(at), metrics);
  if (!decision) return metrics.total();
  EXPECT_EQ(decision->from, metrics.total());
  EXPECT_FALSE(decision->reason.empty());
  return decision->to;
}

TEST(WindowMax, EqualsTheLargestOfAListThatIsSearched) {
  SCOPED_TRACE("seed 5");
  Rng rng = Rng::stream(5, 0, "window");
  WindowMax window;
  std::vector<std::pair<Instant, std::uint32_t>> all;
  Instant now;
  for (int i = 0; i < 2000; ++i) {
    now += Duration(1s) * static_cast<std::int64_t>(rng.below(20));
    all.emplace_back(now, static_cast<std::uint32_t>(rng.below(100)));
    window.note(now, 60s, all.back().second);
    std::uint32_t largest = 0;
    for (const auto& [at, value] : all) largest = at >= now - 60s ? std::max(largest, value) : largest;
    ASSERT_EQ(window.max(), largest);
  }
}

TEST(Limits, InventoryAddsToWhatThePoolHasAndItsStandbys) {
  const ScaleLimits limits{.min_replicas = 1, .max_replicas = 10, .gpus_per_replica = 4};
  PoolMetrics metrics = pool(0s, 3, 0);
  EXPECT_EQ(most_replicas(limits, metrics), 10u);
  metrics.gpus_free = 7;
  metrics.standby = 1;
  EXPECT_EQ(most_replicas(limits, metrics), 5u);  // 3 + 1 standby + one of four GPUs; three GPUs do not make one
}

TEST(Hpa, RatioOfValueAndTargetWithTolerance) {
  HpaRule rule({.target = 10, .limits = {.max_replicas = 50}});
  EXPECT_EQ(after(rule, 0s, pool(0s, 10, 109)), 10u);    // 10.9 a replica: within 10 %
  EXPECT_EQ(after(rule, 15s, pool(15s, 10, 121)), 13u);  // ceil(10 * 12.1 / 10)
}

TEST(Hpa, UpAtMostToTheDoubleOrFourMore) {
  HpaRule rule({.target = 1, .limits = {.max_replicas = 50}});
  EXPECT_EQ(after(rule, 0s, pool(0s, 2, 1000)), 6u);
  EXPECT_EQ(after(rule, 15s, pool(15s, 10, 1000)), 20u);
  EXPECT_EQ(after(rule, 30s, pool(30s, 40, 1000)), 50u);  // the maximum
}

TEST(Hpa, ReplicasOnTheirWayCountWithZero) {
  HpaRule rule({.target = 10, .limits = {.max_replicas = 50}});
  PoolMetrics metrics = pool(0s, 5, 100);  // 20 a replica: 10 wanted
  metrics.pending.assign(5, Instant(60s));
  EXPECT_EQ(after(rule, 0s, metrics), 10u);
  metrics.waiting = 140;
  EXPECT_EQ(after(rule, 15s, metrics), 14u);
}

TEST(Hpa, DownFollowsTheLargestProposalOfTheWindow) {
  HpaRule rule({.target = 10, .limits = {.max_replicas = 50}});
  EXPECT_EQ(after(rule, 0s, pool(0s, 10, 80)), 8u);  // the first proposal is all that is known, as in Kubernetes
  EXPECT_EQ(after(rule, 15s, pool(15s, 8, 20)), 8u);
  EXPECT_EQ(after(rule, 300s, pool(300s, 8, 20)), 8u);
  EXPECT_EQ(after(rule, 316s, pool(316s, 8, 0)), 2u);  // the 8 has left the window, the 2 of 15 s has not
}

TEST(Hpa, ActsAtItsPeriodAndNotWithoutAMetric) {
  HpaRule rule({.metric = HpaSettings::Metric::kUtilisation, .target = 0.5, .limits = {.max_replicas = 50}});
  PoolMetrics metrics = pool(0s, 4, 0);
  EXPECT_FALSE(rule.wakeup());
  EXPECT_EQ(after(rule, 0s, metrics), 4u);
  metrics.gpu_utilisation = 1.0;
  EXPECT_EQ(after(rule, 14s, metrics), 4u);
  EXPECT_EQ(*rule.wakeup(), Instant(15s));
  EXPECT_EQ(after(rule, 15s, metrics), 8u);
}

TEST(Keda, WaitingOverTargetBetweenOneAndTheMaximum) {
  KedaRule rule({.target = 5, .limits = {.max_replicas = 12}});
  EXPECT_EQ(after(rule, 0s, pool(0s, 2, 27)), 6u);
  EXPECT_EQ(after(rule, 15s, pool(15s, 6, 31)), 6u);  // 31 / 30: within the tolerance
  EXPECT_EQ(after(rule, 30s, pool(30s, 6, 500)), 12u);
}

TEST(Keda, ToZeroAfterTheCooldownAndBackOnTheFirstRequest) {
  KedaRule rule({.target = 5, .to_zero = true, .limits = {.max_replicas = 12}});
  EXPECT_EQ(after(rule, 0s, pool(0s, 1, 1)), 1u);
  EXPECT_EQ(after(rule, 345s, pool(345s, 1, 0)), 1u);
  EXPECT_EQ(after(rule, 360s, pool(360s, 1, 0)), 0u);
  EXPECT_EQ(after(rule, 375s, pool(375s, 0, 0)), 0u);
  EXPECT_EQ(after(rule, 390s, pool(390s, 0, 1)), 1u);
}

TEST(Keda, NoActionWhenTheTriggerHasNoData) {
  KedaRule rule({.limits = {.max_replicas = 12}});
  PoolMetrics metrics = pool(0s, 5, 400);
  metrics.arrivals_per_s.reset();
  EXPECT_EQ(after(rule, 0s, metrics), 5u);
}

}  // namespace
}  // namespace muster::policy
