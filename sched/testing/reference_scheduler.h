// The rules of vllm.cc once more, written for reading and not for speed: whole sequences in plain vectors, every
// question answered by a linear scan, KV blocks with real ids in plain lists, whole prefixes compared id by id, a jump
// made of single steps. The oracle of the property tests.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/sched/scheduler.h"

namespace muster::sched::testing {

class ReferenceScheduler final : public Scheduler {
 public:
  explicit ReferenceScheduler(const SchedulerLimits& limits);

  std::string_view name() const override { return "reference"; }
  bool add(Instant now, const NewSequence& sequence) override;
  bool abort(RequestId id) override;
  bool schedule(Instant now, StepPlan& plan) override;
  void finish_step(Instant now, const StepPlan& plan, std::span<const RequestId> stopped,
                   std::vector<RequestId>& finished) override;
  std::int64_t steps_alike(const StepPlan& plan) const override;
  void finish_steps(Instant now, const StepPlan& plan, std::int64_t steps, std::vector<RequestId>& finished) override;
  // It only steps: the kinds are compared with their own steps instead.
  std::int64_t rounds_alike(std::span<const StepPlan* const>) const override { return 0; }
  void advance_rounds(Instant, std::span<StepPlan* const>, std::int64_t) override {}
  SchedulerState state() const override;
  void check() const override;

  // Steps that are out.
  std::int64_t out() const { return steps_out_; }

 private:
  struct Request {
    RequestId id;
    std::int64_t prompt = 0;
    std::int64_t max_tokens = 0;
    std::int64_t emitted = 0;
    std::int64_t computed = 0;
    std::int64_t scheduled = 0;         // computed, and in the steps that are out with it
    std::int64_t emitted_at_start = 0;  // when it last entered the waiting queue: these count as prompt
    std::int32_t priority = 0;
    std::uint64_t serial = 0;             // order of arrival; also its name inside the plans, as ids may come again
    bool running = false;                 // else waiting
    std::vector<std::uint64_t> in_steps;  // that are out with it
    std::vector<std::int64_t> blocks;     // ids, in the order of the tokens; shared ones too
    std::vector<std::uint64_t> content;   // ids of its content blocks
    std::size_t cached = 0;               // of them: in cached_ or found there
    bool started = false;

    std::int64_t known() const { return prompt + emitted; }
    std::int64_t to_prefill() const { return prompt + emitted_at_start; }
  };

  Request* find_serial(std::uint64_t serial);
  // A content block of somebody that can be found.
  struct Cached {
    std::vector<std::uint64_t> prefix;  // ids up to and with its own
    std::vector<std::int64_t> blocks;
  };

  // What is cached of the request's start, at most all but its last known token.
  std::vector<Cached> find_prefix(const Request& request) const;
  bool start(Request& request, std::int64_t budget, StepPlan& plan);
  void cache_content(Request& request, std::int64_t tokens);
  bool is_held(std::int64_t block) const;
  bool give_blocks(Request& request, std::int64_t tokens);
  void take_blocks_back(Request& request);
  void remove(std::uint64_t serial);
  void preempt(std::uint64_t serial, StepPlan& plan);
  std::uint64_t last_in_order() const;
  std::uint64_t first_waiting() const;
  std::int64_t tokens_to_schedule(const Request& request, std::int64_t budget) const;
  void put_into_plan(Request& request, std::int64_t tokens, StepPlan& plan) const;
  static std::int64_t tokens_of(const StepPlan& plan);
  static bool same_decodes(const StepPlan& a, const StepPlan& b);

  SchedulerLimits limits_;
  std::vector<Request> requests_;          // in no order that matters
  std::vector<std::uint64_t> admitted_;    // serials of the running ones, in the order of admission
  std::vector<std::int64_t> free_blocks_;  // ids, the first is taken first
  std::vector<Cached> cached_;             // in the order in which they were computed
  std::int64_t prefix_tokens_queried_ = 0;
  std::int64_t prefix_tokens_hit_ = 0;
  std::uint64_t serials_ = 0;
  std::uint64_t step_ = 0;
  std::int64_t steps_out_ = 0;
  std::int64_t preemptions_ = 0;
};

}  // namespace muster::sched::testing
