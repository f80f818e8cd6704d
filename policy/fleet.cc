#include "muster/policy/fleet.h"

#include <algorithm>
#include <utility>

#include "muster/core/check.h"

namespace muster::policy {

std::optional<Routing> parse_routing(std::string_view text) {
  for (const Routing routing : kRoutings)
    if (text == name(routing)) return routing;
  return std::nullopt;
}

std::string_view name(Routing routing) {
  switch (routing) {
    case Routing::kRoundRobin:
      return "round-robin";
    case Routing::kRandom:
      return "random";
    case Routing::kLeastRequests:
      return "least-requests";
    case Routing::kLeastWork:
      return "least-work";
    case Routing::kPowerOfTwo:
      return "power-of-two";
  }
  return "?";
}

Fleet::Fleet(const FleetSettings& settings)
    : settings_(settings),
      random_rng_(Rng::stream(settings.seed, 0, "random router")),
      two_choice_rng_(Rng::stream(settings.seed, 0, "two-choice router")),
      groups_(1),
      prefixes_(settings.prefix_index_blocks) {
  MUSTER_CHECK(settings.running_max >= 1, "running_max must be at least 1, got {}", settings.running_max);
  MUSTER_CHECK(settings.metrics_lag >= Duration(0), "metrics_lag must not be negative, got {} ns",
               settings.metrics_lag.count());
  MUSTER_CHECK(settings.imbalance_ratio >= 1, "imbalance_ratio must be at least 1, got {}", settings.imbalance_ratio);
}

// For std::push_heap, whose front is the largest.
bool Fleet::served_after(const Place& a, const Place& b) {
  return a.request.rank != b.request.rank ? a.request.rank > b.request.rank : a.request.id > b.request.id;
}

bool Fleet::is_void(const Place& place) const {
  const std::uint32_t* ticket = waiting_.find(place.request.id);
  return ticket == nullptr || *ticket != place.ticket;
}

void Fleet::advance(Instant now) {
  MUSTER_CHECK(now >= last_now_, "time went back from {} to {} ns", last_now_.time_since_epoch().count(),
               now.time_since_epoch().count());
  last_now_ = now;
  if (!is_sampled()) return;
  const std::int64_t since = now.time_since_epoch() / settings_.metrics_lag;
  if (since == period_) return;
  period_ = since;  // nothing changed from the sample's instant until this call, so what is now is what it saw
  sample();
}

void Fleet::sample() {
  for (const ReplicaId replica : stale_) {
    Replica& r = replicas_[replica.value];
    r.is_stale = false;
    r.seen_assigned = r.assigned;
    r.seen_work = r.work;
    list(replica);
  }
  stale_.clear();
}

void Fleet::on_replica_ready(Instant now, ReplicaId replica, ZoneId zone, Actions& out) {
  advance(now);
  if (replica.value >= replicas_.size()) replicas_.resize(replica.value + 1);
  if (prefers_zones() && zone.value + 1 >= groups_.size()) groups_.resize(zone.value + 2);
  for (Group& group : groups_) {
    group.open.resize(replicas_.size());
    group.load.resize(replicas_.size());
    group.requests.resize(replicas_.size());
  }
  if (settings_.prefix_affinity) prefixes_.resize(replicas_.size());
  Replica& r = replicas_[replica.value];
  MUSTER_CHECK(!r.ready, "replica {} is ready already", replica.value);
  if (std::exchange(r.draining, false))
    r.ready = true;  // it serves again, with what it holds
  else
    r = {.zone = zone, .ready = true, .is_stale = r.is_stale};
  refresh(replica);
  drain(out);
}

void Fleet::on_replica_draining(Instant now, ReplicaId replica) {
  advance(now);
  MUSTER_CHECK(replica.value < replicas_.size() && replicas_[replica.value].ready, "replica {} is not ready",
               replica.value);
  replicas_[replica.value].ready = false;
  replicas_[replica.value].draining = true;
  refresh(replica);
}

void Fleet::on_replica_lost(Instant now, ReplicaId replica, Actions&) {
  advance(now);
  MUSTER_CHECK(
      replica.value < replicas_.size() && (replicas_[replica.value].ready || replicas_[replica.value].draining),
      "replica {} is not ready", replica.value);
  Replica& r = replicas_[replica.value];
  r.ready = r.draining = false;
  refresh(replica);
  std::vector<RequestId> held;  // losses are rare, so a pass over all assignments will do
  assignments_.for_each_key([&](RequestId id, const Assignment& a) {
    if (a.replica == replica) held.push_back(id);
  });
  MUSTER_CHECK(held.size() == r.assigned, "replica {} holds {} requests, {} were counted", replica.value, held.size(),
               r.assigned);
  for (const RequestId id : held) assignments_.erase(id);
  r.assigned = 0;
  r.work = Duration(0);
  if (settings_.prefix_affinity) prefixes_.forget(replica);
}

void Fleet::on_arrival(Instant now, const RequestInfo& request, bool again, Actions& out) {
  advance(now);
  if (groups_[0].open.count() > 0) {
    dispatch(request, out);
    return;
  }
  if (!again && waiting_.size() >= settings_.queue_max) {
    out.push_back({.kind = Action::Kind::kRefuse, .request = request.id, .replica = {}, .reason = "the queue is full"});
    return;
  }
  wait(request);
}

void Fleet::wait(const RequestInfo& request) {
  MUSTER_CHECK(assignments_.find(request.id) == nullptr, "request {} arrived while a replica still holds it",
               request.id.value);
  const bool is_new = waiting_.insert(request.id, next_ticket_);
  MUSTER_CHECK(is_new, "request {} arrived while it waits already", request.id.value);
  queue_.push_back({request, next_ticket_++});
  std::push_heap(queue_.begin(), queue_.end(), served_after);
}

void Fleet::on_finished(Instant now, RequestId request, ReplicaId replica, Actions& out) {
  advance(now);
  const Assignment* found = assignments_.find(request);
  MUSTER_CHECK(found != nullptr && found->replica == replica, "request {} is not held by replica {}", request.value,
               replica.value);
  Replica& r = replicas_[replica.value];
  r.work -= found->work;
  --r.assigned;
  assignments_.erase(request);
  refresh(replica);
  drain(out);
}

void Fleet::refresh(ReplicaId replica) {
  Replica& r = replicas_[replica.value];
  if (!is_sampled()) {
    r.seen_assigned = r.assigned;
    r.seen_work = r.work;
  } else if (!r.is_stale) {
    r.is_stale = true;
    stale_.push_back(replica);
  }
  list(replica);
}

std::int64_t Fleet::load(const Replica& replica) const {
  switch (settings_.routing) {
    case Routing::kLeastRequests:
      return replica.seen_assigned;
    case Routing::kLeastWork:
    case Routing::kPowerOfTwo:
      return replica.seen_work.count();
    case Routing::kRoundRobin:
    case Routing::kRandom:
      break;
  }
  return 0;
}

void Fleet::list(ReplicaId replica) {
  const Replica& r = replicas_[replica.value];
  const bool open = r.ready && r.assigned < room();
  const bool is_ordered = settings_.routing == Routing::kLeastRequests || settings_.routing == Routing::kLeastWork;
  const auto update = [&](Group& group) {
    group.open.set(replica.value, open);
    if (is_ordered) group.load.set(replica.value, open ? load(r) : MinTree::kNone);
    if (settings_.prefix_affinity) group.requests.set(replica.value, open ? r.seen_assigned : MinTree::kNone);
  };
  update(groups_[0]);
  if (prefers_zones()) update(groups_[r.zone.value + 1]);
}

ReplicaId Fleet::choose(const RequestInfo& request) {
  Group* group = &groups_[0];
  if (prefers_zones() && request.zone && request.zone->value + 1 < groups_.size() &&
      groups_[request.zone->value + 1].open.count() > 0)
    group = &groups_[request.zone->value + 1];
  std::optional<std::size_t> chosen;
  if (settings_.prefix_affinity) {
    prefixes_.set_prompt(request.prefix_blocks);
    chosen = choose_by_prefix(*group);
  }
  const ReplicaId replica(static_cast<std::uint32_t>(chosen ? *chosen : choose_in(*group)));
  if (settings_.prefix_affinity) prefixes_.note(replica);
  return replica;
}

std::optional<std::size_t> Fleet::choose_by_prefix(const Group& group) {
  if (prefixes_.longest(group.open) == 0) return std::nullopt;
  const IndexSet& holders = prefixes_.holders();
  const std::size_t least_loaded = group.requests.min_index();
  if (holders.contains(least_loaded)) return least_loaded;
  std::size_t best = holders.next(0), at = best;
  for (std::size_t i = 1; i < holders.count(); ++i) {
    at = holders.next(at + 1);
    if (replicas_[at].seen_assigned < replicas_[best].seen_assigned) best = at;
  }
  const std::uint32_t least = replicas_[least_loaded].seen_assigned, load = replicas_[best].seen_assigned;
  if (load > std::uint64_t{least} + settings_.imbalance_absolute && load > settings_.imbalance_ratio * least)
    return std::nullopt;
  return best;
}

std::size_t Fleet::choose_in(Group& group) {
  switch (settings_.routing) {
    case Routing::kLeastRequests:
    case Routing::kLeastWork:
      return group.load.min_index();
    case Routing::kRandom:
      return group.open.nth(random_rng_.below(group.open.count()));
    case Routing::kRoundRobin: {
      const std::size_t chosen = group.open.next(group.cursor);
      group.cursor = chosen + 1;
      return chosen;
    }
    case Routing::kPowerOfTwo:
      break;
  }
  const std::size_t n = group.open.count();
  if (n == 1) return group.open.next(0);
  // Two different ones, each pair equally likely (Mitzenmacher 2001: the longest queue falls from log n to log log n).
  const std::size_t first = two_choice_rng_.below(n);
  const std::size_t other = two_choice_rng_.below(n - 1);
  const std::size_t a = group.open.nth(first);
  const std::size_t b = group.open.nth(other >= first ? other + 1 : other);
  const std::int64_t load_a = load(replicas_[a]), load_b = load(replicas_[b]);
  if (load_a != load_b) return load_a < load_b ? a : b;
  return std::min(a, b);
}

void Fleet::dispatch(const RequestInfo& request, Actions& out) {
  const ReplicaId replica = choose(request);
  const bool is_new = assignments_.insert(request.id, {replica, request.work});
  MUSTER_CHECK(is_new, "request {} arrived while a replica still holds it", request.id.value);
  Replica& r = replicas_[replica.value];
  ++r.assigned;
  r.work += request.work;
  refresh(replica);
  out.push_back({.kind = Action::Kind::kDispatch, .request = request.id, .replica = replica, .reason = {}});
}

void Fleet::drain(Actions& out) {
  while (waiting_.size() > 0 && groups_[0].open.count() > 0) {
    std::pop_heap(queue_.begin(), queue_.end(), served_after);
    const Place place = queue_.back();
    queue_.pop_back();
    if (is_void(place)) continue;
    waiting_.erase(place.request.id);
    dispatch(place.request, out);
  }
  if (waiting_.size() == 0) queue_.clear();  // only void places are left
}

bool Fleet::on_cancelled(Instant now, RequestId request, Actions&) {
  advance(now);
  if (!waiting_.erase(request)) return false;
  // Its place stays as a void one. Half of them void: each of the cancellations since pays for two of these steps.
  if (queue_.size() > 2 * waiting_.size() + 64) {
    std::erase_if(queue_, [&](const Place& place) { return is_void(place); });
    std::make_heap(queue_.begin(), queue_.end(), served_after);
  }
  return true;
}

std::optional<Instant> Fleet::wakeup() const {
  return std::nullopt;
}
std::uint64_t Fleet::queued() const {
  return waiting_.size();
}

void Fleet::check() const {
  std::vector<std::uint32_t> assigned(replicas_.size());
  std::vector<Duration> work(replicas_.size(), Duration(0));
  assignments_.for_each_key([&](RequestId, const Assignment& a) {
    ++assigned[a.replica.value];
    work[a.replica.value] += a.work;
  });
  std::size_t open = 0, stale = 0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& r = replicas_[i];
    MUSTER_CHECK(r.assigned == assigned[i] && r.work == work[i], "replica {}: {} requests counted, {} held", i,
                 r.assigned, assigned[i]);
    MUSTER_CHECK(r.assigned <= room() && (r.ready || r.draining || r.assigned == 0),
                 "replica {}: {} requests, room for {}, ready {}", i, r.assigned, room(), r.ready);
    const bool is_open = r.ready && r.assigned < room();
    open += is_open ? 1 : 0;
    stale += r.is_stale ? 1 : 0;
    MUSTER_CHECK(!r.ready || r.is_stale || (r.seen_assigned == r.assigned && r.seen_work == r.work),
                 "replica {}: {} requests, {} seen, not known to be stale", i, r.assigned, r.seen_assigned);
    MUSTER_CHECK(groups_[0].open.contains(i) == is_open, "replica {}: open {}, listed otherwise", i, is_open);
  }
  MUSTER_CHECK(groups_[0].open.count() == open, "{} open replicas, {} listed", open, groups_[0].open.count());
  MUSTER_CHECK(waiting_.size() == 0 || open == 0, "{} requests wait while {} replicas have room", waiting_.size(),
               open);
  MUSTER_CHECK(stale_.size() == stale && (is_sampled() || stale == 0), "{} stale replicas, {} listed", stale,
               stale_.size());
  if (settings_.prefix_affinity) prefixes_.check();
  check_queue();
}

void Fleet::check_queue() const {
  MUSTER_CHECK(std::is_heap(queue_.begin(), queue_.end(), served_after), "the queue of {} is out of order",
               queue_.size());
  std::size_t valid = 0;
  for (const Place& place : queue_) {
    if (is_void(place)) continue;
    ++valid;
    MUSTER_CHECK(assignments_.find(place.request.id) == nullptr, "request {} both waits and runs",
                 place.request.id.value);
  }
  MUSTER_CHECK(valid == waiting_.size(), "{} requests wait, {} have a place", waiting_.size(), valid);
}

}  // namespace muster::policy
