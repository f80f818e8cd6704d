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
#include "run_outputs.h"

namespace muster::app {

// Two that look on at one run.
class BothObservers : public sim::Observer {
 public:
  BothObservers(sim::Observer& a, sim::Observer& b) : a_(a), b_(b) {}
  void on_answered(const sim::RequestRecord& r) override {
    a_.on_answered(r);
    b_.on_answered(r);
  }
  void on_steps(const sim::StepRecord& r) override {
    a_.on_steps(r);
    b_.on_steps(r);
  }
  void on_event(const sim::FleetEvent& e) override {
    a_.on_event(e);
    b_.on_event(e);
  }

 private:
  sim::Observer& a_;
  sim::Observer& b_;
};

struct RunSettings {
  std::uint64_t seed = 1;
  double warm_up_s = 0;  // requests that arrive earlier run but do not count in latencies and attainment
  double sample_s = 2;   // of the time series
  bool step_by_step = false;
  const OutputOptions* outputs = nullptr;  // files to write beside the result
  sim::Observer* observer = nullptr;       // looks on, beside those
  sim::Progress progress = {};
};

struct FleetRun {
  sim::Scenario scenario;
  sim::Outcome outcome;
  report::RunMetrics metrics;
  report::PipelineWindow pipeline;  // with `outputs` only
};

// A fleet file with its pools, ready to simulate as often as wanted, from any thread.
class FleetUnderTest {
 public:
  // `pool`: as for prepare_fleet. Fails with kNo when a model does not fit.
  static Result<FleetUnderTest> prepare(const FleetFile& file, const std::string& pool, const Catalogues& catalogues);

  // Borrows `trace` while it runs. The outcome depends on the arguments only.
  Result<FleetRun> run(const workload::Trace& trace, const RunSettings& settings) const;

  const FleetFile& file() const { return fleet_->file; }
  bool has_targets() const;                       // does a class have any?
  bool meets_targets(const FleetRun& run) const;  // every class keeps its targets and every request was answered
  // Does a run depend on the seed even on the same requests (entry zones, a router that draws)?
  bool varies_with_seed() const;

 private:
  std::shared_ptr<const PreparedFleet> fleet_;
};

}  // namespace muster::app
