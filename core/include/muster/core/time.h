// Time inside muster: integer nanoseconds on a clock that cannot be asked for "now".
//
// An Instant comes from whoever drives the code: the simulator's event queue, or the network layer that read the
// kernel's clock. Policies and schedulers only receive it.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

using Duration = std::chrono::nanoseconds;

struct FleetTime {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  static constexpr bool is_steady = true;
};
using Instant = std::chrono::time_point<FleetTime, Duration>;

using namespace std::chrono_literals;

// Rounds to the nearest nanosecond, so that a double never orders two events. Requires |seconds| < 9.2e9.
constexpr Duration from_seconds(double seconds) {
  const double ns = seconds * 1e9;
  return Duration(static_cast<std::int64_t>(ns < 0 ? ns - 0.5 : ns + 0.5));
}
constexpr double to_seconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-9;
}
constexpr double to_ms(Duration d) {
  return static_cast<double>(d.count()) * 1e-6;
}

}  // namespace muster
