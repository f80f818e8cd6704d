// What `simulate` writes beside its result: a line per request, a trace of events, the time series.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline_watch.h"
#include "request_log.h"
#include "trace_events.h"

namespace muster::app {

struct OutputOptions {  // empty: not wanted
  std::string requests, trace_events, trace_window, trace_replicas, series;
  bool none() const { return requests.empty() && trace_events.empty() && series.empty(); }
};

// Observes one simulation; make it before the run, and finish() it after.
class RunOutputs final : public sim::Observer {
 public:
  // Opens the files and makes itself the observer of `scenario`, which has to stay where it is.
  static Result<std::unique_ptr<RunOutputs>> attach(const OutputOptions& options, sim::Scenario& scenario);

  void on_answered(const sim::RequestRecord& record) override;
  void on_steps(const sim::StepRecord& record) override;
  void on_event(const sim::FleetEvent& event) override;

  // Gives the files their names, and writes the time series.
  Result<void> finish(const sim::Outcome& outcome);
  report::PipelineWindow pipeline() const { return pipeline_.window(); }

 private:
  RunOutputs(const OutputOptions& options, const sim::Scenario& scenario)
      : options_(options), scenario_(scenario), pipeline_(scenario) {}

  OutputOptions options_;
  const sim::Scenario& scenario_;
  std::optional<RequestLog> requests_;
  std::optional<TraceEvents> trace_;
  PipelineWatch pipeline_;
};

// A header and one line per sample: the fleet's columns, then two per replica.
Result<void> write_series(const std::string& path, const sim::Scenario& scenario, const sim::Outcome& outcome);

}  // namespace muster::app
