// muster trace: inspect, fit, synthesise, scale and convert traffic traces.
#include "muster/files/lines.h"
#include "muster/report/json.h"
#include "muster/report/terminal.h"
#include "muster/workload/profile.h"
#include "muster/workload/read.h"
#include "muster/workload/sessions.h"
#include "muster/workload/statistics.h"
#include "size_traffic.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string file, out, name, source, arrivals;
  double scale = 1, peak_window_s = 300, duration_s = 0, rate_rps = 0;
  std::optional<double> cv, on_s, off_s;
  std::uint64_t seed = 1;
  bool json = false;
};

// Of `synth --sessions`, in the units of the command line; the rest are SessionSettings' own.
struct SessionOptions {
  workload::SessionSettings settings{.sessions_per_s = 0};  // 0: single requests, without sessions
  double think_s = to_seconds(settings.think_mean);
  double answer_token_ms = to_ms(settings.answer_token_time);
  std::vector<double> first_text = {settings.first_text.median, settings.first_text.p95};
  std::vector<double> next_text = {settings.next_text.median, settings.next_text.p95};
  std::vector<double> answer;  // empty: settings.answer, or the profile's
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
  MUSTER_TRY(workload::Profile profile, workload::fit(trace, options.name.empty() ? options.file : options.name));
  if (!options.source.empty()) profile.source = options.source;
  if (options.out.empty()) {
    console.print(workload::to_yaml(profile));
    return kDone;
  }
  MUSTER_TRY_VOID(files::write_file(options.out, workload::to_yaml(profile)));
  console.print(fmt::format("Wrote {}: {} requests over {:.0f} s, {:.3g} requests/s, CV {:.2f}", options.out,
                            profile.requests, profile.span_s(), profile.mean_rate_rps(), profile.interarrival_cv));
  return kDone;
}

Result<int> deliver(const workload::Trace& trace, const Options& options, const Console& console) {
  if (options.out.empty()) return fail("--out FILE is needed: the trace is written there, as CSV or as .jsonl");
  MUSTER_TRY_VOID(workload::write_trace(trace, options.out));
  const workload::TraceStatistics s = workload::statistics(trace, from_seconds(options.peak_window_s));
  const std::string sessions =
      s.sessions > 0 ? fmt::format("; {} sessions of {:.3g} turns", s.sessions, s.turns_per_session) : "";
  const std::string reuse = trace.block_tokens > 0 ? fmt::format("; prefix reuse {:.1f} %", 100 * s.prefix_reuse) : "";
  console.print(
      fmt::format("Wrote {}: {} requests over {:.0f} s{}{}", options.out, s.requests, s.span_s, sessions, reuse));
  return kDone;
}

Result<workload::Arrivals> arrivals_of(const Options& options, workload::Arrivals fallback) {
  const std::optional<workload::Arrivals> kind =
      options.arrivals.empty() ? fallback : workload::parse_arrivals(options.arrivals);
  if (!kind) return fail("--arrivals {}: unknown; known are {}", options.arrivals, workload::kArrivalsKnown);
  if (options.cv && *kind != workload::Arrivals::kGamma && *kind != workload::Arrivals::kWeibull)
    return fail("--cv {} is for gamma and weibull arrivals; these are {}", *options.cv, workload::name(*kind));
  if (options.on_s.has_value() != options.off_s.has_value())
    return fail("{} is given without {}; on-off arrivals need both or neither", options.on_s ? "--on-s" : "--off-s",
                options.on_s ? "--off-s" : "--on-s");
  if (options.on_s && *kind != workload::Arrivals::kOnOff)
    return fail("--on-s {} is for on-off arrivals; these are {}", *options.on_s, workload::name(*kind));
  return *kind;
}

std::optional<workload::Bursts> bursts_of(const Options& options) {
  if (!options.on_s || !options.off_s) return std::nullopt;
  return workload::bursts_of(*options.on_s, *options.off_s);
}

Result<workload::Trace> make_requests(const Options& options) {
  if (options.file.empty()) return fail("a workload profile is needed: muster trace synth PROFILE, or --sessions RATE");
  MUSTER_TRY(const workload::Profile profile, workload::read_profile(options.file));
  MUSTER_TRY(const workload::Arrivals arrivals, arrivals_of(options, workload::Arrivals::kGamma));
  workload::SynthesisOptions wanted{.arrivals = arrivals,
                                    .cv = options.cv,
                                    .bursts = bursts_of(options),
                                    .scale = options.scale,
                                    .seed = options.seed};
  if (options.duration_s > 0) wanted.duration = from_seconds(options.duration_s);
  if (options.rate_rps > 0) wanted.constant_rate_rps = options.rate_rps;
  return workload::synthesise(profile, wanted);
}

Result<workload::Trace> make_sessions(const Options& options, const SessionOptions& wanted) {
  workload::SessionSettings settings = wanted.settings;
  MUSTER_TRY(settings.arrivals.kind, arrivals_of(options, workload::Arrivals::kPoisson));
  settings.arrivals.cv = options.cv.value_or(1);
  settings.arrivals.bursts = bursts_of(options).value_or(workload::Bursts());
  if (options.duration_s > 0) settings.span = from_seconds(options.duration_s);
  settings.think_mean = from_seconds(wanted.think_s);
  settings.answer_token_time = from_seconds(wanted.answer_token_ms * 1e-3);
  settings.first_text = {.median = wanted.first_text[0], .p95 = wanted.first_text[1]};
  settings.next_text = {.median = wanted.next_text[0], .p95 = wanted.next_text[1]};
  if (!wanted.answer.empty()) settings.answer = {.median = wanted.answer[0], .p95 = wanted.answer[1]};
  settings.seed = options.seed;
  if (options.file.empty()) return workload::synthesise_sessions(settings);
  if (!wanted.answer.empty())
    return fail("--answer and the profile {} both say how long answers are; one is needed", options.file);
  MUSTER_TRY(const workload::Profile profile, workload::read_profile(options.file));
  settings.answer_profile = &profile;
  return workload::synthesise_sessions(settings);
}

Result<int> convert(const Options& options, const Console& console) {
  MUSTER_TRY(const workload::Trace trace, read_scaled(options));
  return deliver(trace, options, console);
}

using Action = std::function<Result<int>(const Options&, const Console&)>;
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

// Options that only make sense with --sessions, and those that only do without.
void add_session_options(CLI::App& synth, SessionOptions& s) {
  CLI::Option* const rate =
      synth.add_option("--sessions", s.settings.sessions_per_s, "Make conversations instead: so many begin per second")
          ->check(CLI::PositiveNumber);
  for (const char* other : {"--rate", "--scale"}) synth.get_option(other)->excludes(rate);
  const auto add = [&](const std::string& name, auto& value, const std::string& help) {
    return synth.add_option(name, value, help)->needs(rate)->group("Sessions");
  };
  const auto lengths = [&](const std::string& name, std::vector<double>& value, const std::string& what) {
    return add(name, value, what + " in tokens, log-normal: MEDIAN,P95")->expected(2)->delimiter(',');
  };
  rate->group("Sessions");
  add("--turns", s.settings.turns_mean, "Mean number of turns (geometric)")->capture_default_str();
  add("--system-prompts", s.settings.system_prompts, "How many different ones are shared")->capture_default_str();
  add("--system-zipf", s.settings.system_zipf, "The i-th is as frequent as i^-ZIPF")->capture_default_str();
  add("--system-tokens", s.settings.system_prompt_tokens, "Tokens of each")->capture_default_str();
  lengths("--first-text", s.first_text, "The user's first text")->default_str("200,2000");
  lengths("--next-text", s.next_text, "The user's later texts")->default_str("60,400");
  lengths("--answer", s.answer, "Answers")->default_str("250,900, or the profile's");
  add("--think", s.think_s, "Mean seconds from an answer to the next turn (exponential)")->capture_default_str();
  add("--answer-token-ms", s.answer_token_ms, "Estimate for the later turns' arrivals in an open loop")
      ->capture_default_str();
  add("--context-limit", s.settings.context_tokens_max, "Tokens at which a session ends")->capture_default_str();
  add("--block-tokens", s.settings.block_tokens, "Tokens per prefix block, a power of two")->capture_default_str();
}

void add_synth(CLI::App& verb, Selected& selected, const std::shared_ptr<Options>& options) {
  auto sessions = std::make_shared<SessionOptions>();
  CLI::App* const sub =
      add_action(verb, selected, options, "synth", "Make a trace from a workload profile, or of conversations",
                 "Workload profile; with --sessions optional, then answers are as long as its outputs",
                 [sessions](const Options& o, const Console& console) -> Result<int> {
                   MUSTER_TRY(const workload::Trace trace,
                              sessions->settings.sessions_per_s > 0 ? make_sessions(o, *sessions) : make_requests(o));
                   return deliver(trace, o, console);
                 });
  sub->get_option("FILE")->required(false);
  sub->add_option("--arrivals", options->arrivals,
                  fmt::format("{} (default: gamma; poisson for sessions)", workload::kArrivalsKnown));
  sub->add_option("--cv", options->cv,
                  "Coefficient of variation of gamma's or weibull's gaps, 1 is Poisson (default: the profile's)");
  sub->add_option("--on-s", options->on_s, "Mean seconds of a burst, for on-off (default: the profile's)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--off-s", options->off_s, "Mean seconds between bursts, for on-off")->check(CLI::NonNegativeNumber);
  sub->add_option("--duration", options->duration_s, "Seconds (default: the profile's own span; sessions: 3600)")
      ->check(CLI::PositiveNumber);
  sub->add_option("--rate", options->rate_rps, "Requests/s all the time, instead of the rate curve")
      ->check(CLI::PositiveNumber);
  sub->add_option("--out", options->out, "CSV to write, or JSON Lines if it ends in .jsonl");
  add_session_options(*sub, *sessions);
  sub->footer(
      "Examples:\n"
      "  muster trace synth chat.profile.yaml --rate 5 --duration 600 --out steady.csv\n"
      "  muster trace synth chat.profile.yaml --arrivals weibull --cv 3 --out bursty.csv\n"
      "  muster trace synth chat.profile.yaml --arrivals on-off --on-s 20 --off-s 40 --out waves.csv\n"
      "  muster trace synth --sessions 0.5 --turns 6 --think 45 --system-prompts 3 --out talks.csv\n"
      "  muster trace synth chat.profile.yaml --sessions 0.5 --arrivals gamma --cv 2 --out talks.jsonl\n"
      "In an open loop every turn comes at its arrival. With `sessions: true` under `clients` in a fleet file a later "
      "turn\n"
      "comes its think time after the answer before.");
}

}  // namespace

void add_trace(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand("trace", "Inspect, convert, fit, synthesise, scale traffic traces");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  muster trace show AzureLLMInferenceTrace_conv.csv\n"
      "  muster trace fit AzureLLMInferenceTrace_conv.csv --source \"Azure 2023, CC-BY-4.0\" --out chat.profile.yaml\n"
      "  muster trace synth chat.profile.yaml --arrivals on-off --scale 4 --out bursty.csv\n"
      "  muster trace synth --sessions 0.5 --turns 6 --think 45 --out talks.csv\n"
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
  sub->add_option("--source", options->source,
                  "Note in the profile of where the trace comes from and its licence (default: its path)");
  add_synth(*verb, selected, options);
  sub = add_action(*verb, selected, options, "convert", "Read any known format, write plain CSV or JSON Lines", trace,
                   convert);
  sub->add_option("--out", options->out, "CSV to write, or JSON Lines if it ends in .jsonl");
}

}  // namespace muster::app
