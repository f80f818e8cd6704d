#include "trace_events.h"

#include <algorithm>
#include <utility>

#include "exact_number.h"
#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::app {
namespace {

constexpr Instant kNever = Instant::max();

std::string micros(Instant at) {
  return exact_us(at.time_since_epoch());
}

Result<Instant> parse_instant(std::string_view text, std::string_view whole) {
  double unit = 1;
  std::string_view digits = text;
  if (digits.ends_with("ms")) {
    unit = 1e-3;
    digits.remove_suffix(2);
  } else if (digits.ends_with("s")) {
    digits.remove_suffix(1);
  }
  const std::optional<double> value = files::parse_number(digits);
  if (!value || *value < 0 || *value > 9e9)
    return fail("--trace-window {}: {} found; a time such as 60s, 1.5s or 500ms is needed", whole, files::shown(text));
  return Instant(from_seconds(*value * unit));
}

std::string_view step_name(const sim::StepRecord& r) {
  if (r.prefill_tokens == 0) return r.steps == 1 ? "decode" : "decode steps";
  return r.decode_sequences == 0 ? "prefill" : "prefill + decode";
}

}  // namespace

Result<TraceEventWindow> parse_trace_window(std::string_view text) {
  TraceEventWindow window;
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos)
    return fail("--trace-window {}: a begin and an end with two dots between them are needed, such as 60s..90s", text);
  const std::string_view from = trim(text.substr(0, dots)), until = trim(text.substr(dots + 2));
  if (!from.empty()) {
    MUSTER_TRY(window.from, parse_instant(from, text));
  }
  if (!until.empty()) {
    MUSTER_TRY(window.until, parse_instant(until, text));
  }
  if (window.from >= window.until) return fail("--trace-window {}: the begin has to be before the end", text);
  return window;
}

Result<void> parse_trace_replicas(std::string_view text, std::size_t replicas, TraceEventWindow& window) {
  for (const std::string_view part : split(text, ',')) {
    const std::optional<std::int64_t> index = files::parse_integer(trim(part));
    if (!index || *index < 0 || std::cmp_greater_equal(*index, replicas))
      return fail("--trace-replicas {}: {} found; replicas from 0 to {} are needed", text, files::shown(part),
                  replicas - 1);
    window.replicas.push_back(static_cast<std::uint32_t>(*index));
  }
  return {};
}

TraceEvents::TraceEvents(files::FileWriter file, TraceEventWindow window, const sim::Scenario& scenario)
    : file_(std::move(file)), window_(std::move(window)) {
  for (const sim::RequestClass& c : scenario.classes) classes_.push_back(json_text(c.name));
  for (const std::string& name : scenario.trace->tenants) tenants_.push_back(json_text(name));
  file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  put(fmt::format(R"("ph":"M","pid":{},"name":"process_name","args":{{"name":"fleet"}})", kFleet));
  for (std::uint32_t i = 0; i < scenario.replicas.size(); ++i) {
    const sim::ReplicaPlace& place = scenario.replicas[i];
    Replica replica{.stages = static_cast<std::size_t>(scenario.kind_of(place.pool).step->stages())};
    replica.wanted = window_.replicas.empty() || std::ranges::find(window_.replicas, i) != window_.replicas.end();
    replicas_.push_back(replica);
    if (replica.wanted) name_tracks(i, scenario.zones[place.zone], place.standby);
  }
}

void TraceEvents::name_tracks(std::uint32_t replica, const std::string& zone, bool standby) {
  const std::uint32_t pid = kFirstReplica + replica;
  const std::string name = fmt::format("replica {} (zone {}{})", replica, zone, standby ? ", standby" : "");
  put(fmt::format(R"("ph":"M","pid":{},"name":"process_name","args":{{"name":{}}})", pid, json_text(name)));
  put(fmt::format(R"("ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}})", pid, replica + 1));
  for (std::size_t stage = 0; stage < replicas_[replica].stages; ++stage) {
    put(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"stage {}"}})", pid, stage + 1,
                    stage));
    put(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}})", pid,
                    stage + 1, stage));
  }
}

Result<TraceEvents> TraceEvents::create(const std::string& path, TraceEventWindow window,
                                        const sim::Scenario& scenario) {
  MUSTER_TRY(files::FileWriter file, files::FileWriter::create(path));
  return TraceEvents(std::move(file), std::move(window), scenario);
}

void TraceEvents::put(const std::string& event) {
  file_.write(any_ ? ",\n{" : "{");
  file_.write(event);
  file_.write("}");
  any_ = true;
}

void TraceEvents::on_steps(const sim::StepRecord& r) {
  Replica& replica = replicas_[r.replica];
  if (!replica.wanted || !in_window(r.begin, r.end)) return;
  const std::uint32_t pid = kFirstReplica + r.replica;
  if (r.begin > replica.busy_until && replica.busy_until != Instant::min()) counters(r.replica, replica.busy_until, {});
  counters(r.replica, r.begin, r);
  replica.busy_until = r.end;
  const std::string arguments = fmt::format(
      R"("prefill_tokens":{},"prefill_sequences":{},"decode_sequences":{},"decode_kv_tokens":{},"steps":{})",
      r.prefill_tokens, r.prefill_sequences, r.decode_sequences, r.decode_kv_tokens, r.steps);
  // Several steps as one have no spans of their own: they go through all stages again and again, alone.
  for (std::size_t stage = 0; stage < replica.stages; ++stage) {
    const sim::StageSpan span = r.steps == 1 ? r.stages[stage] : sim::StageSpan{r.begin, r.end};
    put(fmt::format(R"("ph":"X","cat":"step","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})",
                    step_name(r), pid, stage + 1, micros(span.begin), exact_us(span.end - span.begin), arguments));
  }
}

void TraceEvents::counters(std::uint32_t replica, Instant at, const sim::StepRecord& r) {
  const std::uint32_t pid = kFirstReplica + replica;
  put(fmt::format(R"("ph":"C","name":"sequences in a step","pid":{},"ts":{},"args":{{"decode":{},"prefill":{}}})", pid,
                  micros(at), r.decode_sequences, r.prefill_sequences));
  put(fmt::format(R"("ph":"C","name":"KV tokens of the decodes","pid":{},"ts":{},"args":{{"tokens":{}}})", pid,
                  micros(at), r.decode_kv_tokens));
}

void TraceEvents::on_answered(const sim::RequestRecord& r) {
  const bool wanted = r.first_scheduled == kNever ? window_.replicas.empty() : replicas_[r.replica].wanted;
  if (!wanted) return;
  Instant end = r.arrival;  // the last that is known of it
  for (const Instant at : {r.first_scheduled, r.first_token, r.last_token})
    if (at != kNever) end = std::max(end, at);
  if (!in_window(r.arrival, std::max(end, r.arrival + Duration(1)))) return;
  static constexpr const char* kEnds[] = {"none", "completed", "rejected", "timed_out"};
  std::string arguments =
      fmt::format(R"("request":{},"class":{},"input_tokens":{},"output_tokens":{},"cached_tokens":{},"preemptions":{},)"
                  R"("attempts":{},"end":"{}")",
                  r.id.value, classes_[r.request_class], r.input_tokens, r.output_tokens, r.cached_tokens,
                  r.preemptions, r.attempts, kEnds[static_cast<std::size_t>(r.end)]);
  if (r.tenant < tenants_.size()) arguments += fmt::format(R"(,"tenant":{})", tenants_[r.tenant]);
  const std::uint32_t pid = r.first_scheduled == kNever ? kFleet : kFirstReplica + r.replica;
  // Viewers nest what lies between a begin and its end in the file, so phases come in between.
  const auto edge = [&](char phase, std::string_view name, Instant at, const std::string& args) {
    put(fmt::format(R"("ph":"{}","cat":"request","id":"{}","name":"{}","pid":{},"tid":0,"ts":{},"args":{{{}}})", phase,
                    r.id.value, name, pid, micros(at), args));
  };
  const auto phase = [&](std::string_view name, Instant from, Instant to) {
    if (from == kNever || to == kNever || from >= to) return;
    edge('b', name, from, "");
    edge('e', name, to, "");
  };
  edge('b', "request", r.arrival, arguments);
  phase("queued", r.arrival, r.first_scheduled);
  phase("prefill", r.first_scheduled, r.first_token);
  phase("decode", r.first_token, r.last_token);
  edge('e', "request", end, "");
}

void TraceEvents::on_event(const sim::FleetEvent& event) {
  if (!in_window(event.at, event.at + Duration(1))) return;
  put(fmt::format(R"("ph":"i","s":"g","cat":"fleet","name":{},"pid":{},"tid":0,"ts":{},"args":{{"text":{}}})",
                  json_text(event.kind), kFleet, micros(event.at), json_text(event.text)));
}

Result<void> TraceEvents::finish() {
  for (std::uint32_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].busy_until != Instant::min()) counters(i, replicas_[i].busy_until, {});
  file_.write("\n]}\n");
  return file_.finish();
}

}  // namespace muster::app
