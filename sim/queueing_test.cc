// The event core against queueing theory, where the answer is known in closed form.
//
// A replica that runs one sequence at a time, with steps of constant length, is a single server whose service time is
// (output tokens x step): deterministic or geometric, and the latter is exponential but for its discreteness, which the
// formulas below include where they can. The fleet's queue in front of k such replicas is the one queue of M/M/k.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "muster/core/statistics.h"
#include "muster/sim/simulation.h"
#include "test_support.h"

namespace muster::sim {
namespace {

using testing_support::LinearTimer;
using testing_support::request;

constexpr Duration kStep = 100us;
constexpr double kMeanTokens = 500;  // of an answer: a service takes 50 ms on average
constexpr double kMeanService = kMeanTokens * 1e-4;
constexpr int kRequests = 30000, kReplications = 12;

// On 1, 2, 3, ... with the given mean (inverse transform).
std::int32_t geometric(Rng& rng, double mean) {
  return 1 + static_cast<std::int32_t>(std::log(rng.uniform_open()) / std::log1p(-1 / mean));
}

workload::Trace poisson(std::uint64_t run, double rate, const std::function<std::int32_t(Rng&)>& tokens) {
  Rng arrivals = Rng::stream(11, run, "arrivals");
  Rng lengths = Rng::stream(11, run, "lengths");
  workload::Trace trace;
  double at = 0;
  for (int i = 0; i < kRequests; ++i) {
    at += arrivals.exponential(1 / rate);
    trace.requests.push_back(request(from_seconds(at), 1, tokens(lengths)));
  }
  return trace;
}

struct Servers {
  std::uint32_t replicas = 1;
  std::uint32_t slots = 1;  // sequences a replica runs at once
};

// Mean queue wait over the replications, seconds.
MeanInterval mean_wait(const Servers& servers, double rate, const std::function<std::int32_t(Rng&)>& tokens) {
  const LinearTimer timer(kStep);
  std::vector<double> means;
  for (std::uint64_t run_number = 0; run_number < kReplications; ++run_number) {
    const workload::Trace trace = poisson(run_number, rate, tokens);
    Scenario s = testing_support::scenario(timer, trace, servers.replicas);
    s.kind.limits.max_num_seqs = servers.slots;
    s.policy.running_max = servers.slots;
    s.policy.ready_queue_max = 0;  // late binding at its purest
    s.check_invariants = s.keep_requests = false;
    const Outcome o = run(s);
    EXPECT_EQ(o.completed, static_cast<std::uint64_t>(kRequests));
    means.push_back(o.all.queue_wait_ms.mean() / 1000);
  }
  return mean_interval_95(means);
}

void expect_covers(const MeanInterval& measured, double theory, double bias = 0) {
  EXPECT_NEAR(measured.mean, theory, measured.half_width + bias);
  EXPECT_LT(measured.half_width, 0.08 * theory);  // or the test would prove nothing
}

// Pollaczek-Khinchine: Wq = rate * E[S^2] / (2 (1 - load)).
double wait_of_m_g_1(double rate, double mean, double mean_square) {
  return rate * mean_square / (2 * (1 - rate * mean));
}

// Erlang C.
double wait_of_m_m_k(double rate, double mean, int k) {
  const double load = rate * mean;
  double term = 1, sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += term;
    term *= load / (i + 1);
  }
  const double last = term / (1 - load / k);
  return last / (sum + last) * mean / (k - load);
}

TEST(Queueing, MM1) {
  for (const double load : {0.5, 0.8}) {
    SCOPED_TRACE("load " + std::to_string(load));
    const double rate = load / kMeanService;
    const auto wait = mean_wait({}, rate, [](Rng& rng) { return geometric(rng, kMeanTokens); });
    const double p = 1 / kMeanTokens;
    const double mean_square = (2 - p) / (p * p) * 1e-8;  // of a geometric number of 100 us steps
    expect_covers(wait, wait_of_m_g_1(rate, kMeanService, mean_square));
    EXPECT_NEAR(wait_of_m_g_1(rate, kMeanService, mean_square), wait_of_m_m_k(rate, kMeanService, 1),
                0.01 * wait_of_m_m_k(rate, kMeanService, 1));
  }
}

TEST(Queueing, MD1) {
  for (const double load : {0.5, 0.8}) {
    SCOPED_TRACE("load " + std::to_string(load));
    const double rate = load / kMeanService;
    const auto wait = mean_wait({}, rate, [](Rng&) { return static_cast<std::int32_t>(kMeanTokens); });
    expect_covers(wait, wait_of_m_g_1(rate, kMeanService, kMeanService * kMeanService));
  }
}

// A mix of short and long answers, as chat beside summaries: the squared coefficient of variation is 5.4.
TEST(Queueing, MG1WithAMixtureOfLengths) {
  constexpr double kShare = 0.9, kShort = 150, kLong = 3650;  // of the mean 500
  const double rate = 0.6 / kMeanService;
  const auto wait = mean_wait({}, rate, [](Rng& rng) {
    const bool is_short = rng.uniform() < kShare;
    return geometric(rng, is_short ? kShort : kLong);
  });
  const auto mean_square = [](double mean) { return (2 - 1 / mean) * mean * mean * 1e-8; };
  const double theory =
      wait_of_m_g_1(rate, kMeanService, kShare * mean_square(kShort) + (1 - kShare) * mean_square(kLong));
  EXPECT_NEAR(wait.mean, theory, wait.half_width);
  EXPECT_LT(wait.half_width, 0.15 * theory);
}

TEST(Queueing, MMkThroughTheFleetsQueue) {
  for (const int k : {2, 5}) {
    SCOPED_TRACE("servers " + std::to_string(k));
    const double rate = 0.8 * k / kMeanService;
    const auto wait = mean_wait({.replicas = static_cast<std::uint32_t>(k)}, rate,
                                [](Rng& rng) { return geometric(rng, kMeanTokens); });
    expect_covers(wait, wait_of_m_m_k(rate, kMeanService, k), 1e-4);
  }
}

// One replica with k places in its batch: also M/M/k, but that places are filled at step boundaries: on average half a
// step later for those who come while others run.
TEST(Queueing, MMkInsideOneReplica) {
  const int k = 5;
  const double rate = 0.8 * k / kMeanService;
  const auto wait = mean_wait({.slots = k}, rate, [](Rng& rng) { return geometric(rng, kMeanTokens); });
  expect_covers(wait, wait_of_m_m_k(rate, kMeanService, k) + 0.5e-4, 1e-4);
}

// Little's law, of every router: the mean number in the system, as sampled, is the sum of all stays over the time.
TEST(Queueing, LittlesLaw) {
  LinearTimer timer(2ms);
  timer.per_prefill_token = 5us;
  timer.per_sequence = 50us;
  timer.ns_per_1000_kv_tokens = 5000;
  for (const policy::Routing routing : policy::kRoutings) {
    Rng rng = Rng::stream(5, 0, "little");
    workload::Trace trace;
    Duration at(0);
    for (int i = 0; i < 10000; ++i) {
      at += from_seconds(rng.exponential(0.02));
      const auto input_tokens = static_cast<std::int32_t>(1 + rng.below(2000));
      trace.requests.push_back(request(at, input_tokens, geometric(rng, 150)));
    }
    Scenario s = testing_support::scenario(timer, trace, 4);
    s.policy.routing = routing;
    s.kind.limits.max_num_seqs = s.policy.running_max = 8;
    s.sample_interval = 100ms;
    s.check_invariants = false;
    const Outcome o = run(s);
    double in_system = 0;
    for (const Sample& sample : o.samples) {
      in_system += sample.queued;
      for (const std::uint32_t n : sample.running) in_system += n;
    }
    in_system /= static_cast<double>(o.samples.size());
    const double span = to_seconds(o.samples.back().at.time_since_epoch());
    const double stays = o.all.e2e_ms.mean() / 1000 * static_cast<double>(o.completed);
    EXPECT_NEAR(in_system, stays / span, 0.01 * in_system) << policy::name(routing);
    EXPECT_GT(in_system, 5);
  }
}

}  // namespace
}  // namespace muster::sim
