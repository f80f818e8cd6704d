#include "page.h"

#include <algorithm>

#include "muster/report/format.h"

namespace muster::report {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabel = 13;  // columns of a fact's label and the space after it

std::size_t width_less(const TerminalStyle& style, std::size_t less) {
  const auto width = static_cast<std::size_t>(std::max(style.width, 20));
  return width > less + 10 ? width - less : 10;
}

}  // namespace

std::size_t Page::fact_width() const {
  return width_less(style_, kIndent + kLabel);
}

void Page::title(std::string_view text) {
  for (const std::string& line : wrap(printable(text), width_less(style_, 0)))
    out_ += paint(style_, Tone::kStrong, line) + "\n";
}

void Page::heading(std::string_view text) {
  space();
  title(text);
}

void Page::fact(std::string_view label, std::string_view text, Tone tone) {
  if (text.empty()) return;
  std::string name = printable(label);
  name.resize(std::max(name.size(), kLabel - 1), ' ');
  bool first = true;
  for (const std::string& line : wrap(printable(text), fact_width())) {
    const std::string lead = first ? paint(style_, Tone::kDim, name) + " " : std::string(kLabel, ' ');
    out_ += std::string(kIndent, ' ') + lead + paint(style_, tone, line) + "\n";
    first = false;
  }
}

void Page::paragraph(std::string_view text, Tone tone) {
  for (const std::string& line : wrap(printable(text), width_less(style_, kIndent)))
    out_ += std::string(kIndent, ' ') + paint(style_, tone, line) + "\n";
}

void Page::table(const Table& table) {
  out_ += table.print(style_, kIndent);
}

void Page::space() {
  if (!out_.empty() && !out_.ends_with("\n\n")) out_ += "\n";
}

}  // namespace muster::report
