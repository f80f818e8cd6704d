#include "fleet_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::app {
namespace {

using testing::HasSubstr;

constexpr std::string_view kDesign = R"(fleet: chat
pools:
  - name: chat-70b
    model: llama-3.1-70b            # catalogue key
    engine: vllm@0.19
    gpu: h100-sxm
    precision: fp8
    parallel: {tp: 4, pp: 1}
    replicas: {initial: 3, min: 2, max: 12, standby_per_zone: 1}
    zones: [a, b, c]
    startup: {cold_s: 150, warm_s: 6}
    autoscale: {queue_wait_p95_ms: 500, tpot_degradation: 1.3, gpu_utilisation: 0.9, headroom: 0.35}
classes:
  - {name: interactive, rank: 0, slo: {queue_wait_p95_ms: 500, ttft_p95_ms: 2000, tpot_p95_ms: 60}}
  - {name: batch, rank: 10, preemptible: true, deadline_s: 86400, floor: 0.05}
tenants:
  - name: search
    class: interactive
    weight: 2
    quota: {tokens_per_min: {guarantee: 200k, nominal: 400k, ceiling: 1M}, concurrent: 64}
  - {name: etl, class: batch}
routing: {policy: least-work, prefix_affinity: true, zone_affinity: prefer}
faults:
  - {at_s: 1800, kind: zone_loss, zone: a, for_s: 900}
)";

TEST(FleetFile, ReadsTheFileOfTheDesign) {
  const Result<FleetFile> fleet = parse_fleet(kDesign, "fleet.yaml");
  ASSERT_TRUE(fleet) << fleet.error().message;
  const PoolSpec& pool = fleet->pools.at(0);
  EXPECT_EQ(pool.tp, 4);
  EXPECT_EQ(pool.replicas_initial, 3);
  EXPECT_EQ(pool.standby_per_zone, 1);
  EXPECT_EQ(pool.zones, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(fleet->classes.at(0).slo.ttft_p95_ms, 2000);
  EXPECT_EQ(fleet->tenants.at(0).quota->ceiling, 1e6);
  EXPECT_EQ(fleet->faults.at(0).for_s, 900);
  EXPECT_EQ(not_simulated(*fleet).size(), 3u) << "what the file asks for beyond today's simulator is said, not dropped";
}

TEST(FleetFile, APoolMayRunUnderAnotherEnginesRules) {
  const auto with = [](std::string_view scheduler) {
    std::string text(kDesign);
    const std::string_view engine = "    engine: vllm@0.19\n";
    text.insert(text.find(engine) + engine.size(), fmt::format("    scheduler: {}\n", scheduler));
    return parse_fleet(text, "fleet.yaml");
  };
  EXPECT_EQ(parse_fleet(kDesign, "fleet.yaml")->pools[0].scheduler, "");
  EXPECT_EQ(with("static")->pools[0].scheduler, "static");
  EXPECT_EQ(parse_fleet(to_yaml(*with("tensorrt-llm"), ""), "again")->pools[0].scheduler, "tensorrt-llm");
  EXPECT_EQ(with("tensorrt").error().message.substr(0, 18), "fleet.yaml:6: pool");
  EXPECT_THAT(
      with("sglan").error().message,
      HasSubstr("pools[0].scheduler: unknown scheduler 'sglan' (did you mean sglang?); known are vllm, sglang,"));
}

TEST(FleetFile, WritesWhatItReads) {
  const FleetFile fleet = parse_fleet(kDesign, "fleet.yaml").value();
  const std::string once = to_yaml(fleet, "a comment\nof two lines");
  const Result<FleetFile> again = parse_fleet(once, "again.yaml");
  ASSERT_TRUE(again) << again.error().message << "\n" << once;
  EXPECT_EQ(to_yaml(*again, "a comment\nof two lines"), once);
  EXPECT_EQ(again->tenants.at(0).quota->guarantee, 200000);
  EXPECT_EQ(again->classes.at(1).deadline_s, 86400);
}

TEST(FleetFile, NamesThatLookLikeOtherThingsSurvive) {
  FleetFile fleet = parse_fleet(kDesign, "fleet.yaml").value();
  for (const char* name : {"true", "12", "a: b", "#x", "it's", "q\"uote", "-dash", "", "1e5", "tab\there", "null"}) {
    fleet.fleet = name;
    const Result<FleetFile> again = parse_fleet(to_yaml(fleet, ""), "x.yaml");
    ASSERT_TRUE(again) << name << ": " << again.error().message;
    EXPECT_EQ(again->fleet, name);
  }
}

// One edit of the design's file, and what the message must say.
struct Bad {
  std::string_view from, to, message;
};
class BadFleet : public testing::TestWithParam<Bad> {};
TEST_P(BadFleet, IsRefusedWithFileLineAndNeed) {
  std::string text(kDesign);
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const Result<FleetFile> fleet = parse_fleet(text, "fleet.yaml");
  ASSERT_FALSE(fleet) << text;
  EXPECT_THAT(fleet.error().message, HasSubstr("fleet.yaml:"));
  EXPECT_THAT(fleet.error().message, HasSubstr(std::string(GetParam().message)));
}
INSTANTIATE_TEST_SUITE_P(
    Edits, BadFleet,
    testing::Values(Bad{"replicas:", "replica:", "did you mean replicas?"},
                    Bad{"initial: 3", "initial: 0", "at least 1"}, Bad{"initial: 3", "initial: many", "many"},
                    Bad{"min: 2", "min: 20", "min 20 is above max 12"}, Bad{"tp: 4", "tp: 0", "at least 1"},
                    Bad{"tp: 4", "tp: 2.5", "2.5"}, Bad{"zones: [a, b, c]", "zones: []", "zones"},
                    Bad{"zones: [a, b, c]", "zones: [a, a]", "twice"},
                    Bad{"class: batch", "class: bach", "did you mean batch?"},
                    Bad{"kind: zone_loss", "kind: zoneloss", "did you mean zone_loss?"},
                    Bad{"zone: a,", "zone: d,", "zone 'd'"}, Bad{"ttft_p95_ms: 2000", "ttft_p95_ms: -1", "above 0"},
                    Bad{"ttft_p95_ms: 2000", "ttft_p95_ms: .nan", "ttft_p95_ms"},
                    Bad{"policy: least-work", "policy: least-wok", "did you mean least-work?"},
                    Bad{"guarantee: 200k", "guarantee: 2M", "guarantee <= nominal"},
                    Bad{"    model: llama-3.1-70b", "    modell: llama-3.1-70b", "model"},
                    Bad{"fleet: chat", "flet: chat", "fleet"}));

}  // namespace
}  // namespace muster::app
