#include "muster/report/json.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "json_value.h"

namespace muster::report {

using Json = nlohmann::ordered_json;

Json number_json(double x, int digits) {
  if (!std::isfinite(x)) return nullptr;
  constexpr double kExact = 9007199254740992.0;  // 2^53: up to here every integer is a double
  if (x == std::trunc(x) && std::abs(x) < kExact) return static_cast<std::int64_t>(x);
  char text[40];
  std::snprintf(text, sizeof text, "%.*e", digits - 1, x);
  const double rounded = std::strtod(text, nullptr);
  if (rounded == std::trunc(rounded) && std::abs(rounded) < kExact) return static_cast<std::int64_t>(rounded);
  return rounded;
}

std::string dump(const Json& document, int indent) {
  // Bytes that are not UTF-8 become U+FFFD: names come from files.
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

namespace {

Json num(double x) {
  return number_json(x, 6);
}
Json num(const std::optional<double>& x) {
  return x ? num(*x) : Json(nullptr);
}
Json nums(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double x : values) list.push_back(num(x));
  return list;
}
template <class T>
Json list_of(const std::vector<T>& items, Json (*to)(const T&)) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to(item));
  return list;
}
std::string document(const Json& json) {
  return dump(json, 2) + "\n";
}

template <class Summary>  // Latency or Lengths
Json summary(const Summary& s) {
  return {{"mean", num(s.mean)}, {"p50", num(s.p50)}, {"p90", num(s.p90)},
          {"p95", num(s.p95)},   {"p99", num(s.p99)}, {"max", num(s.max)}};
}

Json group(const GroupMetrics& g) {
  return {{"name", g.name},
          {"requests", g.requests},
          {"completed", g.completed},
          {"rejected", g.rejected},
          {"timed_out", g.timed_out},
          {"ttft_ms", summary(g.ttft_ms)},
          {"tpot_ms", summary(g.tpot_ms)},
          {"e2e_ms", summary(g.e2e_ms)},
          {"queue_wait_ms", summary(g.queue_wait_ms)},
          {"output_tok_s", num(g.output_tok_s)},
          {"slo_attainment", num(g.slo_attainment)}};
}

Json event(const Event& e) {
  return {{"at_s", num(e.at_s)}, {"kind", e.kind}, {"text", e.text}};
}

Json ttft_parts(const TtftParts& parts) {
  return {{"client", num(parts.client_ms)},
          {"ingress", num(parts.ingress_ms)},
          {"queue", num(parts.queue_ms)},
          {"schedule_to_first_token", num(parts.schedule_to_first_token_ms)},
          {"response", num(parts.response_ms)}};
}

Json kv_transfers(const KvTransferMetrics& t) {
  return {{"transfers", t.transfers},
          {"gib", num(t.gib)},
          {"mean_wait_ms", num(t.mean_wait_ms)},
          {"mean_ms", num(t.mean_ms)}};
}

Json prefix_cache(const PrefixCacheMetrics& p) {
  return {
      {"queried_tokens", num(p.queried_tokens)}, {"hit_tokens", num(p.hit_tokens)}, {"hit_rate", num(p.hit_rate())}};
}

Json stage_metrics(const StageMetrics& s) {
  return {{"busy", num(s.busy)}};
}

Json run_json(const RunMetrics& r) {
  Json json = {{"load", r.load},
               {"requests", r.requests},
               {"completed", r.completed},
               {"rejected", r.rejected},
               {"preempted", r.preempted},
               {"timed_out", r.timed_out},
               {"retries", r.retries},
               {"wasted_output_tokens", r.wasted_output_tokens},
               {"kv_transfers", r.kv_transfers ? kv_transfers(*r.kv_transfers) : Json(nullptr)},
               {"prefix_cache", r.prefix_cache ? prefix_cache(*r.prefix_cache) : Json(nullptr)},
               {"duration_s", num(r.duration_s)},
               {"ttft_ms", summary(r.ttft_ms)},
               {"tpot_ms", summary(r.tpot_ms)},
               {"e2e_ms", summary(r.e2e_ms)},
               {"queue_wait_ms", summary(r.queue_wait_ms)},
               {"ttft_parts_ms", r.ttft_parts ? ttft_parts(*r.ttft_parts) : Json(nullptr)},
               {"output_tok_s", num(r.output_tok_s)},
               {"total_tok_s", num(r.total_tok_s)},
               {"output_tok_s_per_gpu", num(r.output_tok_s_per_gpu)},
               {"slo_attainment", num(r.slo_attainment)},
               {"goodput_rps", num(r.goodput_rps)},
               {"gpu_hours", num(r.gpu_hours)},
               {"usd", num(r.usd)},
               {"stages", list_of(r.stages, stage_metrics)},
               {"bubble_share", num(r.bubble_share)},
               {"steps", r.steps},
               {"wall_s", num(r.wall_s)},
               {"requests_per_wall_s", num(r.requests_per_wall_s())},
               {"steps_per_wall_s", num(r.steps_per_wall_s())},
               {"digest", r.digest},
               {"classes", list_of(r.classes, group)},
               {"tenants", list_of(r.tenants, group)},
               {"pools", list_of(r.pools, group)},
               {"events", list_of(r.events, event)}};
  if (r.uncertainty) json["uncertainty"] = uncertainty_document(*r.uncertainty);
  return json;
}

Json traffic_json(const Traffic& t) {
  return {{"source", t.source},
          {"requests", t.requests},
          {"span_s", num(t.span_s)},
          {"rate_rps", num(t.rate_rps)},
          {"interarrival_cv", num(t.interarrival_cv)},
          {"dispersion", num(t.dispersion)},
          {"peak_rate_rps", num(t.peak_rate_rps)},
          {"peak_begin_s", num(t.peak_begin_s)},
          {"peak_window_s", num(t.peak_window_s)},
          {"input_tokens", summary(t.input)},
          {"output_tokens", summary(t.output)},
          {"context_tokens", summary(t.context)},
          {"prefix_reuse", num(t.prefix_reuse)},
          {"sessions", t.sessions},
          {"turns_per_session", num(t.turns_per_session)},
          {"rate_window_s", num(t.rate_window_s)},
          {"rate_curve_rps", nums(t.rate_curve_rps)}};
}

Json stage(const StageRow& s) {
  return {{"layers", s.layers},
          {"weights_gib", num(s.weights_gib)},
          {"activation_gib", num(s.activation_gib)},
          {"non_torch_gib", num(s.non_torch_gib)},
          {"graph_gib", num(s.graph_gib)},
          {"kv_gib", num(s.kv_gib)},
          {"free_gib", num(s.free_gib)}};
}

Json candidate(const Candidate& c) {
  return {{"gpu", c.gpu},
          {"precision", c.precision},
          {"kv_precision", c.kv_precision},
          {"tp", c.tp},
          {"pp", c.pp},
          {"dp", c.dp},
          {"ep", c.ep},
          {"gpus", c.gpus},
          {"fits", c.fits},
          {"stages", list_of(c.stages, stage)},
          {"weights_gib", num(c.weights_gib)},
          {"activation_gib", num(c.activation_gib)},
          {"non_torch_gib", num(c.non_torch_gib)},
          {"graph_gib", num(c.graph_gib)},
          {"kv_gib", num(c.kv_gib)},
          {"kv_tokens", c.kv_tokens},
          {"max_concurrency", num(c.max_concurrency)},
          {"ttft_ms", num(c.ttft_ms)},
          {"tpot_ms", num(c.tpot_ms)},
          {"output_tok_s", num(c.output_tok_s)},
          {"output_tok_s_per_gpu", num(c.output_tok_s_per_gpu)},
          {"usd_h", num(c.usd_h)},
          {"usd_per_mtok", num(c.usd_per_mtok)},
          {"binding", c.binding},
          {"why", c.why},
          {"provenance", c.provenance},
          {"error_band", num(c.error_band)}};
}

Json option(const Option& o) {
  return {{"option", o.option}, {"verdict", o.verdict}, {"code", o.code}, {"why", o.why}};
}
Json relaxation(const Relaxation& r) {
  return {{"change", r.change}, {"effect", r.effect}};
}
Json slo(const Slo& s) {
  return {{"name", s.name}, {"target_ms", num(s.target_ms)}, {"measured_ms", num(s.measured_ms)}};
}
Json phase(const Phase& p) {
  return {{"name", p.name}, {"wall_s", num(p.wall_s)}};
}
Json step(const SizeStep& s) {
  return {{"replicas", s.replicas},
          {"seeds", s.seeds},
          {"seeds_meeting", s.seeds_meeting},
          {"p95_latency_ms", num(s.p95_latency_ms)},
          {"half_width_ms", num(s.half_width_ms)},
          {"slo_attainment", num(s.slo_attainment)}};
}
Json speed(const PercentileSpeed& s) {
  return {{"percentile", s.percentile},
          {"context_tokens", num(s.context_tokens)},
          {"input_tokens", num(s.input_tokens)},
          {"output_tokens", num(s.output_tokens)},
          {"concurrency", num(s.concurrency)},
          {"output_tok_s", num(s.output_tok_s)},
          {"tpot_ms", num(s.tpot_ms)}};
}
Json price(const PriceQuote& p) {
  return {{"usd_per_gpu_h", num(p.usd_per_gpu_h)}, {"provider", p.provider}, {"source", p.source}, {"date", p.date}};
}

// A run that did not take place (N - 1 of one replica, no zones) is null.
Json evidence_run(const RunMetrics& run) {
  return run.requests == 0 ? Json(nullptr) : run_json(run);
}

Json evidence(const Size& s) {
  Json zone_loss = evidence_run(s.zone_loss);
  if (!zone_loss.is_null()) zone_loss["meets_slo"] = s.zone_loss_meets_slo;
  return {{"at_n", evidence_run(s.at_n)},
          {"at_n_minus_1", evidence_run(s.at_n_minus_1)},
          {"zone_loss", std::move(zone_loss)}};
}

}  // namespace

Json run_document(const RunMetrics& run) {
  return run_json(run);
}

std::string to_json(const RunMetrics& run) {
  return document(run_json(run));
}
std::string to_json(const Traffic& traffic) {
  return document(traffic_json(traffic));
}

std::string to_json(const Plan& plan) {
  return document({{"model", plan.model},
                   {"engine", plan.engine},
                   {"engine_version", plan.engine_version},
                   {"candidates", list_of(plan.candidates, candidate)},
                   {"options", list_of(plan.options, option)}});
}

std::string to_json(const Size& s) {
  return document({{"fleet", s.fleet},
                   {"model", s.model},
                   {"engine", s.engine},
                   {"replicas", s.replicas},
                   {"replicas_for_slo", s.replicas_for_slo},
                   {"standby", s.standby},
                   {"gpus", s.gpus},
                   {"layout", candidate(s.layout)},
                   {"zones", s.zones},
                   {"replicas_per_zone", s.replicas_per_zone},
                   {"headroom", num(s.headroom)},
                   {"usd_h", num(s.usd_h)},
                   {"usd_per_mtok", num(s.usd_per_mtok)},
                   {"price", price(s.price)},
                   {"binding", s.binding},
                   {"relax", list_of(s.relax, relaxation)},
                   {"confidence", {{"replicas_for_slo", s.replicas_for_slo}, {"replicas_at_95", s.replicas_at_95}}},
                   {"slos", list_of(s.slos, slo)},
                   {"sizing_target", s.sizing_target},
                   {"steps", list_of(s.steps, step)},
                   {"evidence", evidence(s)},
                   {"traffic", traffic_json(s.traffic)},
                   {"speeds", list_of(s.speeds, speed)},
                   {"considered", list_of(s.considered, candidate)},
                   {"paragraph", s.paragraph},
                   {"fleet_file", s.fleet_file},
                   {"phases", list_of(s.phases, phase)}});
}

}  // namespace muster::report
