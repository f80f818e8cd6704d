#include "run_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "muster/core/rng.h"
#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster/files/lines.h"

namespace muster::app {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// 2 ms and what its tokens and sequences cost; later stages are slower.
class Timer final : public sim::StepTimer {
 public:
  explicit Timer(int stages) : stages_(stages) {}
  int stages() const override { return stages_; }
  Duration stage_time(int stage, const cost::StepShape& shape) const override {
    std::int64_t prompt_tokens = 0;
    for (const cost::PrefillChunk& chunk : shape.prefills) prompt_tokens += chunk.tokens;
    return Duration(2ms) + Duration(1us) * (7 * prompt_tokens + 31 * shape.decode_sequences + 101 * stage);
  }

 private:
  int stages_;
};

class RunOutputsTest : public testing::Test {
 protected:
  RunOutputsTest() {
    std::string name = (fs::temp_directory_path() / "muster-outputs-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~RunOutputsTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // 3 replicas in 2 zones, one of which is lost for a while; one request is too long for any replica.
  sim::Scenario scenario(int stages) {
    timer_ = std::make_unique<Timer>(stages);
    trace_ = {};
    trace_.source = "test";
    trace_.tenants = {"search, fast", "etl \"night\""};
    Rng rng = Rng::stream(7, 0, "trace");
    Duration at{0};
    for (int i = 0; i < 400; ++i) {
      at += Duration(1ms) * static_cast<std::int64_t>(rng.below(30));
      trace_.requests.push_back({.arrival = at,
                                 .input_tokens = 1 + static_cast<std::int32_t>(rng.below(1500)),
                                 .output_tokens = 1 + static_cast<std::int32_t>(rng.below(60)),
                                 .tenant = static_cast<std::uint16_t>(rng.below(2))});
    }
    trace_.requests[100].input_tokens = 2'000'000;
    sim::Scenario s;
    s.kind.step = timer_.get();
    s.kind.limits = {.max_num_batched_tokens = 2048, .max_num_seqs = 16, .kv_blocks = 4000};
    s.zones = {"a", "b"};
    s.replicas = {{.zone = 0}, {.zone = 1}, {.zone = 0}};
    s.policy.running_max = 16;
    s.classes = {{.name = "interactive"}, {.name = "batch", .rank = 1}};
    s.class_of_tenant = {0, 1};
    s.faults = {{.kind = sim::Fault::Kind::kZoneLoss, .at = Instant(2s), .lasts = 1s, .target = 1}};
    s.trace = &trace_;
    s.sample_interval = 500ms;
    s.keep_requests = true;
    return s;
  }

  sim::Outcome run(sim::Scenario& s, const OutputOptions& options) {
    auto outputs = RunOutputs::attach(options, s);
    EXPECT_TRUE(outputs) << outputs.error().message;
    sim::Outcome outcome = sim::run(s);
    const Result<void> finished = (*outputs)->finish(outcome);
    EXPECT_TRUE(finished) << finished.error().message;
    window_ = (*outputs)->pipeline();
    return outcome;
  }

  std::vector<files::Node> events(const std::string& file) {
    const Result<std::string> text = files::read_file(path(file));
    EXPECT_TRUE(text);
    const Result<files::Node> document = files::parse_document(*text, file);
    EXPECT_TRUE(document) << document.error().message;
    return document->find("traceEvents")->items();
  }

  fs::path folder_;
  std::unique_ptr<Timer> timer_;
  workload::Trace trace_;
  report::PipelineWindow window_;
};

std::string text(const files::Node& event, std::string_view key) {
  const std::optional<files::Node> value = event.find(key);
  return value ? value->text().value_or("") : "";
}
double number(const files::Node& event, std::string_view key) {
  const std::optional<files::Node> value = event.find(key);
  return value ? value->number().value_or(NAN) : NAN;
}
std::int64_t nanoseconds(const files::Node& event, std::string_view key) {
  return std::llround(number(event, key) * 1000);
}

TEST_F(RunOutputsTest, EveryRequestIsALineOfTheLog) {
  sim::Scenario s = scenario(1);
  const sim::Outcome outcome = run(s, {.requests = path("r.jsonl.gz")});
  const std::string all = files::read_file(path("r.jsonl.gz")).value();
  std::map<std::int64_t, files::Node> lines;
  for (const std::string_view line : split(all, '\n'))
    if (!line.empty()) {
      const files::Node node = files::parse_document(line, "r.jsonl").value();
      lines.emplace(node.find("id")->integer().value(), node);
    }
  ASSERT_EQ(lines.size(), outcome.requests_log.size());
  for (const sim::RequestRecord& r : outcome.requests_log) {
    const files::Node& line = lines.at(r.id.value);
    EXPECT_EQ(text(line, "end"), r.completed() ? "completed" : "rejected");
    EXPECT_EQ(text(line, "tenant"), trace_.tenants[r.tenant]);
    EXPECT_EQ(text(line, "class"), r.tenant == 0 ? "interactive" : "batch");
    EXPECT_DOUBLE_EQ(number(line, "input_tokens"), r.input_tokens);
    EXPECT_DOUBLE_EQ(number(line, "preemptions"), r.preemptions);
    EXPECT_DOUBLE_EQ(number(line, "arrival_ms"), to_ms(r.arrival.time_since_epoch()));
    if (!r.completed()) {
      EXPECT_FALSE(line.find("ttft_ms"));
      continue;
    }
    EXPECT_DOUBLE_EQ(number(line, "ttft_ms"), to_ms(r.first_token - r.arrival));
    EXPECT_DOUBLE_EQ(number(line, "e2e_ms"), to_ms(r.last_token - r.arrival));
    if (r.output_tokens > 1) {
      EXPECT_NEAR(number(line, "tpot_ms"), to_ms(r.last_token - r.first_token) / (r.output_tokens - 1), 1e-6);
    } else {
      EXPECT_FALSE(line.find("tpot_ms"));
    }
  }
}

TEST_F(RunOutputsTest, TheLogAsCsvQuotesNames) {
  sim::Scenario s = scenario(1);
  const sim::Outcome outcome = run(s, {.requests = path("r.csv")});
  const std::string all = files::read_file(path("r.csv")).value();
  EXPECT_THAT(all, testing::StartsWith("id,class,tenant,end,arrival_ms,"));
  EXPECT_THAT(all, HasSubstr(",interactive,\"search, fast\",completed,"));
  EXPECT_THAT(all, HasSubstr(",batch,\"etl \"\"night\"\"\",completed,"));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all, '\n')), 1 + outcome.requests_log.size());
}

TEST_F(RunOutputsTest, LookingOnChangesNothing) {
  for (const int stages : {1, 3}) {
    sim::Scenario s = scenario(stages);
    const std::uint64_t alone = sim::run(s).digest;
    EXPECT_EQ(run(s, {.requests = path("r.csv"), .trace_events = path("t.json")}).digest, alone);
    s.step_by_step = true;
    EXPECT_EQ(run(s, {.trace_events = path("t.json")}).digest, alone);
  }
}

using Track = std::pair<std::int64_t, std::int64_t>;               // process and thread
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;  // ns

void expect_no_overlap(Spans spans) {
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].first, spans[i - 1].second);
}

TEST_F(RunOutputsTest, TraceEventsAreWholeAndDoNotOverlap) {
  for (const int stages : {1, 2, 4}) {
    for (const bool step_by_step : {false, true}) {
      SCOPED_TRACE(fmt::format("{} stages, step by step {}", stages, step_by_step));
      sim::Scenario s = scenario(stages);
      s.step_by_step = step_by_step;
      const sim::Outcome outcome = run(s, {.trace_events = path("t.json.gz")});
      std::map<Track, Spans> spans;
      std::map<std::string, std::vector<std::string>> open;  // [request] names of the spans that are not closed yet
      std::map<std::string, std::int64_t> last;              // [request] ns
      double steps = 0, requests = 0, instants = 0, named = 0;
      for (const files::Node& e : events("t.json.gz")) {
        const std::string phase = text(e, "ph"), id = text(e, "id");
        if (phase == "X") {
          const std::int64_t begin = nanoseconds(e, "ts"), pid = std::llround(number(e, "pid"));
          spans[{pid, std::llround(number(e, "tid"))}].emplace_back(begin, begin + nanoseconds(e, "dur"));
          if (number(e, "tid") == 1) steps += number(*e.find("args"), "steps");
          if (step_by_step) EXPECT_EQ(number(*e.find("args"), "steps"), 1);
        } else if (phase == "b" || phase == "e") {
          EXPECT_GE(nanoseconds(e, "ts"), last[id]);
          last[id] = nanoseconds(e, "ts");
          if (phase == "b") {
            requests += open[id].empty() ? 1 : 0;
            open[id].push_back(text(e, "name"));
          } else {
            ASSERT_FALSE(open[id].empty());
            EXPECT_EQ(open[id].back(), text(e, "name"));
            open[id].pop_back();
          }
        } else if (phase == "i") {
          ++instants;
        } else if (phase == "M") {
          named += text(e, "name") == "thread_name" ? 1 : 0;
        } else {
          EXPECT_EQ(phase, "C");
        }
      }
      for (const auto& [id, names] : open) EXPECT_TRUE(names.empty()) << "request " << id << " has no end";
      for (const auto& [track, track_spans] : spans) expect_no_overlap(track_spans);
      EXPECT_EQ(spans.size(), 3U * static_cast<std::size_t>(stages));
      EXPECT_EQ(named, 3 * stages);
      EXPECT_EQ(steps, static_cast<double>(outcome.steps));
      EXPECT_EQ(requests, static_cast<double>(outcome.requests));
      EXPECT_EQ(instants, static_cast<double>(outcome.log.size()));
    }
  }
}

TEST_F(RunOutputsTest, TimestampsAreMicroseconds) {
  sim::Scenario s = scenario(1);
  const sim::Outcome outcome = run(s, {.trace_events = path("t.json")});
  for (const files::Node& e : events("t.json")) {
    if (text(e, "ph") != "b" || text(e, "name") != "decode") continue;
    const sim::RequestRecord& r = outcome.requests_log[static_cast<std::size_t>(number(e, "id"))];
    EXPECT_NEAR(number(e, "ts") * 1e-6, to_seconds(r.first_token.time_since_epoch()), 1e-10);
  }
}

TEST_F(RunOutputsTest, AWindowHoldsWhatOverlapsIt) {
  sim::Scenario s = scenario(2);
  run(s, {.trace_events = path("t.json"), .trace_window = "1s..1500ms", .trace_replicas = "2"});
  std::size_t steps = 0;
  for (const files::Node& e : events("t.json")) {
    if (text(e, "ph") == "M") continue;
    EXPECT_EQ(number(e, "pid"), TraceEvents::kFirstReplica + 2);
    if (text(e, "ph") != "X") continue;
    ++steps;
    EXPECT_LT(number(e, "ts"), 1.6e6);  // only the step's other stage may be inside
    EXPECT_GT(number(e, "ts") + number(e, "dur"), 0.9e6);
  }
  EXPECT_GT(steps, 20U);
}

TEST(TraceWindow, IsParsedOrRefused) {
  const TraceEventWindow window = parse_trace_window("60s..1.5e2").value();
  EXPECT_EQ(window.from, Instant(60s));
  EXPECT_EQ(window.until, Instant(150s));
  EXPECT_EQ(parse_trace_window("..500ms")->until, Instant(500ms));
  EXPECT_EQ(parse_trace_window("5..")->until, Instant::max());
  for (const char* bad : {"", "60", "60-90", "90..60", "x..y", "-1..5", "1m..2m"})
    EXPECT_THAT(parse_trace_window(bad).error().message, HasSubstr("--trace-window")) << bad;
  TraceEventWindow some;
  EXPECT_TRUE(parse_trace_replicas("0, 2", 3, some));
  EXPECT_EQ(some.replicas, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_THAT(parse_trace_replicas("3", 3, some).error().message, HasSubstr("replicas from 0 to 2 are needed"));
}

TEST_F(RunOutputsTest, OptionsWithoutTheirFileAreRefused) {
  sim::Scenario s = scenario(1);
  EXPECT_THAT(RunOutputs::attach({.trace_window = "1s..2s"}, s).error().message, HasSubstr("it is missing"));
}

TEST_F(RunOutputsTest, TheSeriesHasALinePerSample) {
  sim::Scenario s = scenario(1);
  const sim::Outcome outcome = run(s, {.series = path("s.csv")});
  const std::string all = files::read_file(path("s.csv")).value();
  EXPECT_THAT(all, testing::StartsWith("at_s,arrivals,queued,ready_replicas,running,running a/0,kv_share a/0,"));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all, '\n')), 1 + outcome.samples.size());
  EXPECT_THAT(all, HasSubstr("\n0.5,"));
}

TEST_F(RunOutputsTest, AStretchOfThePipelineIsKept) {
  sim::Scenario s = scenario(4);
  s.step_by_step = true;
  run(s, {});
  EXPECT_EQ(window_.replica, "a/0");
  EXPECT_EQ(window_.stages, 4);
  ASSERT_FALSE(window_.spans.empty());
  std::map<int, double> free_at;
  for (const report::PipelineSpan& span : window_.spans) {
    EXPECT_GE(span.begin_ms, free_at[span.stage]);
    EXPECT_GT(span.end_ms, span.begin_ms);
    free_at[span.stage] = span.end_ms;
  }
  s = scenario(1);
  run(s, {});
  EXPECT_TRUE(window_.spans.empty());
}

}  // namespace
}  // namespace muster::app
