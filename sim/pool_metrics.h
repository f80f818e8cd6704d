// What a scaling rule is told of a pool: the same figures that a metrics endpoint would have.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "ledger.h"
#include "lifecycle.h"
#include "muster/core/time.h"
#include "muster/policy/scaling_rules.h"
#include "work_estimate.h"

namespace muster::sim {

class PoolMetricsWindow {
 public:
  static constexpr Duration kWindow{10s};  // of the percentiles

  // Work is in estimated seconds of one replica. References must outlive this.
  PoolMetricsWindow(const Ledger& ledger, const WorkEstimate& work) : ledger_(ledger), work_(work) {}

  void arrived(RequestId id);  // in the pool's queue, also again
  void started(RequestId id, Instant at);
  void completed(RequestId id, Instant at);

  // Since the last sample, or over the last kWindow.
  policy::PoolMetrics sample(Instant now, const Lifecycle::Counts& counts, int gpus_per_replica);

 private:
  struct Point {
    Instant at;
    double value = 0;  // seconds
  };
  Duration work(RequestId id) const;
  static std::optional<Duration> p95(std::vector<double> seconds);

  const Ledger& ledger_;
  const WorkEstimate& work_;
  std::vector<RequestId> waiting_;  // arrived here; those that have started or left go at the next sample
  std::deque<Point> waits_, tpots_;
  Duration arrived_work_{0}, completed_work_{0};  // since the last sample
  Instant last_sample_{};
};

}  // namespace muster::sim
