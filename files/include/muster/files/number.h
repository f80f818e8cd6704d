// Numbers in foreign text, the same rules wherever they stand, and how such text appears inside a message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::files {

// The whole of `text` as a finite decimal number; no blanks, "nan", "inf" or hexadecimal. A leading + is allowed.
std::optional<double> parse_number(std::string_view text);
// The same as an integer: "12", "12.0" and "1e3" are, "12.5" is not; beyond 2^53 only plain digits are.
std::optional<std::int64_t> parse_integer(std::string_view text);

// `"text"`, cut to 60 bytes, with control bytes written as \x07: a damaged file must not garble the terminal.
std::string shown(std::string_view text);

}  // namespace muster::files
