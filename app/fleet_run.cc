#include "fleet_run.h"

#include <algorithm>
#include <optional>

namespace muster::app {
namespace {

// nullopt: a pool's GPU has no price.
std::optional<double> cost_usd(const PreparedFleet& fleet, const sim::Outcome& outcome) {
  double usd = 0;
  for (std::size_t i = 0; i < outcome.pool_gpu_seconds.size(); ++i) {
    const auto& price = fleet.pools[i]->gpu.price;
    if (!price) return std::nullopt;
    usd += price->usd_per_gpu_hour * outcome.pool_gpu_seconds[i] / 3600;
  }
  return usd;
}

}  // namespace

Result<FleetUnderTest> FleetUnderTest::prepare(const FleetFile& file, const std::string& pool,
                                               const Catalogues& catalogues) {
  FleetUnderTest fleet;
  MUSTER_TRY(PreparedFleet prepared, prepare_fleet(file, pool, catalogues));
  fleet.fleet_ = std::make_shared<const PreparedFleet>(std::move(prepared));
  return fleet;
}

Result<FleetRun> FleetUnderTest::run(const workload::Trace& trace, const RunSettings& settings) const {
  FleetRun run;
  sim::Scenario& s = run.scenario;
  MUSTER_TRY(s, scenario(*fleet_, trace));
  s.seed = s.policy.seed = settings.seed;
  s.step_by_step = settings.step_by_step;
  s.warm_up = from_seconds(settings.warm_up_s);
  s.sample_interval = from_seconds(settings.sample_s);
  std::unique_ptr<RunOutputs> outputs;
  if (settings.outputs != nullptr) {
    MUSTER_TRY(outputs, RunOutputs::attach(*settings.outputs, s));
  }
  std::optional<BothObservers> both;
  if (settings.observer != nullptr)
    s.observer = s.observer == nullptr ? settings.observer : &both.emplace(*s.observer, *settings.observer);
  run.outcome = sim::run(s, settings.progress);
  run.metrics = metrics(s, run.outcome, std::nullopt, fleet_->pools.front()->spec.name);
  run.metrics.usd = cost_usd(*fleet_, run.outcome);
  if (outputs) {
    MUSTER_TRY_VOID(outputs->finish(run.outcome));
    run.pipeline = outputs->pipeline();
  }
  s.observer = nullptr;  // they end here
  s.trace = nullptr;
  return run;
}

bool FleetUnderTest::has_targets() const {
  return std::ranges::any_of(file().classes, [](const ClassSpec& c) { return c.slo.any(); });
}

bool FleetUnderTest::meets_targets(const FleetRun& run) const {
  const sim::Outcome& o = run.outcome;
  for (std::size_t i = 0; i < file().classes.size(); ++i)
    if (o.classes[i].requests > 0 && !meets(file().classes[i].slo, o.classes[i])) return false;
  return o.completed + o.rejected >= o.requests;
}

bool FleetUnderTest::varies_with_seed() const {
  const FleetFile& f = file();
  const bool draws = f.routing_policy == "power-of-two" || f.routing_policy == "random" || f.zone_affinity == "prefer";
  return draws || (f.clients && (f.clients->exponential_think || f.clients->retries > 0));
}

}  // namespace muster::app
