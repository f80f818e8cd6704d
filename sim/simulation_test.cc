// Runs small enough to be added up by hand, and what must hold of every run.
#include "muster/sim/simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/sim/prefill_budget.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::instants;
using testing_support::LinearTimer;
using testing_support::request;
using testing_support::scenario;
using testing_support::trace;

// Its instants and the replica.
std::string story(const RequestRecord& r) {
  return fmt::format("{} r{}{}", instants(r), r.replica, r.rejected() ? " rejected" : "");
}

TEST(Simulation, OneRequestAddsUp) {
  LinearTimer timer(10ms);
  timer.per_prefill_token = 1us;
  const auto t = trace({request(100ms, 3000, 5)});
  const Outcome o = run(scenario(timer, t));
  // 2048 + 952 prompt tokens in two steps of 10 ms + 1 us a token; four more tokens at 10 ms.
  EXPECT_EQ(story(o.requests_log[0]), "100 100 123 163 r0");
  EXPECT_EQ(o.steps, 6U);
  EXPECT_EQ(o.duration, 63ms);
  EXPECT_EQ(o.all.ttft_ms.quantile(0.5), 23);
  EXPECT_EQ(o.all.tpot_ms.quantile(0.5), 10);
  EXPECT_EQ(o.all.e2e_ms.quantile(0.5), 63);
  EXPECT_EQ(o.all.queue_wait_ms.quantile(0.5), 0);
  EXPECT_NEAR(o.gpu_seconds, 0.063, 1e-12);
}

TEST(Simulation, WhoArrivesDuringAStepJoinsTheNext) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 100, 10), request(34ms, 100, 2), request(40ms, 100, 1)});
  const Outcome o = run(scenario(timer, t));
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 100 r0");
  EXPECT_EQ(story(o.requests_log[1]), "34 40 50 60 r0");
  EXPECT_EQ(story(o.requests_log[2]), "40 40 50 50 r0");  // a step that begins as it arrives is not missed
  EXPECT_EQ(o.steps, 10U);
  EXPECT_EQ(o.all.tpot_ms.count(), 2U);  // an answer of one token has no time between tokens
}

TEST(Simulation, WhoArrivesAtOneInstantSharesTheFirstStep) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(5ms, 10, 1), request(5ms, 10, 1), request(5ms, 10, 1)});
  const Outcome o = run(scenario(timer, t));
  for (const RequestRecord& r : o.requests_log) EXPECT_EQ(story(r), "5 5 15 15 r0");
}

TEST(Simulation, StagesWorkAtTheSameTime) {
  LinearTimer timer(10ms);
  timer.stage_count = 2;
  timer.skew = 5ms;  // stage 1 takes 15 ms
  const auto t = trace({request(0ms, 100, 2), request(2ms, 100, 2)});
  const Outcome o = run(scenario(timer, t));
  // Stage 0: first at 0-10, second at 10-20, first again once it is back at 25. Stage 1: 10-25, 25-40, 40-55, 55-70.
  EXPECT_EQ(story(o.requests_log[0]), "0 0 25 55 r0");
  EXPECT_EQ(story(o.requests_log[1]), "2 10 40 70 r0");
}

TEST(Simulation, MoreThanStagesManyStepsAreNeverInFlight) {
  LinearTimer timer(10ms);
  timer.stage_count = 2;
  timer.skew = 30ms;  // stage 1 takes 40 ms
  const auto t = trace({request(0ms, 100, 1), request(0ms, 2048, 1), request(1ms, 2048, 1)});
  Scenario s = scenario(timer, t);
  const Outcome o = run(s);
  // The second prompt does not fit whole beside the first: 1948 tokens of it go along. Its rest follows them down the
  // pipe in the step at 10, with 1948 tokens of the third. A step that could begin at 20 may not: two are out. It
  // begins at 50.
  EXPECT_EQ(story(o.requests_log[0]), "0 0 50 50 r0");
  EXPECT_EQ(story(o.requests_log[1]), "0 0 90 90 r0");
  EXPECT_EQ(story(o.requests_log[2]), "1 10 130 130 r0");
}

TEST(Simulation, RequestsTooLongForTheCacheAndThoseBeyondTheQueueAreRejected) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 100, 3), request(1ms, 900, 200), request(2ms, 10, 1), request(3ms, 10, 1)});
  Scenario s = scenario(timer, t);
  s.kind.limits.kv_blocks = 64;  // 1024 tokens
  s.kind.limits.max_num_seqs = s.policy.running_max = 1;
  s.policy.ready_queue_max = 1;
  s.policy.queue_max = 0;
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[1]), "1 - - - r0 rejected");
  EXPECT_EQ(story(o.requests_log[2]), "2 30 40 40 r0");  // the place of the one that was turned down is free again
  EXPECT_EQ(story(o.requests_log[3]), "3 - - - r0 rejected");
  EXPECT_EQ(o.requests, 4U);
  EXPECT_EQ(o.completed, 2U);
  EXPECT_EQ(o.rejected, 2U);
  EXPECT_EQ(o.all.rejected, 2U);
}

TEST(Simulation, AttainmentAsksForEveryTargetOfTheClass) {
  LinearTimer timer(10ms);
  auto t =
      trace({request(0ms, 10, 11, 0), request(0ms, 10, 11, 1), request(0ms, 10, 41, 1), request(500ms, 10, 11, 2)});
  t.tenants = {"search", "etl", "late"};
  Scenario s = scenario(timer, t);
  s.classes = {{.name = "interactive", .rank = 0, .slo = {.ttft = 10ms, .tpot = 10ms}},
               {.name = "batch", .rank = 5, .slo = {.e2e = 200ms}}};
  s.class_of_tenant = {0, 1, 0};
  const Outcome o = run(s);
  EXPECT_EQ(o.classes[0].requests, 2U);
  EXPECT_EQ(o.classes[0].attained, 2U);
  EXPECT_EQ(o.classes[1].requests, 2U);
  EXPECT_EQ(o.classes[1].attained, 1U);
  EXPECT_EQ(o.all.attained, 3U);
  EXPECT_EQ(o.all.requests, 4U);
  s.classes[0].slo.tpot = 9ms;
  EXPECT_EQ(run(s).classes[0].attained, 0U);
  s.classes[0].slo = {.queue_wait = 0ns};
  EXPECT_EQ(run(s).classes[0].attained, 2U);
}

TEST(Simulation, UrgentClassesStartFirst) {
  const LinearTimer timer(10ms);
  auto t = trace({request(0ms, 10, 5, 0), request(1ms, 10, 1, 0), request(2ms, 10, 1, 1)});
  t.tenants = {"etl", "search"};
  Scenario s = scenario(timer, t);
  s.classes = {{.name = "batch", .rank = 9, .slo = {}}, {.name = "interactive", .rank = 0, .slo = {}}};
  s.class_of_tenant = {0, 1};
  s.kind.limits.max_num_seqs = s.policy.running_max = 1;
  for (const std::uint32_t ready : {0U, 8U}) {  // in the fleet's queue as in the replica's
    s.policy.ready_queue_max = ready;
    const Outcome o = run(s);
    EXPECT_EQ(story(o.requests_log[2]), "2 50 60 60 r0");
    EXPECT_EQ(story(o.requests_log[1]), "1 60 70 70 r0");
  }
}

TEST(Simulation, TheWarmUpRunsButDoesNotCount) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 10, 1000), request(100ms, 10, 1), request(200ms, 10, 1)});
  Scenario s = scenario(timer, t);
  s.warm_up = 100ms;
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, 3U);
  EXPECT_EQ(o.all.completed, 2U);
  EXPECT_EQ(o.all.requests, 2U);
  EXPECT_EQ(o.all.e2e_ms.max(), 10);
}

TEST(Simulation, AClosedLoopSendsTheNextWhenOneIsAnswered) {
  const LinearTimer timer(10ms);
  // The arrivals of the trace mean nothing here. Two users: 0 and 1 at once, then whoever is answered sends the next.
  const auto t = trace({request(7s, 10, 3), request(8s, 10, 5), request(9s, 10, 1), request(9s, 10, 2)});
  Scenario s = scenario(timer, t);
  s.clients.users = 2;
  s.warm_up_requests = 2;
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 30 r0");
  EXPECT_EQ(story(o.requests_log[1]), "0 0 10 50 r0");
  EXPECT_EQ(story(o.requests_log[2]), "30 30 40 40 r0");
  EXPECT_EQ(story(o.requests_log[3]), "40 40 50 60 r0");
  EXPECT_EQ(o.completed, 4U);
  EXPECT_EQ(o.all.completed, 2U);
  EXPECT_EQ(o.duration, 60ms);
}

// Nobody waits for an answer that will not come: who is turned away sends the next at once.
TEST(Simulation, AClosedLoopGoesOnAfterARejection) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0s, 5000, 1), request(0s, 10, 1), request(0s, 5000, 1), request(0s, 10, 1)});
  Scenario s = scenario(timer, t);
  s.kind.limits.kv_blocks = 64;
  s.clients.users = 1;
  const Outcome o = run(s);
  EXPECT_EQ(o.rejected, 2U);
  EXPECT_EQ(story(o.requests_log[1]), "0 0 10 10 r0");
  EXPECT_EQ(story(o.requests_log[3]), "10 10 20 20 r0");
}

TEST(Simulation, PreemptionForKvBlocksIsCountedAndLosesNoToken) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 60, 100), request(0ms, 60, 100)});
  Scenario s = scenario(timer, t);
  s.kind.limits.kv_blocks = 12;  // 192 tokens: not enough for 2 x 160
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, 2U);
  EXPECT_EQ(o.preempted, 1U);
  EXPECT_EQ(o.requests_log[1].preemptions, 1);
  EXPECT_EQ(o.output_tokens, 200U);
}

TEST(Simulation, TheCallerMayGiveUp) {
  const LinearTimer timer(10ms);
  std::vector<workload::Request> requests;
  for (int i = 0; i < 1000; ++i) requests.push_back(request(Duration(50ms) * i, 10, 2));
  const auto t = trace(requests);
  double last = 0;
  const Outcome o = run(scenario(timer, t), [&](double share) {
    EXPECT_GT(share, last);
    last = share;
    return share < 0.5;
  });
  EXPECT_EQ(o.requests, 500U);
  EXPECT_EQ(o.completed, 499U);
  EXPECT_EQ(run(scenario(timer, t), [](double) { return true; }).digest, run(scenario(timer, t)).digest);
}

TEST(Simulation, AnEmptyTraceIsAnEmptyRun) {
  const LinearTimer timer(10ms);
  const auto t = trace({});
  const Outcome o = run(scenario(timer, t));
  EXPECT_EQ(o.requests, 0U);
  EXPECT_EQ(o.all.ttft_ms.quantile(0.95), 0);
}

// A busy fleet with every feature on, from a fixed stream of random numbers.
struct Busy {
  LinearTimer timer;
  workload::Trace trace;
  Scenario scenario;

  Busy() {
    timer.stage_count = 2;
    timer.fixed = 4ms;
    timer.per_prefill_token = 2us;
    timer.per_sequence = 15us;
    timer.ns_per_1000_kv_tokens = 9001;
    timer.ns_per_million_prefix_pairs = 30000;
    timer.skew = 300us;
    Rng rng = Rng::stream(7, 0, "busy fleet");
    Duration at(0);
    for (int i = 0; i < 3000; ++i) {
      at += Duration(rng.below(40'000'000));
      // One draw a statement: compilers evaluate arguments in different orders.
      const auto input_tokens = static_cast<std::int32_t>(1 + rng.below(4000));
      const auto output_tokens = static_cast<std::int32_t>(1 + rng.below(300));
      trace.requests.push_back(request(at, input_tokens, output_tokens, static_cast<std::uint16_t>(rng.below(2))));
    }
    trace.tenants = {"search", "etl"};
    scenario = testing_support::scenario(timer, trace, 6, 3);
    for (std::uint32_t z = 0; z < 3; ++z) scenario.replicas.push_back({.zone = z, .standby = true});
    scenario.kind.limits = {.max_num_batched_tokens = 2048, .max_num_seqs = 32, .kv_blocks = 3000};
    scenario.kind.warm_start = 2s;
    scenario.kind.cold_start = 9s;
    scenario.kind.gpus = 4;
    scenario.policy = {.routing = policy::Routing::kPowerOfTwo,
                       .zone_affinity = policy::ZoneAffinity::kPrefer,
                       .ready_queue_max = 4,
                       .running_max = 32,
                       .queue_max = 500};
    scenario.classes = {{.name = "interactive", .rank = 0, .slo = {.ttft = 1s}},
                        {.name = "batch", .rank = 3, .slo = {}}};
    scenario.class_of_tenant = {0, 1};
    scenario.faults = {{.kind = Fault::Kind::kZoneLoss, .at = Instant(10s), .lasts = 12s, .target = 1},
                       {.kind = Fault::Kind::kReplicaLoss, .at = Instant(31s), .target = 3}};
    scenario.check_invariants = false;
  }
};

// Written down once: every compiler, library and machine must come to it. When results are meant to change, so does
// this.
TEST(Simulation, TheDigestIsTheSameOnEveryCompiler) {
  Busy busy;
  const Outcome o = run(busy.scenario);
  EXPECT_EQ(o.completed, 3000U);
  EXPECT_GT(o.preempted, 0U);
  EXPECT_EQ(o.digest, 0xbd91f22e63a2a190ULL) << fmt::format("{:#x}", o.digest);
}

TEST(Simulation, NeitherSamplingNorCheckingNorKeepingRecordsChangesResults) {
  Busy busy;
  const Outcome plain = run(busy.scenario);
  busy.scenario.sample_interval = 7ms;
  busy.scenario.check_invariants = true;
  busy.scenario.keep_requests = false;
  const Outcome watched = run(busy.scenario, [](double) { return true; });
  EXPECT_EQ(watched.digest, plain.digest);
  EXPECT_EQ(watched.steps, plain.steps);
  EXPECT_EQ(watched.all.ttft_ms.quantile(0.99), plain.all.ttft_ms.quantile(0.99));
  EXPECT_TRUE(watched.requests_log.empty());
  EXPECT_EQ(watched.gpu_seconds, plain.gpu_seconds);
}

// What a sample says must be what the requests' own instants say.
TEST(Simulation, SamplesAgreeWithTheRecords) {
  Busy busy;
  busy.scenario.faults.clear();
  busy.scenario.kind.limits.kv_blocks = 100000;  // nobody is preempted: whoever started runs until its last token
  busy.scenario.sample_interval = 100ms;
  const Outcome o = run(busy.scenario);
  ASSERT_GT(o.samples.size(), 300U);
  std::uint32_t arrivals = 0;
  for (const Sample& s : o.samples) {
    std::uint32_t arrived = 0, queued = 0, running = 0;
    for (const RequestRecord& r : o.requests_log) {
      arrived += r.arrival <= s.at;
      queued += r.arrival <= s.at && r.first_scheduled > s.at;
      running += r.first_scheduled <= s.at && r.last_token > s.at;
    }
    arrivals += s.arrivals;
    std::uint32_t sampled_running = 0;
    for (const std::uint32_t n : s.running) sampled_running += n;
    ASSERT_EQ(arrivals, arrived);
    ASSERT_EQ(s.queued, queued);
    ASSERT_EQ(sampled_running, running);
    ASSERT_EQ(s.ready_replicas, 6U);
  }
}

TEST(Simulation, SamplesStayBoundedAndLoseNoArrival) {
  Busy busy;
  busy.scenario.sample_interval = 1ms;
  const Outcome o = run(busy.scenario);
  EXPECT_LE(o.samples.size(), kSamplesMax);
  EXPECT_GT(o.samples.size(), kSamplesMax / 2 - 1);
  const Duration interval = o.samples[1].at - o.samples[0].at;
  EXPECT_EQ(o.samples[0].at, Instant(interval));
  std::uint64_t arrivals = 0;
  for (std::size_t i = 0; i < o.samples.size(); ++i) {
    EXPECT_EQ(o.samples[i].at, Instant(interval * static_cast<int>(i + 1)));
    arrivals += o.samples[i].arrivals;
  }
  std::uint64_t by_then = 0;
  for (const RequestRecord& r : o.requests_log) by_then += r.arrival <= o.samples.back().at;
  EXPECT_EQ(arrivals, by_then);
}

TEST(PrefillBudget, FillsAStepUpToTheTarget) {
  LinearTimer timer(10ms);
  timer.stage_count = 2;
  timer.per_prefill_token = 50us;
  timer.per_sequence = 100us;
  const sched::SchedulerLimits limits{.max_num_batched_tokens = 2048, .max_num_seqs = 20, .kv_blocks = 10};
  // Two stages of 10 ms and 20 * 0.1 ms each leave 26 of 50 ms: 0.1 ms a token over both.
  EXPECT_EQ(prefill_tokens_within(50ms, timer, limits), 260);
  EXPECT_EQ(prefill_tokens_within(20ms, timer, limits), 1);
  EXPECT_EQ(prefill_tokens_within(5s, timer, limits), 2048);
}

TEST(Simulation, TokensInAreTokensOut) {
  Busy busy;
  const Outcome o = run(busy.scenario);
  std::uint64_t input = 0, output = 0;
  for (const workload::Request& r : busy.trace.requests) {
    input += static_cast<std::uint64_t>(r.input_tokens);
    output += static_cast<std::uint64_t>(r.output_tokens);
  }
  EXPECT_EQ(o.completed, busy.trace.requests.size());
  EXPECT_EQ(o.input_tokens, input);
  EXPECT_EQ(o.output_tokens, output);
}

}  // namespace
}  // namespace muster::sim
