// Which replicas serve, stand by, start or are down, and the faults that move them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/time.h"
#include "muster/sim/simulation.h"

namespace muster::sim {

class Lifecycle {
 public:
  // Serving: requests are routed to it. Standby: loaded and idle. Promoting: a standby on its way to serving. Starting:
  // back from a fault or switched on, its weights being loaded. Draining: finishes what it has, then goes off. Off: not
  // running. Down: struck by at least one fault.
  enum class State : std::uint8_t { kServing, kStandby, kPromoting, kStarting, kDraining, kOff, kDown };

  struct Changes {
    std::vector<std::uint32_t> lost;   // replicas that served and do not any more
    std::vector<std::uint32_t> ready;  // replicas that serve from now on
  };
  struct Counts {
    std::uint32_t serving = 0, pending = 0, standby = 0, off = 0;  // pending: starting or being promoted
    std::vector<Instant> ready_at;                                 // [pending]
  };

  // Keeps a reference to the scenario.
  explicit Lifecycle(const Scenario& scenario);

  Instant next_event() const { return timeline_.empty() ? Instant::max() : timeline_.front().at; }
  // Everything that happens at `now`. Requires next_event() == now.
  void advance(Instant now, Changes& changes, std::vector<FleetEvent>& log);

  // From now on so many are to serve in the pool. More: draining ones go on, then those that are off start cold, in the
  // zone with the fewest; fewer: those on their way are switched off, then the last of the zone with most drain. At
  // least 0; as many as there are. Appends to `draining` who stops to be sent requests, to `resumed` who is sent again.
  void scale(Instant now, std::uint32_t pool, std::uint32_t wanted, std::vector<std::uint32_t>& draining,
             std::vector<std::uint32_t>& resumed);
  // It has nothing left. Requires that it drains.
  void drained(Instant now, std::uint32_t replica, std::vector<FleetEvent>& log);
  Counts counts(std::uint32_t pool) const;

  State state(std::uint32_t replica) const { return replicas_[replica].state; }
  std::uint32_t serving() const;
  // GPU-seconds in [begin, end] of the pool's replicas that were not down.
  double gpu_seconds(std::uint32_t pool, Instant begin, Instant end) const;

 private:
  struct Replica {
    State state = State::kServing;
    std::uint32_t faults = 0;           // that hold it down now
    Instant ready_at = Instant::max();  // while starting or promoting
    std::uint32_t ready_number = 0;     // of the latest start or promotion; an older one in the timeline is void
  };
  struct Entry {
    enum class Kind : std::uint8_t { kFaultEnds, kFaultBegins, kReady };
    Instant at;
    std::uint64_t number = 0;  // order of making; breaks ties
    Kind kind = Kind::kFaultBegins;
    std::uint32_t target = 0;  // index of the fault, or of the replica
    std::uint32_t ready_number = 0;
  };
  struct UpChange {
    Instant at;
    std::uint32_t pool = 0;
    std::int32_t by = 0;  // GPUs
  };

  static bool later(const Entry& a, const Entry& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  void push(Instant at, Entry::Kind kind, std::uint32_t target, std::uint32_t ready_number = 0);
  std::uint32_t count(std::uint32_t pool, State state) const;
  std::uint32_t pool(std::uint32_t replica) const { return scenario_.replicas[replica].pool; }
  int gpus(std::uint32_t replica) const { return scenario_.kind_of(pool(replica)).gpus; }
  std::vector<std::uint32_t> targets(const Fault& fault) const;
  std::string name(std::uint32_t replica) const;  // "a/0": zone and place in it
  std::string fault_name(const Fault& fault) const;
  void begin_fault(Instant now, const Fault& fault, Changes& changes, std::vector<FleetEvent>& log);
  void end_fault(Instant now, const Fault& fault, std::vector<FleetEvent>& log);
  void become_ready(Instant now, std::uint32_t replica, Changes& changes, std::vector<FleetEvent>& log);
  void promote_for_missing(Instant now, std::uint32_t pool, std::vector<FleetEvent>& log);
  std::optional<std::uint32_t> pick(std::uint32_t pool, State state, bool of_fullest_zone) const;
  void switch_off(Instant now, std::uint32_t replica);
  void make_ready_after(Instant now, std::uint32_t replica, State state, Duration wait);

  const Scenario& scenario_;
  std::vector<std::uint32_t> serving_wanted_;  // [pools] as many as served at the beginning, or as scale() said
  std::vector<Replica> replicas_;
  std::vector<Entry> timeline_;  // a binary heap, earliest in front
  std::uint64_t entries_made_ = 0;
  std::vector<UpChange> up_changes_;  // after the beginning, when all were up
};

}  // namespace muster::sim
