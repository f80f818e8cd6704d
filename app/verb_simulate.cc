// muster simulate fleet.yaml --trace FILE: replays a trace against a fleet file.
#include <filesystem>

#include "convert.h"
#include "fleet_simulation.h"
#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster/report/html.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "muster/workload/profile.h"
#include "muster/workload/read.h"
#include "progress.h"
#include "run_outputs.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string fleet, trace, profile, out, pool;
  double scale = 1, warm_up_s = 0, sample_s = 2;
  std::uint64_t seed = 1;
  bool step_by_step = false, json = false;
  OutputOptions outputs;
  std::vector<std::string> catalog_files;
};

Result<workload::Trace> load_trace(const Options& options) {
  if (options.trace.empty() == options.profile.empty())
    return fail("simulate needs either --trace FILE or --profile FILE");
  if (options.trace.empty()) {
    MUSTER_TRY(const workload::Profile profile, workload::read_profile(options.profile));
    MUSTER_TRY(workload::Trace made, workload::synthesise(profile, {.scale = options.scale, .seed = options.seed}));
    made.source = options.profile;
    return made;
  }
  MUSTER_TRY(workload::Trace trace, workload::read_trace(options.trace));
  if (options.scale == 1) return trace;
  return workload::scale(trace, options.scale, options.seed);
}

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

// 1 when a class of the fleet file misses a target, else 0.
int exit_code(const FleetFile& fleet, const sim::Outcome& outcome) {
  for (std::size_t i = 0; i < fleet.classes.size(); ++i)
    if (outcome.classes[i].requests > 0 && !meets(fleet.classes[i].slo, outcome.classes[i])) return kNo;
  return outcome.completed < outcome.requests - outcome.rejected ? kNo : kDone;
}

Result<int> run(const Options& options, const Console& console) {
  MUSTER_TRY(const FleetFile fleet, read_fleet(options.fleet));
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  MUSTER_TRY(const workload::Trace trace, load_trace(options));
  MUSTER_TRY(const PreparedFleet prepared, prepare_fleet(fleet, options.pool, catalogues));
  for (const std::string& note : not_simulated(fleet)) console.note("note: " + note);
  if (trace.repaired_order > 0)
    console.note(
        fmt::format("note: {}: {} requests were out of order and were sorted", trace.source, trace.repaired_order));

  MUSTER_TRY(sim::Scenario s, scenario(prepared, trace));
  s.seed = s.policy.seed = options.seed;
  s.step_by_step = options.step_by_step;
  s.warm_up = from_seconds(options.warm_up_s);
  s.sample_interval = from_seconds(options.sample_s);
  MUSTER_TRY(const std::unique_ptr<RunOutputs> outputs, RunOutputs::attach(options.outputs, s));

  ProgressLine progress(console.progress && !options.json);
  const double started = wall_seconds();
  const sim::Outcome outcome = sim::run(s, [&](double share) {
    progress.show("simulating", share);
    return true;
  });
  progress.clear();
  report::RunMetrics result = metrics(s, outcome, std::nullopt, prepared.pools.front()->spec.name);
  result.usd = cost_usd(prepared, outcome);
  result.wall_s = wall_seconds() - started;
  MUSTER_TRY_VOID(outputs->finish(outcome));

  const std::string json = report::to_json(result);
  if (!options.out.empty()) {
    const std::filesystem::path out(options.out);
    report::RunPlots to_plot = plots(s, outcome);
    to_plot.pipeline = outputs->pipeline();
    MUSTER_TRY_VOID(
        files::write_file((out / "report.html").string(),
                          report::html(result, to_plot, fmt::format("{} on {}", fleet.fleet, trace.source))));
    MUSTER_TRY_VOID(files::write_file((out / "result.json").string(), json));
  }
  console.print(options.json ? json : report::terminal(result, console.style));
  return exit_code(fleet, outcome);
}

void add_outputs(CLI::App& verb, OutputOptions& options) {
  verb.add_option("--requests", options.requests, "Write a line per request: FILE.jsonl or FILE.csv, also .gz");
  verb.add_option(
      "--trace-events", options.trace_events,
      "Write steps, requests and events for ui.perfetto.dev: FILE.json or FILE.json.gz. With --step-by-step "
      "every step is single");
  verb.add_option("--trace-window", options.trace_window,
                  "What part of the run --trace-events holds, such as 60s..90s");
  verb.add_option("--trace-replicas", options.trace_replicas, "Which replicas it holds, such as 0,1 (default: all)");
  verb.add_option("--series", options.series, "Write the time series of the plots: FILE.csv");
}

}  // namespace

void add_simulate(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("simulate", "Replay a trace against a fleet file: SLOs, cost, events, faults");
  verb->footer(
      "Example:\n"
      "  muster simulate fleet.yaml --trace AzureLLMInferenceTrace_conv.csv --scale 4 --out build/replay\n"
      "Without a trace at hand: --profile examples/profiles/azure-conv.yaml makes one. The exit code is 1 when a "
      "class\n"
      "misses a target.");
  verb->add_option("FLEET", options->fleet, "Fleet file")->required();
  verb->add_option("--trace", options->trace,
                   "Trace: Azure CSV, Mooncake JSONL, BurstGPT CSV, plain CSV or JSONL, also gzipped");
  verb->add_option("--profile", options->profile, "Workload profile to make the traffic from, instead of a trace");
  verb->add_option("--pool", options->pool, "Simulate this pool alone, when the file has several");
  verb->add_option("--scale", options->scale, "Multiply the rate")->check(CLI::PositiveNumber)->capture_default_str();
  verb->add_option("--warm-up", options->warm_up_s, "Seconds at the start that are simulated but not counted")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--resolution,--sample", options->sample_s,
                   "Seconds between two points of the plots and of --series; coarser when there would be too many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "Seed of every random choice")->capture_default_str();
  add_outputs(*verb, options->outputs);
  verb->add_option("--out", options->out, "Folder for report.html and result.json (default: write none)");
  verb->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->add_flag("--step-by-step", options->step_by_step, "Never jump over alike decode steps: slow, same digest");
  accept_threads(*verb);
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
