// Random traffic on random limits: the scheduler against the slow reference, plan by plan, and a jump against the same
// steps one at a time. A failure prints its seed; run one alone with --gtest_filter and the seed in kFirstSeed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "muster/core/rng.h"
#include "muster/sched/scheduler.h"
#include "testing/reference_scheduler.h"
#include "testing/script.h"

namespace muster::sched {
namespace {

using testing::ReferenceScheduler;
using testing::to_text;

constexpr std::uint64_t kFirstSeed = 1;
constexpr std::uint64_t kScenarios = 2000;

std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

// Small on purpose: shortages, full batches and cut prompts in every scenario.
SchedulerLimits random_limits(Rng& rng) {
  constexpr std::int64_t kBlockTokens[] = {1, 3, 4, 16};
  SchedulerLimits limits;
  limits.max_num_batched_tokens = between(rng, 1, rng.below(2) ? 12 : 100);
  limits.max_num_seqs = between(rng, 1, 10);
  limits.kv_block_tokens = kBlockTokens[rng.below(4)];
  limits.kv_blocks = between(rng, 1, 1 + 200 / limits.kv_block_tokens);
  limits.long_prefill_token_threshold = rng.below(3) ? 0 : between(rng, 1, 20);
  limits.steps_in_flight_max = rng.below(2) ? 1 : between(rng, 2, 4);
  if (rng.below(3) == 0) limits.admission_watermark = 0.1 * static_cast<double>(between(rng, 1, 5));
  limits.whole_prompt_must_fit = rng.below(3) == 0;
  return limits;
}

// Content of few kinds, so that most sequences share something: a tree in which every content block goes on as one of
// two, with ids that come again at other places. Kept for as long as the schedulers live.
class Contents {
 public:
  Contents(const SchedulerLimits& limits, Rng& rng) : limits_(limits), rng_(rng) {}

  void put_into(NewSequence& sequence) {
    if (!limits_.prefix_caching) return;
    const auto whole =
        static_cast<std::uint64_t>((sequence.prompt_tokens + sequence.max_tokens) / limits_.content_block_tokens);
    std::vector<std::uint64_t>& ids = ids_.emplace_back();
    for (std::uint64_t i = 0; i < (rng_.below(3) ? whole : rng_.below(whole + 1)); ++i)
      ids.push_back(rng_.below(8) ? 0 : 1);
    sequence.content_blocks = ids;
  }

 private:
  SchedulerLimits limits_;
  Rng& rng_;
  std::deque<std::vector<std::uint64_t>> ids_;
};

void cache_prefixes(SchedulerLimits& limits, Rng& rng) {
  limits.prefix_caching = true;
  limits.content_block_tokens = limits.kv_block_tokens * between(rng, 1, limits.kv_block_tokens == 16 ? 2 : 5);
}

std::string to_text(const SchedulerLimits& l) {
  return fmt::format("tokens {} seqs {} blocks {}x{} threshold {} stages {} content {} watermark {} whole {}",
                     l.max_num_batched_tokens, l.max_num_seqs, l.kv_blocks, l.kv_block_tokens,
                     l.long_prefill_token_threshold, l.steps_in_flight_max, l.content_block_tokens,
                     l.admission_watermark, l.whole_prompt_must_fit);
}

NewSequence random_sequence(Rng& rng, std::uint32_t id, bool with_priorities) {
  NewSequence s;
  s.id = RequestId(id);
  s.prompt_tokens = between(rng, 1, rng.below(4) ? 20 : 80);
  s.max_tokens = between(rng, 1, rng.below(4) ? 15 : 60);
  s.priority = with_priorities ? static_cast<std::int32_t>(between(rng, -1, 1)) : 0;
  return s;
}

// `slots`: whether the two come from the same kind of scheduler.
void expect_same_plan(const StepPlan& a, const StepPlan& b, bool slots) {
  ASSERT_EQ(to_text(a), to_text(b));
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.prefill_tokens, b.prefill_tokens);
  EXPECT_EQ(a.decode_sequences, b.decode_sequences);
  EXPECT_EQ(a.decode_kv_tokens, b.decode_kv_tokens);
  EXPECT_EQ(a.sampled_sequences, b.sampled_sequences);
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    EXPECT_EQ(a.pieces[i].id, b.pieces[i].id);
    EXPECT_EQ(a.pieces[i].computed_before, b.pieces[i].computed_before);
    EXPECT_EQ(a.pieces[i].samples, b.pieces[i].samples);
    if (slots) {
      EXPECT_EQ(a.pieces[i].slot, b.pieces[i].slot);
    }
  }
}

void expect_same_state(const Scheduler& a, const Scheduler& b) {
  a.check();
  b.check();
  const SchedulerState x = a.state(), y = b.state();
  EXPECT_EQ(x.running, y.running);
  EXPECT_EQ(x.waiting, y.waiting);
  EXPECT_EQ(x.kv_blocks_used, y.kv_blocks_used);
  EXPECT_EQ(x.kv_blocks_total, y.kv_blocks_total);
  EXPECT_EQ(x.prompt_tokens_waiting, y.prompt_tokens_waiting);
  EXPECT_EQ(x.preemptions, y.preemptions);
  EXPECT_EQ(x.prefix_tokens_queried, y.prefix_tokens_queried);
  EXPECT_EQ(x.prefix_tokens_hit, y.prefix_tokens_hit);
}

// The scheduler and its oracle, fed the same.
class Pair {
 public:
  explicit Pair(const SchedulerLimits& limits)
      : limits_(limits),
        fast_(make_scheduler(SchedulerKind::kVllm, limits)),
        slow_(std::make_unique<ReferenceScheduler>(limits)) {}

  bool any_out() const { return !out_.empty(); }
  bool idle() const { return fast_->state().running + fast_->state().waiting == 0 && out_.empty(); }
  const std::set<std::uint32_t>& ids() const { return ids_; }
  SchedulerState state() const { return fast_->state(); }
  std::int64_t withdrawn_in_flight() const { return in_flight_victims_; }

  void add(const NewSequence& sequence) {
    const bool added = fast_->add({}, sequence);
    ASSERT_EQ(added, slow_->add({}, sequence));
    if (added) ids_.insert(sequence.id.value);
    expect_same_state(*fast_, *slow_);
  }

  void abort(std::uint32_t id) {
    ASSERT_EQ(fast_->abort(RequestId(id)), ids_.contains(id));
    ASSERT_EQ(slow_->abort(RequestId(id)), ids_.contains(id));
    ids_.erase(id);
    slot_of_.erase(id);
    expect_same_state(*fast_, *slow_);
  }

  // False: nothing to run now.
  bool schedule() {
    Plans plans;
    const bool made = fast_->schedule({}, plans.fast);
    EXPECT_EQ(made, slow_->schedule({}, plans.slow));
    expect_same_plan(plans.fast, plans.slow, false);
    expect_same_state(*fast_, *slow_);
    expect_within_limits(plans.fast);
    for (RequestId id : plans.fast.preempted) in_flight_victims_ += in_a_step(id);
    if (made) {
      out_.push_back(plans);
    } else {
      // Whoever runs or waits is served, or a step is out that will make it possible.
      EXPECT_TRUE(!out_.empty() || idle()) << "stuck";
    }
    return made;
  }

  void finish_oldest(const std::vector<RequestId>& stopped) {
    std::vector<RequestId> fast_finished, slow_finished;
    fast_->finish_step({}, out_.front().fast, stopped, fast_finished);
    slow_->finish_step({}, out_.front().slow, stopped, slow_finished);
    out_.pop_front();
    ASSERT_EQ(to_text(fast_finished), to_text(slow_finished));
    for (RequestId id : fast_finished) {
      ids_.erase(id.value);
      slot_of_.erase(id.value);
    }
    expect_same_state(*fast_, *slow_);
  }

  // Some of those whose last known token the oldest step computes.
  std::vector<RequestId> some_that_sample(Rng& rng) const {
    std::vector<RequestId> stopped;
    for (const Piece& piece : out_.front().fast.pieces) {
      if (piece.samples && rng.below(20) == 0) stopped.push_back(piece.id);
    }
    return stopped;
  }

 private:
  struct Plans {
    StepPlan fast, slow;
  };

  bool in_a_step(RequestId id) const {
    return std::any_of(out_.begin(), out_.end(), [&](const Plans& plans) {
      return std::any_of(plans.fast.pieces.begin(), plans.fast.pieces.end(),
                         [&](const Piece& piece) { return piece.id == id; });
    });
  }

  void expect_within_limits(const StepPlan& plan) {
    std::int64_t tokens = 0;
    std::set<std::uint32_t> slots;
    for (const Piece& piece : plan.pieces) {
      tokens += piece.tokens;
      EXPECT_GE(piece.tokens, 1);
      EXPECT_TRUE(slots.insert(piece.slot).second) << "two pieces of one sequence";
      const auto [it, is_new] = slot_of_.try_emplace(piece.id.value, piece.slot);
      EXPECT_EQ(it->second, piece.slot) << "request " << piece.id.value << " changed its slot";
    }
    EXPECT_LE(tokens, limits_.max_num_batched_tokens);
    EXPECT_EQ(tokens, plan.prefill_tokens + plan.decode_sequences);
  }

  SchedulerLimits limits_;
  std::unique_ptr<Scheduler> fast_;
  std::unique_ptr<ReferenceScheduler> slow_;
  std::deque<Plans> out_;
  std::set<std::uint32_t> ids_;                     // in the schedulers
  std::map<std::uint32_t, std::uint32_t> slot_of_;  // of those that ran
  std::int64_t in_flight_victims_ = 0;
};

struct Seen {
  std::int64_t preemptions = 0, in_flight_victims = 0, aborts = 0, stops = 0;
  std::int64_t queried = 0, hit = 0;
};

void run_pair(std::uint64_t seed, bool prefix_caching, Seen& seen) {
  Rng rng = Rng::stream(seed, 0, "sched pair");
  SchedulerLimits limits = random_limits(rng);
  if (prefix_caching) cache_prefixes(limits, rng);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, to_text(limits)));
  const bool with_priorities = rng.below(2) == 0;
  Contents contents(limits, rng);
  Pair pair(limits);
  std::uint32_t next_id = static_cast<std::uint32_t>(rng.below(1000));
  for (int i = 0; i < 120 && !::testing::Test::HasFailure(); ++i) {
    switch (rng.below(8)) {
      case 0:
      case 1:
        pair.add([&] {
          NewSequence sequence = random_sequence(rng, next_id++, with_priorities);
          contents.put_into(sequence);
          return sequence;
        }());
        break;
      case 2:
        if (rng.below(3) == 0 && next_id > 0) {
          pair.abort(next_id - 1 - static_cast<std::uint32_t>(rng.below(std::min(next_id, 12u))));
          ++seen.aborts;
        }
        break;
      case 3:
      case 4:
      case 5:
        pair.schedule();
        break;
      default:
        if (!pair.any_out()) break;
        const std::vector<RequestId> stopped = pair.some_that_sample(rng);
        seen.stops += static_cast<std::int64_t>(stopped.size());
        pair.finish_oldest(stopped);
    }
  }
  // Without arrivals everybody finishes.
  for (int steps = 0; !pair.idle() && !::testing::Test::HasFailure(); ++steps) {
    ASSERT_LT(steps, 100000) << "no end";
    while (pair.schedule() && rng.below(4) != 0) {
    }
    if (pair.any_out()) pair.finish_oldest({});
  }
  seen.preemptions += pair.state().preemptions;
  seen.queried += pair.state().prefix_tokens_queried;
  seen.hit += pair.state().prefix_tokens_hit;
  seen.in_flight_victims += pair.withdrawn_in_flight();
}

class VllmProperty : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PrefixCaching, VllmProperty, ::testing::Bool(),
                         [](const auto& on) { return std::string(on.param ? "On" : "Off"); });

TEST_P(VllmProperty, SchedulesWhatTheReferenceSchedules) {
  Seen seen;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kScenarios && !HasFailure(); ++seed)
    run_pair(seed, GetParam(), seen);
  // The traffic must have visited the rare states.
  EXPECT_GT(seen.preemptions, 10000);
  EXPECT_GT(seen.in_flight_victims, 100);
  EXPECT_GT(seen.aborts, 1000);
  EXPECT_GT(seen.stops, 1000);
  EXPECT_EQ(seen.queried > 0, GetParam());
  EXPECT_GE(5 * seen.hit, seen.queried);
}

struct Jumps {
  std::int64_t jumps = 0, steps = 0;   // with n > 1
  std::int64_t while_waiting = 0;      // of the jumps: somebody waited
  std::int64_t ended_by_shortage = 0;  // of the jumps: the next step preempted
  std::int64_t could_be_longer = 0;
};

void run_jump(std::uint64_t seed, bool prefix_caching, Jumps& seen) {
  Rng rng = Rng::stream(seed, 0, "sched jump");
  SchedulerLimits limits = random_limits(rng);
  limits.max_num_batched_tokens += limits.max_num_seqs;  // as vLLM demands; otherwise there is nothing to jump over
  if (prefix_caching) cache_prefixes(limits, rng);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, to_text(limits)));
  Contents contents(limits, rng);
  const auto jumper = make_scheduler(SchedulerKind::kVllm, limits);
  const auto stepper = make_scheduler(SchedulerKind::kVllm, limits);
  ReferenceScheduler slow(limits);
  std::deque<StepPlan> out, stepper_out, slow_out;
  std::uint32_t next_id = 0;
  bool after_jump = false;
  for (int round = 0; round < 60 && !::testing::Test::HasFailure(); ++round) {
    for (std::uint64_t arrivals = rng.below(12) == 0 ? rng.below(8) : 0; arrivals > 0; --arrivals) {
      NewSequence sequence = random_sequence(rng, next_id++, true);
      contents.put_into(sequence);
      const bool added = jumper->add({}, sequence);
      ASSERT_EQ(added, stepper->add({}, sequence));
      ASSERT_EQ(added, slow.add({}, sequence));
    }
    if (next_id > 0 && rng.below(15) == 0) {
      const RequestId id(next_id - 1 - static_cast<std::uint32_t>(rng.below(std::min(next_id, 12u))));
      const bool known = jumper->abort(id);
      ASSERT_EQ(known, stepper->abort(id));
      ASSERT_EQ(known, slow.abort(id));
    }
    // Now and then a driver leaves what is ready for later.
    for (bool more = out.empty() || rng.below(4) != 0; more;) {
      StepPlan a, b, c;
      more = jumper->schedule({}, a);
      ASSERT_EQ(more, stepper->schedule({}, b));
      ASSERT_EQ(more, slow.schedule({}, c));
      expect_same_plan(a, b, true);
      expect_same_plan(a, c, false);
      seen.ended_by_shortage += after_jump && !a.preempted.empty();
      after_jump = false;
      if (!more) break;
      out.push_back(a);
      stepper_out.push_back(b);
      slow_out.push_back(c);
      more = rng.below(8) != 0;
    }
    if (out.empty()) continue;

    const std::int64_t alike = jumper->steps_alike(out.front());
    // With a prefix cache a jump may end early, where the first waiting one finds another prefix, but starts not yet.
    const std::int64_t longest = slow.steps_alike(slow_out.front());
    ASSERT_TRUE(prefix_caching ? alike <= longest : alike == longest) << alike << " of " << longest;
    seen.could_be_longer += alike < longest;
    const std::int64_t steps = rng.below(3) ? alike : between(rng, 1, alike);
    std::vector<RequestId> a, b, c;
    seen.while_waiting += steps > 1 && jumper->state().waiting > 0;
    jumper->finish_steps({}, out.front(), steps, a);
    for (std::int64_t step = 1; step < steps; ++step) {
      stepper->finish_step({}, stepper_out.front(), {}, b);
      ASSERT_TRUE(stepper->schedule({}, stepper_out.front()));
      ASSERT_TRUE(b.empty());
      stepper->check();
    }
    stepper->finish_step({}, stepper_out.front(), {}, b);
    slow.finish_steps({}, slow_out.front(), steps, c);
    ASSERT_EQ(to_text(a), to_text(b));
    ASSERT_EQ(to_text(a), to_text(c));
    expect_same_state(*jumper, *stepper);
    expect_same_state(*jumper, slow);
    out.pop_front();
    stepper_out.pop_front();
    slow_out.pop_front();
    seen.jumps += steps > 1;
    seen.steps += steps > 1 ? steps : 0;
    after_jump = steps > 1 && steps == alike;
  }
}

TEST_P(VllmProperty, AJumpIsItsStepsOneAtATime) {
  Jumps seen;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kScenarios && !HasFailure(); ++seed)
    run_jump(seed, GetParam(), seen);
  EXPECT_GT(seen.jumps, 5000);
  EXPECT_GT(seen.steps, 3 * seen.jumps);
  EXPECT_GT(seen.while_waiting, 500);
  EXPECT_GT(seen.ended_by_shortage, 500);
  EXPECT_LT(10 * seen.could_be_longer, seen.jumps);
}

}  // namespace
}  // namespace muster::sched
