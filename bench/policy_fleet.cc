// What a request costs the fleet's policy (its arrival, its dispatch and its end) with 256 replicas.
//   ninja -C build/release bench_policy_fleet && build/release/bench/bench_policy_fleet
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "muster/core/rng.h"
#include "muster/policy/fleet.h"

namespace muster::policy {
namespace {

constexpr std::uint32_t kReplicas = 256;

// Keeps `in_system` requests in the fleet: each round one ends and one arrives.
double ns_per_request(Routing routing, ZoneAffinity affinity, std::uint32_t in_system) {
  Fleet fleet({.routing = routing, .zone_affinity = affinity, .ready_queue_max = 8, .running_max = 56});
  Rng rng = Rng::stream(1, 0, "bench");
  Actions actions;
  for (std::uint32_t r = 0; r < kReplicas; ++r) fleet.on_replica_ready({}, ReplicaId(r), ZoneId(r % 3), actions);
  std::vector<Action> held;
  std::uint32_t id = 0;
  const auto arrive = [&] {
    fleet.on_arrival({}, {.id = RequestId(id), .work = Duration(1000 + id * 7919 % 100000), .zone = ZoneId(id % 3)},
                     false, actions);
    ++id;
    held.insert(held.end(), actions.begin(), actions.end());
    actions.clear();
  };
  while (id < in_system) arrive();
  constexpr int kRequests = 2'000'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRequests; ++i) {
    const std::size_t which = rng.below(held.size());
    const Action ended = held[which];
    held[which] = held.back();
    held.pop_back();
    fleet.on_finished({}, ended.request, ended.replica, actions);
    arrive();
  }
  const auto ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  return ns / kRequests;
}

}  // namespace
}  // namespace muster::policy

int main() {
  using namespace muster::policy;
  for (const Routing routing : kRoutings)
    for (const ZoneAffinity affinity : {ZoneAffinity::kIgnore, ZoneAffinity::kPrefer}) {
      double room = 1e99, full = 1e99;
      for (int round = 0; round < 3; ++round) {
        room = std::min(room, ns_per_request(routing, affinity, kReplicas * 40));
        full = std::min(full, ns_per_request(routing, affinity, kReplicas * 64 + 100'000));
      }
      fmt::print("{:14} {:16} {:6.0f} ns a request with room, {:6.0f} ns with 100,000 waiting\n", name(routing),
                 affinity == ZoneAffinity::kPrefer ? "zones preferred" : "zones ignored", room, full);
    }
}
