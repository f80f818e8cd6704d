#include "muster/policy/autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"

namespace muster::policy {
namespace {

std::uint32_t ceil_count(double replicas) {
  return static_cast<std::uint32_t>(std::clamp(std::ceil(replicas - 1e-9), 0.0, 1e9));
}

std::uint32_t share(std::uint32_t replicas, double part) {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(static_cast<double>(replicas) * part));
}

// First-order low pass with time constant `window`; the first value is taken as it is.
void smooth(std::optional<double>& state, double value, Duration elapsed, Duration window) {
  if (!state || window <= Duration(0)) {
    state = value;
    return;
  }
  *state += (value - *state) * (1 - std::exp(-to_seconds(elapsed) / to_seconds(window)));
}

bool within(Instant now, const std::optional<Instant>& since, Duration window) {
  return since && now - *since < window;
}

}  // namespace

std::string_view name(Hold hold) {
  switch (hold) {
    case Hold::kNone:
      return "none";
    case Hold::kNoData:
      return "no data";
    case Hold::kSteady:
      return "steady";
    case Hold::kPendingCovers:
      return "pending replicas cover the need";
    case Hold::kDraining:
      return "the backlog drains";
    case Hold::kSettling:
      return "the last change settles";
    case Hold::kCooldown:
      return "cool-down";
    case Hold::kStabilising:
      return "stabilisation window";
    case Hold::kAtLimit:
      return "at the maximum or the inventory's limit";
    case Hold::kWouldMissTargets:
      return "a smaller pool would miss a target";
  }
  return "?";
}

struct Autoscaler::Pool {
  const PoolMetrics& metrics;
  std::uint32_t total = 0;    // serving + pending
  std::uint32_t overdue = 0;  // pending ones that are not counted on
  std::uint32_t most = 0;
  bool is_idle = false;  // known to have no work at all
  std::uint32_t counted() const { return total - overdue; }
  bool has_pending() const { return metrics.pending.size() > overdue; }
};

Autoscaler::Autoscaler(const AutoscalerSettings& settings)
    : settings_(settings), capacity_(settings.capacity_per_replica) {
  const AutoscalerSettings& s = settings_;
  MUSTER_CHECK(s.limits.min_replicas >= 1 && s.limits.min_replicas <= s.limits.max_replicas, "replicas {}..{}",
               s.limits.min_replicas, s.limits.max_replicas);
  MUSTER_CHECK(s.headroom >= 0 && s.headroom < 1 && s.headroom_min <= s.headroom, "headroom {} (at least {})",
               s.headroom, s.headroom_min);
  MUSTER_CHECK(!capacity_ || *capacity_ > 0, "capacity {}", *capacity_);
  MUSTER_CHECK(s.tpot_ratio_max > 1 && s.batch_load_max > 0 && s.queue_wait_target > Duration(0),
               "TPOT ratio {}, batch load {}", s.tpot_ratio_max, s.batch_load_max);
}

std::optional<Duration> Autoscaler::tpot_baseline() const {
  if (!tpot_baseline_s_) return std::nullopt;
  return from_seconds(*tpot_baseline_s_);
}

std::optional<double> Autoscaler::headroom(const PoolMetrics& metrics) const {
  if (!capacity_ || !slow_rate_ || metrics.serving == 0) return std::nullopt;
  return 1 - *slow_rate_ / (*capacity_ * metrics.serving);
}

std::nullopt_t Autoscaler::keep(Hold hold) {
  hold_ = hold;
  return std::nullopt;
}

std::optional<ScaleDecision> Autoscaler::on_metrics(Instant now, const PoolMetrics& metrics) {
  MUSTER_CHECK(!last_now_ || now >= *last_now_, "time went back");
  last_now_ = now;
  next_ = now + settings_.interval;
  if (now - metrics.sampled_at > settings_.stale_after) {
    known_since_.reset();
    idle_since_.reset();
    return keep(Hold::kNoData);
  }
  Pool pool{.metrics = metrics, .total = metrics.total(), .most = most_replicas(settings_.limits, metrics)};
  pool.overdue = static_cast<std::uint32_t>(
      std::ranges::count_if(metrics.pending, [&](Instant ready_at) { return ready_at + settings_.start_grace < now; }));
  pool.is_idle = metrics.arrivals_per_s && *metrics.arrivals_per_s <= 0 && metrics.waiting == 0 &&
                 metrics.running == 0 && metrics.batch.empty();
  learn(now, pool);

  if (pool.total == 0 && settings_.idle_to_zero) return from_zero(now, pool);
  if (pool.total < settings_.limits.min_replicas || pool.total > settings_.limits.max_replicas) {
    return restore_limits(now, pool);
  }
  if (!metrics.arrivals_per_s && !metrics.queue_wait_p95 && !metrics.tpot_p95) return keep(Hold::kNoData);
  hold_ = Hold::kSteady;
  if (const std::optional<Need> need = need_up(now, pool)) return scale_up(now, pool, *need);
  if (hold_ != Hold::kSteady) return std::nullopt;  // a target is missed, and waiting is what helps
  if (pool.is_idle && settings_.idle_to_zero) {
    if (auto decision = to_zero(now, pool)) return decision;
  }
  return scale_down(now, pool);
}

void Autoscaler::learn(Instant now, const Pool& pool) {
  const PoolMetrics& metrics = pool.metrics;
  const Duration elapsed = last_sample_ ? now - *last_sample_ : Duration(0);
  last_sample_ = now;
  if (last_serving_ != metrics.serving) {
    if (last_serving_) serving_since_ = now;
    last_serving_ = metrics.serving;
    completed_per_replica_.reset();
  }
  if (!pool.is_idle) idle_since_.reset();
  if (pool.is_idle && !idle_since_) idle_since_ = now;

  if (!metrics.gpu_utilisation) {
    utilisation_.reset();
  } else {
    smooth(utilisation_, *metrics.gpu_utilisation, elapsed, settings_.slow_window);
  }
  if (!metrics.arrivals_per_s) {
    known_since_.reset();
    needs_.clear();
    fast_rate_.reset();
    slow_rate_.reset();
    return;
  }
  smooth(fast_rate_, *metrics.arrivals_per_s, elapsed, settings_.fast_window);
  smooth(slow_rate_, *metrics.arrivals_per_s, elapsed, settings_.slow_window);
  learn_capacity(now, elapsed, metrics);
  learn_baseline(elapsed, metrics);
  if (!known_since_) known_since_ = now;
  needs_.note(now, settings_.down_stabilisation, replicas_to_keep(now, pool));
}

// A saturated replica shows its capacity: for a while (half of the window that completions are counted over; a moment
// of it is noise) at least one request a replica waits and no more is done than comes in. Whatever else is completed is
// a lower bound of it.
void Autoscaler::learn_capacity(Instant now, Duration elapsed, const PoolMetrics& metrics) {
  constexpr Duration kConfirm = 5s;
  if (!metrics.completions_per_s || metrics.serving == 0 || within(now, serving_since_, settings_.settle)) {
    saturated_since_.reset();
    return;
  }
  const double each = *metrics.completions_per_s / metrics.serving;
  smooth(completed_per_replica_, each, elapsed, settings_.slow_window);
  const bool is_saturated =
      each > 0 && metrics.waiting >= metrics.serving && *metrics.arrivals_per_s >= *metrics.completions_per_s;
  if (!is_saturated) saturated_since_.reset();
  if (is_saturated && !saturated_since_) saturated_since_ = now;
  if (is_saturated && !within(now, saturated_since_, kConfirm)) {
    smooth(capacity_, each, elapsed, settings_.slow_window);
  } else if (capacity_ && *completed_per_replica_ > *capacity_) {
    capacity_ = *completed_per_replica_;
  }
}

// Learned while the pool is at most half loaded and nothing waits, slowly (5 min): a degraded TPOT must not become the
// baseline it is compared with.
void Autoscaler::learn_baseline(Duration elapsed, const PoolMetrics& metrics) {
  constexpr double kLightLoad = 0.5;
  constexpr Duration kWindow = 300s;
  if (!metrics.tpot_p95 || metrics.waiting > 0) return;
  const std::optional<double> spare = headroom(metrics);
  const bool is_light =
      spare ? *spare >= 1 - kLightLoad : metrics.gpu_utilisation && *metrics.gpu_utilisation <= kLightLoad;
  const double tpot_s = to_seconds(*metrics.tpot_p95);
  if (is_light) {
    smooth(tpot_baseline_s_, tpot_s, elapsed, kWindow);
  } else if (tpot_baseline_s_ && tpot_s < *tpot_baseline_s_) {
    tpot_baseline_s_ = tpot_s;  // faster under more load: the old figure was no baseline
  }
}

bool Autoscaler::is_settled(Instant now) const {
  return !within(now, serving_since_, settings_.settle) && !within(now, last_up_, settings_.settle);
}

std::uint32_t Autoscaler::replicas_for(double work_per_s) const {
  return ceil_count(work_per_s / (*capacity_ * (1 - settings_.headroom)));
}

double Autoscaler::tpot_ratio(const PoolMetrics& metrics) const {
  if (!metrics.tpot_p95 || !tpot_baseline_s_ || *tpot_baseline_s_ <= 0) return 0;
  return to_seconds(*metrics.tpot_p95) / *tpot_baseline_s_;
}

Duration Autoscaler::start_time(const Pool& pool) const {
  return pool.metrics.standby > 0 ? settings_.warm_start : settings_.cold_start;
}

// Work that will wait when a replica asked for now begins to serve, with those on their way joining as announced.
double Autoscaler::backlog_when_helped(Instant now, const Pool& pool) const {
  const Instant helped = now + start_time(pool);
  double backlog =
      pool.metrics.waiting_work + (*fast_rate_ - *capacity_ * pool.metrics.serving) * to_seconds(helped - now);
  for (const Instant ready_at : pool.metrics.pending) {
    if (ready_at + settings_.start_grace < now) continue;
    const Instant joins = std::max(ready_at, now);
    if (joins < helped) backlog -= *capacity_ * to_seconds(helped - joins);
  }
  return std::max(backlog, 0.0);
}

std::optional<Autoscaler::Need> Autoscaler::queue_need(Instant now, const Pool& pool) {
  const PoolMetrics& metrics = pool.metrics;
  if (!metrics.queue_wait_p95 || *metrics.queue_wait_p95 <= settings_.queue_wait_target) return std::nullopt;
  Need need{.signal = ScaleSignal::kQueueWait,
            .value = to_seconds(*metrics.queue_wait_p95),
            .target = to_seconds(settings_.queue_wait_target),
            .why = "work offered and backlog over the capacity of a replica"};
  if (capacity_ && fast_rate_) {
    const double drain = backlog_when_helped(now, pool) / to_seconds(settings_.drain_target);
    const double offered = std::max(*fast_rate_, *slow_rate_);
    need.replicas = std::max(replicas_for(offered), ceil_count((offered + drain) / *capacity_));
    if (need.replicas > pool.counted()) return need;
  }
  if (pool.has_pending()) {
    hold_ = Hold::kPendingCovers;
    return std::nullopt;
  }
  const double falls_by = metrics.completions_per_s.value_or(0) - metrics.arrivals_per_s.value_or(0);
  if (falls_by > 0 && metrics.waiting_work <= falls_by * to_seconds(settings_.drain_target)) {
    hold_ = Hold::kDraining;
    return std::nullopt;
  }
  if (!is_settled(now)) {
    hold_ = Hold::kSettling;
    return std::nullopt;
  }
  need.replicas = pool.counted() + share(pool.counted(), settings_.blind_step);
  need.why = "the capacity of a replica is not known or does not explain the wait: a step by share";
  return need;
}

std::optional<Autoscaler::Need> Autoscaler::tpot_need(Instant now, const Pool& pool) {
  const double ratio = tpot_ratio(pool.metrics);
  if (ratio <= settings_.tpot_ratio_max) {
    degraded_since_.reset();
    return std::nullopt;
  }
  if (!degraded_since_) degraded_since_ = now;
  if (within(now, degraded_since_, settings_.confirm)) return std::nullopt;
  if (pool.has_pending() || !is_settled(now)) {
    if (hold_ == Hold::kSteady) hold_ = pool.has_pending() ? Hold::kPendingCovers : Hold::kSettling;
    return std::nullopt;
  }
  // The load per replica falls by what the ratio is over its limit, at most to half.
  const double factor = std::min(ratio / settings_.tpot_ratio_max, 2.0);
  return Need{.replicas = std::max(pool.counted() + 1, ceil_count(factor * pool.metrics.serving)),
              .signal = ScaleSignal::kTpot,
              .value = ratio,
              .target = settings_.tpot_ratio_max,
              .why = "TPOT over that of the lightly loaded pool"};
}

std::optional<Autoscaler::Need> Autoscaler::headroom_need(const Pool& pool) const {
  if (!capacity_ || !slow_rate_) return std::nullopt;
  const double all = *capacity_ * pool.counted();
  // Overload outright is acted on at once and sized by the fast rate; a thin headroom by the slow one, free of noise.
  const bool is_overload = *fast_rate_ > all;
  const double offered = is_overload ? std::max(*fast_rate_, *slow_rate_) : *slow_rate_;
  if (offered <= all * (1 - settings_.headroom_min)) return std::nullopt;
  return Need{.replicas = std::max(replicas_for(offered), pool.counted() + 1),
              .signal = ScaleSignal::kHeadroom,
              .value = all > 0 ? 1 - offered / all : -1,
              .target = settings_.headroom_min,
              .why = is_overload ? "more work is offered than all replicas can do" : "spare capacity is thin"};
}

// Replicas that finish every backlog by its deadline, earliest first, beside the interactive work. They begin to serve
// `lead` from now; until then `spare_per_s` is done of it. Where that is too late: as fast as any backlog is drained.
double Autoscaler::batch_replicas(Instant now, const Pool& pool, Duration lead, double spare_per_s) const {
  double needed = 0;
  for (const BatchBacklog& last : pool.metrics.batch) {
    double due = 0;
    for (const BatchBacklog& backlog : pool.metrics.batch) due += backlog.deadline <= last.deadline ? backlog.work : 0;
    const double left_s = std::max(to_seconds(last.deadline - now), 0.0);
    if (left_s > 0 && due <= spare_per_s * left_s) continue;
    const double rest = std::max(due - spare_per_s * std::min(to_seconds(lead), left_s), 0.0);
    const double helped_s = std::max(left_s - to_seconds(lead), to_seconds(settings_.drain_target));
    needed = std::max(needed, (*slow_rate_ + rest / helped_s) / (*capacity_ * settings_.batch_load_max));
  }
  return needed;
}

std::optional<Autoscaler::Need> Autoscaler::batch_need(Instant now, const Pool& pool) const {
  if (!capacity_ || !slow_rate_) return std::nullopt;
  const double spare_now = std::max(*capacity_ * settings_.batch_load_max * pool.counted() - *slow_rate_, 0.0);
  const double needed = batch_replicas(now, pool, start_time(pool), spare_now);
  const std::uint32_t replicas = ceil_count(needed);
  if (replicas <= pool.counted()) return std::nullopt;
  return Need{.replicas = replicas,
              .signal = ScaleSignal::kBatchDeadline,
              .value = needed,
              .target = static_cast<double>(pool.counted()),
              .why = "batch work over the time to its deadline"};
}

std::optional<Autoscaler::Need> Autoscaler::need_up(Instant now, const Pool& pool) {
  std::optional<Need> need;
  for (const std::optional<Need>& one :
       {queue_need(now, pool), tpot_need(now, pool), headroom_need(pool), batch_need(now, pool)}) {
    if (!one) continue;
    if (!need) {
      need = one;
    } else {
      need->replicas = std::max(need->replicas, one->replicas);
    }
  }
  return need;
}

// The need that the way down follows: offered work with headroom, and batch deadlines.
std::uint32_t Autoscaler::replicas_to_keep(Instant now, const Pool& pool) const {
  if (pool.is_idle) return 0;
  const std::uint32_t counted = pool.counted();
  if (!capacity_) {  // not by load, then: one at a time while the guard allows it (survives())
    return utilisation_ && counted > 0 ? counted - 1 : counted;
  }
  return std::max(replicas_for(*slow_rate_), ceil_count(batch_replicas(now, pool, Duration(0), 0)));
}

std::optional<ScaleDecision> Autoscaler::decide(Instant now, const Pool& pool, std::uint32_t to, const Need& need) {
  hold_ = Hold::kNone;
  (to > pool.total ? last_up_ : last_down_) = now;
  return ScaleDecision{
      .from = pool.total,
      .to = to,
      .signal = need.signal,
      .value = need.value,
      .target = need.target,
      .reason = fmt::format("{} {:.3g} against {:.3g}: {}; {} serving, {} pending ({} overdue), {} needed",
                            name(need.signal), need.value, need.target, need.why, pool.metrics.serving,
                            pool.metrics.pending.size(), pool.overdue, need.replicas)};
}

// Counts are known whatever the load is; a lost replica below the minimum is replaced without a window.
std::optional<ScaleDecision> Autoscaler::restore_limits(Instant now, const Pool& pool) {
  const ScaleLimits& limits = settings_.limits;
  const bool is_short = pool.total < limits.min_replicas;
  const std::uint32_t bound = is_short ? limits.min_replicas : limits.max_replicas;
  const std::uint32_t to = std::min(bound, pool.most);
  if (to == pool.total || (is_short && to < pool.total)) return keep(Hold::kAtLimit);
  return decide(now, pool, to,
                Need{.replicas = bound,
                     .signal = ScaleSignal::kLimits,
                     .value = static_cast<double>(pool.total),
                     .target = static_cast<double>(bound),
                     .why = is_short ? "fewer than the minimum" : "more than the maximum"});
}

std::optional<ScaleDecision> Autoscaler::from_zero(Instant now, const Pool& pool) {
  const PoolMetrics& metrics = pool.metrics;
  const bool has_work = metrics.waiting > 0 || metrics.arrivals_per_s.value_or(0) > 0 || !metrics.batch.empty();
  if (!has_work) return keep(metrics.arrivals_per_s ? Hold::kSteady : Hold::kNoData);
  if (within(now, last_down_, settings_.up_stabilisation)) return keep(Hold::kCooldown);
  std::uint32_t needed = settings_.limits.min_replicas;
  if (capacity_ && fast_rate_) needed = std::max(needed, replicas_for(*fast_rate_));
  const std::uint32_t to = std::min(needed, pool.most);
  if (to == 0) return keep(Hold::kAtLimit);
  return decide(now, pool, to,
                Need{.replicas = needed,
                     .signal = ScaleSignal::kDemand,
                     .value = static_cast<double>(metrics.waiting),
                     .target = 0,
                     .why = "work for a pool of no replicas"});
}

std::optional<ScaleDecision> Autoscaler::scale_up(Instant now, const Pool& pool, const Need& need) {
  // Overdue replicas are still there, but not counted on: others are asked for in their place.
  const std::uint32_t to = std::min(need.replicas + pool.overdue, pool.most);
  if (to <= pool.total) return keep(pool.most <= pool.total ? Hold::kAtLimit : Hold::kPendingCovers);
  if (within(now, last_up_, settings_.up_cooldown) || within(now, last_down_, settings_.up_stabilisation)) {
    return keep(Hold::kCooldown);
  }
  return decide(now, pool, to, need);
}

std::optional<ScaleDecision> Autoscaler::to_zero(Instant now, const Pool& pool) {
  if (!pool.metrics.pending.empty()) return std::nullopt;  // a loading replica is about to be needed
  if (within(now, idle_since_, *settings_.idle_to_zero)) return std::nullopt;
  if (within(now, last_up_, settings_.down_stabilisation)) return std::nullopt;
  return decide(now, pool, 0,
                Need{.replicas = 0,
                     .signal = ScaleSignal::kIdle,
                     .value = to_seconds(now - *idle_since_),
                     .target = to_seconds(*settings_.idle_to_zero),
                     .why = "no work"});
}

// Whether `victims` fewer keep every target: TPOT's rise over its baseline and utilisation grow at most as the load of
// a replica does. Load itself was judged over the window.
bool Autoscaler::survives(const Pool& pool, std::uint32_t victims) const {
  const PoolMetrics& metrics = pool.metrics;
  if (victims >= metrics.serving) return false;
  const double growth = static_cast<double>(metrics.serving) / (metrics.serving - victims);
  const double ratio = tpot_ratio(metrics);
  if (ratio > 1 && 1 + (ratio - 1) * growth > settings_.tpot_ratio_max) return false;
  const double limit = capacity_ ? settings_.utilisation_max : 1 - settings_.headroom;
  return !utilisation_ || *utilisation_ * growth <= limit;
}

std::optional<ScaleDecision> Autoscaler::scale_down(Instant now, const Pool& pool) {
  const PoolMetrics& metrics = pool.metrics;
  if (!metrics.arrivals_per_s || (!metrics.queue_wait_p95 && !pool.is_idle)) return keep(Hold::kNoData);
  const std::uint32_t needed = std::max(needs_.max(), settings_.limits.min_replicas);
  if (needed >= pool.counted() || pool.has_pending()) return keep(Hold::kSteady);
  if (within(now, known_since_, settings_.down_stabilisation) || within(now, last_up_, settings_.down_stabilisation)) {
    return keep(Hold::kStabilising);
  }
  if (within(now, last_down_, settings_.down_cooldown)) return keep(Hold::kCooldown);
  if (metrics.queue_wait_p95.value_or(Duration(0)) * 2 > settings_.queue_wait_target) {
    return keep(Hold::kWouldMissTargets);
  }
  std::uint32_t victims = std::min(pool.counted() - needed, share(pool.counted(), settings_.down_step_max));
  while (victims > 0 && !survives(pool, victims)) --victims;
  if (victims == 0) return keep(Hold::kWouldMissTargets);
  const double after =
      capacity_ ? 1 - *slow_rate_ / (*capacity_ * (pool.counted() - victims)) : 1 - utilisation_.value_or(0);
  return decide(now, pool, pool.total - victims,
                Need{.replicas = needed,
                     .signal = capacity_ ? ScaleSignal::kHeadroom : ScaleSignal::kUtilisation,
                     .value = after,
                     .target = settings_.headroom,
                     .why = "every target would still be met with headroom by fewer"});
}

}  // namespace muster::policy
