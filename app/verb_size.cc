// muster size FILE: the smallest fleet that meets the SLOs on a trace; writes fleet.yaml, report.html, result.json.
#include <filesystem>

#include "muster/files/lines.h"
#include "muster/report/html.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "parallel.h"
#include "progress.h"
#include "sizer.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string file, out = ".", trace;
  std::uint64_t seed = 1;
  int seeds = 8, threads = default_threads();
  double scale = 0;
  bool json = false;
  std::vector<std::string> catalog_files;
};

std::string fleet_comment(const report::Size& size, const std::string& source) {
  return fmt::format(
      "Written by muster size from {}: {} replicas meet the SLO at {:.4g} requests/s, the rest is headroom and "
      "standby.\n"
      "startup: cold_s and warm_s are what the size file says (or muster's defaults); measure yours.",
      source, size.replicas_for_slo, size.peak_rate_rps);
}

Result<int> run(const Options& options, const Console& console) {
  MUSTER_TRY(SizeFile file, read_size(options.file));
  if (options.scale > 0) file.traffic.scale = options.scale;
  if (!options.trace.empty()) {
    file.traffic.trace = options.trace;
    file.traffic.profile.clear();
  }
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  ProgressLine progress(console.progress && !options.json);
  const SizerSettings settings{.seed = options.seed,
                               .seeds = options.seeds,
                               .threads = options.threads,
                               .progress = [&](std::string_view what) { progress.show(what); },
                               .clock = wall_seconds};
  MUSTER_TRY(SizeAnswer answer, size_fleet(file, catalogues, settings));
  progress.clear();

  const std::filesystem::path out(options.out);
  report::Size& size = answer.report;
  size.fleet_file = (out / "fleet.yaml").string();
  MUSTER_TRY_VOID(files::write_file(size.fleet_file, to_yaml(answer.fleet, fleet_comment(size, options.file))));
  MUSTER_TRY_VOID(files::write_file((out / "report.html").string(), report::html(size)));
  const std::string json = report::to_json(size);
  MUSTER_TRY_VOID(files::write_file((out / "result.json").string(), json));
  if (options.json) {
    console.print(json);
  } else {
    console.print(report::terminal(size, console.style));
    console.print(fmt::format("\nWrote {}, {} and {}", size.fleet_file, (out / "report.html").string(),
                              (out / "result.json").string()));
  }
  return size.zone_loss_meets_slo || size.zones.size() < 2 || !file.survive_zone_loss ? kDone : kNo;
}

}  // namespace

void add_size(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand(
      "size", "Smallest fleet that meets the SLOs on a trace; writes the fleet file and the report");
  verb->footer(
      "Example:\n"
      "  muster size examples/chat-70b.yaml --out build/chat\n"
      "reads model, GPUs, zones, traffic and SLO from the file (docs/formats/size.md), prints the answer, and writes\n"
      "fleet.yaml (input of simulate), report.html and result.json to --out.");
  verb->add_option("FILE", options->file, "What to size (YAML)")->required();
  verb->add_option("--trace", options->trace, "Size for this trace instead of the file's traffic");
  verb->add_option("--scale", options->scale, "Multiply the rate of the traffic by this instead of the file's scale")
      ->check(CLI::PositiveNumber);
  verb->add_option("--out", options->out, "Folder for the files written")->capture_default_str();
  verb->add_option("--seed", options->seed, "Seed of every random choice")->capture_default_str();
  verb->add_option("--seeds", options->seeds, "Replications of the peak that decide the size")
      ->check(CLI::Range(2, 200))
      ->capture_default_str();
  verb->add_option("--threads", options->threads, "Threads (the answer does not depend on it)")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->add_flag("--json", options->json, "Print result.json on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
