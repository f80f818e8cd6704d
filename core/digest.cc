#include "muster/core/digest.h"

#include <fmt/format.h>

namespace muster {

void Digest::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
}

std::string Digest::hex() const {
  return fmt::format("{:016x}", state_);
}

}  // namespace muster
