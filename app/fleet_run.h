// One simulation of one fleet file on given traffic: the common part of simulate, its replications and comparisons, and
// of sweep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fleet_file.h"
#include "fleet_simulation.h"
#include "muster/report/results.h"
#include "muster/sim/simulation.h"
#include "muster/workload/trace.h"

namespace muster::app {

struct RunSettings {
  std::uint64_t seed = 1;
  double warm_up_s = 0;  // requests that arrive earlier run but do not count in latencies and attainment
  double sample_s = 2;   // of the time series
  bool step_by_step = false;
  sim::Observer* observer = nullptr;
  sim::Progress progress = {};
};

struct FleetRun {
  sim::Scenario scenario;
  sim::Outcome outcome;
  report::RunMetrics metrics;
};

// A fleet file with the pool that the traffic goes to, ready to simulate as often as wanted, from any thread.
class FleetUnderTest {
 public:
  // `pool`: a name; empty when the file has one pool. Fails with kNo when its model does not fit.
  static Result<FleetUnderTest> prepare(FleetFile file, const std::string& pool, const Catalogues& catalogues);

  // Borrows `trace` while it runs. The outcome depends on the arguments only.
  Result<FleetRun> run(const workload::Trace& trace, const RunSettings& settings) const;

  const FleetFile& file() const { return file_; }
  bool has_targets() const;                       // does a class have any?
  bool meets_targets(const FleetRun& run) const;  // every class keeps its targets and every request was answered
  // Does a run depend on the seed even on the same requests (entry zones, a router that draws)?
  bool varies_with_seed() const;

 private:
  FleetFile file_;
  std::shared_ptr<const PreparedPool> pool_;
};

}  // namespace muster::app
