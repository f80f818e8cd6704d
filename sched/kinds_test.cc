// Every scheduler, on random traffic and random limits: a jump is its steps one at a time, the invariants hold, the
// limits are kept, and whoever was accepted finishes. A failure prints its seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/core/rng.h"
#include "muster/sched/scheduler.h"
#include "testing/script.h"

namespace muster::sched {
namespace {

using testing::to_text;

constexpr std::uint64_t kFirstSeed = 1;
constexpr std::uint64_t kScenarios = 1200;

std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

// Small on purpose: shortages, full batches and cut prompts in every scenario.
// `long_answers`: for those that estimate them, so long that a ratio falls all the way.
SchedulerLimits random_limits(Rng& rng, bool long_answers) {
  constexpr std::int64_t kBlockTokens[] = {1, 3, 4, 16};
  SchedulerLimits limits;
  limits.max_num_seqs = between(rng, 1, 10);
  limits.max_num_batched_tokens = between(rng, 1, rng.below(2) ? 12 : 100) + (rng.below(4) ? limits.max_num_seqs : 0);
  limits.kv_block_tokens = kBlockTokens[rng.below(4)];
  limits.kv_blocks = between(rng, 1, 1 + (long_answers ? 6000 : 400) / limits.kv_block_tokens);
  limits.long_prefill_token_threshold = rng.below(3) ? 0 : between(rng, 1, 20);
  limits.prefill_tokens_while_decoding = rng.below(2) ? 0 : between(rng, 1, 30);
  limits.steps_in_flight_max = rng.below(2) ? 1 : between(rng, 2, 4);
  if (rng.below(4) == 0) limits.admission_watermark = 0.1 * static_cast<double>(between(rng, 1, 5));
  limits.whole_prompt_must_fit = rng.below(4) == 0;
  limits.content_block_tokens = limits.kv_block_tokens * between(rng, 1, limits.kv_block_tokens == 16 ? 2 : 5);
  return limits;
}

std::string to_text(const SchedulerLimits& l) {
  return fmt::format("tokens {} seqs {} blocks {}x{} threshold {} prefill {} stages {} watermark {} content {}",
                     l.max_num_batched_tokens, l.max_num_seqs, l.kv_blocks, l.kv_block_tokens,
                     l.long_prefill_token_threshold, l.prefill_tokens_while_decoding, l.steps_in_flight_max,
                     l.admission_watermark, l.prefix_caching ? l.content_block_tokens : 0);
}

NewSequence random_sequence(Rng& rng, std::uint32_t id, bool long_answers) {
  NewSequence s;
  s.id = RequestId(id);
  s.prompt_tokens = between(rng, 1, rng.below(4) ? 20 : 80);
  s.max_tokens = between(rng, 1, long_answers ? 2000 : rng.below(4) ? 15 : 60);
  s.priority = static_cast<std::int32_t>(between(rng, -1, 1));
  return s;
}

void expect_same_plan(const StepPlan& a, const StepPlan& b) {
  ASSERT_EQ(to_text(a), to_text(b));
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.prefill_tokens, b.prefill_tokens);
  EXPECT_EQ(a.decode_sequences, b.decode_sequences);
  EXPECT_EQ(a.decode_kv_tokens, b.decode_kv_tokens);
  EXPECT_EQ(a.sampled_sequences, b.sampled_sequences);
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    EXPECT_EQ(a.pieces[i].computed_before, b.pieces[i].computed_before);
    EXPECT_EQ(a.pieces[i].samples, b.pieces[i].samples);
    EXPECT_EQ(a.pieces[i].slot, b.pieces[i].slot);
  }
}

bool same_decodes(const StepPlan& a, const StepPlan& b) {
  return b.preempted.empty() && b.prefill_tokens == 0 &&
         std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(),
                    [](const Piece& x, const Piece& y) { return x.id == y.id; });
}

struct Seen {
  std::int64_t jumps = 0, steps = 0, while_waiting = 0;
  std::int64_t preemptions = 0, finished = 0, refused = 0, longest_tested = 0;
  std::int64_t queried = 0, hit = 0;
  std::int64_t rounds = 0;
};

// Two of a kind, fed the same; one jumps where it can, the other never does.
class Twins {
 public:
  Twins(SchedulerKind kind, const SchedulerLimits& limits, bool long_answers, Rng& rng)
      : kind_(kind),
        limits_(limits),
        long_answers_(long_answers),
        rng_(rng),
        jumper_(make_scheduler(kind, limits)),
        stepper_(make_scheduler(kind, limits)) {}

  bool idle() const { return jumper_->state().running + jumper_->state().waiting == 0 && out_.empty(); }
  bool any_out() const { return !out_.empty(); }

  void add(Seen& seen) {
    NewSequence sequence = random_sequence(rng_, next_id_++, long_answers_);
    // Mostly the same content, so that most sequences share something.
    std::vector<std::uint64_t>& ids = contents_.emplace_back();
    const std::int64_t whole = (sequence.prompt_tokens + sequence.max_tokens) / limits_.content_block_tokens;
    for (std::int64_t i = rng_.below(3) ? 0 : between(rng_, 0, whole); i < whole; ++i)
      ids.push_back(rng_.below(8) ? 0 : 1);
    sequence.content_blocks = ids;
    const bool added = jumper_->add({}, sequence);
    ASSERT_EQ(added, stepper_->add({}, sequence));
    seen.refused += !added;
    may_repeat_ = true;
  }

  void abort() {
    if (next_id_ == 0) return;
    const RequestId id(next_id_ - 1 - static_cast<std::uint32_t>(rng_.below(std::min(next_id_, 12u))));
    ASSERT_EQ(jumper_->abort(id), stepper_->abort(id));
    may_repeat_ = true;
  }

  bool schedule() {
    StepPlan a, b;
    const bool made = jumper_->schedule({}, a);
    EXPECT_EQ(made, stepper_->schedule({}, b));
    expect_same_plan(a, b);
    expect_same_state();
    if (!made) {
      // Whoever runs or waits is served, or a step is out that will make it possible.
      EXPECT_TRUE(any_out() || idle()) << "stuck";
      return false;
    }
    expect_within_limits(a);
    // A jump as long as it was allowed to be ended for a reason.
    if (!may_repeat_) EXPECT_FALSE(same_decodes(last_, a)) << "a jump could have been longer";
    may_repeat_ = true;
    out_.push_back({a, b});
    return true;
  }

  void finish_oldest(Seen& seen) {
    Plans& plans = out_.front();
    const std::int64_t alike = jumper_->steps_alike(plans.jumper);
    const std::int64_t steps = rng_.below(3) ? alike : between(rng_, 1, alike);
    const bool whole_batch = out_.size() == 1 && plans.jumper.prefill_tokens == 0 &&
                             plans.jumper.decode_sequences == jumper_->state().running;
    seen.while_waiting += steps > 1 && jumper_->state().waiting > 0;
    std::vector<RequestId> a, b;
    jumper_->finish_steps({}, plans.jumper, steps, a);
    for (std::int64_t step = 1; step < steps; ++step) {
      StepPlan beside;
      ASSERT_FALSE(stepper_->schedule({}, beside)) << to_text(beside);
      ASSERT_TRUE(beside.preempted.empty());
      stepper_->finish_step({}, plans.stepper, {}, b);
      ASSERT_TRUE(stepper_->schedule({}, plans.stepper));
      ASSERT_TRUE(b.empty());
      check(*stepper_);
    }
    stepper_->finish_step({}, plans.stepper, {}, b);
    ASSERT_EQ(to_text(a), to_text(b));
    last_ = plans.jumper;
    // With a prefix cache a jump may end early, where the first waiting one finds another prefix, but starts not yet.
    may_repeat_ =
        !whole_batch || steps < alike || !a.empty() || limits_.steps_in_flight_max > 1 || limits_.prefix_caching;
    out_.pop_front();
    expect_same_state();
    seen.finished += static_cast<std::int64_t>(a.size());
    seen.jumps += steps > 1;
    seen.steps += steps > 1 ? steps : 0;
    seen.longest_tested += !may_repeat_;
  }

  // If all that is out is alike for some rounds: the jumper takes them, the stepper goes step by step.
  void advance(Seen& seen) {
    std::vector<StepPlan*> plans;
    for (Plans& p : out_) plans.push_back(&p.jumper);
    const std::vector<const StepPlan*> seen_plans(plans.begin(), plans.end());
    const std::int64_t alike = jumper_->rounds_alike(seen_plans);
    if (alike == 0) return;
    const std::int64_t rounds = rng_.below(3) ? alike : between(rng_, 1, alike);
    seen.while_waiting += jumper_->state().waiting > 0;
    jumper_->advance_rounds({}, plans, rounds);
    for (std::size_t step = 0; step < static_cast<std::size_t>(rounds) * out_.size(); ++step) {
      std::vector<RequestId> finished;
      StepPlan beside;
      StepPlan& oldest = out_[step % out_.size()].stepper;
      ASSERT_FALSE(stepper_->schedule({}, beside)) << to_text(beside);
      ASSERT_TRUE(beside.preempted.empty());
      stepper_->finish_step({}, oldest, {}, finished);
      ASSERT_TRUE(finished.empty());
      ASSERT_TRUE(stepper_->schedule({}, oldest));
      ASSERT_EQ(oldest.prefill_tokens, 0) << to_text(oldest);
      check(*stepper_);
    }
    for (const Plans& p : out_) {
      expect_same_plan(p.jumper, p.stepper);
      EXPECT_EQ(p.jumper.step, p.stepper.step);
      EXPECT_TRUE(p.stepper.preempted.empty());
    }
    expect_same_state();
    seen.rounds += rounds;
    seen.jumps += out_.size() > 1;
    may_repeat_ = true;
  }

  SchedulerState state() const { return jumper_->state(); }

 private:
  struct Plans {
    StepPlan jumper, stepper;
  };

  // Long answers mean many steps in large pools: then not at each of them.
  void check(const Scheduler& scheduler) {
    if (!long_answers_ || ++checks_ % 32 == 0) scheduler.check();
  }

  void expect_same_state() {
    check(*jumper_);
    check(*stepper_);
    const SchedulerState x = jumper_->state(), y = stepper_->state();
    EXPECT_EQ(x.running, y.running);
    EXPECT_EQ(x.waiting, y.waiting);
    EXPECT_EQ(x.kv_blocks_used, y.kv_blocks_used);
    EXPECT_EQ(x.prompt_tokens_waiting, y.prompt_tokens_waiting);
    EXPECT_EQ(x.preemptions, y.preemptions);
    EXPECT_EQ(x.prefix_tokens_queried, y.prefix_tokens_queried);
    EXPECT_EQ(x.prefix_tokens_hit, y.prefix_tokens_hit);
  }

  void expect_within_limits(const StepPlan& plan) const {
    std::set<std::uint32_t> slots;
    for (const Piece& piece : plan.pieces) {
      EXPECT_GE(piece.tokens, 1);
      EXPECT_TRUE(slots.insert(piece.slot).second) << "two pieces of one sequence";
    }
    EXPECT_LE(static_cast<std::int64_t>(plan.pieces.size()), limits_.max_num_seqs);
    EXPECT_LE(plan.prefill_tokens, limits_.max_num_batched_tokens);
    if (kind_ == SchedulerKind::kVllm || kind_ == SchedulerKind::kTensorrtLlm || kind_ == SchedulerKind::kMuster ||
        kind_ == SchedulerKind::kTensorrtLlmMaxUtilization)
      EXPECT_LE(plan.prefill_tokens + plan.decode_sequences, limits_.max_num_batched_tokens);
    if (kind_ == SchedulerKind::kSglang || kind_ == SchedulerKind::kStatic)
      EXPECT_TRUE(plan.prefill_tokens == 0 || plan.decode_sequences == 0) << to_text(plan);
    if (kind_ == SchedulerKind::kTensorrtLlm || kind_ == SchedulerKind::kLlamaCpp || kind_ == SchedulerKind::kStatic)
      EXPECT_TRUE(plan.preempted.empty());
  }

  SchedulerKind kind_;
  SchedulerLimits limits_;
  bool long_answers_;
  Rng& rng_;
  std::unique_ptr<Scheduler> jumper_, stepper_;
  std::deque<Plans> out_;
  std::deque<std::vector<std::uint64_t>> contents_;  // stay where they are
  std::uint32_t next_id_ = 0;
  std::uint64_t checks_ = 0;
  StepPlan last_;
  bool may_repeat_ = true;  // the next step may have the same pieces as the last
};

void run(SchedulerKind kind, bool prefix_caching, std::uint64_t seed, Seen& seen) {
  Rng rng = Rng::stream(seed, 0, "scheduler kinds");
  const bool long_answers = rng.below(12) == 0;
  SchedulerLimits limits = random_limits(rng, long_answers);
  limits.prefix_caching = prefix_caching;
  SCOPED_TRACE(fmt::format("{}, seed {}: {}", name(kind), seed, to_text(limits)));
  Twins twins(kind, limits, long_answers, rng);
  for (int round = 0; round < 60 && !::testing::Test::HasFailure(); ++round) {
    for (std::uint64_t arrivals = rng.below(7) == 0 ? rng.below(6) : 0; arrivals > 0; --arrivals) twins.add(seen);
    if (rng.below(15) == 0) twins.abort();
    // Now and then a driver leaves what is ready for later.
    for (bool more = !twins.any_out() || rng.below(3) != 0; more;) more = twins.schedule() && rng.below(8) != 0;
    if (twins.any_out()) twins.finish_oldest(seen);
  }
  // Without arrivals everybody finishes.
  for (int steps = 0; !twins.idle() && !::testing::Test::HasFailure(); ++steps) {
    ASSERT_LT(steps, 100000) << "no end";
    while (twins.schedule() && rng.below(4) != 0 && !::testing::Test::HasFailure()) {
    }
    if (twins.any_out()) twins.finish_oldest(seen);
  }
  seen.preemptions += twins.state().preemptions;
  seen.queried += twins.state().prefix_tokens_queried;
  seen.hit += twins.state().prefix_tokens_hit;
}

class EveryKind : public ::testing::TestWithParam<SchedulerKind> {};

TEST_P(EveryKind, JumpsAsItStepsAndFinishesEverybody) {
  Seen seen;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kScenarios && !HasFailure(); ++seed)
    run(GetParam(), false, seed, seen);
  EXPECT_EQ(seen.queried, 0);
  // The traffic must have visited what is to be tested.
  EXPECT_GT(seen.finished, 12000);
  EXPECT_GT(seen.refused, 500);
  EXPECT_GT(seen.jumps, 3000);
  EXPECT_GT(seen.steps, 3 * seen.jumps);
  EXPECT_GT(seen.while_waiting, 400);
  const bool preempts = GetParam() == SchedulerKind::kVllm || GetParam() == SchedulerKind::kSglang ||
                        GetParam() == SchedulerKind::kTensorrtLlmMaxUtilization || GetParam() == SchedulerKind::kMuster;
  if (preempts) {
    EXPECT_GT(seen.preemptions, 200);
    EXPECT_GT(seen.longest_tested, 200);
  } else {  // a jump of theirs always ends with somebody's last token
    EXPECT_EQ(seen.preemptions, 0);
    EXPECT_EQ(seen.longest_tested, 0);
  }
}

TEST_P(EveryKind, JumpsAsItStepsWithAPrefixCache) {
  Seen seen;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kScenarios / 2 && !HasFailure(); ++seed)
    run(GetParam(), true, seed, seen);
  EXPECT_GT(seen.finished, 6000);
  EXPECT_GT(seen.jumps, 1500);
  EXPECT_GT(seen.steps, 3 * seen.jumps);
  EXPECT_GT(seen.while_waiting, 200);
  if (GetParam() == SchedulerKind::kStatic)  // has no prefix cache: asking for one changes nothing
    EXPECT_EQ(seen.queried, 0);
  else
    EXPECT_GT(10 * seen.hit, seen.queried);
}

void run_rounds(SchedulerKind kind, std::uint64_t seed, Seen& seen) {
  Rng rng = Rng::stream(seed, 0, "scheduler rounds");
  SchedulerLimits limits = random_limits(rng, false);
  limits.steps_in_flight_max = between(rng, 1, 4);
  limits.prefix_caching = rng.below(2) == 0;
  SCOPED_TRACE(fmt::format("{}, seed {}: {}", name(kind), seed, to_text(limits)));
  Twins twins(kind, limits, false, rng);
  for (int round = 0; round < 80 && !::testing::Test::HasFailure(); ++round) {
    if (rng.below(6) == 0) twins.add(seen);
    if (rng.below(25) == 0) twins.abort();
    while (twins.schedule() && rng.below(5) != 0) {
    }
    if (twins.any_out()) twins.advance(seen);
    if (twins.any_out()) twins.finish_oldest(seen);
  }
}

TEST_P(EveryKind, AdvancesMicroBatchesByRoundsAsItSteps) {
  Seen seen;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 2 * kScenarios && !HasFailure(); ++seed)
    run_rounds(GetParam(), seed, seen);
  EXPECT_GT(seen.jumps, 1200);
  EXPECT_GT(seen.rounds, 3 * seen.jumps);
  if (GetParam() != SchedulerKind::kSglang && GetParam() != SchedulerKind::kMuster) EXPECT_GT(seen.while_waiting, 50);
}

TEST_P(EveryKind, IsFoundByItsName) {
  EXPECT_EQ(parse_scheduler(name(GetParam())), GetParam());
  EXPECT_EQ(make_scheduler(GetParam(), {.kv_blocks = 10})->name(), name(GetParam()));
  EXPECT_EQ(parse_scheduler("vlm"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, ::testing::ValuesIn(kSchedulerKinds), [](const auto& kind) {
  std::string text(name(kind.param));
  std::erase_if(text, [](char c) { return c == '-' || c == '.'; });
  return text;
});

}  // namespace
}  // namespace muster::sched
