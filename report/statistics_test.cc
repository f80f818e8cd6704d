// Uncertainty, comparisons and sweeps as people and programs see them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/core/rng.h"
#include "muster/report/comparison.h"
#include "muster/report/format.h"
#include "muster/report/json.h"
#include "muster/report/measures.h"
#include "muster/report/sweep.h"
#include "muster/report/terminal.h"

namespace muster::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t widest(const std::string& text) {
  std::size_t width = 0, begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    width = std::max(width, display_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return width;
}

TEST(Measures, AreFiguresOfTheResultDocument) {
  RunMetrics run{.requests = 1000, .duration_s = 10, .output_tok_s = 5000, .slo_attainment = 0.5, .usd = 2};
  run.ttft_ms.p95 = 123;
  const std::string json = to_json(run);
  std::set<std::string_view> names;
  for (const Measure& m : measures()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_EQ(find_measure(m.name), &m);
    EXPECT_TRUE(m.value(run)) << m.name;
    const std::string_view key = m.name.substr(0, m.name.find('.'));
    if (key != "usd_per_mtok") {
      EXPECT_THAT(json, HasSubstr(fmt::format("\"{}\"", key)));
    }
  }
  EXPECT_EQ(find_measure("ttft_ms.p95")->value(run), 123);
  EXPECT_DOUBLE_EQ(*find_measure("usd_per_mtok")->value(run), 40) << "2 dollars for 50,000 tokens";
  run.usd.reset();
  EXPECT_FALSE(find_measure("usd_per_mtok")->value(run));
  EXPECT_EQ(find_measure("ttft"), nullptr);
  EXPECT_EQ(signed_difference(*find_measure("ttft_ms.p95"), -1234), "-1.23 s");
  EXPECT_EQ(signed_difference(*find_measure("slo_attainment"), 0.012), "+1.20 pp");
}

Uncertainty uncertainty() {
  return {.first_seed = 3,
          .replications = 4,
          .replications_in_slo = 3,
          .method = "By Student's t.",
          .warm_up = "MSER-5",
          .warm_up_s = 90,
          .estimates = {{"ttft_ms.p95", 340, 310, 370, "Student t"},
                        {"ttft_ms.mean", 100, 90, 110, "Student t"},
                        {"e2e_ms.p99", 9000, {}, {}, ""}},
          .digests = {"a", "b", "c", "d"},
          .notes = {"a note"}};
}

TEST(UncertaintyReport, ShowsIntervalsAndWhatTheyRestOn) {
  RunMetrics run{.requests = 10, .uncertainty = uncertainty()};
  const std::string text = terminal(run, {.width = 80});
  for (const char* part : {"4 replications, seeds 3 to 6", "340 ms", "310 ms", "370 ms", "met in 3 of 4", "MSER-5",
                           "Student's t", "a note"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_LE(widest(text), 80u);
  const std::string json = to_json(run);
  EXPECT_THAT(json, HasSubstr("\"ttft_ms.mean\"")) << "every figure, also those that the terminal leaves out";
  EXPECT_THAT(json, HasSubstr("\"low\": null"));
  run.uncertainty.reset();
  EXPECT_THAT(to_json(run), Not(HasSubstr("uncertainty")));
}

TEST(ComparisonReport, NamesBothAndEscapesThem) {
  Comparison c{.name_a = "a.yaml", .name_b = "<b>.yaml", .about = uncertainty(), .words = {"B is better."}};
  using Verdict = ComparisonRow::Verdict;
  c.rows = {{"ttft_ms.p95", 500, 400, -100, -120, -80, Verdict::kB},
            {"usd_per_mtok", 1, 1.5, 0.5, 0.4, 0.6, Verdict::kA},
            {"tpot_ms.p95", 20, 20.1, 0.1, -1, 1.2, Verdict::kNotShown}};
  c.requests = {{"ttft_ms", 900, -80, -70, -90, -70, 0.9, 0.05}};
  const std::string text = terminal(c, {.width = 80});
  for (const char* part : {"B is better.", "-100 ms", "-120 ms to -80.0 ms", "+$0.50", "4 pairs of runs"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_LE(widest(text), 80u);
  const std::string json = to_json(c);
  EXPECT_THAT(json, HasSubstr("\"better\": \"B\""));
  EXPECT_THAT(json, HasSubstr("\"better\": null"));
  const std::string page = html(c, {}, {});
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;.yaml"));
  EXPECT_THAT(page, Not(HasSubstr("<b>.yaml")));
}

SweepRow row(std::vector<std::string> settings, double usd, double attainment, double scale = 1) {
  SweepRow r{.settings = std::move(settings), .scale = scale};
  r.figures.resize(measures().size());
  const auto set = [&](std::string_view name, double x) {
    r.figures[static_cast<std::size_t>(find_measure(name) - measures().data())] = Estimate{.value = x};
  };
  set("usd", usd);
  set("slo_attainment", attainment);
  return r;
}

// The definition: no row at the same scale is at least as good in both and better in one.
bool on_front(const Sweep& sweep, std::size_t i) {
  const auto value = [&](std::size_t r, std::string_view name) {
    return sweep.rows[r].figures[static_cast<std::size_t>(find_measure(name) - measures().data())]->value;
  };
  for (std::size_t j = 0; j < sweep.rows.size(); ++j) {
    if (sweep.rows[j].scale != sweep.rows[i].scale) continue;
    const double cost = value(j, "usd") - value(i, "usd"),
                 gain = value(j, "slo_attainment") - value(i, "slo_attainment");
    if (cost <= 0 && gain >= 0 && (cost < 0 || gain > 0)) return false;
  }
  return true;
}

TEST(Sweep, MarksTheParetoFrontOfEachScale) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng = Rng::stream(seed, 0, "pareto");
    Sweep sweep;
    for (std::uint64_t n = 1 + rng.below(20); n > 0; --n)
      sweep.rows.push_back(row({}, static_cast<double>(rng.below(6)), static_cast<double>(rng.below(6)) / 5,
                               static_cast<double>(1 + rng.below(2))));
    mark_pareto(sweep);
    for (std::size_t i = 0; i < sweep.rows.size(); ++i) EXPECT_EQ(sweep.rows[i].pareto, on_front(sweep, i)) << i;
  }
}

TEST(Sweep, WritesEveryForm) {
  Sweep sweep{.fleet = "f.yaml", .traffic = "t", .axes = {"pools.0.zones", "routing.policy"}, .seeds = {1}};
  sweep.rows = {row({"[a, b]", "least-work"}, 3, 0.9), row({"a", "<x>"}, 2, 0.8)};
  sweep.rows.push_back({.settings = {"c", "y"}, .refused = "does not fit"});
  mark_pareto(sweep);
  const std::string csv = to_csv(sweep);
  EXPECT_THAT(csv,
              testing::StartsWith("pools.0.zones,routing.policy,scale,seeds,refused,targets_met,pareto,queue_wait"));
  EXPECT_THAT(csv, HasSubstr("\n\"[a, b]\",least-work,1,1,,,1,"));
  EXPECT_THAT(csv, HasSubstr("\nc,y,1,1,does not fit,,0,"));
  EXPECT_THAT(csv, Not(HasSubstr(".low"))) << "one seed has no interval";
  const std::string text = terminal(sweep, {.width = 80});
  EXPECT_LE(widest(text), 80u);
  EXPECT_THAT(text, HasSubstr("x does not fit"));
  EXPECT_THAT(html(sweep), Not(HasSubstr("<x>")));
  EXPECT_THAT(to_json(sweep), HasSubstr("\"pareto\": true"));
}

}  // namespace
}  // namespace muster::report
