// From a fleet file to a simulation, and from its outcome to the numbers that the reports show.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "deployment_options.h"
#include "fleet_file.h"
#include "muster/report/results.h"
#include "muster/sim/simulation.h"
#include "muster/sim/step_timer.h"
#include "muster/workload/trace.h"

namespace muster::app {

// One pool made ready to simulate. Owns everything that its scenarios point to; build scenarios while it lives.
struct PreparedPool {
  PoolSpec spec;
  model::ModelSpec model;
  hardware::Gpu gpu;
  cost::Deployment deployment;
  cost::MemoryVerdict memory;
  std::optional<cost::StepModel> step;
  std::unique_ptr<sim::StepTimer> timer;  // the same, as the simulator asks it
};

// Fails (the answer is no) when the layout is refused or the model does not fit; names what would help.
Result<std::unique_ptr<PreparedPool>> prepare(const PoolSpec& spec, const Catalogues& catalogues);

// `replicas` serving replicas and `standby_per_zone` standbys over the pool's zones, round-robin from the first zone.
sim::Scenario scenario(const PreparedPool& pool, int replicas, int standby_per_zone);

// The pools of a fleet that take part in a simulation, the one that requests come to first in front.
struct PreparedFleet {
  FleetFile file;
  std::vector<std::unique_ptr<PreparedPool>> pools;
};
// `only`: the name of the one pool to simulate; empty: all of them, and then each class has to name its pool when there
// are several.
Result<PreparedFleet> prepare_fleet(const FleetFile& fleet, const std::string& only, const Catalogues& catalogues);
// With as many replicas as the file says; keeps pointers into `fleet` and `trace`.
Result<sim::Scenario> scenario(const PreparedFleet& fleet, const workload::Trace& trace);
// How requests are sent, in words: "open loop, arrivals of the trace".
std::string harness(const sim::ClientBehaviour& clients);

// Classes, tenants, routing, clients and faults of the file on top. Fails when the trace names a tenant that the file
// lacks.
Result<void> apply(const FleetFile& fleet, const workload::Trace& trace, sim::Scenario& scenario);

report::RunMetrics metrics(const sim::Scenario& scenario, const sim::Outcome& outcome,
                           std::optional<double> usd_per_gpu_h, const std::string& pool_name);
report::RunPlots plots(const sim::Scenario& scenario, const sim::Outcome& outcome);
report::Latency latency(const QuantileSketch& sketch);

sim::RequestSlo request_slo(const SloTargets& slo);

// Does the outcome keep every p95 target?
bool meets(const SloTargets& slo, const sim::ClassOutcome& outcome);
// The targets beside what was measured.
std::vector<report::Slo> slo_rows(const SloTargets& slo, const sim::ClassOutcome& outcome);

}  // namespace muster::app
