// muster predict: one operating point of one replica, by simulation: open loop at a rate or closed loop at a
// concurrency.
#include <algorithm>
#include <cmath>

#include "convert.h"
#include "deployment_options.h"
#include "fleet_simulation.h"
#include "layer_table_timer.h"
#include "muster/core/rng.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "muster/workload/trace.h"
#include "progress.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  DeploymentOptions deployment;
  double isl = 1024, osl = 256, concurrency = 0, rate = 0, spread = 0.1;
  int requests = 0, warm_up_requests = -1;
  std::uint64_t seed = 1;
  std::string layer_tables;
  bool json = false;
};

// Requests with lengths uniform in +-spread around isl and osl, Poisson at `rate` (or all at once for a closed loop).
workload::Trace make_trace(const Options& options, int count) {
  workload::Trace trace;
  trace.source = "predict";
  Rng gaps = Rng::stream(options.seed, 0, "arrivals"), lengths = Rng::stream(options.seed, 0, "lengths");
  const auto length = [&](double mean) {
    const double x = mean * (1 + options.spread * (2 * lengths.uniform() - 1));
    return static_cast<std::int32_t>(std::max(1.0, std::round(x)));
  };
  double at = 0;
  for (int i = 0; i < count; ++i) {
    if (options.rate > 0) at += gaps.exponential(1 / options.rate);
    trace.requests.push_back(
        {.arrival = from_seconds(at), .input_tokens = length(options.isl), .output_tokens = length(options.osl)});
  }
  return trace;
}

PoolSpec pool_spec(const Options& options, const planner::Question& question, const planner::Candidate& c) {
  return {.name = "replica",
          .model = options.deployment.model,
          .engine = question.engine.version.text(),
          .gpu = c.gpu->key,
          .precision = std::string(model::name(c.precision.weights)),
          .kv_precision = options.deployment.kv_precision,
          .tp = c.layout.tp,
          .pp = c.layout.pp,
          .ep = c.layout.ep,
          .max_model_len = question.max_model_len,
          .max_num_seqs = question.max_num_seqs,
          .max_num_batched_tokens = question.max_num_batched_tokens,
          .memory_fraction = question.memory_fraction,
          .kv_blocks = question.kv_blocks};
}

std::optional<report::TtftParts> ttft_parts(const sim::Outcome& outcome, std::uint64_t warm_up) {
  Moments queue, first;
  for (const sim::RequestRecord& r : outcome.requests_log) {
    if (r.id.value < warm_up || r.rejected() || r.first_token == Instant::max()) continue;
    queue.add(to_ms(r.first_scheduled - r.arrival));
    first.add(to_ms(r.first_token - r.first_scheduled));
  }
  if (queue.count() == 0) return std::nullopt;
  return report::TtftParts{.queue_ms = queue.mean(), .schedule_to_first_token_ms = first.mean()};
}

Result<int> run(const Options& options, const Console& console) {
  if ((options.concurrency > 0) == (options.rate > 0)) return fail("predict needs either --concurrency or --rate");
  if (options.deployment.gpus.size() != 1)
    return fail("predict needs one --gpu, {} given", options.deployment.gpus.size());
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.deployment.catalog_files));
  MUSTER_TRY(const std::unique_ptr<ResolvedDeployment> resolved, resolve(options.deployment, catalogues));
  planner::Question& question = resolved->question;
  if (question.precisions.empty()) question.precisions = {resolved->model.default_dtype};
  if (question.dp > 1)
    return fail("--dp {}: predict is about one replica; simulate a fleet file for several", question.dp);
  // A pinned degree stands for the layout: --tp 2 is two GPUs, not the best layout with TP 2 in it.
  if (question.tp && !question.pp) question.pp = 1;
  if (question.pp && !question.tp) question.tp = 1;
  question.input_tokens = options.isl;
  question.output_tokens = options.osl;
  question.concurrency = options.concurrency;
  const std::vector<planner::Candidate> candidates = planner::enumerate(question);
  if (candidates.empty() || !candidates.front().fits)
    return std::unexpected(
        Error{candidates.empty() ? std::string("no layout to try") : candidates.front().why, Error::Kind::kNo});
  const planner::Candidate& best = candidates.front();
  MUSTER_TRY(const std::unique_ptr<PreparedPool> pool, prepare(pool_spec(options, question, best), catalogues));

  if (!options.layer_tables.empty()) {
    if (best.layout.gpus_per_replica() > 1)
      return fail("--layer-tables: they are of one device; the layout is {}: give --tp 1 --pp 1",
                  cost::text(best.layout));
    MUSTER_TRY(LayerTableTimer timer, LayerTableTimer::read(options.layer_tables, pool->model.layers, question.engine));
    pool->timer = std::make_unique<LayerTableTimer>(std::move(timer));
  }

  const auto users = static_cast<int>(options.concurrency);
  const int count = options.requests > 0 ? options.requests : std::max(200, 10 * users);
  const int warm_up =
      options.warm_up_requests >= 0 ? options.warm_up_requests : std::min(count / 4, std::max(20, 2 * users));
  const workload::Trace trace = make_trace(options, count);
  sim::Scenario s = scenario(*pool, 1, 0);
  s.trace = &trace;
  s.seed = s.policy.seed = options.seed;
  s.clients.users = static_cast<std::uint32_t>(users);
  s.warm_up_requests = static_cast<std::uint64_t>(warm_up);
  s.keep_requests = true;
  ProgressLine progress(console.progress && !options.json);
  const double started = wall_seconds();
  const sim::Outcome outcome = sim::run(s, [&](double share) {
    progress.show("simulating", share);
    return true;
  });
  progress.clear();
  std::optional<double> price;
  if (pool->gpu.price) price = pool->gpu.price->usd_per_gpu_hour;
  report::RunMetrics result = metrics(s, outcome, price, "replica");
  result.wall_s = wall_seconds() - started;
  result.ttft_parts = ttft_parts(outcome, s.warm_up_requests);
  const std::string harness = fmt::format(
      "{}, {} requests of which the first {} are not counted, lengths uniform within +-{:.0f} % of {:.0f} in and "
      "{:.0f} out",
      users > 0 ? fmt::format("closed loop, {} users without think time", users)
                : fmt::format("open loop, Poisson at {:.4g} requests/s", options.rate),
      count, warm_up, 100 * options.spread, options.isl, options.osl);
  result.events.push_back({.at_s = 0, .kind = "harness", .text = harness});
  result.events.push_back(
      {.at_s = 0,
       .kind = "layout",
       .text = fmt::format("{} {} on {} {} per replica, KV for {} tokens; step times within +-{:.0f} %",
                           cost::text(best.layout), model::name(best.precision.weights), best.layout.gpus_per_replica(),
                           best.gpu->key, best.memory->kv_tokens.value, 100 * best.error_band)});
  console.print(options.json ? report::to_json(result) : report::terminal(result, console.style));
  return kDone;
}

}  // namespace

void add_predict(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("predict", "One operating point of one replica: TTFT, TPOT, throughput");
  verb->footer(
      "Examples:\n"
      "  muster predict --model qwen3-32b --gpu h100-sxm --tp 2 --isl 1024 --osl 1024 --concurrency 32\n"
      "  muster predict --model llama-3.1-70b --gpu h100-sxm --tp 4 --precision fp8 --isl 1000 --osl 200 --rate 4\n"
      "Without --tp/--pp the best layout that fits is taken.");
  options->deployment.add_to(*verb);
  verb->add_option("--isl", options->isl, "Mean input tokens")->check(CLI::Range(1.0, 1e7))->capture_default_str();
  verb->add_option("--osl", options->osl, "Mean output tokens")->check(CLI::Range(1.0, 1e7))->capture_default_str();
  verb->add_option("--concurrency", options->concurrency, "Closed loop with this many users")
      ->check(CLI::Range(1, 100'000));
  verb->add_option("--rate", options->rate, "Open loop, requests/s")->check(CLI::PositiveNumber);
  verb->add_option("--spread", options->spread, "Lengths are uniform within +- this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--requests", options->requests, "Requests to simulate (default: 10 per user, at least 200)")
      ->check(CLI::Range(1, 10'000'000));
  verb->add_option("--warm-up", options->warm_up_requests,
                   "First requests that are not counted (default: 2 per user, at least 20)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--layer-tables", options->layer_tables,
                   "Step times from measured layers: the common beginning of the files (docs/formats/layer-tables.md)");
  verb->add_option("--seed", options->seed, "Seed of every random choice")->capture_default_str();
  accept_threads(*verb);
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
