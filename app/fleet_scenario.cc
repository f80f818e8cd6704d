// A whole fleet file as one scenario: its pools side by side, or prefill apart from decode.
#include <fmt/format.h>

#include <algorithm>

#include "fleet_simulation.h"
#include "muster/core/text.h"
#include "muster/model/tensors.h"

namespace muster::app {
namespace {

Result<void> check_classes_name_pools(const FleetFile& fleet) {
  if (fleet.classes.empty())
    return fail(
        "the fleet has {} pools, and one trace feeds one of them: name it with --pool, or give each class a pool",
        fleet.pools.size());
  for (const ClassSpec& spec : fleet.classes)
    if (spec.pool.empty())
      return fail("the fleet has {} pools, but class {} names none; add `pool: NAME`, or simulate one with --pool",
                  fleet.pools.size(), spec.name);
  return {};
}

// Adds a pool behind those that are there; zones of one name are one zone.
void add_pool(const PreparedPool& pool, sim::Scenario& s) {
  const sim::Scenario alone = scenario(pool, pool.spec.replicas_initial, pool.spec.standby_per_zone);
  const std::uint32_t index = s.pools();
  s.more_pools.push_back({.name = pool.spec.name, .kind = alone.kind, .policy = alone.policy});
  for (sim::ReplicaPlace place : alone.replicas) {
    const std::string& zone = alone.zones[place.zone];
    const auto at = std::ranges::find(s.zones, zone);
    place.zone = static_cast<std::uint32_t>(at - s.zones.begin());
    if (at == s.zones.end()) s.zones.push_back(zone);
    place.pool = index;
    s.replicas.push_back(place);
  }
}

sim::Scaling scaling_of(const PoolSpec& spec, int gpus_per_replica) {
  const PoolSpec::Autoscale& a = *spec.autoscale;
  const policy::ScaleLimits limits{
      .min_replicas = static_cast<std::uint32_t>(std::max(1, spec.replicas_min.value_or(1))),
      .max_replicas = static_cast<std::uint32_t>(spec.replicas_max.value_or(spec.replicas_initial)),
      .gpus_per_replica = static_cast<std::uint32_t>(gpus_per_replica)};
  if (a.rule == "hpa-queue") {
    policy::HpaSettings hpa{.metric = policy::HpaSettings::Metric::kQueueLength, .limits = limits};
    hpa.target = a.queue_per_replica.value_or(hpa.target);
    return hpa;
  }
  if (a.rule == "hpa-utilisation")
    return policy::HpaSettings{.metric = policy::HpaSettings::Metric::kUtilisation,
                               .target = a.gpu_utilisation.value_or(0.7),
                               .limits = limits};
  if (a.rule == "keda") {
    policy::KedaSettings keda{.to_zero = spec.replicas_min == 0, .limits = limits};
    keda.target = a.queue_per_replica.value_or(keda.target);
    return keda;
  }
  policy::AutoscalerSettings muster{.limits = limits};
  if (a.queue_wait_p95_ms) muster.queue_wait_target = from_seconds(*a.queue_wait_p95_ms / 1e3);
  muster.tpot_ratio_max = a.tpot_degradation.value_or(muster.tpot_ratio_max);
  muster.utilisation_max = a.gpu_utilisation.value_or(muster.utilisation_max);
  if (a.headroom) {
    muster.headroom = *a.headroom;
    muster.headroom_min = *a.headroom * muster.headroom_min / policy::AutoscalerSettings().headroom;
  }
  muster.cold_start = from_seconds(spec.cold_s);
  muster.warm_start = from_seconds(spec.warm_s);
  muster.capacity_per_replica = 1;  // work is in estimated seconds of a replica; the truth is learned
  if (spec.replicas_min == 0) muster.idle_to_zero = Duration(600s);
  return muster;
}

// Replicas that are off until the pool's rule starts them, up to its maximum.
void add_scaling(const PoolSpec& spec, std::uint32_t pool, sim::Scenario& s) {
  if (!spec.autoscale || spec.autoscale->rule.empty()) return;
  s.scaling.resize(s.pools());
  s.scaling[pool] = scaling_of(spec, s.kind_of(pool).gpus);
  const auto zones = static_cast<int>(spec.zones.size());
  for (int i = spec.replicas_initial; i < spec.replicas_max.value_or(spec.replicas_initial); ++i) {
    const auto zone = std::ranges::find(s.zones, spec.zones[static_cast<std::size_t>(i % zones)]);
    s.replicas.push_back(
        {.zone = static_cast<std::uint32_t>(zone - s.zones.begin()), .standby = false, .pool = pool, .off = true});
  }
}

}  // namespace

Result<PreparedFleet> prepare_fleet(const FleetFile& fleet, const std::string& only, const Catalogues& catalogues) {
  PreparedFleet prepared{.file = fleet, .pools = {}};
  std::vector<std::string> names;
  for (const PoolSpec& pool : fleet.pools) names.push_back(pool.name);
  if (!only.empty()) {
    if (std::ranges::find(names, only) == names.end())
      return fail("--pool {}: no such pool{}; there are {}", only, did_you_mean(only, names), join(names, ", "));
    names = {only};
  } else if (fleet.disaggregation) {
    names = {fleet.disaggregation->prefill, fleet.disaggregation->decode};
  } else if (fleet.pools.size() > 1) {
    MUSTER_TRY_VOID(check_classes_name_pools(fleet));
  }
  for (const std::string& name : names) {
    const auto spec = std::ranges::find(fleet.pools, name, &PoolSpec::name);
    MUSTER_TRY(std::unique_ptr<PreparedPool> pool, prepare(*spec, catalogues));
    prepared.pools.push_back(std::move(pool));
  }
  return prepared;
}

Result<sim::Scenario> scenario(const PreparedFleet& fleet, const workload::Trace& trace) {
  const PreparedPool& first = *fleet.pools.front();
  sim::Scenario s = scenario(first, first.spec.replicas_initial, first.spec.standby_per_zone);
  s.trace = &trace;
  for (std::size_t i = 1; i < fleet.pools.size(); ++i) add_pool(*fleet.pools[i], s);
  for (std::uint32_t i = 0; i < fleet.pools.size(); ++i) add_scaling(fleet.pools[i]->spec, i, s);
  MUSTER_TRY_VOID(apply(fleet.file, trace, s));
  if (fleet.pools.size() == 1) return s;
  if (const auto& split = fleet.file.disaggregation) {
    s.disaggregation = {
        .kv_bytes_per_token = model::kv_bytes_per_token(first.model, first.deployment.precision.kv).value,
        .link_bytes_per_s = split->link_gb_s * 1e9,
        .link_latency = from_seconds(split->link_latency_ms / 1e3)};
    return s;
  }
  for (const ClassSpec& spec : fleet.file.classes) {
    const auto at = std::ranges::find_if(fleet.pools, [&](const auto& pool) { return pool->spec.name == spec.pool; });
    s.pool_of_class.push_back(static_cast<std::uint32_t>(at - fleet.pools.begin()));
  }
  return s;
}

std::string harness(const sim::ClientBehaviour& c) {
  std::string text = "open loop, arrivals of the trace";
  if (c.users > 0) {
    text = fmt::format("closed loop, {} users", c.users);
    if (c.lock_step) text += " in lock step";
    if (c.think > Duration(0))
      text += fmt::format(", think time {:g} s{}", to_seconds(c.think), c.exponential_think ? " (exponential)" : "");
  } else if (c.sessions) {
    text = "sessions: first turns at their arrival, later ones after the answer before and their think time";
  }
  if (c.first_token_timeout) text += fmt::format("; first token within {:g} s", to_seconds(*c.first_token_timeout));
  if (c.timeout) text += fmt::format("; answer within {:g} s", to_seconds(*c.timeout));
  if (c.first_token_timeout || c.timeout) text += ", or the client gives up";
  if (c.retries_max > 0)
    text += fmt::format("; {} retries, backoff from {:g} s", c.retries_max, to_seconds(c.retry_backoff));
  return text;
}

}  // namespace muster::app
