// How long steps take, with decode-only steps read from a table instead of evaluated.
//
// A fleet spends most of its steps on decode alone, and such a step's time depends on two numbers: how many sequences,
// and how many KV tokens they have together. The clock evaluates the timer at multiples of kKnot KV tokens (once each,
// when first needed) and takes integer linear interpolation between them as THE time of a decode-only step, jumped over
// or not. So a jump adds up the very numbers that stepping would, at about a nanosecond each. For a timer that is
// linear in the KV tokens, as attention over a cache is, the table differs from it by rounding only (< 1 ns).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/core/time.h"
#include "muster/sched/scheduler.h"
#include "muster/sim/step_timer.h"

namespace muster::sim {

class StepClock {
 public:
  static constexpr int kKnotBits = 9;
  static constexpr std::int64_t kKnot = std::int64_t{1} << kKnotBits;  // KV tokens

  explicit StepClock(const StepTimer& timer);

  int stages() const { return static_cast<int>(stages_); }

  // How long each stage is busy with this step. [stages()]
  void stage_times(const sched::StepPlan& plan, std::span<Duration> times);

  // A decode-only step of so many sequences with so many KV tokens in all (before the step).
  Duration decode_time(std::size_t stage, std::int64_t sequences, std::int64_t kv_tokens) {
    const auto [time, slope] = segment(stage, sequences, kv_tokens);
    return Duration(time + ((slope * (kv_tokens & (kKnot - 1))) >> kKnotBits));
  }

  // ... through an empty pipeline: the sum over the stages.
  Duration decode_latency(std::int64_t sequences, std::int64_t kv_tokens) {
    Duration sum(0);
    for (std::size_t stage = 0; stage < stages_; ++stage) sum += decode_time(stage, sequences, kv_tokens);
    return sum;
  }

  // Steps that follow one another: each adds one KV token to every sequence.
  struct Run {
    std::int64_t steps = 0;
    Duration time{0};
  };
  // All of `steps`.
  Run decode_run(std::int64_t sequences, std::int64_t kv_tokens, std::int64_t steps);
  // ... of one stage.
  Duration decode_run_of_stage(std::size_t stage, std::int64_t sequences, std::int64_t kv_tokens, std::int64_t steps);
  // As many of them as are over after `limit`.
  Run decode_run_within(std::int64_t sequences, std::int64_t kv_tokens, std::int64_t steps, Duration limit);

 private:
  // Between two knots: the time at the lower one, ns, and how much longer it is at the upper one.
  struct Segment {
    std::int64_t time = 0, slope = 0;
  };
  Segment segment(std::size_t stage, std::int64_t sequences, std::int64_t kv_tokens) {
    const auto row = static_cast<std::size_t>(sequences) * stages_ + stage;
    const auto knot = static_cast<std::size_t>(kv_tokens >> kKnotBits);
    if (row >= rows_.size() || knot + 1 >= rows_[row].size() || rows_[row][knot] == 0 || rows_[row][knot + 1] == 0)
        [[unlikely]]
      fill(row, knot);
    return {rows_[row][knot], rows_[row][knot + 1] - rows_[row][knot]};
  }
  void fill(std::size_t row, std::size_t knot);
  std::int64_t evaluate(std::size_t row, std::size_t knot) const;

  const StepTimer& timer_;
  std::size_t stages_;
  std::vector<std::vector<std::int64_t>> rows_;  // [sequences * stages + stage][knot] ns; 0: not evaluated yet
  std::vector<cost::PrefillChunk> chunks_;       // of the step being timed
};

}  // namespace muster::sim
