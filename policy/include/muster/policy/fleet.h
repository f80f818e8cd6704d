// The fleet's decisions about requests: admission, queueing and routing.
//
// Sans-IO: owns no clock, thread, socket or logger. Every call carries the current instant and every decision leaves as an
// Action, so the same calls in the same order give the same actions, whether `now` was popped from the simulator's queue or
// read from the kernel. `now` never decreases. Not thread-safe: one driver, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/core/rng.h"
#include "muster/core/time.h"
#include "muster/core/units.h"

namespace muster::policy {

enum class Routing { kRoundRobin, kLeastWork, kPowerOfTwo };
std::optional<Routing> parse_routing(std::string_view text);  // "round-robin", "least-work", "power-of-two"
std::string_view name(Routing routing);

enum class ZoneAffinity { kIgnore, kPrefer };  // kPrefer: another zone only when the request's own has no room

struct FleetSettings {
  Routing routing = Routing::kLeastWork;
  ZoneAffinity zone_affinity = ZoneAffinity::kIgnore;
  std::uint32_t ready_queue_max = 8;      // requests sent to a replica beyond those it can run at once (late binding); at least 1
  std::uint32_t running_max = 256;        // sequences that a replica runs at once
  std::uint64_t queue_max = 1'000'000;    // requests waiting in the fleet's queue; beyond: refused
  std::uint64_t seed = 1;                 // of the two-choice router
};

struct RequestInfo {
  RequestId id;
  std::uint32_t request_class = 0;
  std::int32_t rank = 0;                  // lower first
  Duration work{0};                       // the driver's estimate of the device time it needs
  std::optional<ZoneId> zone;             // where it came in
};

struct Action {
  enum class Kind { kDispatch, kRefuse };
  Kind kind = Kind::kDispatch;
  RequestId request;
  ReplicaId replica;                      // for kDispatch
  std::string_view reason;                // for kRefuse; static storage
};
using Actions = std::vector<Action>;

class Fleet {
 public:
  explicit Fleet(const FleetSettings& settings);

  void on_replica_ready(Instant now, ReplicaId replica, ZoneId zone, Actions& out);
  // The replica is gone. The driver hands in again (on_arrival with `again`) what it held.
  void on_replica_lost(Instant now, ReplicaId replica, Actions& out);
  // `again`: the request was admitted before; it keeps its place (its id orders it) and is never refused.
  void on_arrival(Instant now, const RequestInfo& request, bool again, Actions& out);
  void on_finished(Instant now, RequestId request, ReplicaId replica, Actions& out);

  std::optional<Instant> wakeup() const;  // nullopt: nothing here waits for time
  std::uint64_t queued() const;           // in the fleet's queue
  void check() const;                     // panics if an invariant is broken

 private:
  // (to be filled)
};

}  // namespace muster::policy
