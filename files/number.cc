#include "muster/files/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace muster::files {
namespace {

template <class T>
bool parse_whole(std::string_view text, T& out) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  if (!parse_whole(text, value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t whole = 0;
  if (parse_whole(text, whole)) return whole;
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  const auto real = parse_number(text);
  if (!real || std::abs(*real) > kExact || *real != std::floor(*real)) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kBytesMax = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  out += text.size() > kBytesMax ? "...\"" : "\"";
  return out;
}

}  // namespace muster::files
