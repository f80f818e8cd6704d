#include "muster/report/table.h"

#include <gtest/gtest.h>

#include "muster/core/rng.h"
#include "muster/core/text.h"
#include "muster/report/format.h"

namespace muster::report {
namespace {

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string_view line : split(text, '\n')) most = std::max(most, display_width(line));
  return most;
}

TEST(Table, AlignsNumbersToTheRightAndTextToTheLeft) {
  Table table({{"GPU"}, {"GiB", Align::kRight}, {"note"}});
  table.row({"h100", "79.2", "fast"});
  table.row({"l4", "7.9", ""});
  EXPECT_EQ(table.print({}, 2),
            "  GPU    GiB  note\n"
            "  h100  79.2  fast\n"
            "  l4     7.9\n");
}

TEST(Table, CountsColumnsNotBytes) {
  Table table({{"name"}, {"n", Align::kRight}});
  table.row({"caf\xc3\xa9", "1"});
  table.row({"\xe6\x97\xa5\xe6\x9c\xac", "22"});
  EXPECT_EQ(table.print({}), "name   n\ncaf\xc3\xa9   1\n\xe6\x97\xa5\xe6\x9c\xac  22\n");
}

TEST(Table, WrapsTextBesideItsNumbers) {
  Table table({{"layout"}, {"GPUs", Align::kRight}, {"why"}});
  table.row({"TP1", "1", "the weights alone are larger than the memory of the device"});
  EXPECT_EQ(table.print({.width = 40}),
            "layout  GPUs  why\n"
            "TP1        1  the weights alone are\n"
            "              larger than the memory of\n"
            "              the device\n");
}

TEST(Table, DropsTheLeastWantedColumnsFirst) {
  Table table({{"name"}, {"wanted", Align::kRight}, {"optional", Align::kRight, 1}, {"spare", Align::kRight, 2}});
  table.row({"chat", "1,000,000", "2,000,000", "3,000,000"});
  EXPECT_NE(table.print({.width = 60}).find("spare"), std::string::npos);
  const std::string narrow = table.print({.width = 30});
  EXPECT_EQ(narrow.find("spare"), std::string::npos);
  EXPECT_NE(narrow.find("optional"), std::string::npos);
}

TEST(Table, BecomesBlocksWhenNothingElseFits) {
  Table table({{"name"}, {"first", Align::kRight}, {"second", Align::kRight}});
  table.row({"chat", "1,000,000,000", "2,000,000,000"});
  EXPECT_EQ(table.print({.width = 24}), "name: chat\nfirst: 1,000,000,000\nsecond: 2,000,000,000\n");
}

TEST(Table, ColoursWithoutMovingColumns) {
  Table table({{""}, {"n", Align::kRight}});
  table.row({"a", {"1", Tone::kBad}});
  table.row({"bb", {"22", Tone::kGood}});
  EXPECT_EQ(table.print({.colour = true}), "     \x1b[2mn\x1b[0m\na    \x1b[31m1\x1b[0m\nbb  \x1b[32m22\x1b[0m\n");
  EXPECT_EQ(table.print({.colour = false}), "     n\na    1\nbb  22\n");
}

TEST(Table, WithoutRowsIsNothing) {
  EXPECT_EQ(Table({{"x"}}).print({}), "");
}

TEST(Table, ControlCharactersAreReplaced) {
  Table table({{"x"}});
  table.row({"a\nb\x1b[2J"});
  EXPECT_EQ(table.print({}), "x\na b [2J\n");
}

TEST(Table, AlwaysFitsTheWidth) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "table test");
    const auto word = [&](std::size_t most) {
      std::string text;
      for (std::size_t n = rng.below(most + 1), i = 0; i < n; ++i)
        text += rng.below(5) == 0 ? " " : rng.below(9) == 0 ? "\xe6\x97\xa5" : "m";
      return text;
    };
    std::vector<Column> columns(1 + rng.below(8));
    for (Column& c : columns)
      c = {word(12), rng.below(2) == 0 ? Align::kLeft : Align::kRight, static_cast<int>(rng.below(3))};
    Table table(columns);
    for (std::size_t rows = 1 + rng.below(5), r = 0; r < rows; ++r) {
      std::vector<Cell> cells;
      for (const Column& c : columns) cells.emplace_back(word(c.align == Align::kRight ? 10 : 120));
      table.row(cells);
    }
    for (const int width : {30, 80, 132})
      EXPECT_LE(widest(table.print({.width = width}, 2)), static_cast<std::size_t>(width));
  }
}

}  // namespace
}  // namespace muster::report
