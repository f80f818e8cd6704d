// SGLang's scheduler, as its documentation and public source describe it (hyperparameter tuning guide;
// managers/scheduler.py, schedule_policy.py: PrefillAdder, schedule_batch.py: retract_decode). The rules:
//
//  1. A step is either prompts or decodes, never both (--enable-mixed-chunk is off by default). Prompts come first:
//     decodes pause while anybody can start, and while a prompt that was cut is unfinished.
//  2. A step of prompts has chunked_prefill_size tokens (max_num_batched_tokens here): first the prompt that was cut in
//     an earlier step, then waiting ones by (priority, arrival) until the first that cannot start. A prompt longer than
//     what is left is cut to whole KV pages, and is the last of the step: only one prompt is ever in pieces. With
//     pipeline stages its chunks follow each other (sglang#5724, #11857: chunked pipeline parallelism).
//  3. Admission estimates what the running ones will still need: a sequence starts when prompt + expected answer is
//     less than the free KV tokens minus new_token_ratio * the answers of those that run (of those that started in the
//     same step: all of them). An answer counts for at most 4096 tokens (clip_max_new_tokens). max_running_requests
//     (max_num_seqs) is the other limit. When nothing runs, whoever fits starts.
//  4. new_token_ratio is 0.7 after idling (times --schedule-conservativeness, 1 here), and falls with every step of
//     decodes in 600 equal parts to 0.098 (0.7 * 0.14), where it stays.
//  5. A step of decodes has all of them. When their next tokens find too few KV blocks, decodes are retracted: the one
//     with the fewest emitted tokens first (of equals the longest prompt), at least one, and on until 20 tokens for
//     each that stays are free (retract_decode_steps) or one is left. They wait behind all of their priority, and
//     recompute what they had. The ratio becomes (emitted + 20 per sequence) / (max_tokens) over those that stay, at
//     most 1.
//  6. Prefix cache (RadixAttention, Zheng et al., NeurIPS 2024; mem_cache/radix_cache.py): prompts go into the radix
//  tree
//     as their pieces are computed, answers when the request ends (a retracted one drops its answer). Of a prompt that
//     was computed twice the second copy is freed. What nobody holds is evicted when no block is free without that,
//     leaves first, least recently used first. At least one token is computed.
//
// Where this differs: (a) a sequence takes the blocks of its whole prompt when it starts, SGLang with each chunk:
// nobody else takes any in between, so the order of events is the same; (b) with pipeline stages, SGLang deals the
// running sequences to one batch per stage, here a step takes whatever is ready, and a step beside one that holds a cut
// prompt admits nobody; (c) waiting ones stay in (priority, arrival), which is fcfs: SGLang's default, lpm (longest
// prefix first), falls back to it only while more than 128 wait; (d) prefixes are shared in whole content blocks
// (scheduler.h), and least recently used means least recently given back.
//
// The ratio is kept in integers, so that a simulation gives the same on every compiler.
#include <algorithm>

#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

// new_token_ratio in 1/3,000,000: all three are whole numbers then. SGLang's defaults (environ.py: INIT_NEW_TOKEN_RATIO
// 0.7, MIN_NEW_TOKEN_RATIO_FACTOR 0.14, NEW_TOKEN_RATIO_DECAY_STEPS 600, CLIP_MAX_NEW_TOKENS 4096, RETRACT_DECODE_STEPS
// 20).
constexpr std::int64_t kRatioOne = 3'000'000;
constexpr std::int64_t kRatioInitial = 2'100'000;
constexpr std::int64_t kRatioMin = 294'000;
constexpr std::int64_t kRatioDecay = (kRatioInitial - kRatioMin) / 600;
constexpr std::int64_t kAnswerTokensMax = 4096;
constexpr std::int64_t kRetractDecodeSteps = 20;
static_assert(kRatioDecay * 600 == kRatioInitial - kRatioMin);

class SglangScheduler final : public BatchScheduler {
 public:
  explicit SglangScheduler(const SchedulerLimits& limits) : BatchScheduler(limits) {
    after_preemption_ = AfterPreemption::kBehindAll;
    prompts_are_pipelined_ = true;
    ignore_long_prefill_threshold();
    if (limits.kv_block_tokens <= limits.max_num_batched_tokens) chunk_tokens_ = limits.kv_block_tokens;
    cache_prefixes({.findable = Findable::kWhenComputed,
                    .duplicates = Duplicates::kShared,
                    .useless = PrefixCache::UselessBlocks::kFirst,
                    .answers_survive_preemption = false});
  }
  std::string_view name() const override { return "sglang"; }
  bool add(Instant now, const NewSequence& sequence) override {
    if (running_.empty() && waiting_.empty()) ratio_ = kRatioInitial;
    return BatchScheduler::add(now, sequence);
  }

 private:
  std::int64_t fill(StepPlan& plan) override;
  std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t) const override { return s.known; }
  std::int64_t steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const override;
  std::int64_t rounds_without_admission(std::span<const StepPlan* const>, const StepPlan&,
                                        std::int64_t rounds_max) const override {
    return waiting_.empty() || is_full() ? rounds_max : 0;
  }
  void steps_done(const StepPlan& plan, std::int64_t steps) override {
    // The step that retracted has set the ratio; it is the first of a jump.
    if (plan.prefill_tokens == 0) ratio_ = decayed(steps - (plan.preempted.empty() ? 0 : 1));
  }

  std::int64_t schedule_prompts(StepPlan& plan);
  std::int64_t continue_cut_prompt(std::int64_t budget, StepPlan& plan);
  void retract_on_shortage(StepPlan& plan);

  bool has_cut_prompt() const { return !running_.empty() && table_[running_.back()].order.arrival == cut_arrival_; }
  std::int64_t decayed(std::int64_t steps) const {
    // A retraction may leave it below the minimum, from where the first decay lifts it.
    return steps == 0 ? ratio_ : std::max(kRatioMin, ratio_ - steps * kRatioDecay);
  }
  static std::int64_t answer_tokens(const Sequence& s, std::int64_t further = 0) {
    return std::clamp<std::int64_t>(s.end - s.known - further, 0, kAnswerTokensMax);
  }
  // Of all that run, after so many more tokens of each.
  std::int64_t answer_tokens_running(std::int64_t further) const {
    std::int64_t sum = 0;
    for (const std::uint32_t slot : running_) sum += answer_tokens(table_[slot], further);
    return sum;
  }
  // KV tokens, in 1/kRatioOne, that are missing for `s` to start; negative: it may.
  std::int64_t missing(const Sequence& s, const Hit& hit, std::int64_t free_blocks, std::int64_t answers,
                       std::int64_t ratio) const {
    const std::int64_t blocks = pool_.blocks_for(s.known) - hit.blocks_held;
    const std::int64_t needed = blocks * pool_.block_tokens() + answer_tokens(s);
    return answers * ratio - (free_blocks * pool_.block_tokens() - needed) * kRatioOne;
  }

  std::int64_t ratio_ = kRatioInitial;
  std::uint64_t cut_arrival_ = 0;  // of the sequence whose prompt was cut, the last in running_; else nobody's
};

std::int64_t SglangScheduler::fill(StepPlan& plan) {
  const std::int64_t budget_left = schedule_prompts(plan);
  if (!plan.pieces.empty()) return budget_left;
  retract_on_shortage(plan);
  schedule_running<Kind::kDecodes>(kNoBudget, plan);
  return 0;
}

std::int64_t SglangScheduler::continue_cut_prompt(std::int64_t budget, StepPlan& plan) {
  const std::uint32_t slot = running_.back();
  Sequence& s = table_[slot];
  const std::int64_t tokens = piece_tokens(s, budget);
  if (s.scheduled + tokens == s.known) cut_arrival_ = 0;
  add_piece(slot, s, tokens, plan);
  return budget - tokens;
}

// Returns the budget left.
std::int64_t SglangScheduler::schedule_prompts(StepPlan& plan) {
  std::int64_t budget = limits_.max_num_batched_tokens;
  std::int64_t full_answers = 0;  // of those that end their prompt in this step
  const bool goes_on = has_cut_prompt();
  if (goes_on) {
    budget = continue_cut_prompt(budget, plan);
    if (has_cut_prompt()) return budget;
    full_answers = answer_tokens(table_[running_.back()]);
  }
  if (waiting_.empty() || is_full() || budget == 0) return budget;
  const std::int64_t answers = answer_tokens_running(0) - full_answers;
  while (!waiting_.empty() && !is_full() && budget > 0) {
    const Sequence& s = table_[waiting_.front()];
    if (s.in_flight()) break;
    const Hit hit = first_hit(plan);
    if (!running_.empty() && missing(s, hit, pool_.free(), answers, ratio_) + full_answers * kRatioOne >= 0) break;
    const std::int64_t tokens = piece_tokens_of(s.known - hit.tokens, budget);
    if (tokens == 0 || !admit_first(tokens, hit, plan)) break;
    budget -= tokens;
    full_answers += answer_tokens(s);
    if (hit.tokens + tokens == s.known) continue;
    cut_arrival_ = s.order.arrival;
    break;
  }
  return budget;
}

void SglangScheduler::retract_on_shortage(StepPlan& plan) {
  const auto decodes_now = [&](std::uint32_t slot) {
    const Sequence& s = table_[slot];
    return !s.in_flight() && s.prefill_left() == 0;
  };
  const auto blocks_missing = [&] {
    std::int64_t needed = 0;
    for (const std::uint32_t slot : running_) {
      const Sequence& s = table_[slot];
      if (decodes_now(slot)) needed += pool_.shortfall(s.kv, s.computed + 1);
    }
    return needed > pool_.free();
  };
  auto stay = static_cast<std::int64_t>(std::count_if(running_.begin(), running_.end(), decodes_now));
  if (stay <= 1 || !blocks_missing()) return;
  // Fewest emitted tokens first; of equals the longest prompt, then the latest.
  const auto goes_before = [&](std::uint32_t a, std::uint32_t b) {
    const Sequence &x = table_[a], &y = table_[b];
    if (x.emitted() != y.emitted()) return x.emitted() < y.emitted();
    return x.prompt != y.prompt ? x.prompt > y.prompt : x.order.arrival > y.order.arrival;
  };
  do {
    std::size_t victim = running_.size();
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const bool is_first = victim == running_.size() || goes_before(running_[i], running_[victim]);
      if (decodes_now(running_[i]) && is_first) victim = i;
    }
    preempt(victim, plan);
    --stay;
  } while (stay > 1 && (blocks_missing() || pool_.free() * pool_.block_tokens() < stay * kRetractDecodeSteps));
  std::int64_t emitted = 0, max_tokens = 0;
  for (const std::uint32_t slot : running_) {
    const Sequence& s = table_[slot];
    if (!decodes_now(slot)) continue;
    emitted += s.emitted();
    max_tokens += s.end - s.prompt;
  }
  ratio_ = std::min(kRatioOne, kRatioOne * (emitted + kRetractDecodeSteps * stay) / (max_tokens + 1));
}

// How many steps go by until the falling ratio, the shrinking answers and the growing KV let the first one in.
std::int64_t SglangScheduler::steps_without_admission(const StepPlan& plan, std::int64_t further_steps_max) const {
  if (waiting_.empty() || is_full()) return further_steps_max;
  const Sequence& s = table_[waiting_.front()];
  const Hit hit = first_hit();
  // With more stages a step beside this one is open to it. In the later steps, a step beside finds as much as the one
  // before it found, or less.
  if (limits_.steps_in_flight_max > 1 && missing(s, hit, pool_.free(), answer_tokens_running(0), ratio_) < 0) return 0;
  constexpr int kLooksMax = 64;  // rather a shorter jump than a long search
  const auto batch = static_cast<std::int64_t>(running_.size());
  std::int64_t further = 1;
  for (int look = 0; look < kLooksMax && further <= further_steps_max; ++look) {
    const std::int64_t answers = answer_tokens_running(further);
    const std::int64_t ratio = decayed(further - (plan.preempted.empty() ? 0 : 1));
    const std::int64_t gap = missing(s, hit, pool_.free() - blocks_taken_after(plan, further - 1), answers, ratio);
    if (gap < 0) return further - 1;
    // At most so much of the gap closes in a step: the ratio falls, and every answer has a token less.
    further += gap / (answers * kRatioDecay + batch * std::max(ratio, kRatioMin)) + 1;
  }
  return std::min(further - 1, further_steps_max);
}

}  // namespace

std::unique_ptr<Scheduler> make_sglang(const SchedulerLimits& limits) {
  return std::make_unique<SglangScheduler>(limits);
}

}  // namespace muster::sched
