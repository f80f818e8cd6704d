// Numbers and texts in the files that a run streams out: instants exact to the nanosecond, names quoted.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "muster/core/time.h"

namespace muster::app {

// Milliseconds with six digits after the point: exact.
inline std::string exact_ms(Duration d) {
  const std::int64_t ns = d.count() < 0 ? -d.count() : d.count();
  return fmt::format("{}{}.{:06}", d.count() < 0 ? "-" : "", ns / 1'000'000, ns % 1'000'000);
}

// Microseconds with three digits after the point: exact. The unit of the trace-event format.
inline std::string exact_us(Duration d) {
  const std::int64_t ns = d.count() < 0 ? -d.count() : d.count();
  return fmt::format("{}{}.{:03}", d.count() < 0 ? "-" : "", ns / 1000, ns % 1000);
}

// A JSON string, quotes included. Bytes above ASCII pass as they are.
inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

// A CSV field (RFC 4180): quoted only where it has to be.
inline std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace muster::app
