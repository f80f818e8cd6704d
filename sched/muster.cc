// muster's own scheduler, of its engine (reference: Sarathi-Serve, OSDI 2024, for the budget; DESIGN of muster for the
// classes). The rules:
//
//  1. Decodes come first, then running prompts, then waiting sequences, each by (priority, arrival).
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
  }
  std::string_view name() const override { return "muster"; }

 private:
  std::int64_t fill(StepPlan& plan) override;
  std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t) const override { return s.known; }
  std::int64_t steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const override;

  std::int64_t prefill_budget(std::int64_t budget, bool decodes) const {
    return decodes ? std::min(budget, prefill_tokens_while_decoding_) : budget;
  }
  bool is_less_urgent(std::uint32_t slot, const Sequence& than) const {
    return table_[slot].order.priority > than.order.priority;
  }
  bool finds_place(const Sequence& s, std::int64_t free_blocks) const {
    return !is_full() && pool_.blocks_for(s.known) <= free_blocks;
  }
  bool finds_place_by_preemption(const Sequence& s, std::int64_t further_steps) const;

  std::int64_t prefill_tokens_while_decoding_;
};

// Whether all running sequences less urgent than `s` together make room for it, once those that are at least as urgent
// have decoded so many tokens more.
bool MusterScheduler::finds_place_by_preemption(const Sequence& s, std::int64_t further_steps) const {
  if (running_.empty() || !is_less_urgent(running_.back(), s)) return false;
  std::int64_t kept = 0;
  for (const std::uint32_t slot : running_) {
    if (is_less_urgent(slot, s)) break;  // and so are all behind it
    const Sequence& other = table_[slot];
    kept += pool_.blocks_of(other.kv);
    if (further_steps > 0) kept += pool_.shortfall(other.kv, other.computed + static_cast<std::int32_t>(further_steps) + 1);
  }
  return pool_.total() - kept >= pool_.blocks_for(s.known);
}

std::int64_t MusterScheduler::fill(StepPlan& plan) {
  std::int64_t budget = schedule_running<Kind::kDecodes>(limits_.max_num_batched_tokens, plan);
  std::int64_t prefill = prefill_budget(budget, !plan.pieces.empty());
  budget -= prefill;  // what is left beside prompts
  prefill = schedule_running<Kind::kPrompts>(prefill, plan);
  const bool had_shortage = !plan.preempted.empty();
  while (!had_shortage && !waiting_.empty() && prefill > 0) {
    const Sequence& s = table_[waiting_.front()];
    if (s.in_flight) break;
    if (!finds_place(s, pool_.free())) {
      if (!finds_place_by_preemption(s, 0)) break;
      while (!finds_place(s, pool_.free())) budget += preempt(running_.size() - 1, plan);
    }
    const std::int64_t tokens = piece_tokens(s, prefill);
    const bool is_in = admit_first(tokens, plan);
    MUSTER_CHECK(is_in, "request {} found no place", s.id.value);
    prefill -= tokens;
  }
  return budget + prefill;
}

std::int64_t MusterScheduler::steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const {
  if (waiting_.empty()) return further_steps_max;
  const Sequence& s = table_[waiting_.front()];
  const auto decodes = static_cast<std::int64_t>(plan.pieces.size());
  // The blocks of those at least as urgent only get more: who finds no place in the next step finds none in any.
  if (decodes < limits_.max_num_batched_tokens &&
      (finds_place(s, pool_.free() - blocks_taken_after(plan, 1)) || finds_place_by_preemption(s, 1)))
    return 0;
  // With more stages a step of its own, beside this one, is open to it too.
  if (limits_.steps_in_flight_max > 1 && (finds_place(s, pool_.free()) || finds_place_by_preemption(s, 0))) return 0;
  return further_steps_max;
}

}  // namespace

std::unique_ptr<Scheduler> make_muster(const SchedulerLimits& limits) { return std::make_unique<MusterScheduler>(limits); }

}  // namespace muster::sched
