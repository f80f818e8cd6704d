// How many replicas a pool should have: what every scaling rule is told and answers, and the rules in common use.
//
// Sans-IO: a rule owns no clock, thread or socket. The driver samples the pool, calls on_metrics, carries the decision
// out (up: promote a standby or start a replica; down: drain, never kill) and samples again at wakeup() at the latest.
// `now` never decreases. Not thread-safe: one driver, one thread. The rules here stand beside the Autoscaler
// (autoscaler.h) for comparison; each does what its documentation says and nothing better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/time.h"

namespace muster::policy {

// Batch work that may wait, but not beyond its deadline.
struct BatchBacklog {
  double work = 0;  // left to do, in the unit of PoolMetrics
  Instant deadline;
};

// One sample of a pool. "Work" is any unit that arrivals, completions, backlogs and capacity share: requests, tokens
// or, best with requests of mixed length, estimated seconds of one replica (its capacity is then 1). nullopt is "not
// known", which is neither load nor idleness: a rule does nothing on it.
struct PoolMetrics {
  Instant sampled_at;
  // Over a short window (10 s): waits of the requests that began, and ages of those that still wait.
  std::optional<Duration> queue_wait_p95;
  std::optional<Duration> tpot_p95;
  // Mean over the serving replicas, 0..1: the share of the device in use (DCGM SM activity). NVML's busy flag reads
  // ~1 with one request (dcgm-exporter#301): leave the field empty where only that is known.
  std::optional<double> gpu_utilisation;
  std::optional<double> arrivals_per_s;     // work per second; 0 is an idle pool
  std::optional<double> completions_per_s;  // work per second
  double waiting_work = 0;
  std::uint64_t waiting = 0;               // requests in queues
  std::uint64_t running = 0;               // requests that replicas work on
  std::uint32_t serving = 0;               // ready and not draining
  std::vector<Instant> pending;            // replicas on their way: when each is expected to be ready
  std::uint32_t standby = 0;               // warm, not serving; they hold their GPUs already
  std::optional<std::uint32_t> gpus_free;  // of the inventory, for this pool to take; nullopt: not limited
  std::vector<BatchBacklog> batch;

  std::uint32_t total() const { return serving + static_cast<std::uint32_t>(pending.size()); }
};

enum class ScaleSignal {
  kQueueWait,      // seconds, p95
  kTpot,           // ratio to the baseline
  kHeadroom,       // share of the capacity that is spare
  kBatchDeadline,  // replicas needed
  kUtilisation,    // 0..1
  kQueueLength,    // requests waiting per replica
  kInFlight,       // requests waiting or running per replica
  kLimits,         // replicas: fewer than the minimum or more than the maximum
  kDemand,         // work for a pool of no replicas: requests waiting
  kIdle,           // seconds without work
};
std::string_view name(ScaleSignal signal);

// The pool (serving + pending) should have `to` replicas instead of `from`.
struct ScaleDecision {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  ScaleSignal signal = ScaleSignal::kQueueWait;
  double value = 0;   // of the signal, in its unit
  double target = 0;  // that it was compared with
  std::string reason;

  friend bool operator==(const ScaleDecision&, const ScaleDecision&) = default;
};

struct ScaleLimits {
  std::uint32_t min_replicas = 1;  // while there is work; see each rule's scale to zero. At least 1
  std::uint32_t max_replicas = 100;
  std::uint32_t gpus_per_replica = 1;
};
// The most replicas the pool can have: the maximum, or what it has, its standbys and the free GPUs allow.
std::uint32_t most_replicas(const ScaleLimits& limits, const PoolMetrics& metrics);

class ScalingRule {
 public:
  virtual ~ScalingRule() = default;
  // nullopt: leave the pool as it is.
  virtual std::optional<ScaleDecision> on_metrics(Instant now, const PoolMetrics& metrics) = 0;
  // When the rule wants the next sample; it may be called sooner. nullopt: before the first.
  virtual std::optional<Instant> wakeup() const = 0;
};

// The largest value noted in the last `window`.
class WindowMax {
 public:
  void note(Instant now, Duration window, std::uint32_t value);
  std::uint32_t max() const { return entries_.empty() ? 0 : entries_.front().value; }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    Instant at;
    std::uint32_t value;
  };
  std::vector<Entry> entries_;  // values strictly fall: an older smaller one can never be the maximum again
};

// Kubernetes' Horizontal Pod Autoscaler (autoscaling/v2):
//   desired = ceil(current * value / target), nothing while |value / target - 1| <= tolerance.
// On the way up replicas that are not ready count with value 0; on the way down they are left out.
// The largest proposal of the stabilisation window is followed down; up at most to max(double, + 4) per 15 s.
// Source: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, "Algorithm details" and "Default
// behavior"; metric absent: "the HPA takes no action".
struct HpaSettings {
  enum class Metric {
    kInFlight,     // requests waiting or running per replica, the signal of Ray Serve and KubeAI
    kQueueLength,  // requests waiting per replica (Pods metric, AverageValue)
    kUtilisation,  // mean GPU utilisation
  };
  Metric metric = Metric::kQueueLength;
  double target = 5;  // vLLM production-stack's threshold for num_requests_waiting
  double tolerance = 0.1;
  Duration sync_period = 15s;                // --horizontal-pod-autoscaler-sync-period
  Duration scale_down_stabilisation = 300s;  // behavior.scaleDown.stabilizationWindowSeconds
  ScaleLimits limits = {};
};

class HpaRule final : public ScalingRule {
 public:
  explicit HpaRule(const HpaSettings& settings) : settings_(settings) {}
  std::optional<ScaleDecision> on_metrics(Instant now, const PoolMetrics& metrics) override;
  std::optional<Instant> wakeup() const override { return next_; }

 private:
  std::optional<double> value(const PoolMetrics& metrics) const;  // mean over the serving replicas
  std::uint32_t proposal(const PoolMetrics& metrics, double ratio) const;

  HpaSettings settings_;
  std::optional<Instant> next_;
  WindowMax proposals_;
};

// KEDA (ScaledObject): a trigger on the queue's length through an HPA with an External AverageValue metric,
//   desired = ceil(waiting / target), for 1..max replicas, and KEDA's own step between 0 and 1: up when the trigger is
// active (waiting > activation), down when it was inactive for the cool-down period.
// Source: keda.sh/docs/latest/reference/scaledobject-spec and /concepts/scaling-deployments. Period and cool-down
// default to those of vLLM production-stack's chart (15 s, 360 s; KEDA's own are 30 s, 300 s).
struct KedaSettings {
  double target = 5;      // requests waiting per replica
  double activation = 0;  // activationThreshold
  double tolerance = 0.1;
  Duration polling_interval = 15s;
  Duration cooldown_period = 360s;
  Duration scale_down_stabilisation = 300s;  // of the HPA that KEDA makes
  bool to_zero = false;                      // minReplicaCount: 0
  ScaleLimits limits = {};
};

class KedaRule final : public ScalingRule {
 public:
  explicit KedaRule(const KedaSettings& settings) : settings_(settings) {}
  std::optional<ScaleDecision> on_metrics(Instant now, const PoolMetrics& metrics) override;
  std::optional<Instant> wakeup() const override { return next_; }

 private:
  KedaSettings settings_;
  std::optional<Instant> next_;
  std::optional<Instant> last_active_;
  WindowMax proposals_;
};

}  // namespace muster::policy
