#include "pool_metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace muster::sim {

Duration PoolMetricsWindow::work(RequestId id) const {
  return work_.of(ledger_.request(id).input_tokens, ledger_.mean_output_tokens_seen(WorkEstimate::kOutputTokensPrior));
}

void PoolMetricsWindow::arrived(RequestId id) {
  waiting_.push_back(id);
  arrived_work_ += work(id);
}

void PoolMetricsWindow::started(RequestId id, Instant at) {
  waits_.push_back({at, to_seconds(at - ledger_.arrival(id))});
}

void PoolMetricsWindow::completed(RequestId id, Instant at) {
  completed_work_ += work(id);
  const std::int64_t gaps = ledger_.request(id).output_tokens - 1;
  if (gaps > 0) tpots_.push_back({at, to_seconds(at - ledger_.first_token(id)) / static_cast<double>(gaps)});
}

std::optional<Duration> PoolMetricsWindow::p95(std::vector<double> seconds) {
  if (seconds.empty()) return std::nullopt;
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(seconds.size()))) - 1;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(rank), seconds.end());
  return from_seconds(seconds[rank]);
}

policy::PoolMetrics PoolMetricsWindow::sample(Instant now, const Lifecycle::Counts& counts, int gpus_per_replica) {
  for (std::deque<Point>* points : {&waits_, &tpots_})
    while (!points->empty() && points->front().at + kWindow < now) points->pop_front();
  std::erase_if(waiting_, [&](RequestId id) { return !ledger_.waits_for_its_start(id); });

  policy::PoolMetrics m;
  m.sampled_at = now;
  std::vector<double> waits, tpots;
  for (const Point& p : waits_) waits.push_back(p.value);
  for (const Point& p : tpots_) tpots.push_back(p.value);
  for (const RequestId id : waiting_) {
    waits.push_back(to_seconds(now - ledger_.arrival(id)));
    m.waiting_work += to_seconds(work(id));
  }
  m.waiting = waiting_.size();
  m.queue_wait_p95 = p95(std::move(waits));
  m.tpot_p95 = p95(std::move(tpots));
  const double elapsed = to_seconds(now - last_sample_);
  if (elapsed > 0) {
    m.arrivals_per_s = to_seconds(arrived_work_) / elapsed;
    m.completions_per_s = to_seconds(completed_work_) / elapsed;
  }
  arrived_work_ = completed_work_ = Duration(0);
  last_sample_ = now;
  m.serving = counts.serving;
  m.pending = counts.ready_at;
  m.standby = counts.standby;
  m.gpus_free = counts.off * static_cast<std::uint32_t>(gpus_per_replica);
  return m;
}

}  // namespace muster::sim
