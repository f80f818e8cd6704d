#include "request_log.h"

#include <array>
#include <string_view>
#include <utility>

#include "exact_number.h"

namespace muster::app {
namespace {

constexpr std::array<std::string_view, 18> kFields = {"id",
                                                      "class",
                                                      "tenant",
                                                      "end",
                                                      "arrival_ms",
                                                      "first_scheduled_ms",
                                                      "first_token_ms",
                                                      "last_token_ms",
                                                      "queue_wait_ms",
                                                      "ttft_ms",
                                                      "tpot_ms",
                                                      "e2e_ms",
                                                      "input_tokens",
                                                      "output_tokens",
                                                      "cached_tokens",
                                                      "replica",
                                                      "preemptions",
                                                      "attempts"};
using Values = std::array<std::string, kFields.size()>;  // an empty one: there is no such figure

constexpr Instant kNever = Instant::max();

std::string_view end_name(sim::RequestRecord::End end) {
  switch (end) {
    case sim::RequestRecord::End::kCompleted:
      return "completed";
    case sim::RequestRecord::End::kRejected:
      return "rejected";
    case sim::RequestRecord::End::kTimedOut:
      return "timed_out";
    case sim::RequestRecord::End::kNone:
      break;
  }
  return "none";
}

std::string instant_ms(Instant at) {
  return at == kNever ? std::string() : exact_ms(at.time_since_epoch());
}
std::string between_ms(Instant begin, Instant end) {
  return begin == kNever || end == kNever ? std::string() : exact_ms(end - begin);
}

// Of answers with more than one token, as in the percentiles.
std::string tpot_ms(const sim::RequestRecord& r) {
  if (r.last_token == kNever || r.output_tokens < 2) return {};
  return fmt::format("{:.6f}", to_ms(r.last_token - r.first_token) / (r.output_tokens - 1));
}

}  // namespace

RequestLog::RequestLog(files::FileWriter file, bool csv, const sim::Scenario& scenario)
    : file_(std::move(file)), csv_(csv) {
  const auto quoted = [&](const std::string& name) { return csv_ ? csv_text(name) : json_text(name); };
  for (const sim::RequestClass& c : scenario.classes) classes_.push_back(quoted(c.name));
  for (const std::string& name : scenario.trace->tenants) tenants_.push_back(quoted(name));
  if (!csv_) return;
  std::string header;
  for (const std::string_view field : kFields) header.append(header.empty() ? "" : ",").append(field);
  file_.write(header + "\n");
}

Result<RequestLog> RequestLog::create(const std::string& path, const sim::Scenario& scenario) {
  MUSTER_TRY(files::FileWriter file, files::FileWriter::create(path));
  return RequestLog(std::move(file), path.ends_with(".csv") || path.ends_with(".csv.gz"), scenario);
}

void RequestLog::on_answered(const sim::RequestRecord& r) {
  const std::string_view quote = csv_ ? "" : "\"";
  const bool started = r.first_scheduled != kNever;
  const Values values = {std::to_string(r.id.value),
                         classes_[r.request_class],
                         r.tenant < tenants_.size() ? tenants_[r.tenant] : std::string(),
                         fmt::format("{}{}{}", quote, end_name(r.end), quote),
                         instant_ms(r.arrival),
                         instant_ms(r.first_scheduled),
                         instant_ms(r.first_token),
                         instant_ms(r.last_token),
                         between_ms(r.arrival, r.first_scheduled),
                         between_ms(r.arrival, r.first_token),
                         tpot_ms(r),
                         between_ms(r.arrival, r.last_token),
                         std::to_string(r.input_tokens),
                         std::to_string(r.output_tokens),
                         std::to_string(r.cached_tokens),
                         started ? std::to_string(r.replica) : std::string(),
                         std::to_string(r.preemptions),
                         std::to_string(r.attempts)};
  std::string line;
  for (std::size_t i = 0; i < values.size(); ++i) {
    line += i == 0 ? (csv_ ? "" : "{") : ",";
    if (!csv_) line.append("\"").append(kFields[i]).append("\":");
    line += values[i].empty() && !csv_ ? "null" : values[i];
  }
  line += csv_ ? "\n" : "}\n";
  file_.write(line);
}

}  // namespace muster::app
