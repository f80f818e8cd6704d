// muster simulate fleet.yaml --trace FILE: replays a trace against a fleet file.
#include <filesystem>

#include "convert.h"
#include "fleet_run.h"
#include "muster/files/lines.h"
#include "muster/files/number.h"
#include "muster/report/comparison.h"
#include "muster/report/html.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "parallel.h"
#include "progress.h"
#include "replications.h"
#include "traffic_source.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string fleet, versus, trace, profile, out, pool, warm_up = "0";
  double scale = 1, sample_s = 2;
  std::uint64_t seed = 1;
  int replications = 1, threads = default_threads();
  bool step_by_step = false, json = false;
  OutputOptions outputs;
  std::vector<std::string> catalog_files;
};

Result<FleetUnderTest> read(const std::string& path, const Options& options, const Catalogues& catalogues,
                            const Console& console) {
  MUSTER_TRY(const FleetFile file, read_fleet(path));
  for (const std::string& note : not_simulated(file)) console.note("note: " + note);
  return FleetUnderTest::prepare(file, options.pool, catalogues);
}

Result<WarmUp> warm_up(const Options& options, const std::vector<const FleetUnderTest*>& fleets,
                       const TrafficSource& traffic, const ReplicationSettings& settings) {
  if (options.warm_up != "auto") {
    const std::optional<double> seconds = files::parse_number(options.warm_up);
    if (!seconds || *seconds < 0) return fail("--warm-up {}: seconds (0 or more) or auto are needed", options.warm_up);
    return WarmUp{.method = *seconds > 0 ? "fixed" : "none", .seconds = *seconds};
  }
  WarmUp longest;
  for (const FleetUnderTest* fleet : fleets) {
    MUSTER_TRY(WarmUp one, find_warm_up(*fleet, traffic, settings));
    longest.method = one.method;
    longest.seconds = std::max(longest.seconds, one.seconds);
    if (longest.notes.empty()) longest.notes = std::move(one.notes);
  }
  return longest;
}

Result<void> write_report(const Options& options, const std::string& page, const std::string& json) {
  if (options.out.empty()) return {};
  const std::filesystem::path out(options.out);
  MUSTER_TRY_VOID(files::write_file((out / "report.html").string(), page));
  return files::write_file((out / "result.json").string(), json);
}

Result<int> run_versus(const Options& options, const FleetUnderTest& a, const FleetUnderTest& b,
                       const TrafficSource& traffic, const ReplicationSettings& settings, const Console& console) {
  MUSTER_TRY(const FleetComparison compared, compare(a, b, traffic, settings, options.fleet, options.versus));
  const report::Comparison& c = compared.comparison;
  const std::string json = report::to_json(c);
  if (!options.out.empty())
    MUSTER_TRY_VOID(write_report(options,
                                 report::html(c, plots(compared.first_a.scenario, compared.first_a.outcome),
                                              plots(compared.first_b.scenario, compared.first_b.outcome)),
                                 json));
  console.print(options.json ? json : report::terminal(c, console.style));
  return kDone;
}

Result<int> run(const Options& options, const Console& console) {
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  MUSTER_TRY(const TrafficSource traffic, TrafficSource::open(options.trace, options.profile));
  MUSTER_TRY(const FleetUnderTest fleet, read(options.fleet, options, catalogues, console));
  std::optional<FleetUnderTest> other;
  std::vector<const FleetUnderTest*> fleets = {&fleet};
  if (!options.versus.empty()) {
    if (!options.outputs.none())
      return fail("--requests, --trace-events and --series are of one fleet: not with --versus");
    MUSTER_TRY(other, read(options.versus, options, catalogues, console));
    fleets.push_back(&*other);
  }
  if (traffic.repaired_order() > 0)
    console.note(fmt::format("note: {}: {} requests were out of order and were sorted", traffic.name(),
                             traffic.repaired_order()));

  ProgressLine progress(console.progress && !options.json);
  ReplicationSettings settings{.run = {.seed = options.seed,
                                       .sample_s = options.sample_s,
                                       .step_by_step = options.step_by_step,
                                       .outputs = &options.outputs},
                               .scale = options.scale,
                               .replications = options.replications,
                               .threads = options.threads,
                               .progress = [&](double share) { progress.show("simulating", share); }};
  const double started = wall_seconds();
  MUSTER_TRY(settings.warm_up, warm_up(options, fleets, traffic, settings));
  if (other) return run_versus(options, fleet, *other, traffic, settings, console);

  MUSTER_TRY(Replicated replicated, replicate(fleet, traffic, settings));
  progress.clear();
  report::RunMetrics& result = replicated.first.metrics;
  result.wall_s = wall_seconds() - started;
  const std::string json = report::to_json(result);
  if (!options.out.empty()) {
    report::RunPlots to_plot = plots(replicated.first.scenario, replicated.first.outcome);
    to_plot.pipeline = replicated.first.pipeline;
    const std::string title = fmt::format("{} on {}", fleet.file().fleet, traffic.name());
    MUSTER_TRY_VOID(write_report(options, report::html(result, to_plot, title), json));
  }
  console.print(options.json ? json : report::terminal(result, console.style));
  return replicated.targets_met ? kDone : kNo;
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
      "misses a target (with --replications: in any of them). Which of two fleets is better, on the same traffic:\n"
      "  muster simulate fleet.yaml --versus other.yaml --profile examples/profiles/azure-conv.yaml --replications 8");
  verb->add_option("FLEET", options->fleet, "Fleet file")->required();
  verb->add_option("--trace", options->trace,
                   "Trace: Azure CSV, Mooncake JSONL, BurstGPT CSV, plain CSV or JSONL, also gzipped");
  verb->add_option("--profile", options->profile, "Workload profile to make the traffic from, instead of a trace");
  verb->add_option("--pool", options->pool, "Simulate this pool alone, when the file has several");
  verb->add_option("--scale", options->scale, "Multiply the rate")->check(CLI::PositiveNumber)->capture_default_str();
  verb->add_option("--versus", options->versus,
                   "A second fleet file, simulated on the same traffic: which is better, by how much, how sure");
  verb->add_option("--replications", options->replications,
                   "Independent runs with the seeds --seed, --seed + 1, ...: confidence intervals over them")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  verb->add_option("--warm-up,--warm-up-s", options->warm_up,
                   "Seconds at the start that are simulated but not counted, or auto (MSER-5)")
      ->capture_default_str();
  verb->add_option("--resolution,--sample", options->sample_s,
                   "Seconds between two points of the plots and of --series; coarser when there would be too many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "Seed of every random choice")->capture_default_str();
  add_outputs(*verb, options->outputs);
  verb->add_option("--out", options->out, "Folder for report.html and result.json (default: write none)");
  verb->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->add_flag("--step-by-step", options->step_by_step, "Never jump over alike decode steps: slow, same digest");
  verb->add_option("--threads", options->threads, "Replications that run side by side; results do not depend on it")
      ->check(CLI::Range(1, 1024));
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
