#include "muster/policy/fleet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "testing/naive_prefixes.h"

namespace muster::policy {
namespace {

// One call a line and, in words, everything it caused: "7>2" request 7 goes to replica 2; "7 refused (why)".
class Script {
 public:
  explicit Script(const FleetSettings& settings) : fleet_(settings) {}

  Script& at(Duration now) {
    now_ = Instant(now);
    return *this;
  }
  Script& ready(std::uint32_t replica, std::uint32_t zone = 0) {
    return call([&](Actions& out) { fleet_.on_replica_ready(now_, ReplicaId(replica), ZoneId(zone), out); });
  }
  Script& lost(std::uint32_t replica) {
    return call([&](Actions& out) { fleet_.on_replica_lost(now_, ReplicaId(replica), out); });
  }
  Script& drain(std::uint32_t replica) {
    return call([&](Actions&) { fleet_.on_replica_draining(now_, ReplicaId(replica)); });
  }
  struct Asked {
    Duration work = 1s;
    std::int32_t rank = 0;
    std::optional<std::uint32_t> zone = {};
    bool again = false;
    Blocks blocks = {};
  };
  Script& arrive(std::uint32_t id) { return arrive(id, Asked()); }
  Script& arrive(std::uint32_t id, const Asked& asked) {
    RequestInfo info{.id = RequestId(id), .request_class = 0, .rank = asked.rank, .work = asked.work, .zone = {}};
    if (asked.zone) info.zone = ZoneId(*asked.zone);
    info.prefix_blocks = blocks_[id] = asked.blocks;
    return call([&](Actions& out) { fleet_.on_arrival(now_, info, asked.again, out); });
  }
  Script& finish(std::uint32_t id, std::uint32_t replica) {
    return call([&](Actions& out) { fleet_.on_finished(now_, RequestId(id), ReplicaId(replica), out); });
  }
  // Whether it waited in the queue.
  Script& cancel(std::uint32_t id, bool expected) {
    return call([&](Actions& out) { EXPECT_EQ(fleet_.on_cancelled(now_, RequestId(id), out), expected); });
  }
  Script& does(const std::string& expected) {
    EXPECT_EQ(done_, expected);
    return *this;
  }
  Script& waiting(std::uint64_t expected) {
    EXPECT_EQ(fleet_.queued(), expected);
    EXPECT_FALSE(fleet_.wakeup());
    return *this;
  }

 private:
  template <class F>
  Script& call(F f) {
    Actions out;
    f(out);
    done_.clear();
    for (const Action& a : out) {
      if (!done_.empty()) done_ += ", ";
      done_ += a.kind == Action::Kind::kDispatch ? fmt::format("{}>{}", a.request.value, a.replica.value)
                                                 : fmt::format("{} refused ({})", a.request.value, a.reason);
    }
    fleet_.check();
    return *this;
  }

  Fleet fleet_;
  Instant now_{};
  std::string done_;
  std::map<std::uint32_t, Blocks> blocks_;  // by request
};

TEST(Fleet, RoundRobinGoesAroundAndSkipsTheFullOnes) {
  Script s({.routing = Routing::kRoundRobin, .ready_queue_max = 1, .running_max = 1});
  s.at(0s).ready(0).does("").ready(1).does("").ready(2).does("");
  s.at(1s).arrive(0).does("0>0").arrive(1).does("1>1").arrive(2).does("2>2").arrive(3).does("3>0");
  s.at(2s).finish(1, 1).does("").finish(2, 2).does("");
  s.at(3s).arrive(4).does("4>1").arrive(5).does("5>2").arrive(6).does("6>1").arrive(7).does("7>2");
  s.at(4s).arrive(8).does("").waiting(1);
}

TEST(Fleet, LeastWorkCountsSecondsNotRequests) {
  Script s({.routing = Routing::kLeastWork});
  s.at(0s).ready(0).ready(1);
  s.arrive(0, {.work = 10s}).does("0>0");
  s.arrive(1, {.work = 2s}).does("1>1").arrive(2, {.work = 2s}).does("2>1").arrive(3, {.work = 2s}).does("3>1");
  s.at(1s).finish(0, 0).does("").arrive(4, {.work = 1s}).does("4>0");
  s.at(2s).finish(1, 1).finish(2, 1).finish(3, 1).arrive(5).does("5>1");
}

TEST(Fleet, ADrainingReplicaFinishesWhatItHoldsAndIsSentNothing) {
  Script s({.routing = Routing::kLeastWork, .ready_queue_max = 0, .running_max = 2});
  s.at(0s).ready(0).ready(1);
  s.arrive(0).does("0>0").arrive(1).does("1>1").drain(0);
  s.arrive(2).does("2>1").arrive(3).does("").waiting(1);
  s.at(1s).finish(0, 0).does("").waiting(1).finish(1, 1).does("3>1");
  // Back before it is empty: it still holds what it held.
  s.at(2s).arrive(4).does("").drain(1).ready(0).does("4>0").ready(1).does("").finish(2, 1).finish(3, 1);
  s.arrive(5).does("5>1").drain(1).lost(1).arrive(6).does("6>0");
}

TEST(Fleet, LeastWorkPrefersTheLowerIndexAmongEquals) {
  Script s({.routing = Routing::kLeastWork});
  s.at(0s).ready(2).ready(1).arrive(0).does("0>1").arrive(1).does("1>2").arrive(2).does("2>1");
}

// Two choices out of two are both: the router must then always take the one with less work.
TEST(Fleet, PowerOfTwoTakesTheLighterOfTheTwo) {
  Script s({.routing = Routing::kPowerOfTwo});
  s.at(0s).ready(0).ready(5).arrive(0, {.work = 100s}).does("0>0");
  for (std::uint32_t id = 1; id < 20; ++id) s.arrive(id).does(fmt::format("{}>5", id));
}

TEST(Fleet, LeastRequestsCountsRequestsNotSeconds) {
  Script s({.routing = Routing::kLeastRequests});
  s.at(0s).ready(3).ready(1).ready(2);
  s.arrive(0, {.work = 1s}).does("0>1").arrive(1, {.work = 90s}).does("1>2").arrive(2, {.work = 5s}).does("2>3");
  s.arrive(3).does("3>1").arrive(4).does("4>2").finish(1, 2).finish(4, 2).arrive(5).does("5>2").arrive(6).does("6>2");
  s.arrive(7).does("7>3");
}

TEST(Fleet, RandomTakesEachWithRoomEquallyOften) {
  Fleet fleet({.routing = Routing::kRandom, .ready_queue_max = 0, .running_max = 1'000'000, .seed = 5});
  Actions out;
  for (std::uint32_t r = 0; r < 10; ++r)
    if (r != 4) fleet.on_replica_ready(Instant(), ReplicaId(r), ZoneId(0), out);
  for (std::uint32_t id = 0; id < 90'000; ++id)
    fleet.on_arrival(Instant(), {.id = RequestId(id), .work = 1s}, false, out);
  std::map<std::uint32_t, int> count;
  for (const Action& a : out) ++count[a.replica.value];
  EXPECT_EQ(count.size(), 9U);
  for (const auto& [replica, n] : count) EXPECT_NEAR(n, 10'000, 5 * 95) << replica;  // 5 standard deviations
}

TEST(Fleet, ACancelledRequestLeavesTheQueueWithoutAnAnswer) {
  Script s({.ready_queue_max = 0, .running_max = 1, .queue_max = 3});
  s.at(0s).ready(0).arrive(0).does("0>0").arrive(1).arrive(2).arrive(3).waiting(3);
  s.arrive(4).does("4 refused (the queue is full)");
  s.cancel(1, true).does("").waiting(2).arrive(5).does("").waiting(3);  // its place in the queue is free again
  s.cancel(1, false).cancel(4, false).cancel(99, false).waiting(3);
  s.cancel(0, false).does("").waiting(3);  // a replica holds it: that one must end it
  s.at(1s).finish(0, 0).does("2>0").cancel(2, false).cancel(5, true).finish(2, 0).does("3>0").finish(3, 0).does("");
  s.arrive(1).does("1>0").waiting(0);
}

TEST(Fleet, ACancelledRequestThatComesBackIsServedOnceByItsNewRank) {
  Script s({.ready_queue_max = 0, .running_max = 1});
  s.at(0s).ready(0).arrive(0).arrive(1, {.rank = 0}).arrive(2, {.rank = 1}).cancel(1, true).arrive(1, {.rank = 2});
  s.waiting(2).finish(0, 0).does("2>0").finish(2, 0).does("1>0").finish(1, 0).does("").waiting(0);
}

// Void places must not pile up, nor be served, when far more is cancelled than served.
TEST(Fleet, ManyCancellationsLeaveTheOthersInOrder) {
  Script s({.ready_queue_max = 0, .running_max = 1});
  s.at(0s).ready(0).arrive(0);
  for (std::uint32_t id = 1; id <= 1000; ++id) s.arrive(id);
  for (std::uint32_t id = 1; id <= 1000; ++id)
    if (id % 100 != 0) s.cancel(id, true);
  s.waiting(10);
  std::uint32_t running = 0;
  for (std::uint32_t id = 100; id <= 1000; id += 100) {
    s.finish(running, 0).does(fmt::format("{}>0", id));
    running = id;
  }
  s.waiting(0);
}

TEST(Fleet, LaggingMetricsShowTheLoadOfTheLastSample) {
  Script s({.routing = Routing::kLeastRequests, .metrics_lag = 10s});
  s.at(1s).ready(0).ready(1).arrive(0).does("0>0").arrive(1).does("1>0").arrive(2).does("2>0");
  s.at(10s).arrive(3).does("3>1").arrive(4).does("4>1");  // sampled at 10 s: 3 and 0
  s.at(19s).finish(0, 0).finish(1, 0).finish(2, 0).arrive(5).does("5>1");
  s.ready(2).arrive(6).does("6>1").lost(1).arrive(7).does("7>2");  // new since: looks empty
  s.at(20s).arrive(8).does("8>0");                                 // sampled at 20 s: 0, lost and 1
  s.at(99s).arrive(9).does("9>0").arrive(10).does("10>0");         // sampled at 90 s: 1, lost and 1
}

TEST(Fleet, RoomIsExactHoweverStaleTheMetrics) {
  Script s({.routing = Routing::kLeastWork, .ready_queue_max = 0, .running_max = 2, .metrics_lag = 1000s});
  s.at(0s).ready(0).ready(1).arrive(0).does("0>0").arrive(1).does("1>0").arrive(2).does("2>1").arrive(3).does("3>1");
  s.arrive(4).does("").waiting(1).at(1s).finish(2, 1).does("4>1");
}

// The reason for power-of-two with scraped metrics (Mitzenmacher 2000): whoever takes the best of all sends everything
// since the last sample to one replica, two random choices do not.
TEST(Fleet, StaleMetricsMakeAHerdOfLeastRequestsButNotOfTwoChoices) {
  const auto most = [](Routing routing, Duration lag) {
    Fleet fleet({.routing = routing, .ready_queue_max = 0, .running_max = 10'000, .metrics_lag = lag});
    Actions out;
    for (std::uint32_t r = 0; r < 32; ++r) fleet.on_replica_ready(Instant(), ReplicaId(r), ZoneId(0), out);
    std::map<std::uint32_t, int> held;
    int result = 0;
    for (std::uint32_t id = 0; id < 3200; ++id) {  // 320 between two samples
      out.clear();
      fleet.on_arrival(Instant(id * 1ms), {.id = RequestId(id), .work = 1s}, false, out);
      result = std::max(result, ++held[out.at(0).replica.value]);
    }
    return result;
  };
  EXPECT_EQ(most(Routing::kLeastRequests, 0s), 100);
  EXPECT_GE(most(Routing::kLeastRequests, 320ms), 320);
  EXPECT_LT(most(Routing::kPowerOfTwo, 320ms), 160);
  EXPECT_LT(most(Routing::kRandom, 320ms), 160);
}

TEST(Fleet, PrefixAffinityGoesWhereTheLongestPrefixWent) {
  Script s({.routing = Routing::kRoundRobin, .prefix_affinity = true});
  s.at(0s).ready(0).ready(1).ready(2);
  s.arrive(0, {.blocks = {1, 2}}).does("0>0").arrive(1, {.blocks = {7}}).does("1>1");
  s.arrive(2, {.blocks = {1, 2, 3, 4}}).does("2>0").arrive(3, {.blocks = {7, 2, 3}}).does("3>1");
  s.arrive(4).does("4>2").arrive(5, {.blocks = {2}}).does("5>0");  // nobody knows it: the ordinary round goes on
  s.arrive(6, {.blocks = {7, 2, 9}}).does("6>1");
}

TEST(Fleet, PrefixAffinityPrefersTheHolderWithFewestRequests) {
  // With no imbalance allowed a prefix spreads, so that several replicas know it.
  Script s(
      {.routing = Routing::kLeastRequests, .prefix_affinity = true, .imbalance_ratio = 1, .imbalance_absolute = 0});
  s.at(0s).ready(0).ready(1).ready(2).arrive(0, {.blocks = {1}}).does("0>0").arrive(1, {.blocks = {1}}).does("1>1");
  s.arrive(2).does("2>2").arrive(3).does("3>0").arrive(4).does("4>1").arrive(5).does("5>2");
  s.finish(1, 1).arrive(6, {.blocks = {1}}).does("6>1").arrive(7, {.blocks = {1}}).does("7>0");
}

// More requests than the least loaded by 2 and by half: both must be exceeded.
TEST(Fleet, PrefixAffinityGivesWayToImbalance) {
  Script s(
      {.routing = Routing::kLeastRequests, .prefix_affinity = true, .imbalance_ratio = 1.5, .imbalance_absolute = 2});
  s.at(0s).ready(0).ready(1);
  for (std::uint32_t id = 0; id < 3; ++id) s.arrive(id, {.blocks = {5}}).does(fmt::format("{}>0", id));
  s.arrive(3, {.blocks = {5}}).does("3>1");  // 3 to 0; now both know it
  s.arrive(4, {.blocks = {5, 6}}).does("4>1").arrive(5, {.blocks = {5, 6}}).does("5>1");
  for (std::uint32_t id = 6; id < 16; ++id) s.arrive(id);  // 8 each
  for (std::uint32_t id = 16; id < 21; ++id) s.arrive(id, {.blocks = {5, 6}}).does(fmt::format("{}>1", id));
  s.arrive(21, {.blocks = {5, 6}}).does("21>0");  // 13 to 8; 12 to 8 was not more than half as much again
}

TEST(Fleet, PrefixAffinityTakesTheNextBestWhenTheHolderIsFull) {
  Script s({.ready_queue_max = 0, .running_max = 2, .prefix_affinity = true});
  s.at(0s).ready(0).ready(1).arrive(0, {.blocks = {1}}).does("0>0").arrive(1, {.blocks = {1}}).does("1>0");
  s.arrive(2, {.blocks = {1}}).does("2>1").arrive(3).does("3>1").arrive(4, {.blocks = {1}}).does("").waiting(1);
  s.finish(3, 1).does("4>1");  // what waited is sent by its prefix, too, to whoever has room
}

TEST(Fleet, ALostReplicaForgetsItsPrefixes) {
  Script s({.routing = Routing::kLeastWork, .prefix_affinity = true});
  s.at(0s).ready(0).ready(1).arrive(0, {.blocks = {1}}).does("0>0").finish(0, 0).arrive(1).does("1>0");
  s.arrive(2, {.blocks = {1}}).does("2>0").lost(0).ready(0).does("");
  s.arrive(3).does("3>0").arrive(4, {.blocks = {1}}).does("4>1");
}

TEST(Fleet, APrefixIsForgottenWhenNewerOnesFillTheIndex) {
  Script s({.routing = Routing::kLeastWork, .prefix_affinity = true, .prefix_index_blocks = 2});
  s.at(0s).ready(0).ready(1).arrive(0, {.blocks = {1}}).does("0>0").finish(0, 0);
  s.arrive(1, {.blocks = {2}}).does("1>0").arrive(2, {.blocks = {1}}).does("2>0");
  s.arrive(3, {.work = 9s}).does("3>1").finish(1, 0).arrive(4, {.blocks = {3}}).does("4>0");  // in the place of 2
  s.arrive(5, {.work = 20s}).does("5>0").arrive(6, {.blocks = {2}}).does("6>1").arrive(7, {.blocks = {1}}).does("7>0");
}

TEST(Fleet, PrefixAffinityStaysInTheZoneWithEachRouting) {
  for (const Routing routing : kRoutings) {
    SCOPED_TRACE(name(routing));
    Script s({.routing = routing,
              .zone_affinity = ZoneAffinity::kPrefer,
              .ready_queue_max = 0,
              .running_max = 2,
              .prefix_affinity = true});
    s.at(0s).ready(0, 0).ready(1, 1).arrive(0, {.zone = 0, .blocks = {1, 2}}).does("0>0");
    s.arrive(1, {.zone = 1, .blocks = {1, 2}}).does("1>1");  // its zone before its prefix
    s.arrive(2, {.zone = 1}).does("2>1").arrive(3, {.zone = 1, .blocks = {1}}).does("3>0").waiting(0);
    s.arrive(4, {.zone = 1, .blocks = {1}}).waiting(1).finish(0, 0).does("4>0");
  }
}

TEST(Fleet, WithoutPrefixAffinityTheBlocksAreNotRead) {
  Fleet fleet({.routing = Routing::kRoundRobin});
  Actions out;
  for (std::uint32_t r = 0; r < 2; ++r) fleet.on_replica_ready(Instant(), ReplicaId(r), ZoneId(0), out);
  const Blocks blocks = {1};
  for (std::uint32_t id = 0; id < 2; ++id)
    fleet.on_arrival(Instant(), {.id = RequestId(id), .prefix_blocks = blocks}, false, out);
  EXPECT_EQ(out.at(0).replica, ReplicaId(0));
  EXPECT_EQ(out.at(1).replica, ReplicaId(1));
}

TEST(Fleet, WhatNoReplicaHasRoomForWaitsAndGoesByRankThenId) {
  Script s({.ready_queue_max = 0, .running_max = 1});
  s.at(0s).arrive(0).does("").waiting(1);  // nobody is ready yet: it waits, it is not refused
  s.at(1s).ready(0).does("0>0").waiting(0);
  s.arrive(1, {.rank = 10}).arrive(2, {.rank = 0}).arrive(3, {.rank = 10}).arrive(4, {.rank = 0}).waiting(4);
  s.at(2s).finish(0, 0).does("2>0").finish(2, 0).does("4>0").finish(4, 0).does("1>0").finish(1, 0).does("3>0");
  s.waiting(0);
}

TEST(Fleet, LateBindingHoldsBackWhatIsBeyondTheReadyQueue) {
  Script s({.ready_queue_max = 2, .running_max = 3});
  s.at(0s).ready(0);
  for (std::uint32_t id = 0; id < 5; ++id) s.arrive(id).does(fmt::format("{}>0", id));
  s.arrive(5).does("").waiting(1);
  s.at(1s).ready(1).does("5>1");
}

TEST(Fleet, AFullQueueRefusesNewcomersButNeverTheReturning) {
  Script s({.ready_queue_max = 0, .running_max = 1, .queue_max = 1});
  s.at(0s).ready(0).arrive(0).does("0>0").arrive(1).does("").arrive(2).does("2 refused (the queue is full)");
  s.at(1s).lost(0).does("").arrive(0, {.again = true}).does("").waiting(2);
  s.at(2s).arrive(3).does("3 refused (the queue is full)");
  s.at(3s).ready(7).does("0>7").waiting(1);  // the returning one kept its place before 1
  s.at(4s).finish(0, 7).does("1>7").finish(1, 7).does("").arrive(4).does("4>7");
}

TEST(Fleet, QueueMaxOfZeroNeverWaits) {
  Script s({.ready_queue_max = 0, .running_max = 1, .queue_max = 0});
  s.at(0s).arrive(0).does("0 refused (the queue is full)").ready(0).arrive(1).does("1>0");
  s.arrive(2).does("2 refused (the queue is full)");
}

TEST(Fleet, ALostReplicaGetsNothingAndComesBackEmpty) {
  Script s({.routing = Routing::kLeastWork});
  s.at(0s).ready(0).ready(1).arrive(0, {.work = 9s}).does("0>0").arrive(1, {.work = 5s}).does("1>1");
  s.at(1s).lost(0).arrive(0, {.work = 9s, .again = true}).does("0>1").arrive(2).does("2>1");
  s.at(2s).ready(0).does("").arrive(3, {.work = 1s}).does("3>0").arrive(4, {.work = 20s}).does("4>0");
  s.at(3s).finish(0, 1).finish(1, 1).finish(2, 1).arrive(5).does("5>1");
}

TEST(Fleet, ZoneAffinityPrefersItsOwnZoneWhileThereIsRoom) {
  for (const Routing routing : kRoutings) {
    SCOPED_TRACE(name(routing));
    Script s({.routing = routing, .zone_affinity = ZoneAffinity::kPrefer, .ready_queue_max = 0, .running_max = 2});
    s.at(0s).ready(0, 0).ready(1, 1);
    s.arrive(0, {.work = 50s, .zone = 1}).does("0>1").arrive(1, {.zone = 1}).does("1>1");
    s.arrive(2, {.zone = 1}).does("2>0");                     // its own zone is full
    s.at(1s).finish(1, 1).arrive(3, {.zone = 9}).waiting(0);  // a zone without replicas: any will do
    s.at(2s).arrive(4, {.zone = 0}).arrive(5, {.zone = 0}).waiting(1);
    s.at(3s).finish(0, 1).does("5>1");  // nobody waits for its zone while there is room elsewhere
  }
}

TEST(Fleet, EachZoneHasItsOwnRound) {
  Script s({.routing = Routing::kRoundRobin, .zone_affinity = ZoneAffinity::kPrefer});
  s.at(0s).ready(0, 0).ready(1, 1).ready(2, 0).ready(3, 1);
  s.arrive(0, {.zone = 0}).does("0>0").arrive(1, {.zone = 1}).does("1>1");
  s.arrive(2, {.zone = 0}).does("2>2").arrive(3, {.zone = 1}).does("3>3").arrive(4, {.zone = 0}).does("4>0");
}

TEST(Fleet, RoutingNamesReadBack) {
  for (const Routing routing : kRoutings) EXPECT_EQ(parse_routing(name(routing)), routing);
  EXPECT_EQ(parse_routing("random"), Routing::kRandom);
  EXPECT_EQ(parse_routing("least-requests"), Routing::kLeastRequests);
  EXPECT_FALSE(parse_routing("fastest"));
  EXPECT_FALSE(parse_routing(""));
}

using FleetDeathTest = testing::Test;
TEST(FleetDeathTest, TheDriversMistakesStopTheProgram) {
  Script s({});
  s.at(5s).ready(0).arrive(0);
  EXPECT_DEATH(s.ready(0), "replica 0 is ready already");
  EXPECT_DEATH(s.arrive(0), "request 0 arrived while a replica still holds it");
  Script waits({});
  waits.arrive(7);
  EXPECT_DEATH(waits.arrive(7), "request 7 arrived while it waits already");
  EXPECT_DEATH(Script({.metrics_lag = -1s}), "metrics_lag must not be negative");
  EXPECT_DEATH(Script({.imbalance_ratio = 0.5}), "imbalance_ratio must be at least 1");
  EXPECT_DEATH(s.finish(1, 0), "request 1 is not held by replica 0");
  EXPECT_DEATH(s.lost(3), "replica 3 is not ready");
  EXPECT_DEATH(s.at(4s).arrive(2), "time went back");
}

// The same rules written the slow and obvious way: lists searched from end to end.
class NaiveFleet {
 public:
  explicit NaiveFleet(const FleetSettings& settings)
      : settings_(settings),
        random_rng_(Rng::stream(settings.seed, 0, "random router")),
        rng_(Rng::stream(settings.seed, 0, "two-choice router")),
        prefixes_(settings.prefix_index_blocks, 9) {}

  struct Replica {
    bool ready = false;
    ZoneId zone;
    std::map<RequestId, Duration> held;
    std::map<RequestId, Duration> sampled = {};  // `held` at the last sample
  };

  // Before each call.
  void at(Instant now) {
    if (settings_.metrics_lag == 0s || now.time_since_epoch() / settings_.metrics_lag == period_) return;
    period_ = now.time_since_epoch() / settings_.metrics_lag;
    for (auto& [id, r] : replicas_) r.sampled = r.held;
  }
  bool cancel(RequestId request) {
    return std::erase_if(queue_, [&](const RequestInfo& waiting) { return waiting.id == request; }) == 1;
  }
  void ready(ReplicaId id, ZoneId zone) {
    replicas_[id] = {true, zone, {}};
    serve();
  }
  std::vector<RequestId> lost(ReplicaId id) {
    std::vector<RequestId> held;
    for (const auto& [request, work] : replicas_[id].held) held.push_back(request);
    replicas_[id] = {false, replicas_[id].zone, {}};
    prefixes_.forget(id.value);
    return held;
  }
  void arrive(const RequestInfo& request, bool again) {
    if (!again && candidates({}).empty() && queue_.size() >= settings_.queue_max) {
      answers.push_back(fmt::format("{} refused", request.id.value));
      return;
    }
    queue_.push_back(request);
    serve();
  }
  void finish(RequestId request, ReplicaId id) {
    replicas_[id].held.erase(request);
    serve();
  }

  std::vector<std::string> answers;
  std::size_t queued() const { return queue_.size(); }
  const std::map<ReplicaId, Replica>& replicas() const { return replicas_; }

 private:
  std::vector<ReplicaId> candidates(std::optional<ZoneId> zone) const {
    std::vector<ReplicaId> open;
    for (const auto& [id, r] : replicas_)
      if (r.ready && r.held.size() < settings_.running_max + settings_.ready_queue_max && (!zone || r.zone == *zone))
        open.push_back(id);
    return open;
  }

  void serve() {
    while (!queue_.empty() && !candidates({}).empty()) {
      auto best = queue_.begin();
      for (auto it = queue_.begin(); it != queue_.end(); ++it)
        if (std::pair(it->rank, it->id) < std::pair(best->rank, best->id)) best = it;
      const RequestInfo request = *best;
      queue_.erase(best);
      std::optional<ZoneId> zone = request.zone;
      if (settings_.zone_affinity == ZoneAffinity::kIgnore || (zone && candidates(zone).empty())) zone.reset();
      const Blocks blocks(request.prefix_blocks.begin(), request.prefix_blocks.end());
      const auto holder = settings_.prefix_affinity ? by_prefix(candidates(zone), blocks) : std::nullopt;
      const ReplicaId chosen = holder ? *holder : choose(candidates(zone), zone ? static_cast<int>(zone->value) : -1);
      prefixes_.note(chosen.value, blocks);
      replicas_[chosen].held[request.id] = request.work;
      answers.push_back(fmt::format("{}>{}", request.id.value, chosen.value));
    }
  }

  std::optional<ReplicaId> by_prefix(const std::vector<ReplicaId>& open, const Blocks& blocks) {
    const auto requests = [&](ReplicaId id) {
      return (settings_.metrics_lag == 0s ? replicas_[id].held : replicas_[id].sampled).size();
    };
    std::optional<ReplicaId> best;
    std::size_t least = requests(open.front());
    for (const ReplicaId id : open) {
      least = std::min(least, requests(id));
      const std::size_t depth = prefixes_.depth(id.value, blocks);
      if (depth == 0) continue;
      const std::size_t known = best ? prefixes_.depth(best->value, blocks) : 0;
      if (depth > known || (depth == known && requests(id) < requests(*best))) best = id;
    }
    if (best && requests(*best) > least + settings_.imbalance_absolute &&
        static_cast<double>(requests(*best)) > settings_.imbalance_ratio * static_cast<double>(least))
      best.reset();
    return best;
  }

  ReplicaId choose(const std::vector<ReplicaId>& open, int round) {
    const auto load = [&](ReplicaId id) {
      const auto& requests = settings_.metrics_lag == 0s ? replicas_[id].held : replicas_[id].sampled;
      if (settings_.routing == Routing::kLeastRequests) return static_cast<std::int64_t>(requests.size());
      std::int64_t sum = 0;
      for (const auto& [request, work] : requests) sum += work.count();
      return sum;
    };
    const auto lighter = [&](ReplicaId a, ReplicaId b) { return std::pair(load(a), a) < std::pair(load(b), b); };
    if (settings_.routing == Routing::kLeastWork || settings_.routing == Routing::kLeastRequests)
      return *std::min_element(open.begin(), open.end(), lighter);
    if (settings_.routing == Routing::kRandom) return open[random_rng_.below(open.size())];
    if (settings_.routing == Routing::kRoundRobin) {
      for (const ReplicaId id : open)
        if (last_.count(round) == 0 || id.value > last_[round]) {
          last_[round] = id.value;
          return id;
        }
      last_[round] = open.front().value;
      return open.front();
    }
    if (open.size() == 1) return open.front();
    const std::size_t i = rng_.below(open.size());
    std::size_t j = rng_.below(open.size() - 1);
    if (j >= i) ++j;
    return std::min(open[i], open[j], lighter);
  }

  FleetSettings settings_;
  Rng random_rng_, rng_;
  NaivePrefixes prefixes_;
  std::int64_t period_ = 0;
  std::map<ReplicaId, Replica> replicas_;
  std::vector<RequestInfo> queue_;
  std::map<int, std::uint32_t> last_;  // by zone; -1: all zones
};

// Random traffic, failures and settings into both; every answer must be the same, and the promises of the header must
// hold.
class RandomTraffic {
 public:
  explicit RandomTraffic(std::uint64_t seed)
      : rng_(Rng::stream(seed, 0, "fleet traffic")),
        settings_(random_settings(seed)),
        fleet_(settings_),
        naive_(settings_) {}

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      now_ += Duration(rng_.below(1000));
      naive_.at(now_);
      one_call();
      ASSERT_EQ(answers_, naive_.answers) << "call " << i;
      ASSERT_EQ(fleet_.queued(), naive_.queued());
      fleet_.check();
    }
    // Liveness: with a ready replica and nothing new, everything admitted is answered in the end.
    if (holders_.empty() && fleet_.queued() == 0) return;
    if (none_ready()) make_ready(ReplicaId(0));
    while (!holders_.empty()) finish_one(0);
    EXPECT_EQ(fleet_.queued(), 0U);
    EXPECT_EQ(answers_, naive_.answers);
    for (const auto& [id, asked] : asked_) EXPECT_EQ(asked, answered_[id]) << "request " << id;
  }

 private:
  FleetSettings random_settings(std::uint64_t seed) {
    return {.routing = kRoutings[rng_.below(kRoutings.size())],
            .zone_affinity = static_cast<ZoneAffinity>(rng_.below(2)),
            .ready_queue_max = static_cast<std::uint32_t>(rng_.below(3)),
            .running_max = static_cast<std::uint32_t>(1 + rng_.below(4)),
            .queue_max = rng_.below(20),
            .seed = seed,
            .metrics_lag = Duration(rng_.below(2) * rng_.below(5000)),
            .prefix_affinity = rng_.below(2) == 0,
            .imbalance_ratio = 1 + rng_.uniform(),
            .imbalance_absolute = static_cast<std::uint32_t>(rng_.below(4)),
            .prefix_index_blocks = static_cast<std::uint32_t>(rng_.below(12))};
  }

  void one_call() {
    const auto replica = ReplicaId(static_cast<std::uint32_t>(rng_.below(9)));
    const std::uint64_t kind = rng_.below(100);
    if (kind < 5) {
      if (!is_ready(replica)) make_ready(replica);
    } else if (kind < 7) {
      if (is_ready(replica)) lose(replica);
    } else if (kind < 55) {
      arrive(next_id_++, false);
    } else if (kind < 62) {
      if (next_id_ > 0) cancel(static_cast<std::uint32_t>(next_id_ - 1 - rng_.below(std::min(next_id_, 30U))));
    } else if (!holders_.empty()) {
      finish_one(rng_.below(holders_.size()));
    }
  }

  bool is_ready(ReplicaId id) const {
    const auto found = naive_.replicas().find(id);
    return found != naive_.replicas().end() && found->second.ready;
  }
  bool none_ready() const {
    for (const auto& [id, r] : naive_.replicas())
      if (r.ready) return false;
    return true;
  }
  void make_ready(ReplicaId id) {
    const ZoneId zone(id.value % 3);
    naive_.ready(id, zone);
    actions_.clear();
    fleet_.on_replica_ready(now_, id, zone, actions_);
    note();
  }
  void lose(ReplicaId id) {
    actions_.clear();
    fleet_.on_replica_lost(now_, id, actions_);
    note();
    std::erase_if(holders_, [&](const auto& holder) { return holder.second == id; });
    for (const RequestId request : naive_.lost(id)) arrive(request.value, true);
  }
  void arrive(std::uint32_t id, bool again) {
    RequestInfo info{.id = RequestId(id),
                     .request_class = 0,
                     .rank = static_cast<std::int32_t>(rng_.below(3)),
                     .work = Duration(rng_.below(50)),
                     .zone = {}};
    if (rng_.below(2) == 0) info.zone = ZoneId(static_cast<std::uint32_t>(rng_.below(4)));
    Blocks& blocks = blocks_[id];
    if (blocks.empty()) blocks.resize(rng_.below(5));
    for (std::uint64_t& block : blocks) block = rng_.below(3);
    info.prefix_blocks = blocks;
    ++asked_[id];
    naive_.arrive(info, again);
    actions_.clear();
    fleet_.on_arrival(now_, info, again, actions_);
    note();
  }
  // The client may come back with the same id, and another rank.
  void cancel(std::uint32_t id) {
    actions_.clear();
    const bool waited = fleet_.on_cancelled(now_, RequestId(id), actions_);
    EXPECT_EQ(waited, naive_.cancel(RequestId(id)));
    EXPECT_TRUE(actions_.empty());
    if (!waited) return;
    --asked_[id];
    if (rng_.below(2) == 0) arrive(id, false);
  }
  void finish_one(std::size_t index) {
    const auto [request, replica] = holders_[index];
    holders_.erase(holders_.begin() + static_cast<std::ptrdiff_t>(index));
    naive_.finish(request, replica);
    actions_.clear();
    fleet_.on_finished(now_, request, replica, actions_);
    note();
  }
  void note() {
    for (const Action& a : actions_) {
      ++answered_[a.request.value];
      if (a.kind == Action::Kind::kRefuse) {
        answers_.push_back(fmt::format("{} refused", a.request.value));
        continue;
      }
      answers_.push_back(fmt::format("{}>{}", a.request.value, a.replica.value));
      holders_.emplace_back(a.request, a.replica);
    }
  }

  Rng rng_;
  FleetSettings settings_;
  Fleet fleet_;
  NaiveFleet naive_;
  Instant now_{};
  std::uint32_t next_id_ = 0;
  Actions actions_;
  std::vector<std::string> answers_;
  std::vector<std::pair<RequestId, ReplicaId>> holders_;
  std::map<std::uint32_t, Blocks> blocks_;         // by request: of its prompt
  std::map<std::uint32_t, int> asked_, answered_;  // by request: how often handed in, how often answered
};

TEST(Fleet, DecidesAsTheNaiveReferenceWhateverTheTraffic) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraffic(seed).run(400);
    if (testing::Test::HasFailure()) return;
  }
}

// With equal work and no departures, the routers must stay within what theory allows: round robin and least work
// differ by at most one; two choices by far less than one random choice (log log n against log n / log log n).
TEST(Fleet, RoutersSpreadEqualWork) {
  const auto most = [](Routing routing) {
    Fleet fleet({.routing = routing, .ready_queue_max = 0, .running_max = 1000, .seed = 3});
    Actions out;
    for (std::uint32_t r = 0; r < 256; ++r) fleet.on_replica_ready(Instant(), ReplicaId(r), ZoneId(0), out);
    for (std::uint32_t id = 0; id < 256; ++id)
      fleet.on_arrival(Instant(), {.id = RequestId(id), .work = 1s, .zone = {}}, false, out);
    std::map<std::uint32_t, int> count;
    for (const Action& a : out) ++count[a.replica.value];
    int result = 0;
    for (const auto& [replica, n] : count) result = std::max(result, n);
    return result;
  };
  EXPECT_EQ(most(Routing::kRoundRobin), 1);
  EXPECT_EQ(most(Routing::kLeastWork), 1);
  EXPECT_EQ(most(Routing::kLeastRequests), 1);
  EXPECT_LE(most(Routing::kPowerOfTwo), 3);
  EXPECT_GT(most(Routing::kRandom), 3);
}

}  // namespace
}  // namespace muster::policy
