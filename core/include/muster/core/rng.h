// Random numbers that are the same on every compiler and library.
//
// xoshiro256++ (Blackman and Vigna 2019) seeded by splitmix64. One named stream per component: adding a draw in one
// component does not shift another, so two policies can be compared on the same traffic. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace muster {

class Rng {
 public:
  // The stream `name` of replication `run` of an experiment with `seed`.
  static Rng stream(std::uint64_t seed, std::uint64_t run, std::string_view name);

  std::uint64_t next();                  // uniform over all 64-bit values
  double uniform();                      // [0, 1), 53 bits
  double uniform_open();                 // (0, 1): safe to take the logarithm of
  std::uint64_t below(std::uint64_t n);  // uniform in [0, n); requires n > 0; unbiased
  double exponential(double mean);
  // Scale times an exponential of mean 1 to the power 1 / shape (Weibull 1951); mean scale * Gamma(1 + 1 / shape).
  double weibull(double shape, double scale);  // requires both > 0
  double normal();                             // mean 0, variance 1 (polar method)
  double gamma(double shape, double scale);    // mean shape * scale (Marsaglia and Tsang 2000); requires both > 0

 private:
  explicit Rng(std::uint64_t seed);
  std::array<std::uint64_t, 4> state_;
};

}  // namespace muster
