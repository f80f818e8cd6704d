// Static batching, as serving was done before continuous batching (Yu et al., "Orca", OSDI 2022, section 2): here to
// show what continuous batching buys. The rules:
//
//  1. When nothing runs, a batch is formed of those who wait then, by (priority, arrival), until the first that does
//     not fit: max_num_seqs, or KV blocks for its prompt and all of max_tokens, which it takes at once.
//  2. First all prompts of the batch are computed, max_num_batched_tokens a step; then the whole batch decodes.
//  3. Whoever has its last token leaves, but its place stays empty: nobody starts until the whole batch has ended.
//
// Where this differs: an engine of that time kept computing padding for those who had ended; here they cost nothing
// more.
#include <algorithm>

#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

class StaticScheduler final : public BatchScheduler {
 public:
  explicit StaticScheduler(const SchedulerLimits& limits) : BatchScheduler(limits) { ignore_long_prefill_threshold(); }
  std::string_view name() const override { return "static"; }

 private:
  std::int64_t fill(StepPlan& plan) override {
    if (running_.empty()) {
      while (!waiting_.empty() && !is_full() && admit_first(0, first_hit(plan), plan)) {
      }
    }
    const bool has_prompts = std::any_of(running_.begin(), running_.end(),
                                         [&](std::uint32_t slot) { return table_[slot].prefill_left() > 0; });
    if (has_prompts) return schedule_running<Kind::kPrompts>(limits_.max_num_batched_tokens, plan);
    schedule_running<Kind::kDecodes>(kNoBudget, plan);
    return 0;
  }
  std::int64_t kv_tokens_at_admission(const Sequence& s, std::int64_t) const override { return s.end; }
  std::int64_t steps_without_admission(const StepPlan&, std::int64_t further_steps_max) const override {
    return further_steps_max;
  }
  std::int64_t rounds_without_admission(std::span<const StepPlan* const>, const StepPlan&,
                                        std::int64_t rounds_max) const override {
    return rounds_max;
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_static_batching(const SchedulerLimits& limits) {
  return std::make_unique<StaticScheduler>(limits);
}

}  // namespace muster::sched
