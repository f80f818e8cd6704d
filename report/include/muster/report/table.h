// A table for a terminal: columns that align, and that always fit the width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::report {

struct TerminalStyle {
  int width = 80;       // columns; at least 20 is assumed
  bool colour = false;  // ANSI colours; without, the output has no escape sequence
  bool unicode = true;  // block characters in charts; without, ASCII only
};

enum class Tone { kPlain, kStrong, kDim, kGood, kBad, kAccent };
std::string paint(const TerminalStyle& style, Tone tone, std::string_view text);  // `text` itself without colour

enum class Align { kLeft, kRight };
struct Column {
  std::string heading;
  Align align = Align::kLeft;  // kRight: numbers, which are never broken over lines
  int drop = 0;                // columns with the highest value go first when the width is short; 0: never
};
struct Cell {
  Cell(std::string t, Tone c = Tone::kPlain) : text(std::move(t)), tone(c) {}  // NOLINT: a text is a cell
  Cell(const char* t) : text(t) {}                                             // NOLINT
  std::string text;
  Tone tone = Tone::kPlain;
};

// To fit, in this order: texts and headings wrap inside their columns (a word above 24 columns is cut), optional
// columns are dropped, and at last every row becomes a block of "heading: value" lines.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<Cell> cells);  // requires as many cells as columns; control characters are replaced
  bool empty() const { return rows_.empty(); }
  std::string print(const TerminalStyle& style, std::size_t indent = 0) const;  // ends with a newline; "" without rows

 private:
  std::string print_blocks(const TerminalStyle& style, std::size_t indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace muster::report
