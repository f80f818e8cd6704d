// Quantiles of sorted samples with linear interpolation between ranks (Hyndman and Fan 1996, type 7; numpy's default).
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace muster::workload {

// Requires a non-empty sorted `samples` and 0 <= p <= 1.
template <class T>
double interpolated_quantile(std::span<const T> samples, double p) {
  const double rank = p * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  if (below + 1 >= samples.size()) return static_cast<double>(samples.back());
  const double share = rank - static_cast<double>(below);
  const auto low = static_cast<double>(samples[below]);
  return low + share * (static_cast<double>(samples[below + 1]) - low);
}

}  // namespace muster::workload
