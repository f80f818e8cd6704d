// vLLM V1's scheduler, as its documentation and public source describe it. The rules:
//
//  1. No prefill or decode phase: a sequence has tokens known and tokens computed, and a step lets the second catch up
//     with the first. A step has a budget of max_num_batched_tokens.
//  2. Running sequences come first, in the order of their admission; then waiting ones by (priority, arrival) until the
//     first that cannot start: no budget, max_num_seqs running, or no blocks for its first piece. Nobody overtakes it.
//  3. A piece is cut to the budget left (chunked prefill) and to long_prefill_token_threshold.
//  4. KV blocks are taken for the tokens of the piece, when it is scheduled. On a shortage the last running sequence in
//     (priority, arrival) is preempted, if need be the very one that asks: it gives back its blocks, its computed
//     tokens fall to 0, and it waits in front of all of its priority that never ran. What it emitted stays, and is
//     recomputed with its prompt. A step that preempted admits nobody.
//  5. With pipeline stages, a step takes whatever is ready, up to its budget: nothing divides the running sequences
//     evenly, they spread over the steps as they happen to arrive and finish. A sequence in flight counts against
//     max_num_seqs and may be preempted: steps pass every stage in order, so whoever gets its blocks writes after it
//     has read; the token that its step samples still counts. Tokens count as computed when they are scheduled, so the
//     next chunk of a prompt follows while those before it are in the pipeline (vllm#13637); a decode waits for its
//     token.
//  6. Beside running sequences, a waiting one starts only if `watermark` of the blocks stay free
//     (KVCacheManager.allocate_slots), and, where scheduler_reserve_full_isl is on, if there are blocks for all of it.
//  7. Prefix caching (docs: "Automatic Prefix Caching" of the V1 design; v1/core/block_pool.py, kv_cache_manager.py):
//     a full block is found by the chained hash of its tokens, from the very step that computes it, so also by others
//     in that step. A hit takes a reference on each block; blocks count once, however many share them. At least one
//     token is computed, a hit of everything computes the last unit again. Blocks without references are free, queue
//     up last block of a sequence first, and can be found until the queue gets to them. Equal blocks that were
//     computed twice stay two; the older is found. A preempted sequence finds its own blocks again. Found is what is
//     there when a sequence starts: a sequence that waits holds nothing.
//
// Where this differs from vLLM: (a) when a sequence preempts itself, vLLM ends the step, which may then be empty,
// and its busy loop makes the next one at once; here the step goes on with the other running sequences; (b) a preempted
// sequence starts again only when all its steps in flight are back; (c) prefixes are shared in whole content blocks
// (scheduler.h), not in single KV blocks: a content block is lost when the first of its KV blocks is; (d) a sequence
// preempted out of the step that is being made leaves nothing findable of that step (vLLM leaves its hashes, of blocks
// that were not computed).
//
// Progress: the first running sequence in (priority, arrival) is only preempted when it is alone, and alone it always
// fits, since add() refuses what the whole pool cannot hold. So a step that preempts either has a piece or has all of
// its remaining sequences in flight.
#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

class VllmScheduler final : public BatchScheduler {
 public:
  explicit VllmScheduler(const SchedulerLimits& limits) : BatchScheduler(limits) {
    prompts_are_pipelined_ = true;
    cache_prefixes({.findable = Findable::kWhenScheduled, .duplicates = Duplicates::kKept});
    whole_prompt_must_fit_ = limits.whole_prompt_must_fit;
    watermark_blocks_ = static_cast<std::int64_t>(limits.admission_watermark * static_cast<double>(limits.kv_blocks));
  }
  std::string_view name() const override { return "vllm"; }

 private:
  std::int64_t fill(StepPlan& plan) override {
    const std::int64_t budget = schedule_running<Kind::kAll>(limits_.max_num_batched_tokens, plan);
    return plan.preempted.empty() ? admit_waiting(budget, plan) : budget;
  }
  std::int64_t kv_tokens_at_admission(const Sequence&, std::int64_t piece_end) const override { return piece_end; }
};

}  // namespace

std::unique_ptr<Scheduler> make_vllm(const SchedulerLimits& limits) {
  return std::make_unique<VllmScheduler>(limits);
}

}  // namespace muster::sched
