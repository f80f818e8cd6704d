// What clients do, told as scripts: think, wait for one another, lose patience, try again.
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
  const char* ends[] = {"open", "completed", "rejected", "timed out"};
  return fmt::format("{} {} x{}", instants(r), ends[static_cast<int>(r.end)], r.attempts);
}

TEST(Clients, ThinkBetweenAnswerAndNextRequest) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0s, 10, 2), request(0s, 10, 1)});
  Scenario s = scenario(timer, t);
  s.clients = {.users = 1, .think = 25ms};
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 20 completed x1");
  EXPECT_EQ(story(o.requests_log[1]), "45 45 55 55 completed x1");
}

TEST(Clients, InLockStepAllWaitForTheSlowest) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0s, 10, 1), request(0s, 10, 4), request(0s, 10, 1), request(0s, 10, 1)});
  Scenario s = scenario(timer, t);
  s.clients = {.users = 2, .lock_step = true};
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 10 completed x1");
  EXPECT_EQ(story(o.requests_log[1]), "0 0 10 40 completed x1");
  EXPECT_EQ(story(o.requests_log[2]), "40 40 50 50 completed x1");
  EXPECT_EQ(story(o.requests_log[3]), "40 40 50 50 completed x1");
}

TEST(Clients, TheNextTurnOfASessionComesAfterTheAnswer) {
  const LinearTimer timer(10ms);
  auto t = trace({request(0ms, 10, 5), request(1ms, 10, 1), request(2ms, 10, 1)});
  t.requests[0].session = t.requests[2].session = 7;  // the arrival of the second turn in the trace means nothing
  t.requests[2].think = 100ms;
  Scenario s = scenario(timer, t);
  s.clients.sessions = true;
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 50 completed x1");
  EXPECT_EQ(story(o.requests_log[1]), "1 10 20 20 completed x1");
  EXPECT_EQ(story(o.requests_log[2]), "150 150 160 160 completed x1");
}

TEST(Clients, AFailedTurnEndsItsSession) {
  const LinearTimer timer(10ms);
  auto t = trace({request(0ms, 5000, 5), request(1ms, 10, 1), request(2ms, 10, 1)});
  t.requests[0].session = t.requests[2].session = 0;
  Scenario s = scenario(timer, t);
  s.kind.limits.kv_blocks = 64;
  s.clients.sessions = true;
  const Outcome o = run(s);
  EXPECT_EQ(o.requests, 2U);
  EXPECT_EQ(o.rejected, 1U);
  EXPECT_EQ(o.completed, 1U);
}

TEST(Clients, GiveUpInTheQueueAndWhileRunning) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 10, 100), request(0ms, 10, 2)});
  Scenario s = scenario(timer, t);
  s.kind.limits.max_num_seqs = s.policy.running_max = 1;
  s.policy.ready_queue_max = 0;
  s.clients.first_token_timeout = 35ms;
  s.clients.timeout = 50ms;
  const Outcome o = run(s);
  EXPECT_EQ(story(o.requests_log[0]), "0 0 10 - timed out x1");  // its fifth token came as it gave up
  EXPECT_EQ(story(o.requests_log[1]), "0 - - - timed out x1");
  EXPECT_EQ(o.timed_out, 2U);
  EXPECT_EQ(o.wasted_output_tokens, 5U);
}

TEST(Clients, TryAgainAfterAPauseThatDoubles) {
  const LinearTimer timer(10ms);
  const auto t = trace({request(0ms, 10, 60), request(1ms, 10, 2)});
  Scenario s = scenario(timer, t);
  s.kind.limits.max_num_seqs = s.policy.running_max = 1;
  s.policy.ready_queue_max = 0;
  s.policy.queue_max = 0;  // who cannot run is refused
  s.clients.retries_max = 9;
  s.clients.retry_backoff = 100ms;
  const Outcome o = run(s);
  EXPECT_EQ(o.completed, 2U);
  EXPECT_EQ(o.rejected, 0U);
  const RequestRecord& r = o.requests_log[1];
  EXPECT_GE(o.retries, 2U);  // 600 ms are not over after 50 to 150 ms
  EXPECT_LE(o.retries, 4U);  // 4 pauses last at least 50 * (1 + 2 + 4 + 8) ms
  EXPECT_EQ(r.attempts, 1 + o.retries);
  EXPECT_EQ(r.arrival, Instant(1ms));  // what the user waited counts from the first attempt
  EXPECT_GE(r.first_scheduled, Instant(600ms));
}

// A surge of ten seconds. Clients that give up and leave let the fleet recover at once; those that try again keep it
// busy with answers that nobody waits for to the end, long after the surge: the overload feeds itself.
TEST(Clients, ARetryStormOutlivesItsSurge) {
  LinearTimer timer(10ms);
  timer.per_sequence = 1ms;  // n at once take 100 * (10 + n) ms each for 100 tokens: at most 7.5 per second in 4 s
  std::vector<workload::Request> requests;
  Duration at(0);
  while (at < 120s) {
    const bool surge = at >= 20s && at < 30s;
    at += surge ? Duration(50ms) : Duration(170ms);  // 5.9 per second, in the surge 20
    requests.push_back(request(at, 10, 100));
  }
  const auto t = trace(requests);
  Scenario s = scenario(timer, t);
  s.check_invariants = false;
  const auto served_late = [&](const Outcome& o) {  // share of those that came 30 s after the surge
    int n = 0, served = 0;
    for (const RequestRecord& r : o.requests_log) {
      if (r.arrival < Instant(60s) || r.arrival > Instant(110s)) continue;
      ++n;
      served += r.completed() && r.last_token - r.arrival <= 4s;
    }
    return static_cast<double>(served) / n;
  };
  s.clients.timeout = 4s;
  EXPECT_GT(served_late(run(s)), 0.99);
  s.clients.retries_max = 10;
  s.clients.retry_backoff = 500ms;
  const Outcome storm = run(s);
  EXPECT_GT(storm.retries, 1000U);
  EXPECT_LT(served_late(storm), 0.5);
  EXPECT_GT(storm.wasted_output_tokens, storm.output_tokens);
}

}  // namespace
}  // namespace muster::sim
