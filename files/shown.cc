#include "shown.h"

#include <fmt/format.h>

namespace muster::files {

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
