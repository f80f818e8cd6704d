// What the schedulers of all engines have in common: sequences, KV blocks, the waiting queue, steps out, recompute
// preemption, and the jump over alike decode steps. An engine's own class says which pieces a step has (fill()), how
// many KV blocks a sequence takes when it starts, and, where its admission is out of the ordinary, for how many steps
// of a jump it admits nobody.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kv_block_pool.h"
#include "muster/core/check.h"
#include "muster/sched/scheduler.h"
#include "sequence_table.h"
#include "waiting_queue.h"

namespace muster::sched {

class BatchScheduler : public Scheduler {
 public:
  bool add(Instant now, const NewSequence& sequence) override;
  bool abort(RequestId id) final;
  bool schedule(Instant now, StepPlan& plan) final;
  void finish_step(Instant now, const StepPlan& plan, std::span<const RequestId> stopped,
                   std::vector<RequestId>& finished) final;
  std::int64_t steps_alike(const StepPlan& plan) const final;
  void finish_steps(Instant now, const StepPlan& plan, std::int64_t steps, std::vector<RequestId>& finished) final;
  std::int64_t rounds_alike(std::span<const StepPlan* const> plans) const final;
  void advance_rounds(Instant now, std::span<StepPlan* const> plans, std::int64_t rounds) final;
  SchedulerState state() const final;
  void check() const final;

 protected:
  explicit BatchScheduler(const SchedulerLimits& limits);

  // ---- What an engine's class decides.

  // Fills the next step; returns the part of max_num_batched_tokens that it left.
  virtual std::int64_t fill(StepPlan& plan) = 0;
  // Tokens for which a sequence has KV blocks when it starts and its first piece ends after `piece_end` tokens.
  virtual std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t piece_end) const = 0;
  // Can a sequence of `end` tokens run when it is alone?
  virtual bool fits_alone(std::int64_t end) const { return pool_.blocks_for(end) <= pool_.total(); }
  // `plan` is the only step out and decodes all that runs. How many of the steps after it, at most `further_steps_max`
  // (at least 1), admit nobody, if each decodes the same sequences? 0 also when a step beside it would admit somebody.
  // Never too many; too few only costs time. The default is for classes that admit last in a step, by admit_waiting().
  virtual std::int64_t steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const;
  // `plans` are the steps out and decode all that runs; `all` has the pieces of all. How many rounds, at most
  // `rounds_max` (at least 1), admit nobody? Never too many.
  virtual std::int64_t rounds_without_admission(std::span<const StepPlan* const> plans, const StepPlan& all,
                                                std::int64_t rounds_max) const;
  // `plan` and steps - 1 like it are back.
  virtual void steps_done(const StepPlan& /*plan*/, std::int64_t /*steps*/) {}

  struct Hit {
    std::int64_t tokens = 0;
    std::int64_t blocks_held = 0;  // of their blocks, those that others hold: they are not taken from the free ones
  };

  enum class RunningOrder : std::uint8_t { kAdmission, kPriorityThenArrival };
  enum class AfterPreemption : std::uint8_t {
    kInFront,    // keeps its arrival: before all of its priority that never ran
    kBehindAll,  // of its priority, as if it arrived now
  };

  // ---- What fill() is made of.

  static constexpr std::int64_t kNoBudget = std::numeric_limits<std::int32_t>::max();  // tokens; more than any step has
  enum class Kind : std::uint8_t { kAll, kDecodes, kPrompts };

  std::int64_t steps_in_flight() const { return static_cast<std::int64_t>(steps_scheduled_ - steps_finished_); }
  bool is_full() const { return static_cast<std::int64_t>(running_.size()) >= limits_.max_num_seqs; }
  // Tokens of the next piece. A prompt that is cut is cut to a multiple of chunk_tokens_, which may leave 0.
  std::int64_t piece_tokens(const Sequence& s, std::int64_t budget) const {
    return piece_tokens_of(s.known - s.scheduled, budget);
  }
  std::int64_t piece_tokens_of(std::int64_t left, std::int64_t budget) const {
    const std::int64_t tokens = std::min(std::min(left, piece_tokens_max_), budget);
    return tokens < left ? tokens - tokens % chunk_tokens_ : tokens;
  }
  // A piece of it may be scheduled: it is in no step, or only with pieces of its prompt, which is not yet out whole.
  bool is_ready(const Sequence& s) const { return !s.in_flight() || (prompts_are_pipelined_ && s.scheduled < s.known); }
  // Gives a piece to every running sequence of the kind that is ready, while the budget lasts; on a shortage of KV
  // blocks the last in (priority, arrival) is preempted. Returns the budget left. The budget is handed from call to
  // call and not kept here: in a register it costs nothing, and this loop is the simulator's hottest.
  template <Kind kind>
  std::int64_t schedule_running(std::int64_t budget, StepPlan& plan);
  // Starts waiting sequences in order, until the first that cannot. Returns the budget left.
  std::int64_t admit_waiting(std::int64_t budget, StepPlan& plan);
  // Starts the first waiting sequence with its `hit`, and with this piece (0: none yet). False: too few KV blocks,
  // nothing is changed. Requires that somebody waits who is in no step.
  bool admit_first(std::int64_t tokens, const Hit& hit, StepPlan& plan);
  // Blocks that must be free for a waiting sequence to start so.
  std::int64_t blocks_at_admission(const Sequence& s, std::int64_t tokens, const Hit& hit) const {
    const std::int64_t kv_tokens = kv_tokens_at_admission(s, hit.tokens + tokens);
    const std::int64_t must_fit = whole_prompt_must_fit_ ? std::max<std::int64_t>(kv_tokens, s.known) : kv_tokens;
    return pool_.blocks_for(must_fit) - hit.blocks_held + (running_.empty() ? 0 : watermark_blocks_);
  }

  // ---- Prefix caching (prefix_sharing.cc).

  enum class Findable : std::uint8_t {
    kWhenScheduled,       // each unit in the step that completes it, prompt and answer
    kWhenComputed,        // prompts when their pieces are back, answers when the sequence leaves
    kWhenPromptComputed,  // prompts when their last piece is back, answers when the sequence leaves
  };
  enum class Duplicates : std::uint8_t {  // a sequence has computed what can be found already
    kKept,                                // both can be found
    kShared,                              // it gives back its own blocks and holds those that can be found
    kUseless,                             // its own cannot be found
  };
  struct PrefixRules {
    Findable findable = Findable::kWhenScheduled;
    Duplicates duplicates = Duplicates::kKept;
    PrefixCache::UselessBlocks useless = PrefixCache::UselessBlocks::kInOrder;
    bool answers_survive_preemption = true;  // kWhenComputed and kWhenPromptComputed
  };
  // To be called by the constructor of a class that can; without effect when the limits do not ask for it.
  void cache_prefixes(const PrefixRules& rules);
  // What the first waiting sequence finds. Its last known token is always computed, so never all of it.
  virtual Hit first_hit(const StepPlan& plan);
  Hit first_hit() const {
    const std::uint32_t slot = waiting_.front();
    if (table_[slot].kv_ready > 0) return {.tokens = table_[slot].kv_ready};
    return pool_.caches_prefixes() ? look_up(slot) : Hit{};
  }
  // A waiting sequence starts with this hit, and has no blocks yet.
  virtual void start_prefix(std::uint32_t slot, const Hit& hit);
  // It has computed so much without a step: found, or come along.
  void skip(std::uint32_t slot, const Hit& hit);
  // A sequence gives all its blocks back: it leaves, or was preempted. Place and tokens are as they were.
  virtual void release_blocks(std::uint32_t slot);
  // Of one sequence, for prefix caching.
  struct Prefix {
    std::span<const std::uint64_t> content;
    std::vector<std::uint32_t> units;  // of its first content blocks, shared or own; kNoUnit: cannot be found
    std::uint64_t chain = 0;           // of the last of them
    bool started = false;              // counted in prefix_tokens_queried_
  };
  bool knows_content_ = false;    // prefixes_ is kept
  std::vector<Prefix> prefixes_;  // [slots]

  void ignore_long_prefill_threshold() { piece_tokens_max_ = limits_.max_num_batched_tokens; }
  std::size_t last_in_order() const;  // index in running_, which must not be empty
  // The sequence at running_[victim] gives back its blocks and waits. Returns the tokens that this takes out of `plan`.
  std::int64_t preempt(std::size_t victim, StepPlan& plan);
  void add_piece(std::uint32_t slot, Sequence& s, std::int64_t tokens, StepPlan& plan);
  // Blocks that the batch takes from the pool in so many steps after `plan`.
  std::int64_t blocks_taken_after(const StepPlan& plan, std::int64_t further_steps) const;

  SchedulerLimits limits_;
  std::int64_t chunk_tokens_ = 1;
  // A prompt's next piece may be scheduled while those before it are out: steps pass the stages in order, so each stage
  // has their KV by then.
  bool prompts_are_pipelined_ = false;
  std::int64_t watermark_blocks_ = 0;   // stay free when a sequence starts beside running ones
  bool whole_prompt_must_fit_ = false;  // even if only a piece of it takes blocks
  RunningOrder running_order_ = RunningOrder::kAdmission;
  AfterPreemption after_preemption_ = AfterPreemption::kInFront;
  KvBlockPool pool_;
  SequenceTable table_;
  std::vector<std::uint32_t> running_;  // slots, in running_order_
  WaitingQueue waiting_;

 private:
  struct AfterShortage {
    bool has_room = false;
    std::size_t index = 0;              // in running_, of the sequence that asked, or of the next one if it is gone
    std::int64_t tokens_withdrawn = 0;  // of pieces that were in the step already
  };
  AfterShortage make_room(std::size_t index, std::int32_t tokens, StepPlan& plan);
  std::int64_t withdraw_piece(std::uint32_t slot, StepPlan& plan);
  void leave(std::uint32_t slot);
  void drop_left_from_running();
  bool is_whole_batch_decoding(const StepPlan& plan) const;
  std::int64_t further_steps_with_blocks(const StepPlan& plan, std::int64_t blocks,
                                         std::int64_t further_steps_max) const;
  void check_sequences() const;
  void check_prefixes() const;

  Hit look_up(std::uint32_t slot) const;
  // Its content up to so many tokens can be found from now on.
  void make_findable(std::uint32_t slot, std::int64_t tokens);
  void make_pieces_findable(const StepPlan& plan);
  void make_steps_findable(const StepPlan& plan, std::int64_t steps);
  void piece_is_back(const Piece& piece);
  bool answers_are_findable_later() const { return prefix_rules_.findable != Findable::kWhenScheduled; }
  bool first_waiting_fits(std::int64_t budget, std::int64_t free_blocks) const;
  std::int64_t further_steps_with_same_hit(const StepPlan& plan, std::int64_t further_steps_max) const;

  PrefixRules prefix_rules_;
  std::size_t pieces_findable_ = 0;  // of the plan being made: the first so many have been through make_findable()
  std::int64_t prefix_tokens_queried_ = 0;
  std::int64_t prefix_tokens_hit_ = 0;

  std::int64_t piece_tokens_max_;  // of one sequence in one step
  std::uint64_t arrivals_ = 0;
  std::uint64_t steps_scheduled_ = 0;
  std::uint64_t steps_finished_ = 0;
  std::int64_t budget_left_ = 0;            // by the last step
  std::int64_t prompt_tokens_waiting_ = 0;  // sum of prefill_left()
  std::int64_t preemptions_ = 0;
};

// Inlined by order: the compiler does not see that its callers loop over every running sequence.
[[gnu::always_inline]] inline void BatchScheduler::add_piece(std::uint32_t slot, Sequence& s, std::int64_t tokens,
                                                             StepPlan& plan) {
  const std::int32_t before = s.scheduled;
  const bool decode = before >= s.prefill_end;
  const bool samples = before + tokens == s.known;
  s.scheduled = before + static_cast<std::int32_t>(tokens);
  ++s.steps_out;
  // In place: a copy of a Piece just written would wait for its small stores.
  plan.pieces.emplace_back(s.id, slot, tokens, before, decode, samples);
}

template <BatchScheduler::Kind kind>
std::int64_t BatchScheduler::schedule_running(std::int64_t budget, StepPlan& plan) {
  std::size_t index = 0;
  while (index < running_.size() && budget > 0) {
    const std::uint32_t slot = running_[index];
    Sequence& s = table_[slot];
    const bool other_kind = kind != Kind::kAll && (kind == Kind::kDecodes) != (s.scheduled >= s.prefill_end);
    if (other_kind || !is_ready(s)) {
      ++index;
      continue;
    }
    const std::int64_t tokens = kind == Kind::kDecodes ? 1 : piece_tokens(s, budget);
    if (kind == Kind::kPrompts && tokens == 0) {
      ++index;
      continue;
    }
    const std::int32_t needed = s.scheduled + static_cast<std::int32_t>(tokens);
    if (needed > s.kv.tokens && !pool_.grow(s.kv, needed)) [[unlikely]] {
      const AfterShortage after = make_room(index, needed, plan);
      index = after.index;
      budget += after.tokens_withdrawn;
      if (!after.has_room) continue;
    }
    add_piece(slot, s, tokens, plan);
    budget -= tokens;
    ++index;
  }
  return budget;
}

}  // namespace muster::sched
