#include "step_clock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::LinearTimer;

// Curved in the KV tokens, with a kink, as tables of measured kernels are.
struct CurvedTimer final : StepTimer {
  int stages() const override { return 2; }
  Duration stage_time(int stage, const cost::StepShape& shape) const override {
    const auto kv = static_cast<double>(shape.decode_kv_tokens);
    const double us = 900 + 3 * static_cast<double>(shape.decode_sequences) + 0.01 * kv + 2 * std::sqrt(kv) +
                      (kv > 30000 ? 0.005 * (kv - 30000) : 0) + stage * 50;
    return from_seconds(us * 1e-6);
  }
};

TEST(StepClock, IsWithinANanosecondOfALinearTimer) {
  LinearTimer timer(3ms);
  timer.ns_per_1000_kv_tokens = 12345;
  timer.per_sequence = 777ns;
  StepClock clock(timer);
  Rng rng = Rng::stream(1, 0, "step clock");
  for (int i = 0; i < 20000; ++i) {
    const auto sequences = static_cast<std::int64_t>(1 + rng.below(300));
    const auto kv = sequences + static_cast<std::int64_t>(rng.below(500000));
    const Duration exact = timer.stage_time(0, {.prefills = {}, .decode_sequences = sequences, .decode_kv_tokens = kv});
    ASSERT_NEAR(static_cast<double>(clock.decode_time(0, sequences, kv).count()), static_cast<double>(exact.count()),
                kv < StepClock::kKnot ? 12.4 * static_cast<double>(sequences) : 2)
        << sequences << " sequences, " << kv << " KV tokens";
  }
}

TEST(StepClock, IsWithinAPermilleOfACurvedTimer) {
  const CurvedTimer timer;
  StepClock clock(timer);
  Rng rng = Rng::stream(2, 0, "step clock");
  for (int i = 0; i < 20000; ++i) {
    const auto sequences = static_cast<std::int64_t>(1 + rng.below(64));
    const auto kv = 512 + static_cast<std::int64_t>(rng.below(200000));
    for (const int stage : {0, 1}) {
      const Duration exact =
          timer.stage_time(stage, {.prefills = {}, .decode_sequences = sequences, .decode_kv_tokens = kv});
      ASSERT_NEAR(to_seconds(clock.decode_time(static_cast<std::size_t>(stage), sequences, kv)), to_seconds(exact),
                  1e-3 * to_seconds(exact));
    }
  }
}

TEST(StepClock, ARunIsTheSumOfItsSteps) {
  const CurvedTimer timer;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "run");
    StepClock clock(timer);
    const auto sequences = static_cast<std::int64_t>(1 + rng.below(40));
    const auto kv = sequences + static_cast<std::int64_t>(rng.below(60000));
    const auto steps = static_cast<std::int64_t>(1 + rng.below(2000));
    Duration sum(0);
    std::vector<Duration> ends;
    for (std::int64_t i = 0; i < steps; ++i) {
      sum += clock.decode_time(0, sequences, kv + i * sequences) + clock.decode_time(1, sequences, kv + i * sequences);
      ends.push_back(sum);
    }
    EXPECT_EQ(clock.decode_run(sequences, kv, steps).time, sum);
    const std::size_t k = rng.below(static_cast<std::uint64_t>(steps));
    const auto at_end = clock.decode_run_within(sequences, kv, steps, ends[k]);
    EXPECT_EQ(at_end.steps, static_cast<std::int64_t>(k) + 1);
    EXPECT_EQ(at_end.time, ends[k]);
    const auto just_before = clock.decode_run_within(sequences, kv, steps, ends[k] - Duration(1));
    EXPECT_EQ(just_before.steps, static_cast<std::int64_t>(k));
    EXPECT_EQ(clock.decode_run_within(sequences, kv, steps, sum + 1s).steps, steps);
  }
}

TEST(StepClock, StepsWithPromptsAreTheTimersOwn) {
  LinearTimer timer(1ms);
  timer.stage_count = 2;
  timer.skew = 10us;
  timer.per_prefill_token = 100ns;
  StepClock clock(timer);
  sched::StepPlan plan;
  plan.pieces.push_back({.id = RequestId(1), .tokens = 500, .computed_before = 0});
  plan.pieces.push_back({.id = RequestId(2), .tokens = 1, .computed_before = 80, .decode = true, .samples = true});
  plan.prefill_tokens = 500;
  plan.decode_sequences = 1;
  plan.decode_kv_tokens = 80;
  std::vector<Duration> times(2);
  clock.stage_times(plan, times);
  EXPECT_EQ(times[0], 1050us);
  EXPECT_EQ(times[1], 1060us);
}

}  // namespace
}  // namespace muster::sim
