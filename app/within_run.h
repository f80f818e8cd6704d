// How sure one run makes us of its own figures, and of its difference to another run on the same traffic, without
// keeping its requests: the counted requests are cut into consecutive sections by arrival, each with sketches of its
// own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/statistics.h"
#include "muster/report/comparison.h"
#include "muster/report/results.h"
#include "muster/sim/observer.h"
#include "muster/workload/trace.h"

namespace muster::app {

inline constexpr std::size_t kSections = 10;
inline constexpr std::array<std::string_view, 4> kLatencies = {"queue_wait_ms", "ttft_ms", "tpot_ms", "e2e_ms"};

// In the order of kLatencies; a negative value: there is none (TPOT of a single token).
std::array<double, 4> latencies_of(const sim::RequestRecord& request);

class WithinRun : public sim::Observer {
 public:
  WithinRun(const workload::Trace& trace, double warm_up_s);

  void on_answered(const sim::RequestRecord& request) override;

  // Intervals of mean, p50, p90, p95 and p99 of each latency, around the values of the whole run. By sections where
  // each is long enough for the percentile, by order statistics on short runs, none where even those do not reach.
  std::vector<report::Estimate> estimates(const report::RunMetrics& run) const;
  // By how much this run's figures differ from those of `a` on the same traffic: of each figure of estimates(), with
  // the interval by the sections' differences.
  std::vector<report::Estimate> differences(const WithinRun& a, const report::RunMetrics& run_a,
                                            const report::RunMetrics& run_b) const;

 private:
  std::optional<std::vector<double>> section_values(std::size_t latency, double q) const;  // q < 0: means

  std::uint64_t first_, count_;  // of the counted requests
  std::array<std::array<QuantileSketch, 4>, kSections> sections_;
  std::array<QuantileSketch, 4> whole_;
};

// Request by request: the differences of run B to run A. 16 bytes a request.
class PairedRuns {
 public:
  explicit PairedRuns(const workload::Trace& trace, double warm_up_s);
  sim::Observer& a() { return a_; }
  sim::Observer& b() { return b_; }
  std::vector<report::PairedRequests> take();  // after both runs

 private:
  struct Side : sim::Observer {
    void on_answered(const sim::RequestRecord& request) override;
    std::vector<std::array<float, 4>> values;  // [requests] negative: none
  };
  std::uint64_t first_;
  Side a_, b_;
};

}  // namespace muster::app
