// The fleet's decisions about requests: admission, queueing and routing.
//
// Sans-IO: owns no clock, thread, socket or logger. Every call carries the current instant and every decision leaves as
// an Action, so the same calls in the same order give the same actions, whether `now` was popped from the simulator's
// queue or read from the kernel. `now` never decreases. Not thread-safe: one driver, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/core/rng.h"
#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/policy/id_map.h"
#include "muster/policy/index_set.h"
#include "muster/policy/min_tree.h"
#include "muster/policy/prefix_index.h"

namespace muster::policy {

enum class Routing {
  kRoundRobin,
  kRandom,         // each with room equally likely: the baseline for the others
  kLeastRequests,  // fewest assigned requests
  kLeastWork,      // least estimated device time of the assigned requests
  kPowerOfTwo,     // of two random ones, that with less work
};
inline constexpr std::array kRoutings = {Routing::kRoundRobin, Routing::kRandom, Routing::kLeastRequests,
                                         Routing::kLeastWork, Routing::kPowerOfTwo};
std::optional<Routing> parse_routing(
    std::string_view text);  // a name(): "round-robin", "random", "least-requests", ...
std::string_view name(Routing routing);

enum class ZoneAffinity { kIgnore, kPrefer };  // kPrefer: another zone only when the request's own has no room

struct FleetSettings {
  Routing routing = Routing::kLeastWork;
  ZoneAffinity zone_affinity = ZoneAffinity::kIgnore;
  // Late binding: a replica is sent at most running_max + ready_queue_max requests; the rest waits here, where it can
  // still be re-ordered or sent elsewhere. A few ready ones keep the replica busy while this answer is on its way.
  std::uint32_t ready_queue_max = 8;    // 0: one central queue, as in M/M/k
  std::uint32_t running_max = 256;      // sequences that a replica runs at once; at least 1
  std::uint64_t queue_max = 1'000'000;  // requests waiting in the fleet's queue; beyond: refused
  std::uint64_t seed = 1;               // of the random and the two-choice router
  // Choices by load see each replica as it was at the last whole multiple of this time, as scraped metrics show it:
  // what was sent since is not counted, so a fleet herds onto whoever looked idle (Mitzenmacher 2000, "How useful is
  // old information?"). A replica that became ready since looks empty. Room is exact all the same. 0: live.
  Duration metrics_lag{0};
  // Prefix affinity comes before the routing kind: a request goes to the replica with room that was sent the longest
  // prefix of its prompt (of several the one with fewest requests), unless that one has more requests than the least
  // loaded one with room by imbalance_absolute and by imbalance_ratio. The rule and both thresholds' values are those
  // of the cache_aware policy of SGLang's router (--balance-abs-threshold, --balance-rel-threshold), applied to the
  // chosen replica instead of the most loaded one.
  bool prefix_affinity = false;
  double imbalance_ratio = 1.5;
  std::uint32_t imbalance_absolute = 64;      // requests
  std::uint32_t prefix_index_blocks = 16384;  // remembered per replica, the most recent ones; see PrefixIndex
};

struct RequestInfo {
  RequestId id;
  std::uint32_t request_class = 0;
  std::int32_t rank = 0;            // lower first
  Duration work{0};                 // the driver's estimate of the device time it needs
  std::optional<ZoneId> zone = {};  // where it came in
  // Ids of the blocks of its prompt, chained or not; read with prefix_affinity only. What it points at must stay valid
  // until the request is dispatched, refused or cancelled.
  std::span<const std::uint64_t> prefix_blocks = {};
};

struct Action {
  enum class Kind { kDispatch, kRefuse };
  Kind kind = Kind::kDispatch;
  RequestId request;
  ReplicaId replica;        // for kDispatch
  std::string_view reason;  // for kRefuse; static storage
};
using Actions = std::vector<Action>;

// Keeps these promises, whatever the calls:
//  - each request gets one answer, kDispatch or kRefuse, per on_arrival (and none before: no answer is made up), or
//    none at all when on_cancelled took it out of the queue;
//  - nobody waits in the queue while a ready replica has room (work conserving);
//  - the queue is served by rank, then by id; a newcomer is refused only when no replica has room and the queue is
//  full.
// Replica and zone ids are small and dense: they are used as indices. A decision costs O(log replicas + log queue),
// with prefix affinity also O(blocks + replicas), and, once the containers have grown to the peak, allocates nothing.
class Fleet {
 public:
  explicit Fleet(const FleetSettings& settings);

  // Also for one that was lost and is back. Requires that it is not ready already.
  void on_replica_ready(Instant now, ReplicaId replica, ZoneId zone, Actions& out);
  // It is sent nothing more and finishes what it holds; on_replica_ready() makes it serve again, on_replica_lost() ends
  // it early. Requires that it is ready.
  void on_replica_draining(Instant now, ReplicaId replica);
  std::uint32_t assigned(ReplicaId replica) const { return replicas_[replica.value].assigned; }
  // The replica is gone. The driver hands in again (on_arrival with `again`) what it held. Requires that it is
  // ready or drains.
  void on_replica_lost(Instant now, ReplicaId replica, Actions& out);
  // `again`: the request was admitted before; it keeps its place (its id orders it) and is never refused.
  // Requires an id that neither waits here nor is held by a replica.
  void on_arrival(Instant now, const RequestInfo& request, bool again, Actions& out);
  // The replica is done with a request that was dispatched to it: finished, cancelled or turned down there.
  void on_finished(Instant now, RequestId request, ReplicaId replica, Actions& out);

  // The request is wanted no more. True: it waited here, is gone and gets no answer. False: it did not wait here; if a
  // replica holds it, that one must be told, and on_finished follows. Costs O(1), amortised.
  bool on_cancelled(Instant now, RequestId request, Actions& out);
  std::optional<Instant> wakeup() const;  // nullopt: nothing here waits for time
  std::uint64_t queued() const;           // in the fleet's queue
  void check() const;                     // panics if an invariant is broken

 private:
  struct Replica {
    ZoneId zone;
    bool ready = false;
    bool draining = false;       // not ready, but holds requests still
    std::uint32_t assigned = 0;  // requests dispatched and not finished
    Duration work{0};            // their estimated device time
    // As the choice sees them: the two above, or what they were at the last sample.
    std::uint32_t seen_assigned = 0;
    Duration seen_work{0};
    bool is_stale = false;  // listed in stale_
  };
  // A place in the queue. It is void once its request was cancelled: waiting_ has no such id with this ticket.
  struct Place {
    RequestInfo request;
    std::uint32_t ticket;  // tells an id that was cancelled from the same one handed in again
  };
  static bool served_after(const Place& a, const Place& b);
  struct Assignment {
    ReplicaId replica;
    Duration work{0};
  };
  // Replicas among which a choice is made: all of them, or those of one zone.
  struct Group {
    IndexSet open;           // ready, with room for one more
    MinTree load;            // [replica] of the open ones: requests or ns of work seen, whichever the routing compares
    MinTree requests;        // [replica] of the open ones: requests seen (with prefix affinity only)
    std::size_t cursor = 0;  // round robin: where the search for the next one begins
  };

  bool prefers_zones() const { return settings_.zone_affinity == ZoneAffinity::kPrefer; }
  std::uint64_t room() const { return std::uint64_t{settings_.running_max} + settings_.ready_queue_max; }
  bool is_sampled() const { return settings_.metrics_lag > Duration(0); }
  void advance(Instant now);
  void sample();                                    // what is seen of each replica becomes what it has
  void refresh(ReplicaId replica);                  // after a change of its state
  void list(ReplicaId replica);                     // its place in the groups
  std::int64_t load(const Replica& replica) const;  // what the routing compares, as seen
  void wait(const RequestInfo& request);
  bool is_void(const Place& place) const;
  ReplicaId choose(const RequestInfo& request);
  std::size_t choose_in(Group& group);
  std::optional<std::size_t> choose_by_prefix(const Group& group);
  void dispatch(const RequestInfo& request, Actions& out);
  void drain(Actions& out);
  void check_queue() const;

  FleetSettings settings_;
  Rng random_rng_, two_choice_rng_;
  Instant last_now_ = Instant::min();
  std::int64_t period_ = 0;        // of metrics_lag, that of last_now_: its beginning is the last sample
  std::vector<ReplicaId> stale_;   // changed since the last sample
  std::vector<Replica> replicas_;  // [replica id]
  std::vector<Group> groups_;      // [0] everything; [1 + zone], only with ZoneAffinity::kPrefer
  IdMap<Assignment> assignments_;  // dispatched and not finished
  IdMap<std::uint32_t> waiting_;   // the ticket; empty while any replica is open
  std::vector<Place> queue_;       // of those waiting and some void ones: a binary heap, first by (rank, id) in front
  std::uint32_t next_ticket_ = 0;
  PrefixIndex prefixes_;  // with prefix affinity only
};

}  // namespace muster::policy
