// What the scheduler costs per step, per jump and per request.
//   ninja -C build/release bench_sched_step && build/release/bench/bench_sched_step
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "muster/core/rng.h"
#include "muster/sched/scheduler.h"

namespace muster::sched {
namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// A batch of decodes with prompts of different lengths, so that block boundaries are spread over the steps.
std::unique_ptr<Scheduler> decoding_batch(std::int64_t sequences, StepPlan& plan) {
  SchedulerLimits limits;
  limits.max_num_seqs = sequences;
  limits.kv_blocks = 100000000;
  auto scheduler = make_scheduler(SchedulerKind::kVllm, limits);
  for (std::int64_t i = 0; i < sequences; ++i) {
    scheduler->add({}, {.id = RequestId(static_cast<std::uint32_t>(i)), .prompt_tokens = 1 + i, .max_tokens = 1 << 29});
  }
  std::vector<RequestId> finished;
  while (scheduler->schedule({}, plan) && plan.decode_sequences < sequences) {
    scheduler->finish_step({}, plan, {}, finished);
  }
  return scheduler;  // with `plan` in flight
}

void bench_steps(std::int64_t sequences) {
  StepPlan plan;
  const auto scheduler = decoding_batch(sequences, plan);
  std::vector<RequestId> finished;
  const std::int64_t steps = 20000000 / sequences;
  double best = 1e99;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) {
      scheduler->finish_step({}, plan, {}, finished);
      scheduler->schedule({}, plan);
    }
    best = std::min(best, ns_since(start) / static_cast<double>(steps));
  }
  fmt::print("decode step of {:4} sequences: {:8.1f} ns, {:5.2f} ns per sequence\n", sequences, best,
             best / static_cast<double>(sequences));
}

void bench_jumps(std::int64_t sequences, std::int64_t length) {
  StepPlan plan;
  const auto scheduler = decoding_batch(sequences, plan);
  std::vector<RequestId> finished;
  const std::int64_t jumps = 2000000 / sequences;
  double best = 1e99;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < jumps; ++i) {
      const std::int64_t steps = std::min(length, scheduler->steps_alike(plan));
      scheduler->finish_steps({}, plan, steps, finished);
      scheduler->schedule({}, plan);
    }
    best = std::min(best, ns_since(start) / static_cast<double>(jumps));
  }
  fmt::print("jump of {:3} steps, {:4} sequences: {:8.1f} ns with its schedule(), {:6.3f} ns per sequence and step\n",
             length, sequences, best, best / static_cast<double>(sequences * length));
}

// One replica under a lasting queue: the whole way of a request, without any model of time.
void bench_requests(const char* name, std::int64_t kv_blocks, bool jump) {
  constexpr std::uint32_t kRequests = 200000;
  SchedulerLimits limits;
  limits.kv_blocks = kv_blocks;
  Rng rng = Rng::stream(1, 0, "bench");
  std::vector<NewSequence> sequences;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    sequences.push_back({.id = RequestId(i),
                         .prompt_tokens = 1 + static_cast<std::int64_t>(rng.exponential(1000)),
                         .max_tokens = 1 + static_cast<std::int64_t>(rng.exponential(250))});
  }
  const auto scheduler = make_scheduler(SchedulerKind::kVllm, limits);
  StepPlan plan;
  std::vector<RequestId> finished;
  std::size_t next = 0;
  std::int64_t steps = 0, events = 0, pieces = 0;
  const auto start = Clock::now();
  while (true) {
    while (next < sequences.size() && scheduler->state().waiting < 100) scheduler->add({}, sequences[next++]);
    if (!scheduler->schedule({}, plan)) break;
    const std::int64_t alike = jump ? scheduler->steps_alike(plan) : 1;
    scheduler->finish_steps({}, plan, alike, finished);
    steps += alike;
    ++events;
    pieces += static_cast<std::int64_t>(plan.pieces.size());
  }
  const double ns = ns_since(start);
  fmt::print("{:22} {} requests, {} steps in {} events, {} preemptions: {:5.2f} us per request, {:.2f} ns per piece\n",
             name, finished.size(), steps, events, scheduler->state().preemptions, ns * 1e-3 / kRequests,
             ns / static_cast<double>(pieces));
}

}  // namespace
}  // namespace muster::sched

int main() {
  for (std::int64_t sequences : {8, 128, 256, 1024}) muster::sched::bench_steps(sequences);
  for (std::int64_t length : {10, 100}) muster::sched::bench_jumps(128, length);
  for (bool jump : {false, true}) {
    fmt::print("{}\n", jump ? "with jumps" : "step by step");
    muster::sched::bench_requests("KV to spare (256 run):", 1000000, jump);
    muster::sched::bench_requests("KV for 60 % of them:", 11000, jump);
  }
}
