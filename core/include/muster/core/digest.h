// A closing number over everything a run did: two runs of one seed must print the same one.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

class Digest {
 public:
  void add(std::uint64_t x) {
    state_ = (state_ ^ x) * 0x9fb21c651e98df25ULL;
    state_ ^= state_ >> 32;
  }
  void add(std::int64_t x) { add(static_cast<std::uint64_t>(x)); }
  void add(double x) { add(std::bit_cast<std::uint64_t>(x)); }
  void add(std::string_view text);

  std::uint64_t value() const { return state_; }
  std::string hex() const;  // 16 lower-case digits

 private:
  std::uint64_t state_ = 0x6d75737465720001ULL;
};

}  // namespace muster
