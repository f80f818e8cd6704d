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
//  4. Prompt cache (cache_prompt, --slot-prompt-similarity): an idle slot keeps the KV of its last request, prompt and
//     answer. A request takes the idle slot with which it has the longest common prefix, if that is more than a tenth
//     of its prompt, and computes only the rest, at least one token; else the slot that is idle for longest.
//
// Where this differs: (a) llama.cpp cuts an answer off where its slot's context ends; here prompt + max_tokens must
// fit, as a trace says how long an answer is; (b) prompts go in the order in which they got their slots, llama.cpp goes
// by slot number; (c) no unified KV cache (--kv-unified), no prompt cache in host memory (--cache-ram) and no
// reuse of shifted chunks (--cache-reuse); (d) common prefixes count in whole content blocks (scheduler.h).
#include <algorithm>

#include "batch_scheduler.h"
#include "engines.h"

namespace muster::sched {
namespace {

SchedulerLimits with_a_block_each(SchedulerLimits limits) {
  limits.max_num_seqs = std::min(limits.max_num_seqs, limits.kv_blocks);
  return limits;
}

constexpr std::int64_t kSimilarityParts = 10;  // --slot-prompt-similarity 0.1

class LlamaCppScheduler final : public BatchScheduler {
 public:
  explicit LlamaCppScheduler(const SchedulerLimits& limits)
      : BatchScheduler(with_a_block_each(limits)),
        slot_blocks_(
            std::min(pool_.total() / limits_.max_num_seqs, KvBlockPool::kMaxSequenceTokens / pool_.block_tokens())) {
    ignore_long_prefill_threshold();
    knows_content_ = limits_.prefix_caching && limits_.content_block_tokens > 0;
    if (knows_content_) server_slots_.resize(static_cast<std::size_t>(limits_.max_num_seqs));
  }
  std::string_view name() const override { return "llama.cpp"; }

 private:
  struct ServerSlot {
    std::vector<std::uint64_t> content;  // whole content blocks of its last request
    std::uint64_t idle_since = 0;        // 1, 2, 3, ...; 0: never used
    bool is_idle = true;
  };
  struct Choice {
    std::size_t server_slot = 0;
    std::int64_t common_tokens = 0;
  };

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

  Choice choose(std::uint32_t slot) const;
  Hit first_hit(const StepPlan&) override {
    const std::uint32_t slot = waiting_.front();
    if (table_[slot].kv_ready > 0) return {.tokens = table_[slot].kv_ready};
    return {.tokens = knows_content_ ? choose(slot).common_tokens : 0};
  }
  void start_prefix(std::uint32_t slot, const Hit& hit) override {
    if (slot >= server_slot_of_.size()) server_slot_of_.resize(slot + std::size_t{1});
    server_slot_of_[slot] = choose(slot).server_slot;
    server_slots_[server_slot_of_[slot]].is_idle = false;
    skip(slot, hit);
  }
  void release_blocks(std::uint32_t slot) override {
    if (knows_content_ && table_[slot].place == Place::kRunning) {
      ServerSlot& server_slot = server_slots_[server_slot_of_[slot]];
      const auto& content = prefixes_[slot].content;
      const auto whole = static_cast<std::size_t>(table_[slot].computed / limits_.content_block_tokens);
      server_slot.content.assign(content.begin(),
                                 content.begin() + static_cast<std::ptrdiff_t>(std::min(whole, content.size())));
      server_slot.idle_since = ++requests_ended_;
      server_slot.is_idle = true;
    }
    BatchScheduler::release_blocks(slot);
  }

  std::int64_t slot_blocks_;
  std::vector<ServerSlot> server_slots_;     // empty without prefix caching
  std::vector<std::size_t> server_slot_of_;  // [slots] of a running sequence
  std::uint64_t requests_ended_ = 0;
};

// Requires that fewer than max_num_seqs run.
LlamaCppScheduler::Choice LlamaCppScheduler::choose(std::uint32_t slot) const {
  const std::int64_t known = table_[slot].known;
  const auto& content = prefixes_[slot].content;
  Choice most_alike{.server_slot = server_slots_.size()}, longest_idle = most_alike;
  for (std::size_t i = 0; i < server_slots_.size(); ++i) {
    const ServerSlot& s = server_slots_[i];
    if (!s.is_idle) continue;
    const auto end = std::mismatch(content.begin(), content.end(), s.content.begin(), s.content.end()).first;
    const std::int64_t blocks =
        std::min<std::int64_t>(end - content.begin(), (known - 1) / limits_.content_block_tokens);
    const std::int64_t common = blocks * limits_.content_block_tokens;
    if (common > most_alike.common_tokens) most_alike = {i, common};
    if (longest_idle.server_slot == server_slots_.size() ||
        s.idle_since < server_slots_[longest_idle.server_slot].idle_since)
      longest_idle = {i, common};
  }
  MUSTER_CHECK(longest_idle.server_slot < server_slots_.size(), "no slot is idle for request {}",
               table_[slot].id.value);
  return most_alike.common_tokens * kSimilarityParts > known ? most_alike : longest_idle;
}

}  // namespace

std::unique_ptr<Scheduler> make_llama_cpp(const SchedulerLimits& limits) {
  return std::make_unique<LlamaCppScheduler>(limits);
}

}  // namespace muster::sched
