#include "muster/report/table.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "muster/core/check.h"
#include "muster/report/format.h"

namespace muster::report {
namespace {

constexpr std::size_t kGap = 2;           // columns between two columns
constexpr std::size_t kLongestKept = 24;  // a longer word in a text column may be cut
constexpr std::size_t kNarrowestPage = 20;

std::size_t available_width(const TerminalStyle& style, std::size_t indent) {
  const std::size_t width = std::max(static_cast<std::size_t>(std::max(style.width, 0)), kNarrowestPage);
  return width > indent + kNarrowestPage / 2 ? width - indent : kNarrowestPage / 2;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    longest = std::max(longest, display_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

struct Measure {
  std::size_t natural = 0;   // everything on one line
  std::size_t smallest = 0;  // the narrowest that is readable
};

std::vector<Measure> measure(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows) {
  std::vector<Measure> all;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    Measure m{display_width(columns[c].heading), longest_word(columns[c].heading)};
    for (const std::vector<Cell>& cells : rows) {
      const std::size_t natural = display_width(cells[c].text);
      const bool number = columns[c].align == Align::kRight;
      m.natural = std::max(m.natural, natural);
      m.smallest = std::max(m.smallest, number ? natural : std::min(longest_word(cells[c].text), kLongestKept));
    }
    all.push_back(m);
  }
  return all;
}

std::size_t total_width(const std::vector<std::size_t>& widths) {
  const std::size_t sum = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  return widths.empty() ? 0 : sum + kGap * (widths.size() - 1);
}

// Widths within `available`, or nullopt when even the smallest ones are too wide together. The widest column gives way
// first, so that short columns stay on one line.
std::optional<std::vector<std::size_t>> fit(const std::vector<Measure>& measures, std::size_t available) {
  std::vector<std::size_t> widths, smallest;
  for (const Measure& m : measures) {
    widths.push_back(m.natural);
    smallest.push_back(m.smallest);
  }
  if (total_width(smallest) > available) return std::nullopt;
  while (total_width(widths) > available) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > smallest[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    --widths[widest];
  }
  return widths;
}

struct Shape {
  std::vector<std::size_t> shown;   // indices of the columns that are printed
  std::vector<std::size_t> widths;  // [shown]
};

// nullopt: no choice of columns fits.
std::optional<Shape> shape_of(const std::vector<Column>& columns, const std::vector<Measure>& measures,
                              std::size_t available) {
  Shape shape;
  shape.shown.resize(columns.size());
  std::iota(shape.shown.begin(), shape.shown.end(), std::size_t{0});
  while (!shape.shown.empty()) {
    std::vector<Measure> chosen;
    for (const std::size_t c : shape.shown) chosen.push_back(measures[c]);
    if (std::optional<std::vector<std::size_t>> widths = fit(chosen, available)) {
      shape.widths = *std::move(widths);
      return shape;
    }
    const auto least_wanted =
        std::max_element(shape.shown.begin(), shape.shown.end(),
                         [&](std::size_t a, std::size_t b) { return columns[a].drop < columns[b].drop; });
    if (columns[*least_wanted].drop == 0) return std::nullopt;
    shape.shown.erase(least_wanted);
  }
  return std::nullopt;
}

void print_row(const TerminalStyle& style, const std::vector<Column>& columns, const Shape& shape,
               const std::vector<Cell>& cells, std::size_t indent, std::string& out) {
  std::vector<std::vector<std::string>> lines;  // [shown]
  std::size_t height = 1;
  for (std::size_t i = 0; i < shape.shown.size(); ++i) {
    lines.push_back(wrap(cells[shape.shown[i]].text, shape.widths[i], columns[shape.shown[i]].align == Align::kLeft));
    height = std::max(height, lines.back().size());
  }
  for (std::size_t y = 0; y < height; ++y) {
    std::string line;
    std::size_t spaces = indent;  // owed before the next visible text, so that no line ends in spaces
    for (std::size_t i = 0; i < shape.shown.size(); ++i) {
      const std::string text = y < lines[i].size() ? lines[i][y] : "";
      const std::size_t used = display_width(text);
      const std::size_t free = shape.widths[i] > used ? shape.widths[i] - used : 0;
      const bool right = columns[shape.shown[i]].align == Align::kRight;
      if (text.empty()) {
        spaces += free + kGap;
        continue;
      }
      line += std::string(spaces + (right ? free : 0), ' ') + paint(style, cells[shape.shown[i]].tone, text);
      spaces = (right ? 0 : free) + kGap;
    }
    out += line + "\n";
  }
}

}  // namespace

std::string paint(const TerminalStyle& style, Tone tone, std::string_view text) {
  if (!style.colour || tone == Tone::kPlain || text.empty()) return std::string(text);
  std::string_view code;
  switch (tone) {
    case Tone::kStrong:
      code = "1";
      break;
    case Tone::kDim:
      code = "2";
      break;
    case Tone::kGood:
      code = "32";
      break;
    case Tone::kBad:
      code = "31";
      break;
    case Tone::kAccent:
      code = "36";
      break;
    case Tone::kPlain:
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Table::row(std::vector<Cell> cells) {
  MUSTER_CHECK(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(), columns_.size());
  for (Cell& cell : cells) cell.text = printable(cell.text);
  rows_.push_back(std::move(cells));
}

std::string Table::print(const TerminalStyle& style, std::size_t indent) const {
  if (rows_.empty()) return {};
  const std::optional<Shape> shape = shape_of(columns_, measure(columns_, rows_), available_width(style, indent));
  if (!shape) return print_blocks(style, indent);
  std::string out;
  std::vector<Cell> headings;
  for (const Column& column : columns_) headings.emplace_back(printable(column.heading), Tone::kDim);
  if (std::any_of(headings.begin(), headings.end(), [](const Cell& c) { return !c.text.empty(); }))
    print_row(style, columns_, *shape, headings, indent, out);
  for (const std::vector<Cell>& cells : rows_) print_row(style, columns_, *shape, cells, indent, out);
  return out;
}

std::string Table::print_blocks(const TerminalStyle& style, std::size_t indent) const {
  const std::size_t available = available_width(style, indent);
  const std::string space(indent, ' ');
  std::string out;
  for (const std::vector<Cell>& cells : rows_) {
    if (!out.empty()) out += "\n";
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (cells[c].text.empty()) continue;
      const std::string heading = columns_[c].heading.empty() ? "" : printable(columns_[c].heading) + ": ";
      const std::vector<std::string> lines = wrap(heading + cells[c].text, available - 2, true);
      for (std::size_t y = 0; y < lines.size(); ++y) out += space + (y == 0 ? "" : "  ") + lines[y] + "\n";
    }
  }
  return out;
}

}  // namespace muster::report
