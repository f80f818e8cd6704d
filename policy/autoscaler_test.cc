#include "muster/policy/autoscaler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "muster/core/rng.h"

namespace muster::policy {
namespace {

// Ten requests a second a replica, of which 6.5 are used; a pool in its steady state unless the script says otherwise.
AutoscalerSettings settings() {
  AutoscalerSettings s;
  s.limits = {.min_replicas = 1, .max_replicas = 40};
  s.capacity_per_replica = 10.0;
  return s;
}

// One sample a second. Everything that a stretch caused, in words: "4s 10>12 queue wait", and the reason to hold.
class Script {
 public:
  explicit Script(const AutoscalerSettings& s) : scaler_(s) {
    metrics_.queue_wait_p95 = 0s;
    metrics_.serving = 10;
    offer(62);
  }
  PoolMetrics& metrics() { return metrics_; }
  Autoscaler& scaler() { return scaler_; }
  Script& offer(double per_s) {
    metrics_.arrivals_per_s = metrics_.completions_per_s = per_s;
    return *this;
  }
  // Decisions are carried out at once unless the script keeps the pool as it is.
  std::string run(Duration stretch, bool carry_out = true) {
    std::string told;
    for (const Instant end = now_ + stretch; now_ < end; now_ += 1s) {
      metrics_.sampled_at = now_;
      last_ = scaler_.on_metrics(now_, metrics_);
      EXPECT_EQ(*scaler_.wakeup(), now_ + 2s);
      if (!last_) continue;
      EXPECT_EQ(scaler_.hold(), Hold::kNone);
      EXPECT_NE(last_->reason, "");
      reason_ = last_->reason;
      told += fmt::format("{}{:.0f}s {}>{} {}", told.empty() ? "" : "; ", to_seconds(now_.time_since_epoch()),
                          last_->from, last_->to, name(last_->signal));
      if (carry_out) metrics_.serving = last_->to - static_cast<std::uint32_t>(metrics_.pending.size());
    }
    return told.empty() ? fmt::format("({})", name(scaler_.hold())) : told;
  }
  const std::string& reason() const { return reason_; }
  Instant now() const { return now_; }

 private:
  Autoscaler scaler_;
  PoolMetrics metrics_;
  Instant now_;
  std::optional<ScaleDecision> last_;
  std::string reason_;
};

TEST(Autoscaler, SteadyPoolIsLeftAlone) {
  Script script(settings());
  EXPECT_EQ(script.run(1000s), "(steady)");
  EXPECT_NEAR(*script.scaler().headroom(script.metrics()), 0.38, 1e-9);
}

TEST(Autoscaler, StepFollowsFromTheNeed) {
  Script script(settings());
  script.run(100s);
  script.offer(130);  // 13 replicas bare, 20 with headroom
  const std::string told = script.run(60s);
  EXPECT_EQ(told, "103s 10>11 headroom; 108s 11>19 headroom");  // thin by the slow rate, then overload by the fast one
  EXPECT_GE(*script.scaler().headroom(script.metrics()), 0.30);
  EXPECT_NE(script.reason().find("headroom"), std::string::npos) << script.reason();
}

TEST(Autoscaler, QueueWaitRanksFirstAndCountsTheBacklog) {
  Script script(settings());
  script.run(100s);
  script.offer(120);
  script.metrics().queue_wait_p95 = 3s;
  script.metrics().waiting = 600;
  script.metrics().waiting_work = 600;
  script.metrics().standby = 4;  // warm: helps in 10 s
  script.run(1s);
  EXPECT_EQ(script.reason().substr(0, 27), "queue wait 3 against 2: wor");
  EXPECT_GE(script.metrics().serving, 12u);
}

TEST(Autoscaler, DecidesWithinTenSecondsWhenOnlyTheWaitShows) {
  Script script(settings());
  script.run(100s);
  script.metrics().queue_wait_p95 = 2100ms;  // the load explains no wait: replicas are slower than believed
  script.metrics().waiting_work = 200;
  const std::string told = script.run(10s);
  EXPECT_EQ(told, "100s 10>12 queue wait") << told;
  EXPECT_NE(script.reason().find("does not explain"), std::string::npos);
}

TEST(Autoscaler, PendingReplicasAreCapacity) {
  Script script(settings());
  script.run(100s);
  script.metrics().serving = 6;
  script.metrics().pending.assign(4, script.now() + 60s);
  script.offer(62);
  script.metrics().queue_wait_p95 = 4s;
  script.metrics().waiting_work = 10;
  EXPECT_EQ(script.run(20s), "(pending replicas cover the need)");
}

TEST(Autoscaler, OverdueReplicaIsNotCountedOn) {
  Script script(settings());
  script.run(100s);
  script.metrics().serving = 8;
  script.metrics().pending.assign(2, script.now());
  EXPECT_EQ(script.run(60s), "(steady)");  // on their way, and the grace
  EXPECT_EQ(script.run(2s, false), "161s 10>12 headroom");
}

TEST(Autoscaler, TpotAgainstItsOwnBaseline) {
  Script script(settings());
  script.metrics().tpot_p95 = 20ms;
  script.offer(30);
  script.run(100s);
  EXPECT_EQ(*script.scaler().tpot_baseline(), 20ms);
  script.offer(62).metrics().tpot_p95 = 36ms;
  EXPECT_EQ(script.run(30s), "104s 10>12 TPOT");  // confirmed for 4 s; 10 * 1.8 / 1.5
}

TEST(Autoscaler, NoBaselineNoTpotStep) {
  Script script(settings());
  script.metrics().tpot_p95 = 500ms;  // never lightly loaded: nothing to compare with
  EXPECT_EQ(script.run(200s), "(steady)");
  EXPECT_FALSE(script.scaler().tpot_baseline());
}

TEST(Autoscaler, UtilisationNeverScalesUpButGuardsTheWayDown) {
  Script script(settings());
  script.metrics().gpu_utilisation = 0.99;
  EXPECT_EQ(script.run(100s), "(steady)");
  script.offer(30);
  EXPECT_EQ(script.run(600s), "(a smaller pool would miss a target)");
  script.metrics().gpu_utilisation = 0.5;
  EXPECT_EQ(script.run(30s), "713s 10>9 headroom");  // as soon as the smoothed figure allows one fewer
}

TEST(Autoscaler, DownOnlyAfterTheWindowInStepsWithCooldown) {
  Script script(settings());
  script.run(400s);
  script.offer(20);
  // The slow rate falls within 30 s; the largest need of 300 s holds until the old one left the window.
  const std::string told = script.run(1000s);
  EXPECT_EQ(told.find("s 10>"), 3u) << told;
  EXPECT_GE(std::stoi(told), 690) << told;
  EXPECT_EQ(script.metrics().serving, 4u) << told;  // 20 / 6.5
}

TEST(Autoscaler, DownNotWhereTpotWouldSuffer) {
  Script script(settings());
  script.offer(30).metrics().tpot_p95 = 20ms;
  script.metrics().gpu_utilisation = 0.3;
  script.run(100s);
  script.metrics().tpot_p95 = 29500us;  // 1.475 with ten; over 1.5 with nine
  script.metrics().waiting = 1;         // so that it does not become the baseline
  EXPECT_EQ(script.run(500s), "(a smaller pool would miss a target)");
}

TEST(Autoscaler, NothingWithoutData) {
  Script script(settings());
  script.run(100s);
  script.metrics().arrivals_per_s.reset();
  script.metrics().queue_wait_p95.reset();
  EXPECT_EQ(script.run(2000s), "(no data)");
}

TEST(Autoscaler, StaleSampleIsNoData) {
  Autoscaler scaler(settings());
  PoolMetrics metrics{.queue_wait_p95 = 60s, .arrivals_per_s = 1000.0, .serving = 1};
  EXPECT_FALSE(scaler.on_metrics(Instant(16s), metrics));
  EXPECT_EQ(scaler.hold(), Hold::kNoData);
  EXPECT_TRUE(scaler.on_metrics(Instant(16s), [&] {
    metrics.sampled_at = Instant(16s);
    return metrics;
  }()));
}

TEST(Autoscaler, MissingDataRestartsTheWindow) {
  Script script(settings());
  script.offer(20);
  script.run(290s);
  script.metrics().arrivals_per_s.reset();
  script.run(1s);
  script.offer(20);
  EXPECT_EQ(script.run(290s), "(stabilisation window)");
}

TEST(Autoscaler, LimitsAndInventory) {
  AutoscalerSettings s = settings();
  s.limits.gpus_per_replica = 8;
  Script script(s);
  script.run(100s);
  script.metrics().gpus_free = 23;
  script.offer(1000).metrics().completions_per_s = 62;
  EXPECT_EQ(script.run(1s), "100s 10>12 headroom");
  script.metrics().gpus_free = 7;  // taken by now
  EXPECT_EQ(script.run(30s), "(at the maximum or the inventory's limit)");
  script.metrics().gpus_free.reset();
  EXPECT_EQ(script.run(1s), "131s 12>40 headroom");
}

TEST(Autoscaler, LostReplicaBelowTheMinimumIsReplacedAtOnce) {
  AutoscalerSettings s = settings();
  s.limits.min_replicas = 3;
  Script script(s);
  script.metrics().serving = 2;
  script.metrics().arrivals_per_s.reset();  // no load data needed: counts are known
  EXPECT_EQ(script.run(1s), "0s 2>3 limits");
}

TEST(Autoscaler, ToZeroWhenIdleAndBackOnTheFirstRequest) {
  AutoscalerSettings s = settings();
  s.idle_to_zero = 600s;
  Script script(s);
  script.metrics().serving = 1;
  script.metrics().queue_wait_p95.reset();
  script.offer(0);
  EXPECT_EQ(script.run(600s), "(steady)");
  EXPECT_EQ(script.run(1s), "600s 1>0 idle");
  EXPECT_EQ(script.run(100s), "(steady)");
  script.metrics().waiting = 1;
  EXPECT_EQ(script.run(1s), "701s 0>1 demand");
}

TEST(Autoscaler, LoadingReplicaIsNotScaledToZero) {
  AutoscalerSettings s = settings();
  s.idle_to_zero = 60s;
  Script script(s);
  script.metrics().serving = 0;
  script.metrics().pending = {Instant(500s)};
  script.offer(0);
  EXPECT_EQ(script.run(500s), "(steady)");
}

TEST(Autoscaler, SilenceIsNotIdleness) {
  AutoscalerSettings s = settings();
  s.idle_to_zero = 60s;
  Script script(s);
  script.metrics().arrivals_per_s.reset();
  script.metrics().queue_wait_p95.reset();
  EXPECT_EQ(script.run(1000s), "(no data)");
}

TEST(Autoscaler, BatchDeadlineAsksForWhatTheHeadroomCannotDo) {
  Script script(settings());
  script.run(100s);
  // Spare for batch: 10 * 9.5 - 62 = 33 a second.
  script.metrics().batch = {{.work = 33.0 * 3000, .deadline = script.now() + 3600s}};
  EXPECT_EQ(script.run(1s), "(steady)");
  script.metrics().batch = {{.work = 80.0 * 3600, .deadline = script.now() + 3600s}};
  EXPECT_EQ(script.run(1s), "101s 10>16 batch deadline");
}

TEST(Autoscaler, CapacityIsLearnedFromSaturation) {
  AutoscalerSettings s = settings();
  s.capacity_per_replica.reset();
  Script script(s);
  script.run(60s);
  EXPECT_FALSE(script.scaler().capacity_per_replica());
  script.offer(70).metrics().arrivals_per_s = 90;
  script.metrics().queue_wait_p95 = 5s;
  script.metrics().waiting = 100;
  script.metrics().waiting_work = 100;
  script.run(60s, false);
  EXPECT_NEAR(*script.scaler().capacity_per_replica(), 7.0, 0.2);
}

// Random samples, gaps in them, losses and late starts: the promises hold at every call.
TEST(AutoscalerProperty, BoundsWindowsAndNoActionWithoutData) {
  int ups = 0, downs = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng = Rng::stream(seed, 0, "autoscaler");
    AutoscalerSettings s = settings();
    s.limits = {.min_replicas = 2, .max_replicas = 20, .gpus_per_replica = 2};
    if (rng.below(2) == 0) s.idle_to_zero = 120s;
    if (rng.below(2) == 0) s.capacity_per_replica.reset();
    Autoscaler scaler(s);
    Instant now;
    std::optional<Instant> last_up, last_down;
    std::uint32_t total = 4;
    for (int i = 0; i < 3000; ++i) {
      now += Duration(1s) * static_cast<std::int64_t>(1 + rng.below(3));
      const bool calm = (i / 400) % 2 == 1;  // long stretches, or no window would ever be full
      PoolMetrics m{.sampled_at = now};
      const double load = calm ? 5 : 300 * rng.uniform();
      if (calm || rng.below(10) > 0) m.arrivals_per_s = rng.below(20) == 0 ? 0 : load;
      if (calm || rng.below(10) > 0) m.queue_wait_p95 = calm ? 0s : from_seconds(4 * rng.uniform());
      if (rng.below(3) > 0) m.tpot_p95 = from_seconds(0.02 + (calm ? 0 : 0.04 * rng.uniform()));
      if (rng.below(3) > 0) m.gpu_utilisation = calm ? 0.2 : rng.uniform();
      if (rng.below(3) > 0) m.completions_per_s = load * rng.uniform();
      m.waiting = calm ? 0 : rng.below(50);
      m.waiting_work = static_cast<double>(m.waiting);
      if (rng.below(4) > 0) m.gpus_free = static_cast<std::uint32_t>(rng.below(12));
      const auto pending = static_cast<std::uint32_t>(calm ? 0 : rng.below(total + 1));
      m.serving = total - pending;
      m.pending.assign(pending, now + Duration(1s) * (static_cast<std::int64_t>(rng.below(200)) - 100));
      if (rng.below(20) == 0) m.batch = {{.work = 1000 * rng.uniform(), .deadline = now + 300s}};
      const auto decision = scaler.on_metrics(now, m);
      if (!decision) continue;
      ASSERT_EQ(decision->from, total);
      ASSERT_NE(decision->to, total);
      ASSERT_LE(decision->to, std::max(total, most_replicas(s.limits, m)));
      ASSERT_LE(decision->to, s.limits.max_replicas);
      if (decision->to == 0) {
        ASSERT_EQ(decision->signal, ScaleSignal::kIdle);
        ASSERT_TRUE(s.idle_to_zero && pending == 0);
      } else if (decision->to < total) {
        ASSERT_GE(decision->to, s.limits.min_replicas);
      }
      if (decision->signal != ScaleSignal::kLimits) {  // a replica lost below the minimum is replaced at once
        const bool has_data = m.arrivals_per_s || m.queue_wait_p95 || m.tpot_p95 || m.waiting > 0;
        ASSERT_TRUE(has_data) << decision->reason;
        const bool is_up = decision->to > total;
        if (is_up && last_down) ASSERT_GE(now - *last_down, s.up_stabilisation);
        if (!is_up && last_up) ASSERT_GE(now - *last_up, s.down_stabilisation);
        if (!is_up) ASSERT_TRUE(m.arrivals_per_s) << decision->reason;
      }
      ++(decision->to > total ? ups : downs);
      (decision->to > total ? last_up : last_down) = now;
      if (rng.below(8) > 0) total = decision->to;  // else it was not carried out
    }
  }
  EXPECT_GT(ups, 400);
  EXPECT_GT(downs, 100);
}

}  // namespace
}  // namespace muster::policy
