// How many prompt tokens may join a step of decodes so that it still ends within a TPOT target: what the driver of
// muster's own scheduler hands to it as SchedulerLimits::prefill_tokens_while_decoding.
#pragma once

#include <cstdint>

#include "muster/core/time.h"
#include "muster/sched/scheduler.h"
#include "muster/sim/step_timer.h"

namespace muster::sim {

// For a batch of min(max_num_seqs, 32) decodes of 1,024 tokens each, over all stages (a sequence is in one step at a
// time). At least 1: then not even one fits, and the scheduler gives prompts its minimum. At most
// max_num_batched_tokens.
std::int64_t prefill_tokens_within(Duration tpot, const StepTimer& timer, const sched::SchedulerLimits& limits);

}  // namespace muster::sim
