// TensorRT-LLM's in-flight batching, as its documentation describes it (performance tuning guide: "Useful runtime
// options", "Tuning max batch size and max num tokens"; SchedulerConfig; "Scheduler" of the PyTorch backend). A
// capacity scheduler decides who holds KV blocks, a micro-batch scheduler who is in the step. The rules:
//
//  1. The step has a budget of max_num_tokens (max_num_batched_tokens here) and the replica room for max_batch_size
//     (max_num_seqs) sequences. Generation comes first, one token each; then context, first come first served.
//  2. Chunked context: a prompt that does not fit into what the budget has left is cut to a multiple of the KV block
//     (to any length, where the whole budget is less than a block).
//  3. GUARANTEED_NO_EVICT (the default): a sequence starts when the blocks for its prompt and all of max_tokens are
//     free, and takes them at once. Nobody who started is ever paused.
//  4. MAX_UTILIZATION: a sequence starts when the blocks for its prompt are free. When a decode finds no block, the
//     last that started is paused: it gives back its blocks, and recomputes when it starts again, before all that never
//     ran. A step that paused somebody starts nobody.
//  5. KV cache reuse ("KV Cache Reuse" in the documentation; off by default in older versions): the blocks of a prompt
//     can be found when the whole prompt is computed, those of the answer when the request ends or is paused. What was
//     computed twice is not stored twice. Blocks that nobody holds are evicted least recently used first, leaves
//     first, after all blocks that hold nothing. At least one token is computed.
//
// With pipeline stages, a request that is in a micro-batch in flight is left out of the others (batch_manager/
// microBatchScheduler: inflightReqIds), so the chunks of one prompt do not follow each other down the pipeline.
//
// Where this differs: (a) a waiting sequence with an urgent priority pauses nobody under MAX_UTILIZATION; (b) blocks
// are reused in whole content blocks (scheduler.h), without retention priorities, host memory or copies of partial
// blocks.
#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

enum class Capacity : std::uint8_t { kGuaranteedNoEvict, kMaxUtilization };

class TensorrtLlmScheduler final : public BatchScheduler {
 public:
  TensorrtLlmScheduler(const SchedulerLimits& limits, Capacity capacity) : BatchScheduler(limits), capacity_(capacity) {
    ignore_long_prefill_threshold();
    if (limits.kv_block_tokens <= limits.max_num_batched_tokens) chunk_tokens_ = limits.kv_block_tokens;
    cache_prefixes({.findable = Findable::kWhenPromptComputed,
                    .duplicates = Duplicates::kUseless,
                    .useless = PrefixCache::UselessBlocks::kFirst});
  }
  std::string_view name() const override {
    return capacity_ == Capacity::kGuaranteedNoEvict ? "tensorrt-llm" : "tensorrt-llm-max-utilization";
  }

 private:
  std::int64_t fill(StepPlan& plan) override {
    std::int64_t budget = schedule_running<Kind::kDecodes>(limits_.max_num_batched_tokens, plan);
    budget = schedule_running<Kind::kPrompts>(budget, plan);
    return plan.preempted.empty() ? admit_waiting(budget, plan) : budget;
  }
  std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t) const override {
    return capacity_ == Capacity::kGuaranteedNoEvict ? s.end : s.known;
  }

  Capacity capacity_;
};

}  // namespace

std::unique_ptr<Scheduler> make_tensorrt_llm(const SchedulerLimits& limits) {
  return std::make_unique<TensorrtLlmScheduler>(limits, Capacity::kGuaranteedNoEvict);
}
std::unique_ptr<Scheduler> make_tensorrt_llm_max_utilization(const SchedulerLimits& limits) {
  return std::make_unique<TensorrtLlmScheduler>(limits, Capacity::kMaxUtilization);
}

}  // namespace muster::sched
