// Numbers as an engineer writes them, and text that is safe to print. Three significant digits unless stated.
// NaN and infinities become "-": they mean that there is no such figure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::report {

std::string count(double x);          // "19,366", from a million on "1.23M", "4.56G", "7.89T"
std::string number(double x);         // "0.0123", "1.24", "55.3", "1,235", "1.23M"
std::string gib(double x);            // "12.3 GiB"
std::string milliseconds(double ms);  // "0.42 ms", "340 ms", "1.20 s", "18.4 s", "5 min 12 s"
std::string duration(double s);       // "0.84 s", "45 s", "58 min 12 s", "6 h 12 min", "3 d 4 h"
std::string clock(double s);          // "0:31:00", hours:minutes:seconds since the start
std::string percent(double share);    // "33 %", "99.2 %"; a share below 1 never reads as 100 %
std::string usd(double x);            // "$55.04", "$0.042", "$1,234", "$1.23M"
std::string or_dash(const std::optional<double>& x, std::string (*format)(double));

// What a terminal shows of untrusted text: control characters (escape sequences, newlines) become spaces and bytes that
// are not UTF-8 become '?'. The result is valid UTF-8.
std::string printable(std::string_view text);
// Columns that printable UTF-8 takes; wide East Asian characters and emoji count 2, combining marks 0.
std::size_t display_width(std::string_view text);
// Lines of at most `width` columns, broken at spaces. A word that is longer stays whole on a line of its own, or is cut
// when `cut_words`. At least one line.
std::vector<std::string> wrap(std::string_view text, std::size_t width, bool cut_words = false);

}  // namespace muster::report
