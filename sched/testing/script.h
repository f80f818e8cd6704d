// Scenario tests as scripts: what comes in, and in words what the scheduler makes of it. check() runs after every line.
//
//   Script(limits).at(0).arrive(1, {.prompt = 600, .max_tokens = 2}).schedules("1:512p").done().schedules("1:88p*")
//
// A step reads "1:512p 2:88p* 3:1d -4": request 1 computes 512 tokens of its prompt, request 2 the last 88 and samples,
// request 3 decodes one token, request 4 was preempted. "" is "nothing to run".
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "muster/sched/scheduler.h"

namespace muster::sched::testing {

// "1:512p 2:88p* 3:1d -4"
std::string to_text(const StepPlan& plan);
// "1 2 3"
std::string to_text(const std::vector<RequestId>& ids);

class Script {
 public:
  using Where = std::source_location;
  struct Lengths {
    std::int64_t prompt = 1;
    std::int64_t max_tokens = 1;
    std::int32_t priority = 0;
    std::vector<std::uint64_t> content = {};  // ids of its content blocks
  };

  explicit Script(const SchedulerLimits& limits, SchedulerKind kind = SchedulerKind::kVllm)
      : scheduler_(make_scheduler(kind, limits)) {}

  Script& at(std::int64_t ms);
  Script& arrive(std::uint32_t id, Lengths lengths, Where where = Where::current());
  Script& refuses(std::uint32_t id, Lengths lengths, Where where = Where::current());
  Script& abort(std::uint32_t id, Where where = Where::current());
  Script& knows_no(std::uint32_t id, Where where = Where::current());
  Script& schedules(std::string_view step, Where where = Where::current());
  // The oldest step out comes back, and exactly these requests finish.
  Script& done(std::string_view finished = "", Where where = Where::current());
  // The same, where these sampled a stop token.
  Script& done_with_stop(const std::vector<RequestId>& stopped, std::string_view finished,
                         Where where = Where::current());
  // schedules(), done(), so many times.
  Script& repeats(int times, std::string_view step, Where where = Where::current());
  // The only step out may be jumped by so many.
  Script& steps_alike(std::int64_t steps, Where where = Where::current());
  Script& jumps(std::int64_t steps, std::string_view finished = "", Where where = Where::current());
  Script& holds(std::int64_t kv_blocks, Where where = Where::current());
  Script& has(std::int64_t running, std::int64_t waiting, Where where = Where::current());
  // Since the start: so many of so many tokens were found in the prefix cache.
  Script& found(std::int64_t hit, std::int64_t queried, Where where = Where::current());
  Script& prompt_tokens_waiting(std::int64_t tokens, Where where = Where::current());

 private:
  bool add(std::uint32_t id, const Lengths& lengths);

  std::unique_ptr<Scheduler> scheduler_;
  Instant now_;
  std::deque<StepPlan> out_;
  std::deque<std::vector<std::uint64_t>> contents_;  // stay where they are
};

}  // namespace muster::sched::testing
