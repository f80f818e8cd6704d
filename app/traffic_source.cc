#include "traffic_source.h"

#include "muster/workload/read.h"

namespace muster::app {

Result<TrafficSource> TrafficSource::open(const std::string& trace, const std::string& profile) {
  if (trace.empty() == profile.empty()) return fail("either --trace FILE or --profile FILE is needed");
  TrafficSource source;
  source.name_ = trace.empty() ? profile : trace;
  if (trace.empty()) {
    MUSTER_TRY(source.profile_, workload::read_profile(profile));
  } else {
    MUSTER_TRY(workload::Trace read, workload::read_trace(trace));
    source.trace_ = std::make_shared<const workload::Trace>(std::move(read));
  }
  return source;
}

Result<std::shared_ptr<const workload::Trace>> TrafficSource::make(double scale, std::uint64_t seed) const {
  if (trace_ != nullptr && scale == 1) return trace_;
  workload::Trace made;
  if (trace_ != nullptr) {
    MUSTER_TRY(made, workload::scale(*trace_, scale, seed));
  } else {
    MUSTER_TRY(made, workload::synthesise(profile_, {.scale = scale, .seed = seed}));
    made.source = name_;
  }
  return std::make_shared<const workload::Trace>(std::move(made));
}

}  // namespace muster::app
