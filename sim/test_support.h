// Analytic step timers and small builders for the simulator's tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/rng.h"
#include "muster/sim/simulation.h"

namespace muster::sim::testing_support {

// Integer and linear, so that a test can add up times by hand. Stage s takes the same plus s * skew.
struct LinearTimer final : StepTimer {
  LinearTimer() = default;
  explicit LinearTimer(Duration constant) : fixed(constant) {}

  int stage_count = 1;
  Duration fixed{1ms};
  Duration per_prefill_token{0};
  Duration per_sequence{0};
  std::int64_t ns_per_1000_kv_tokens = 0;        // of decodes
  std::int64_t ns_per_million_prefix_pairs = 0;  // prompt token x token before it
  Duration skew{0};

  int stages() const override { return stage_count; }
  Duration stage_time(int stage, const cost::StepShape& shape) const override {
    std::int64_t tokens = 0, pairs = 0;
    for (const cost::PrefillChunk& c : shape.prefills) {
      tokens += c.tokens;
      pairs += c.tokens * (c.prefix + c.tokens / 2);
    }
    return fixed + per_prefill_token * tokens + per_sequence * shape.decode_sequences + skew * stage +
           Duration(shape.decode_kv_tokens * ns_per_1000_kv_tokens / 1000 +
                    pairs * ns_per_million_prefix_pairs / 1'000'000);
  }
};

// Milliseconds since the start, "-" when it never happened.
inline std::string ms_text(Instant at) {
  return at == Instant::max() ? "-" : fmt::format("{:.9g}", to_ms(at.time_since_epoch()));
}

// "arrival scheduled first last" in ms: the life of a request in a line.
inline std::string instants(const RequestRecord& r) {
  return fmt::format("{} {} {} {}", ms_text(r.arrival), ms_text(r.first_scheduled), ms_text(r.first_token),
                     ms_text(r.last_token));
}

inline workload::Request request(Duration arrival, std::int32_t input_tokens, std::int32_t output_tokens,
                                 std::uint16_t tenant = 0) {
  return {.arrival = arrival, .input_tokens = input_tokens, .output_tokens = output_tokens, .tenant = tenant};
}

inline workload::Trace trace(std::vector<workload::Request> requests) {
  workload::Trace t;
  t.source = "test";
  t.requests = std::move(requests);
  return t;
}

// `replicas` serving replicas, one a zone in turn over `zones` zones, everything checked after every event.
inline Scenario scenario(const StepTimer& timer, const workload::Trace& trace, std::uint32_t replicas = 1,
                         std::uint32_t zones = 1) {
  Scenario s;
  s.kind.step = &timer;
  s.kind.limits = {.max_num_batched_tokens = 2048, .max_num_seqs = 64, .kv_blocks = 10000};
  for (std::uint32_t z = 0; z < zones; ++z) s.zones.push_back(std::string(1, static_cast<char>('a' + z)));
  for (std::uint32_t r = 0; r < replicas; ++r) s.replicas.push_back({.zone = r % zones});
  s.policy.running_max = 64;
  s.classes.push_back({.name = "default", .rank = 0, .slo = {}});
  s.trace = &trace;
  s.check_invariants = true;
  s.keep_requests = true;
  return s;
}

}  // namespace muster::sim::testing_support
