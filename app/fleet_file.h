// fleet.yaml: the input of simulate (and of serve and deploy), the output of size. docs/formats/fleet.md describes it;
// data/schema/fleet.schema.json is its JSON Schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/result.h"

namespace muster::app {

struct SloTargets {  // p95, milliseconds; nullopt: no target
  std::optional<double> queue_wait_p95_ms, ttft_p95_ms, tpot_p95_ms, e2e_p95_ms;
  bool any() const { return queue_wait_p95_ms || ttft_p95_ms || tpot_p95_ms || e2e_p95_ms; }
};

struct PoolSpec {
  std::string name;
  std::string model;
  std::string engine;
  std::string scheduler;  // whose rules form the batches; empty: the engine's own
  std::string gpu;
  std::string precision = "bf16";
  std::string kv_precision;  // empty: the engine's auto
  int tp = 1, pp = 1, ep = 1;
  int replicas_initial = 1;
  std::optional<int> replicas_min, replicas_max;
  int standby_per_zone = 0;
  std::vector<std::string> zones = {"a"};
  double cold_s = 150, warm_s = 6;  // start-up of a replica
  int max_model_len = 0, max_num_seqs = 0, max_num_batched_tokens = 0;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> kv_blocks;
  bool prefix_caching = true;  // of traces that carry block ids; the engines' default
  struct Autoscale {
    std::string rule;  // "muster", "hpa-queue", "hpa-utilisation", "keda"; empty: not simulated
    std::optional<double> queue_wait_p95_ms, tpot_degradation, gpu_utilisation, headroom;
    std::optional<double> queue_per_replica;  // hpa-queue, keda: requests waiting
  };
  std::optional<Autoscale> autoscale;
};

struct ClassSpec {
  std::string name;
  int rank = 0;
  std::string pool;  // that serves it; empty: the only one, or the first of a disaggregated pair
  bool preemptible = false;
  std::optional<double> deadline_s;
  double floor = 0;
  SloTargets slo;
};

struct TenantSpec {
  std::string name;
  std::string request_class;
  double weight = 1;
  struct Quota {
    std::optional<double> guarantee, nominal, ceiling;  // tokens per minute
    std::optional<std::int64_t> concurrent;
  };
  std::optional<Quota> quota;
};

struct FaultSpec {
  double at_s = 0;
  std::string kind;            // "zone_loss", "replica_loss"
  std::string zone;            // for zone_loss
  std::optional<int> replica;  // for replica_loss: its index
  double for_s = 0;            // 0: until the end
};

// How clients send, for simulate. Seconds.
struct ClientsSpec {
  int users = 0;  // closed loop; 0: open loop
  double think_s = 0;
  bool exponential_think = false, lock_step = false;
  bool sessions = false;  // turn k + 1 is sent after the answer to turn k
  std::optional<double> first_token_timeout_s, timeout_s;
  int retries = 0;
  double backoff_s = 1;
};

// One pool prefills, the other decodes; KV caches move over a link that each replica has for itself.
struct DisaggregationSpec {
  std::string prefill, decode;  // pools
  double link_gb_s = 0;         // 1e9 bytes per second, out of and into each replica
  double link_latency_ms = 0;
};

struct FleetFile {
  std::string fleet;
  std::vector<PoolSpec> pools;
  std::vector<ClassSpec> classes;
  std::vector<TenantSpec> tenants;
  std::string routing_policy = "least-work";
  bool prefix_affinity = false;
  std::string zone_affinity = "ignore";
  std::optional<double> metrics_lag_ms;  // routers see loads as old as this
  std::vector<FaultSpec> faults;
  std::optional<ClientsSpec> clients;
  std::optional<DisaggregationSpec> disaggregation;
};

// The scaling rules that simulate knows.
std::vector<std::string> scaling_rules();

// Fails with file, line, field, the value found and the value needed; unknown keys with "did you mean".
Result<FleetFile> read_fleet(const std::string& path);
Result<FleetFile> parse_fleet(std::string_view text, const std::string& file_name);
// `comment`: lines put at the top, each behind "# ".
std::string to_yaml(const FleetFile& fleet, const std::string& comment);

// What the file asks for and simulate does not act on yet, one line each.
std::vector<std::string> not_simulated(const FleetFile& fleet);

}  // namespace muster::app
