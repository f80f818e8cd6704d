#include "muster/report/terminal.h"

#include <gtest/gtest.h>

#include <limits>

#include "layout_text.h"
#include "muster/core/text.h"
#include "muster/report/format.h"
#include "sample/sample.h"

namespace muster::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// No line is wider than `width` unless it holds nothing but one word.
void expect_fits(const std::string& text, int width) {
  for (const std::string_view line : split(text, '\n')) {
    constexpr std::size_t kLabel = 15;  // columns before the text of a labelled fact
    if (trim(line.substr(std::min(line.size(), kLabel))).find(' ') == std::string_view::npos) continue;
    EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
  }
}

Size extreme() {
  Size s = sample::size();
  const std::string name(120, 'n');
  s.fleet = name;
  s.model = "a model whose name is a sentence " + name;
  s.zones = {name, "b", "c"};
  s.binding = name + " and more";
  s.replicas = 2'000'000'000;
  s.gpus = std::numeric_limits<int>::max();
  s.usd_h = 1e300;
  s.usd_per_mtok = kNan;
  s.traffic.requests = std::numeric_limits<std::uint64_t>::max();
  s.traffic.rate_rps = 1e18;
  s.traffic.span_s = 1e15;
  s.traffic.input.max = 1e17;
  for (Candidate& c : s.considered) {
    c.gpu += "-" + name;
    c.kv_tokens = std::numeric_limits<std::int64_t>::max();
    c.max_concurrency = 1e12;
  }
  s.at_n.e2e_ms.p95 = std::numeric_limits<double>::infinity();
  s.slos.push_back({"an unknown target " + name, 1e15, {}});
  s.relax.push_back({name, name});
  return s;
}

TEST(Terminal, FitsTheWidthThatIsAskedFor) {
  for (const int width : {40, 60, 80, 100, 200}) {
    SCOPED_TRACE(width);
    const TerminalStyle style{.width = width};
    for (const Size& size : {sample::size(), extreme(), Size()}) {
      expect_fits(terminal(size, style), width);
      expect_fits(terminal(size.zone_loss, style), width);
      expect_fits(terminal(size.traffic, style), width);
      Plan plan = sample::plan();
      plan.candidates = size.considered;
      expect_fits(terminal(plan, style), width);
    }
    expect_fits(terminal(Plan(), style), width);
  }
}

TEST(Terminal, HasNoEscapeSequenceUnlessAskedFor) {
  Size size = sample::size();
  size.fleet = "\x1b[2Jwiped";
  EXPECT_EQ(terminal(size, {}).find('\x1b'), std::string::npos);
  EXPECT_NE(terminal(size, {.colour = true}).find("\x1b[1m"), std::string::npos);
}

TEST(Terminal, WithoutUnicodeIsAscii) {
  for (const char c : terminal(sample::size(), {.unicode = false})) ASSERT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Terminal, ColourChangesNoText) {
  const std::string coloured = terminal(sample::size(), {.colour = true});
  std::string stripped;
  for (std::size_t i = 0; i < coloured.size(); ++i) {
    if (coloured[i] == '\x1b')
      i = coloured.find('m', i);
    else
      stripped += coloured[i];
  }
  EXPECT_EQ(stripped, terminal(sample::size(), {}));
}

TEST(Terminal, ASizeAnswersTheSixQuestionsInOrder) {
  const std::string text = terminal(sample::size(), {});
  std::size_t at = 0;
  for (const char* part :
       {"\n1. Traffic\n", "\n2. Layout", "\n3. Fleet\n", "9 replicas; 10 at 95 %", "a 4 + 1, b 4 + 1, c 4 + 1",
        "still meets the SLO", "\n4. Money\n", "2025-06-01", "\n5. Evidence\n", "N - 1 = 8", "\n6. Answer\n"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << text;
    at = found;
  }
  EXPECT_LE(split(text, '\n').size(), 95u);
}

TEST(Terminal, SaysWhenNoPriceIsKnown) {
  Size size = sample::size();
  size.price = {};
  size.usd_h.reset();
  size.usd_per_mtok.reset();
  const std::string text = terminal(size, {});
  EXPECT_NE(text.find("no price known for h100-sxm"), std::string::npos);
  EXPECT_EQ(text.find("$/h"), std::string::npos);
}

TEST(Terminal, SaysWhenAZoneLossMissesTheSlo) {
  Size size = sample::size();
  size.zone_loss_meets_slo = false;
  EXPECT_NE(terminal(size, {}).find("MISSES the SLO"), std::string::npos);
}

TEST(Sparkline, IsTheMeanOfEachShare) {
  EXPECT_EQ(sparkline({0, 7}, 2, false), "_#");
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, false), "_.:-=+*#");
  EXPECT_EQ(sparkline({0, 14, 7, 7}, 2, false), "##");
  EXPECT_EQ(sparkline({1, kNan, -3}, 10, true), "█▁▁");
  EXPECT_EQ(sparkline({}, 10, true), "");
  EXPECT_EQ(sparkline({0, 0}, 10, false), "__");
}

TEST(LayoutText, SloNames) {
  RunMetrics run = sample::run(410, 18900, 0.968);
  EXPECT_EQ(slo_label("e2e_p95_ms"), "E2E p95");
  EXPECT_EQ(slo_value(run, "e2e_p95_ms"), 18900);
  EXPECT_EQ(slo_value(run, "queue_wait_p95_ms"), 410);
  EXPECT_EQ(slo_value(run, "ttft_mean_ms"), run.ttft_ms.mean);
  EXPECT_EQ(slo_value(run, "ttft_p95"), std::nullopt);
  EXPECT_EQ(slo_value(RunMetrics(), "e2e_p95_ms"), std::nullopt);
  EXPECT_EQ(parse_slo("tpot_p99_ms")->quantile, 0.99);
  EXPECT_EQ(parse_slo("tpot_max_ms")->quantile, std::nullopt);
  EXPECT_EQ(slo_label("uptime"), "uptime");
}

TEST(LayoutText, RejectedLayoutsAreGroupedUnderTheTellingReason) {
  std::vector<Candidate> list = {sample::rejected("g", "bf16", 1, "too big by far"),
                                 sample::rejected("g", "bf16", 2, "too big"),
                                 sample::rejected("g", "bf16", 3, "3 does not divide 64")};
  list[0].weights_gib = 130;
  list[1].weights_gib = 65;
  const std::vector<Rejected> groups = group_rejected(list);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].layouts, "TP1, TP2, TP3");
  EXPECT_EQ(groups[0].why, "too big");
}

TEST(LayoutText, StandbyIsSpreadOverTheZones) {
  Size size = sample::size();
  size.standby = 4;
  EXPECT_EQ(standby_in_zone(size, 0), 2);
  EXPECT_EQ(standby_in_zone(size, 1), 1);
  EXPECT_EQ(standby_in_zone(size, 2), 1);
}

}  // namespace
}  // namespace muster::report
