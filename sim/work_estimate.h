// What a router can know of a request's device time before it ran: its prompt, and how long answers have been so far.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "muster/core/time.h"
#include "muster/sched/scheduler.h"
#include "muster/sim/step_timer.h"

namespace muster::sim {

class WorkEstimate {
 public:
  // Output tokens expected of the first request; a mean over those completed takes over.
  static constexpr double kOutputTokensPrior = 256;

  // Of the slowest stage, as that one bounds what a replica gets done.
  WorkEstimate(const StepTimer& timer, const sched::SchedulerLimits& limits) {
    const auto slowest = [&](const cost::StepShape& shape) {
      Duration longest(0);
      for (int stage = 0; stage < timer.stages(); ++stage) longest = std::max(longest, timer.stage_time(stage, shape));
      return longest.count();
    };
    for (std::size_t i = 0; i < prefill_ns_.size(); ++i) {
      const cost::PrefillChunk whole{.tokens = std::int64_t{1} << i, .prefix = 0};
      prefill_ns_[i] = slowest({.prefills = {&whole, 1}, .decode_kv_tokens = 0, .sampled_sequences = 1});
    }
    const std::int64_t sequences = std::min(limits.max_num_seqs, kTypicalBatch);
    decode_ns_ = slowest({.prefills = {},
                          .decode_sequences = sequences,
                          .decode_kv_tokens = sequences * kTypicalContext,
                          .sampled_sequences = sequences}) /
                 sequences;
  }

  // `output_tokens`: as many as are expected.
  Duration of(std::int64_t input_tokens, double output_tokens) const {
    // Between powers of two: long prompts cost more than in proportion, so a mean per token would not do.
    const auto i = std::min<std::size_t>(std::bit_width(static_cast<std::uint64_t>(input_tokens)) - 1u, kPowers - 2);
    const double share = static_cast<double>(input_tokens) / static_cast<double>(std::int64_t{1} << i) - 1;
    const double prefill =
        static_cast<double>(prefill_ns_[i]) + share * static_cast<double>(prefill_ns_[i + 1] - prefill_ns_[i]);
    return Duration(static_cast<std::int64_t>(prefill + output_tokens * static_cast<double>(decode_ns_)));
  }

 private:
  static constexpr std::size_t kPowers = 18;             // prompts up to 2^17 tokens; extrapolated beyond
  static constexpr std::int64_t kTypicalBatch = 32;      // sequences
  static constexpr std::int64_t kTypicalContext = 1024;  // tokens
  std::array<std::int64_t, kPowers> prefill_ns_{};       // [log2 of the prompt tokens]
  std::int64_t decode_ns_ = 0;                           // of one token
};

}  // namespace muster::sim
