// Who looks on while a simulation runs: per-request lines and trace files are made of this, without keeping the run in
// memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/core/time.h"
#include "muster/core/units.h"

namespace muster::sim {

struct RequestRecord {
  enum class End : std::uint8_t {
    kNone,  // not yet: it waits or runs
    kCompleted,
    kRejected,  // by the fleet or a replica
    kTimedOut,  // its client gave up, and did not try again
  };
  RequestId id;                                               // index into the trace
  Instant arrival, first_scheduled, first_token, last_token;  // Instant::max() while it has not happened
  std::int32_t input_tokens = 0, output_tokens = 0;
  std::int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache when it first ran
  std::uint32_t replica = 0;       // the last one that ran it
  std::uint16_t request_class = 0;
  std::uint16_t tenant = 0;
  std::uint16_t preemptions = 0;  // by a scheduler or by the loss of a replica
  std::uint16_t attempts = 1;     // 1 + how often the client tried again; the instants are those of the last attempt
  End end = End::kNone;
  bool completed() const { return end == End::kCompleted; }
  bool rejected() const { return end == End::kRejected; }
};

struct FleetEvent {
  Instant at;
  std::string kind, text;
};

struct StageSpan {
  Instant begin, end;
};

// A step of a replica; with steps > 1: so many alike decode steps, one after the other, that were simulated as one.
struct StepRecord {
  std::uint32_t replica = 0;
  std::int64_t steps = 1;
  Instant begin, end;                 // enters the first stage, leaves the last
  std::span<const StageSpan> stages;  // [stages] when each was busy with it; empty when steps > 1
  std::int64_t prefill_tokens = 0;    // of prompts, all chunks together
  std::int64_t prefill_sequences = 0;
  std::int64_t decode_sequences = 0;
  std::int64_t decode_kv_tokens = 0;  // before the first of the steps
};

// Called in the order of time (a request or step when it ends), from the thread that runs the simulation. Looking on
// does not change the outcome.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_answered(const RequestRecord&) {}  // completed, rejected or given up: once each
  virtual void on_steps(const StepRecord&) {}
  virtual void on_event(const FleetEvent&) {}
};

}  // namespace muster::sim
