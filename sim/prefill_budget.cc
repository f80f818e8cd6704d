#include "muster/sim/prefill_budget.h"

#include <algorithm>

namespace muster::sim {

std::int64_t prefill_tokens_within(Duration tpot, const StepTimer& timer, const sched::SchedulerLimits& limits) {
  constexpr std::int64_t kTypicalBatch = 32;      // sequences
  constexpr std::int64_t kTypicalContext = 1024;  // tokens
  const std::int64_t decodes = std::min(limits.max_num_seqs, kTypicalBatch);
  const auto fits = [&](std::int64_t tokens) {
    const cost::PrefillChunk chunk{.tokens = tokens, .prefix = 0};
    Duration sum(0);
    for (int stage = 0; stage < timer.stages(); ++stage)
      sum += timer.stage_time(stage, {.prefills = {&chunk, 1},
                                      .decode_sequences = decodes,
                                      .decode_kv_tokens = decodes * kTypicalContext,
                                      .sampled_sequences = decodes + 1});
    return sum <= tpot;
  };
  std::int64_t enough = 1, too_many = limits.max_num_batched_tokens + 1;
  while (too_many - enough > 1) {
    const std::int64_t middle = enough + (too_many - enough) / 2;
    (fits(middle) ? enough : too_many) = middle;
  }
  return enough;
}

}  // namespace muster::sim
