// Writing fleet.yaml: by hand, so that the file reads as a person would have written it.
#include <fmt/format.h>

#include "fleet_file.h"
#include "muster/core/text.h"

namespace muster::app {
namespace {

// A YAML scalar that reads back as the same text: quoted unless it is plainly a word.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() &&
                     text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./@") ==
                         std::string::npos &&
                     text[0] != '-' && text[0] != '@' &&
                     text.find_first_not_of("0123456789.eE+-_") != std::string::npos && text != "true" &&
                     text != "false" && text != "yes" && text != "no" && text != "null" && text != "on" &&
                     text != "off" && text != "y" && text != "n";
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

class FlowMap {  // {key: value, ...} with the absent ones left out
 public:
  void add(std::string_view key, const std::string& value) { parts_.push_back(fmt::format("{}: {}", key, value)); }
  void add(std::string_view key, const std::optional<double>& value) {
    if (value) add(key, fmt::format("{:.10g}", *value));
  }
  void add(std::string_view key, const std::optional<int>& value) {
    if (value) add(key, std::to_string(*value));
  }
  bool empty() const { return parts_.empty(); }
  std::string text() const { return "{" + join(parts_, ", ") + "}"; }

 private:
  std::vector<std::string> parts_;
};

std::string slo_text(const SloTargets& slo) {
  FlowMap map;
  map.add("queue_wait_p95_ms", slo.queue_wait_p95_ms);
  map.add("ttft_p95_ms", slo.ttft_p95_ms);
  map.add("tpot_p95_ms", slo.tpot_p95_ms);
  map.add("e2e_p95_ms", slo.e2e_p95_ms);
  return map.text();
}

std::string pool_text(const PoolSpec& pool) {
  std::string out =
      fmt::format("  - name: {}\n    model: {}\n    engine: {}\n    gpu: {}\n    precision: {}\n", scalar(pool.name),
                  scalar(pool.model), scalar(pool.engine), scalar(pool.gpu), scalar(pool.precision));
  if (!pool.scheduler.empty()) out += fmt::format("    scheduler: {}\n", scalar(pool.scheduler));
  if (!pool.kv_precision.empty()) out += fmt::format("    kv_precision: {}\n", scalar(pool.kv_precision));
  out += fmt::format("    parallel: {{tp: {}, pp: {}{}}}\n", pool.tp, pool.pp,
                     pool.ep > 1 ? fmt::format(", ep: {}", pool.ep) : "");
  FlowMap replicas;
  replicas.add("initial", std::optional(pool.replicas_initial));
  replicas.add("min", pool.replicas_min);
  replicas.add("max", pool.replicas_max);
  replicas.add("standby_per_zone", std::optional(pool.standby_per_zone));
  out += fmt::format("    replicas: {}\n", replicas.text());
  std::vector<std::string> zones;
  for (const std::string& zone : pool.zones) zones.push_back(scalar(zone));
  out += fmt::format("    zones: [{}]\n    startup: {{cold_s: {:.10g}, warm_s: {:.10g}}}\n", join(zones, ", "),
                     pool.cold_s, pool.warm_s);
  if (pool.max_model_len > 0) out += fmt::format("    max_model_len: {}\n", pool.max_model_len);
  if (pool.max_num_seqs > 0) out += fmt::format("    max_num_seqs: {}\n", pool.max_num_seqs);
  if (pool.max_num_batched_tokens > 0)
    out += fmt::format("    max_num_batched_tokens: {}\n", pool.max_num_batched_tokens);
  if (pool.memory_fraction) out += fmt::format("    gpu_memory_utilization: {:.10g}\n", *pool.memory_fraction);
  if (!pool.prefix_caching) out += "    prefix_caching: false\n";
  if (pool.kv_blocks) out += fmt::format("    kv_blocks: {}\n", *pool.kv_blocks);
  if (pool.autoscale) {
    FlowMap autoscale;
    if (!pool.autoscale->rule.empty()) autoscale.add("rule", scalar(pool.autoscale->rule));
    autoscale.add("queue_wait_p95_ms", pool.autoscale->queue_wait_p95_ms);
    autoscale.add("tpot_degradation", pool.autoscale->tpot_degradation);
    autoscale.add("gpu_utilisation", pool.autoscale->gpu_utilisation);
    autoscale.add("headroom", pool.autoscale->headroom);
    autoscale.add("queue_per_replica", pool.autoscale->queue_per_replica);
    out += fmt::format("    autoscale: {}\n", autoscale.text());
  }
  return out;
}

std::string tenant_text(const TenantSpec& tenant) {
  FlowMap map;
  map.add("name", scalar(tenant.name));
  map.add("class", scalar(tenant.request_class));
  map.add("weight", std::optional(tenant.weight));
  if (tenant.quota) {
    FlowMap rate, quota;
    rate.add("guarantee", tenant.quota->guarantee);
    rate.add("nominal", tenant.quota->nominal);
    rate.add("ceiling", tenant.quota->ceiling);
    if (!rate.empty()) quota.add("tokens_per_min", rate.text());
    if (tenant.quota->concurrent) quota.add("concurrent", std::to_string(*tenant.quota->concurrent));
    map.add("quota", quota.text());
  }
  return "  - " + map.text() + "\n";
}

std::string clients_text(const ClientsSpec& spec) {
  FlowMap map;
  if (spec.users > 0) map.add("users", std::optional(spec.users));
  if (spec.think_s > 0) map.add("think_s", std::optional(spec.think_s));
  const std::pair<const char*, bool> flags[] = {
      {"exponential_think", spec.exponential_think}, {"lock_step", spec.lock_step}, {"sessions", spec.sessions}};
  for (const auto& [key, set] : flags)
    if (set) map.add(key, std::string("true"));
  map.add("first_token_timeout_s", spec.first_token_timeout_s);
  map.add("timeout_s", spec.timeout_s);
  if (spec.retries > 0) map.add("retries", std::optional(spec.retries));
  map.add("backoff_s", std::optional(spec.backoff_s));
  return map.text();
}

}  // namespace

std::string to_yaml(const FleetFile& fleet, const std::string& comment) {
  std::string out;
  for (const std::string_view line : split(comment, '\n'))
    if (!line.empty()) out += fmt::format("# {}\n", line);
  out += fmt::format("fleet: {}\npools:\n", scalar(fleet.fleet));
  for (const PoolSpec& pool : fleet.pools) out += pool_text(pool);
  if (!fleet.classes.empty()) out += "classes:\n";
  for (const ClassSpec& spec : fleet.classes) {
    FlowMap map;
    map.add("name", scalar(spec.name));
    map.add("rank", std::optional(spec.rank));
    if (!spec.pool.empty()) map.add("pool", scalar(spec.pool));
    if (spec.preemptible) map.add("preemptible", std::string("true"));
    map.add("deadline_s", spec.deadline_s);
    if (spec.floor > 0) map.add("floor", std::optional(spec.floor));
    if (spec.slo.any()) map.add("slo", slo_text(spec.slo));
    out += "  - " + map.text() + "\n";
  }
  if (!fleet.tenants.empty()) out += "tenants:\n";
  for (const TenantSpec& tenant : fleet.tenants) out += tenant_text(tenant);
  FlowMap routing;
  routing.add("policy", scalar(fleet.routing_policy));
  if (fleet.prefix_affinity) routing.add("prefix_affinity", std::string("true"));
  routing.add("zone_affinity", scalar(fleet.zone_affinity));
  routing.add("metrics_lag_ms", fleet.metrics_lag_ms);
  out += fmt::format("routing: {}\n", routing.text());
  if (fleet.clients) out += fmt::format("clients: {}\n", clients_text(*fleet.clients));
  if (fleet.disaggregation) {
    const DisaggregationSpec& spec = *fleet.disaggregation;
    FlowMap map;
    map.add("prefill", scalar(spec.prefill));
    map.add("decode", scalar(spec.decode));
    map.add("link_gb_s", std::optional(spec.link_gb_s));
    if (spec.link_latency_ms > 0) map.add("link_latency_ms", std::optional(spec.link_latency_ms));
    out += fmt::format("disaggregation: {}\n", map.text());
  }
  if (!fleet.faults.empty()) out += "faults:\n";
  for (const FaultSpec& fault : fleet.faults) {
    FlowMap map;
    map.add("at_s", std::optional(fault.at_s));
    map.add("kind", scalar(fault.kind));
    if (!fault.zone.empty()) map.add("zone", scalar(fault.zone));
    map.add("replica", fault.replica);
    if (fault.for_s > 0) map.add("for_s", std::optional(fault.for_s));
    out += "  - " + map.text() + "\n";
  }
  return out;
}

}  // namespace muster::app
