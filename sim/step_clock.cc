#include "step_clock.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sim {

StepClock::StepClock(const StepTimer& timer) : timer_(timer), stages_(static_cast<std::size_t>(timer.stages())) {
  MUSTER_CHECK(timer.stages() >= 1, "a replica has at least one stage, got {}", timer.stages());
}

void StepClock::stage_times(const sched::StepPlan& plan, std::span<Duration> times) {
  if (plan.prefill_tokens == 0) {
    for (std::size_t stage = 0; stage < stages_; ++stage)
      times[stage] = decode_time(stage, plan.decode_sequences, plan.decode_kv_tokens);
    return;
  }
  chunks_.clear();
  for (const sched::Piece& piece : plan.pieces)
    if (!piece.decode) chunks_.push_back({.tokens = piece.tokens, .prefix = piece.computed_before});
  const cost::StepShape shape{.prefills = chunks_,
                              .decode_sequences = plan.decode_sequences,
                              .decode_kv_tokens = plan.decode_kv_tokens,
                              .sampled_sequences = plan.sampled_sequences};
  for (std::size_t stage = 0; stage < stages_; ++stage) {
    times[stage] = timer_.stage_time(static_cast<int>(stage), shape);
    MUSTER_CHECK(times[stage] >= Duration(1), "stage {} takes {} ns for a step", stage, times[stage].count());
  }
}

StepClock::Run StepClock::decode_run(std::int64_t sequences, std::int64_t kv_tokens, std::int64_t steps) {
  Run run{.steps = steps};
  for (std::size_t stage = 0; stage < stages_; ++stage)
    run.time += decode_run_of_stage(stage, sequences, kv_tokens, steps);
  return run;
}

Duration StepClock::decode_run_of_stage(std::size_t stage, std::int64_t sequences, std::int64_t kv_tokens,
                                        std::int64_t steps) {
  std::int64_t kv = kv_tokens, left = steps, sum = 0;
  // From knot to knot: in between, what decode_time() adds to the knot's time only grows by a constant.
  while (left > 0) {
    const std::int64_t offset = kv & (kKnot - 1);
    const std::int64_t here = std::min(left, (kKnot - offset + sequences - 1) / sequences);
    const auto [time, slope] = segment(stage, sequences, kv);
    std::int64_t scaled = slope * offset;
    sum += here * time;
    for (std::int64_t i = 0; i < here; ++i, scaled += slope * sequences) sum += scaled >> kKnotBits;
    left -= here;
    kv += here * sequences;
  }
  return Duration(sum);
}

StepClock::Run StepClock::decode_run_within(std::int64_t sequences, std::int64_t kv_tokens, std::int64_t steps,
                                            Duration limit) {
  Run run;
  for (; run.steps < steps; ++run.steps) {
    const Duration longer = run.time + decode_latency(sequences, kv_tokens + run.steps * sequences);
    if (longer > limit) break;
    run.time = longer;
  }
  return run;
}

void StepClock::fill(std::size_t row, std::size_t knot) {
  if (row >= rows_.size()) rows_.resize(row + 1);
  if (knot + 1 >= rows_[row].size()) rows_[row].resize(knot + 2);
  for (const std::size_t k : {knot, knot + 1})
    if (rows_[row][k] == 0) rows_[row][k] = evaluate(row, k);
}

std::int64_t StepClock::evaluate(std::size_t row, std::size_t knot) const {
  const auto sequences = static_cast<std::int64_t>(row / stages_);
  const auto stage = static_cast<int>(row % stages_);
  // Every decoding sequence has at least one KV token, so the timer is never asked about fewer.
  const std::int64_t kv_tokens = std::max(static_cast<std::int64_t>(knot) << kKnotBits, sequences);
  const Duration time = timer_.stage_time(
      stage,
      {.prefills = {}, .decode_sequences = sequences, .decode_kv_tokens = kv_tokens, .sampled_sequences = sequences});
  MUSTER_CHECK(time >= Duration(1), "stage {} takes {} ns to decode {} sequences", stage, time.count(), sequences);
  return time.count();
}

}  // namespace muster::sim
