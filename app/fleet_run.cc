#include "fleet_run.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "muster/core/text.h"

namespace muster::app {
namespace {

Result<const PoolSpec*> pick_pool(const FleetFile& fleet, const std::string& wanted) {
  if (wanted.empty()) {
    if (fleet.pools.size() == 1) return &fleet.pools.front();
    return fail("the fleet has {} pools and one trace feeds one of them: name it with --pool", fleet.pools.size());
  }
  std::vector<std::string> names;
  for (const PoolSpec& pool : fleet.pools) {
    if (pool.name == wanted) return &pool;
    names.push_back(pool.name);
  }
  return fail("--pool {}: no such pool{}; there are {}", wanted, did_you_mean(wanted, names), join(names, ", "));
}

}  // namespace

Result<FleetUnderTest> FleetUnderTest::prepare(FleetFile file, const std::string& pool, const Catalogues& catalogues) {
  FleetUnderTest fleet;
  MUSTER_TRY(const PoolSpec* spec, pick_pool(file, pool));
  MUSTER_TRY(fleet.pool_, app::prepare(*spec, catalogues));
  fleet.file_ = std::move(file);
  return fleet;
}

Result<FleetRun> FleetUnderTest::run(const workload::Trace& trace, const RunSettings& settings) const {
  FleetRun run;
  sim::Scenario& s = run.scenario;
  s = scenario(*pool_, pool_->spec.replicas_initial, pool_->spec.standby_per_zone);
  s.trace = &trace;
  s.seed = s.policy.seed = settings.seed;
  s.step_by_step = settings.step_by_step;
  s.warm_up = from_seconds(settings.warm_up_s);
  s.sample_interval = from_seconds(settings.sample_s);
  s.observer = settings.observer;
  MUSTER_TRY_VOID(apply(file_, trace, s));
  run.outcome = sim::run(s, settings.progress);
  std::optional<double> price;
  if (pool_->gpu.price) price = pool_->gpu.price->usd_per_gpu_hour;
  run.metrics = metrics(s, run.outcome, price, pool_->spec.name);
  return run;
}

bool FleetUnderTest::has_targets() const {
  return std::ranges::any_of(file_.classes, [](const ClassSpec& c) { return c.slo.any(); });
}

bool FleetUnderTest::meets_targets(const FleetRun& run) const {
  const sim::Outcome& o = run.outcome;
  for (std::size_t i = 0; i < file_.classes.size(); ++i)
    if (o.classes[i].requests > 0 && !meets(file_.classes[i].slo, o.classes[i])) return false;
  return o.completed + o.rejected >= o.requests;
}

bool FleetUnderTest::varies_with_seed() const {
  return file_.zone_affinity == "prefer" || file_.routing_policy == "power-of-two" || file_.routing_policy == "random";
}

}  // namespace muster::app
