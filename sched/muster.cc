// muster's own scheduler, of its engine (reference: Sarathi-Serve, OSDI 2024, for the budget; DESIGN of muster for the
// classes). The rules:
//
//  1. Decodes come first, then prompts, those under way and those that wait together, by (priority, arrival): an urgent
//     request does not wait for the long prompt of a batch request to end.
//  2. A step has a budget of max_num_batched_tokens. One that decodes has at most prefill_tokens_while_decoding prompt
//     tokens, but never less than a KV block, so that no prompt starves: the driver derives that limit from the TPOT
//     target (how many tokens a step may have and still end in time). long_prefill_token_threshold caps one prompt.
//  3. A sequence starts when the blocks of its whole prompt are free, and takes them: prompts under way never find a
//     shortage. The first that cannot start holds the others back.
//  4. When a decode finds no block, the last running sequence in (priority, arrival) is preempted, by recompute: batch
//     yields before interactive, and who came last before who came first. Such a step starts nobody.
//  5. When the first waiting sequence finds no place (max_num_seqs, or blocks) and the running ones of strictly less
//     urgent priority hold enough, they are preempted for it, last first, and only as many as needed. Nobody is
//     preempted for an equal. Nobody comes back in the step that preempted him: without his place the urgent one did
//     not fit, so what it leaves is less.
//  6. Prefix cache: prompts can be found when their pieces are computed, answers when the sequence leaves or is
//     preempted. A second copy of what can be found is freed. What nobody holds goes least recently used first, last
//     blocks of a sequence first, after all blocks that hold nothing. At least one token is computed.
//
// Progress: the first of all in (priority, arrival) is never preempted unless it is alone, where it always fits.
#include <algorithm>

#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

class MusterScheduler final : public BatchScheduler {
 public:
  explicit MusterScheduler(const SchedulerLimits& limits) : BatchScheduler(limits) {
    running_order_ = RunningOrder::kPriorityThenArrival;
    prefill_tokens_while_decoding_ = limits.prefill_tokens_while_decoding == 0
                                         ? kNoBudget
                                         : std::max(limits.prefill_tokens_while_decoding, limits.kv_block_tokens);
    cache_prefixes({.findable = Findable::kWhenComputed,
                    .duplicates = Duplicates::kShared,
                    .useless = PrefixCache::UselessBlocks::kFirst});
  }
  std::string_view name() const override { return "muster"; }

 private:
  std::int64_t fill(StepPlan& plan) override;
  std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t) const override { return s.known; }
  std::int64_t steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const override;

  std::int64_t rounds_without_admission(std::span<const StepPlan* const>, const StepPlan&,
                                        std::int64_t rounds_max) const override {
    return waiting_.empty() ? rounds_max : 0;
  }

  static bool is_pending_prompt(const Sequence& s) { return !s.in_flight() && s.prefill_left() > 0; }
  std::int64_t start_first(std::int64_t prefill, StepPlan& plan);
  bool is_less_urgent(std::uint32_t slot, const Sequence& than) const {
    return table_[slot].order.priority > than.order.priority;
  }
  bool finds_place(const Sequence& s, const Hit& hit, std::int64_t free_blocks) const {
    return !is_full() && pool_.blocks_for(s.known) - hit.blocks_held <= free_blocks;
  }
  bool finds_place_by_preemption(const Sequence& s, bool with_next_tokens) const;

  std::int64_t prefill_tokens_while_decoding_;
};

// Whether all running sequences less urgent than `s` together make room for it; `with_next_tokens`: after those that
// are at least as urgent, which decode in the only step out, have taken the blocks of their next tokens.
bool MusterScheduler::finds_place_by_preemption(const Sequence& s, bool with_next_tokens) const {
  if (running_.empty() || !is_less_urgent(running_.back(), s)) return false;
  std::int64_t kept = 0;
  for (const std::uint32_t slot : running_) {
    if (is_less_urgent(slot, s)) break;  // and so are all behind it
    const Sequence& other = table_[slot];
    kept += pool_.blocks_of(other.kv);
    if (with_next_tokens) kept += pool_.shortfall(other.kv, other.computed + 2);  // one is in flight
  }
  return pool_.total() - kept >= pool_.blocks_for(s.known);
}

// Starts the first waiting sequence, if it finds a place. Returns the tokens of its first piece; 0: it does not start.
std::int64_t MusterScheduler::start_first(std::int64_t prefill, StepPlan& plan) {
  const Sequence& s = table_[waiting_.front()];
  if (s.in_flight()) return 0;  // preempted while its step was out, and not back yet
  Hit hit = first_hit(plan);
  if (!finds_place(s, hit, pool_.free())) {
    if (!finds_place_by_preemption(s, false)) return 0;
    while (!finds_place(s, hit, pool_.free())) {
      preempt(running_.size() - 1, plan);
      hit = first_hit(plan);
    }
  }
  const std::int64_t tokens = piece_tokens_of(s.known - hit.tokens, prefill);
  const bool is_in = admit_first(tokens, hit, plan);
  MUSTER_CHECK(is_in, "request {} found no place", s.id.value);
  return tokens;
}

std::int64_t MusterScheduler::fill(StepPlan& plan) {
  std::int64_t budget = schedule_running<Kind::kDecodes>(limits_.max_num_batched_tokens, plan);
  std::int64_t prefill = plan.pieces.empty() ? budget : std::min(budget, prefill_tokens_while_decoding_);
  budget -= prefill;
  bool may_start = plan.preempted.empty();
  std::size_t index = 0;  // in running_: all before it decode or are in a step
  while (prefill > 0) {
    while (index < running_.size() && !is_pending_prompt(table_[running_[index]])) ++index;
    const bool has_prompt = index < running_.size();
    if (may_start && !waiting_.empty() &&
        (!has_prompt || table_[waiting_.front()].order < table_[running_[index]].order)) {
      const std::int64_t tokens = start_first(prefill, plan);
      may_start = tokens > 0;
      prefill -= tokens;
    } else if (has_prompt) {
      Sequence& s = table_[running_[index]];
      const std::int64_t tokens = piece_tokens(s, prefill);
      add_piece(running_[index], s, tokens, plan);
      prefill -= tokens;
    } else {
      break;
    }
  }
  return budget + prefill;
}

std::int64_t MusterScheduler::steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const {
  if (waiting_.empty()) return further_steps_max;
  const Sequence& s = table_[waiting_.front()];
  const Hit hit = first_hit();
  const auto decodes = static_cast<std::int64_t>(plan.pieces.size());
  // The blocks of those at least as urgent only get more: who finds no place in the next step finds none in any.
  if (decodes < limits_.max_num_batched_tokens &&
      (finds_place(s, hit, pool_.free() - blocks_taken_after(plan, 1)) || finds_place_by_preemption(s, true)))
    return 0;
  // With more stages a step of its own, beside this one, is open to it too.
  if (limits_.steps_in_flight_max > 1 && (finds_place(s, hit, pool_.free()) || finds_place_by_preemption(s, false)))
    return 0;
  return further_steps_max;
}

}  // namespace

std::unique_ptr<Scheduler> make_muster(const SchedulerLimits& limits) {
  return std::make_unique<MusterScheduler>(limits);
}

}  // namespace muster::sched
