// vLLM V1's scheduler, as its documentation and public source describe it. The rules:
//
//  1. No prefill or decode phase: a sequence has tokens known and tokens computed, and a step lets the second catch up
//     with the first. A step has a budget of max_num_batched_tokens.
//  2. Running sequences come first, in the order of their admission; then waiting ones by (priority, arrival) until the
//     first that cannot start: no budget, max_num_seqs running, or no blocks for its first piece. Nobody overtakes it.
//  3. A piece is cut to the budget left (chunked prefill) and to long_prefill_token_threshold.
//  4. KV blocks are taken for the tokens of the piece, when it is scheduled. On a shortage the last running sequence in
//     (priority, arrival) is preempted, if need be the very one that asks: it gives back its blocks, its computed
//     tokens fall to 0, and it waits in front of all of its priority that never ran. What it emitted stays, and is
//     recomputed with its prompt. A step that preempted admits nobody.
//  5. With pipeline stages, a step takes whatever is ready, up to its budget: nothing divides the running sequences
//     evenly, they spread over the steps as they happen to arrive and finish. A sequence in flight counts against
//     max_num_seqs and may be preempted: steps pass every stage in order, so whoever gets its blocks writes after it
//     has read; the token that its step samples still counts.
//
// Where this differs from vLLM: (a) the chunks of one prompt do not follow each other down the pipeline, since a
// sequence is in one step at most; (b) when a sequence preempts itself, vLLM ends the step, which may then be empty,
// and its busy loop makes the next one at once; here the step goes on with the other running sequences.
//
// Progress: the first running sequence in (priority, arrival) is only preempted when it is alone, and alone it always
// fits, since add() refuses what the whole pool cannot hold. So a step that preempts either has a piece or has all of
// its remaining sequences in flight.
#include <algorithm>
#include <utility>

#include "kv_block_pool.h"
#include "muster/core/check.h"
#include "muster/sched/scheduler.h"
#include "sequence_table.h"
#include "waiting_queue.h"

namespace muster::sched {
namespace {

class VllmScheduler final : public Scheduler {
 public:
  explicit VllmScheduler(const SchedulerLimits& limits)
      : limits_(limits), pool_(limits.kv_blocks, limits.kv_block_tokens) {
    MUSTER_CHECK(limits.max_num_batched_tokens >= 1, "max_num_batched_tokens {}", limits.max_num_batched_tokens);
    MUSTER_CHECK(limits.max_num_seqs >= 1, "max_num_seqs {}", limits.max_num_seqs);
    MUSTER_CHECK(limits.long_prefill_token_threshold >= 0, "long_prefill_token_threshold {}",
                 limits.long_prefill_token_threshold);
    MUSTER_CHECK(limits.steps_in_flight_max >= 1, "steps_in_flight_max {}", limits.steps_in_flight_max);
    piece_tokens_max_ = limits.long_prefill_token_threshold > 0 ? limits.long_prefill_token_threshold
                                                                : limits.max_num_batched_tokens;
  }

  std::string_view name() const override { return "vllm"; }
  bool add(Instant now, const NewSequence& sequence) override;
  bool abort(RequestId id) override;
  bool schedule(Instant now, StepPlan& plan) override;
  void finish_step(Instant now, const StepPlan& plan, std::span<const RequestId> stopped,
                   std::vector<RequestId>& finished) override;
  std::int64_t steps_alike(const StepPlan& plan) const override;
  void finish_steps(Instant now, const StepPlan& plan, std::int64_t steps, std::vector<RequestId>& finished) override;
  SchedulerState state() const override;
  void check() const override;

 private:
  std::int64_t steps_in_flight() const { return static_cast<std::int64_t>(steps_scheduled_ - steps_finished_); }
  bool is_full() const { return static_cast<std::int64_t>(running_.size()) >= limits_.max_num_seqs; }
  std::int64_t piece_tokens(const Sequence& s, std::int64_t budget) const {
    return std::min(std::min<std::int64_t>(s.known - s.computed, piece_tokens_max_), budget);
  }

  // Making a step. The budget is handed from call to call and not kept here: in a register it costs nothing, and the
  // loop over the running sequences is the simulator's hottest.
  std::int64_t schedule_running(std::int64_t budget, StepPlan& plan);
  std::int64_t admit_waiting(std::int64_t budget, StepPlan& plan);
  struct AfterShortage {
    bool has_room = false;
    std::size_t index = 0;              // in running_, of the sequence that asked, or of the next one if it is gone
    std::int64_t tokens_withdrawn = 0;  // of pieces that were in the step already
  };
  AfterShortage make_room(std::size_t index, std::int32_t tokens, StepPlan& plan);
  std::int64_t preempt(std::size_t victim, StepPlan& plan);
  std::int64_t withdraw_piece(std::uint32_t slot, StepPlan& plan);
  static void add_piece(std::uint32_t slot, Sequence& s, std::int64_t tokens, StepPlan& plan);

  // Ending one.
  void leave(std::uint32_t slot);
  void drop_left_from_running();

  // Jumping.
  bool is_whole_batch_decoding(const StepPlan& plan) const;
  bool first_waiting_fits(std::int64_t budget, std::int64_t free_blocks) const;
  std::int64_t blocks_taken_after(const StepPlan& plan, std::int64_t further_steps) const;
  std::int64_t further_steps_with_blocks(const StepPlan& plan, std::int64_t further_steps_max) const;

  void check_sequences() const;

  SchedulerLimits limits_;
  std::int64_t piece_tokens_max_;  // of one sequence in one step
  KvBlockPool pool_;
  SequenceTable table_;
  std::vector<std::uint32_t> running_;  // slots, in the order of admission
  WaitingQueue waiting_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t steps_scheduled_ = 0;
  std::uint64_t steps_finished_ = 0;
  std::int64_t budget_left_ = 0;            // by the last step
  std::int64_t prompt_tokens_waiting_ = 0;  // sum of prefill_left()
  std::int64_t preemptions_ = 0;
};

bool VllmScheduler::add(Instant, const NewSequence& sequence) {
  MUSTER_CHECK(sequence.prompt_tokens >= 1 && sequence.max_tokens >= 1, "request {}: prompt_tokens {}, max_tokens {}",
               sequence.id.value, sequence.prompt_tokens, sequence.max_tokens);
  MUSTER_CHECK(table_.find(sequence.id) == kNoSlot, "request {} was added twice", sequence.id.value);
  // Each compared alone first: their sum could overflow.
  if (sequence.prompt_tokens > KvBlockPool::kMaxSequenceTokens || sequence.max_tokens > KvBlockPool::kMaxSequenceTokens)
    return false;
  const std::int64_t end = sequence.prompt_tokens + sequence.max_tokens;
  if (end > KvBlockPool::kMaxSequenceTokens || pool_.blocks_for(end) > pool_.total()) return false;

  Sequence s;
  s.known = s.prefill_end = static_cast<std::int32_t>(sequence.prompt_tokens);
  s.end = static_cast<std::int32_t>(end);
  s.id = sequence.id;
  s.order = {sequence.priority, ++arrivals_};
  s.place = Place::kWaiting;
  waiting_.push(s.order, table_.insert(s));
  prompt_tokens_waiting_ += s.prefill_left();
  return true;
}

bool VllmScheduler::abort(RequestId id) {
  const std::uint32_t slot = table_.find(id);
  if (slot == kNoSlot) return false;
  const bool was_running = table_[slot].place == Place::kRunning;
  const bool in_flight = table_[slot].in_flight;
  leave(slot);
  if (was_running) drop_left_from_running();
  // The slot of a sequence in flight must not become another's before finish_step() has seen its piece.
  if (!in_flight) table_.release(slot);
  return true;
}

// Takes a waiting or running sequence out, all but its slot. A running one stays listed until drop_left_from_running().
void VllmScheduler::leave(std::uint32_t slot) {
  Sequence& s = table_[slot];
  prompt_tokens_waiting_ -= s.prefill_left();
  if (s.place == Place::kWaiting) waiting_.remove(slot);
  pool_.release(s.kv);
  s.place = Place::kLeaving;
  table_.forget(slot);
}

void VllmScheduler::drop_left_from_running() {
  std::erase_if(running_, [&](std::uint32_t slot) { return table_[slot].place != Place::kRunning; });
}

// The totals of a plan from its pieces.
void add_up(StepPlan& plan) {
  std::int64_t prefill = 0, decodes = 0, decode_kv = 0, samples = 0;
  for (const Piece& piece : plan.pieces) {
    decodes += piece.decode;
    decode_kv += piece.decode ? piece.computed_before : 0;
    prefill += piece.decode ? 0 : piece.tokens;
    samples += piece.samples;
  }
  plan.prefill_tokens = prefill;
  plan.decode_sequences = decodes;
  plan.decode_kv_tokens = decode_kv;
  plan.sampled_sequences = samples;
}

bool VllmScheduler::schedule(Instant, StepPlan& plan) {
  plan.clear();
  if (steps_in_flight() == limits_.steps_in_flight_max) return false;
  std::int64_t budget = schedule_running(limits_.max_num_batched_tokens, plan);
  if (plan.preempted.empty()) budget = admit_waiting(budget, plan);
  budget_left_ = budget;
  if (plan.pieces.empty()) return false;
  add_up(plan);
  plan.step = ++steps_scheduled_;
  return true;
}

// Inlined by order: the compiler does not see that its callers loop over every running sequence.
[[gnu::always_inline]] inline void VllmScheduler::add_piece(std::uint32_t slot, Sequence& s, std::int64_t tokens,
                                                            StepPlan& plan) {
  const bool decode = s.computed >= s.prefill_end;
  const bool samples = s.computed + tokens == s.known;
  s.in_flight = true;
  // In place: a copy of a Piece just written would wait for its small stores.
  plan.pieces.emplace_back(s.id, slot, tokens, s.computed, decode, samples);
}

// Returns the budget left.
std::int64_t VllmScheduler::schedule_running(std::int64_t budget, StepPlan& plan) {
  std::size_t index = 0;
  while (index < running_.size() && budget > 0) {
    const std::uint32_t slot = running_[index];
    Sequence& s = table_[slot];
    if (s.in_flight) {
      ++index;
      continue;
    }
    const std::int64_t tokens = piece_tokens(s, budget);
    const std::int32_t needed = s.computed + static_cast<std::int32_t>(tokens);
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

// Preempts the last in (priority, arrival) until the sequence at running_[index] has room for `tokens`, or is gone too.
VllmScheduler::AfterShortage VllmScheduler::make_room(std::size_t index, std::int32_t tokens, StepPlan& plan) {
  const std::uint32_t slot = running_[index];
  AfterShortage after{.index = index};
  do {
    const auto last = std::max_element(running_.begin(), running_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return table_[a].order < table_[b].order;
    });
    const auto victim = static_cast<std::size_t>(last - running_.begin());
    const bool is_itself = *last == slot;
    after.tokens_withdrawn += preempt(victim, plan);
    if (is_itself) return after;
    if (victim < after.index) --after.index;
  } while (!pool_.grow(table_[slot].kv, tokens));
  after.has_room = true;
  return after;
}

// Returns the tokens that this takes out of the step being made.
std::int64_t VllmScheduler::preempt(std::size_t victim, StepPlan& plan) {
  const std::uint32_t slot = running_[victim];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(victim));
  Sequence& s = table_[slot];
  const std::int64_t withdrawn = s.in_flight ? withdraw_piece(slot, plan) : 0;
  pool_.release(s.kv);
  prompt_tokens_waiting_ -= s.prefill_left();
  s.computed = 0;
  s.prefill_end = s.known;
  prompt_tokens_waiting_ += s.prefill_left();
  s.place = Place::kWaiting;
  waiting_.push(s.order, slot);
  ++preemptions_;
  plan.preempted.push_back(s.id);
  return withdrawn;
}

// Undoes add_piece() and returns its tokens; 0 when the piece is not in this plan but in an earlier step, still out.
std::int64_t VllmScheduler::withdraw_piece(std::uint32_t slot, StepPlan& plan) {
  const auto piece =
      std::find_if(plan.pieces.begin(), plan.pieces.end(), [&](const Piece& p) { return p.slot == slot; });
  if (piece == plan.pieces.end()) return 0;
  const std::int64_t tokens = piece->tokens;
  table_[slot].in_flight = false;
  plan.pieces.erase(piece);
  return tokens;
}

// Returns the budget left.
std::int64_t VllmScheduler::admit_waiting(std::int64_t budget, StepPlan& plan) {
  while (!waiting_.empty() && !is_full() && budget > 0) {
    const std::uint32_t slot = waiting_.front();
    Sequence& s = table_[slot];
    if (s.in_flight) break;  // preempted while its step was out, and not back yet
    const std::int64_t tokens = piece_tokens(s, budget);
    if (!pool_.grow(s.kv, static_cast<std::int32_t>(tokens))) break;
    waiting_.pop();
    running_.push_back(slot);
    s.place = Place::kRunning;
    add_piece(slot, s, tokens, plan);
    budget -= tokens;
  }
  return budget;
}

void VllmScheduler::finish_step(Instant, const StepPlan& plan, std::span<const RequestId> stopped,
                                std::vector<RequestId>& finished) {
  MUSTER_CHECK(steps_in_flight() > 0 && plan.step == steps_finished_ + 1, "step {} is back; the oldest out is {} of {}",
               plan.step, steps_finished_ + 1, steps_in_flight());
  steps_finished_ = plan.step;
  bool some_left = false;
  std::size_t stops_seen = 0;
  for (const Piece& piece : plan.pieces) {
    Sequence& s = table_[piece.slot];
    const bool stops = !stopped.empty() && std::find(stopped.begin(), stopped.end(), piece.id) != stopped.end();
    stops_seen += stops;
    s.in_flight = false;
    if (s.place == Place::kLeaving) {
      table_.release(piece.slot);
      continue;
    }
    if (s.place == Place::kRunning) {
      s.computed += static_cast<std::int32_t>(piece.tokens);
      if (!piece.decode) prompt_tokens_waiting_ -= piece.tokens;
    }
    MUSTER_CHECK(piece.samples || !stops, "request {} stopped without a sampled token", piece.id.value);
    if (!piece.samples) continue;
    ++s.known;
    if (s.place == Place::kWaiting) {  // preempted meanwhile: the new token is one more to recompute
      s.prefill_end = s.known;
      ++prompt_tokens_waiting_;
    }
    if (s.known == s.end || stops) {
      finished.push_back(s.id);
      leave(piece.slot);
      table_.release(piece.slot);
      some_left = true;
    }
  }
  MUSTER_CHECK(stops_seen == stopped.size(), "{} of {} stopped requests were in step {}", stops_seen, stopped.size(),
               plan.step);
  if (some_left) drop_left_from_running();
}

// `plan` is the only step out, its batch is all that runs, and all of it decodes.
bool VllmScheduler::is_whole_batch_decoding(const StepPlan& plan) const {
  return steps_in_flight() == 1 && plan.step == steps_scheduled_ && plan.pieces.size() == running_.size() &&
         plan.decode_sequences == static_cast<std::int64_t>(plan.pieces.size());
}

// Whether the first waiting sequence could start in a step with this much left.
bool VllmScheduler::first_waiting_fits(std::int64_t budget, std::int64_t free_blocks) const {
  if (waiting_.empty() || is_full() || budget <= 0) return false;
  return pool_.blocks_for(piece_tokens(table_[waiting_.front()], budget)) <= free_blocks;
}

// Blocks that the batch takes from the pool in so many steps after this one.
std::int64_t VllmScheduler::blocks_taken_after(const StepPlan& plan, std::int64_t further_steps) const {
  std::int64_t blocks = 0;
  const std::int32_t tokens = static_cast<std::int32_t>(further_steps) + 1;  // with the one in flight
  for (const Piece& piece : plan.pieces) {
    const Sequence& s = table_[piece.slot];
    blocks += pool_.shortfall(s.kv, s.computed + tokens);
  }
  return blocks;
}

// How many steps after this one find all the blocks they need, at most `further_steps_max`.
std::int64_t VllmScheduler::further_steps_with_blocks(const StepPlan& plan, std::int64_t further_steps_max) const {
  const auto sequences = static_cast<std::int64_t>(plan.pieces.size());
  // A sequence takes exactly one block in as many steps as a block has tokens.
  const std::int64_t whole_periods = pool_.free() / sequences;
  std::int64_t enough = whole_periods * pool_.block_tokens();
  if (enough >= further_steps_max) return further_steps_max;
  std::int64_t too_many = std::min(enough + pool_.block_tokens(), further_steps_max + 1);
  while (too_many - enough > 1) {
    const std::int64_t middle = enough + (too_many - enough) / 2;
    (blocks_taken_after(plan, middle) <= pool_.free() ? enough : too_many) = middle;
  }
  return enough;
}

std::int64_t VllmScheduler::steps_alike(const StepPlan& plan) const {
  if (!is_whole_batch_decoding(plan)) return 1;
  std::int32_t tokens_left = KvBlockPool::kMaxSequenceTokens;
  std::int64_t blocks_next = 0;  // taken in the step after this one
  for (const Piece& piece : plan.pieces) {
    const Sequence& s = table_[piece.slot];
    if (s.place != Place::kRunning) return 1;
    tokens_left = std::min(tokens_left, s.end - s.known);
    if (tokens_left == 1) return 1;
    blocks_next += s.computed + 1 == s.kv.tokens;
  }
  // Free blocks only get fewer as the batch grows: whoever cannot start in the next step cannot start in any of them.
  const std::int64_t budget_next = limits_.max_num_batched_tokens - static_cast<std::int64_t>(plan.pieces.size());
  if (first_waiting_fits(budget_next, pool_.free() - blocks_next)) return 1;
  // With more stages a step of its own, beside this one, is open to it too.
  if (limits_.steps_in_flight_max > 1 && first_waiting_fits(limits_.max_num_batched_tokens, pool_.free())) return 1;
  return 1 + further_steps_with_blocks(plan, tokens_left - 1);
}

void VllmScheduler::finish_steps(Instant now, const StepPlan& plan, std::int64_t steps,
                                 std::vector<RequestId>& finished) {
  if (steps == 1) return finish_step(now, plan, {}, finished);
  MUSTER_CHECK(steps > 1 && is_whole_batch_decoding(plan), "no jump of {} steps from step {}", steps, plan.step);
  steps_scheduled_ += static_cast<std::uint64_t>(steps) - 1;
  steps_finished_ = steps_scheduled_;
  bool some_left = false;
  for (const Piece& piece : plan.pieces) {
    Sequence& s = table_[piece.slot];
    MUSTER_CHECK(s.place == Place::kRunning && steps <= s.end - s.known,
                 "a jump of {} steps, but request {} has {} tokens left", steps, s.id.value, s.end - s.known);
    s.in_flight = false;
    s.computed += static_cast<std::int32_t>(steps);
    s.known += static_cast<std::int32_t>(steps);
    const bool has_room = pool_.grow(s.kv, s.computed);
    MUSTER_CHECK(has_room, "a jump of {} steps ran out of KV blocks", steps);
    some_left |= s.known == s.end;
  }
  if (!some_left) return;
  // After all have grown: the blocks of those who leave were not free before.
  for (const Piece& piece : plan.pieces) {
    const Sequence& s = table_[piece.slot];
    if (s.known != s.end) continue;
    finished.push_back(s.id);
    leave(piece.slot);
    table_.release(piece.slot);
  }
  drop_left_from_running();
}

SchedulerState VllmScheduler::state() const {
  return {.running = static_cast<std::int64_t>(running_.size()),
          .waiting = static_cast<std::int64_t>(waiting_.size()),
          .kv_blocks_used = pool_.used(),
          .kv_blocks_total = pool_.total(),
          .prompt_tokens_waiting = prompt_tokens_waiting_,
          .preemptions = preemptions_};
}

void VllmScheduler::check() const {
  MUSTER_CHECK(budget_left_ >= 0, "a step went {} tokens over its budget", -budget_left_);
  MUSTER_CHECK(pool_.free() >= 0, "{} free KV blocks", pool_.free());
  MUSTER_CHECK(static_cast<std::int64_t>(running_.size()) <= limits_.max_num_seqs, "{} running", running_.size());
  MUSTER_CHECK(steps_in_flight() >= 0 && steps_in_flight() <= limits_.steps_in_flight_max, "{} steps out",
               steps_in_flight());
  for (std::size_t i = 0; i < running_.size(); ++i) {
    MUSTER_CHECK(std::find(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(i), running_[i]) ==
                     running_.begin() + static_cast<std::ptrdiff_t>(i),
                 "slot {} is running twice", running_[i]);
    MUSTER_CHECK(table_[running_[i]].place == Place::kRunning, "slot {} is listed as running", running_[i]);
  }
  waiting_.check();
  check_sequences();
}

void VllmScheduler::check_sequences() const {
  std::int64_t blocks = 0, prompt_tokens = 0;
  std::size_t running = 0, waiting = 0, in_flight = 0;
  for (std::uint32_t slot = 0; slot < table_.slots(); ++slot) {
    const Sequence& s = table_[slot];
    const bool is_in = s.place == Place::kRunning || s.place == Place::kWaiting;
    if (s.place == Place::kFree) continue;
    in_flight += s.in_flight;
    MUSTER_CHECK(is_in || s.in_flight, "request {} left, but its slot is kept", s.id.value);
    blocks += pool_.blocks_of(s.kv);
    if (!is_in) continue;
    MUSTER_CHECK(table_.find(s.id) == slot, "request {} cannot be found", s.id.value);
    MUSTER_CHECK(0 <= s.computed && s.computed < s.known && s.known < s.end,
                 "request {}: {} computed, {} known, end {}", s.id.value, s.computed, s.known, s.end);
    MUSTER_CHECK(s.computed <= s.kv.tokens, "request {}: {} computed, KV of {}", s.id.value, s.computed, s.kv.tokens);
    prompt_tokens += s.prefill_left();
    running += s.place == Place::kRunning;
    waiting += s.place == Place::kWaiting;
    MUSTER_CHECK(waiting_.contains(slot) == (s.place == Place::kWaiting), "request {} and the queue", s.id.value);
    MUSTER_CHECK(s.place == Place::kRunning || s.kv.tokens == 0, "request {} waits with KV blocks", s.id.value);
  }
  MUSTER_CHECK(blocks == pool_.used(), "sequences hold {} KV blocks, the pool says {}", blocks, pool_.used());
  MUSTER_CHECK(running == running_.size(), "{} running, {} listed", running, running_.size());
  MUSTER_CHECK(waiting == waiting_.size(), "{} waiting, {} queued", waiting, waiting_.size());
  MUSTER_CHECK(table_.known_ids() == running + waiting, "{} ids, {} sequences", table_.known_ids(), running + waiting);
  MUSTER_CHECK(prompt_tokens == prompt_tokens_waiting_, "{} prompt tokens, counted {}", prompt_tokens,
               prompt_tokens_waiting_);
  MUSTER_CHECK((in_flight > 0) == (steps_in_flight() > 0), "{} sequences in flight in {} steps", in_flight,
               steps_in_flight());
}

}  // namespace

std::unique_ptr<Scheduler> make_vllm_scheduler(const SchedulerLimits& limits) {
  return std::make_unique<VllmScheduler>(limits);
}

}  // namespace muster::sched
