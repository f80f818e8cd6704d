#include "muster/core/rng.h"

#include <cmath>

#include "muster/core/check.h"

namespace muster {
namespace {

std::uint64_t splitmix64(std::uint64_t& x) {
  std::uint64_t z = (x += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t rotate_left(std::uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

}  // namespace

Rng::Rng(std::uint64_t seed) : state_{} {
  for (std::uint64_t& word : state_) word = splitmix64(seed);
}

Rng Rng::stream(std::uint64_t seed, std::uint64_t run, std::string_view name) {
  std::uint64_t mix = seed;
  std::uint64_t key = splitmix64(mix) ^ rotate_left(run * 0xd1342543de82ef95ULL + 1, 17);
  for (const char c : name) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;  // FNV-1a
  return Rng(splitmix64(key));
}

std::uint64_t Rng::next() {
  const std::uint64_t result = rotate_left(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

double Rng::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

double Rng::uniform_open() {
  return (static_cast<double>(next() >> 12) + 0.5) * 0x1.0p-52;
}

std::uint64_t Rng::below(std::uint64_t n) {
  MUSTER_CHECK(n > 0, "below({}) has no value to return", n);
  const std::uint64_t reject_under = (0 - n) % n;  // 2^64 mod n
  std::uint64_t x = next();
  while (x < reject_under) x = next();
  return x % n;
}

double Rng::exponential(double mean) {
  return -mean * std::log(uniform_open());
}

double Rng::weibull(double shape, double scale) {
  MUSTER_CHECK(shape > 0 && scale > 0, "weibull(shape {}, scale {})", shape, scale);
  return scale * std::pow(exponential(1), 1 / shape);
}

double Rng::normal() {
  for (;;) {
    const double u = 2 * uniform() - 1;
    const double v = 2 * uniform() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

double Rng::gamma(double shape, double scale) {
  MUSTER_CHECK(shape > 0 && scale > 0, "gamma(shape {}, scale {})", shape, scale);
  if (shape < 1) {
    const double boost = std::pow(uniform_open(), 1 / shape);
    return gamma(shape + 1, scale) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
    if (v <= 0) continue;
    const double u = uniform_open();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * scale;
  }
}

}  // namespace muster
