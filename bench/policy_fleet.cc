// What a request costs the fleet's policy (its arrival, its dispatch and its end) with 256 replicas.
//   ninja -C build/release bench_policy_fleet && build/release/bench/bench_policy_fleet [routing kind]
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
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
  const std::clock_t start = std::clock();  // processor time: what else the machine does is not ours
  for (int i = 0; i < kRequests; ++i) {
    const std::size_t which = rng.below(held.size());
    const Action ended = held[which];
    held[which] = held.back();
    held.pop_back();
    fleet.on_finished({}, ended.request, ended.replica, actions);
    arrive();
  }
  return 1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kRequests;
}

}  // namespace
}  // namespace muster::policy

int main(int argc, char** argv) {
  using namespace muster::policy;
  for (const Routing routing : kRoutings) {
    if (argc > 1 && argv[1] != name(routing)) continue;
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
}
