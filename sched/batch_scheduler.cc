#include "batch_scheduler.h"

#include <algorithm>
#include <utility>

namespace muster::sched {

BatchScheduler::BatchScheduler(const SchedulerLimits& limits)
    : limits_(limits), pool_(limits.kv_blocks, limits.kv_block_tokens) {
  MUSTER_CHECK(limits.max_num_batched_tokens >= 1, "max_num_batched_tokens {}", limits.max_num_batched_tokens);
  MUSTER_CHECK(limits.max_num_seqs >= 1, "max_num_seqs {}", limits.max_num_seqs);
  MUSTER_CHECK(limits.long_prefill_token_threshold >= 0, "long_prefill_token_threshold {}",
               limits.long_prefill_token_threshold);
  MUSTER_CHECK(limits.prefill_tokens_while_decoding >= 0, "prefill_tokens_while_decoding {}",
               limits.prefill_tokens_while_decoding);
  MUSTER_CHECK(limits.steps_in_flight_max >= 1 && limits.steps_in_flight_max <= 65535, "steps_in_flight_max {}",
               limits.steps_in_flight_max);
  MUSTER_CHECK(limits.admission_watermark >= 0 && limits.admission_watermark < 1, "admission_watermark {}",
               limits.admission_watermark);
  piece_tokens_max_ =
      limits.long_prefill_token_threshold > 0 ? limits.long_prefill_token_threshold : limits.max_num_batched_tokens;
}

bool BatchScheduler::add(Instant, const NewSequence& sequence) {
  MUSTER_CHECK(sequence.prompt_tokens >= 1 && sequence.max_tokens >= 1, "request {}: prompt_tokens {}, max_tokens {}",
               sequence.id.value, sequence.prompt_tokens, sequence.max_tokens);
  MUSTER_CHECK(table_.find(sequence.id) == kNoSlot, "request {} was added twice", sequence.id.value);
  MUSTER_CHECK(sequence.kv_ready_tokens >= 0 && sequence.kv_ready_tokens < sequence.prompt_tokens,
               "request {}: KV of {} tokens came along, of {}", sequence.id.value, sequence.kv_ready_tokens,
               sequence.prompt_tokens);
  // Each compared alone first: their sum could overflow.
  if (sequence.prompt_tokens > KvBlockPool::kMaxSequenceTokens || sequence.max_tokens > KvBlockPool::kMaxSequenceTokens)
    return false;
  const std::int64_t end = sequence.prompt_tokens + sequence.max_tokens;
  if (end > KvBlockPool::kMaxSequenceTokens || !fits_alone(end)) return false;

  Sequence s;
  s.known = s.prompt = s.prefill_end = static_cast<std::int32_t>(sequence.prompt_tokens);
  s.end = static_cast<std::int32_t>(end);
  s.kv_ready = static_cast<std::int32_t>(sequence.kv_ready_tokens);
  s.id = sequence.id;
  s.order = {sequence.priority, ++arrivals_};
  s.place = Place::kWaiting;
  const std::uint32_t slot = table_.insert(s);
  waiting_.push(s.order, slot);
  prompt_tokens_waiting_ += s.prefill_left();
  if (knows_content_) {
    if (slot >= prefixes_.size()) prefixes_.resize(slot + std::size_t{1});
    prefixes_[slot].content = sequence.content_blocks;
    prefixes_[slot].started = false;
  }
  return true;
}

bool BatchScheduler::abort(RequestId id) {
  const std::uint32_t slot = table_.find(id);
  if (slot == kNoSlot) return false;
  const bool was_running = table_[slot].place == Place::kRunning;
  const bool in_flight = table_[slot].in_flight();
  leave(slot);
  if (was_running) drop_left_from_running();
  // The slot of a sequence in flight must not become another's before finish_step() has seen its piece.
  if (!in_flight) table_.release(slot);
  return true;
}

// Takes a waiting or running sequence out, all but its slot. A running one stays listed until drop_left_from_running().
void BatchScheduler::leave(std::uint32_t slot) {
  Sequence& s = table_[slot];
  prompt_tokens_waiting_ -= s.prefill_left();
  if (s.place == Place::kWaiting) waiting_.remove(slot);
  if (pool_.caches_prefixes() && answers_are_findable_later()) make_findable(slot, s.computed);
  release_blocks(slot);
  s.place = Place::kLeaving;
  table_.forget(slot);
}

void BatchScheduler::drop_left_from_running() {
  std::erase_if(running_, [&](std::uint32_t slot) { return table_[slot].place != Place::kRunning; });
}

namespace {

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

}  // namespace

bool BatchScheduler::schedule(Instant, StepPlan& plan) {
  plan.clear();
  if (steps_in_flight() == limits_.steps_in_flight_max) return false;
  pieces_findable_ = 0;
  budget_left_ = fill(plan);
  if (plan.pieces.empty()) return false;
  if (pool_.caches_prefixes()) make_pieces_findable(plan);
  add_up(plan);
  plan.step = ++steps_scheduled_;
  return true;
}

std::size_t BatchScheduler::last_in_order() const {
  const auto last = std::max_element(running_.begin(), running_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return table_[a].order < table_[b].order;
  });
  return static_cast<std::size_t>(last - running_.begin());
}

// Preempts the last in (priority, arrival) until the sequence at running_[index] has room for `tokens`, or is gone too.
BatchScheduler::AfterShortage BatchScheduler::make_room(std::size_t index, std::int32_t tokens, StepPlan& plan) {
  const std::uint32_t slot = running_[index];
  AfterShortage after{.index = index};
  do {
    const std::size_t victim = last_in_order();
    const bool is_itself = running_[victim] == slot;
    after.tokens_withdrawn += preempt(victim, plan);
    if (is_itself) return after;
    if (victim < after.index) --after.index;
  } while (!pool_.grow(table_[slot].kv, tokens));
  after.has_room = true;
  return after;
}

// Returns the tokens that this takes out of the step being made.
std::int64_t BatchScheduler::preempt(std::size_t victim, StepPlan& plan) {
  const std::uint32_t slot = running_[victim];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(victim));
  Sequence& s = table_[slot];
  const std::int64_t withdrawn = s.in_flight() ? withdraw_piece(slot, plan) : 0;
  if (pool_.caches_prefixes() && answers_are_findable_later() && prefix_rules_.answers_survive_preemption)
    make_findable(slot, s.computed);
  release_blocks(slot);
  prompt_tokens_waiting_ -= s.prefill_left();
  s.computed = s.scheduled = 0;
  s.prefill_end = s.known;
  prompt_tokens_waiting_ += s.prefill_left();
  s.place = Place::kWaiting;
  if (after_preemption_ == AfterPreemption::kBehindAll) s.order.arrival = ++arrivals_;
  waiting_.push(s.order, slot);
  ++preemptions_;
  plan.preempted.push_back(s.id);
  return withdrawn;
}

// Undoes add_piece() and returns its tokens; 0 when the piece is not in this plan but in an earlier step, still out.
std::int64_t BatchScheduler::withdraw_piece(std::uint32_t slot, StepPlan& plan) {
  const auto piece =
      std::find_if(plan.pieces.begin(), plan.pieces.end(), [&](const Piece& p) { return p.slot == slot; });
  if (piece == plan.pieces.end()) return 0;
  const std::int64_t tokens = piece->tokens;
  --table_[slot].steps_out;
  plan.pieces.erase(piece);
  return tokens;
}

// Returns the budget left.
std::int64_t BatchScheduler::admit_waiting(std::int64_t budget, StepPlan& plan) {
  while (!waiting_.empty() && !is_full() && budget > 0) {
    const Sequence& s = table_[waiting_.front()];
    if (s.in_flight()) break;  // preempted while a step of it was out, and not back yet
    const Hit hit = first_hit(plan);
    const std::int64_t tokens = piece_tokens_of(s.known - hit.tokens, budget);
    if (tokens == 0 || !admit_first(tokens, hit, plan)) break;
    budget -= tokens;
  }
  return budget;
}

bool BatchScheduler::admit_first(std::int64_t tokens, const Hit& hit, StepPlan& plan) {
  const std::uint32_t slot = waiting_.front();
  Sequence& s = table_[slot];
  if (blocks_at_admission(s, tokens, hit) > pool_.free()) return false;
  const auto kv_tokens = static_cast<std::int32_t>(kv_tokens_at_admission(s, hit.tokens + tokens));
  const bool kv_came_along = s.kv_ready > 0;
  if (knows_content_)
    start_prefix(slot, hit);
  else if (s.kv_ready > 0)
    skip(slot, hit);
  const bool has_room = pool_.grow(s.kv, kv_tokens);
  MUSTER_CHECK(has_room, "request {}: too few KV blocks", s.id.value);
  if (kv_came_along && pool_.caches_prefixes() && !answers_are_findable_later()) make_findable(slot, s.computed);
  waiting_.pop();
  const auto by_order = [&](std::uint32_t a, std::uint32_t b) { return table_[a].order < table_[b].order; };
  const auto place = running_order_ == RunningOrder::kAdmission
                         ? running_.end()
                         : std::upper_bound(running_.begin(), running_.end(), slot, by_order);
  running_.insert(place, slot);
  s.place = Place::kRunning;
  if (tokens > 0) add_piece(slot, s, tokens, plan);
  return true;
}

void BatchScheduler::finish_step(Instant, const StepPlan& plan, std::span<const RequestId> stopped,
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
    --s.steps_out;
    if (s.place == Place::kLeaving) {
      if (!s.in_flight()) table_.release(piece.slot);
      continue;
    }
    if (s.place == Place::kRunning) {
      s.computed += static_cast<std::int32_t>(piece.tokens);
      if (!piece.decode) {
        prompt_tokens_waiting_ -= piece.tokens;
        if (pool_.caches_prefixes()) piece_is_back(piece);
      }
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
  steps_done(plan, 1);
}

// `plan` is the only step out, its batch is all that runs, and all of it decodes.
bool BatchScheduler::is_whole_batch_decoding(const StepPlan& plan) const {
  return steps_in_flight() == 1 && plan.step == steps_scheduled_ && plan.pieces.size() == running_.size() &&
         plan.decode_sequences == static_cast<std::int64_t>(plan.pieces.size());
}

bool BatchScheduler::first_waiting_fits(std::int64_t budget, std::int64_t free_blocks) const {
  if (budget <= 0) return false;
  const Sequence& s = table_[waiting_.front()];
  const Hit hit = first_hit();
  const std::int64_t tokens = piece_tokens_of(s.known - hit.tokens, budget);
  return tokens > 0 && blocks_at_admission(s, tokens, hit) <= free_blocks;
}

// Free blocks only get fewer as the batch grows: whoever cannot start in the next step cannot start in any of them, as
// long as it finds the same prefix.
std::int64_t BatchScheduler::steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const {
  if (waiting_.empty() || is_full()) return further_steps_max;
  const std::int64_t budget_next = limits_.max_num_batched_tokens - static_cast<std::int64_t>(plan.pieces.size());
  if (first_waiting_fits(budget_next, pool_.free() - blocks_taken_after(plan, 1))) return 0;
  // With more stages a step of its own, beside this one, is open to it too.
  if (limits_.steps_in_flight_max > 1 && first_waiting_fits(limits_.max_num_batched_tokens, pool_.free())) return 0;
  return further_steps_with_same_hit(plan, further_steps_max);
}

// Blocks that the batch takes from the pool in so many steps after this one.
std::int64_t BatchScheduler::blocks_taken_after(const StepPlan& plan, std::int64_t further_steps) const {
  std::int64_t blocks = 0;
  const std::int32_t tokens = static_cast<std::int32_t>(further_steps) + 1;  // with the one in flight
  for (const Piece& piece : plan.pieces) {
    const Sequence& s = table_[piece.slot];
    blocks += pool_.shortfall(s.kv, s.computed + tokens);
  }
  return blocks;
}

// How many steps after this one take no more than so many blocks together, at most `further_steps_max`.
std::int64_t BatchScheduler::further_steps_with_blocks(const StepPlan& plan, std::int64_t blocks,
                                                       std::int64_t further_steps_max) const {
  const auto sequences = static_cast<std::int64_t>(plan.pieces.size());
  // A sequence takes exactly one block in as many steps as a block has tokens.
  const std::int64_t whole_periods = blocks / sequences;
  std::int64_t enough = whole_periods * pool_.block_tokens();
  if (enough >= further_steps_max) return further_steps_max;
  const std::int64_t upper = std::min(enough + pool_.block_tokens(), further_steps_max + 1);
  std::int64_t too_many = upper;
  while (too_many - enough > 1) {
    const std::int64_t middle = enough + (too_many - enough) / 2;
    (blocks_taken_after(plan, middle) <= blocks ? enough : too_many) = middle;
  }
  // Unless the blocks of whole answers were taken before.
  if (too_many == upper && blocks_taken_after(plan, further_steps_max) <= blocks) return further_steps_max;
  return enough;
}

std::int64_t BatchScheduler::steps_alike(const StepPlan& plan) const {
  if (!is_whole_batch_decoding(plan)) return 1;
  std::int32_t tokens_left = KvBlockPool::kMaxSequenceTokens;
  for (const Piece& piece : plan.pieces) {
    const Sequence& s = table_[piece.slot];
    if (s.place != Place::kRunning) return 1;
    tokens_left = std::min(tokens_left, s.end - s.known);
    if (tokens_left == 1) return 1;
  }
  const std::int64_t further_steps = steps_without_admission(plan, tokens_left - 1);
  return further_steps == 0 ? 1 : 1 + further_steps_with_blocks(plan, pool_.free(), further_steps);
}

void BatchScheduler::finish_steps(Instant now, const StepPlan& plan, std::int64_t steps,
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
    s.steps_out = 0;
    s.computed += static_cast<std::int32_t>(steps);
    s.scheduled = s.computed;
    s.known += static_cast<std::int32_t>(steps);
    const bool has_room = pool_.grow(s.kv, s.computed);
    MUSTER_CHECK(has_room, "a jump of {} steps ran out of KV blocks", steps);
    some_left |= s.known == s.end;
  }
  if (pool_.caches_prefixes()) make_steps_findable(plan, steps);
  steps_done(plan, steps);
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

SchedulerState BatchScheduler::state() const {
  return {.running = static_cast<std::int64_t>(running_.size()),
          .waiting = static_cast<std::int64_t>(waiting_.size()),
          .kv_blocks_used = pool_.used(),
          .kv_blocks_total = pool_.total(),
          .prompt_tokens_waiting = prompt_tokens_waiting_,
          .preemptions = preemptions_,
          .prefix_tokens_queried = prefix_tokens_queried_,
          .prefix_tokens_hit = prefix_tokens_hit_};
}

void BatchScheduler::check() const {
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
  if (pool_.caches_prefixes()) check_prefixes();
}

void BatchScheduler::check_sequences() const {
  std::int64_t blocks = 0, prompt_tokens = 0;
  std::size_t running = 0, waiting = 0, in_flight = 0;
  for (std::uint32_t slot = 0; slot < table_.slots(); ++slot) {
    const Sequence& s = table_[slot];
    const bool is_in = s.place == Place::kRunning || s.place == Place::kWaiting;
    if (s.place == Place::kFree) continue;
    in_flight += s.in_flight();
    MUSTER_CHECK(is_in || s.in_flight(), "request {} left, but its slot is kept", s.id.value);
    blocks += pool_.blocks_of(s.kv);
    if (pool_.caches_prefixes()) {  // the shared ones are counted once, below
      for (const std::uint32_t unit : prefixes_[slot].units)
        blocks -= unit == kNoUnit ? 0 : pool_.prefixes().unit_blocks();
    }
    if (!is_in) continue;
    MUSTER_CHECK(table_.find(s.id) == slot, "request {} cannot be found", s.id.value);
    MUSTER_CHECK(0 <= s.computed && s.computed < s.known && s.known < s.end,
                 "request {}: {} computed, {} known, end {}", s.id.value, s.computed, s.known, s.end);
    MUSTER_CHECK(s.computed <= s.scheduled && s.scheduled <= s.known && s.scheduled <= s.kv.tokens,
                 "request {}: {} computed, {} scheduled, {} known, KV of {}", s.id.value, s.computed, s.scheduled,
                 s.known, s.kv.tokens);
    MUSTER_CHECK(s.place != Place::kRunning || (s.scheduled > s.computed) == s.in_flight(),
                 "request {}: {} computed, {} scheduled, in {} steps", s.id.value, s.computed, s.scheduled,
                 s.steps_out);
    MUSTER_CHECK(prompts_are_pipelined_ || s.steps_out <= 1, "request {} is in {} steps", s.id.value, s.steps_out);
    prompt_tokens += s.prefill_left();
    running += s.place == Place::kRunning;
    waiting += s.place == Place::kWaiting;
    MUSTER_CHECK(waiting_.contains(slot) == (s.place == Place::kWaiting), "request {} and the queue", s.id.value);
    MUSTER_CHECK(s.place == Place::kRunning || s.kv.tokens == 0, "request {} waits with KV blocks", s.id.value);
  }
  if (pool_.caches_prefixes()) blocks += pool_.prefixes().units_held() * pool_.prefixes().unit_blocks();
  MUSTER_CHECK(blocks == pool_.used(), "sequences hold {} KV blocks, the pool says {}", blocks, pool_.used());
  MUSTER_CHECK(running == running_.size(), "{} running, {} listed", running, running_.size());
  MUSTER_CHECK(waiting == waiting_.size(), "{} waiting, {} queued", waiting, waiting_.size());
  MUSTER_CHECK(table_.known_ids() == running + waiting, "{} ids, {} sequences", table_.known_ids(), running + waiting);
  MUSTER_CHECK(prompt_tokens == prompt_tokens_waiting_, "{} prompt tokens, counted {}", prompt_tokens,
               prompt_tokens_waiting_);
  MUSTER_CHECK((in_flight > 0) == (steps_in_flight() > 0), "{} sequences in flight in {} steps", in_flight,
               steps_in_flight());
}

}  // namespace muster::sched
