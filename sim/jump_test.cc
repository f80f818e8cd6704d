// Jumping over alike decode steps must not change anything: every random scenario runs twice, once step by step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "muster/sim/simulation.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::LinearTimer;
using testing_support::request;

bool operator==(const Sample& a, const Sample& b) {
  return std::tie(a.at, a.arrivals, a.queued, a.ready_replicas, a.running, a.kv_share) ==
         std::tie(b.at, b.arrivals, b.queued, b.ready_replicas, b.running, b.kv_share);
}

class RandomScenario {
 public:
  explicit RandomScenario(std::uint64_t seed) : rng_(Rng::stream(seed, 0, "random scenario")) {
    make_timer();
    make_trace();
    make_fleet();
    scenario.kind.scheduler = sched::kSchedulerKinds[seed % std::size(sched::kSchedulerKinds)];
    make_pools();
    make_faults();
  }
  RandomScenario(const RandomScenario&) = delete;

  Scenario scenario;

 private:
  std::int64_t below(std::uint64_t n) { return static_cast<std::int64_t>(rng_.below(n)); }
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }

  void make_timer() {
    timer_.stage_count = static_cast<int>(1 + (one_in(2) ? 0 : below(4)));
    timer_.fixed = 1ms;
    if (one_in(3)) return;  // every step lasts 1 ms, so that steps, arrivals and faults often meet at one instant
    timer_.per_prefill_token = Duration(below(20'000));
    timer_.per_sequence = Duration(below(100'000));
    timer_.ns_per_1000_kv_tokens = below(1'000'000);
    timer_.skew = Duration(below(500'000));
  }

  void make_trace() {
    Duration at(0);
    const std::uint64_t gap_ms = 1 + rng_.below(60);
    for (std::int64_t i = 0, n = 1 + below(80); i < n; ++i) {
      if (!one_in(3)) at += Duration(1ms) * below(gap_ms);
      if (one_in(4)) at += Duration(below(1'000'000));
      // One draw a statement: compilers evaluate arguments in different orders.
      const auto input_tokens = static_cast<std::int32_t>(1 + (one_in(5) ? below(700) : below(100)));
      const auto output_tokens = static_cast<std::int32_t>(1 + (one_in(4) ? below(400) : below(50)));
      trace_.requests.push_back(request(at, input_tokens, output_tokens, static_cast<std::uint16_t>(below(2))));
    }
    trace_.tenants = {"search", "etl"};
    if (one_in(2)) add_prefixes();
  }

  // A few conversations from which requests take a prefix of some length.
  void add_prefixes() {
    trace_.block_tokens = static_cast<int>(16 * (1 + below(2)));
    for (workload::Request& r : trace_.requests) {
      if (one_in(4)) continue;
      const std::uint64_t conversation = rng_.below(3);
      const std::int64_t covered = r.input_tokens + (one_in(2) ? r.output_tokens : 0);
      r.first_block = static_cast<std::uint32_t>(trace_.block_ids.size());
      r.block_count = static_cast<std::uint32_t>((covered + trace_.block_tokens - 1) / trace_.block_tokens);
      const std::uint64_t own_from = rng_.below(30);
      for (std::uint64_t i = 0; i < r.block_count; ++i)
        trace_.block_ids.push_back(i < own_from ? conversation << 32 | i : rng_.next());
    }
  }

  void make_fleet() {
    const auto zones = static_cast<std::uint32_t>(1 + below(3));
    const auto replicas = static_cast<std::uint32_t>(1 + below(4));
    scenario = testing_support::scenario(timer_, trace_, replicas, zones);
    for (std::uint32_t z = 0; z < zones; ++z)
      if (one_in(2)) scenario.replicas.push_back({.zone = z, .standby = true});
    scenario.kind.limits = {.max_num_batched_tokens = 16 + below(400),
                            .max_num_seqs = 1 + below(12),
                            .kv_blocks = 20 + (one_in(2) ? below(60) : below(500)),
                            .kv_block_tokens = one_in(2) ? 16 : 1 + below(20),
                            .long_prefill_token_threshold = one_in(3) ? 10 + below(50) : 0,
                            .prefill_tokens_while_decoding = one_in(2) ? 1 + below(100) : 0};
    scenario.kind.limits.prefix_caching = one_in(2);
    scenario.kind.warm_start = Duration(1ms) * below(30);
    scenario.kind.cold_start = Duration(1ms) * below(100);
    scenario.policy = {.routing = policy::kRoutings[rng_.below(policy::kRoutings.size())],
                       .zone_affinity = static_cast<policy::ZoneAffinity>(below(2)),
                       .ready_queue_max = static_cast<std::uint32_t>(below(4)),
                       .running_max = static_cast<std::uint32_t>(scenario.kind.limits.max_num_seqs),
                       .queue_max = one_in(3) ? rng_.below(10) : 1000};
    scenario.policy.prefix_affinity = one_in(2);
    scenario.policy.imbalance_absolute = static_cast<std::uint32_t>(below(8));
    if (one_in(3)) scenario.policy.metrics_lag = Duration(1 + below(50'000'000));
    scenario.classes = {{.name = "interactive", .rank = 0, .slo = {.ttft = 50ms}},
                        {.name = "batch", .rank = 7, .slo = {}}};
    scenario.class_of_tenant = {0, static_cast<std::uint32_t>(below(2))};
    make_clients();
    if (one_in(4)) scenario.warm_up_requests = rng_.below(40);
    scenario.sample_interval = one_in(2) ? Duration(0) : Duration(1 + below(20'000'000));
    if (one_in(4)) scenario.sample_interval = 1ms;
    scenario.check_invariants = one_in(2);
  }

  void make_clients() {
    ClientBehaviour& clients = scenario.clients;
    if (one_in(4)) {
      clients.users = static_cast<std::uint32_t>(1 + below(20));
      clients.lock_step = one_in(3);
      if (one_in(3)) clients.think = Duration(below(50'000'000));
      clients.exponential_think = one_in(2);
    } else if (one_in(3)) {
      clients.sessions = true;
      std::vector<std::uint32_t> sessions(1 + rng_.below(20));
      for (workload::Request& r : trace_.requests) {
        if (!one_in(3)) r.session = static_cast<std::uint32_t>(rng_.below(sessions.size()));
        r.think = Duration(1ms) * below(40);
      }
    }
    if (one_in(4)) clients.first_token_timeout = Duration(1ms) * (1 + below(200));
    if (one_in(4)) clients.timeout = Duration(1ms) * (1 + below(600));
    if (one_in(2)) clients.retries_max = static_cast<std::uint32_t>(below(4));
    clients.retry_backoff = Duration(1ms) * (1 + below(100));
  }

  // A second pool: of its own class, or of decode replicas.
  void make_pools() {
    if (one_in(2)) return;
    scenario.more_pools.push_back({.name = "other", .kind = scenario.kind, .policy = scenario.policy});
    scenario.more_pools[0].kind.scheduler = sched::kSchedulerKinds[rng_.below(std::size(sched::kSchedulerKinds))];
    scenario.more_pools[0].kind.step = &other_timer_;
    other_timer_.stage_count = static_cast<int>(1 + below(3));
    other_timer_.fixed = Duration(1ms) * (1 + below(3));
    for (std::int64_t i = 1 + below(3); i > 0; --i)
      scenario.replicas.push_back({.zone = static_cast<std::uint32_t>(rng_.below(scenario.zones.size())),
                                   .standby = i > 1 && one_in(3),
                                   .pool = 1});
    if (one_in(2)) {
      scenario.pool_of_class = {0, 1};
    } else {
      const double rate = static_cast<double>(1 + below(1000)) * 1e6;
      scenario.disaggregation = {.kv_bytes_per_token = 1 + below(100'000),
                                 .link_bytes_per_s = rate,
                                 .link_latency = Duration(below(3'000'000))};
    }
  }

  void make_faults() {
    for (std::int64_t i = below(4); i > 0; --i) {
      const bool zone = one_in(2);
      scenario.faults.push_back(
          {.kind = zone ? Fault::Kind::kZoneLoss : Fault::Kind::kReplicaLoss,
           .at = Instant(Duration(1ms) * below(600)),
           .lasts = one_in(3) ? Duration(0) : Duration(1ms) * below(300),
           .target = static_cast<std::uint32_t>(below(zone ? scenario.zones.size() : scenario.replicas.size()))});
    }
  }

  Rng rng_;
  LinearTimer timer_, other_timer_;
  workload::Trace trace_;
};

void expect_same(const Outcome& jumping, const Outcome& stepping) {
  ASSERT_EQ(jumping.requests_log.size(), stepping.requests_log.size());
  for (std::size_t i = 0; i < jumping.requests_log.size(); ++i) {
    const RequestRecord& a = jumping.requests_log[i];
    const RequestRecord& b = stepping.requests_log[i];
    ASSERT_EQ(std::tie(a.arrival, a.first_scheduled, a.first_token, a.last_token, a.replica, a.preemptions, a.end),
              std::tie(b.arrival, b.first_scheduled, b.first_token, b.last_token, b.replica, b.preemptions, b.end))
        << "request " << i;
  }
  EXPECT_EQ(jumping.digest, stepping.digest);
  EXPECT_EQ(jumping.steps, stepping.steps);
  EXPECT_EQ(jumping.gpu_seconds, stepping.gpu_seconds);
  EXPECT_EQ(jumping.occupied_seconds, stepping.occupied_seconds);
  EXPECT_EQ(jumping.stage_busy_seconds, stepping.stage_busy_seconds);
  EXPECT_EQ(jumping.all.attained, stepping.all.attained);
  EXPECT_EQ(jumping.retries, stepping.retries);
  EXPECT_EQ(jumping.prefix_tokens_queried, stepping.prefix_tokens_queried);
  EXPECT_EQ(jumping.prefix_tokens_hit, stepping.prefix_tokens_hit);
  EXPECT_EQ(jumping.wasted_output_tokens, stepping.wasted_output_tokens);
  EXPECT_EQ(jumping.kv_transfers.waited_seconds, stepping.kv_transfers.waited_seconds);
  EXPECT_EQ(jumping.samples.size(), stepping.samples.size());
  EXPECT_TRUE(std::equal(jumping.samples.begin(), jumping.samples.end(), stepping.samples.begin(),
                         stepping.samples.end(), [](const Sample& a, const Sample& b) { return a == b; }));
}

// All that any run must satisfy.
void expect_sound(const Scenario& s, const Outcome& o) {
  std::uint64_t completed = 0, rejected = 0, timed_out = 0, output_tokens = 0;
  for (const RequestRecord& r : o.requests_log) {
    const bool ended = r.last_token != Instant::max();
    completed += ended;
    rejected += r.rejected();
    timed_out += r.end == RequestRecord::End::kTimedOut;
    EXPECT_EQ(ended, r.completed());
    EXPECT_LE(r.attempts, s.clients.retries_max + 1);
    if (ended) {
      output_tokens += static_cast<std::uint64_t>(r.output_tokens);
      EXPECT_LE(r.arrival, r.first_scheduled);
      EXPECT_LT(r.first_scheduled, r.first_token);
      EXPECT_LE(r.first_token, r.last_token);
      EXPECT_EQ(r.output_tokens == 1, r.first_token == r.last_token);
      if (s.clients.timeout && r.attempts == 1) EXPECT_LE(r.last_token - r.arrival, *s.clients.timeout);
      if (s.clients.first_token_timeout && r.attempts == 1)
        EXPECT_LE(r.first_token - r.arrival, *s.clients.first_token_timeout);
    }
  }
  EXPECT_EQ(o.completed, completed);
  EXPECT_EQ(o.rejected, rejected);
  EXPECT_EQ(o.timed_out, timed_out);
  EXPECT_EQ(o.output_tokens, output_tokens);
  // Nobody is lost: who is neither completed nor given up waited for a fleet that died.
  const bool may_die =
      std::any_of(s.faults.begin(), s.faults.end(), [](const Fault& f) { return f.lasts == Duration(0); });
  if (!may_die) EXPECT_EQ(o.completed + o.rejected + o.timed_out, o.requests);
  const bool all_come = s.clients.users == 0 && !s.clients.sessions;
  if (all_come) EXPECT_EQ(o.requests, s.trace->requests.size());
}

TEST(Jumping, GivesWhatSteppingGives) {
  std::uint64_t steps = 0, events_jumping = 0, events_stepping = 0, preempted = 0, completed = 0, retries = 0,
                timed_out = 0, transfers = 0, prefix_hits = 0;
  for (std::uint64_t seed = 0; seed < 2800; ++seed) {
    RandomScenario random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(name(random.scenario.kind.scheduler)));
    const Outcome jumping = run(random.scenario);
    random.scenario.step_by_step = true;
    const Outcome stepping = run(random.scenario);
    expect_same(jumping, stepping);
    expect_sound(random.scenario, jumping);
    if (testing::Test::HasFailure()) return;
    steps += jumping.steps;
    preempted += jumping.preempted;
    completed += jumping.completed;
    retries += jumping.retries;
    prefix_hits += static_cast<std::uint64_t>(jumping.prefix_tokens_hit);
    timed_out += jumping.timed_out;
    transfers += jumping.kv_transfers.transfers;
    events_jumping += jumping.events;
    events_stepping += stepping.events;
  }
  // The scenarios must be such that there is something to compare.
  EXPECT_GT(completed, 30000U);
  EXPECT_GT(preempted, 1000U);
  EXPECT_GT(retries, 1000U);
  EXPECT_GT(timed_out, 1000U);
  EXPECT_GT(transfers, 1000U);
  EXPECT_GT(prefix_hits, 100'000U);
  EXPECT_LT(3 * events_jumping, 2 * events_stepping) << steps << " steps";
}

TEST(Jumping, MakesALongAnswerOneEvent) {
  const LinearTimer timer(1ms);
  const auto t = testing_support::trace({request(0ms, 10, 5000)});
  Scenario s = testing_support::scenario(timer, t);
  const Outcome o = run(s);
  EXPECT_EQ(o.steps, 5000U);
  EXPECT_LE(o.events, 3U);  // the arrival, the prompt, the jump
  s.step_by_step = true;
  EXPECT_EQ(run(s).events, 5001U);
}

TEST(Jumping, TwoRunsAreTheSame) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomScenario a(seed), b(seed);
    EXPECT_EQ(run(a.scenario).digest, run(b.scenario).digest);
  }
}

}  // namespace
}  // namespace muster::sim
