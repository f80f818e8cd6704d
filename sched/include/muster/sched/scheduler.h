// ONE replica's continuous batching: which sequences run in the next step, and how many tokens of each.
//
// Sans-IO: owns no clock, thread or device. The driver (the embedded engine with real steps, or the simulator with
// `cost` in place of the step) calls schedule(), runs the step, and reports it with finish_step(). Up to
// `steps_in_flight_max` steps may be out at once (pipeline stages). A decode waits for the token before it, so a
// sequence that decodes is in one of them at most. The pieces of a prompt may follow each other (vllm, sglang): steps
// pass every stage in the order in which they were made, so the KV of the earlier pieces is there in time.
// Not thread-safe: one driver, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/core/time.h"
#include "muster/core/units.h"

namespace muster::sched {

struct SchedulerLimits {
  std::int64_t max_num_batched_tokens = 8192;  // tokens of one step
  std::int64_t max_num_seqs = 256;             // sequences running at once
  std::int64_t kv_blocks = 0;                  // of the pool; at least 1
  std::int64_t kv_block_tokens = 16;
  std::int64_t long_prefill_token_threshold = 0;  // cap on one prompt's tokens in a step (vllm, muster); 0: none
  // muster's own scheduler only: cap on the prompt tokens of a step that also decodes, 0: none. The driver derives it
  // from the TPOT target: as many as a step may have and still end within the target.
  std::int64_t prefill_tokens_while_decoding = 0;
  std::int64_t steps_in_flight_max = 1;  // pipeline stages
  // Prefix caching: a sequence starts with the KV of the content blocks that it shares with earlier ones and that are
  // still there. Engines find KV blocks, which are smaller; a trace knows content only in whole content blocks, so what
  // is shared beyond the last whole one is computed again. Without effect for static.
  bool prefix_caching = false;
  std::int64_t content_block_tokens = 0;  // a multiple of kv_block_tokens (Mooncake: 512); 0: nothing is shared
  // vllm: `watermark`, the share of the KV blocks that stays free when a waiting sequence starts beside running ones, and
  // `scheduler_reserve_full_isl`, whether a prompt that starts in pieces must find blocks for all of it. vLLM has both
  // since 2026, and the second is on there.
  double admission_watermark = 0;  // 0 <= it < 1
  bool whole_prompt_must_fit = false;
};

struct NewSequence {
  RequestId id;
  std::int64_t prompt_tokens = 0;  // at least 1; with tokens already emitted elsewhere on a resume
  std::int64_t max_tokens = 0;     // tokens to generate at most; at least 1
  std::int32_t priority = 0;       // lower first; equal: arrival order
  // KV that came along from another replica: of the first so many tokens of the prompt, fewer than all. It takes its
  // blocks when the sequence starts; after a preemption it is gone.
  std::int64_t kv_ready_tokens = 0;
  // Ids of consecutive stretches of content_block_tokens tokens from the start: of the prompt and, as far as known, of
  // its answer. Only of whole stretches: leave out a last one that ends in the middle. Equal ids after equal ids are
  // equal content. Must stay valid while the sequence is in the scheduler. Empty: nothing can be shared.
  std::span<const std::uint64_t> content_blocks = {};
};

// A sequence's share of one step.
struct Piece {
  RequestId id;
  std::uint32_t slot = 0;            // the scheduler's index of the sequence, stable while it is in the scheduler
  std::int64_t tokens = 0;           // computed in this step
  std::int64_t computed_before = 0;  // tokens whose KV is already there
  bool decode = false;               // one token after the whole prompt was computed
  bool samples = false;              // the last known token is computed: one new token comes out
};

struct StepPlan {
  std::uint64_t step = 0;            // 1, 2, 3, ...
  std::vector<Piece> pieces;         // decodes and prompts, in the order they were scheduled
  std::vector<RequestId> preempted;  // sequences put back to waiting while making this plan
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_sequences = 0;
  std::int64_t decode_kv_tokens = 0;  // sum of KV lengths of the decodes, before this step
  std::int64_t sampled_sequences = 0;

  void clear();
};

struct SchedulerState {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t kv_blocks_used = 0;
  std::int64_t kv_blocks_total = 0;
  std::int64_t prompt_tokens_waiting = 0;  // of the waiting sequences and the uncomputed part of running prompts
  std::int64_t preemptions = 0;            // since the start
  // Since the start, with prefix caching: tokens of the sequences when they first started, and how many of those were
  // found (what vLLM exports as prefix_cache_queries and prefix_cache_hits). Of one sequence: the first piece's
  // computed_before.
  std::int64_t prefix_tokens_queried = 0;
  std::int64_t prefix_tokens_hit = 0;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string_view name() const = 0;

  // False: the sequence can never run here (its prompt + max_tokens need more blocks than the pool has).
  virtual bool add(Instant now, const NewSequence& sequence) = 0;
  // Removes a sequence at once, and its KV blocks with it; its id may be added again. Its piece of a step in flight
  // still comes back with the plan, and counts for nothing. False: unknown id.
  virtual bool abort(RequestId id) = 0;

  // Makes the next step; false when there is nothing to run now (or all steps are in flight); even then `preempted`
  // may name sequences. While something runs or waits and no step is in flight, there is always something to run.
  virtual bool schedule(Instant now, StepPlan& plan) = 0;
  // The step is done: KV of its pieces counts as computed, each sampling piece has one more token, and the sequences
  // that reached max_tokens or are listed in `stopped` (a stop token) leave and free their blocks. Appends those ids to
  // `finished`. Steps come back in the order in which they were made; `plan` is as schedule() filled it.
  virtual void finish_step(Instant now, const StepPlan& plan, std::span<const RequestId> stopped,
                           std::vector<RequestId>& finished) = 0;

  // Decode-only stretch: the number of steps, counting `plan` as the first, that would have the same pieces (only the
  // KV lengths growing by one each step): nobody finishes before the end of the last, no block shortage, nobody waits
  // who could start. 1: no jump. The driver may then call finish_steps(plan, n), or with fewer, instead of so many
  // rounds of finish_step() and schedule(): state, finished and the next plan are the same, step number included.
  virtual std::int64_t steps_alike(const StepPlan& plan) const = 0;
  virtual void finish_steps(Instant now, const StepPlan& plan, std::int64_t steps,
                            std::vector<RequestId>& finished) = 0;

  // The same with several steps out, each a micro-batch that decodes, all that runs in one of them. `plans`: all steps
  // out, oldest first. A round is as many times finish_step() of the oldest, then schedule(), which makes the same step
  // again. So many rounds are alike: nobody finishes, no block shortage, nobody waits who could start, in these or in a
  // step beside them; 0: none. For drivers that schedule() after each finish_step(), before the next.
  virtual std::int64_t rounds_alike(std::span<const StepPlan* const> plans) const = 0;
  // So many rounds, at most rounds_alike(). The plans become the steps that are out then.
  virtual void advance_rounds(Instant now, std::span<StepPlan* const> plans, std::int64_t rounds) = 0;

  virtual SchedulerState state() const = 0;
  // Panics if an invariant is broken: blocks used = sum over sequences, nobody both running and waiting, budget kept.
  virtual void check() const = 0;
};

// Whose rules. Each is documented at the top of its file; all are for the simulator, kMuster also for the engine.
enum class SchedulerKind : std::uint8_t {
  kVllm,                       // vllm.cc: token budget, running first, chunked prefill, recompute preemption
  kSglang,                     // sglang.cc: prompts before decodes, admission by new-token ratio, retract
  kTensorrtLlm,                // tensorrt_llm.cc: GUARANTEED_NO_EVICT
  kTensorrtLlmMaxUtilization,  // tensorrt_llm.cc: MAX_UTILIZATION
  kLlamaCpp,                   // llama_cpp.cc: server slots with a fixed share of the context
  kStatic,                     // static_batching.cc: a batch starts when the one before has ended
  kMuster,                     // muster.cc: prompt budget from the TPOT target, class-aware
};
inline constexpr SchedulerKind kSchedulerKinds[] = {
    SchedulerKind::kVllm,        SchedulerKind::kSglang,
    SchedulerKind::kTensorrtLlm, SchedulerKind::kTensorrtLlmMaxUtilization,
    SchedulerKind::kLlamaCpp,    SchedulerKind::kStatic,
    SchedulerKind::kMuster};

// "vllm", "sglang", "tensorrt-llm", "tensorrt-llm-max-utilization", "llama.cpp", "static", "muster"
std::string_view name(SchedulerKind kind);
std::optional<SchedulerKind> parse_scheduler(std::string_view text);  // nullopt: none of these names

std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind, const SchedulerLimits& limits);

}  // namespace muster::sched
