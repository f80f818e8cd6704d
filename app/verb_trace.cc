// muster trace: inspect, fit, synthesise, scale and convert traffic traces.
#include "muster/files/lines.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "muster/workload/profile.h"
#include "muster/workload/read.h"
#include "size_traffic.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string file, out, name, arrivals = "gamma";
  double scale = 1, peak_window_s = 300, duration_s = 0, rate_rps = 0;
  std::uint64_t seed = 1;
  bool json = false;
};

Result<workload::Trace> read_scaled(const Options& options) {
  MUSTER_TRY(workload::Trace trace, workload::read_trace(options.file));
  if (options.scale == 1) return trace;
  return workload::scale(trace, options.scale, options.seed);
}

Result<int> show(const Options& options, const Console& console) {
  MUSTER_TRY(const workload::Trace trace, read_scaled(options));
  if (trace.repaired_order > 0)
    console.note(fmt::format("note: {} requests were out of order and were sorted", trace.repaired_order));
  const report::Traffic traffic = describe(trace, from_seconds(options.peak_window_s));
  console.print(options.json ? report::to_json(traffic) : report::terminal(traffic, console.style));
  return kDone;
}

Result<int> fit(const Options& options, const Console& console) {
  MUSTER_TRY(const workload::Trace trace, read_scaled(options));
  MUSTER_TRY(const workload::Profile profile, workload::fit(trace, options.name.empty() ? options.file : options.name));
  if (options.out.empty()) {
    console.print(workload::to_yaml(profile));
    return kDone;
  }
  MUSTER_TRY_VOID(files::write_file(options.out, workload::to_yaml(profile)));
  console.print(fmt::format("Wrote {}: {} requests over {:.0f} s, {:.3g} requests/s, CV {:.2f}", options.out,
                            profile.requests, profile.span_s(), profile.mean_rate_rps(), profile.interarrival_cv));
  return kDone;
}

// Writes a trace to --out, or says what it is like.
Result<int> deliver(const workload::Trace& trace, const Options& options, const Console& console) {
  if (options.out.empty()) return fail("--out FILE is needed: the trace is written there as CSV");
  MUSTER_TRY_VOID(workload::write_trace(trace, options.out));
  console.print(
      fmt::format("Wrote {}: {} requests over {:.0f} s", options.out, trace.requests.size(), to_seconds(trace.span())));
  return kDone;
}

Result<int> synth(const Options& options, const Console& console) {
  MUSTER_TRY(const workload::Profile profile, workload::read_profile(options.file));
  const std::optional<workload::Arrivals> arrivals = workload::parse_arrivals(options.arrivals);
  if (!arrivals) return fail("--arrivals {}: unknown; known are poisson, gamma, on-off", options.arrivals);
  workload::SynthesisOptions wanted{.arrivals = *arrivals, .scale = options.scale, .seed = options.seed};
  if (options.duration_s > 0) wanted.duration = from_seconds(options.duration_s);
  if (options.rate_rps > 0) wanted.constant_rate_rps = options.rate_rps;
  MUSTER_TRY(const workload::Trace trace, workload::synthesise(profile, wanted));
  return deliver(trace, options, console);
}

Result<int> convert(const Options& options, const Console& console) {
  MUSTER_TRY(const workload::Trace trace, read_scaled(options));
  return deliver(trace, options, console);
}

using Action = Result<int> (*)(const Options&, const Console&);
CLI::App* add_action(CLI::App& verb, Selected& selected, const std::shared_ptr<Options>& options,
                     const std::string& name, const std::string& help, const std::string& file_help, Action action) {
  CLI::App* sub = verb.add_subcommand(name, help);
  sub->add_option("FILE", options->file, file_help)->required();
  sub->add_option("--scale", options->scale, "Multiply the rate, keep the shape")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--seed", options->seed, "Seed of every random choice")->capture_default_str();
  sub->callback([options, &selected, action] {
    selected.run = [options, action](const Console& c) { return action(*options, c); };
  });
  return sub;
}

}  // namespace

void add_trace(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("trace", "Inspect, convert, fit, synthesise, scale traffic traces");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  muster trace show AzureLLMInferenceTrace_conv.csv\n"
      "  muster trace fit AzureLLMInferenceTrace_conv.csv --out chat.profile.yaml\n"
      "  muster trace synth chat.profile.yaml --arrivals on-off --scale 4 --out bursty.csv\n"
      "  muster trace convert mooncake.jsonl.gz --scale 0.5 --out half.csv");
  const std::string trace = "Trace: Azure CSV, Mooncake JSONL, BurstGPT CSV, plain CSV or JSONL, also gzipped";
  CLI::App* sub =
      add_action(*verb, selected, options, "show", "Rate, burstiness, peak window and length percentiles", trace, show);
  sub->add_option("--peak-window", options->peak_window_s, "Seconds over which the peak rate is taken")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  sub = add_action(*verb, selected, options, "fit", "Write a small workload profile of a trace", trace, fit);
  sub->add_option("--out", options->out, "Profile to write (default: stdout)");
  sub->add_option("--name", options->name, "Name of the profile");
  sub =
      add_action(*verb, selected, options, "synth", "Make a trace from a workload profile", "Workload profile", synth);
  sub->add_option("--arrivals", options->arrivals, "poisson, gamma (the profile's burstiness) or on-off")
      ->capture_default_str();
  sub->add_option("--duration", options->duration_s, "Seconds (default: the profile's own span)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--rate", options->rate_rps, "Requests/s all the time, instead of the rate curve")
      ->check(CLI::PositiveNumber);
  sub->add_option("--out", options->out, "CSV to write");
  sub = add_action(*verb, selected, options, "convert", "Read any known format, write plain CSV", trace, convert);
  sub->add_option("--out", options->out, "CSV to write");
}

}  // namespace muster::app
