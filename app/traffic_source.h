// The traffic of a simulation: a trace as recorded, or what a workload profile makes; a seed names one realisation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/core/result.h"
#include "muster/workload/profile.h"
#include "muster/workload/trace.h"

namespace muster::app {

class TrafficSource {
 public:
  // Exactly one of the two paths is given.
  static Result<TrafficSource> open(const std::string& trace, const std::string& profile);

  // The traffic of `seed` at `scale` times the rate. The same call gives the same requests; so two fleets that are
  // simulated on it see common random numbers. May be called from several threads.
  Result<std::shared_ptr<const workload::Trace>> make(double scale, std::uint64_t seed) const;

  // Does another seed give other requests? Not when a recorded trace is replayed at its own rate.
  bool varies_with_seed(double scale) const { return trace_ == nullptr || scale != 1; }
  const std::string& name() const { return name_; }
  std::uint64_t repaired_order() const { return trace_ == nullptr ? 0 : trace_->repaired_order; }

 private:
  std::string name_;
  std::shared_ptr<const workload::Trace> trace_;  // null: from the profile
  workload::Profile profile_;
};

}  // namespace muster::app
