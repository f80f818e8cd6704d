#include "muster/policy/rollout.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::policy {

Result<void> check(const RolloutSettings& s) {
  if (s.replicas == 0) return fail("rolling deploy: replicas 0, needed at least 1");
  if (s.max_surge == 0 && s.max_unavailable == 0) {
    return fail("rolling deploy: max_surge and max_unavailable are both 0, one of them must be positive");
  }
  if (s.failed_starts_max == 0) return fail("rolling deploy: failed_starts_max 0, needed at least 1");
  if (s.drain_limit < 0s || s.warm_up < 0s || s.start_limit <= 0s || s.retry_first <= 0s ||
      s.retry_most < s.retry_first || s.resume_after < 0s || s.roll_back_after < 0s) {
    return fail("rolling deploy: a negative time, a start limit of 0, or retries beyond their range");
  }
  return {};
}

std::uint32_t least_available(const RolloutSettings& settings) {
  return settings.replicas - std::min(settings.replicas, settings.max_unavailable);
}

Duration expected_duration(const RolloutSettings& settings, Duration start, Duration drain) {
  const std::uint32_t wave = settings.max_surge + settings.max_unavailable;
  const std::uint32_t waves = (settings.replicas + wave - 1) / wave;
  return waves * (start + settings.warm_up + std::min(drain, settings.drain_limit));
}

std::string_view name(RolloutAction::Kind kind) {
  switch (kind) {
    case RolloutAction::Kind::kStart:
      return "start";
    case RolloutAction::Kind::kDrain:
      return "drain";
    case RolloutAction::Kind::kServe:
      return "serve";
    case RolloutAction::Kind::kStop:
      return "stop";
    case RolloutAction::Kind::kHold:
      return "hold";
    case RolloutAction::Kind::kGoOn:
      return "go on";
    case RolloutAction::Kind::kRollBack:
      return "roll back";
    case RolloutAction::Kind::kDone:
      return "done";
    case RolloutAction::Kind::kRolledBack:
      return "rolled back";
  }
  return "?";
}

Rollout::Rollout(const RolloutSettings& settings, std::span<const ReplicaId> serving) : settings_(settings) {
  const Result<void> is_valid = check(settings);
  MUSTER_CHECK(is_valid.has_value(), "{}", is_valid.error().message);
  for (const ReplicaId id : serving) replicas_.push_back({.id = id, .state = State::kReady, .is_proven = true});
  std::ranges::sort(replicas_, {}, [](const Replica& r) { return r.id.value; });
  const auto twin = std::ranges::adjacent_find(replicas_, {}, [](const Replica& r) { return r.id.value; });
  MUSTER_CHECK(twin == replicas_.end(), "replica {} is listed twice", twin->id.value);
}

Rollout::Replica* Rollout::find(ReplicaId id) {
  const auto found = std::ranges::lower_bound(replicas_, id.value, {}, [](const Replica& r) { return r.id.value; });
  return found != replicas_.end() && found->id.value == id.value ? &*found : nullptr;
}

std::uint32_t Rollout::available(Instant now) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      replicas_, [&](const Replica& r) { return r.state == State::kReady && r.available_at <= now; }));
}

std::uint32_t Rollout::live(std::optional<Revision> revision) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      replicas_, [&](const Replica& r) { return r.is_live() && (!revision || r.revision == *revision); }));
}

void Rollout::begin(Instant now, RolloutActions& out) {
  MUSTER_CHECK(!has_begun_, "a rollout begins once");
  has_begun_ = true;
  last_now_ = now;
  for (Replica& replica : replicas_) replica.since = replica.available_at = now;
  step(now, out);
}

void Rollout::on_replica_ready(Instant now, ReplicaId id, RolloutActions& out) {
  Replica* replica = find(id);
  if (replica != nullptr && replica->state == State::kStarting) {
    replica->state = State::kReady;
    replica->since = now;
    replica->available_at = now + settings_.warm_up;
  }  // else: it was told to stop while its answer was on the way
  step(now, out);
}

void Rollout::on_replica_drained(Instant now, ReplicaId id, RolloutActions& out) {
  Replica* replica = find(id);
  if (replica != nullptr && replica->state == State::kDraining) stop(now, *replica, "drained", out);
  step(now, out);
}

void Rollout::on_replica_gone(Instant now, ReplicaId id, RolloutActions& out) {
  if (const Replica* replica = find(id)) {
    if (replica->is_live() && !replica->is_proven) note_failure(now, replica->revision);
    replicas_.erase(replicas_.begin() + (replica - replicas_.data()));
  }
  step(now, out);
}

void Rollout::on_slo(Instant now, Slo slo, RolloutActions& out) {
  if (slo_ != slo) {
    slo_ = slo;
    slo_since_ = now;
  }
  step(now, out);
}

void Rollout::pause(Instant now, RolloutActions& out) {
  if (!is_paused_ && !is_finished()) out.push_back({.kind = RolloutAction::Kind::kHold, .reason = "paused"});
  is_paused_ = true;
  step(now, out);
}

void Rollout::resume(Instant now, RolloutActions& out) {
  if (is_paused_ && !is_finished()) out.push_back({.kind = RolloutAction::Kind::kGoOn, .reason = "resumed"});
  is_paused_ = false;
  step(now, out);
}

void Rollout::roll_back(Instant now, RolloutActions& out) {
  is_paused_ = false;
  if (phase_ == Phase::kRolling) go_back(now, "asked for", out);
  step(now, out);
}

void Rollout::resize(Instant now, std::uint32_t replicas, RolloutActions& out) {
  MUSTER_CHECK(replicas >= 1, "a rollout to no replicas");
  settings_.replicas = replicas;
  step(now, out);
}

void Rollout::step(Instant now, RolloutActions& out) {
  MUSTER_CHECK(has_begun_ && now >= last_now_, "not begun, or time went back");
  last_now_ = now;
  if (is_finished()) return;
  expire(now, out);
  prove(now);
  judge(now, out);
  if (!is_held()) take_away(now, out);
  start(now, out);
  finish(now, out);
  arm(now);
}

void Rollout::stop(Instant now, Replica& replica, std::string_view reason, RolloutActions& out) {
  replica.state = State::kStopping;
  replica.since = now;
  out.push_back({RolloutAction::Kind::kStop, replica.id, replica.revision, reason});
}

void Rollout::note_failure(Instant now, Revision revision) {
  std::uint32_t& failures = failures_[static_cast<std::size_t>(revision)];
  Duration wait = settings_.retry_first;
  for (std::uint32_t i = 0; i < failures && wait < settings_.retry_most; ++i) wait *= 2;
  retry_at(revision) = now + std::min(wait, settings_.retry_most);
  ++failures;
}

void Rollout::expire(Instant now, RolloutActions& out) {
  for (Replica& replica : replicas_) {
    const Duration age = now - replica.since;
    if (replica.state == State::kDraining && age >= settings_.drain_limit) {
      stop(now, replica, "drain time is over", out);
    } else if (replica.state == State::kStarting && age >= settings_.start_limit) {
      note_failure(now, replica.revision);
      stop(now, replica, "not ready within the start limit", out);
    }
  }
}

void Rollout::prove(Instant now) {
  bool does_new_serve = false;
  for (Replica& replica : replicas_) {
    if (replica.state != State::kReady) continue;
    does_new_serve = does_new_serve || replica.revision == Revision::kNew;
    if (replica.is_proven || replica.available_at > now) continue;
    replica.is_proven = true;
    failures_[static_cast<std::size_t>(replica.revision)] = 0;
  }
  if (!does_new_serve) new_serves_since_.reset();
  if (does_new_serve && !new_serves_since_) new_serves_since_ = now;
}

// A miss that began before the new revision served is not its doing.
bool Rollout::may_be_blamed() const {
  return slo_ == Slo::kMissed && new_serves_since_ && slo_since_ >= *new_serves_since_;
}

void Rollout::judge(Instant now, RolloutActions& out) {
  if (phase_ != Phase::kRolling) return;
  if (slo_ && *slo_ != Slo::kMet && !is_held_) {
    is_held_ = true;
    out.push_back({.kind = RolloutAction::Kind::kHold,
                   .reason = *slo_ == Slo::kMissed ? "the SLO is missed" : "no data about the SLO"});
  }
  if (is_held_ && slo_ == Slo::kMet && now - slo_since_ >= settings_.resume_after) {
    is_held_ = false;
    out.push_back({.kind = RolloutAction::Kind::kGoOn, .reason = "the SLO is met again"});
  }
  if (is_paused_) return;
  if (failures_[static_cast<std::size_t>(Revision::kNew)] >= settings_.failed_starts_max) {
    go_back(now, "the new revision does not start", out);
  } else if (may_be_blamed() && now - slo_since_ >= settings_.roll_back_after) {
    go_back(now, "the SLO is missed since the new revision serves", out);
  }
}

void Rollout::go_back(Instant now, std::string_view reason, RolloutActions& out) {
  phase_ = Phase::kRollingBack;
  is_held_ = false;
  out.push_back({.kind = RolloutAction::Kind::kRollBack, .reason = reason});
  for (Replica& replica : replicas_) {  // the quickest capacity there is: warm, and still there
    if (replica.state != State::kDraining || replica.revision != Revision::kOld) continue;
    replica.state = State::kReady;
    replica.since = now;
    out.push_back({RolloutAction::Kind::kServe, replica.id, replica.revision, "needed again"});
  }
}

// The replica to lose next: of the other revision, else beyond the wanted number; one that is not available first.
Rollout::Replica* Rollout::victim(Instant now) {
  const bool is_surplus = live(target()) > settings_.replicas;
  const auto cost = [&](const Replica& r) {
    const bool is_available = r.state == State::kReady && r.available_at <= now;
    return 2 * static_cast<int>(r.revision == target()) + static_cast<int>(is_available);
  };
  Replica* best = nullptr;
  for (Replica& replica : replicas_) {
    if (!replica.is_live() || (replica.revision == target() && !is_surplus)) continue;
    if (best == nullptr || cost(replica) < cost(*best)) best = &replica;
  }
  return best;
}

void Rollout::take_away(Instant now, RolloutActions& out) {
  while (Replica* replica = victim(now)) {
    const std::string_view reason = replica->revision == target() ? "more than wanted" : "of the other revision";
    if (replica->state == State::kStarting) {
      stop(now, *replica, reason, out);
      continue;
    }
    if (replica->available_at <= now) {
      if (available(now) <= least_available(settings_)) return;
      if (retry_at(target()) > now) return;  // nothing could start in its place yet
    }
    replica->state = State::kDraining;
    replica->since = now;
    out.push_back({RolloutAction::Kind::kDrain, replica->id, replica->revision, reason});
  }
}

void Rollout::start(Instant now, RolloutActions& out) {
  const Revision revision = is_held() ? Revision::kOld : target();
  if (retry_at(revision) > now) return;
  const std::uint32_t held = held_replicas();
  const std::uint32_t have = is_held() ? live(std::nullopt) : live(revision);
  const std::uint32_t most = settings_.replicas + settings_.max_surge;
  if (have >= settings_.replicas || held >= most) return;
  for (std::uint32_t n = std::min(settings_.replicas - have, most - held); n > 0; --n) {
    std::uint32_t id = 0;  // the lowest that is free: ids stay dense
    auto at = replicas_.begin();
    for (; at != replicas_.end() && at->id.value == id; ++at) ++id;
    replicas_.insert(at, {.id = ReplicaId{id}, .revision = revision, .since = now});
    out.push_back({RolloutAction::Kind::kStart, ReplicaId{id}, revision,
                   is_held() ? "makes up for one that is missing" : "takes a place"});
  }
}

void Rollout::finish(Instant now, RolloutActions& out) {
  if (is_held() || held_replicas() != settings_.replicas || available(now) != settings_.replicas) return;
  if (live(target()) != settings_.replicas) return;
  const bool is_new = phase_ == Phase::kRolling;
  phase_ = is_new ? Phase::kDone : Phase::kRolledBack;
  out.push_back({.kind = is_new ? RolloutAction::Kind::kDone : RolloutAction::Kind::kRolledBack,
                 .revision = is_new ? Revision::kNew : Revision::kOld,
                 .reason = "all replicas are of this revision and available"});
}

void Rollout::arm(Instant now) {
  wakeup_.reset();
  if (is_finished()) return;
  const auto at = [&](Instant instant) {
    if (instant > now && (!wakeup_ || instant < *wakeup_)) wakeup_ = instant;
  };
  for (const Replica& replica : replicas_) {
    if (replica.state == State::kDraining) at(replica.since + settings_.drain_limit);
    if (replica.state == State::kStarting) at(replica.since + settings_.start_limit);
    if (replica.state == State::kReady) at(replica.available_at);
  }
  for (const Instant retry : retry_at_) at(retry);
  if (phase_ != Phase::kRolling) return;
  if (is_held_ && slo_ == Slo::kMet) at(slo_since_ + settings_.resume_after);
  if (may_be_blamed()) at(slo_since_ + settings_.roll_back_after);
}

}  // namespace muster::policy
