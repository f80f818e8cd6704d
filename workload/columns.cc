#include "columns.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::workload {
namespace {

struct TimeName {
  std::string_view name;
  std::optional<int> exponent;  // nullopt: seconds, a date or an epoch time, as the values tell
};

// In order of preference. arrived_at is Vidur's, arrival_time_ns LLMServingSim's.
constexpr TimeName kTimes[] = {{"arrival_s", 9},
                               {"arrival_ms", 6},
                               {"arrival_us", 3},
                               {"arrival_ns", 0},
                               {"arrival_time_ns", 0},
                               {"timestamp_s", 9},
                               {"timestamp_ms", 6},
                               {"timestamp_us", 3},
                               {"timestamp_ns", 0},
                               {"arrival_time_ms", 6},
                               {"arrival_time_s", 9},
                               {"arrived_at", 9},
                               {"arrival_time", std::nullopt},
                               {"arrival", std::nullopt},
                               {"timestamp", std::nullopt},
                               {"time", std::nullopt}};

// Azure, BurstGPT, Mooncake, Vidur, LLMServingSim and OpenAI usage names among them.
constexpr std::string_view kInputs[] = {"input_tokens", "prompt_tokens", "input_length",   "isl",
                                        "input_len",    "prompt_len",    "prompt_length",  "num_prefill_tokens",
                                        "input_toks",   "contexttokens", "context_tokens", "request_tokens"};
constexpr std::string_view kOutputs[] = {"output_tokens",   "completion_tokens", "output_length",     "osl",
                                         "output_len",      "completion_length", "num_decode_tokens", "output_toks",
                                         "generatedtokens", "generated_tokens",  "response_tokens"};

// "Request tokens" and "request-tokens" are request_tokens.
std::string normalised(std::string_view name) {
  std::string text = lower(trim(name));
  for (char& c : text)
    if (c == ' ' || c == '-') c = '_';
  return text;
}

std::optional<std::size_t> position(const std::vector<std::string>& names, std::string_view wanted) {
  const auto at = std::find(names.begin(), names.end(), wanted);
  if (at == names.end()) return std::nullopt;
  return static_cast<std::size_t>(at - names.begin());
}

std::optional<std::size_t> first_of(const std::vector<std::string>& names, std::span<const std::string_view> wanted) {
  for (const std::string_view name : wanted)
    if (const auto at = position(names, name)) return at;
  return std::nullopt;
}

// The names as the file writes them, cut when there are very many.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", files::shown(names[i]));
  return text + (names.size() > kShown ? ", ..." : "");
}

// What the file seems to be, if it is known not to be a trace of requests.
std::string_view known_other(const std::vector<std::string>& names) {
  if (position(names, "window_start_s") && position(names, "rate_rps"))
    return "this is a table of rates per window, without the requests' lengths";
  if (position(names, "window_start_s") && position(names, "field"))
    return "this is a table of length quantiles, without arrivals";
  if (position(names, "client") && position(names, "mean_rate_rps"))
    return "this is a table of clients, without single requests";
  return {};
}

std::unexpected<Error> missing(const std::vector<std::string>& names, const std::vector<std::string>& plain, bool json,
                               const std::string& where, bool time, bool input, bool output) {
  std::vector<std::string> lacks;
  if (!time) lacks.emplace_back("an arrival time (arrival_s, arrival_ms, timestamp)");
  if (!input) lacks.emplace_back("input lengths (input_tokens, prompt_tokens, input_length, isl)");
  if (!output) lacks.emplace_back("output lengths (output_tokens, completion_tokens, output_length, osl)");
  std::string_view kind = known_other(plain);
  if (kind.empty() && !time && input && output) kind = "these are lengths without arrivals";
  return fail("{}: not a trace of requests{}{}: it lacks {}. The {} found: {}", where, kind.empty() ? "" : ", ", kind,
              join(lacks, "; "), json ? "keys" : "columns", listed(names));
}

Format format_of(const std::vector<std::string>& plain, bool json) {
  const auto has = [&](std::string_view name) { return position(plain, name).has_value(); };
  // chat_id marks the Qwen-Bailian traces, whose keys are Mooncake's but whose times are seconds.
  if (has("timestamp") && has("input_length") && has("output_length") && !has("chat_id") && json)
    return Format::kMooncake;
  if (json) return Format::kJsonl;
  if (has("timestamp") && has("contexttokens") && has("generatedtokens")) return Format::kAzure;
  if (has("timestamp") && has("request_tokens") && has("response_tokens")) return Format::kBurstGpt;
  return Format::kCsv;
}

}  // namespace

Result<Columns> assign_columns(const std::vector<std::string>& names, bool json, const std::string& where) {
  std::vector<std::string> plain;
  for (const std::string& name : names) plain.push_back(normalised(name));

  const auto input = first_of(plain, kInputs);
  const auto output = first_of(plain, kOutputs);
  std::optional<std::size_t> arrival;
  Columns columns;
  columns.format = format_of(plain, json);
  for (const TimeName& time : kTimes) {
    arrival = position(plain, time.name);
    columns.time_exponent = time.exponent;
    if (arrival) break;
  }
  if (!arrival || !input || !output)
    return missing(names, plain, json, where, arrival.has_value(), input.has_value(), output.has_value());
  if (columns.format == Format::kMooncake && plain[*arrival] == "timestamp") columns.time_exponent = 6;
  columns.arrival = *arrival;
  columns.input = *input;
  columns.output = *output;
  columns.blocks = position(plain, "hash_ids");
  columns.tenant = position(plain, "tenant");
  columns.think = position(plain, "think_s");
  columns.session = position(plain, "session");
  if (!columns.session && columns.format != Format::kBurstGpt) columns.session = position(plain, "session_id");
  return columns;
}

}  // namespace muster::workload
