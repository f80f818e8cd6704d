// Strong integer types for what muster counts: bytes, tokens, and the ids of things.
//
// A Quantity adds, subtracts and compares with its own kind and scales by plain integers. An Id only compares.
#pragma once

#include <compare>
#include <cstdint>

namespace muster {

template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.value * n); }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return Quantity(a.value * n); }
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.value / b.value; }
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity b) {
    value -= b.value;
    return *this;
  }
};

using Bytes = Quantity<struct BytesTag>;
using Tokens = Quantity<struct TokensTag>;

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr double to_gib(Bytes b) {
  return static_cast<double>(b.value) / static_cast<double>(kGiB);
}

template <class Tag>
struct Id {
  std::uint32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RequestId = Id<struct RequestTag>;  // position of the request in its trace or journal
using ReplicaId = Id<struct ReplicaTag>;
using ZoneId = Id<struct ZoneTag>;

}  // namespace muster
