// A rolling deploy: replaces a pool's replicas of the old revision by the new one, and goes back where that is better.
//
// Bounds as in Kubernetes' rolling update (kubernetes.io/docs/concepts/workloads/controllers/deployment, maxSurge and
// maxUnavailable), with two differences that matter on GPUs: a replica that drains or stops still holds its GPUs, so it
// counts against the surge; one that just started has a cold prefix cache, so it counts as available only after its
// warm-up.
//
// Sans-IO: owns no clock, thread or socket. Each call carries the instant, which never decreases; each decision leaves
// as an action. The driver carries actions out in order and calls on_timer() at wakeup(). Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/core/result.h"
#include "muster/core/time.h"
#include "muster/core/units.h"

namespace muster::policy {

struct RolloutSettings {
  std::uint32_t replicas = 1;         // that the pool should have; at least 1
  std::uint32_t max_surge = 1;        // replicas beyond those, in any state
  std::uint32_t max_unavailable = 0;  // available replicas that may be missing; not 0 together with max_surge
  Duration drain_limit = 300s;        // then a draining replica is stopped with what it still runs
  Duration warm_up = 30s;             // from ready to available: the prefix cache is cold
  Duration start_limit = 900s;        // a replica not ready by then has failed to start
  // Failed starts of the new revision in a row (a replica lost before it was available is one) that roll back. After
  // each, the next start waits: `retry_first`, doubled up to `retry_most` (the figures of CrashLoopBackOff).
  std::uint32_t failed_starts_max = 3;
  Duration retry_first = 10s;
  Duration retry_most = 300s;
  Duration resume_after = 30s;      // the SLO is met for so long again: go on
  Duration roll_back_after = 120s;  // the SLO is missed for so long, and was not before the new revision served
};
Result<void> check(const RolloutSettings& settings);

// For sizing: the least replicas available during an undisturbed roll, and about how long it lasts when a start takes
// `start` and a drain `drain`: waves of surge + unavailable replicas, one after the other.
std::uint32_t least_available(const RolloutSettings& settings);
Duration expected_duration(const RolloutSettings& settings, Duration start, Duration drain);

enum class Revision : std::uint8_t { kOld, kNew };
enum class Slo : std::uint8_t { kMet, kMissed, kNoData };

struct RolloutAction {
  enum class Kind : std::uint8_t {
    kStart,  // a replica of `revision`, to be known as `replica`; answer: on_replica_ready or on_replica_gone
    kDrain,  // send it nothing more; answer: on_replica_drained when nothing runs on it
    kServe,  // it drained: send it requests again
    kStop,   // end it; what it still runs is resumed elsewhere by the driver; answer: on_replica_gone
    // For the journal and the driver's own state; nothing is to be done to a replica:
    kHold,
    kGoOn,
    kRollBack,
    kDone,        // N replicas of the new revision and no other: the last action
    kRolledBack,  // N replicas of the old revision and no other: the last action
  };
  Kind kind = Kind::kStart;
  ReplicaId replica = {};
  Revision revision = Revision::kOld;
  std::string_view reason = {};  // static storage
};
std::string_view name(RolloutAction::Kind kind);
using RolloutActions = std::vector<RolloutAction>;

// Keeps these promises, whatever the calls:
//  - it starts no replica when replicas + max_surge are held already, whatever state they are in;
//  - it takes no available replica away that would leave fewer than replicas - max_unavailable: only losses do;
//  - it stops no serving replica that it has not drained, nor a draining one before it is drained or its time is over.
// While held or paused it advances nothing, but makes up for lost replicas with the old revision, which is known good.
class Rollout {
 public:
  // `serving`: the replicas of the old revision, warm. Panics on settings that check() refuses.
  Rollout(const RolloutSettings& settings, std::span<const ReplicaId> serving);

  void begin(Instant now, RolloutActions& out);
  void on_replica_ready(Instant now, ReplicaId replica, RolloutActions& out);
  void on_replica_drained(Instant now, ReplicaId replica, RolloutActions& out);  // no-op if it no longer drains
  // It was stopped, failed to start, or was lost. No-op for one that is not held.
  void on_replica_gone(Instant now, ReplicaId replica, RolloutActions& out);
  // The guard's verdict, as often as it is known. Whatever is not kMet holds the roll at once: no data is no proof. A
  // driver without a guard never calls it. A roll back is not held by it.
  void on_slo(Instant now, Slo slo, RolloutActions& out);
  void on_timer(Instant now, RolloutActions& out) { step(now, out); }
  std::optional<Instant> wakeup() const { return wakeup_; }

  // The operator's. A paused roll is not rolled back by itself.
  void pause(Instant now, RolloutActions& out);
  void resume(Instant now, RolloutActions& out);
  void roll_back(Instant now, RolloutActions& out);
  void resize(Instant now, std::uint32_t replicas, RolloutActions& out);  // the autoscaler's decision; at least 1

  enum class Phase : std::uint8_t { kRolling, kRollingBack, kDone, kRolledBack };
  Phase phase() const { return phase_; }
  bool is_finished() const { return phase_ == Phase::kDone || phase_ == Phase::kRolledBack; }
  bool is_held() const { return is_paused_ || is_held_; }
  std::uint32_t held_replicas() const { return static_cast<std::uint32_t>(replicas_.size()); }  // in any state
  std::uint32_t available(Instant now) const;

 private:
  enum class State : std::uint8_t { kStarting, kReady, kDraining, kStopping };
  struct Replica {
    ReplicaId id;
    Revision revision = Revision::kOld;
    State state = State::kStarting;
    Instant since = {};         // of the state
    Instant available_at = {};  // once ready
    bool is_proven = false;     // was available once
    bool is_live() const { return state == State::kStarting || state == State::kReady; }
  };

  void step(Instant now, RolloutActions& out);
  void expire(Instant now, RolloutActions& out);
  void prove(Instant now);
  void judge(Instant now, RolloutActions& out);
  void go_back(Instant now, std::string_view reason, RolloutActions& out);
  void take_away(Instant now, RolloutActions& out);
  void start(Instant now, RolloutActions& out);
  void finish(Instant now, RolloutActions& out);
  void arm(Instant now);

  Revision target() const { return phase_ == Phase::kRolling ? Revision::kNew : Revision::kOld; }
  std::uint32_t live(std::optional<Revision> revision) const;
  Replica* victim(Instant now);
  Replica* find(ReplicaId id);
  void stop(Instant now, Replica& replica, std::string_view reason, RolloutActions& out);
  void note_failure(Instant now, Revision revision);
  bool may_be_blamed() const;
  Instant& retry_at(Revision revision) { return retry_at_[static_cast<std::size_t>(revision)]; }

  RolloutSettings settings_;
  std::vector<Replica> replicas_;  // by id
  Phase phase_ = Phase::kRolling;
  bool has_begun_ = false;
  bool is_paused_ = false;  // by the operator
  bool is_held_ = false;    // by the guard
  std::optional<Slo> slo_;
  Instant slo_since_;
  std::optional<Instant> new_serves_since_;
  std::array<std::uint32_t, 2> failures_ = {};  // in a row, by revision
  std::array<Instant, 2> retry_at_ = {};        // by revision
  std::optional<Instant> wakeup_;
  Instant last_now_;
};

}  // namespace muster::policy
