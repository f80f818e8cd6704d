// The slots of llama.cpp's server, as its documentation describes them (tools/server README and README-dev: --parallel,
// --ctx-size, --batch-size, continuous batching). The rules:
//
//  1. There are n_parallel slots (max_num_seqs here), each with an equal, fixed share of the context: the KV blocks of
//     the pool, divided by the slots and rounded down to whole blocks. A request holds the share of its slot from start
//     to end. One that needs more than a share is refused. With fewer blocks than slots, a slot each.
//  2. All slots share one batch. First every generating slot adds its one token, whatever the batch size; then prompts
//     add pieces until the batch has n_batch tokens (max_num_batched_tokens), each as much as is left: a long prompt
//     may fill the batch and keep later ones out.
//  3. A request that finds no idle slot waits; order is (priority, arrival). Nobody is ever preempted.
//
// Where this differs: (a) llama.cpp cuts an answer off where its slot's context ends; here prompt + max_tokens must
// fit, as a trace says how long an answer is; (b) prompts go in the order in which they got their slots, llama.cpp goes
// by slot number; (c) no prompt cache in an idle slot, and no unified KV cache (--kv-unified).
#include <algorithm>

#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

SchedulerLimits with_a_block_each(SchedulerLimits limits) {
  limits.max_num_seqs = std::min(limits.max_num_seqs, limits.kv_blocks);
  return limits;
}

class LlamaCppScheduler final : public BatchScheduler {
 public:
  explicit LlamaCppScheduler(const SchedulerLimits& limits)
      : BatchScheduler(with_a_block_each(limits)),
        slot_blocks_(
            std::min(pool_.total() / limits_.max_num_seqs, KvBlockPool::kMaxSequenceTokens / pool_.block_tokens())) {
    ignore_long_prefill_threshold();
  }
  std::string_view name() const override { return "llama.cpp"; }

 private:
  std::int64_t fill(StepPlan& plan) override {
    schedule_running<Kind::kDecodes>(kNoBudget, plan);
    std::int64_t budget = limits_.max_num_batched_tokens - static_cast<std::int64_t>(plan.pieces.size());
    budget = schedule_running<Kind::kPrompts>(budget, plan);
    return std::max<std::int64_t>(0, admit_waiting(budget, plan));
  }
  std::int64_t kv_tokens_at_admission(const Sequence&, std::int64_t) const override {
    return slot_blocks_ * pool_.block_tokens();
  }
  bool fits_alone(std::int64_t end) const override { return pool_.blocks_for(end) <= slot_blocks_; }

  std::int64_t slot_blocks_;
};

}  // namespace

std::unique_ptr<Scheduler> make_llama_cpp(const SchedulerLimits& limits) {
  return std::make_unique<LlamaCppScheduler>(limits);
}

}  // namespace muster::sched
