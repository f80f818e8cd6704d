// Several pools in one fleet: each class in its own, and prefill apart from decode.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/sim/simulation.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::instants;
using testing_support::LinearTimer;
using testing_support::request;
using testing_support::scenario;
using testing_support::trace;

std::string story(const RequestRecord& r) {
  return fmt::format("{} r{}", instants(r), r.replica);
}

TEST(Pools, EachClassHasItsOwn) {
  const LinearTimer chat(10ms), embedder(3ms);
  const auto t = trace({request(0ms, 10, 3, 0), request(0ms, 10, 1, 1), request(0ms, 10, 1, 1)});
  Scenario s = scenario(chat, t);
  s.kind.gpus = 8;
  s.more_pools.push_back({.name = "embed", .kind = s.kind, .policy = s.policy});
  s.more_pools[0].kind.step = &embedder;
  s.more_pools[0].kind.gpus = 1;
  s.replicas.push_back({.zone = 0, .standby = false, .pool = 1});
  s.classes = {{.name = "chat"}, {.name = "embedding"}};
  s.class_of_tenant = {0, 1};
  s.pool_of_class = {0, 1};
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 30 r0");
  EXPECT_EQ(story(o.requests_log[1]), "0 0 3 3 r1");
  EXPECT_EQ(story(o.requests_log[2]), "0 0 3 3 r1");
  EXPECT_NEAR(o.gpu_seconds, 9 * 0.030, 1e-9);
}

// 1 GB/s, 1 ms latency, 100 kB a token: 100 tokens take 10 ms, and one transfer after the other.
Scenario disaggregated(const StepTimer& prefill, const StepTimer& decode, const workload::Trace& t) {
  Scenario s = scenario(prefill, t);
  s.more_pools.push_back({.name = "decode", .kind = s.kind, .policy = s.policy});
  s.more_pools[0].kind.step = &decode;
  s.replicas.push_back({.zone = 0, .standby = false, .pool = 1});
  s.disaggregation = {.kv_bytes_per_token = 100'000, .link_bytes_per_s = 1e9, .link_latency = 1ms};
  return s;
}

TEST(Disaggregation, TheFirstTokenComesFromThePrefillAndTheRestAfterTheTransfer) {
  LinearTimer prefill(10ms), decode(2ms);
  decode.per_prefill_token = 100us;  // no prompt is computed here, but for the token that has no KV yet
  const auto t = trace({request(0ms, 100, 4)});
  const Outcome o = run(disaggregated(prefill, decode, t));
  // The prefill ends at 10 ms; the transfer takes 11 ms; the first step there takes 2.1 ms, then 2 ms each.
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 27.1 r1");
  EXPECT_EQ(o.kv_transfers.transfers, 1U);
  EXPECT_NEAR(o.kv_transfers.bytes, 1e7, 1);
}

TEST(Disaggregation, TransfersShareTheLink) {
  const LinearTimer prefill(10ms), decode(2ms);
  const auto t = trace({request(0ms, 100, 2), request(0ms, 100, 2), request(0ms, 100, 2)});
  const Outcome o = run(disaggregated(prefill, decode, t));
  // All three prefills end at 10 ms; the transfers end at 21, 31 and 41 ms.
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 23 r1");
  EXPECT_EQ(story(o.requests_log[1]), "0 0 10 33 r1");
  EXPECT_EQ(story(o.requests_log[2]), "0 0 10 43 r1");
  EXPECT_NEAR(o.kv_transfers.waited_seconds, 0.010 + 0.020, 1e-9);
}

TEST(Disaggregation, AnAnswerOfOneTokenNeedsNoDecode) {
  const LinearTimer prefill(10ms), decode(2ms);
  const auto t = trace({request(0ms, 100, 1)});
  const Outcome o = run(disaggregated(prefill, decode, t));
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 10 r0");
  EXPECT_EQ(o.kv_transfers.transfers, 0U);
}

TEST(Disaggregation, ALostDecodeReplicaSendsItsRequestsThroughThePrefillAgain) {
  const LinearTimer prefill(10ms), decode(2ms);
  const auto t = trace({request(0ms, 100, 40), request(30ms, 100, 10)});
  Scenario s = disaggregated(prefill, decode, t);
  s.replicas.push_back({.zone = 0, .standby = true, .pool = 1});
  s.kind.warm_start = 0ms;
  s.more_pools[0].kind.warm_start = 5ms;
  // One decodes, the other is on its way.
  s.faults = {{.kind = Fault::Kind::kReplicaLoss, .at = Instant(45ms), .lasts = Duration(0), .target = 1}};
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, 2U);
  EXPECT_EQ(o.output_tokens, 50U);
  EXPECT_EQ(o.preempted, 2U);
  EXPECT_EQ(o.kv_transfers.transfers, 4U);
  EXPECT_EQ(o.requests_log[0].replica, 2U);
  EXPECT_EQ(o.requests_log[0].first_token, Instant(10ms));  // what was emitted stays emitted
}

// Conversations of four turns, each turn repeating all before it: who sends a turn where its conversation was finds it.
TEST(PrefixAffinity, FindsMoreThanARouterThatDoesNotLook) {
  LinearTimer timer(5ms);
  timer.per_prefill_token = 100us;
  workload::Trace t;
  t.block_tokens = 16;
  for (std::int32_t turn = 0; turn < 4; ++turn)
    for (std::uint64_t conversation = 0; conversation < 40; ++conversation) {
      workload::Request r = request(2s * turn + 37ms * static_cast<std::int64_t>(conversation), 160 * (turn + 1), 20);
      r.first_block = static_cast<std::uint32_t>(t.block_ids.size());
      r.block_count = static_cast<std::uint32_t>(10 * (turn + 1));
      for (std::uint64_t i = 0; i < r.block_count; ++i) t.block_ids.push_back(conversation * 1000 + i);
      t.requests.push_back(r);
    }
  Scenario s = scenario(timer, t, 4);
  s.kind.limits.prefix_caching = true;
  s.policy.routing = policy::Routing::kRandom;
  const Outcome random = run(s);
  s.policy.prefix_affinity = true;
  const Outcome affine = run(s);
  EXPECT_EQ(affine.prefix_tokens_queried, random.prefix_tokens_queried);
  // All but the first turn's 160 tokens are a repetition: 40 * 160 * (0 + 1 + 2 + 3) of 40 * 160 * (1 + 2 + 3 + 4).
  EXPECT_EQ(affine.prefix_tokens_hit, 40 * 160 * 6);
  EXPECT_LT(random.prefix_tokens_hit, affine.prefix_tokens_hit / 2);
  EXPECT_LT(affine.all.ttft_ms.mean(), random.all.ttft_ms.mean());
  EXPECT_EQ(affine.requests_log.back().cached_tokens, 480);
}

}  // namespace
}  // namespace muster::sim
