// Losses and returns, told as scripts: what the log says, and what becomes of the requests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/sim/simulation.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::LinearTimer;
using testing_support::request;
using testing_support::scenario;
using testing_support::trace;

std::vector<std::string> log_of(const Outcome& o) {
  std::vector<std::string> lines;
  for (const FleetEvent& e : o.log)
    lines.push_back(fmt::format("{:g} {}: {}", to_seconds(e.at.time_since_epoch()), e.kind, e.text));
  return lines;
}

workload::Trace steady(int requests, Duration gap, std::int32_t output_tokens) {
  std::vector<workload::Request> all;
  for (int i = 0; i < requests; ++i) all.push_back(request(gap * i, 50, output_tokens));
  return trace(all);
}

TEST(Faults, AZoneIsLostAndComesBack) {
  const LinearTimer timer(10ms);
  const auto t = steady(400, 50ms, 40);
  Scenario s = scenario(timer, t, 3, 3);
  for (std::uint32_t z = 0; z < 3; ++z) s.replicas.push_back({.zone = z, .standby = true});
  s.kind.warm_start = 500ms;
  s.kind.cold_start = 3s;
  s.kind.gpus = 8;
  s.faults = {{.kind = Fault::Kind::kZoneLoss, .at = Instant(5s), .lasts = 4s, .target = 0}};
  s.sample_interval = 1s;
  const Outcome o = run(s);
  const std::vector<std::string> lines = log_of(o);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0], "5 zone_loss: zone a is lost: 1 serving and 1 other replicas go down");
  EXPECT_EQ(lines[1], "5 promotion: standby b/1 is promoted, ready in 0.5 s");
  EXPECT_EQ(lines[2], "5 requeue: 3 requests of lost replicas go back to the queue");
  EXPECT_EQ(lines[3], "5.5 ready: replica b/1 serves; 3 of 3 serve");
  EXPECT_EQ(lines[4], "9 zone_return: zone a is back: 2 replicas start cold, 3.0 s");
  EXPECT_EQ(lines[5], "12 standby: replica a/0 is loaded and stands by; 3 of 3 serve");
  EXPECT_EQ(lines[6], "12 standby: replica a/1 is loaded and stands by; 3 of 3 serve");
  EXPECT_EQ(o.completed, 400U);
  EXPECT_EQ(o.preempted, 3U);
  EXPECT_EQ(o.samples[3].ready_replicas, 3U);
  EXPECT_EQ(o.samples[4].ready_replicas, 2U);
  EXPECT_EQ(o.samples[5].ready_replicas, 3U);
  EXPECT_EQ(o.samples[5].running[0], 0U);
  EXPECT_GT(o.samples[5].running[4], 0U);
  // Six replicas of eight GPUs, less two for the four seconds that the zone was away.
  EXPECT_NEAR(o.gpu_seconds, 8 * (6 * to_seconds(o.duration) - 2 * 4), 1e-6);
}

TEST(Faults, AResumedRequestKeepsItsFirstTokenAndGoesOnWithItsNext) {
  LinearTimer timer(10ms);
  timer.per_prefill_token = 100us;
  const auto t = trace({request(0ms, 50, 100)});
  Scenario s = scenario(timer, t, 1, 2);
  s.replicas.push_back({.zone = 1, .standby = true});
  s.kind.warm_start = 200ms;
  // 15 ms for the prompt and the first token, then one token every 10 ms. The loss at 118 ms comes while the 12th is
  // made.
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(118ms), .target = 0}};
  const Outcome o = run(s);
  const RequestRecord& r = o.requests_log[0];
  EXPECT_EQ(r.first_scheduled, Instant(0ms));
  EXPECT_EQ(r.first_token, Instant(15ms));
  EXPECT_EQ(r.preemptions, 1);
  EXPECT_EQ(r.replica, 1U);
  // Ready at 318 ms; the prompt is now 50 + 11 tokens (16.1 ms) and gives the 12th; 88 more to come.
  EXPECT_EQ(r.last_token, Instant(Duration(318ms) + 16100us + 88 * Duration(10ms)));
  EXPECT_EQ(o.output_tokens, 100U);
}

TEST(Faults, ALossAtTheEndOfAStepKeepsTheStepsTokens) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 50, 100), request(0ms, 50, 12)});
  Scenario s = scenario(timer, t, 1, 2);
  s.replicas.push_back({.zone = 1, .standby = true});
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(120ms), .target = 0}};
  const Outcome o = run(s);
  EXPECT_EQ(o.requests_log[1].last_token, Instant(120ms));  // its last token came in time
  EXPECT_EQ(o.requests_log[1].preemptions, 0);
  EXPECT_EQ(o.requests_log[0].last_token, Instant(1000ms));  // nothing lost but the time to recompute, here none
}

TEST(Faults, RequeuedRequestsKeepTheirPlaceBeforeLaterOnes) {
  const LinearTimer timer(10ms);
  const auto t = steady(4, 1ms, 10);
  Scenario s = scenario(timer, t, 2, 2);
  s.kind.limits.max_num_seqs = s.policy.running_max = 1;
  s.policy.ready_queue_max = 0;
  // 0 and 1 run, 2 and 3 wait; replica 0 goes, and 0 must run before 2 and 3.
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(55ms), .target = 0}};
  const Outcome o = run(s);
  EXPECT_EQ(o.requests_log[1].last_token, Instant(101ms));
  EXPECT_EQ(o.requests_log[0].last_token, Instant(151ms));  // 5 of its 10 tokens were out
  EXPECT_EQ(o.requests_log[2].first_scheduled, Instant(151ms));
  EXPECT_EQ(o.requests_log[3].first_scheduled, Instant(251ms));
}

TEST(Faults, WithTheWholeFleetGoneForGoodRequestsAreReportedNotCompleted) {
  const LinearTimer timer(10ms);
  const auto t = steady(10, 100ms, 5);
  Scenario s = scenario(timer, t, 2, 1);
  s.faults = {{.kind = Fault::Kind::kZoneLoss, .at = Instant(420ms), .target = 0}};
  s.sample_interval = 10ms;
  const Outcome o = run(s);
  EXPECT_EQ(o.requests, 10U);
  EXPECT_EQ(o.completed, 4U);
  EXPECT_EQ(o.rejected, 0U);
  EXPECT_EQ(o.requests_log[4].last_token, Instant::max());
}

// Once, the sampler ran on for ever here: users who wait for an answer send nothing, so the trace never came to its
// end.
TEST(Faults, AClosedLoopEndsWhenTheWholeFleetIsGone) {
  const LinearTimer timer(10ms);
  const auto t = steady(100, 0ms, 5);
  Scenario s = scenario(timer, t, 1, 1);
  s.clients.users = 3;
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(420ms), .target = 0}};
  s.sample_interval = 10ms;
  const Outcome o = run(s);
  EXPECT_EQ(o.requests, 27U);  // three every 50 ms, and those three that were under way
  EXPECT_EQ(o.completed, 24U);
}

TEST(Faults, AFleetThatComesBackServesAllThatWaited) {
  const LinearTimer timer(10ms);
  const auto t = steady(10, 100ms, 5);
  Scenario s = scenario(timer, t, 2, 1);
  s.kind.cold_start = 2s;
  s.faults = {{.kind = Fault::Kind::kZoneLoss, .at = Instant(420ms), .lasts = 10s, .target = 0}};
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, 10U);
  EXPECT_EQ(o.requests_log[9].first_scheduled, Instant(12420ms));
}

TEST(Faults, TwoFaultsOnOneReplicaBothHaveToEnd) {
  const LinearTimer timer(10ms);
  const auto t = steady(3, 1s, 5);
  Scenario s = scenario(timer, t, 1, 1);
  s.kind.cold_start = 1s;
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(100ms), .lasts = 2s, .target = 0},
              {.kind = Fault::Kind::kZoneLoss, .at = Instant(500ms), .lasts = 4s, .target = 0}};
  const Outcome o = run(s);
  EXPECT_EQ(o.requests_log[1].first_scheduled, Instant(5500ms));
  // Struck again while it loads: that start is void.
  s.faults[1].at = Instant(2600ms);
  EXPECT_EQ(run(s).requests_log[1].first_scheduled, Instant(7600ms));
}

TEST(Faults, ALostStandbyIsNotPromoted) {
  const LinearTimer timer(10ms);
  const auto t = steady(50, 100ms, 20);
  Scenario s = scenario(timer, t, 2, 2);
  s.replicas.push_back({.zone = 0, .standby = true});
  s.replicas.push_back({.zone = 1, .standby = true});
  s.kind.warm_start = 1s;
  // The standby of zone a goes; then the serving one of zone a; the standby of b takes over, is struck on its way, and
  // nobody is left.
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(1s), .target = 2},
              {.kind = Fault::Kind::kReplicaLoss, .at = Instant(2050ms), .target = 0},
              {.kind = Fault::Kind::kReplicaLoss, .at = Instant(2500ms), .target = 3}};
  const Outcome o = run(s);
  const std::vector<std::string> lines = log_of(o);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "1 replica_loss: replica a/1 is lost: 0 serving and 1 other replicas go down");
  EXPECT_EQ(lines[1], "2.05 replica_loss: replica a/0 is lost: 1 serving and 0 other replicas go down");
  EXPECT_EQ(lines[2], "2.05 promotion: standby b/1 is promoted, ready in 1.0 s");
  EXPECT_EQ(lines[3].substr(0, 13), "2.05 requeue:");
  EXPECT_EQ(lines[4], "2.5 replica_loss: replica b/1 is lost: 0 serving and 1 other replicas go down");
  EXPECT_EQ(o.completed, 50U);
}

TEST(Faults, TheStandbyOfTheZoneThatLostItsReplicaIsPromotedFirst) {
  const LinearTimer timer(10ms);
  const auto t = steady(50, 100ms, 20);
  Scenario s = scenario(timer, t, 3, 3);
  for (std::uint32_t z = 0; z < 3; ++z) s.replicas.push_back({.zone = z, .standby = true});
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(1s), .target = 2}};
  const Outcome o = run(s);
  EXPECT_EQ(log_of(o)[1], "1 promotion: standby c/1 is promoted, ready in 0.0 s");
  EXPECT_EQ(o.completed, 50U);
}

}  // namespace
}  // namespace muster::sim
