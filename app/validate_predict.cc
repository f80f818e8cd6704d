#include "validate_predict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "attention_dp_timer.h"
#include "muster/core/rng.h"
#include "muster/planner/planner.h"
#include "muster/sim/simulation.h"

namespace muster::app {
namespace {

// Everything that a run of one case points to.
struct Prepared {
  model::ModelSpec model;
  hardware::Gpu gpu;
  cost::Deployment deployment;
  cost::MemoryVerdict memory;
  std::optional<cost::StepModel> step;  // absent for attention data parallelism
  std::unique_ptr<sim::StepTimer> timer;
};

Result<cost::EngineProfile> profile(const ValidationCase& c) {
  MUSTER_TRY(cost::EngineProfile engine, cost::engine_profile(c.engine));
  if (c.asynchronous_scheduling && !engine.asynchronous_scheduling) {
    // The flag was there before it became the default: memory as of this version, host times as of the next.
    MUSTER_TRY(const cost::EngineProfile later, cost::engine_profile({c.engine.engine, "0.14"}));
    engine.asynchronous_scheduling = later.asynchronous_scheduling;
    engine.host_fixed = later.host_fixed;
    engine.host_per_sequence = later.host_per_sequence;
    engine.host_per_prefill_token_ns = later.host_per_prefill_token_ns;
    engine.host_serial_fixed = later.host_serial_fixed;
    engine.host_serial_per_sequence = later.host_serial_per_sequence;
  }
  return engine;
}

// The best layout of so many GPUs: replicas as small as throughput wants them.
Result<void> choose_layout(const ValidationCase& c, Prepared& p, int& copies) {
  planner::Question question{.model = &p.model,
                             .gpus = {p.gpu},
                             .engine = p.deployment.engine,
                             .precisions = {p.deployment.precision.weights},
                             .kv = p.deployment.precision.kv,
                             .gpus_per_replica_max = std::min(8, c.gpus_assumed_for),
                             .input_tokens = c.isl,
                             .output_tokens = c.osl,
                             .max_model_len = p.deployment.max_model_len,
                             .max_num_batched_tokens = p.deployment.max_num_batched_tokens,
                             .max_num_seqs = p.deployment.max_num_seqs,
                             .memory_fraction = p.deployment.memory_fraction};
  const std::vector<planner::Candidate> candidates = planner::enumerate(question);
  if (candidates.empty()) return fail("no layout to try");
  if (!candidates.front().fits) return fail("{}", candidates.front().why);
  p.deployment.layout = candidates.front().layout;
  copies = std::max(1, c.gpus_assumed_for / p.deployment.layout.gpus_per_replica());
  return {};
}

Result<void> prepare_memory(Prepared& p) {
  cost::Deployment& d = p.deployment;
  const cost::Layout whole{.tp = d.layout.tp * d.layout.dp, .pp = d.layout.pp, .ep = d.layout.ep};
  for (const cost::Layout& layout : {cost::Layout{.tp = d.layout.tp, .pp = d.layout.pp}, whole}) {
    if (const auto refusal = cost::refuse_layout(p.model, layout)) return fail("layout refused: {}", *refusal);
  }
  if (const auto refusal = cost::refuse_device(p.gpu, whole, d.precision)) return fail("layout refused: {}", *refusal);
  p.memory = d.layout.dp > 1 ? attention_dp_memory(d) : cost::memory(d);
  return {};
}

// The engine of a row that ran must have fitted: when the engine's default fraction or context does not, take what
// does.
void relax_until_it_fits(const ValidationCase& c, Prepared& p, std::vector<std::string>& marks) {
  cost::Deployment& d = p.deployment;
  const auto again = [&] { p.memory = d.layout.dp > 1 ? attention_dp_memory(d) : cost::memory(d); };
  if (p.memory.fits) return;
  d.max_model_len = static_cast<int>(std::ceil(c.isl + c.osl));
  again();
  if (p.memory.fits) return;
  d.memory_fraction = 0.97;
  if (d.max_num_batched_tokens == 0) d.max_num_batched_tokens = 2048;
  if (d.max_num_seqs == 0) d.max_num_seqs = std::max(16, static_cast<int>(std::min(c.concurrency, 256.0)));
  again();
  marks.push_back("fits only with a larger memory fraction");
}

Result<std::unique_ptr<Prepared>> prepare(const ValidationCase& c, const Catalogues& catalogues, int& copies,
                                          std::vector<std::string>& marks) {
  auto p = std::make_unique<Prepared>();
  MUSTER_TRY(p->model, catalogues.models.find(c.model));
  MUSTER_TRY(p->gpu, catalogues.devices.find(c.gpu));
  MUSTER_TRY(const cost::EngineProfile engine, profile(c));
  p->deployment = {.model = &p->model,
                   .gpu = &p->gpu,
                   .engine = engine,
                   .layout = c.layout,
                   .precision = c.precision,
                   .max_model_len = c.max_model_len,
                   .max_num_batched_tokens = c.max_num_batched_tokens,
                   .max_num_seqs = c.max_num_seqs,
                   .memory_fraction = c.memory_fraction,
                   .kv_blocks = {}};
  copies = c.copies;
  if (c.gpus_assumed_for > 0) MUSTER_TRY_VOID(choose_layout(c, *p, copies));
  MUSTER_TRY_VOID(prepare_memory(*p));
  if (c.kv_tokens > 0) {
    p->deployment.kv_blocks = c.kv_tokens / engine.kv_block_tokens;
    MUSTER_TRY_VOID(prepare_memory(*p));
  }
  relax_until_it_fits(c, *p, marks);
  if (!p->memory.fits) return fail("does not fit: {}", p->memory.why);
  if (p->deployment.layout.dp > 1) {
    p->timer = std::make_unique<AttentionDpTimer>(p->deployment);
  } else {
    p->step.emplace(cost::StepModel::make(p->deployment));
    p->timer = std::make_unique<sim::CostStepTimer>(*p->step);
  }
  return p;
}

struct Traffic {
  workload::Trace trace;
  int users = 0;           // 0: open loop
  double total_waves = 0;  // of the run that is described
};

Traffic traffic(const ValidationCase& c, int copies, std::int64_t kv_tokens, int waves_max) {
  Traffic t;
  t.trace.source = "validate";
  const double users = std::max(1.0, std::round(c.concurrency / copies));
  double requests = 0;
  switch (c.load) {
    case Load::kOpenLoop:
      requests = std::clamp(c.rate / copies * 60, 300.0, 3000.0);
      break;
    case Load::kBurst:
      requests = std::min(20000.0, std::max(1.0, c.requests / static_cast<double>(copies)));
      break;
    default: {
      const double whole = c.requests > 0 ? std::max(users, c.requests / static_cast<double>(copies)) : 5 * users;
      t.total_waves = whole / users;
      const double waves =
          std::min(t.total_waves, static_cast<double>(users <= 16 ? std::max(8, waves_max) : waves_max));
      requests = std::max(users, std::round(waves * users));
      t.users = static_cast<int>(users);
    }
  }
  Rng gaps = Rng::stream(1, 0, "arrivals"), lengths = Rng::stream(1, 0, "lengths");
  const auto longest = static_cast<double>(std::max<std::int64_t>(2, kv_tokens / 2 - 32));
  const auto length = [&](double mean) {
    const double x =
        c.long_tailed ? lengths.exponential(mean) : mean * (c.shortest + (c.longest - c.shortest) * lengths.uniform());
    return static_cast<std::int32_t>(std::clamp(std::round(x), 1.0, std::max(std::min(longest, 8 * mean), mean)));
  };
  double at = 0;
  for (int i = 0; i < static_cast<int>(requests); ++i) {
    if (c.load == Load::kOpenLoop) at += gaps.exponential(copies / c.rate);
    t.trace.requests.push_back(
        {.arrival = from_seconds(at), .input_tokens = length(c.isl), .output_tokens = length(c.osl)});
  }
  return t;
}

// The weight of request `i`: as many first-wave, middle and last-wave requests as in the run described.
double weight(const Traffic& t, std::size_t i) {
  const std::size_t n = t.trace.requests.size(), users = static_cast<std::size_t>(t.users);
  if (t.users == 0 || n <= 2 * users) return 1;
  if (i < users || i >= n - users) return 1;
  const double simulated = static_cast<double>(n) / static_cast<double>(users) - 2;
  return std::max(1.0, (t.total_waves - 2) / simulated);
}

struct Sampled {  // (value, weight)
  std::vector<std::pair<double, double>> items;
  double mean() const {
    double sum = 0, total = 0;
    for (const auto& [x, w] : items) sum += x * w, total += w;
    return total > 0 ? sum / total : 0;
  }
  double median() {
    std::ranges::sort(items);
    double total = 0, seen = 0;
    for (const auto& [x, w] : items) total += w;
    for (const auto& [x, w] : items)
      if ((seen += w) >= total / 2) return x;
    return 0;
  }
};

// Tokens/s between the 20 % and the 80 % points of the completions: without the ramp and the drain of a short run.
double middle_throughput(const sim::Outcome& o) {
  std::vector<std::pair<Instant, std::int64_t>> done;
  for (const sim::RequestRecord& r : o.requests_log)
    if (!r.rejected() && r.last_token != Instant::max()) done.emplace_back(r.last_token, r.output_tokens);
  std::ranges::sort(done);
  const std::size_t from = done.size() / 5, to = done.size() - done.size() / 5;
  if (to <= from + 1) return 0;
  double tokens = 0;
  for (std::size_t i = from + 1; i < to; ++i) tokens += static_cast<double>(done[i].second);
  return tokens / std::max(1e-9, to_seconds(done[to - 1].first - done[from].first));
}

// `slots`: sequences that the engine admits at once; 0: its own limit.
void simulate(const ValidationCase& c, const Prepared& p, int copies, int waves_max, Prediction& out,
              std::int64_t slots = 0) {
  const cost::EngineProfile& engine = p.deployment.engine;
  const Traffic t = traffic(c, copies, p.memory.kv_tokens.value, waves_max);
  const int groups = std::max(1, p.deployment.layout.dp);
  sim::Scenario s;
  s.kind.step = p.timer.get();
  s.kind.limits = {.max_num_batched_tokens = std::int64_t{cost::max_num_batched_tokens(p.deployment)} * groups,
                   .max_num_seqs = std::int64_t{cost::max_num_seqs(p.deployment)} * groups,
                   .kv_blocks = std::max<std::int64_t>(1, p.memory.kv_tokens.value / engine.kv_block_tokens),
                   .kv_block_tokens = engine.kv_block_tokens,
                   .steps_in_flight_max = p.timer->stages()};
  if (slots > 0) s.kind.limits.max_num_seqs = slots;
  s.kind.gpus = p.deployment.layout.gpus();
  s.zones = {"a"};
  s.replicas = {{.zone = 0, .standby = false}};
  s.policy.running_max = static_cast<std::uint32_t>(s.kind.limits.max_num_seqs);
  s.classes = {{.name = "all", .rank = 0, .slo = {}}};
  s.trace = &t.trace;
  s.clients.users = static_cast<std::uint32_t>(t.users);
  s.keep_requests = true;
  const sim::Outcome o = sim::run(s);
  if (o.completed == 0) {
    out.why_not = "no request completes in the simulation";
    return;
  }
  Sampled ttft, tpot, wait;
  double tokens = 0, busy_ms = 0;
  for (const sim::RequestRecord& r : o.requests_log) {
    if (r.rejected() || r.last_token == Instant::max()) continue;
    const double w = weight(t, r.id.value);
    ttft.items.emplace_back(to_ms(r.first_token - r.arrival), w);
    wait.items.emplace_back(to_ms(r.first_scheduled - r.arrival), w);
    if (r.output_tokens > 1) tpot.items.emplace_back(to_ms(r.last_token - r.first_token) / (r.output_tokens - 1), w);
    tokens += w * r.output_tokens;
    busy_ms += w * to_ms(r.last_token - r.arrival);
  }
  out.ttft_ms = c.median ? ttft.median() : ttft.mean();
  if (!tpot.items.empty()) out.tpot_ms = c.median ? tpot.median() : tpot.mean();
  // Closed loop: Little's law over all waves; otherwise what was generated over how long it took.
  if (c.load == Load::kOpenLoop)
    out.output_tok_s = copies * middle_throughput(o);
  else if (t.users > 0 && t.total_waves > 3)
    out.output_tok_s = copies * t.users * tokens / (busy_ms * 1e-3);
  else
    out.output_tok_s = copies * static_cast<double>(o.output_tokens) / std::max(1e-9, to_seconds(o.duration));
  out.saturated = wait.mean() > 0.5 * *out.ttft_ms && wait.mean() > 2 * out.tpot_ms.value_or(0);
}

// One batch: its prompts together, then all decode together.
void static_batch(const ValidationCase& c, const Prepared& p, int copies, Prediction& out) {
  const auto batch = static_cast<std::int64_t>(std::max(1.0, std::round(c.concurrency / copies)));
  const auto isl = static_cast<std::int64_t>(std::max(1.0, std::round(c.isl)));
  const std::vector<cost::PrefillChunk> prompts(static_cast<std::size_t>(batch), {.tokens = isl, .prefix = 0});
  double prompt_s = 0, cycle = 0;
  const int stages = p.timer->stages();
  for (int stage = 0; stage < stages; ++stage)
    prompt_s += to_seconds(p.timer->stage_time(stage, {.prefills = prompts, .sampled_sequences = batch}));
  // The step time is close to linear in the KV length: the middle of the answer stands for all of it.
  const auto kv = static_cast<std::int64_t>(static_cast<double>(batch) * (c.isl + c.osl / 2));
  for (int stage = 0; stage < stages; ++stage)
    cycle += to_seconds(p.timer->stage_time(
        stage, {.prefills = {}, .decode_sequences = batch, .decode_kv_tokens = kv, .sampled_sequences = batch}));
  out.ttft_ms = prompt_s * 1e3;
  if (c.osl > 1) out.tpot_ms = cycle * 1e3;
  out.output_tok_s = copies * static_cast<double>(batch) * c.osl / (prompt_s + (c.osl - 1) * cycle);
  out.saturated = static_cast<double>(p.memory.kv_tokens.value) < static_cast<double>(batch) * (c.isl + c.osl);
}

void offline(const ValidationCase& c, const Prepared& p, int copies, Prediction& out) {
  if (!p.step) {  // attention data parallelism: a closed loop of as many as fit
    ValidationCase loop = c;
    loop.load = Load::kClosedLoop;
    const double fit = static_cast<double>(p.memory.kv_tokens.value) / (c.isl + c.osl);
    loop.concurrency = std::clamp(std::floor(fit), 1.0, 1024.0 * p.deployment.layout.dp);
    simulate(loop, p, 1, 3, out);
    if (out.output_tok_s) *out.output_tok_s *= copies;
    out.ttft_ms.reset();
    return;
  }
  // TensorRT-LLM admits a request only when all of its tokens will fit; others by what it holds on average.
  double limit = 0;
  if (p.deployment.engine.version.engine == "tensorrt-llm") {
    const double whole = cost::kv_tokens_of_sequence(p.deployment, c.isl + c.osl);
    if (whole > 0) limit = std::floor(static_cast<double>(p.memory.kv_tokens.value) / whole);
    limit = std::clamp(limit, 1.0, static_cast<double>(cost::max_num_seqs(p.deployment)));
  }
  if (c.requests > 0) {  // a finite run: all requests at once, as many in the engine as it admits
    ValidationCase burst = c;
    burst.load = Load::kBurst;
    Prediction run;
    const double slots = limit > 0 ? limit : static_cast<double>(cost::max_num_seqs(p.deployment));
    if (burst.requests > 12 * slots) burst.requests = static_cast<int>(12 * slots);
    simulate(burst, p, copies, 4, run, static_cast<std::int64_t>(slots));
    if (run.why_not.empty()) {
      out.output_tok_s = run.output_tok_s;
      return;
    }
  }
  const cost::SteadyState state = cost::steady_state(*p.step, p.deployment, p.memory, c.isl, c.osl, limit);
  out.output_tok_s = copies * state.output_tok_s;
  out.tpot_ms = state.tpot_ms;
}

// Prefill and decode replicas in closed form: requests per second of both sides, users spread between them.
Prediction disaggregated(const ValidationCase& c, const Catalogues& catalogues) {
  Prediction out{.marks = c.marks};
  std::array<std::unique_ptr<Prepared>, 2> sides;
  const std::array<const Workers*, 2> workers{&c.prefill, &c.decode};
  for (std::size_t i = 0; i < 2; ++i) {
    ValidationCase side = c;
    side.layout = {.tp = workers[i]->tp, .pp = 1, .dp = workers[i]->dp, .ep = workers[i]->ep};
    int copies = 1;
    Result<std::unique_ptr<Prepared>> prepared = prepare(side, catalogues, copies, out.marks);
    if (!prepared) {
      out.why_not = "disaggregated: " + prepared.error().message;
      return out;
    }
    sides[i] = std::move(*prepared);
  }
  const auto isl = static_cast<std::int64_t>(c.isl * (c.shortest + c.longest) / 2);
  const double osl = c.osl * (c.shortest + c.longest) / 2;
  const std::vector<cost::PrefillChunk> prompts(static_cast<std::size_t>(sides[0]->deployment.layout.dp),
                                                {.tokens = isl, .prefix = 0});
  const double prompt_s = to_seconds(sides[0]->timer->stage_time(
      0, {.prefills = prompts, .sampled_sequences = static_cast<std::int64_t>(prompts.size())}));
  const double prefill_rate =
      static_cast<double>(prompts.size() * static_cast<std::size_t>(c.prefill.count)) / prompt_s;
  // Users that are decoding: those not in prefill. Two rounds are enough: prefill holds few.
  double decoding = c.concurrency, tpot_s = 0;
  for (int round = 0; round < 6; ++round) {
    const auto batch = static_cast<std::int64_t>(std::max(1.0, std::ceil(decoding / c.decode.count)));
    const auto kv = static_cast<std::int64_t>(static_cast<double>(batch) * (static_cast<double>(isl) + osl / 2));
    tpot_s = to_seconds(sides[1]->timer->stage_time(
        0, {.prefills = {}, .decode_sequences = batch, .decode_kv_tokens = kv, .sampled_sequences = batch}));
    const double rate = std::min(decoding / (osl * tpot_s), prefill_rate);
    const double next = std::clamp(std::min(c.concurrency - rate * prompt_s, rate * osl * tpot_s), 1.0, c.concurrency);
    decoding = (decoding + next) / 2;
  }
  out.tpot_ms = tpot_s * 1e3;
  if (c.decode.count_known) out.output_tok_s = decoding / tpot_s;
  out.answered = true;
  return out;
}

}  // namespace

Prediction predict(const ValidationCase& c, const Catalogues& catalogues, int waves_max) {
  if (c.load == Load::kDisaggregated) return disaggregated(c, catalogues);
  Prediction out{.marks = c.marks};
  int copies = 1;
  const Result<std::unique_ptr<Prepared>> prepared = prepare(c, catalogues, copies, out.marks);
  if (!prepared) {
    out.why_not = prepared.error().message;
    return out;
  }
  const Prepared& p = **prepared;
  if (c.load == Load::kStaticBatch)
    static_batch(c, p, copies, out);
  else if (c.load == Load::kOfflineMax)
    offline(c, p, copies, out);
  else
    simulate(c, p, copies, waves_max, out);
  if (p.deployment.layout.dp > 1) out.marks.push_back("attention data parallelism");
  out.estimate = p.step ? p.step->is_estimate() : static_cast<const AttentionDpTimer&>(*p.timer).is_estimate();
  if (p.step) out.error_band = p.step->error_band();
  if (out.estimate) out.marks.push_back("estimate: no measured operator table");
  if (out.saturated) out.marks.push_back("saturated: requests wait for KV or slots");
  out.answered = out.why_not.empty();
  return out;
}

}  // namespace muster::app
