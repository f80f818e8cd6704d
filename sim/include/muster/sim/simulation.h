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
#include <variant>
#include <vector>

#include "muster/core/statistics.h"
#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/policy/autoscaler.h"
#include "muster/policy/fleet.h"
#include "muster/policy/scaling_rules.h"
#include "muster/sched/scheduler.h"
#include "muster/sim/observer.h"
#include "muster/sim/step_timer.h"
#include "muster/workload/trace.h"

namespace muster::sim {

// One model with one layout on one kind of GPU.
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
  std::uint32_t pool = 0;  // 0: Scenario::kind and policy; i: Scenario::more_pools[i - 1]
  bool off = false;        // not running, and not paid for, until an autoscaler starts it; not a standby
};

// Who decides how many replicas of a pool serve. The limits' maximum is bounded by the replicas that the scenario has.
using Scaling = std::variant<policy::AutoscalerSettings, policy::HpaSettings, policy::KedaSettings>;

// Replicas of one kind, with a queue and a router of their own.
struct Pool {
  std::string name;
  ReplicaKind kind;
  policy::FleetSettings policy;
};

// Prefill in pool 0, then the KV cache moves to a replica of pool 1, which decodes. The first token comes from the
// prefill. A prefill replica's KV blocks are free for others as soon as the prompt is computed: the copy that waits for
// its link is taken to be elsewhere.
struct Disaggregation {
  std::int64_t kv_bytes_per_token = 0;  // of all layers and ranks together
  double link_bytes_per_s = 0;          // of a replica's way out, and of its way in; shared by its transfers
  Duration link_latency{0};
};
struct KvTransferFigures {
  std::uint64_t transfers = 0;
  double bytes = 0;
  double waited_seconds = 0;  // for a link, all transfers together
  double moving_seconds = 0;  // ... on their way
};

// How clients send; the default is an open loop: each request at its arrival in the trace, whatever happens.
struct ClientBehaviour {
  // Closed loop: so many users, each sends its next request (the next of the trace, whose arrival times are not used)
  // when its last one is answered and `think` has passed. 0: open loop.
  std::uint32_t users = 0;
  Duration think{0};
  bool exponential_think = false;  // `think` is the mean
  bool lock_step = false;          // users go on only when all are answered: in waves
  // Turns of a session (workload::Request::session): only the first comes at its arrival, the others `think` of the
  // trace after the answer before them. A turn that fails ends its session. Not in a closed loop.
  bool sessions = false;
  // A client gives up when its first token, or its whole answer, is not there in time after it sent. What was computed
  // for it is lost. It tries again, as after a refusal, at most retries_max times; with exponential backoff: the n-th
  // wait is retry_backoff * 2^(n-1), times a random factor between 0.5 and 1.5.
  std::optional<Duration> first_token_timeout = {}, timeout = {};
  std::uint32_t retries_max = 0;
  Duration retry_backoff{1s};
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
  std::vector<Pool> more_pools;                  // beside the one of `kind` and `policy`
  std::vector<std::uint32_t> pool_of_class;      // [classes] where their requests go; empty: all to pool 0
  std::vector<std::optional<Scaling>> scaling;   // [pools]; empty or nullopt: as many as in the beginning
  std::optional<Disaggregation> disaggregation;  // needs one more pool, and no pool_of_class
  std::vector<RequestClass> classes;             // at least one
  std::vector<std::uint32_t> class_of_tenant;    // [trace tenants] index into classes; empty: everything is class 0
  std::vector<Fault> faults;
  const workload::Trace* trace = nullptr;
  std::uint64_t seed = 1;  // of the zones in which requests come in (evenly); used with ZoneAffinity::kPrefer only
  ClientBehaviour clients;
  std::uint64_t warm_up_requests = 0;  // the first so many requests run but are not counted in the percentiles
  Duration warm_up{0};          // requests that arrive earlier, from the trace's start, run but are not in ClassOutcome
  Duration sample_interval{0};  // of the time series; 0: none. Doubled as often as needed to stay under kSamplesMax
  bool step_by_step = false;    // never jump over alike decode steps: the slow oracle
  bool check_invariants = false;  // after every event (tests)
  bool keep_requests = false;     // fill Outcome::requests_log
  Observer* observer = nullptr;   // looks on

  std::uint32_t pools() const { return static_cast<std::uint32_t>(1 + more_pools.size()); }
  const ReplicaKind& kind_of(std::uint32_t pool) const { return pool == 0 ? kind : more_pools[pool - 1].kind; }
  const policy::FleetSettings& policy_of(std::uint32_t pool) const {
    return pool == 0 ? policy : more_pools[pool - 1].policy;
  }
};

inline constexpr std::size_t kSamplesMax = 4096;

// Of requests that arrived after the warm-up. Times in ms: queue wait = first scheduled - arrival; TTFT = first token -
// arrival; TPOT = (last token - first token) / (output tokens - 1), of requests with more than one; E2E = last token -
// arrival.
struct ClassOutcome {
  std::uint64_t requests = 0, completed = 0, rejected = 0, timed_out = 0, attained = 0;
  std::uint64_t output_tokens = 0;
  QuantileSketch queue_wait_ms, ttft_ms, tpot_ms, e2e_ms;

  void add(const ClassOutcome& other);
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
  std::uint64_t requests = 0, completed = 0;
  std::uint64_t rejected = 0, timed_out = 0;  // for good: refused, or given up by the client, and not tried again
  std::uint64_t retries = 0;
  std::uint64_t wasted_output_tokens = 0;  // emitted for attempts that were given up
  std::uint64_t preempted = 0;  // how often a request lost its place on a replica: for KV blocks, or with the replica
  std::uint64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  Duration duration{0};                               // first arrival to the last completion
  KvTransferFigures kv_transfers;
  std::int64_t prefix_tokens_queried = 0,
               prefix_tokens_hit = 0;  // prompt tokens looked for, and found, in prefix caches
  std::uint64_t steps = 0;             // engine steps, those jumped over included
  std::uint64_t events = 0;            // simulated events
  // Pipelines: of the time in which a replica had at least one step in flight, the share in which each stage was busy.
  // What is missing to 1 is bubbles. All replicas together.
  double occupied_seconds = 0;             // replica-seconds with a step in flight
  std::vector<double> stage_busy_seconds;  // [stages]
  double gpu_seconds = 0;  // over `duration`, of every replica that is not down: standby and starting ones too
  std::vector<double> pool_gpu_seconds;  // [pools] the parts of it
  ClassOutcome all;                      // every class together
  std::vector<ClassOutcome> classes;     // [classes]
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
