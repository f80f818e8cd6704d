// Jumps with several steps out: micro-batches of decodes that go round through the pipeline's stages. Nothing is ready
// beside the step that has just come back, so schedule() makes it again, in the same order, until somebody finishes,
// the KV blocks run out, or a waiting sequence could start.
#include <algorithm>

#include "batch_scheduler.h"

namespace muster::sched {
namespace {

// The pieces of all, oldest step first.
StepPlan merged(std::span<const StepPlan* const> plans) {
  StepPlan all;
  for (const StepPlan* plan : plans) all.pieces.insert(all.pieces.end(), plan->pieces.begin(), plan->pieces.end());
  return all;
}

}  // namespace

std::int64_t BatchScheduler::rounds_alike(std::span<const StepPlan* const> plans) const {
  std::size_t pieces = 0;
  for (const StepPlan* plan : plans) {
    if (plan->prefill_tokens > 0) return 0;
    pieces += plan->pieces.size();
  }
  if (plans.empty() || static_cast<std::int64_t>(plans.size()) != steps_in_flight() || pieces != running_.size())
    return 0;
  const StepPlan all = merged(plans);
  std::int32_t tokens_left = KvBlockPool::kMaxSequenceTokens;
  for (const Piece& piece : all.pieces) {
    const Sequence& s = table_[piece.slot];
    if (s.place != Place::kRunning) return 0;
    tokens_left = std::min(tokens_left, s.end - s.known);
  }
  // The last token is left to finish_step().
  if (tokens_left <= 1) return 0;
  const std::int64_t rounds = rounds_without_admission(plans, all, tokens_left - 1);
  return rounds == 0 ? 0 : further_steps_with_blocks(all, pool_.free(), rounds);
}

std::int64_t BatchScheduler::rounds_without_admission(std::span<const StepPlan* const> plans, const StepPlan& all,
                                                      std::int64_t rounds_max) const {
  if (waiting_.empty() || is_full()) return rounds_max;
  // With each, as with less of a budget its first piece is shorter, and takes fewer blocks.
  for (const StepPlan* plan : plans) {
    const std::int64_t budget = limits_.max_num_batched_tokens - static_cast<std::int64_t>(plan->pieces.size());
    if (first_waiting_fits(budget, pool_.free())) return 0;
  }
  // With fewer steps out than there may be, a step of its own is open to it too.
  if (steps_in_flight() < limits_.steps_in_flight_max &&
      first_waiting_fits(limits_.max_num_batched_tokens, pool_.free()))
    return 0;
  return further_steps_with_same_hit(all, rounds_max);
}

void BatchScheduler::advance_rounds(Instant, std::span<StepPlan* const> plans, std::int64_t rounds) {
  MUSTER_CHECK(rounds >= 0 && static_cast<std::int64_t>(plans.size()) == steps_in_flight(),
               "{} rounds of {} steps, of which {} are given", rounds, steps_in_flight(), plans.size());
  if (rounds == 0) return;
  const auto tokens = static_cast<std::int32_t>(rounds);
  const std::uint64_t steps = plans.size() * static_cast<std::uint64_t>(rounds);
  StepPlan all = merged({plans.data(), plans.size()});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    StepPlan& plan = *plans[i];
    MUSTER_CHECK(plan.step == steps_finished_ + 1 + i && plan.prefill_tokens == 0,
                 "step {} is no decode, or not the {}.", plan.step, i);
    for (Piece& piece : plan.pieces) {
      Sequence& s = table_[piece.slot];
      MUSTER_CHECK(s.place == Place::kRunning && s.known + tokens < s.end,
                   "{} rounds, but request {} has {} tokens left", rounds, s.id.value, s.end - s.known);
      s.computed += tokens;
      s.scheduled += tokens;
      s.known += tokens;
      piece.computed_before += rounds;
      const bool has_room = pool_.grow(s.kv, s.scheduled);
      MUSTER_CHECK(has_room, "{} rounds ran out of KV blocks", rounds);
    }
    plan.decode_kv_tokens += rounds * plan.decode_sequences;
    plan.step += steps;
    steps_done(plan, 1);  // of the first round, which may have preempted
    plan.preempted.clear();
  }
  if (rounds > 1) steps_done(*plans.front(), (rounds - 1) * static_cast<std::int64_t>(plans.size()));
  steps_scheduled_ += steps;
  steps_finished_ += steps;
  if (pool_.caches_prefixes()) make_steps_findable(all, rounds + 1);
}

}  // namespace muster::sched
