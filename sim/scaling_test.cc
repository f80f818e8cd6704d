// Scaling rules at work on a simulated pool.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "muster/sim/simulation.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::LinearTimer;
using testing_support::request;

// One replica does 10 requests/s at 64 at once: 64 * 100 tokens in 6.4 s of steps.
LinearTimer timer() {
  LinearTimer t(Duration(5ms));
  t.per_sequence = 900us;
  t.per_prefill_token = 10us;
  return t;
}

// `low` requests/s, from 120 s to 420 s `high`, then `low` again until 900 s.
workload::Trace square(double low, double high) {
  Rng rng = Rng::stream(3, 0, "square");
  workload::Trace trace;
  double at = 0;
  while (at < 900) {
    at += rng.exponential(1 / (at >= 120 && at < 420 ? high : low));
    trace.requests.push_back(request(from_seconds(at), 100, 100));
  }
  return trace;
}

Scenario scaled(const StepTimer& step, const workload::Trace& trace, const Scaling& rule) {
  Scenario s = testing_support::scenario(step, trace, 2);
  for (int i = 2; i < 12; ++i) s.replicas.push_back({.zone = 0, .standby = false, .pool = 0, .off = true});
  s.kind.cold_start = 30s;
  s.check_invariants = false;
  s.scaling = {rule};
  s.sample_interval = 10s;
  return s;
}

policy::AutoscalerSettings settings() {
  policy::AutoscalerSettings muster;
  muster.limits = {.min_replicas = 1, .max_replicas = 12};
  muster.queue_wait_target = 500ms;
  muster.cold_start = 30s;
  muster.capacity_per_replica = 1;
  return muster;
}

std::uint32_t most_serving(const Outcome& o) {
  std::uint32_t most = 0;
  for (const Sample& sample : o.samples) most = std::max(most, sample.ready_replicas);
  return most;
}

TEST(Scaling, FollowsASquareWaveUpAndDownAndLosesNobody) {
  const LinearTimer step = timer();
  const workload::Trace trace = square(8, 40);
  const Scenario s = scaled(step, trace, settings());
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, o.requests);
  EXPECT_EQ(o.preempted, 0U);  // a scale-down drains
  const auto first_up =
      std::ranges::find_if(o.log, [](const FleetEvent& e) { return e.kind == "scale_up" && e.at >= Instant(120s); });
  ASSERT_NE(first_up, o.log.end());
  EXPECT_LE(first_up->at, Instant(130s)) << first_up->text;
  EXPECT_GE(most_serving(o), 5U);
  EXPECT_LE(most_serving(o), 9U);
  EXPECT_LT(o.samples.back().ready_replicas, most_serving(o));
  // Without scaling: two replicas would be hopeless, twelve would cost more.
  Scenario fixed = s;
  fixed.scaling.clear();
  for (ReplicaPlace& place : fixed.replicas) place.off = false;
  EXPECT_LT(o.gpu_seconds, 0.7 * run(fixed).gpu_seconds);
}

TEST(Scaling, JumpingGivesWhatSteppingGives) {
  const LinearTimer step = timer();
  const workload::Trace trace = square(8, 25);
  policy::HpaSettings hpa;
  hpa.limits.max_replicas = 12;
  policy::KedaSettings keda;
  keda.limits.max_replicas = 12;
  for (const Scaling& rule : {Scaling(settings()), Scaling(hpa), Scaling(keda)}) {
    Scenario s = scaled(step, trace, rule);
    s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(200s), .lasts = 100s, .target = 0}};
    const Outcome jumping = run(s);
    s.step_by_step = true;
    const Outcome stepping = run(s);
    EXPECT_EQ(jumping.digest, stepping.digest);
    EXPECT_EQ(jumping.gpu_seconds, stepping.gpu_seconds);
    EXPECT_EQ(jumping.completed, jumping.requests);
    EXPECT_TRUE(std::ranges::any_of(jumping.log, [](const FleetEvent& e) { return e.kind == "scale_up"; }));
  }
}

TEST(Scaling, APoolOfNoReplicasComesBackWhenSomebodyWaits) {
  const LinearTimer step = timer();
  workload::Trace trace;
  for (const Duration at : {Duration(1s), Duration(3000s)}) trace.requests.push_back(request(at, 100, 100));
  policy::AutoscalerSettings muster = settings();
  muster.idle_to_zero = 300s;
  const Outcome o = run(scaled(step, trace, muster));
  EXPECT_EQ(o.completed, 2U);
  EXPECT_GE(o.requests_log[1].first_scheduled, Instant(3030s));  // after a cold start
  EXPECT_LT(o.gpu_seconds, 2000);
}

}  // namespace
}  // namespace muster::sim
