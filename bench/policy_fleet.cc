// What a request costs the fleet's policy (its arrival, its dispatch and its end) with 256 replicas.
//   ninja -C build/release bench_policy_fleet && build/release/bench/bench_policy_fleet [routing kind]
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <vector>

#include "muster/core/rng.h"
#include "muster/policy/fleet.h"

namespace muster::policy {
namespace {

constexpr std::uint32_t kReplicas = 256;
constexpr std::size_t kPrompts = 1 << 18;  // more than are in the system at once: their blocks stay valid

// Keeps `in_system` requests in the fleet: each round one ends and one arrives.
// With prefix affinity each prompt has 24 blocks, the mean of the Mooncake conversation trace (12,035 tokens in blocks
// of 512); it is the next turn of one of 10,000 conversations, of which 4 blocks are new, and 2 are common to all.
double ns_per_request(Routing routing, ZoneAffinity affinity, bool prefixes, std::uint32_t in_system) {
  Fleet fleet({.routing = routing,
               .zone_affinity = affinity,
               .ready_queue_max = 8,
               .running_max = 56,
               .prefix_affinity = prefixes});
  std::vector<std::uint64_t> blocks(24 * kPrompts);
  Rng rng = Rng::stream(1, 0, "bench");
  Actions actions;
  for (std::uint32_t r = 0; r < kReplicas; ++r) fleet.on_replica_ready({}, ReplicaId(r), ZoneId(r % 3), actions);
  std::vector<Action> held;
  std::uint32_t id = 0;
  const auto arrive = [&] {
    RequestInfo info{.id = RequestId(id), .work = Duration(1000 + id * 7919 % 100000), .zone = ZoneId(id % 3)};
    if (prefixes) {
      const std::span<std::uint64_t> prompt(blocks.data() + 24 * (id % kPrompts), 24);
      const std::uint64_t conversation = id * 7919 % 10'000;
      for (std::size_t i = 0; i < 24; ++i)
        prompt[i] = i < 2 ? i : i < 20 ? conversation * 100 + i : 1'000'000 + std::uint64_t{id} * 100 + i;
      info.prefix_blocks = prompt;
    }
    fleet.on_arrival({}, info, false, actions);
    ++id;
    held.insert(held.end(), actions.begin(), actions.end());
    actions.clear();
  };
  while (id < in_system) arrive();
  const int requests = prefixes ? 50'000 : 500'000;
  const std::clock_t start = std::clock();  // processor time: what else the machine does is not ours
  for (int i = 0; i < requests; ++i) {
    const std::size_t which = rng.below(held.size());
    const Action ended = held[which];
    held[which] = held.back();
    held.pop_back();
    fleet.on_finished({}, ended.request, ended.replica, actions);
    arrive();
  }
  return 1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / requests;
}

}  // namespace
}  // namespace muster::policy

int main(int argc, char** argv) {
  using namespace muster::policy;
  for (const Routing routing : kRoutings) {
    if (argc > 1 && argv[1] != name(routing)) continue;
    for (const ZoneAffinity affinity : {ZoneAffinity::kIgnore, ZoneAffinity::kPrefer})
      for (const bool prefixes : {false, true}) {
        double room = 1e99, full = 1e99;
        for (int round = 0; round < 3; ++round) {
          room = std::min(room, ns_per_request(routing, affinity, prefixes, kReplicas * 40));
          full = std::min(full, ns_per_request(routing, affinity, prefixes, kReplicas * 64 + 100'000));
        }
        fmt::print("{:14} {:16} {:15} {:6.0f} ns a request with room, {:6.0f} ns with 100,000 waiting\n", name(routing),
                   affinity == ZoneAffinity::kPrefer ? "zones preferred" : "zones ignored",
                   prefixes ? "prefix affinity" : "", room, full);
      }
  }
}
