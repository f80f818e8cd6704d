// muster's own scaling rule: how many replicas a pool needs to keep its targets with headroom, and why.
//
// Up, by rank: queue wait p95 over its target; TPOT against its own baseline; less headroom than the minimum; batch
// work that would miss its deadline. How far follows from the need (work offered over capacity per replica), never from
// a ratio of gauges. Replicas on their way count as capacity. Utilisation never scales up: it only guards the way down.
// Down only when the pool would still meet every target with headroom after losing the victims, for a whole window.
// A signal without data is neither load nor idleness: it moves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/core/time.h"
#include "muster/policy/scaling_rules.h"

namespace muster::policy {

struct AutoscalerSettings {
  ScaleLimits limits = {};

  // Targets.
  Duration queue_wait_target = 2s;  // p95
  double tpot_ratio_max = 1.5;      // p95 TPOT over that of a lightly loaded pool
  double headroom = 0.35;           // spare share of the capacity that a step aims at, [0, 1)
  double headroom_min = 0.30;       // less than this: scale up; at most `headroom`
  double utilisation_max = 0.90;    // no scale-down that would lead beyond it

  // What a replica can do, work per second, at the most load that keeps the TPOT target; nullopt: learned from
  // saturation. A measured one replaces it (the plan's figure is where the learning begins).
  std::optional<double> capacity_per_replica = {};
  Duration cold_start = 120s;    // of a new replica, until it serves
  Duration warm_start = 10s;     // of a standby
  Duration drain_target = 30s;   // a backlog is sized to be gone this long after the new replicas serve
  double batch_load_max = 0.95;  // of the capacity; batch work may use the headroom, it yields

  // Damping.
  Duration interval = 2s;              // between samples; decision at the latest one after the target is crossed
  Duration fast_window = 5s;           // smoothing time of the arrival rate for outright overload
  Duration slow_window = 30s;          // and for the headroom
  Duration confirm = 4s;               // TPOT must be over its limit for so long
  Duration settle = 30s;               // after replicas changed, before their effect is judged
  Duration up_cooldown = 5s;           // between two steps up
  Duration up_stabilisation = 5s;      // no step up after one down
  Duration down_stabilisation = 300s;  // no step down after one up; the window whose largest need is followed
  Duration down_cooldown = 60s;        // between two steps down
  double down_step_max = 0.25;         // share of the pool (at least one replica) in a step down
  double blind_step = 0.25;            // share of the pool (at least one) in a step up whose need cannot be computed
  Duration stale_after = 15s;          // a sample older than this is no data
  Duration start_grace = 60s;          // a pending replica overdue by more is not counted on (crash loop, no image)
  std::optional<Duration> idle_to_zero = {};  // without work for so long: no replica at all
};

// Why the last call left the pool as it is.
enum class Hold {
  kNone,              // it decided something, or was never called
  kNoData,            // nothing known about the signal
  kSteady,            // targets met, headroom within its band
  kPendingCovers,     // short of capacity, but what is on its way will do
  kDraining,          // over the target, but the backlog falls fast enough
  kSettling,          // over the target, but the last change has not shown its effect yet
  kCooldown,          // a step now would come too soon after the last one
  kStabilising,       // could shrink, but not for a whole window yet
  kAtLimit,           // more is needed than the maximum or the inventory allows
  kWouldMissTargets,  // could shrink by load, but a target or the guard would be missed
};
std::string_view name(Hold hold);

class Autoscaler final : public ScalingRule {
 public:
  explicit Autoscaler(const AutoscalerSettings& settings);  // panics on settings outside the ranges above

  // The pool's counts in `metrics` are taken as the truth: a decision that was not carried out is taken again.
  std::optional<ScaleDecision> on_metrics(Instant now, const PoolMetrics& metrics) override;
  std::optional<Instant> wakeup() const override { return next_; }

  Hold hold() const { return hold_; }
  std::optional<double> capacity_per_replica() const { return capacity_; }  // work per second, believed now
  std::optional<Duration> tpot_baseline() const;
  std::optional<double> headroom(const PoolMetrics& metrics) const;  // of the serving replicas, now; < 0: overload

 private:
  struct Need {
    std::uint32_t replicas = 0;
    ScaleSignal signal = ScaleSignal::kHeadroom;
    double value = 0;
    double target = 0;
    std::string_view why;  // static storage
  };
  struct Pool;  // the sample as this rule sees it

  void learn(Instant now, const Pool& pool);
  void learn_rate(Instant now, const PoolMetrics& metrics);
  void learn_capacity(Instant now, Duration elapsed, const PoolMetrics& metrics);
  void learn_baseline(Duration elapsed, const PoolMetrics& metrics);

  std::optional<ScaleDecision> restore_limits(Instant now, const Pool& pool);
  std::optional<ScaleDecision> from_zero(Instant now, const Pool& pool);
  std::optional<ScaleDecision> scale_up(Instant now, const Pool& pool, const Need& need);
  std::optional<ScaleDecision> to_zero(Instant now, const Pool& pool);
  std::optional<ScaleDecision> scale_down(Instant now, const Pool& pool);

  // The highest-ranked signal that fired, with the most replicas that any of those that fired needs.
  std::optional<Need> need_up(Instant now, const Pool& pool);
  std::optional<Need> queue_need(Instant now, const Pool& pool);
  std::optional<Need> tpot_need(Instant now, const Pool& pool);
  std::optional<Need> headroom_need(const Pool& pool) const;
  std::optional<Need> batch_need(Instant now, const Pool& pool) const;
  std::uint32_t replicas_for(double work_per_s) const;  // with headroom; requires a capacity
  std::uint32_t replicas_to_keep(Instant now, const Pool& pool) const;
  Duration start_time(const Pool& pool) const;  // of the next replica
  double batch_replicas(Instant now, const Pool& pool, Duration lead, double spare_per_s) const;
  double backlog_when_helped(Instant now, const Pool& pool) const;
  double tpot_ratio(const PoolMetrics& metrics) const;  // 0: unknown
  bool survives(const Pool& pool, std::uint32_t victims) const;
  bool is_settled(Instant now) const;

  std::optional<ScaleDecision> decide(Instant now, const Pool& pool, std::uint32_t to, const Need& need);
  std::nullopt_t keep(Hold hold);

  AutoscalerSettings settings_;
  std::optional<double> capacity_;  // work per second of one replica
  std::optional<double> tpot_baseline_s_;
  std::optional<double> fast_rate_, slow_rate_;  // work offered per second, smoothed
  std::optional<double> utilisation_;            // smoothed like the slow rate; reset when it is not known
  std::optional<double> completed_per_replica_;  // work per second, smoothed while the pool did not change

  std::optional<Instant> last_now_, last_sample_;
  std::optional<Instant> next_;
  std::optional<Instant> last_up_, last_down_;
  std::optional<Instant> serving_since_;  // when the number of serving replicas last changed
  std::optional<Instant> saturated_since_;
  std::optional<Instant> degraded_since_;  // TPOT over its limit
  std::optional<Instant> idle_since_;
  std::optional<Instant> known_since_;  // the need was known without a gap
  std::optional<std::uint32_t> last_serving_;
  WindowMax needs_;
  Hold hold_ = Hold::kNone;
};

}  // namespace muster::policy
