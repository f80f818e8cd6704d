#include "fleet_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/core/digest.h"
#include "muster/core/text.h"
#include "muster/sim/prefill_budget.h"

namespace muster::app {

Result<std::unique_ptr<PreparedPool>> prepare(const PoolSpec& spec, const Catalogues& catalogues) {
  auto pool = std::make_unique<PreparedPool>();
  pool->spec = spec;
  MUSTER_TRY(pool->model, catalogues.models.find(spec.model));
  MUSTER_TRY(pool->gpu, catalogues.devices.find(spec.gpu));
  MUSTER_TRY(const cost::EngineVersion version, cost::parse_engine(spec.engine));
  MUSTER_TRY(const cost::EngineProfile engine, cost::engine_profile(version));
  MUSTER_TRY(const model::Dtype weights, parse_precision(spec.precision, fmt::format("pool {}: precision", spec.name)));
  model::Dtype kv =
      weights == model::Dtype::kFp32 || weights == model::Dtype::kTf32 ? model::Dtype::kFp32 : model::Dtype::kBf16;
  if (!spec.kv_precision.empty()) {
    MUSTER_TRY(kv, parse_precision(spec.kv_precision, fmt::format("pool {}: kv_precision", spec.name)));
  }
  pool->deployment = {.model = &pool->model,
                      .gpu = &pool->gpu,
                      .engine = engine,
                      .layout = {.tp = spec.tp, .pp = spec.pp, .dp = 1, .ep = spec.ep},
                      .precision = {weights, kv},
                      .max_model_len = spec.max_model_len,
                      .max_num_batched_tokens = spec.max_num_batched_tokens,
                      .max_num_seqs = spec.max_num_seqs,
                      .memory_fraction = spec.memory_fraction,
                      .kv_blocks = spec.kv_blocks};
  std::optional<std::string> refusal = cost::refuse_layout(pool->model, pool->deployment.layout);
  if (!refusal) refusal = cost::refuse_device(pool->gpu, pool->deployment.layout, pool->deployment.precision);
  if (!refusal) {
    pool->memory = cost::memory(pool->deployment);
    if (!pool->memory.fits) refusal = pool->memory.why;
  }
  if (refusal)
    return std::unexpected(
        Error{fmt::format("pool {}: {} in {} does not run as {} on {}: {}", spec.name, pool->model.key, spec.precision,
                          cost::text(pool->deployment.layout), pool->gpu.key, *refusal),
              Error::Kind::kNo});
  pool->step.emplace(cost::StepModel::make(pool->deployment));
  pool->timer = std::make_unique<sim::CostStepTimer>(*pool->step);
  return pool;
}

sim::Scenario scenario(const PreparedPool& pool, int replicas, int standby_per_zone) {
  const cost::EngineProfile& engine = pool.deployment.engine;
  sim::Scenario s;
  s.kind.step = pool.timer.get();
  // The names of the engines are those of their default schedulers.
  const std::string& scheduler = pool.spec.scheduler.empty() ? engine.version.engine : pool.spec.scheduler;
  s.kind.scheduler = sched::parse_scheduler(scheduler).value_or(sched::SchedulerKind::kVllm);
  s.kind.limits = {.max_num_batched_tokens = cost::max_num_batched_tokens(pool.deployment),
                   .max_num_seqs = cost::max_num_seqs(pool.deployment),
                   .kv_blocks = std::max<std::int64_t>(1, pool.memory.kv_tokens.value / engine.kv_block_tokens),
                   .kv_block_tokens = engine.kv_block_tokens,
                   .steps_in_flight_max = pool.step->stages(),
                   .prefix_caching = pool.spec.prefix_caching};
  s.kind.gpus = pool.deployment.layout.gpus_per_replica();
  s.kind.cold_start = from_seconds(pool.spec.cold_s);
  s.kind.warm_start = from_seconds(pool.spec.warm_s);
  s.zones = pool.spec.zones;
  const auto zones = static_cast<int>(s.zones.size());
  for (int i = 0; i < replicas; ++i)
    s.replicas.push_back({.zone = static_cast<std::uint32_t>(i % zones), .standby = false});
  for (int i = 0; i < standby_per_zone * zones; ++i)
    s.replicas.push_back({.zone = static_cast<std::uint32_t>(i % zones), .standby = true});
  s.policy.running_max = static_cast<std::uint32_t>(s.kind.limits.max_num_seqs);
  s.classes = {{.name = "all", .rank = 0, .slo = {}}};
  return s;
}

sim::RequestSlo request_slo(const SloTargets& slo) {
  const auto duration = [](const std::optional<double>& ms) -> std::optional<Duration> {
    if (!ms) return std::nullopt;
    return from_seconds(*ms / 1e3);
  };
  return {.queue_wait = duration(slo.queue_wait_p95_ms),
          .ttft = duration(slo.ttft_p95_ms),
          .tpot = duration(slo.tpot_p95_ms),
          .e2e = duration(slo.e2e_p95_ms)};
}

namespace {

// muster's own scheduler keeps the strictest TPOT target by giving prompts no more of a step than that allows.
void limit_prefills(const std::vector<sim::RequestClass>& classes, sim::ReplicaKind& kind) {
  for (const sim::RequestClass& c : classes) {
    if (kind.scheduler != sched::SchedulerKind::kMuster || !c.slo.tpot) continue;
    const std::int64_t tokens = sim::prefill_tokens_within(*c.slo.tpot, *kind.step, kind.limits);
    std::int64_t& limit = kind.limits.prefill_tokens_while_decoding;
    limit = limit == 0 ? tokens : std::min(limit, tokens);
  }
}

sim::ClientBehaviour client_behaviour(const ClientsSpec& spec) {
  const auto duration = [](const std::optional<double>& seconds) -> std::optional<Duration> {
    if (!seconds) return std::nullopt;
    return from_seconds(*seconds);
  };
  return {.users = static_cast<std::uint32_t>(spec.users),
          .think = from_seconds(spec.think_s),
          .exponential_think = spec.exponential_think,
          .lock_step = spec.lock_step,
          .sessions = spec.sessions,
          .first_token_timeout = duration(spec.first_token_timeout_s),
          .timeout = duration(spec.timeout_s),
          .retries_max = static_cast<std::uint32_t>(spec.retries),
          .retry_backoff = from_seconds(spec.backoff_s)};
}

}  // namespace

Result<void> apply(const FleetFile& fleet, const workload::Trace& trace, sim::Scenario& s) {
  s.policy.routing = policy::parse_routing(fleet.routing_policy).value_or(policy::Routing::kLeastWork);
  s.policy.zone_affinity =
      fleet.zone_affinity == "prefer" ? policy::ZoneAffinity::kPrefer : policy::ZoneAffinity::kIgnore;
  s.policy.prefix_affinity = fleet.prefix_affinity;
  if (fleet.metrics_lag_ms) s.policy.metrics_lag = from_seconds(*fleet.metrics_lag_ms / 1e3);
  if (!fleet.classes.empty()) s.classes.clear();
  for (const ClassSpec& spec : fleet.classes)
    s.classes.push_back({.name = spec.name, .rank = spec.rank, .slo = request_slo(spec.slo)});
  limit_prefills(s.classes, s.kind);
  for (sim::Pool& pool : s.more_pools) {
    pool.policy.routing = s.policy.routing;
    pool.policy.metrics_lag = s.policy.metrics_lag;
    pool.policy.prefix_affinity = s.policy.prefix_affinity;
    pool.policy.zone_affinity = s.policy.zone_affinity;
    limit_prefills(s.classes, pool.kind);
  }
  if (fleet.clients) s.clients = client_behaviour(*fleet.clients);
  for (const std::string& name : trace.tenants) {
    const auto tenant = std::ranges::find(fleet.tenants, name, &TenantSpec::name);
    if (tenant == fleet.tenants.end()) {
      if (fleet.tenants.empty()) break;  // a fleet without tenants serves everybody alike
      std::vector<std::string> names;
      for (const TenantSpec& t : fleet.tenants) names.push_back(t.name);
      return fail("{}: tenant '{}' is not in the fleet file{}", trace.source, name, did_you_mean(name, names));
    }
    const auto at = std::ranges::find(fleet.classes, tenant->request_class, &ClassSpec::name);
    s.class_of_tenant.push_back(static_cast<std::uint32_t>(at - fleet.classes.begin()));
  }
  for (const FaultSpec& spec : fleet.faults) {
    sim::Fault fault{.at = Instant(from_seconds(spec.at_s)), .lasts = from_seconds(spec.for_s)};
    if (spec.kind == "zone_loss") {
      const auto zone = std::ranges::find(s.zones, spec.zone);
      if (zone == s.zones.end()) continue;  // another pool's zone
      fault.kind = sim::Fault::Kind::kZoneLoss;
      fault.target = static_cast<std::uint32_t>(zone - s.zones.begin());
    } else {
      fault.kind = sim::Fault::Kind::kReplicaLoss;
      if (static_cast<std::size_t>(*spec.replica) >= s.replicas.size())
        return fail("faults: replica {} does not exist; the fleet has {} (0 to {})", *spec.replica, s.replicas.size(),
                    s.replicas.size() - 1);
      fault.target = static_cast<std::uint32_t>(*spec.replica);
    }
    s.faults.push_back(fault);
  }
  return {};
}

report::Latency latency(const QuantileSketch& sketch) {
  return {.mean = sketch.mean(),
          .p50 = sketch.quantile(0.5),
          .p90 = sketch.quantile(0.9),
          .p95 = sketch.quantile(0.95),
          .p99 = sketch.quantile(0.99),
          .max = sketch.max()};
}

namespace {

report::GroupMetrics group(const std::string& name, const sim::ClassOutcome& c, double duration_s) {
  return {.name = name,
          .requests = c.requests,
          .completed = c.completed,
          .rejected = c.rejected,
          .timed_out = c.timed_out,
          .ttft_ms = latency(c.ttft_ms),
          .tpot_ms = latency(c.tpot_ms),
          .e2e_ms = latency(c.e2e_ms),
          .queue_wait_ms = latency(c.queue_wait_ms),
          .output_tok_s = duration_s > 0 ? static_cast<double>(c.output_tokens) / duration_s : 0,
          .slo_attainment = c.requests > 0 ? static_cast<double>(c.attained) / static_cast<double>(c.requests) : 1};
}

std::vector<std::pair<double, double>> cdf(const QuantileSketch& sketch) {
  constexpr int kPoints = 200;
  std::vector<std::pair<double, double>> points;
  if (sketch.count() == 0) return points;
  for (int i = 0; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    points.emplace_back(sketch.quantile(share), share);
  }
  return points;
}

}  // namespace

namespace {

sim::ClassOutcome outcome_of_pool(const sim::Scenario& s, const sim::Outcome& o, std::uint32_t pool) {
  sim::ClassOutcome sum;
  for (std::size_t i = 0; i < o.classes.size(); ++i)
    if (s.pool_of_class[i] == pool) sum.add(o.classes[i]);
  return sum;
}

}  // namespace

report::RunMetrics metrics(const sim::Scenario& s, const sim::Outcome& o, std::optional<double> usd_per_gpu_h,
                           const std::string& pool_name) {
  const double seconds = to_seconds(o.duration);
  double gpus = 0;
  for (const sim::ReplicaPlace& place : s.replicas) gpus += s.kind_of(place.pool).gpus;
  if (!s.scaling.empty() && seconds > 0) gpus = o.gpu_seconds / seconds;  // as many as there were on average
  const auto per_second = [&](double n) { return seconds > 0 ? n / seconds : 0; };
  const report::GroupMetrics all = group(pool_name, o.all, seconds);
  report::RunMetrics m{.load = harness(s.clients),
                       .requests = o.requests,
                       .completed = o.completed,
                       .rejected = o.rejected,
                       .preempted = o.preempted,
                       .timed_out = o.timed_out,
                       .retries = o.retries,
                       .wasted_output_tokens = o.wasted_output_tokens,
                       .duration_s = seconds,
                       .ttft_ms = all.ttft_ms,
                       .tpot_ms = all.tpot_ms,
                       .e2e_ms = all.e2e_ms,
                       .queue_wait_ms = all.queue_wait_ms,
                       .output_tok_s = per_second(static_cast<double>(o.output_tokens)),
                       .total_tok_s = per_second(static_cast<double>(o.output_tokens + o.input_tokens)),
                       .slo_attainment = all.slo_attainment,
                       .gpu_hours = o.gpu_seconds / 3600,
                       .steps = o.steps,
                       .digest = fmt::format("{:016x}", o.digest)};
  if (o.stage_busy_seconds.size() > 1 && o.occupied_seconds > 0) {
    double busy = 0;
    for (const double seconds_busy : o.stage_busy_seconds) {
      m.stages.push_back({.busy = seconds_busy / o.occupied_seconds});
      busy += m.stages.back().busy;
    }
    m.bubble_share = 1 - busy / static_cast<double>(m.stages.size());
  }
  if (s.disaggregation) {
    const sim::KvTransferFigures& t = o.kv_transfers;
    const double each_ms = t.transfers > 0 ? 1e3 / static_cast<double>(t.transfers) : 0;
    m.kv_transfers = {.transfers = t.transfers,
                      .gib = t.bytes / (1 << 30),
                      .mean_wait_ms = t.waited_seconds * each_ms,
                      .mean_ms = t.moving_seconds * each_ms};
  }
  if (o.prefix_tokens_queried > 0)
    m.prefix_cache = {.queried_tokens = static_cast<double>(o.prefix_tokens_queried),
                      .hit_tokens = static_cast<double>(o.prefix_tokens_hit)};
  m.output_tok_s_per_gpu = gpus > 0 ? m.output_tok_s / gpus : 0;
  m.goodput_rps = per_second(static_cast<double>(o.completed)) * all.slo_attainment;
  if (usd_per_gpu_h) m.usd = *usd_per_gpu_h * m.gpu_hours;
  for (std::size_t i = 0; i < o.classes.size(); ++i)
    m.classes.push_back(group(s.classes[i].name, o.classes[i], seconds));
  if (s.pool_of_class.empty()) {
    m.pools.push_back(all);
  } else {
    for (std::uint32_t pool = 0; pool < s.pools(); ++pool) {
      const std::string& name = pool == 0 ? pool_name : s.more_pools[pool - 1].name;
      m.pools.push_back(group(name, outcome_of_pool(s, o, pool), seconds));
    }
  }
  for (const sim::FleetEvent& e : o.log)
    m.events.push_back({.at_s = to_seconds(e.at.time_since_epoch()), .kind = e.kind, .text = e.text});
  return m;
}

report::RunPlots plots(const sim::Scenario& s, const sim::Outcome& o) {
  report::RunPlots p;
  if (o.samples.size() > 1) p.interval_s = to_seconds(o.samples[1].at - o.samples[0].at);
  for (std::size_t r = 0; r < s.replicas.size(); ++r)
    p.replicas.push_back(
        {.name = fmt::format("{}/{}{}", s.zones[s.replicas[r].zone], r, s.replicas[r].standby ? " standby" : "")});
  for (const sim::Sample& sample : o.samples) {
    p.arrivals_rps.push_back(p.interval_s > 0 ? sample.arrivals / p.interval_s : 0);
    p.queued.push_back(sample.queued);
    p.ready_replicas.push_back(sample.ready_replicas);
    for (std::size_t r = 0; r < s.replicas.size(); ++r) {
      p.replicas[r].batch.push_back(sample.running[r]);
      p.replicas[r].kv_share.push_back(static_cast<double>(sample.kv_share[r]));
    }
  }
  p.queue_wait_cdf = cdf(o.all.queue_wait_ms);
  p.ttft_cdf = cdf(o.all.ttft_ms);
  p.e2e_cdf = cdf(o.all.e2e_ms);
  p.tpot_cdf = cdf(o.all.tpot_ms);
  return p;
}

std::vector<report::Slo> slo_rows(const SloTargets& slo, const sim::ClassOutcome& o) {
  std::vector<report::Slo> rows;
  const auto add = [&](std::string_view name, const std::optional<double>& target, const QuantileSketch& sketch) {
    if (target) rows.push_back({.name = std::string(name), .target_ms = *target, .measured_ms = sketch.quantile(0.95)});
  };
  add("queue_wait_p95_ms", slo.queue_wait_p95_ms, o.queue_wait_ms);
  add("ttft_p95_ms", slo.ttft_p95_ms, o.ttft_ms);
  add("tpot_p95_ms", slo.tpot_p95_ms, o.tpot_ms);
  add("e2e_p95_ms", slo.e2e_p95_ms, o.e2e_ms);
  return rows;
}

bool meets(const SloTargets& slo, const sim::ClassOutcome& o) {
  if (o.completed < o.requests) return false;  // a request that never finished met nothing
  return std::ranges::all_of(slo_rows(slo, o),
                             [](const report::Slo& row) { return *row.measured_ms <= row.target_ms; });
}

}  // namespace muster::app
