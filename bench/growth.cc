// How the simulator's time grows: with the number of requests, and with how many of them are at work at once.
//   ninja -C build/release bench_growth
//   build/release/bench/bench_growth [decades of requests: 0..5, default 4] [decades of concurrency: 0..5, default 5]
//
// Prints markdown tables. Requests: 1,000 to 10^(3 + decades), open loop, 150 a second on 8 replicas of 64 sequences.
// Concurrency: closed loop of so many users, once on one replica that runs them all in one batch, and once on as many
// replicas of 64 sequences as that needs. Prompts of 512 tokens and answers of 128 on average, exponential; a step
// takes 10 ms, 5 us per sequence and 20 us per prompt token.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "muster/core/rng.h"
#include "muster/sim/simulation.h"

namespace muster::sim {
namespace {

class Timer final : public StepTimer {
 public:
  int stages() const override { return 1; }
  Duration stage_time(int, const cost::StepShape& shape) const override {
    std::int64_t prompt_tokens = 0;
    for (const cost::PrefillChunk& chunk : shape.prefills) prompt_tokens += chunk.tokens;
    return Duration(10ms) + Duration(5us) * shape.decode_sequences + Duration(20us) * prompt_tokens;
  }
};

workload::Trace trace_of(std::int64_t requests, double rate_rps) {
  Rng rng = Rng::stream(1, 0, "growth");
  workload::Trace trace;
  trace.source = "synthetic";
  trace.requests.reserve(static_cast<std::size_t>(requests));
  double at_s = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    at_s += rng.exponential(1 / rate_rps);
    trace.requests.push_back({.arrival = from_seconds(at_s),
                              .input_tokens = 1 + static_cast<std::int32_t>(std::min(rng.exponential(512), 8000.0)),
                              .output_tokens = 1 + static_cast<std::int32_t>(std::min(rng.exponential(128), 2000.0))});
  }
  return trace;
}

Scenario scenario(const StepTimer& timer, const workload::Trace& trace, std::int64_t replicas, std::int64_t sequences) {
  Scenario s;
  s.kind.step = &timer;
  s.kind.limits = {.max_num_batched_tokens = 8192, .max_num_seqs = sequences, .kv_blocks = sequences * 1000};
  s.zones = {"a"};
  s.replicas.resize(static_cast<std::size_t>(replicas));
  s.policy.running_max = static_cast<std::uint32_t>(sequences);
  s.classes = {{.name = "all"}};
  s.trace = &trace;
  return s;
}

struct Row {
  double wall_s = 0;
  Outcome outcome;
};

// The best of a few, as many as fit in about a second.
Row measured(const Scenario& s) {
  Row best{.wall_s = 1e99, .outcome = {}};
  double total_s = 0;
  do {
    const auto start = std::chrono::steady_clock::now();
    Outcome outcome = run(s);
    const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    total_s += wall_s;
    if (wall_s < best.wall_s) best = {wall_s, std::move(outcome)};
  } while (total_s < 1);
  return best;
}

void print(const std::string& first, const Row& row) {
  const auto requests = static_cast<double>(row.outcome.requests), steps = static_cast<double>(row.outcome.steps);
  fmt::print("| {} | {:.3f} | {:.2f} | {:.0f} | {:.0f} | {:.0f} | {:.1f} |\n", first, row.wall_s,
             row.wall_s * 1e6 / requests, row.wall_s * 1e9 / static_cast<double>(row.outcome.events),
             row.wall_s * 1e9 / steps, steps / row.wall_s, static_cast<double>(row.outcome.output_tokens) / steps);
  std::fflush(stdout);
}

void heading(std::string_view title, std::string_view first) {
  fmt::print("\n{}\n\n| {} | wall s | us/request | ns/event | ns/step | steps/s | mean batch |\n", title, first);
  fmt::print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
}

std::int64_t power_of_ten(int exponent) {
  std::int64_t value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

void growth(int request_decades, int concurrency_decades) {
  const Timer timer;
  heading("Growth with the number of requests", "requests");
  for (int i = 0; i <= request_decades; ++i) {
    const workload::Trace trace = trace_of(power_of_ten(3 + i), 150);
    print(fmt::format("{}", trace.requests.size()), measured(scenario(timer, trace, 8, 64)));
  }
  for (const bool one_replica : {true, false}) {
    heading(one_replica ? "Growth with concurrent requests, all in the batch of one replica"
                        : "Growth with concurrent requests, 64 to a replica",
            "concurrent");
    for (int i = 0; i < concurrency_decades; ++i) {
      const std::int64_t users = power_of_ten(i);
      const workload::Trace trace = trace_of(std::max<std::int64_t>(5'000, 10 * users), 1e6);
      Scenario s = scenario(timer, trace, one_replica ? 1 : (users + 63) / 64, one_replica ? users : 64);
      s.clients.users = static_cast<std::uint32_t>(users);
      print(fmt::format("{}", users), measured(s));
    }
  }
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  const auto decades = [&](int at, int otherwise) {
    return argc > at ? std::clamp(std::atoi(argv[at]), 0, 5) : otherwise;
  };
  muster::sim::growth(decades(1, 4), decades(2, 5));
}
