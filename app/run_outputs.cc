#include "run_outputs.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "exact_number.h"

namespace muster::app {

Result<std::unique_ptr<RunOutputs>> RunOutputs::attach(const OutputOptions& options, sim::Scenario& scenario) {
  std::unique_ptr<RunOutputs> outputs(new RunOutputs(options, scenario));
  if (options.trace_events.empty() && !(options.trace_window.empty() && options.trace_replicas.empty()))
    return fail("--trace-window and --trace-replicas say what --trace-events FILE is to hold; it is missing");
  if (!options.requests.empty()) {
    MUSTER_TRY(outputs->requests_, RequestLog::create(options.requests, scenario));
  }
  if (!options.trace_events.empty()) {
    TraceEventWindow window;
    if (!options.trace_window.empty()) {
      MUSTER_TRY(window, parse_trace_window(options.trace_window));
    }
    if (!options.trace_replicas.empty())
      MUSTER_TRY_VOID(parse_trace_replicas(options.trace_replicas, scenario.replicas.size(), window));
    MUSTER_TRY(outputs->trace_, TraceEvents::create(options.trace_events, std::move(window), scenario));
  }
  if (outputs->requests_ || outputs->trace_ || outputs->pipeline_.watches()) scenario.observer = outputs.get();
  return outputs;
}

void RunOutputs::on_answered(const sim::RequestRecord& record) {
  if (requests_) requests_->on_answered(record);
  if (trace_) trace_->on_answered(record);
  if (pipeline_.watches()) pipeline_.on_answered(record);
}
void RunOutputs::on_steps(const sim::StepRecord& record) {
  if (trace_) trace_->on_steps(record);
  if (pipeline_.watches()) pipeline_.on_steps(record);
}
void RunOutputs::on_event(const sim::FleetEvent& event) {
  if (trace_) trace_->on_event(event);
}

Result<void> RunOutputs::finish(const sim::Outcome& outcome) {
  if (requests_) MUSTER_TRY_VOID(requests_->finish());
  if (trace_) MUSTER_TRY_VOID(trace_->finish());
  if (!options_.series.empty()) MUSTER_TRY_VOID(write_series(options_.series, scenario_, outcome));
  return {};
}

Result<void> write_series(const std::string& path, const sim::Scenario& scenario, const sim::Outcome& outcome) {
  MUSTER_TRY(files::FileWriter file, files::FileWriter::create(path));
  std::string header = "at_s,arrivals,queued,ready_replicas,running";
  for (std::size_t r = 0; r < scenario.replicas.size(); ++r) {
    const std::string name = fmt::format("{}/{}", scenario.zones[scenario.replicas[r].zone], r);
    header += fmt::format(",{},{}", csv_text("running " + name), csv_text("kv_share " + name));
  }
  file.write(header + "\n");
  for (const sim::Sample& sample : outcome.samples) {
    std::uint64_t running = 0;
    for (const std::uint32_t n : sample.running) running += n;
    std::string line = fmt::format("{:.10g},{},{},{},{}", to_seconds(sample.at.time_since_epoch()), sample.arrivals,
                                   sample.queued, sample.ready_replicas, running);
    for (std::size_t r = 0; r < sample.running.size(); ++r)
      fmt::format_to(std::back_inserter(line), ",{},{:.4g}", sample.running[r], sample.kv_share[r]);
    file.write(line + "\n");
  }
  return file.finish();
}

}  // namespace muster::app
