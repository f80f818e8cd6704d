// muster plan: which layouts of a model fit on which devices, and how fast.
#include "convert.h"
#include "deployment_options.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  DeploymentOptions deployment;
  double isl = 1024, osl = 256, concurrency = 0;
  std::string goal = "throughput";
  bool explain = false, json = false;
};

// Devices with more memory than `gpu`, and the slices of it.
void devices_to_compare(const Catalogues& catalogues, const hardware::Gpu& gpu, std::vector<hardware::Gpu>& larger,
                        std::vector<hardware::Gpu>& slices) {
  for (const hardware::Gpu& other : catalogues.devices.gpus())
    if (other.memory > gpu.memory && other.vendor == gpu.vendor) larger.push_back(other);
  if (!gpu.is_slice) slices = catalogues.devices.slices_of(gpu);
}

Result<int> run(const Options& options, const Console& console) {
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.deployment.catalog_files));
  MUSTER_TRY(const std::unique_ptr<ResolvedDeployment> resolved, resolve(options.deployment, catalogues));
  planner::Question& question = resolved->question;
  const std::optional<planner::Goal> goal = planner::parse_goal(options.goal);
  if (!goal) return fail("--rank {}: unknown; known are throughput, cost, latency", options.goal);
  question.goal = *goal;
  question.input_tokens = options.isl;
  question.output_tokens = options.osl;
  question.concurrency = options.concurrency;
  const std::vector<planner::Candidate> candidates = planner::enumerate(question);
  report::Plan plan{.model = resolved->model.key,
                    .engine = question.engine.version.engine,
                    .engine_version = question.engine.version.version};
  for (const planner::Candidate& candidate : candidates) plan.candidates.push_back(to_report(candidate));
  const bool fits = !candidates.empty() && candidates.front().fits;
  if (fits && (options.explain || options.json)) {
    std::vector<hardware::Gpu> larger, slices;
    devices_to_compare(catalogues, *candidates.front().gpu, larger, slices);
    for (const planner::Option& option : planner::explain(question, candidates.front(), larger, slices))
      plan.options.push_back(to_report(option));
  }
  console.print(options.json ? report::to_json(plan) : report::terminal(plan, console.style));
  return fits ? kDone : kNo;
}

}  // namespace

void add_plan(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("plan", "Which layouts fit and how fast; every rejected option with its reason");
  verb->footer(
      "Example:\n"
      "  muster plan --model llama-3.1-70b --gpu h100-sxm,h200-sxm --precision bf16,fp8 --isl 2000 --osl 300 "
      "--explain\n"
      "The exit code is 1 when nothing fits.");
  options->deployment.add_to(*verb);
  verb->add_option("--isl", options->isl, "Input tokens of a request")
      ->check(CLI::Range(1.0, 1e8))
      ->capture_default_str();
  verb->add_option("--osl", options->osl, "Output tokens of a request")
      ->check(CLI::Range(1.0, 1e8))
      ->capture_default_str();
  verb->add_option("--concurrency", options->concurrency, "Requests at once per replica (default: as many as fit)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--rank", options->goal, "Best first by: throughput (per GPU), cost, latency")
      ->capture_default_str();
  verb->add_flag("--explain", options->explain,
                 "Verdict and reason, in numbers, for TP, PP, DP, batch, FP32, FP8, INT4, MIG, memory");
  accept_threads(*verb);
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
