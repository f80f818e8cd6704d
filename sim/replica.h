// One simulated replica: its scheduler runs for real, the step clock stands in for the devices.
//
// Pipeline stages are separate resources that steps pass in order, first in first out. A step enters stage 0 when that
// is free and fewer steps than stages are in flight, goes on to the next stage as soon as both it and that stage are
// ready, and is done at the end of the last one. As nothing overtakes, the whole way of a step is known when it enters.
//
// Jumps: when the scheduler says that the next n steps decode the same sequences, they become one event at the end of
// the last. Nothing is committed before its time: settle() brings the scheduler to any instant on the way, exactly as
// stepping would.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ledger.h"
#include "muster/sched/scheduler.h"
#include "step_clock.h"

namespace muster::sim {

class Replica {
 public:
  // All references must outlive the replica. `step_by_step`: never jumps.
  Replica(std::uint32_t index, sched::SchedulerKind kind, const sched::SchedulerLimits& limits, StepClock& clock,
          Ledger& ledger, bool step_by_step, Observer* observer);

  // False: it can never run here.
  bool add(Instant now, const sched::NewSequence& sequence);

  // It is gone at once, and what it has in a step under way comes to nothing. Requires that it is here.
  void abort(Instant now, RequestId id);

  // When something happens here next: a step is done or stage 0 is free for another; Instant::max(): nothing by itself.
  Instant next_event() const;
  // Ends the steps that are done at `now`; appends the requests that this completes.
  void finish_due(Instant now, std::vector<RequestId>& finished);
  // Lets the next step in, if there is one and stage 0 is free. To be called after all else that happens at `now`.
  void start(Instant now);
  // Commits what a jump has done by `now`.
  void settle(Instant now);
  // Everything on it is gone.
  void lose();

  sched::SchedulerState state() const { return scheduler_->state(); }
  std::uint64_t steps() const { return steps_; }
  // Prompt tokens looked for, and found, in its prefix cache.
  struct PrefixTokens {
    std::int64_t queried = 0, hit = 0;
  };
  PrefixTokens prefix() const;
  // Up to the end of the last step that is done.
  Duration occupied() const { return occupied_; }                       // with a step in flight
  std::span<const Duration> stage_busy() const { return stage_busy_; }  // [stages]
  void check() const { scheduler_->check(); }

 private:
  struct Flight {
    sched::StepPlan plan;
    Instant begin;                   // enters stage 0
    Instant done;                    // leaves the last stage; of a jump: of its last step
    std::int64_t steps = 1;          // more than 1: a jump, and the only flight
    std::vector<StageSpan> stages;   // [stages] of the first step
    std::vector<RequestId> aborted;  // requests that left while it was under way
  };
  Flight& oldest() { return flights_[first_]; }
  void enter(Instant now, Flight& flight);
  void account_start(Instant now, const sched::StepPlan& plan);
  void account_end(Instant now, const Flight& flight, std::int64_t steps);
  void account_time(Instant now, const Flight& flight, std::int64_t steps);
  // A jump becomes a single step: the one that is under way (requires settle() before).
  void stop_jump();

  std::uint32_t index_;
  sched::SchedulerKind kind_;
  sched::SchedulerLimits limits_;
  StepClock& clock_;
  Ledger& ledger_;
  bool step_by_step_;
  Observer* observer_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  std::vector<Flight> flights_;  // [stages] a ring; steps end in the order in which they began
  std::size_t first_ = 0, in_flight_ = 0;
  std::vector<Instant> stage_free_;    // [stages] when each has passed on its last step
  std::vector<Duration> stage_times_;  // [stages] of the step that enters
  bool may_start_ = false;             // the scheduler may have a step to give once stage 0 is free
  std::uint64_t steps_ = 0;
  PrefixTokens prefix_;  // of the schedulers before it was lost
  Duration occupied_{0};
  Instant occupied_until_ = Instant::min();  // accounted for
  std::vector<Duration> stage_busy_;         // [stages]
};

}  // namespace muster::sim
