#include "muster/report/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/core/rng.h"

namespace muster::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Format, CountsKeepEveryDigitBelowAMillion) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(count(19366), "19,366");
  EXPECT_EQ(count(999'999), "999,999");
  EXPECT_EQ(count(1'234'567), "1.23M");
  EXPECT_EQ(count(999.9e6), "1.00G");
  EXPECT_EQ(count(-19366), "-19,366");
  EXPECT_EQ(count(1e30), "1.00e+30");
}

TEST(Format, NumbersHaveThreeDigits) {
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(0.01234), "0.0123");
  EXPECT_EQ(number(1.2345), "1.23");
  EXPECT_EQ(number(9.996), "10.0");
  EXPECT_EQ(number(55.26), "55.3");
  EXPECT_EQ(number(99.96), "100");
  EXPECT_EQ(number(1234.6), "1,235");
  EXPECT_EQ(number(-0.5), "-0.500");
}

TEST(Format, LatenciesChooseTheirUnit) {
  EXPECT_EQ(milliseconds(0), "0 ms");
  EXPECT_EQ(milliseconds(0.42), "0.42 ms");
  EXPECT_EQ(milliseconds(45.23), "45.2 ms");
  EXPECT_EQ(milliseconds(340), "340 ms");
  EXPECT_EQ(milliseconds(999.6), "1.00 s");
  EXPECT_EQ(milliseconds(18'430), "18.4 s");
  EXPECT_EQ(milliseconds(312'000), "5 min 12 s");
}

TEST(Format, DurationsHaveTwoUnits) {
  EXPECT_EQ(duration(0), "0 s");
  EXPECT_EQ(duration(0.04), "40 ms");
  EXPECT_EQ(duration(0.84), "0.84 s");
  EXPECT_EQ(duration(45), "45 s");
  EXPECT_EQ(duration(3492), "58 min 12 s");
  EXPECT_EQ(duration(3600), "1 h");
  EXPECT_EQ(duration(22'320), "6 h 12 min");
  EXPECT_EQ(duration(273'600), "3 d 4 h");
  EXPECT_EQ(clock(1860), "0:31:00");
}

TEST(Format, AShareBelowOneNeverReadsAsAll) {
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(percent(0.999999), "99.99 %");
  EXPECT_EQ(percent(0.9961), "99.61 %");
  EXPECT_EQ(percent(0.992), "99.2 %");
  EXPECT_EQ(percent(0.33), "33 %");
  EXPECT_EQ(percent(0.0042), "0.42 %");
  EXPECT_EQ(percent(0), "0 %");
}

TEST(Format, Money) {
  EXPECT_EQ(usd(55.04), "$55.04");
  EXPECT_EQ(usd(0.42), "$0.42");
  EXPECT_EQ(usd(0.042), "$0.042");
  EXPECT_EQ(usd(1234.4), "$1,234");
  EXPECT_EQ(usd(12'345'678), "$12.3M");
  EXPECT_EQ(usd(-3), "-$3.00");
  EXPECT_EQ(or_dash(std::nullopt, usd), "-");
}

TEST(Format, WhatIsNoFigureIsADash) {
  for (const double x : {kNan, kInf, -kInf}) {
    for (auto* format : {count, number, gib, milliseconds, duration, clock, percent, usd}) EXPECT_EQ(format(x), "-");
  }
}

TEST(Format, EveryFigureIsShort) {
  Rng rng = Rng::stream(1, 0, "format test");
  SCOPED_TRACE("seed 1");
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::pow(10.0, rng.uniform() * 40 - 15) * (rng.uniform() < 0.1 ? -1 : 1);
    for (auto* format : {count, number, gib, milliseconds, duration, percent, usd})
      ASSERT_LE(format(x).size(), 40u) << x;
  }
}

TEST(Text, ControlCharactersCannotReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\nc\td\x7f"), "a [31mb c d ");
  EXPECT_EQ(printable("\xff\xc0\x80ok"), "???ok");  // not UTF-8, and an overlong NUL
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");      // a surrogate
  EXPECT_EQ(printable("caf\xc3\xa9 \xe6\x97\xa5"), "caf\xc3\xa9 \xe6\x97\xa5");
  EXPECT_EQ(printable("x\xe2\x80\xa8y\xe2\x80\xaez"), "x y z");  // line separator, right-to-left override
  EXPECT_EQ(printable("\xf0\x9f"), "??");                        // cut short
}

TEST(Text, WidthCountsColumns) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("caf\xc3\xa9"), 4u);
  EXPECT_EQ(display_width("\xe6\x97\xa5\xe6\x9c\xac"), 4u);  // two wide characters
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);                 // e and a combining accent
}

TEST(Text, WrapsAtSpaces) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrap("the quick brown fox", 10), (Lines{"the quick", "brown fox"}));
  EXPECT_EQ(wrap("", 10), (Lines{""}));
  EXPECT_EQ(wrap("  two   spaces ", 20), (Lines{"two spaces"}));
  EXPECT_EQ(wrap("a incomprehensibilities b", 8), (Lines{"a", "incomprehensibilities", "b"}));
  EXPECT_EQ(wrap("a incomprehensibilities b", 8, true), (Lines{"a", "incompre", "hensibil", "ities b"}));
}

TEST(Text, WrappedLinesFitAndLoseNothing) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "wrap test");
    std::string text, expected;
    for (int i = 0; i < 200; ++i) text += rng.below(4) == 0 ? " " : rng.below(2) == 0 ? "x" : "\xc3\xa9";
    const std::size_t width = 1 + rng.below(30);
    std::string joined;
    for (const std::string& line : wrap(text, width, true)) {
      EXPECT_LE(display_width(line), width);
      joined += line;
    }
    for (const char c : text)
      if (c != ' ') expected += c;
    std::string found;
    for (const char c : joined)
      if (c != ' ') found += c;
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace muster::report
