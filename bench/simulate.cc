// How fast the simulator is: requests/s and steps/s on one thread.
//   ninja -C build/release bench_simulate
//   build/release/bench/bench_simulate [replicas] [repeat] [trace file]
//
// Without a file: a synthetic stand-in for the Mooncake conversation trace (3.4 requests/s, in bursts of the same
// instant every 3 s, prompts of 12,000 tokens on average with a long tail, answers of 343). `repeat` plays the trace
// that many times, one after the other. The step timer is linear, of the size of Llama 3.1 70B in FP8 on 4 H100;
// evaluating it costs nothing, so the time is the simulator's and the scheduler's own. Each replica brings its share of
// load: the arrivals are sped up in proportion to replicas / 8.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>

#include "muster/core/rng.h"
#include "muster/sim/simulation.h"
#include "muster/workload/read.h"

namespace muster::sim {
namespace {

struct Llama70bTimer final : StepTimer {
  int stages() const override { return 1; }
  Duration stage_time(int, const cost::StepShape& shape) const override {
    double ns = 9e6;  // weights through memory, all-reduces, host
    for (const cost::PrefillChunk& c : shape.prefills) {
      const auto tokens = static_cast<double>(c.tokens);
      ns += 45e3 * tokens + 1.3 * tokens * (static_cast<double>(c.prefix) + tokens / 2);
    }
    ns += 27.0 * static_cast<double>(shape.decode_kv_tokens) + 15e3 * static_cast<double>(shape.decode_sequences);
    return Duration(static_cast<std::int64_t>(ns));
  }
};

workload::Trace mooncake_like() {
  Rng rng = Rng::stream(1, 0, "mooncake");
  workload::Trace trace;
  trace.source = "synthetic, like Mooncake conversation";
  for (int i = 0; i < 12031; ++i) {
    const double input = std::min(126000.0, 6900 * std::exp(1.05 * rng.normal()));
    const double output = std::min(2000.0, std::max(1.0, rng.gamma(1.6, 214)));
    trace.requests.push_back({.arrival = Duration(3s) * static_cast<std::int64_t>(rng.below(1179)),
                              .input_tokens = static_cast<std::int32_t>(input),
                              .output_tokens = static_cast<std::int32_t>(output)});
  }
  std::sort(trace.requests.begin(), trace.requests.end(),
            [](const workload::Request& a, const workload::Request& b) { return a.arrival < b.arrival; });
  return trace;
}

workload::Trace repeated(const workload::Trace& trace, int times, double speed) {
  workload::Trace result;
  result.source = trace.source;
  result.requests.reserve(trace.requests.size() * static_cast<std::size_t>(times));
  for (int k = 0; k < times; ++k)
    for (workload::Request r : trace.requests) {
      const Duration at = r.arrival + k * (trace.requests.back().arrival + Duration(3s));
      r.arrival = from_seconds(to_seconds(at) / speed);
      r.block_count = 0;
      result.requests.push_back(r);
    }
  return result;
}

int bench(int replicas, int repeat, const char* file) {
  workload::Trace trace = mooncake_like();
  if (file != nullptr) {
    auto read = workload::read_trace(file);
    if (!read) {
      fmt::print(stderr, "{}\n", read.error().message);
      return 2;
    }
    trace = std::move(*read);
  }
  trace = repeated(trace, repeat, replicas / 8.0);
  const Llama70bTimer timer;
  Scenario s;
  s.kind.step = &timer;
  s.kind.limits = {.max_num_batched_tokens = 8192, .max_num_seqs = 256, .kv_blocks = 40000};
  s.zones = {"a", "b", "c"};
  for (int i = 0; i < replicas; ++i) s.replicas.push_back({.zone = static_cast<std::uint32_t>(i) % 3});
  s.policy.running_max = 256;
  s.classes = {{.name = "default"}};
  s.trace = &trace;
  fmt::print("{}: {} requests, {} replicas\n", trace.source, trace.requests.size(), replicas);
  for (const bool step_by_step : {false, true}) {
    if (step_by_step && trace.requests.size() > 200'000) break;
    s.step_by_step = step_by_step;
    double best = 1e99;
    Outcome o;
    for (int round = 0; round < (trace.requests.size() > 200'000 ? 1 : 5); ++round) {
      const auto start = std::chrono::steady_clock::now();
      o = run(s);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const auto requests = static_cast<double>(o.completed), steps = static_cast<double>(o.steps);
    fmt::print(
        "{:12} {:8.3f} s  {:9.0f} requests/s  {:10.0f} steps/s  ({} events, {} steps, TTFT p50 {:.0f} p95 {:.0f} ms, "
        "TPOT p50 {:.1f} ms, digest {:016x})\n",
        step_by_step ? "step by step" : "jumping", best, requests / best, steps / best, o.events, o.steps,
        o.all.ttft_ms.quantile(0.5), o.all.ttft_ms.quantile(0.95), o.all.tpot_ms.quantile(0.5), o.digest);
  }
  return 0;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  return muster::sim::bench(argc > 1 ? std::atoi(argv[1]) : 8, argc > 2 ? std::atoi(argv[2]) : 1,
                            argc > 3 ? argv[3] : nullptr);
}
