#include "muster/sched/scheduler.h"

namespace muster::sched {

void StepPlan::clear() {
  step = 0;
  pieces.clear();
  preempted.clear();
  prefill_tokens = 0;
  decode_sequences = 0;
  decode_kv_tokens = 0;
  sampled_sequences = 0;
}

}  // namespace muster::sched
