#include "muster/policy/scaling_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numbers>

#include "muster/core/rng.h"
#include "muster/policy/autoscaler.h"

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

// A pool as a fluid: work (requests) flows in at a given rate, each replica does at most kCapacity of it a second, what
// is over waits first in, first out. Ticks of one second; nothing random but the traffic, by its seed.
constexpr double kCapacity = 10;           // requests per second of a replica
constexpr double kWaitTargetS = 2;         // an arrival is served well when it waits no longer
constexpr std::int64_t kColdStartS = 120;  // until a new replica serves
constexpr std::int64_t kDrainS = 30;       // a replica that leaves holds its GPU for so long

using Traffic = std::function<double(std::int64_t second)>;  // requests per second

struct Outcome {
  double attainment = 0;  // share of the arrivals that were served within kWaitTargetS
  double gpu_hours = 0;
  int decisions = 0;
  int reversals = 0;                            // decisions against the direction of the one before
  std::int64_t shortest_up_down_s = 1'000'000;  // between a step up and the next one down
  std::int64_t slowest_reaction_s = 0;  // from the wait's crossing of the target to help decided, at most the horizon
  double headroom = 0;                  // mean spare share of the serving replicas in the second half
};

class FluidPool {
 public:
  FluidPool(ScalingRule& rule, const Traffic& traffic, std::uint32_t replicas)
      : rule_(rule), traffic_(traffic), serving_(replicas) {}

  Outcome run(std::int64_t seconds) {
    double spare = 0;
    for (second_ = 0; second_ < seconds; ++second_) {
      std::erase_if(pending_, [&](Instant ready_at) { return ready_at <= now() && ++serving_ > 0; });
      std::erase_if(draining_, [&](std::int64_t until) { return until <= second_; });
      flow();
      if (second_ * 2 >= seconds && serving_ > 0) spare += 1 - arrivals_.back() / (kCapacity * serving_);
      outcome_.gpu_hours += static_cast<double>(serving_ + pending_.size() + draining_.size()) / 3600;
      if (!rule_.wakeup() || *rule_.wakeup() <= now()) decide();
      judge_reaction();
    }
    outcome_.attainment = served_well_ / arrived_;
    outcome_.headroom = spare / static_cast<double>(seconds - seconds / 2);
    return outcome_;
  }

 private:
  struct Cohort {
    std::int64_t arrived = 0;
    double requests = 0;
  };
  Instant now() const { return Instant(Duration(1s) * second_); }
  static void push(std::deque<double>& window, double value) {  // the last ten seconds
    window.push_back(value);
    if (window.size() > 10) window.pop_front();
  }
  static double mean(const std::deque<double>& window) {
    double sum = 0;
    for (const double value : window) sum += value;
    return sum / static_cast<double>(window.size());
  }

  void flow() {
    queue_.push_back({second_, traffic_(second_)});
    arrived_ += queue_.back().requests;
    push(arrivals_, queue_.back().requests);
    double left = kCapacity * serving_;
    double wait = 0;
    while (!queue_.empty() && left > 0) {
      const double part = std::min(left, queue_.front().requests);
      wait = std::max(wait, static_cast<double>(second_ - queue_.front().arrived));
      if (static_cast<double>(second_ - queue_.front().arrived) <= kWaitTargetS) served_well_ += part;
      left -= part;
      queue_.front().requests -= part;
      if (queue_.front().requests <= 1e-9) queue_.pop_front();
    }
    push(completions_, kCapacity * serving_ - left);
    if (!queue_.empty()) wait = std::max(wait, static_cast<double>(second_ - queue_.front().arrived));
    push(waits_, wait);
  }

  PoolMetrics sample() const {
    double waiting = 0;
    for (const Cohort& cohort : queue_) waiting += cohort.requests;
    const double load = serving_ == 0 ? 0 : mean(completions_) / (kCapacity * serving_);
    return PoolMetrics{.sampled_at = now(),
                       .queue_wait_p95 = from_seconds(*std::ranges::max_element(waits_)),
                       .tpot_p95 = from_seconds(0.02 * (1 + 0.45 * load * load)),
                       .gpu_utilisation = std::min(1.0, 0.1 + 0.9 * load),
                       .arrivals_per_s = mean(arrivals_),
                       .completions_per_s = mean(completions_),
                       .waiting_work = waiting,
                       .waiting = static_cast<std::uint64_t>(waiting),
                       .running = static_cast<std::uint64_t>(completions_.back() * 5),
                       .serving = serving_,
                       .pending = pending_};
  }

  void decide() {
    const PoolMetrics metrics = sample();
    const auto decision = rule_.on_metrics(now(), metrics);
    if (!decision) return;
    const bool is_up = decision->to > decision->from;
    if (++outcome_.decisions > 1 && is_up != last_was_up_) ++outcome_.reversals;
    if (!is_up && last_was_up_) {
      outcome_.shortest_up_down_s = std::min(outcome_.shortest_up_down_s, second_ - last_decision_);
    }
    last_was_up_ = is_up;
    last_decision_ = second_;
    for (std::uint32_t total = decision->from; total < decision->to; ++total) {
      pending_.push_back(now() + Duration(1s) * kColdStartS);
    }
    for (std::uint32_t total = decision->from; total > decision->to; --total) {
      if (!pending_.empty()) {
        pending_.pop_back();
      } else {
        --serving_;
        draining_.push_back(second_ + kDrainS);
      }
    }
  }

  // From the second in which the wait crosses its target until replicas that will help are on their way.
  void judge_reaction() {
    if (waits_.back() <= kWaitTargetS) {
      crossed_.reset();
      return;
    }
    if (!crossed_) crossed_ = second_;
    const double coming = kCapacity * static_cast<double>(serving_ + pending_.size());
    if (coming < mean(arrivals_)) {
      outcome_.slowest_reaction_s = std::max(outcome_.slowest_reaction_s, second_ - *crossed_);
    }
  }

  ScalingRule& rule_;
  const Traffic& traffic_;
  std::uint32_t serving_;
  std::vector<Instant> pending_;
  std::vector<std::int64_t> draining_;  // until when
  std::deque<Cohort> queue_;
  std::deque<double> arrivals_, completions_, waits_;
  std::int64_t second_ = 0, last_decision_ = 0;
  std::optional<std::int64_t> crossed_;
  double arrived_ = 0, served_well_ = 0;
  bool last_was_up_ = false;
  Outcome outcome_;
};

struct TrafficCase {
  std::string name;
  std::int64_t seconds;
  Traffic traffic;
};

std::vector<TrafficCase> traffic_cases() {
  const auto noise = [rng = std::make_shared<Rng>(Rng::stream(3, 0, "traffic"))](double share) {
    return std::max(0.0, 1 + share * rng->normal());
  };
  return {
      {"constant", 4 * 3600, [](std::int64_t) { return 100.0; }},
      {"noise", 4 * 3600, [noise](std::int64_t) { return 100 * noise(0.2); }},
      {"square", 8 * 3600, [](std::int64_t t) { return t / 1800 % 2 == 0 ? 60.0 : 120.0; }},
      {"saw-tooth", 8 * 3600, [](std::int64_t t) { return 40 + 100 * static_cast<double>(t % 2400) / 2400; }},
      {"diurnal", 24 * 3600,
       [noise](std::int64_t t) {
         const double phase = 2 * std::numbers::pi * static_cast<double>(t) / 86400;
         return (90 - 60 * std::cos(phase)) * noise(0.1);
       }},
      {"spike", 4 * 3600, [](std::int64_t t) { return t >= 7200 && t < 7800 ? 250.0 : 65.0; }},
  };
}

std::unique_ptr<ScalingRule> make_rule(std::string_view name) {
  const ScaleLimits limits{.min_replicas = 2, .max_replicas = 40};
  if (name == "HPA, queue length") return std::make_unique<HpaRule>(HpaSettings{.limits = limits});
  if (name == "HPA, in flight") {  // 50 run on a replica at its capacity
    return std::make_unique<HpaRule>(
        HpaSettings{.metric = HpaSettings::Metric::kInFlight, .target = 32.5, .limits = limits});
  }
  if (name == "KEDA") return std::make_unique<KedaRule>(KedaSettings{.limits = limits});
  if (name == "HPA, utilisation") {
    return std::make_unique<HpaRule>(
        HpaSettings{.metric = HpaSettings::Metric::kUtilisation, .target = 0.7, .limits = limits});
  }
  AutoscalerSettings settings;
  settings.limits = limits;
  settings.cold_start = Duration(1s) * kColdStartS;
  if (name == "muster") settings.capacity_per_replica = kCapacity;
  return std::make_unique<Autoscaler>(settings);  // "muster, learning": nobody tells it the capacity
}

Outcome run(std::string_view rule_name, const TrafficCase& traffic) {
  const std::unique_ptr<ScalingRule> rule = make_rule(rule_name);
  const auto replicas = static_cast<std::uint32_t>(std::ceil(traffic.traffic(0) / (kCapacity * 0.65)));
  return FluidPool(*rule, traffic.traffic, replicas).run(traffic.seconds);
}

TEST(Comparison, MusterAgainstHpaKedaAndUtilisation) {
  constexpr std::array kRules = {"muster", "muster, learning", "HPA, queue length",
                                 "KEDA",   "HPA, in flight",   "HPA, utilisation"};
  fmt::print("{:<11}{:<19}{:>9}{:>10}{:>10}{:>10}{:>13}{:>10}\n", "traffic", "rule", "SLO %", "GPU hours", "decisions",
             "reversals", "reaction s", "headroom");
  for (std::size_t i = 0; i < traffic_cases().size(); ++i) {
    std::vector<Outcome> outcomes;
    for (const char* rule : kRules) {
      const TrafficCase traffic = traffic_cases()[i];  // afresh: each rule sees the same noise
      const Outcome o = outcomes.emplace_back(run(rule, traffic));
      fmt::print("{:<11}{:<19}{:>9.2f}{:>10.1f}{:>10}{:>10}{:>13}{:>9.0f}%\n", traffic.name, rule, 100 * o.attainment,
                 o.gpu_hours, o.decisions, o.reversals, o.slowest_reaction_s, 100 * o.headroom);
    }
    SCOPED_TRACE(traffic_cases()[i].name);
    const Outcome& muster = outcomes[0];
    EXPECT_LE(muster.slowest_reaction_s, 10);
    EXPECT_GE(muster.shortest_up_down_s, 300);
    EXPECT_GE(muster.headroom, 0.25);  // 30-40 % +- 5
    EXPECT_LE(muster.headroom, 0.45);
    for (std::size_t other = 2; other < outcomes.size(); ++other) {
      // Within a point of whatever any other rule attains: on square waves the rule on requests in flight keeps more
      // replicas (+ 16 % GPU hours) and so meets each edge with more.
      EXPECT_GE(muster.attainment, outcomes[other].attainment - 0.01) << kRules[other];
      EXPECT_LE(muster.gpu_hours, 1.1 * outcomes[other].gpu_hours) << kRules[other];
    }
  }
}

// serving.md complaint 28: a request that finds no replica waits through the load and is served.
TEST(FluidPool, NightsAtZeroCostTheFirstRequestsTheColdStartOnly) {
  const Traffic traffic = [](std::int64_t t) { return t % 43200 < 21600 ? 0.0 : 60.0; };
  AutoscalerSettings settings;
  settings.limits = {.min_replicas = 2, .max_replicas = 40};
  settings.capacity_per_replica = kCapacity;
  settings.idle_to_zero = 600s;
  Autoscaler rule(settings);
  const Outcome o = FluidPool(rule, traffic, 2).run(86400);
  EXPECT_GT(o.attainment, 0.97);      // 2 * (120 s + the backlog) of 12 h
  EXPECT_LT(o.gpu_hours, 13 * 10.5);  // the days, and the windows that end them
}

}  // namespace
}  // namespace muster::policy
