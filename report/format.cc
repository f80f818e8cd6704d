#include "muster/report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace muster::report {
namespace {

constexpr const char* kNone = "-";

// Digits after the point for three significant digits of a value that is printed as such: 1.234 -> 2, 12.34 -> 1.
int decimals_for_three_digits(double magnitude) {
  if (magnitude >= 99.95) return 0;
  if (magnitude >= 9.995) return 1;
  if (magnitude >= 0.9995) return 2;
  if (magnitude <= 0) return 0;
  return std::min(9, 2 - static_cast<int>(std::floor(std::log10(magnitude))));
}

std::string three_digits(double x) {
  return fmt::format("{:.{}f}", x, decimals_for_three_digits(std::abs(x)));
}

std::string with_separators(double x) {  // of a value that is printed as an integer
  std::string digits = fmt::format("{:.0f}", std::abs(x));
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return (x < 0 && digits != "0" ? "-" : "") + digits;
}

std::string with_suffix(double x) {  // requires |x| >= 999,999.5
  constexpr std::array<std::string_view, 4> kSuffixes = {"M", "G", "T", "P"};
  double scaled = x / 1e6;
  std::size_t i = 0;
  for (; i + 1 < kSuffixes.size() && std::abs(scaled) >= 999.5; ++i) scaled /= 1000;
  if (std::abs(scaled) >= 1e6) return fmt::format("{:.2e}", x);
  return three_digits(scaled) + std::string(kSuffixes[i]);
}

// One code point of UTF-8 at `at`; length 0 where the bytes are not UTF-8 (RFC 3629: no overlong forms, no surrogates).
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;
};
CodePoint decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return {};
  char32_t value = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length};
}

bool is_control(char32_t c) {  // C0, DEL, C1, line separators, bidirectional overrides and isolates
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::size_t columns_of(char32_t c) {  // the main ranges of Unicode's East Asian Width and of combining marks
  if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f)) return 0;
  if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
      (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
      (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd))
    return 2;
  return 1;
}

// The longest prefix of at most `width` columns; at least one code point.
std::size_t prefix_length(std::string_view text, std::size_t width) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const CodePoint c = decode(text, at);
    const std::size_t columns = c.length == 0 ? 1 : columns_of(c.value);
    if (used + columns > width && at > 0) break;
    used += columns;
    at += std::max<std::size_t>(c.length, 1);
  }
  return at;
}

}  // namespace

std::string count(double x) {
  if (!std::isfinite(x)) return kNone;
  return std::abs(x) >= 999'999.5 ? with_suffix(x) : with_separators(x);
}

std::string number(double x) {
  if (!std::isfinite(x)) return kNone;
  if (std::abs(x) >= 99.95) return count(x);
  if (std::abs(x) < 1e-9) return "0";
  return three_digits(x);
}

std::string gib(double x) {
  return std::isfinite(x) ? number(x) + " GiB" : kNone;
}

std::string milliseconds(double ms) {
  if (!std::isfinite(ms)) return kNone;
  if (std::abs(ms) < 0.0005) return "0 ms";
  if (std::abs(ms) < 0.9995) return fmt::format("{:.2g} ms", ms);
  if (std::abs(ms) < 999.5) return three_digits(ms) + " ms";
  if (std::abs(ms) < 119'950) return three_digits(ms / 1000) + " s";
  return duration(ms / 1000);
}

std::string duration(double s) {
  if (!std::isfinite(s)) return kNone;
  if (s < 0) return fmt::format("-{}", duration(-s));
  if (s < 1e-9) return "0 s";
  if (s < 0.0995) return fmt::format("{:.2g} ms", s * 1000);
  if (s < 0.9995) return fmt::format("{:.2g} s", s);
  if (s < 9.995) return three_digits(s) + " s";
  if (s >= 1e12) return fmt::format("{:.2e} s", s);
  const auto whole = static_cast<std::uint64_t>(s + 0.5);
  const auto two = [](std::uint64_t a, const char* unit_a, std::uint64_t b, const char* unit_b) {
    return b == 0 ? fmt::format("{} {}", a, unit_a) : fmt::format("{} {} {} {}", a, unit_a, b, unit_b);
  };
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < 86'400) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86'400, "d", whole % 86'400 / 3600, "h");
}

std::string clock(double s) {
  if (!std::isfinite(s) || s < 0 || s >= 1e12) return kNone;
  const auto whole = static_cast<std::uint64_t>(s);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return kNone;
  const double p = share * 100;
  if (p == std::round(p)) return with_separators(p) + " %";
  if (p >= 100 || p < -10) return with_separators(p) + " %";
  const double cut = p >= 99.9 ? std::floor(p * 100) / 100 : p;
  if (p > 99.5 || std::abs(p) < 0.95) return fmt::format("{:.2f} %", cut);
  return fmt::format("{:.1f} %", std::min(p, 99.9));
}

std::string usd(double x) {
  if (!std::isfinite(x)) return kNone;
  if (x < 0) return fmt::format("-{}", usd(-x));
  if (x >= 999.5) return fmt::format("${}", count(x));
  if (x >= 0.0995 || x == 0) return fmt::format("${:.2f}", x);
  return fmt::format("${:.2g}", std::max(x, 1e-6));
}

std::string or_dash(const std::optional<double>& x, std::string (*format)(double)) {
  return x ? format(*x) : std::string(kNone);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    if (c.length == 0)
      out += '?';
    else if (is_control(c.value))
      out += ' ';
    else
      out += text.substr(at, c.length);
    at += std::max<std::size_t>(c.length, 1);
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    columns += c.length == 0 ? 1 : columns_of(c.value);
    at += std::max<std::size_t>(c.length, 1);
  }
  return columns;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width, bool cut_words) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && used + 1 + display_width(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
      used = 0;
    }
    while (cut_words && display_width(word) > width) {  // the line is empty here
      const std::size_t length = prefix_length(word, width);
      if (length == word.size()) break;
      lines.emplace_back(word.substr(0, length));
      word.remove_prefix(length);
    }
    if (!line.empty()) {
      line += ' ';
      ++used;
    }
    line += word;
    used += display_width(word);
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace muster::report
