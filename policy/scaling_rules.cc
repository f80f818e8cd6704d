#include "muster/policy/scaling_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::policy {
namespace {

// ceil for counts of replicas; a quotient that is whole but for rounding stays whole.
std::uint32_t ceil_count(double replicas) {
  return static_cast<std::uint32_t>(std::clamp(std::ceil(replicas - 1e-9), 0.0, 1e9));
}

ScaleSignal hpa_signal(HpaSettings::Metric metric) {
  switch (metric) {
    case HpaSettings::Metric::kInFlight:
      return ScaleSignal::kInFlight;
    case HpaSettings::Metric::kQueueLength:
      return ScaleSignal::kQueueLength;
    case HpaSettings::Metric::kUtilisation:
      return ScaleSignal::kUtilisation;
  }
  return ScaleSignal::kQueueLength;
}

// HPA's default scaleUp policies: the larger of +100 % and + 4 pods per 15 s.
std::uint32_t hpa_up_limit(std::uint32_t current) {
  return std::max(2 * current, current + 4);
}

bool sync_due(Instant now, Duration period, std::optional<Instant>& next) {
  if (next && now < *next) return false;
  next = now + period;
  return true;
}

// The bounds, the stabilisation window and the limit on the way up, as HPA applies them to a proposal.
std::uint32_t hpa_bound(const ScaleLimits& limits, const PoolMetrics& metrics, std::uint32_t proposal) {
  const std::uint32_t total = metrics.total();
  const std::uint32_t most = most_replicas(limits, metrics);
  const std::uint32_t bounded = std::clamp(proposal, std::min(limits.min_replicas, most), most);
  return std::min(bounded, std::max(total, hpa_up_limit(total)));
}

}  // namespace

std::string_view name(ScaleSignal signal) {
  switch (signal) {
    case ScaleSignal::kQueueWait:
      return "queue wait";
    case ScaleSignal::kTpot:
      return "TPOT";
    case ScaleSignal::kHeadroom:
      return "headroom";
    case ScaleSignal::kBatchDeadline:
      return "batch deadline";
    case ScaleSignal::kUtilisation:
      return "utilisation";
    case ScaleSignal::kQueueLength:
      return "queue length";
    case ScaleSignal::kInFlight:
      return "requests in flight";
    case ScaleSignal::kLimits:
      return "limits";
    case ScaleSignal::kDemand:
      return "demand";
    case ScaleSignal::kIdle:
      return "idle";
  }
  return "?";
}

std::uint32_t most_replicas(const ScaleLimits& limits, const PoolMetrics& metrics) {
  if (!metrics.gpus_free) return limits.max_replicas;
  const std::uint64_t affordable = std::uint64_t{metrics.total()} + metrics.standby +
                                   *metrics.gpus_free / std::max<std::uint32_t>(limits.gpus_per_replica, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(limits.max_replicas, affordable));
}

void WindowMax::note(Instant now, Duration window, std::uint32_t value) {
  while (!entries_.empty() && entries_.back().value <= value) entries_.pop_back();
  entries_.push_back({now, value});
  const auto expired = [&](const Entry& entry) { return entry.at < now - window; };
  entries_.erase(entries_.begin(), std::find_if_not(entries_.begin(), entries_.end(), expired));
}

std::optional<double> HpaRule::value(const PoolMetrics& metrics) const {
  if (metrics.serving == 0) return std::nullopt;  // no pod reports
  if (settings_.metric == HpaSettings::Metric::kUtilisation) return metrics.gpu_utilisation;
  if (!metrics.arrivals_per_s) return std::nullopt;  // a source that reports nothing reports no queue either
  const std::uint64_t running = settings_.metric == HpaSettings::Metric::kInFlight ? metrics.running : 0;
  return static_cast<double>(metrics.waiting + running) / metrics.serving;
}

std::uint32_t HpaRule::proposal(const PoolMetrics& metrics, double ratio) const {
  const std::uint32_t total = metrics.total();
  if (std::abs(ratio - 1) <= settings_.tolerance) return total;
  if (ratio < 1 || metrics.pending.empty()) return ceil_count(ratio * metrics.serving);
  const double damped = ratio * metrics.serving / total;  // those not ready count with value 0
  if (damped < 1 || damped - 1 <= settings_.tolerance) return total;
  return ceil_count(damped * total);
}

std::optional<ScaleDecision> HpaRule::on_metrics(Instant now, const PoolMetrics& metrics) {
  if (!sync_due(now, settings_.sync_period, next_)) return std::nullopt;
  const std::uint32_t total = metrics.total();
  const ScaleSignal signal = hpa_signal(settings_.metric);
  const std::optional<double> measured = value(metrics);
  if (!measured) return std::nullopt;
  const std::uint32_t wanted = proposal(metrics, *measured / settings_.target);
  proposals_.note(now, settings_.scale_down_stabilisation, wanted);
  const std::uint32_t stable = wanted >= total ? wanted : std::min(total, proposals_.max());
  const std::uint32_t to = hpa_bound(settings_.limits, metrics, stable);
  if (to == total) return std::nullopt;
  return ScaleDecision{.from = total,
                       .to = to,
                       .signal = signal,
                       .value = *measured,
                       .target = settings_.target,
                       .reason = fmt::format("{} {:.2f} against {:.2f}: {} of {} replicas proposed", name(signal),
                                             *measured, settings_.target, wanted, total)};
}

std::optional<ScaleDecision> KedaRule::on_metrics(Instant now, const PoolMetrics& metrics) {
  if (!sync_due(now, settings_.polling_interval, next_)) return std::nullopt;
  if (!metrics.arrivals_per_s) return std::nullopt;  // the trigger reports an error: the HPA takes no action
  const std::uint32_t total = metrics.total();
  const auto waiting = static_cast<double>(metrics.waiting);
  const bool is_active = waiting > settings_.activation;
  if (is_active || !last_active_) last_active_ = now;
  const auto decide = [&](std::uint32_t to, std::string reason) {
    return ScaleDecision{.from = total,
                         .to = to,
                         .signal = ScaleSignal::kQueueLength,
                         .value = total == 0 ? waiting : waiting / total,
                         .target = settings_.target,
                         .reason = std::move(reason)};
  };
  if (total == 0) {
    proposals_.clear();
    if (!is_active && settings_.to_zero) return std::nullopt;
    const std::uint32_t to = std::min(std::uint32_t{1}, most_replicas(settings_.limits, metrics));
    if (to == 0) return std::nullopt;
    return decide(to, fmt::format("trigger active: {} waiting", metrics.waiting));
  }
  if (settings_.to_zero && now - *last_active_ >= settings_.cooldown_period) {
    return decide(0, fmt::format("trigger inactive for {:.0f} s", to_seconds(now - *last_active_)));
  }
  const double ratio = waiting / (settings_.target * total);
  const std::uint32_t wanted =
      std::abs(ratio - 1) <= settings_.tolerance ? total : ceil_count(waiting / settings_.target);
  proposals_.note(now, settings_.scale_down_stabilisation, wanted);
  const std::uint32_t stable = wanted >= total ? wanted : std::min(total, proposals_.max());
  const std::uint32_t to = hpa_bound(settings_.limits, metrics, stable);
  if (to == total) return std::nullopt;
  return decide(to, fmt::format("{} waiting, {:.1f} a replica wanted: {} of {} replicas proposed", metrics.waiting,
                                settings_.target, wanted, total));
}

}  // namespace muster::policy
