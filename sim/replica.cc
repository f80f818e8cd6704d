#include "replica.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sim {

Replica::Replica(std::uint32_t index, sched::SchedulerKind kind, const sched::SchedulerLimits& limits, StepClock& clock,
                 Ledger& ledger, bool step_by_step, Observer* observer)
    : index_(index),
      kind_(kind),
      limits_(limits),
      clock_(clock),
      ledger_(ledger),
      step_by_step_(step_by_step),
      observer_(observer),
      flights_(static_cast<std::size_t>(clock.stages())),
      stage_free_(flights_.size(), Instant::min()),
      stage_times_(flights_.size()),
      stage_busy_(flights_.size()) {
  for (Flight& flight : flights_) flight.stages.resize(flights_.size());
  limits_.steps_in_flight_max = clock.stages();
  scheduler_ = sched::make_scheduler(kind_, limits_);
}

bool Replica::add(Instant now, const sched::NewSequence& sequence) {
  settle(now);
  stop_jump();
  if (!scheduler_->add(now, sequence)) return false;
  may_start_ = true;
  return true;
}

void Replica::abort(Instant now, RequestId id) {
  settle(now);
  stop_jump();
  MUSTER_CHECK(scheduler_->abort(id), "request {} is not on replica {}", id.value, index_);
  for (std::size_t i = 0; i < in_flight_; ++i) flights_[(first_ + i) % flights_.size()].aborted.push_back(id);
  may_start_ = true;
}

Instant Replica::next_event() const {
  Instant next = Instant::max();
  if (in_flight_ > 0) next = flights_[first_].done;
  if (may_start_ && in_flight_ < flights_.size()) next = std::min(next, stage_free_[0]);
  return next;
}

void Replica::finish_due(Instant now, std::vector<RequestId>& finished) {
  while (in_flight_ > 0 && oldest().done <= now) {
    Flight& flight = oldest();
    first_ = (first_ + 1) % flights_.size();
    --in_flight_;
    may_start_ = true;
    account_end(now, flight, flight.steps);
    if (flight.steps == 1)
      scheduler_->finish_step(now, flight.plan, {}, finished);
    else
      scheduler_->finish_steps(now, flight.plan, flight.steps, finished);
  }
}

void Replica::start(Instant now) {
  if (!may_start_ || in_flight_ == flights_.size() || stage_free_[0] > now) return;
  Flight& flight = flights_[(first_ + in_flight_) % flights_.size()];
  const bool has_step = scheduler_->schedule(now, flight.plan);
  account_start(now, flight.plan);
  if (!has_step) {
    may_start_ = false;
    return;
  }
  enter(now, flight);
  if (step_by_step_ || flight.plan.prefill_tokens > 0 || in_flight_ > 1) return;
  flight.steps = scheduler_->steps_alike(flight.plan);
  if (flight.steps == 1) return;
  // While a jump lasts, the scheduler has nothing to add to it, so stage 0 stays idle between its steps.
  may_start_ = false;
  flight.done = now + clock_.decode_run(flight.plan.decode_sequences, flight.plan.decode_kv_tokens, flight.steps).time;
}

// A single step goes through the stages, behind whatever is in them.
void Replica::enter(Instant now, Flight& flight) {
  clock_.stage_times(flight.plan, stage_times_);
  flight.begin = now;
  flight.steps = 1;
  flight.aborted.clear();
  Instant ready = now;
  for (std::size_t stage = 0; stage < stage_free_.size(); ++stage) {
    const Instant begin = std::max(ready, stage_free_[stage]);
    ready = begin + stage_times_[stage];
    stage_free_[stage] = ready;
    flight.stages[stage] = {begin, ready};
  }
  flight.done = ready;
  ++in_flight_;
}

void Replica::settle(Instant now) {
  if (in_flight_ == 0 || oldest().steps == 1) return;
  Flight& flight = oldest();
  const std::int64_t sequences = flight.plan.decode_sequences;
  const StepClock::Run run =
      clock_.decode_run_within(sequences, flight.plan.decode_kv_tokens, flight.steps, now - flight.begin);
  MUSTER_CHECK(run.steps < flight.steps, "a jump of {} steps was over before its end", flight.steps);
  if (run.steps == 0) return;
  const Instant boundary = flight.begin + run.time;
  const std::int64_t left = flight.steps - run.steps;
  const Instant end = flight.done;
  account_end(boundary, flight, run.steps);
  std::vector<RequestId> nobody;
  scheduler_->finish_steps(boundary, flight.plan, run.steps, nobody);
  MUSTER_CHECK(nobody.empty(), "request {} ended in the middle of a jump", nobody.front().value);
  in_flight_ = 0;
  std::fill(stage_free_.begin(), stage_free_.end(), boundary);
  may_start_ = true;
  if (boundary == now) return;  // start() comes at the end of the instant, as it would in stepping
  const bool has_step = scheduler_->schedule(boundary, flight.plan);
  MUSTER_CHECK(has_step && flight.plan.decode_sequences == sequences && flight.plan.prefill_tokens == 0,
               "a jump of {} sequences went on with {}", sequences, flight.plan.pieces.size());
  account_start(boundary, flight.plan);
  enter(boundary, flight);
  if (left == 1) return;
  flight.steps = left;
  flight.done = end;
  may_start_ = false;
}

void Replica::stop_jump() {
  if (in_flight_ == 0 || oldest().steps == 1) return;
  oldest().steps = 1;
  oldest().done = stage_free_.back();
  may_start_ = true;
}

void Replica::lose() {
  prefix_ = prefix();
  scheduler_ = sched::make_scheduler(kind_, limits_);
  in_flight_ = 0;
  std::fill(stage_free_.begin(), stage_free_.end(), Instant::min());
  may_start_ = false;
}

Replica::PrefixTokens Replica::prefix() const {
  const sched::SchedulerState now = scheduler_->state();
  return {prefix_.queried + now.prefix_tokens_queried, prefix_.hit + now.prefix_tokens_hit};
}

void Replica::account_start(Instant now, const sched::StepPlan& plan) {
  for (const RequestId id : plan.preempted) ledger_.preempted(id);
  if (plan.prefill_tokens == 0) return;
  for (const sched::Piece& piece : plan.pieces)
    if (!piece.decode) ledger_.scheduled(piece.id, now, piece.computed_before);
}

void Replica::account_end(Instant now, const Flight& flight, std::int64_t steps) {
  steps_ += static_cast<std::uint64_t>(steps);
  account_time(now, flight, steps);
  for (const sched::Piece& piece : flight.plan.pieces) {
    if (!flight.aborted.empty() && std::ranges::find(flight.aborted, piece.id) != flight.aborted.end()) continue;
    if (piece.decode)
      ledger_.emit(piece.id, steps);
    else if (piece.samples)
      ledger_.emit_after_prefill(piece.id, now);
  }
}

void Replica::account_time(Instant now, const Flight& flight, std::int64_t steps) {
  occupied_ += now - std::max(flight.begin, occupied_until_);
  occupied_until_ = now;
  const sched::StepPlan& plan = flight.plan;
  if (steps == 1) {
    for (std::size_t i = 0; i < stage_busy_.size(); ++i)
      stage_busy_[i] += flight.stages[i].end - flight.stages[i].begin;
  } else if (stage_busy_.size() == 1) {
    stage_busy_[0] += now - flight.begin;
  } else {
    for (std::size_t i = 0; i < stage_busy_.size(); ++i)
      stage_busy_[i] += clock_.decode_run_of_stage(i, plan.decode_sequences, plan.decode_kv_tokens, steps);
  }
  if (observer_ == nullptr) return;
  StepRecord record{.replica = index_,
                    .steps = steps,
                    .begin = flight.begin,
                    .end = now,
                    .stages = {},
                    .prefill_tokens = plan.prefill_tokens,
                    .decode_sequences = plan.decode_sequences,
                    .decode_kv_tokens = plan.decode_kv_tokens};
  for (const sched::Piece& piece : plan.pieces) record.prefill_sequences += piece.decode ? 0 : 1;
  if (steps == 1) record.stages = flight.stages;
  observer_->on_steps(record);
}

}  // namespace muster::sim
