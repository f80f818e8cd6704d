#include "muster/report/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "sample/sample.h"

namespace muster::report {
namespace {

using nlohmann::ordered_json;

void expect_names(const ordered_json& object, const std::vector<std::string>& names) {
  ASSERT_TRUE(object.is_object()) << object.dump();
  for (const std::string& name : names) EXPECT_TRUE(object.contains(name)) << name;
}

const std::vector<std::string> kRunNames = {
    "requests",       "completed",   "rejected",      "preempted",    "duration_s",  "ttft_ms",
    "tpot_ms",        "e2e_ms",      "queue_wait_ms", "output_tok_s", "total_tok_s", "output_tok_s_per_gpu",
    "slo_attainment", "goodput_rps", "gpu_hours",     "usd",          "steps",       "wall_s",
    "digest",         "classes",     "tenants",       "pools",        "events"};
const std::vector<std::string> kCandidateNames = {"gpu",
                                                  "precision",
                                                  "kv_precision",
                                                  "tp",
                                                  "pp",
                                                  "dp",
                                                  "ep",
                                                  "gpus",
                                                  "fits",
                                                  "stages",
                                                  "weights_gib",
                                                  "activation_gib",
                                                  "non_torch_gib",
                                                  "graph_gib",
                                                  "kv_gib",
                                                  "kv_tokens",
                                                  "max_concurrency",
                                                  "ttft_ms",
                                                  "tpot_ms",
                                                  "output_tok_s",
                                                  "output_tok_s_per_gpu",
                                                  "usd_h",
                                                  "usd_per_mtok",
                                                  "binding",
                                                  "why",
                                                  "provenance",
                                                  "error_band"};

TEST(Json, APipelineShowsItsBubbles) {
  RunMetrics run = sample::run(410, 18900, 0.968);
  EXPECT_TRUE(ordered_json::parse(to_json(run))["bubble_share"].is_null());
  EXPECT_TRUE(ordered_json::parse(to_json(run))["stages"].empty());
  run.stages = {{.busy = 0.75}, {.busy = 0.5}};
  run.bubble_share = 0.375;
  const ordered_json json = ordered_json::parse(to_json(run));
  EXPECT_EQ(json["bubble_share"], 0.375);
  EXPECT_EQ(json["stages"][1]["busy"], 0.5);
  EXPECT_EQ(json["requests_per_wall_s"], 54405.3);  // 22,415 in 0.412 s
}

TEST(Json, ARunHasTheNamesThatOthersRelyOn) {
  const ordered_json run = ordered_json::parse(to_json(sample::run(410, 18900, 0.968)));
  expect_names(run, kRunNames);
  for (const char* latency : {"ttft_ms", "tpot_ms", "e2e_ms", "queue_wait_ms"})
    expect_names(run[latency], {"mean", "p50", "p90", "p95", "p99", "max"});
  expect_names(run["classes"][0], {"name", "requests", "ttft_ms", "slo_attainment"});
}

TEST(Json, APlanHasTheNamesThatOthersRelyOn) {
  const ordered_json plan = ordered_json::parse(to_json(sample::plan()));
  expect_names(plan, {"model", "engine", "engine_version", "candidates", "options"});
  for (const ordered_json& candidate : plan["candidates"]) expect_names(candidate, kCandidateNames);
  expect_names(plan["candidates"][0]["stages"][0],
               {"layers", "weights_gib", "activation_gib", "non_torch_gib", "graph_gib", "kv_gib", "free_gib"});
  expect_names(plan["options"][0], {"option", "verdict", "code", "why"});
}

TEST(Json, ASizeHasTheNamesThatOthersRelyOn) {
  const ordered_json size = ordered_json::parse(to_json(sample::size()));
  expect_names(size, {"replicas", "standby", "gpus",       "layout",     "zones",      "headroom", "usd_h",
                      "binding",  "relax",   "confidence", "evidence",   "fleet_file", "traffic",  "speeds",
                      "slos",     "steps",   "price",      "considered", "paragraph",  "phases"});
  expect_names(size["layout"], {"gpu", "precision", "tp", "pp", "ep"});
  expect_names(size["relax"][0], {"change", "effect"});
  expect_names(size["confidence"], {"replicas_at_95"});
  expect_names(size["evidence"], {"at_n", "at_n_minus_1", "zone_loss"});
  expect_names(size["evidence"]["at_n"], kRunNames);
  EXPECT_EQ(size["evidence"]["zone_loss"]["meets_slo"], true);
  EXPECT_EQ(size["confidence"]["replicas_at_95"], 10);
}

TEST(Json, CountsAreIntegersAndFiguresHaveSixDigits) {
  RunMetrics run;
  run.requests = 18'446'744'073'709'551'615u;
  run.duration_s = 1234.5678901;
  run.output_tok_s = 2610;
  run.goodput_rps = 0.1 + 0.2;
  const std::string text = to_json(run);
  EXPECT_NE(text.find("\"requests\": 18446744073709551615,"), std::string::npos);
  EXPECT_NE(text.find("\"duration_s\": 1234.57,"), std::string::npos);
  EXPECT_NE(text.find("\"output_tok_s\": 2610,"), std::string::npos);
  EXPECT_NE(text.find("\"goodput_rps\": 0.3,"), std::string::npos);
  EXPECT_TRUE(text.ends_with("}\n"));
  EXPECT_EQ(text.find("{\n  \"load\""), 0u);
}

TEST(Json, WhatIsNotANumberIsNull) {
  RunMetrics run;
  run.duration_s = std::numeric_limits<double>::quiet_NaN();
  run.gpu_hours = std::numeric_limits<double>::infinity();
  const ordered_json json = ordered_json::parse(to_json(run));
  EXPECT_TRUE(json["duration_s"].is_null());
  EXPECT_TRUE(json["gpu_hours"].is_null());
  EXPECT_TRUE(json["usd"].is_null());
}

TEST(Json, ARunThatDidNotTakePlaceIsNull) {
  const ordered_json size = ordered_json::parse(to_json(Size()));
  EXPECT_TRUE(size["evidence"]["at_n_minus_1"].is_null());
  EXPECT_TRUE(size["evidence"]["zone_loss"].is_null());
}

TEST(Json, HostileNamesStayInsideTheirStrings) {
  Size size;
  size.fleet = "a\",\"replicas\":99,\"x\":\"\xff\xfe\n\x01";
  size.traffic.source = std::string("nul\0byte", 8);
  const ordered_json json = ordered_json::parse(to_json(size));
  EXPECT_EQ(json["replicas"], 0);
  EXPECT_EQ(json["traffic"]["source"], std::string("nul\0byte", 8));
}

}  // namespace
}  // namespace muster::report
