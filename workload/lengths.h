// Lengths of requests drawn from a profile's bins.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "muster/core/rng.h"
#include "muster/workload/profile.h"
#include "muster/workload/trace.h"

namespace muster::workload {

inline std::int32_t whole_tokens(double tokens) {
  return static_cast<std::int32_t>(std::clamp(std::round(tokens), 1.0, static_cast<double>(kTokensMax)));
}

// `profile` must live as long; it has bins, each with a quantile per probability.
class Lengths {
 public:
  Lengths(const Profile& profile, Rng rng) : profile_(profile), rng_(rng) {}

  void draw(Request& request) {
    const LengthBin& bin = profile_.bins[rng_.below(profile_.bins.size())];
    request.input_tokens = at(bin.input_quantiles, rng_.uniform());
    request.output_tokens = at(bin.output_quantiles, rng_.uniform());
  }

 private:
  std::int32_t at(const std::vector<double>& quantiles, double p) const {
    const std::vector<double>& probabilities = profile_.probabilities;
    const auto above = std::upper_bound(probabilities.begin() + 1, probabilities.end() - 1, p);
    const auto i = static_cast<std::size_t>(above - probabilities.begin());
    const double share = (p - probabilities[i - 1]) / (probabilities[i] - probabilities[i - 1]);
    return whole_tokens(quantiles[i - 1] + share * (quantiles[i] - quantiles[i - 1]));
  }

  const Profile& profile_;
  Rng rng_;
};

}  // namespace muster::workload
