#include "muster/policy/rollout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "muster/core/rng.h"

namespace muster::policy {
namespace {

using Kind = RolloutAction::Kind;

std::vector<ReplicaId> ids(std::uint32_t n) {
  std::vector<ReplicaId> all;
  for (std::uint32_t i = 0; i < n; ++i) all.push_back(ReplicaId{i});
  return all;
}

struct WorldSettings {
  Duration start{60s};
  Duration drain{20s};
  double start_spread = 0;     // times vary by this share either way
  double old_fails = 0;        // share of the starts that fail
  double new_fails = 0;        // for the new revision
  double losses_per_hour = 0;  // of each replica that is ready or drains
  bool does_drain_end = true;  // false: only the drain limit ends it
  std::uint64_t seed = 1;
};

// Replicas that do what the rollout says, with its own count of them: the check of every bound is not the rollout's.
// One second a step; a line for every action.
class World {
 public:
  World(const RolloutSettings& settings, const WorldSettings& world, std::uint32_t initial)
      : settings_(settings),
        world_(world),
        rollout_(settings, ids(initial)),
        random_(Rng::stream(world.seed, 0, "rollout-world")) {
    for (const ReplicaId id : ids(initial)) replicas_[id.value] = {.is_ready = true, .due = kNever};
    call([&](RolloutActions& out) { rollout_.begin(now_, out); });
  }

  template <class Call>
  void call(Call&& input) {
    RolloutActions out;
    input(out);
    for (const RolloutAction& action : out) carry_out(action);
    check_bounds();
    EXPECT_TRUE(!rollout_.wakeup() || *rollout_.wakeup() > now_);
  }

  void run(Duration stretch) {
    for (const Instant end = now_ + stretch; now_ < end && !rollout_.is_finished();) {
      now_ += 1s;
      advance();
      if (rollout_.wakeup() && *rollout_.wakeup() <= now_) {
        call([&](RolloutActions& out) { rollout_.on_timer(now_, out); });
      }
    }
  }
  void lose(std::uint32_t id) {
    is_disturbed_ = true;
    replicas_.erase(id);
    call([&](RolloutActions& out) { rollout_.on_replica_gone(now_, ReplicaId{id}, out); });
  }
  void slo(Slo verdict) {
    call([&](RolloutActions& out) { rollout_.on_slo(now_, verdict, out); });
  }
  void pause() {
    call([&](RolloutActions& out) { rollout_.pause(now_, out); });
  }
  void resume() {
    call([&](RolloutActions& out) { rollout_.resume(now_, out); });
  }
  void roll_back() {
    call([&](RolloutActions& out) { rollout_.roll_back(now_, out); });
  }
  void resize(std::uint32_t replicas) {
    settings_.replicas = replicas;
    is_disturbed_ = true;
    call([&](RolloutActions& out) { rollout_.resize(now_, replicas, out); });
  }
  void be_kind() { world_.old_fails = world_.losses_per_hour = 0; }  // the new revision stays as it is

  std::string told() { return std::exchange(told_, ""); }
  const Rollout& rollout() const { return rollout_; }
  Duration elapsed() const { return now_.time_since_epoch(); }
  std::uint32_t least() const { return least_; }  // available, ever
  std::uint32_t most() const { return most_; }    // held, ever
  std::uint32_t starts() const { return starts_; }
  bool has(std::uint32_t id) const { return replicas_.contains(id); }
  std::uint32_t ready_of(Revision revision) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        replicas_, [&](const auto& r) { return r.second.is_ready && r.second.revision == revision; }));
  }
  std::size_t size() const { return replicas_.size(); }

 private:
  static constexpr Instant kNever{Duration::max()};
  struct Replica {
    Revision revision = Revision::kOld;
    bool is_ready = false;
    bool is_draining = false;
    bool is_stopping = false;
    bool will_fail = false;
    Instant due = {};  // of what it does now
    Instant warm_at = {};
    Instant drained_since = {};
  };

  std::uint32_t available() const {
    return static_cast<std::uint32_t>(std::ranges::count_if(replicas_, [&](const auto& r) {
      return r.second.is_ready && !r.second.is_draining && !r.second.is_stopping && r.second.warm_at <= now_;
    }));
  }
  std::uint32_t floor() const { return settings_.replicas - std::min(settings_.replicas, settings_.max_unavailable); }
  Duration vary(Duration time) {
    return from_seconds(to_seconds(time) * (1 + world_.start_spread * (2 * random_.uniform() - 1)));
  }

  void carry_out(const RolloutAction& action) {
    told_ += fmt::format("{}{:.0f}s {}", told_.empty() ? "" : "; ", to_seconds(elapsed()), name(action.kind));
    if (action.kind >= Kind::kHold) return;
    EXPECT_FALSE(action.reason.empty());
    told_ += fmt::format(" {}{}", action.replica.value, action.revision == Revision::kNew ? "b" : "a");
    const std::uint32_t id = action.replica.value;
    if (action.kind == Kind::kStart) {
      EXPECT_FALSE(replicas_.contains(id));
      EXPECT_LT(replicas_.size(), settings_.replicas + settings_.max_surge) << "surge";
      const double fails = action.revision == Revision::kNew ? world_.new_fails : world_.old_fails;
      replicas_[id] = {
          .revision = action.revision, .will_fail = random_.uniform() < fails, .due = now_ + vary(world_.start)};
      ++starts_;
      return;
    }
    ASSERT_TRUE(replicas_.contains(id));
    Replica& replica = replicas_[id];
    EXPECT_EQ(replica.revision, action.revision);
    if (action.kind == Kind::kDrain) {
      EXPECT_TRUE(replica.is_ready && !replica.is_draining);
      const std::uint32_t before = available();
      replica.is_draining = true;
      EXPECT_TRUE(available() == before || available() >= floor()) << "drained below the floor";
      replica.drained_since = now_;
      replica.due = world_.does_drain_end ? now_ + vary(world_.drain) : kNever;
    } else if (action.kind == Kind::kServe) {
      EXPECT_TRUE(replica.is_draining);
      replica.is_draining = false;
      replica.due = kNever;
    } else {
      const bool is_drained = replica.is_draining && replica.due <= now_;
      const bool is_over = replica.is_draining && now_ - replica.drained_since >= settings_.drain_limit;
      EXPECT_TRUE(is_drained || is_over || !replica.is_ready) << "stopped with work on it";
      replica.is_stopping = true;
      replica.due = now_ + 2s;
    }
  }

  void advance() {
    for (std::uint32_t id = 0; id < 100; ++id) {
      if (!replicas_.contains(id)) continue;
      Replica& replica = replicas_[id];
      if ((replica.is_ready || replica.is_draining) && random_.uniform() < world_.losses_per_hour / 3600) {
        lose(id);
      } else if (replica.due > now_) {
        continue;
      } else if (replica.is_stopping || (!replica.is_ready && replica.will_fail)) {
        replicas_.erase(id);
        call([&](RolloutActions& out) { rollout_.on_replica_gone(now_, ReplicaId{id}, out); });
      } else if (replica.is_draining) {
        call([&](RolloutActions& out) { rollout_.on_replica_drained(now_, ReplicaId{id}, out); });
      } else if (!replica.is_ready) {
        replica.is_ready = true;
        replica.due = kNever;
        replica.warm_at = now_ + settings_.warm_up;
        call([&](RolloutActions& out) { rollout_.on_replica_ready(now_, ReplicaId{id}, out); });
      }
    }
  }

  void check_bounds() {
    const std::uint32_t here = available();
    EXPECT_EQ(here, rollout_.available(now_));
    EXPECT_EQ(replicas_.size(), rollout_.held_replicas());
    if (!is_disturbed_) {
      EXPECT_GE(here, floor());
      EXPECT_LE(replicas_.size(), settings_.replicas + settings_.max_surge);
    }
    least_ = std::min(least_, here);
    most_ = std::max(most_, static_cast<std::uint32_t>(replicas_.size()));
  }

  RolloutSettings settings_;
  WorldSettings world_;
  Rollout rollout_;
  Rng random_;
  std::map<std::uint32_t, Replica> replicas_;
  Instant now_;
  std::string told_;
  bool is_disturbed_ = false;  // lost a replica or was resized: the floor may be missed without the rollout's doing
  std::uint32_t least_ = std::numeric_limits<std::uint32_t>::max(), most_ = 0, starts_ = 0;
};

RolloutSettings surge(std::uint32_t replicas, std::uint32_t more, std::uint32_t fewer) {
  return {.replicas = replicas, .max_surge = more, .max_unavailable = fewer};
}

// Start 60 s, warm-up 30 s, drain 20 s, 2 s to stop.
TEST(Rollout, SurgeStartsWarmsThenDrains) {
  World world(surge(2, 1, 0), {}, 2);
  world.run(1h);
  EXPECT_EQ(world.told(),
            "0s start 2b; 90s drain 0a; 110s stop 0a; 112s start 0b; "
            "202s drain 1a; 222s stop 1a; 224s done");
  EXPECT_EQ(world.least(), 2u);
  EXPECT_EQ(world.most(), 3u);
}

TEST(Rollout, WithoutSurgeDrainsFirst) {
  World world(surge(2, 0, 1), {}, 2);
  world.run(1h);
  EXPECT_EQ(world.told(),
            "0s drain 0a; 20s stop 0a; 22s start 0b; 112s drain 1a; 132s stop 1a; 134s start 1b; 224s done");
  EXPECT_EQ(world.least(), 1u);
  EXPECT_EQ(world.most(), 2u);
}

TEST(Rollout, DrainEndsAtItsLimit) {
  RolloutSettings settings = surge(1, 1, 0);
  settings.drain_limit = 45s;
  World world(settings, {.does_drain_end = false}, 1);
  world.run(1h);
  EXPECT_EQ(world.told(), "0s start 1b; 90s drain 0a; 135s stop 0a; 137s done");
}

TEST(Rollout, MissedSloHoldsAtOnceAndGoesOnAfterAWhile) {
  World world(surge(3, 1, 0), {}, 3);
  world.run(50s);
  world.slo(Slo::kMissed);  // before the new revision served: not its doing, never a roll back
  world.run(400s);
  EXPECT_EQ(world.told(), "0s start 3b; 50s hold");
  EXPECT_TRUE(world.rollout().is_held());
  world.slo(Slo::kMet);
  world.run(29s);
  EXPECT_EQ(world.told(), "");
  world.run(1s);
  EXPECT_EQ(world.told(), "480s go on; 480s drain 0a");
}

TEST(Rollout, MissSinceTheNewRevisionServesRollsBack) {
  World world(surge(3, 1, 0), {}, 3);
  world.slo(Slo::kMet);
  world.run(95s);
  EXPECT_EQ(world.told(), "0s start 3b; 90s drain 0a");
  world.slo(Slo::kMissed);
  world.run(10s);
  EXPECT_EQ(world.told(), "95s hold");
  world.run(1h);
  // None may be missing: the old one comes first, and the new one goes when it is warm.
  EXPECT_EQ(world.told(), "110s stop 0a; 215s roll back; 215s start 0a; 305s drain 3b; 325s stop 3b; 327s rolled back");
  EXPECT_EQ(world.ready_of(Revision::kOld), 3u);
}

TEST(Rollout, NoDataIsNoProof) {
  World world(surge(2, 1, 0), {}, 2);
  world.slo(Slo::kNoData);
  world.run(1h);
  EXPECT_EQ(world.told(), "0s start 2b; 0s hold");  // neither goes on nor back
  EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kRolling);
}

TEST(Rollout, RollBackTakesBackWhatDrains) {
  World world(surge(2, 1, 0), {}, 2);
  world.run(95s);
  world.told();
  world.roll_back();
  EXPECT_EQ(world.told(), "95s roll back; 95s serve 0a; 95s drain 2b");
  world.run(1h);
  EXPECT_EQ(world.told(), "115s stop 2b; 117s rolled back");
  EXPECT_EQ(world.least(), 2u);
}

TEST(Rollout, NewRevisionThatDoesNotStartRollsBack) {
  World world(surge(3, 1, 0), {.new_fails = 1}, 3);
  world.run(1h);
  EXPECT_EQ(world.told(), "0s start 3b; 70s start 3b; 150s start 3b; 210s roll back; 210s rolled back");
  EXPECT_EQ(world.least(), 3u);
}

TEST(Rollout, StartThatHangsIsStopped) {
  RolloutSettings settings = surge(2, 1, 0);
  settings.start_limit = 50s;  // less than a start takes
  World world(settings, {}, 2);
  world.run(1h);
  EXPECT_EQ(world.told().substr(0, 43), "0s start 2b; 50s stop 2b; 60s start 2b; 110");
  EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kRolledBack);
}

TEST(Rollout, LostReplicaIsMadeUpFor) {
  World world(surge(3, 1, 0), {}, 3);
  world.run(10s);
  world.lose(1);
  EXPECT_EQ(world.told(), "0s start 3b; 10s start 1b");
  world.run(1h);
  EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kDone);
  EXPECT_EQ(world.ready_of(Revision::kNew), 3u);
}

TEST(Rollout, PausedOnlyMakesUpForLossesWithTheOldRevision) {
  World world(surge(3, 1, 0), {}, 3);
  world.run(10s);
  world.pause();
  world.run(200s);
  EXPECT_EQ(world.told(), "0s start 3b; 10s hold");
  world.lose(3);
  world.lose(0);
  EXPECT_EQ(world.told(), "210s start 0a");
  world.run(200s);
  world.resume();
  world.run(1h);
  EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kDone);
}

TEST(Rollout, ResizeMovesTheBounds) {
  World world(surge(4, 1, 0), {}, 4);
  world.run(10s);
  world.resize(2);
  EXPECT_EQ(world.told(), "0s start 4b; 10s drain 0a; 10s drain 1a");
  world.resize(5);
  world.run(1h);
  EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kDone);
  EXPECT_EQ(world.ready_of(Revision::kNew), 5u);
}

TEST(Rollout, LateAnswersChangeNothing) {
  Rollout rollout(surge(1, 1, 0), ids(1));
  RolloutActions out;
  rollout.begin(Instant(0s), out);
  out.clear();
  rollout.on_replica_drained(Instant(1s), ReplicaId{0}, out);  // does not drain
  rollout.on_replica_gone(Instant(2s), ReplicaId{7}, out);     // is not held
  rollout.on_replica_ready(Instant(3s), ReplicaId{0}, out);    // is ready
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(rollout.available(Instant(3s)), 1u);
}

TEST(Rollout, SettingsThatCannotWorkAreRefused) {
  EXPECT_TRUE(check(surge(3, 1, 0)).has_value());
  EXPECT_NE(check(surge(3, 0, 0)).error().message.find("both 0"), std::string::npos);
  EXPECT_FALSE(check(surge(0, 1, 0)).has_value());
  EXPECT_EQ(least_available(surge(3, 1, 1)), 2u);
  EXPECT_EQ(least_available(surge(2, 0, 5)), 0u);
}

// The estimate is what a roll takes, but for the seconds that stopping takes and, where both bounds are used, for the
// two groups of replicas not moving in step: at most one wave.
TEST(RolloutProperty, DurationIsAsExpected) {
  for (std::uint32_t replicas = 1; replicas <= 12; ++replicas) {
    for (std::uint32_t more = 0; more <= 3; ++more) {
      for (std::uint32_t fewer = more == 0 ? 1 : 0; fewer <= 2 && fewer <= replicas; ++fewer) {
        SCOPED_TRACE(fmt::format("{} replicas, surge {}, unavailable {}", replicas, more, fewer));
        const RolloutSettings settings = surge(replicas, more, fewer);
        World world(settings, {}, replicas);
        world.run(10h);
        EXPECT_EQ(world.rollout().phase(), Rollout::Phase::kDone);
        EXPECT_EQ(world.starts(), replicas);  // none is replaced twice
        EXPECT_GE(world.least(), least_available(settings));
        const double stops = 2.0 * replicas;
        EXPECT_NEAR(to_seconds(world.elapsed()), to_seconds(expected_duration(settings, 60s, 20s)), stops + 110);
      }
    }
  }
}

// Safety: random times, failures, losses, verdicts, pauses, roll backs, sizes; the world checks every bound at every
// call. Liveness: once the faults stop and the SLO is met, it ends, with replicas of one revision and no other.
TEST(RolloutProperty, BoundsHoldAndItEnds) {
  std::uint32_t done = 0, rolled_back = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng random = Rng::stream(seed, 0, "rollout-test");
    RolloutSettings settings =
        surge(1 + static_cast<std::uint32_t>(random.below(10)), static_cast<std::uint32_t>(random.below(4)), 0);
    settings.max_unavailable = static_cast<std::uint32_t>(random.below(settings.replicas + 1));
    if (settings.max_surge + settings.max_unavailable == 0) settings.max_surge = 1;
    settings.warm_up = from_seconds(static_cast<double>(random.below(60)));
    settings.drain_limit = from_seconds(static_cast<double>(5 + random.below(100)));
    settings.start_limit = 75s;
    const bool is_calm = random.below(3) == 0;  // no fault at all: then the floor is never missed, even for an instant
    World world(settings,
                {.start_spread = 0.3,
                 .old_fails = is_calm ? 0 : 0.3 * random.uniform(),
                 .new_fails = random.below(4) == 0 ? 1 : 0.4 * random.uniform(),
                 .losses_per_hour = is_calm ? 0 : 4 * random.uniform(),
                 .does_drain_end = random.below(4) > 0,
                 .seed = seed},
                settings.replicas);
    std::uint32_t wanted = settings.replicas;
    for (int i = 0; i < 40 && !world.rollout().is_finished(); ++i) {
      world.run(from_seconds(static_cast<double>(random.below(60))));
      const std::uint64_t what = random.below(12);
      if (what < 6) world.slo(what < 4 ? Slo::kMet : what == 4 ? Slo::kMissed : Slo::kNoData);
      if (what == 6) world.pause();
      if (what == 7) world.resume();
      if (what == 8 && random.below(10) == 0) world.roll_back();
      if (what == 9 && !is_calm) world.resize(wanted = 1 + static_cast<std::uint32_t>(random.below(10)));
    }
    if (!world.rollout().is_finished()) {
      world.be_kind();
      world.resume();
      world.slo(Slo::kMet);
      world.run(24h);
    } else {
      continue;
    }
    const bool is_done = world.rollout().phase() == Rollout::Phase::kDone;
    (is_done ? done : rolled_back) += 1;
    ASSERT_TRUE(world.rollout().is_finished()) << world.told();
    EXPECT_EQ(world.ready_of(is_done ? Revision::kNew : Revision::kOld), wanted);
    EXPECT_EQ(world.size(), wanted);
    EXPECT_FALSE(world.rollout().wakeup());
  }
  EXPECT_GT(done, 20u);
  EXPECT_GT(rolled_back, 20u);
}

}  // namespace
}  // namespace muster::policy
