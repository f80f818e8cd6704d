// The book of requests: what happened to each, and the figures that come out of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/digest.h"
#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/sim/simulation.h"

namespace muster::sim {

class Ledger {
 public:
  // kAway: refused or given up, and its client will try again.
  enum class Stage : std::uint8_t { kToCome, kInFleetQueue, kOnReplica, kCompleted, kRejected, kTimedOut, kAway };

  // Keeps a reference to the scenario and its trace.
  // `own_arrivals`: requests come when arrive() says, not when the trace does.
  Ledger(const Scenario& scenario, bool own_arrivals);

  const workload::Request& request(RequestId id) const { return scenario_.trace->requests[id.value]; }
  std::uint32_t class_of(RequestId id) const;
  Instant arrival(RequestId id) const {
    return own_arrivals_.empty() ? Instant(request(id).arrival) : own_arrivals_[id.value];
  }
  std::int32_t emitted(RequestId id) const { return entries_[id.value].emitted; }
  Stage stage(RequestId id) const { return entries_[id.value].stage; }
  std::uint32_t replica(RequestId id) const { return entries_[id.value].replica; }
  std::uint32_t attempt(RequestId id) const { return entries_[id.value].attempt; }  // 0: the first
  Instant first_token(RequestId id) const { return entries_[id.value].first_token; }
  bool waits_for_its_start(RequestId id) const {
    const Entry& e = entries_[id.value];
    return e.first_scheduled == kNever && (e.stage == Stage::kInFleetQueue || e.stage == Stage::kOnReplica);
  }
  bool has_first_token(RequestId id) const { return entries_[id.value].first_token != kNever; }

  void arrive(RequestId id, Instant now);
  // It leaves, refused or given up, without an answer; what it has emitted is wasted.
  void withdraw(RequestId id);
  // ... and comes again.
  void arrive_again(RequestId id);
  // ... for good.
  void fail(RequestId id, Instant now, Stage rejected_or_timed_out);
  void dispatch(RequestId id, std::uint32_t replica);
  // Back to the fleet's queue: its replica is lost.
  void requeue(RequestId id);
  // To another pool's queue, with its KV cache.
  void hand_over(RequestId id);
  void preempted(RequestId id) {
    ++entries_[id.value].preemptions;
    ++preemptions_;
  }

  // `computed_before`: tokens of its prompt whose KV was there already.
  void scheduled(RequestId id, Instant now, std::int64_t computed_before) {
    Entry& e = entries_[id.value];
    if (e.first_scheduled != kNever) return;
    e.first_scheduled = now;
    e.cached_tokens = static_cast<std::int32_t>(computed_before);
    if (keep_starts_) starts_.push_back({id, e.replica, now});
    --not_started_;
  }
  void emit(RequestId id, std::int64_t tokens) { entries_[id.value].emitted += static_cast<std::int32_t>(tokens); }
  void emit_after_prefill(RequestId id, Instant now) {
    Entry& e = entries_[id.value];
    ++e.emitted;
    if (e.first_token == kNever) e.first_token = now;  // a resumed request had its first token before
  }
  void complete(RequestId id, Instant now);

  // First starts since the last call, when somebody wants to know.
  struct Start {
    RequestId id;
    std::uint32_t replica = 0;
    Instant at;
  };
  void keep_starts() { keep_starts_ = true; }
  std::vector<Start> take_starts() { return std::exchange(starts_, {}); }

  // Those that the replica holds, in the order of their ids.
  std::vector<RequestId> held_by(std::uint32_t replica) const;

  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t answered() const { return completed_ + rejected_ + timed_out_; }
  std::uint64_t not_started() const { return not_started_; }
  std::uint64_t in_fleet_queue() const { return in_fleet_queue_; }
  std::uint64_t on_replicas() const { return on_replicas_; }
  Instant last_completion() const { return last_completion_; }
  void check() const;

  // The requests' part of the outcome.
  void close(Outcome& outcome) const;
  void add_to(Digest& digest) const;
  double mean_output_tokens_seen(double prior) const;

 private:
  static constexpr Instant kNever = Instant::max();
  // 40 bytes: ten million requests must fit.
  struct Entry {
    Instant first_scheduled = kNever, first_token = kNever, last_token = kNever;
    std::int32_t emitted = 0;        // tokens
    std::uint32_t replica = 0;       // the last one it was dispatched to
    std::int32_t cached_tokens = 0;  // of the prompt when it first ran
    std::uint16_t preemptions = 0;
    std::uint8_t attempt = 0;
    Stage stage = Stage::kToCome;
  };
  bool counts(RequestId id) const {
    return id.value >= scenario_.warm_up_requests && arrival(id) >= Instant(scenario_.warm_up);
  }
  RequestRecord record(RequestId id) const;
  void account_presence(Instant now);
  void leave_system(RequestId id, Instant now);
  void check_littles_law() const;
  static RequestRecord::End end_of(Stage stage);

  const Scenario& scenario_;
  std::vector<Entry> entries_;         // [requests of the trace]
  std::vector<Instant> own_arrivals_;  // [requests]; empty: those of the trace
  std::vector<ClassOutcome> classes_;
  bool keep_starts_ = false;
  std::vector<Start> starts_;
  std::uint64_t arrived_ = 0, completed_ = 0, rejected_ = 0, timed_out_ = 0, preemptions_ = 0;
  std::uint64_t away_ = 0, retries_ = 0, wasted_output_tokens_ = 0;
  std::uint64_t not_started_ = 0;  // arrived, not rejected, not yet scheduled for the first time
  std::uint64_t in_fleet_queue_ = 0, on_replicas_ = 0;
  std::uint64_t input_tokens_ = 0, output_tokens_ = 0;  // of completed requests
  Instant last_completion_{};
  // Little's law, checked at the end of every run: the integral over time of the number in the system is the sum of
  // all stays. In ns, modulo 2^64: what matters is that both are equal.
  Instant presence_until_{};
  std::uint64_t in_system_ = 0, presence_ns_ = 0, stays_ns_ = 0;
};

}  // namespace muster::sim
