#include "lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/core/check.h"

namespace muster::sim {

Lifecycle::Lifecycle(const Scenario& scenario)
    : scenario_(scenario), serving_wanted_(scenario.pools()), replicas_(scenario.replicas.size()) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const ReplicaPlace& place = scenario.replicas[i];
    replicas_[i].state = place.off ? State::kOff : place.standby ? State::kStandby : State::kServing;
    serving_wanted_[place.pool] += replicas_[i].state == State::kServing ? 1 : 0;
  }
  for (std::uint32_t i = 0; i < scenario.faults.size(); ++i) push(scenario.faults[i].at, Entry::Kind::kFaultBegins, i);
}

void Lifecycle::push(Instant at, Entry::Kind kind, std::uint32_t target, std::uint32_t ready_number) {
  timeline_.push_back(
      {.at = at, .number = entries_made_++, .kind = kind, .target = target, .ready_number = ready_number});
  std::push_heap(timeline_.begin(), timeline_.end(), later);
}

std::uint32_t Lifecycle::count(std::uint32_t pool, State state) const {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i)
    n += replicas_[i].state == state && scenario_.replicas[i].pool == pool ? 1 : 0;
  return n;
}

std::uint32_t Lifecycle::serving() const {
  return static_cast<std::uint32_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [](const Replica& r) { return r.state == State::kServing; }));
}

std::vector<std::uint32_t> Lifecycle::targets(const Fault& fault) const {
  if (fault.kind == Fault::Kind::kReplicaLoss) return {fault.target};
  std::vector<std::uint32_t> in_zone;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i)
    if (scenario_.replicas[i].zone == fault.target) in_zone.push_back(i);
  return in_zone;
}

std::string Lifecycle::name(std::uint32_t replica) const {
  const std::uint32_t zone = scenario_.replicas[replica].zone;
  const auto place = std::count_if(scenario_.replicas.begin(), scenario_.replicas.begin() + replica,
                                   [&](const ReplicaPlace& p) { return p.zone == zone; });
  return fmt::format("{}/{}", scenario_.zones[zone], place);
}

std::string Lifecycle::fault_name(const Fault& fault) const {
  return fault.kind == Fault::Kind::kZoneLoss ? "zone " + scenario_.zones[fault.target]
                                              : "replica " + name(fault.target);
}

void Lifecycle::advance(Instant now, Changes& changes, std::vector<FleetEvent>& log) {
  MUSTER_CHECK(next_event() == now, "the fleet's next event is not due");
  while (next_event() == now) {
    std::pop_heap(timeline_.begin(), timeline_.end(), later);
    const Entry entry = timeline_.back();
    timeline_.pop_back();
    switch (entry.kind) {
      case Entry::Kind::kFaultBegins:
        begin_fault(now, scenario_.faults[entry.target], changes, log);
        break;
      case Entry::Kind::kFaultEnds:
        end_fault(now, scenario_.faults[entry.target], log);
        break;
      case Entry::Kind::kReady:
        if (replicas_[entry.target].ready_number == entry.ready_number) become_ready(now, entry.target, changes, log);
        break;
    }
  }
  // One that became ready and was struck in the same instant has no more to say than one that was struck.
  std::erase_if(changes.ready, [&](std::uint32_t i) { return replicas_[i].state != State::kServing; });
}

void Lifecycle::begin_fault(Instant now, const Fault& fault, Changes& changes, std::vector<FleetEvent>& log) {
  std::uint32_t serving = 0, others = 0;
  for (const std::uint32_t i : targets(fault)) {
    Replica& r = replicas_[i];
    ++r.faults;
    if (r.state == State::kDown || r.state == State::kOff) continue;
    ++(r.state == State::kServing ? serving : others);
    const bool just_ready = std::find(changes.ready.begin(), changes.ready.end(), i) != changes.ready.end();
    const bool had_requests = r.state == State::kServing || r.state == State::kDraining;
    if (had_requests && !just_ready) changes.lost.push_back(i);
    r.state = State::kDown;
    ++r.ready_number;
    up_changes_.push_back({now, pool(i), -gpus(i)});
  }
  log.push_back({.at = now,
                 .kind = fault.kind == Fault::Kind::kZoneLoss ? "zone_loss" : "replica_loss",
                 .text = fmt::format("{} is lost: {} serving and {} other replicas go down", fault_name(fault), serving,
                                     others)});
  if (fault.lasts > Duration(0)) {
    const auto index = static_cast<std::uint32_t>(&fault - scenario_.faults.data());
    push(now + fault.lasts, Entry::Kind::kFaultEnds, index);
  }
  for (std::uint32_t pool = 0; pool < serving_wanted_.size(); ++pool) promote_for_missing(now, pool, log);
}

void Lifecycle::end_fault(Instant now, const Fault& fault, std::vector<FleetEvent>& log) {
  std::uint32_t starting = 0;
  Duration longest(0);
  for (const std::uint32_t i : targets(fault)) {
    if (--replicas_[i].faults > 0 || replicas_[i].state == State::kOff) continue;
    ++starting;
    up_changes_.push_back({now, pool(i), gpus(i)});
    const Duration cold_start = scenario_.kind_of(pool(i)).cold_start;
    longest = std::max(longest, cold_start);
    make_ready_after(now, i, State::kStarting, cold_start);
  }
  log.push_back({.at = now,
                 .kind = fault.kind == Fault::Kind::kZoneLoss ? "zone_return" : "replica_return",
                 .text = fmt::format("{} is back: {} replicas start cold, {:.1f} s", fault_name(fault), starting,
                                     to_seconds(longest))});
}

void Lifecycle::make_ready_after(Instant now, std::uint32_t replica, State state, Duration wait) {
  replicas_[replica].state = state;
  replicas_[replica].ready_at = now + wait;
  push(now + wait, Entry::Kind::kReady, replica, ++replicas_[replica].ready_number);
}

void Lifecycle::become_ready(Instant now, std::uint32_t replica, Changes& changes, std::vector<FleetEvent>& log) {
  Replica& r = replicas_[replica];
  const std::uint32_t p = pool(replica);
  const bool promoted = r.state == State::kPromoting;
  const bool is_missing = promoted || count(p, State::kServing) + count(p, State::kPromoting) < serving_wanted_[p];
  r.state = is_missing ? State::kServing : State::kStandby;
  if (is_missing) changes.ready.push_back(replica);
  log.push_back({.at = now,
                 .kind = is_missing ? "ready" : "standby",
                 .text = fmt::format("replica {} {}; {} of {} serve", name(replica),
                                     is_missing ? "serves" : "is loaded and stands by", count(p, State::kServing),
                                     serving_wanted_[p])});
}

void Lifecycle::promote_for_missing(Instant now, std::uint32_t pool, std::vector<FleetEvent>& log) {
  while (count(pool, State::kServing) + count(pool, State::kPromoting) < serving_wanted_[pool]) {
    std::vector<std::uint32_t> in_zone(scenario_.zones.size());  // serving or about to
    for (std::uint32_t i = 0; i < replicas_.size(); ++i)
      if (this->pool(i) == pool && (replicas_[i].state == State::kServing || replicas_[i].state == State::kPromoting))
        ++in_zone[scenario_.replicas[i].zone];
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
      if (this->pool(i) != pool || replicas_[i].state != State::kStandby) continue;
      if (!best || in_zone[scenario_.replicas[i].zone] < in_zone[scenario_.replicas[*best].zone]) best = i;
    }
    if (!best) return;
    make_ready_after(now, *best, State::kPromoting, scenario_.kind_of(pool).warm_start);
    log.push_back({.at = now,
                   .kind = "promotion",
                   .text = fmt::format("standby {} is promoted, ready in {:.1f} s", name(*best),
                                       to_seconds(scenario_.kind_of(pool).warm_start))});
  }
}

// Of the pool's replicas in this state one in the zone with most, or fewest, that serve or will; of equals the last, or
// the first.
std::optional<std::uint32_t> Lifecycle::pick(std::uint32_t of_pool, State state, bool of_fullest_zone) const {
  std::vector<std::uint32_t> in_zone(scenario_.zones.size());
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    const State s = replicas_[i].state;
    const bool serves = s == State::kServing || s == State::kPromoting || s == State::kStarting;
    if (pool(i) == of_pool && serves) ++in_zone[scenario_.replicas[i].zone];
  }
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    if (pool(i) != of_pool || replicas_[i].state != state || replicas_[i].faults > 0) continue;
    if (best) {
      const std::uint32_t here = in_zone[scenario_.replicas[i].zone], there = in_zone[scenario_.replicas[*best].zone];
      if (of_fullest_zone ? here < there : here >= there) continue;
    }
    best = i;
  }
  return best;
}

void Lifecycle::switch_off(Instant now, std::uint32_t replica) {
  replicas_[replica].state = State::kOff;
  ++replicas_[replica].ready_number;
  up_changes_.push_back({now, pool(replica), -gpus(replica)});
}

void Lifecycle::scale(Instant now, std::uint32_t of_pool, std::uint32_t wanted, std::vector<std::uint32_t>& draining,
                      std::vector<std::uint32_t>& resumed) {
  serving_wanted_[of_pool] = wanted;
  const auto coming = [&] {
    return count(of_pool, State::kServing) + count(of_pool, State::kPromoting) + count(of_pool, State::kStarting);
  };
  while (coming() < wanted) {
    if (const auto back = pick(of_pool, State::kDraining, false)) {
      replicas_[*back].state = State::kServing;
      resumed.push_back(*back);
    } else if (const auto off = pick(of_pool, State::kOff, false)) {
      up_changes_.push_back({now, of_pool, gpus(*off)});
      make_ready_after(now, *off, State::kStarting, scenario_.kind_of(of_pool).cold_start);
    } else {
      break;
    }
  }
  while (coming() > wanted) {
    if (const auto starting = pick(of_pool, State::kStarting, true)) {
      switch_off(now, *starting);
    } else if (const auto serving = pick(of_pool, State::kServing, true)) {
      replicas_[*serving].state = State::kDraining;
      draining.push_back(*serving);
    } else {
      break;  // those being promoted replace lost ones: let them
    }
  }
}

void Lifecycle::drained(Instant now, std::uint32_t replica, std::vector<FleetEvent>& log) {
  MUSTER_CHECK(replicas_[replica].state == State::kDraining, "replica {} does not drain", replica);
  switch_off(now, replica);
  log.push_back(
      {.at = now, .kind = "off", .text = fmt::format("replica {} has drained and is switched off", name(replica))});
}

Lifecycle::Counts Lifecycle::counts(std::uint32_t of_pool) const {
  Counts c{.serving = count(of_pool, State::kServing),
           .pending = 0,
           .standby = count(of_pool, State::kStandby),
           .off = count(of_pool, State::kOff),
           .ready_at = {}};
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    const State s = replicas_[i].state;
    if (pool(i) != of_pool || (s != State::kStarting && s != State::kPromoting)) continue;
    c.ready_at.push_back(replicas_[i].ready_at);
  }
  c.pending = static_cast<std::uint32_t>(c.ready_at.size());
  return c;
}

double Lifecycle::gpu_seconds(std::uint32_t of_pool, Instant begin, Instant end) const {
  std::int64_t up = 0;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i)
    up += pool(i) == of_pool && !scenario_.replicas[i].off ? gpus(i) : 0;
  std::int64_t gpu_ns = 0;
  Instant from = begin;
  for (const UpChange& change : up_changes_) {
    if (change.pool != of_pool) continue;
    const Instant at = std::clamp(change.at, begin, end);
    gpu_ns += up * (at - from).count();
    from = at;
    up += change.by;
  }
  gpu_ns += up * (end - from).count();
  return to_seconds(Duration(gpu_ns));
}

}  // namespace muster::sim
