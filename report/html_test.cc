#include "muster/report/html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "html_data.h"
#include "html_parts.h"
#include "sample/sample.h"

namespace muster::report {
namespace {

constexpr std::string_view kHostile =
    "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\" & <!-- \xe2\x80\xa8 \xff";

// The page without the embedded library, whose licence text may name addresses.
std::string without_library(std::string page) {
  const std::size_t begin = page.find("/*!\n * Chart.js");
  const std::size_t end = page.find("</script>", begin);
  EXPECT_NE(begin, std::string::npos);
  return page.erase(begin, end - begin);
}

std::string data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Size hostile() {
  Size s = sample::size();
  const std::string bad(kHostile);
  s.fleet = s.model = s.engine = s.binding = s.paragraph = s.fleet_file = s.traffic.source = bad;
  s.zones = {bad, bad, bad};
  s.price.provider = s.price.source = s.price.date = bad;
  s.layout.gpu = s.layout.precision = s.layout.why = s.layout.binding = bad;
  s.layout.provenance = {bad};
  for (Candidate& c : s.considered) c.gpu = c.why = c.binding = bad;
  for (Slo& slo : s.slos) slo.name = bad;
  for (ReplicaSeries& r : s.plots.replicas) r.name = bad;
  for (Event& e : s.zone_loss.events) e.kind = e.text = bad;
  for (PercentileSpeed& p : s.speeds) p.percentile = bad;
  for (Phase& p : s.phases) p.name = bad;
  for (Relaxation& r : s.relax) r.change = r.effect = bad;
  s.at_n.digest = bad;
  return s;
}

TEST(Html, APipelineIsDrawnWithItsBubbles) {
  RunMetrics run = sample::run(1, 2, 1);
  RunPlots plots;
  EXPECT_EQ(html(run, plots, "run").find("id=\"pipeline\""), std::string::npos);
  run.stages = {{.busy = 0.75}, {.busy = 0.5}};
  run.bubble_share = 0.375;
  plots.pipeline = {.replica = std::string(kHostile), .stages = 2, .begin_s = 60};
  for (int step = 0; step < 3; ++step)
    for (int stage = 0; stage < 2; ++stage)
      plots.pipeline.spans.push_back({.stage = stage,
                                      .micro_batch = step % 2,
                                      .begin_ms = 10.0 * (step + stage),
                                      .end_ms = 10.0 * (step + stage) + 8 - 2 * stage,
                                      .prefill_tokens = step == 1 ? 512.0 : 0.0,
                                      .decode_sequences = 7});
  plots.pipeline.spans.push_back({.stage = 0, .begin_ms = 30, .end_ms = 60, .decode_sequences = 7, .steps = 40});
  const std::string page = html(run, plots, "run");
  EXPECT_NE(page.find("id=\"pipeline\""), std::string::npos);
  EXPECT_EQ(occurrences(page, "<rect "), 2U + 6U + 1U);  // rows, spans, and the many steps as one
  EXPECT_NE(page.find("stage 0: 512 prompt tokens, 7 decodes, 10.0 to 18.0 ms"), std::string::npos);
  EXPECT_NE(page.find("40 decode steps of 7 sequences"), std::string::npos);
  EXPECT_NE(page.find("40 % busy"), std::string::npos);  // stage 0: 24 of 60 ms
  EXPECT_EQ(page.find("<img src=x"), std::string::npos);
}

TEST(Html, LoadsNothingFromAnywhere) {
  for (const std::string& page :
       {html(sample::size()), html(sample::run(1, 2, 1), sample::plots(50, 3, 0, 0, 1), "run")}) {
    const std::string own = without_library(page);
    for (const char* attribute : {"src=", "href=\"http", "href=\"//", "action=", "poster=", "srcset="})
      EXPECT_EQ(own.find(attribute), std::string::npos) << attribute;
    EXPECT_EQ(own.find("fetch("), std::string::npos);
    EXPECT_EQ(own.find("XMLHttpRequest"), std::string::npos);
    EXPECT_EQ(own.find("@import"), std::string::npos);
    EXPECT_EQ(own.find("url("), std::string::npos);
    EXPECT_EQ(own.find("<link"), std::string::npos);
    EXPECT_NE(own.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(page.find("<!doctype html>"), 0u);
    EXPECT_TRUE(page.ends_with("</html>\n"));
  }
}

TEST(Html, NamesFromFilesNeverBecomeMarkup) {
  const std::string tame = html(sample::size()), page = html(hostile());
  // Exactly the scripts that a page has: the data, the library, and report.js.
  EXPECT_EQ(occurrences(page, "<script"), occurrences(tame, "<script"));
  EXPECT_EQ(occurrences(page, "</script"), occurrences(tame, "</script"));
  EXPECT_EQ(occurrences(without_library(page), "<img"), 0u);
  EXPECT_EQ(occurrences(without_library(page), "<!--"), 0u);
  EXPECT_EQ(page.find("\xff"), std::string::npos);
  EXPECT_EQ(page.find("\xe2\x80\xa8"), std::string::npos);
  const std::string run = html(hostile().zone_loss, hostile().plots, kHostile, hostile().slos);
  EXPECT_EQ(occurrences(run, "</script"), 3u);
}

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape("\x01\xff"), " ?");
}

TEST(Html, DataInScriptIsEscapedAndParsesBack) {
  const nlohmann::ordered_json document = {{"name", "</script><!-- & \xe2\x80\xa8\xe2\x80\xa9"}};
  const std::string text = script_json(document);
  EXPECT_EQ(text, R"({"name":"\u003c/script\u003e\u003c!-- \u0026 \u2028\u2029"})");
  EXPECT_EQ(nlohmann::ordered_json::parse(text), document);
  EXPECT_TRUE(nlohmann::json::accept(data_of(html(hostile()))));
}

TEST(Html, EveryPlotHasItsData) {
  const nlohmann::json data = nlohmann::json::parse(data_of(html(sample::size())));
  EXPECT_EQ(data["runs"]["peak"]["heat"]["names"].size(), 12u);
  EXPECT_EQ(data["runs"]["zone_loss"]["events"].size(), 5u);
  EXPECT_EQ(data["search"]["n"], nlohmann::json({6, 7, 8, 9, 10, 12}));
  EXPECT_EQ(data["search"]["slo"], 20000);
  EXPECT_EQ(data["runs"]["peak"]["slos"][0],
            nlohmann::json({{"metric", "e2e"}, {"label", "E2E p95"}, {"ms", 20000}, {"share", 0.95}}));
}

TEST(Html, TheSizeOfThePageIsBounded) {
  Size s = sample::size();
  s.plots = sample::plots(20'000, 300, 0, 0, 3);
  s.traffic.rate_curve_rps.assign(100'000, 1);
  s.considered.resize(20'000, s.considered.back());
  s.zone_loss.events.resize(5'000, s.zone_loss.events.front());
  const std::string page = html(s);
  const nlohmann::json data = nlohmann::json::parse(data_of(page));
  const nlohmann::json& peak = data["runs"]["peak"];
  EXPECT_LE(peak["arrivals"].size(), kMaxPoints);
  EXPECT_EQ(peak["arrivals"].size(), peak["queued"].size());
  EXPECT_LE(data["traffic"]["rate"].size(), kMaxPoints);
  EXPECT_EQ(peak["heat"]["batch"].size(), kMaxReplicas + 1);
  EXPECT_EQ(peak["heat"]["names"].size(), kMaxReplicas + 1);
  EXPECT_EQ(peak["heat"]["names"].back(), "+268 mean");
  EXPECT_LT(page.size(), 1'500'000u);
}

TEST(Html, ThinningKeepsWhatMatters) {
  std::vector<double> values(2500, 1);
  values[1234] = 50;
  const std::vector<double> most = thin(values, 1000, Merge::kMax);
  EXPECT_EQ(most.size(), 834u);  // of three values each
  EXPECT_EQ(stride(2500, 1000), 3u);
  EXPECT_EQ(*std::max_element(most.begin(), most.end()), 50);
  const std::vector<double> means = thin(values, 1000, Merge::kMean);
  EXPECT_DOUBLE_EQ(means[1234 / 3], 52.0 / 3);
  EXPECT_EQ(thin({}, 1000, Merge::kMean), std::vector<double>());
  EXPECT_EQ(thin({1, 2}, 1000, Merge::kMin), (std::vector<double>{1, 2}));
}

TEST(Html, AnEmptyResultIsStillAPage) {
  EXPECT_TRUE(nlohmann::json::accept(data_of(html(Size()))));
  EXPECT_TRUE(nlohmann::json::accept(data_of(html(RunMetrics(), RunPlots(), ""))));
  Size s = sample::size();
  s.steps[0].p95_latency_ms = std::numeric_limits<double>::quiet_NaN();
  s.plots.queued[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(nlohmann::json::accept(data_of(html(s))));
}

TEST(Html, SaysWhenNoPriceIsKnown) {
  Size s = sample::size();
  s.price = {};
  s.usd_h.reset();
  s.usd_per_mtok.reset();
  EXPECT_NE(html(s).find("no price known for h100-sxm"), std::string::npos);
}

TEST(HtmlTable, MarksKindsVerdictsAndSortValues) {
  HtmlTable table({{"a&b"}, {"n", HtmlColumn::Kind::kNumber}});
  table.row({"x<y", HtmlCell("1.20 s", 1200).judged(false)}, true);
  EXPECT_EQ(
      table.print_sortable(),
      "<div class=\"scroll\"><table class=\"sortable\"><thead><tr><th scope=\"col\" class=\"name\">a&amp;b</th>"
      "<th scope=\"col\" class=\"num\">n</th></tr></thead><tbody>\n"
      "<tr class=\"chosen\"><td class=\"name\">x&lt;y</td><td class=\"num bad\" data-sort=\"1200\">1.20 s</td></tr>\n"
      "</tbody></table></div>\n");
}

}  // namespace
}  // namespace muster::report
