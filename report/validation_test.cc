#include "muster/report/validation.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace muster::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Validation sample() {
  Validation v{.file = "rows.csv", .rows = 3, .expressible = 2, .aggregated_rows = 3, .aggregated_expressible = 2};
  v.groups = {{.key = "all",
               .n = 2,
               .tpot = ErrorFigures{.n = 2, .mape = 0.123, .bias = -0.05, .median = 0.1, .p90 = 0.2},
               .bias = -0.05},
              {.key = "engine=<vllm>", .n = 1}};
  v.not_expressed = {{"gpu not in the catalogue: X", 1}};
  v.worst = {{.row_id = "ab",
              .text = "vllm llama",
              .metric = "tpot_ms",
              .measured = 10,
              .predicted = 8,
              .error = -0.2,
              .group = "vllm",
              .reason = "few users"}};
  v.points = v.worst;
  return v;
}

TEST(Validation, JsonHasTheFieldsOthersRelyOn) {
  const nlohmann::json j = nlohmann::json::parse(to_json(sample()));
  EXPECT_EQ(j["rows"], 3);
  EXPECT_EQ(j["expressible"], 2);
  EXPECT_EQ(j["groups"][0]["key"], "all");
  EXPECT_EQ(j["groups"][0]["n"], 2);
  EXPECT_DOUBLE_EQ(j["groups"][0]["tpot_mape"], 0.123);
  EXPECT_TRUE(j["groups"][0]["ttft_mape"].is_null());
  EXPECT_TRUE(j["groups"][0]["throughput_mape"].is_null());
  EXPECT_DOUBLE_EQ(j["groups"][0]["bias"], -0.05);
  EXPECT_EQ(j["worst"][0]["reason"], "few users");
}

TEST(Validation, TerminalSaysCoverageErrorsAndReasons) {
  const std::string text = terminal(sample(), {.width = 120});
  EXPECT_THAT(text, HasSubstr("2 of 3 rows"));
  EXPECT_THAT(text, HasSubstr("12.3 %"));
  EXPECT_THAT(text, HasSubstr("-20.0 %"));
  EXPECT_THAT(text, HasSubstr("gpu not in the catalogue: X"));
}

TEST(Validation, PageHoldsThePointsAndEscapesNames) {
  const std::string page = html(sample());
  EXPECT_THAT(page, HasSubstr("data-chart=\"scatter\""));
  EXPECT_THAT(page, HasSubstr("&lt;vllm&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<vllm>")));
  EXPECT_THAT(page, HasSubstr("[10,8]"));
}

}  // namespace
}  // namespace muster::report
