// muster sweep fleet.yaml --set PATH=VALUES ...: every combination of settings, simulated; and the joining of shards.
#include <filesystem>

#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "parallel.h"
#include "progress.h"
#include "sweep_run.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  SweepInputs inputs;
  std::vector<std::string> sets, merge;
  std::string out, scale = "1", seeds = "1", shard = "1/1";
  int threads = default_threads();
  bool json = false;
};

Result<void> write_table(const report::Sweep& sweep, const std::string& out) {
  const std::filesystem::path folder(out);
  MUSTER_TRY_VOID(files::write_file((folder / "sweep.csv").string(), report::to_csv(sweep)));
  MUSTER_TRY_VOID(files::write_file((folder / "sweep.json").string(), report::to_json(sweep)));
  return files::write_file((folder / "sweep.html").string(), report::html(sweep));
}

Result<int> finish(const report::Sweep& sweep, const Options& options, const std::string& out, const Console& console) {
  MUSTER_TRY_VOID(write_table(sweep, out));
  if (options.json) {
    console.print(report::to_json(sweep));
  } else {
    console.print(report::terminal(sweep, console.style));
    console.print(fmt::format("\nWrote {0}/sweep.csv, {0}/sweep.json and {0}/sweep.html.", out));
  }
  for (const report::SweepRow& row : sweep.rows)
    if (row.refused.empty()) return kDone;
  return kNo;  // nothing could run
}

Result<int> run_merge(const Options& options, const Console& console) {
  MUSTER_TRY(const MergedSweep merged, merge(options.merge));
  return finish(table_of(merged.plan, merged.points), options,
                options.out.empty() ? options.merge.front() : options.out, console);
}

Result<SweepPlan> plan_of(const Options& options, const SweepBase& base) {
  SweepPlan plan{.fleet = options.inputs.fleet_path, .traffic = base.traffic.name()};
  for (const std::string& text : options.sets) {
    MUSTER_TRY(Axis axis, parse_axis(text));
    plan.axes.push_back(std::move(axis));
  }
  MUSTER_TRY(plan.scales, parse_numbers(options.scale, "--scale"));
  for (const double scale : plan.scales)
    if (scale <= 0) return fail("--scale {}: scales above 0 are needed", scale);
  MUSTER_TRY(const std::vector<double> seeds, parse_numbers(options.seeds, "--seeds"));
  plan.seeds.clear();
  for (const double seed : seeds) {
    if (seed < 0 || seed > 1e15 || seed != static_cast<double>(static_cast<std::uint64_t>(seed)))
      return fail("--seeds {}: whole numbers are needed", seed);
    plan.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  double points = static_cast<double>(plan.scales.size() * plan.seeds.size());
  for (const Axis& axis : plan.axes) points *= static_cast<double>(axis.values.size());
  if (points > 1e7) return fail("the axes make {:.3g} points; at most 10 million are possible", points);
  MUSTER_TRY_VOID(check_axes(base, plan));
  MUSTER_TRY_VOID(digest_inputs(base, plan));
  return plan;
}

Result<int> run(const Options& options, const Console& console) {
  if (!options.merge.empty()) {
    if (!options.inputs.fleet_path.empty())
      return fail("--merge takes the folders of the shards only; the fleet file is known from them");
    return run_merge(options, console);
  }
  if (options.inputs.fleet_path.empty()) return fail("a fleet file is needed, or --merge with the folders of shards");
  if (options.out.empty()) return fail("--out FOLDER is needed: finished points are kept there");
  MUSTER_TRY(const Shard shard, parse_shard(options.shard));
  MUSTER_TRY(const SweepBase base, read_sweep_base(options.inputs));
  MUSTER_TRY(const SweepPlan plan, plan_of(options, base));
  MUSTER_TRY(const FleetFile fleet, parse_fleet(base.fleet_text, options.inputs.fleet_path));
  for (const std::string& note : not_simulated(fleet)) console.note("note: " + note);

  const std::string name = shard.n == 1 ? "points.jsonl" : fmt::format("points-{}-of-{}.jsonl", shard.i, shard.n);
  const std::string path = (std::filesystem::path(options.out) / name).string();
  MUSTER_TRY(const std::unique_ptr<PointsWriter> writer, PointsWriter::open(path, plan, shard));
  if (!writer->found().empty())
    console.note(fmt::format("note: {}: {} points are there already", path, writer->found().size()));
  ProgressLine bar(console.progress);
  MUSTER_TRY_VOID(run_sweep(base, plan, shard, options.threads, *writer, [&](const SweepProgress& p) {
    const auto share = p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 1;
    bar.show(fmt::format("point {} of {}", p.done, p.total), share);
  }));
  bar.clear();
  MUSTER_TRY(const PointsFile points, read_points(path));
  if (shard.n == 1) return finish(table_of(plan, points.points), options, options.out, console);
  console.note(fmt::format("shard {}/{}: {} of {} points are in {}; when all shards are: muster sweep --merge {}",
                           shard.i, shard.n, points.points.size(), plan.size(), path, options.out));
  return kDone;
}

}  // namespace

void add_sweep(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("sweep", "Simulate every combination of settings of a fleet file");
  verb->footer(
      "Example:\n"
      "  muster sweep fleet.yaml --profile examples/profiles/azure-conv.yaml --scale 4,8 --seeds 1..4 \\\n"
      "    --set pools.0.replicas.initial=4..12 --set routing.policy=least-work,round-robin --out build/sweep\n"
      "A path is the field's place in the file: pools.0.parallel.tp, or pools.NAME.parallel.tp. Values are a list, a\n"
      "range a..b[:step], or YAML in brackets. A second run of the same command goes on where the first one stopped.\n"
      "On several machines: --shard 1/8 ... --shard 8/8, then muster sweep --merge FOLDER... (docs/sweep.md)");
  verb->add_option("FLEET", options->inputs.fleet_path, "Fleet file");
  verb->add_option("--set", options->sets, "PATH=VALUES, may be repeated: every combination is simulated")
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--trace", options->inputs.trace, "Trace, in any format that simulate reads");
  verb->add_option("--profile", options->inputs.profile,
                   "Workload profile to make the traffic from, instead of a trace");
  verb->add_option("--pool", options->inputs.pool, "Simulate this pool alone, when the file has several");
  verb->add_option("--scale", options->scale, "Traffic scales: a list or a range")->capture_default_str();
  verb->add_option("--seeds", options->seeds, "Seeds: a list or a range; the table shows means over them")
      ->capture_default_str();
  verb->add_option("--warm-up,--warm-up-s", options->inputs.warm_up_s,
                   "Seconds at the start that are simulated but not counted")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--shard", options->shard, "I/N: only every N-th point, beginning with the I-th")
      ->capture_default_str();
  verb->add_option("--merge", options->merge, "Join the shards in these folders instead of running anything");
  verb->add_option("--out", options->out,
                   "Folder for points.jsonl (finished points), sweep.csv, sweep.json and sweep.html");
  verb->add_option("--threads", options->threads, "Points that run side by side; results do not depend on it")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--catalog", options->inputs.catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
