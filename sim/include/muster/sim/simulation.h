// Iteration-level simulation of a fleet: the schedulers of its replicas run for real, `cost` stands in for the device,
// and `policy` decides where requests go, exactly as it will in the live gateway.
//
// Events are ordered by (instant, order number); time is integer nanoseconds; no clock, no thread, no global state. The
// order number says what an event is, not when it was made (docs/decisions/0004-event-order-and-digest.md). Two runs of
// the same Scenario give the same Outcome to the last bit, on every compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/statistics.h"
#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/policy/fleet.h"
#include "muster/sched/scheduler.h"
#include "muster/sim/observer.h"
#include "muster/sim/step_timer.h"
#include "muster/workload/trace.h"

namespace muster::sim {

// All replicas of a scenario serve one model with one layout.
struct ReplicaKind {
  const StepTimer* step = nullptr;  // CostStepTimer(model) for a real one
  sched::SchedulerKind scheduler = sched::SchedulerKind::kVllm;
  sched::SchedulerLimits limits;  // steps_in_flight_max is set to the timer's stages
  int gpus = 1;                   // of one replica
  Duration cold_start{0};         // from the decision to the first request, weights not yet in memory
  Duration warm_start{0};         // promotion of a standby replica
};

struct ReplicaPlace {
  std::uint32_t zone = 0;  // index into Scenario::zones
  bool standby = false;    // loaded and idle; promoted when a serving replica is lost
};

// The fleet keeps as many replicas serving as the scenario begins with. When one is lost, a standby is promoted, if
// there is one (of the zone with the fewest serving; then the lowest index). A replica that returns serves when one is
// still missing, else it becomes a standby: whoever was promoted keeps serving, as moving the work back would only
// disturb it twice.
struct Fault {
  enum class Kind { kZoneLoss, kReplicaLoss };
  Kind kind = Kind::kZoneLoss;
  Instant at;
  Duration lasts{0};         // 0: until the end; a returning replica needs its cold start
  std::uint32_t target = 0;  // zone or replica index
};

// Targets of a class of requests; nullopt: no target. A request attains its SLO when it meets every one.
struct RequestSlo {
  std::optional<Duration> queue_wait = {}, ttft = {}, tpot = {}, e2e = {};
};
struct RequestClass {
  std::string name;
  std::int32_t rank = 0;  // lower is more urgent
  RequestSlo slo = {};
};

struct Scenario {
  ReplicaKind kind;
  std::vector<std::string> zones;
  std::vector<ReplicaPlace> replicas;
  policy::FleetSettings policy;
  std::vector<RequestClass> classes;           // at least one
  std::vector<std::uint32_t> class_of_tenant;  // [trace tenants] index into classes; empty: everything is class 0
  std::vector<Fault> faults;
  const workload::Trace* trace = nullptr;
  std::uint64_t seed = 1;  // of the zones in which requests come in (evenly); used with ZoneAffinity::kPrefer only
  // Closed loop: so many users, each sends its next request (the next of the trace, whose arrival times are not used)
  // when its last one is answered. 0: open loop, the arrivals of the trace.
  std::uint32_t closed_loop_users = 0;
  std::uint64_t warm_up_requests = 0;  // the first so many requests run but are not counted in the percentiles
  Duration warm_up{0};          // requests that arrive earlier, from the trace's start, run but are not in ClassOutcome
  Duration sample_interval{0};  // of the time series; 0: none. Doubled as often as needed to stay under kSamplesMax
  bool step_by_step = false;    // never jump over alike decode steps: the slow oracle
  bool check_invariants = false;  // after every event (tests)
  bool keep_requests = false;     // fill Outcome::requests_log
  Observer* observer = nullptr;   // looks on
};

inline constexpr std::size_t kSamplesMax = 4096;

// Of requests that arrived after the warm-up. Times in ms: queue wait = first scheduled - arrival; TTFT = first token -
// arrival; TPOT = (last token - first token) / (output tokens - 1), of requests with more than one; E2E = last token -
// arrival.
struct ClassOutcome {
  std::uint64_t requests = 0, completed = 0, rejected = 0, attained = 0;
  std::uint64_t output_tokens = 0;
  QuantileSketch queue_wait_ms, ttft_ms, tpot_ms, e2e_ms;
};

struct Sample {  // at one instant
  Instant at;
  std::uint32_t arrivals = 0;  // since the last sample
  std::uint32_t queued = 0;    // not yet first scheduled, whole fleet
  std::uint32_t ready_replicas = 0;
  std::vector<std::uint32_t> running;  // [replicas]
  std::vector<float> kv_share;         // [replicas], 0..1
};

struct Outcome {
  std::uint64_t requests = 0, completed = 0, rejected = 0;
  std::uint64_t preempted = 0;  // how often a request lost its place on a replica: for KV blocks, or with the replica
  std::uint64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  Duration duration{0};                               // first arrival to the last completion
  std::uint64_t steps = 0;                            // engine steps, those jumped over included
  std::uint64_t events = 0;                           // simulated events
  // Pipelines: of the time in which a replica had at least one step in flight, the share in which each stage was busy.
  // What is missing to 1 is bubbles. All replicas together.
  double occupied_seconds = 0;             // replica-seconds with a step in flight
  std::vector<double> stage_busy_seconds;  // [stages]
  double gpu_seconds = 0;  // over `duration`, of every replica that is not down: standby and starting ones too
  ClassOutcome all;        // every class together
  std::vector<ClassOutcome> classes;  // [classes]
  std::vector<Sample> samples;
  std::vector<FleetEvent> log;
  std::vector<RequestRecord> requests_log;
  // Over every request's instants and the log; not over samples, `events` or how the run was made (step_by_step,
  // progress).
  std::uint64_t digest = 0;
};

// Called now and then with the share of arrivals already fed, 0..1; return false to give up (Outcome is then partial).
using Progress = std::function<bool(double)>;

// Requires a valid scenario (at least one replica, one class, a trace); checks it with MUSTER_CHECK.
Outcome run(const Scenario& scenario, const Progress& progress = {});

}  // namespace muster::sim
