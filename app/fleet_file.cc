#include "fleet_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster/files/lines.h"
#include "muster/policy/fleet.h"
#include "muster/sched/scheduler.h"
#include "slo_file.h"

namespace muster::app {

namespace {

// An integer field with a lower bound; complains at its own line.
template <class T>
void read_at_least(files::MapReader& read, std::string_view key, std::int64_t min, T& out) {
  const std::optional<files::Node> node = read.child(key);
  if (!node) return;
  const Result<std::int64_t> value = node->integer();
  if (!value) return read.fail_with(std::unexpected(value.error()));
  if (*value < min || *value > 1'000'000'000)
    return read.fail_with(node->error(fmt::format("{} found; a whole number of at least {} is needed", *value, min)));
  out = static_cast<int>(*value);
}

Result<void> read_replicas(const files::Node& node, PoolSpec& pool) {
  files::MapReader read(node);
  read_at_least(read, "initial", 1, pool.replicas_initial);
  read_at_least(read, "min", 0, pool.replicas_min);
  read_at_least(read, "max", 1, pool.replicas_max);
  read_at_least(read, "standby_per_zone", 0, pool.standby_per_zone);
  MUSTER_TRY_VOID(read.finish());
  if (pool.replicas_min && pool.replicas_max && *pool.replicas_min > *pool.replicas_max)
    return node.error(fmt::format("min {} is above max {}", *pool.replicas_min, *pool.replicas_max));
  return {};
}

Result<void> read_autoscale(const files::Node& node, PoolSpec& pool) {
  files::MapReader read(node);
  PoolSpec::Autoscale autoscale;
  read.optional("rule", autoscale.rule);
  read_positive(read, "queue_per_replica", autoscale.queue_per_replica);
  read_positive(read, "queue_wait_p95_ms", autoscale.queue_wait_p95_ms);
  read_positive(read, "tpot_degradation", autoscale.tpot_degradation);
  read_positive(read, "gpu_utilisation", autoscale.gpu_utilisation);
  read_positive(read, "headroom", autoscale.headroom);
  MUSTER_TRY_VOID(read.finish());
  const std::vector<std::string> rules = scaling_rules();
  if (!autoscale.rule.empty() && std::ranges::find(rules, autoscale.rule) == rules.end())
    return node.error(fmt::format("unknown rule '{}'{}; known are {}", autoscale.rule,
                                  did_you_mean(autoscale.rule, rules), join(rules, ", ")));
  if (autoscale.headroom && *autoscale.headroom >= 1)
    return node.error(fmt::format("headroom {} found; a share of the capacity below 1 is needed", *autoscale.headroom));
  pool.autoscale = autoscale;
  return {};
}

Result<void> read_startup(const files::Node& node, PoolSpec& pool) {
  files::MapReader read(node);
  read.optional("cold_s", pool.cold_s);
  read.optional("warm_s", pool.warm_s);
  MUSTER_TRY_VOID(read.finish());
  if (pool.cold_s < 0 || pool.warm_s < 0) return node.error("start-up times cannot be negative");
  return {};
}

Result<void> read_scheduler(const files::Node& node, PoolSpec& pool) {
  MUSTER_TRY(pool.scheduler, node.text());
  if (sched::parse_scheduler(pool.scheduler)) return {};
  std::vector<std::string> names;
  for (const sched::SchedulerKind kind : sched::kSchedulerKinds) names.emplace_back(sched::name(kind));
  return node.error(fmt::format("unknown scheduler '{}'{}; known are {}", pool.scheduler,
                                did_you_mean(pool.scheduler, names), join(names, ", ")));
}

Result<PoolSpec> read_pool(const files::Node& node) {
  PoolSpec pool;
  files::MapReader read(node);
  read.required("name", pool.name);
  read.required("model", pool.model);
  read.required("engine", pool.engine);
  read.required("gpu", pool.gpu);
  if (const auto scheduler = read.child("scheduler"))
    if (const Result<void> r = read_scheduler(*scheduler, pool); !r) read.fail_with(std::unexpected(r.error()));
  read.optional("precision", pool.precision);
  read.optional("kv_precision", pool.kv_precision);
  read.optional("zones", pool.zones);
  read.optional("prefix_caching", pool.prefix_caching);
  read_at_least(read, "max_model_len", 1, pool.max_model_len);
  read_at_least(read, "max_num_seqs", 1, pool.max_num_seqs);
  read_at_least(read, "max_num_batched_tokens", 1, pool.max_num_batched_tokens);
  read_positive(read, "gpu_memory_utilization", pool.memory_fraction);
  if (const auto blocks = read.child("kv_blocks")) {
    const Result<std::int64_t> value = blocks->integer();
    if (!value)
      read.fail_with(std::unexpected(value.error()));
    else if (*value < 1)
      read.fail_with(blocks->error(fmt::format("{} found; at least 1 is needed", *value)));
    else
      pool.kv_blocks = *value;
  }
  if (const auto parallel = read.child("parallel")) {
    files::MapReader inner(*parallel);
    read_at_least(inner, "tp", 1, pool.tp);
    read_at_least(inner, "pp", 1, pool.pp);
    read_at_least(inner, "ep", 1, pool.ep);
    if (const Result<void> r = inner.finish(); !r) read.fail_with(std::unexpected(r.error()));
  }
  using Reader = Result<void> (*)(const files::Node&, PoolSpec&);
  const std::pair<std::string_view, Reader> nested[] = {
      {"replicas", read_replicas}, {"startup", read_startup}, {"autoscale", read_autoscale}};
  for (const auto& [key, reader] : nested)
    if (const auto child = read.child(key))
      if (const Result<void> r = reader(*child, pool); !r) read.fail_with(std::unexpected(r.error()));
  MUSTER_TRY_VOID(read.finish());
  if (pool.zones.empty()) return node.error("zones is empty; at least one is needed");
  if (std::set<std::string>(pool.zones.begin(), pool.zones.end()).size() != pool.zones.size())
    return node.error("zones names a zone twice");
  if (pool.memory_fraction && *pool.memory_fraction > 1)
    return node.error(fmt::format("gpu_memory_utilization {} found; at most 1 is possible", *pool.memory_fraction));
  return pool;
}

Result<ClassSpec> read_class(const files::Node& node) {
  ClassSpec spec;
  files::MapReader read(node);
  read.required("name", spec.name);
  read.optional("rank", spec.rank);
  read.optional("pool", spec.pool);
  read.optional("preemptible", spec.preemptible);
  read_positive(read, "deadline_s", spec.deadline_s);
  read.optional("floor", spec.floor);
  if (const auto slo = read.child("slo")) {
    const Result<SloTargets> targets = read_slo(*slo);
    if (targets)
      spec.slo = *targets;
    else
      read.fail_with(std::unexpected(targets.error()));
  }
  MUSTER_TRY_VOID(read.finish());
  if (spec.floor < 0 || spec.floor >= 1)
    return node.error(fmt::format("floor {} found; a share in [0, 1) is needed", spec.floor));
  return spec;
}

Result<TenantSpec::Quota> read_quota(const files::Node& node) {
  TenantSpec::Quota quota;
  files::MapReader read(node);
  if (const auto rate = read.child("tokens_per_min")) {
    files::MapReader inner(*rate);
    read_positive(inner, "guarantee", quota.guarantee);
    read_positive(inner, "nominal", quota.nominal);
    read_positive(inner, "ceiling", quota.ceiling);
    if (const Result<void> r = inner.finish(); !r) read.fail_with(std::unexpected(r.error()));
    const double guarantee = quota.guarantee.value_or(0);
    const double nominal = quota.nominal.value_or(guarantee),
                 ceiling = quota.ceiling.value_or(std::max(nominal, guarantee));
    if (guarantee > nominal || nominal > ceiling) read.fail_with(rate->error("needs guarantee <= nominal <= ceiling"));
  }
  int concurrent = 0;
  read_at_least(read, "concurrent", 1, concurrent);
  MUSTER_TRY_VOID(read.finish());
  if (concurrent > 0) quota.concurrent = concurrent;
  return quota;
}

Result<TenantSpec> read_tenant(const files::Node& node) {
  TenantSpec spec;
  files::MapReader read(node);
  read.required("name", spec.name);
  read.required("class", spec.request_class);
  read.optional("weight", spec.weight);
  if (const auto quota = read.child("quota")) {
    const Result<TenantSpec::Quota> parsed = read_quota(*quota);
    if (parsed)
      spec.quota = *parsed;
    else
      read.fail_with(std::unexpected(parsed.error()));
  }
  MUSTER_TRY_VOID(read.finish());
  if (spec.weight <= 0) return node.error(fmt::format("weight {} found; a number above 0 is needed", spec.weight));
  return spec;
}

Result<FaultSpec> read_fault(const files::Node& node) {
  FaultSpec fault;
  files::MapReader read(node);
  read.required("at_s", fault.at_s);
  read.required("kind", fault.kind);
  read.optional("zone", fault.zone);
  read_at_least(read, "replica", 0, fault.replica);
  read.optional("for_s", fault.for_s);
  MUSTER_TRY_VOID(read.finish());
  if (fault.at_s < 0 || fault.for_s < 0) return node.error("at_s and for_s cannot be negative");
  const std::vector<std::string> kinds = {"zone_loss", "replica_loss"};
  if (std::ranges::find(kinds, fault.kind) == kinds.end())
    return node.error(fmt::format("unknown kind '{}'{}; known are {}", fault.kind, did_you_mean(fault.kind, kinds),
                                  join(kinds, ", ")));
  if (fault.kind == "zone_loss" && fault.zone.empty()) return node.error("zone_loss needs a zone");
  if (fault.kind == "replica_loss" && !fault.replica) return node.error("replica_loss needs a replica (its index)");
  return fault;
}

Result<ClientsSpec> read_clients(const files::Node& node) {
  ClientsSpec spec;
  files::MapReader read(node);
  read_at_least(read, "users", 1, spec.users);
  read.optional("think_s", spec.think_s);
  read.optional("exponential_think", spec.exponential_think);
  read.optional("lock_step", spec.lock_step);
  read.optional("sessions", spec.sessions);
  read_positive(read, "first_token_timeout_s", spec.first_token_timeout_s);
  read_positive(read, "timeout_s", spec.timeout_s);
  read_at_least(read, "retries", 0, spec.retries);
  read.optional("backoff_s", spec.backoff_s);
  MUSTER_TRY_VOID(read.finish());
  constexpr int kRetriesMax = 100;
  if (spec.retries > kRetriesMax)
    return node.error(fmt::format("retries {} found; at most {} are possible", spec.retries, kRetriesMax));
  if (spec.think_s < 0 || spec.backoff_s < 0) return node.error("think_s and backoff_s cannot be negative");
  if (spec.users > 0 && spec.sessions)
    return node.error("users (a closed loop) and sessions (which send their own next turns) exclude each other");
  if (spec.users == 0 && (spec.lock_step || spec.think_s > 0))
    return node.error("lock_step and think_s are about the users of a closed loop; `users` is missing");
  return spec;
}

Result<DisaggregationSpec> read_disaggregation(const files::Node& node) {
  DisaggregationSpec spec;
  files::MapReader read(node);
  read.required("prefill", spec.prefill);
  read.required("decode", spec.decode);
  read.required("link_gb_s", spec.link_gb_s);
  read.optional("link_latency_ms", spec.link_latency_ms);
  MUSTER_TRY_VOID(read.finish());
  if (spec.link_gb_s <= 0 || spec.link_latency_ms < 0)
    return node.error(
        fmt::format("link_gb_s {} and link_latency_ms {} found; a rate above 0 and a latency of at least "
                    "0 are needed",
                    spec.link_gb_s, spec.link_latency_ms));
  if (spec.prefill == spec.decode) return node.error("prefill and decode need two pools");
  return spec;
}

// Reads every item of the list `key` with `reader` into `out`; names must be unique where there are names.
template <class T, class Reader>
void read_list(files::MapReader& read, std::string_view key, Reader reader, std::vector<T>& out) {
  const std::optional<files::Node> list = read.child(key);
  if (!list) return;
  if (!list->is_list()) return read.fail_with(list->error("a list is needed"));
  std::set<std::string> names;
  for (const files::Node& item : list->items()) {
    Result<T> parsed = reader(item);
    if (!parsed) return read.fail_with(std::unexpected(parsed.error()));
    if constexpr (requires { parsed->name; })
      if (!names.insert(parsed->name).second)
        return read.fail_with(item.error(fmt::format("the name '{}' is used twice", parsed->name)));
    out.push_back(*std::move(parsed));
  }
}

Result<void> check_pool_names(const files::Node& document, const FleetFile& fleet) {
  std::vector<std::string> pools;
  for (const PoolSpec& pool : fleet.pools) pools.push_back(pool.name);
  const auto known = [&](std::string_view who, const std::string& pool) -> Result<void> {
    if (std::ranges::find(pools, pool) != pools.end()) return {};
    return document.error(
        fmt::format("{} names pool '{}', which is not in pools{}", who, pool, did_you_mean(pool, pools)));
  };
  for (const ClassSpec& spec : fleet.classes) {
    if (spec.pool.empty()) continue;
    MUSTER_TRY_VOID(known("class " + spec.name, spec.pool));
    if (fleet.disaggregation) return document.error("with disaggregation every class goes to the prefill pool first");
  }
  if (!fleet.disaggregation) return {};
  MUSTER_TRY_VOID(known("disaggregation", fleet.disaggregation->prefill));
  MUSTER_TRY_VOID(known("disaggregation", fleet.disaggregation->decode));
  if (fleet.pools.size() != 2) return document.error("disaggregation is of the only two pools of a fleet");
  if (fleet.pools[0].model != fleet.pools[1].model)
    return document.error("prefill and decode pools need the same model");
  return {};
}

Result<void> check_references(const files::Node& document, const FleetFile& fleet) {
  if (fleet.pools.empty()) return document.error("a fleet needs at least one pool");
  MUSTER_TRY_VOID(check_pool_names(document, fleet));
  std::vector<std::string> classes, zones;
  for (const ClassSpec& spec : fleet.classes) classes.push_back(spec.name);
  for (const PoolSpec& pool : fleet.pools) zones.insert(zones.end(), pool.zones.begin(), pool.zones.end());
  for (const TenantSpec& tenant : fleet.tenants)
    if (std::ranges::find(classes, tenant.request_class) == classes.end())
      return document.error(fmt::format("tenant {} is of class '{}', which is not in classes{}", tenant.name,
                                        tenant.request_class, did_you_mean(tenant.request_class, classes)));
  for (const FaultSpec& fault : fleet.faults)
    if (!fault.zone.empty() && std::ranges::find(zones, fault.zone) == zones.end())
      return document.error(
          fmt::format("a fault names zone '{}', which no pool has{}", fault.zone, did_you_mean(fault.zone, zones)));
  return {};
}

}  // namespace

Result<FleetFile> parse_fleet(std::string_view text, const std::string& file_name) {
  MUSTER_TRY(const files::Node document, files::parse_document(text, file_name));
  FleetFile fleet;
  files::MapReader read(document);
  read.required("fleet", fleet.fleet);
  read_list(read, "pools", read_pool, fleet.pools);
  read_list(read, "classes", read_class, fleet.classes);
  read_list(read, "tenants", read_tenant, fleet.tenants);
  read_list(read, "faults", read_fault, fleet.faults);
  if (const auto routing = read.child("routing")) {
    files::MapReader inner(*routing);
    inner.optional("policy", fleet.routing_policy);
    inner.optional("prefix_affinity", fleet.prefix_affinity);
    inner.optional("zone_affinity", fleet.zone_affinity);
    read_positive(inner, "metrics_lag_ms", fleet.metrics_lag_ms);
    if (const Result<void> r = inner.finish(); !r) read.fail_with(std::unexpected(r.error()));
    std::vector<std::string> policies;
    for (const policy::Routing kind : policy::kRoutings) policies.emplace_back(policy::name(kind));
    const std::vector<std::string> affinities = {"ignore", "prefer"};
    const auto known = [&](const std::string& word, const std::vector<std::string>& words, std::string_view what) {
      if (std::ranges::find(words, word) == words.end())
        read.fail_with(routing->error(
            fmt::format("unknown {} '{}'{}; known are {}", what, word, did_you_mean(word, words), join(words, ", "))));
    };
    known(fleet.routing_policy, policies, "policy");
    known(fleet.zone_affinity, affinities, "zone_affinity");
  }
  const auto section = [&](std::string_view key, auto reader, auto& out) {
    const std::optional<files::Node> child = read.child(key);
    if (!child) return;
    if (auto spec = reader(*child))
      out = *std::move(spec);
    else
      read.fail_with(std::unexpected(spec.error()));
  };
  section("clients", read_clients, fleet.clients);
  section("disaggregation", read_disaggregation, fleet.disaggregation);
  MUSTER_TRY_VOID(read.finish());
  MUSTER_TRY_VOID(check_references(document, fleet));
  return fleet;
}

Result<FleetFile> read_fleet(const std::string& path) {
  MUSTER_TRY(const std::string text, files::read_file(path, std::size_t{16} << 20));
  return parse_fleet(text, path);
}

std::vector<std::string> scaling_rules() {
  return {"muster", "hpa-queue", "hpa-utilisation", "keda"};
}

std::vector<std::string> not_simulated(const FleetFile& fleet) {
  std::vector<std::string> notes;
  for (const PoolSpec& pool : fleet.pools)
    if (pool.autoscale && pool.autoscale->rule.empty()) {
      notes.push_back(
          "autoscale without a `rule` is read but not simulated: the number of replicas stays at `initial` (add rule: "
          "muster)");
      break;
    }
  if (std::ranges::any_of(fleet.tenants, [](const TenantSpec& t) { return t.quota.has_value(); }))
    notes.push_back("quotas are read but not enforced in the simulation");
  if (std::ranges::any_of(fleet.classes,
                          [](const ClassSpec& c) { return c.preemptible || c.floor > 0 || c.deadline_s; }))
    notes.push_back("preemptible, deadline_s and floor are read but not simulated; classes are served in strict rank");
  return notes;
}

}  // namespace muster::app
