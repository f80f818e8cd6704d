#include "muster/policy/fleet.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::policy {
namespace {

// For std::push_heap, whose front is the largest: `a` is served after `b`.
bool served_after(const RequestInfo& a, const RequestInfo& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.id > b.id;
}

}  // namespace

std::optional<Routing> parse_routing(std::string_view text) {
  for (const Routing routing : {Routing::kRoundRobin, Routing::kLeastWork, Routing::kPowerOfTwo})
    if (text == name(routing)) return routing;
  return std::nullopt;
}

std::string_view name(Routing routing) {
  switch (routing) {
    case Routing::kRoundRobin:
      return "round-robin";
    case Routing::kLeastWork:
      return "least-work";
    case Routing::kPowerOfTwo:
      return "power-of-two";
  }
  return "?";
}

Fleet::Fleet(const FleetSettings& settings)
    : settings_(settings), rng_(Rng::stream(settings.seed, 0, "two-choice router")), groups_(1) {
  MUSTER_CHECK(settings.running_max >= 1, "running_max must be at least 1, got {}", settings.running_max);
}

void Fleet::advance(Instant now) {
  MUSTER_CHECK(now >= last_now_, "time went back from {} to {} ns", last_now_.time_since_epoch().count(),
               now.time_since_epoch().count());
  last_now_ = now;
}

void Fleet::on_replica_ready(Instant now, ReplicaId replica, ZoneId zone, Actions& out) {
  advance(now);
  if (replica.value >= replicas_.size()) replicas_.resize(replica.value + 1);
  if (prefers_zones() && zone.value + 1 >= groups_.size()) groups_.resize(zone.value + 2);
  for (Group& group : groups_) {
    group.open.resize(replicas_.size());
    group.work.resize(replicas_.size());
  }
  Replica& r = replicas_[replica.value];
  MUSTER_CHECK(!r.ready, "replica {} is ready already", replica.value);
  r = {.zone = zone, .ready = true};
  refresh(replica);
  drain(out);
}

void Fleet::on_replica_lost(Instant now, ReplicaId replica, Actions&) {
  advance(now);
  MUSTER_CHECK(replica.value < replicas_.size() && replicas_[replica.value].ready, "replica {} is not ready",
               replica.value);
  Replica& r = replicas_[replica.value];
  r.ready = false;
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
}

void Fleet::on_arrival(Instant now, const RequestInfo& request, bool again, Actions& out) {
  advance(now);
  if (groups_[0].open.count() > 0) {
    dispatch(request, out);
    return;
  }
  if (!again && queue_.size() >= settings_.queue_max) {
    out.push_back({.kind = Action::Kind::kRefuse, .request = request.id, .replica = {}, .reason = "the queue is full"});
    return;
  }
  queue_.push_back(request);
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
  const Replica& r = replicas_[replica.value];
  const bool open = r.ready && r.assigned < room();
  const auto update = [&](Group& group) {
    group.open.set(replica.value, open);
    if (settings_.routing == Routing::kLeastWork) group.work.set(replica.value, open ? r.work.count() : MinTree::kNone);
  };
  update(groups_[0]);
  if (prefers_zones()) update(groups_[r.zone.value + 1]);
}

ReplicaId Fleet::choose(const RequestInfo& request) {
  Group* group = &groups_[0];
  if (prefers_zones() && request.zone && request.zone->value + 1 < groups_.size() &&
      groups_[request.zone->value + 1].open.count() > 0)
    group = &groups_[request.zone->value + 1];
  return ReplicaId(static_cast<std::uint32_t>(choose_in(*group)));
}

std::size_t Fleet::choose_in(Group& group) {
  switch (settings_.routing) {
    case Routing::kLeastWork:
      return group.work.min_index();
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
  const std::size_t first = rng_.below(n);
  const std::size_t other = rng_.below(n - 1);
  const std::size_t a = group.open.nth(first);
  const std::size_t b = group.open.nth(other >= first ? other + 1 : other);
  const Duration work_a = replicas_[a].work, work_b = replicas_[b].work;
  if (work_a != work_b) return work_a < work_b ? a : b;
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
  while (!queue_.empty() && groups_[0].open.count() > 0) {
    std::pop_heap(queue_.begin(), queue_.end(), served_after);
    const RequestInfo request = queue_.back();
    queue_.pop_back();
    dispatch(request, out);
  }
}

bool Fleet::on_cancelled(Instant now, RequestId id, Actions&) {
  advance(now);
  auto f = std::ranges::find(queue_, id, &RequestInfo::id);
  if (f == queue_.end()) return false;
  queue_.erase(f);
  std::make_heap(queue_.begin(), queue_.end(), served_after);
  return true;
}

std::optional<Instant> Fleet::wakeup() const {
  return std::nullopt;
}
std::uint64_t Fleet::queued() const {
  return queue_.size();
}

void Fleet::check() const {
  std::vector<std::uint32_t> assigned(replicas_.size());
  std::vector<Duration> work(replicas_.size(), Duration(0));
  assignments_.for_each_key([&](RequestId, const Assignment& a) {
    ++assigned[a.replica.value];
    work[a.replica.value] += a.work;
  });
  std::size_t open = 0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& r = replicas_[i];
    MUSTER_CHECK(r.assigned == assigned[i] && r.work == work[i], "replica {}: {} requests counted, {} held", i,
                 r.assigned, assigned[i]);
    MUSTER_CHECK(r.assigned <= room() && (r.ready || r.assigned == 0), "replica {}: {} requests, room for {}, ready {}",
                 i, r.assigned, room(), r.ready);
    const bool is_open = r.ready && r.assigned < room();
    open += is_open ? 1 : 0;
    MUSTER_CHECK(groups_[0].open.contains(i) == is_open, "replica {}: open {}, listed otherwise", i, is_open);
  }
  MUSTER_CHECK(groups_[0].open.count() == open, "{} open replicas, {} listed", open, groups_[0].open.count());
  MUSTER_CHECK(queue_.empty() || open == 0, "{} requests wait while {} replicas have room", queue_.size(), open);
  MUSTER_CHECK(std::is_heap(queue_.begin(), queue_.end(), served_after), "the queue of {} is out of order",
               queue_.size());
  for (const RequestInfo& r : queue_)
    MUSTER_CHECK(assignments_.find(r.id) == nullptr, "request {} both waits and runs", r.id.value);
}

}  // namespace muster::policy
