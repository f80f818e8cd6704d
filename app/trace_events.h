// A run in the trace-event format of Chromium and Perfetto (ui.perfetto.dev, chrome://tracing), written while the
// simulation runs. docs/formats/trace-events.md says what is in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/files/writer.h"
#include "muster/sim/simulation.h"

namespace muster::app {

struct TraceEventWindow {
  Instant from = Instant::min(), until = Instant::max();  // what overlaps it is written whole
  std::vector<std::uint32_t> replicas;                    // empty: all
};
// "60s..90s", "500ms..1.5s", "60..90" (seconds); either side may be left out.
Result<TraceEventWindow> parse_trace_window(std::string_view text);
// "0,1" into `window.replicas`; each must be below `replicas`.
Result<void> parse_trace_replicas(std::string_view text, std::size_t replicas, TraceEventWindow& window);

// Memory does not grow with the run.
class TraceEvents final : public sim::Observer {
 public:
  // Processes: 1 is the fleet, kFirstReplica + i is replica i, with one thread per pipeline stage.
  static constexpr std::uint32_t kFleet = 1, kFirstReplica = 100;

  static Result<TraceEvents> create(const std::string& path, TraceEventWindow window, const sim::Scenario& scenario);

  void on_answered(const sim::RequestRecord& record) override;
  void on_steps(const sim::StepRecord& record) override;
  void on_event(const sim::FleetEvent& event) override;
  Result<void> finish();

 private:
  struct Replica {
    bool wanted = true;
    std::size_t stages = 1;
    Instant busy_until = Instant::min();
  };
  TraceEvents(files::FileWriter file, TraceEventWindow window, const sim::Scenario& scenario);

  bool in_window(Instant begin, Instant end) const { return begin < window_.until && end > window_.from; }
  void put(const std::string& event);  // the fields between the braces
  void name_tracks(std::uint32_t replica, const std::string& zone, bool standby);
  void counters(std::uint32_t replica, Instant at, const sim::StepRecord& record);

  files::FileWriter file_;
  TraceEventWindow window_;
  std::vector<Replica> replicas_;
  std::vector<std::string> classes_, tenants_;  // as JSON strings
  bool any_ = false;
};

}  // namespace muster::app
