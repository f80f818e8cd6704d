#include "muster/policy/quota.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/rng.h"

namespace muster::policy {
namespace {

constexpr Instant at(Duration since) {
  return Instant(since);
}

QuotaRequest request(std::uint32_t id, std::uint32_t name_space, std::int64_t tokens) {
  return {RequestId{id}, name_space, 0, tokens, 0};
}

// Two namespaces of 100 guaranteed, 500 nominal and 1000 at most, out of 1000 tokens per minute; 10 requests.
QuotaSettings two() {
  const NamespaceQuota each{{100, 500, 1000}, {2, 5, 10}};
  return {1000, 10, {each, each}};
}

TEST(Quotas, ReservesTheLargerMaximumAndRefundsWhatWasNotUsed) {
  Quotas quotas(two());
  EXPECT_TRUE(quotas.reserve(at(0s), {RequestId{1}, 0, 10, 1, 300}).admitted);
  EXPECT_EQ(quotas.reserved(), 310);
  EXPECT_TRUE(quotas.settle(at(0s), RequestId{1}, 10, 40));
  EXPECT_FALSE(quotas.settle(at(0s), RequestId{1}, 10, 40)) << "settled twice";
  EXPECT_FALSE(quotas.release(at(0s), RequestId{1})) << "and released";
  EXPECT_EQ(quotas.settled(), 50);
  EXPECT_EQ(quotas.released(), 260);
  EXPECT_EQ(quotas.running(0), 0);
  quotas.check();
}

// ai-gateway#680: two hundred at once, when there is room for one.
TEST(Quotas, OneOfManyPassesANearlyEmptyQuota) {
  Quotas quotas(two());
  ASSERT_TRUE(quotas.reserve(at(0s), request(0, 0, 850)).admitted);
  int admitted = 0;
  for (std::uint32_t id = 1; id <= 200; ++id) admitted += quotas.reserve(at(0s), request(id, 0, 50)).admitted;
  EXPECT_EQ(admitted, 1);
}

// litellm#39309: retrying against a refusal must not postpone the recovery.
TEST(Quotas, ARefusalCostsNothing) {
  Quotas quotas(two());
  ASSERT_TRUE(quotas.reserve(at(0s), request(0, 0, 900)).admitted);
  const QuotaAnswer refused = quotas.reserve(at(0s), request(1, 0, 500));
  ASSERT_TRUE(refused.retry_after.has_value());
  const std::int64_t reserved = quotas.reserved();
  for (Duration t = 0s; t < *refused.retry_after; t += 100ms)
    EXPECT_FALSE(quotas.reserve(at(t / 2), request(1, 0, 500)).admitted);
  EXPECT_EQ(quotas.reserved(), reserved);
  EXPECT_TRUE(quotas.reserve(at(*refused.retry_after), request(1, 0, 500)).admitted) << "the hint holds";
}

TEST(Quotas, ARequestThatCanNeverFitSaysSo) {
  Quotas quotas(two());
  const QuotaAnswer answer = quotas.reserve(at(0s), {RequestId{1}, 0, INT64_MAX, INT64_MAX, INT64_MAX});
  EXPECT_FALSE(answer.admitted);
  EXPECT_FALSE(answer.retry_after.has_value());
}

TEST(Quotas, LendsWhatIsUnusedButNotTheGuarantee) {
  Quotas quotas(two());
  std::uint32_t id = 0;
  while (quotas.reserve(at(0s), request(id, 0, 1)).admitted) ++id;
  EXPECT_EQ(id, 8U) << "ten, less two that are guaranteed to the other";
  EXPECT_TRUE(quotas.reserve(at(0s), request(100, 1, 100)).admitted);
  EXPECT_TRUE(quotas.reserve(at(0s), request(101, 1, 1)).admitted);
  quotas.check();
}

TEST(Quotas, ReclaimsWhatWasLentForOneBelowItsNominal) {
  Quotas quotas(two());
  for (std::uint32_t id = 0; id < 8; ++id) ASSERT_TRUE(quotas.reserve(at(0s), request(id, 0, 1)).admitted);
  for (std::uint32_t id = 100; id < 102; ++id) ASSERT_TRUE(quotas.reserve(at(0s), request(id, 1, 1)).admitted);
  EXPECT_FALSE(quotas.reserve(at(0s), request(102, 1, 1)).admitted) << "all is lent";
  for (std::uint32_t id = 0; id < 3; ++id) {
    ASSERT_TRUE(quotas.settle(at(1ms), RequestId{id}, 0, 1));
    if (quotas.running(0) >= 5) {
      EXPECT_FALSE(quotas.reserve(at(1ms), request(50, 0, 1)).admitted) << "held back by the claim";
    }
    EXPECT_TRUE(quotas.reserve(at(1ms), request(102 + id, 1, 1)).admitted);
    EXPECT_FALSE(quotas.reserve(at(1ms), request(110, 1, 1)).admitted);
  }
  EXPECT_EQ(quotas.running(1), 5);
  ASSERT_TRUE(quotas.settle(at(2ms), RequestId{3}, 0, 1));
  EXPECT_TRUE(quotas.reserve(at(2s), request(50, 0, 1)).admitted) << "the claim has lapsed";
}

TEST(Quotas, ChargesWhatWasUsedBeyondTheReservation) {
  Quotas quotas(two());
  ASSERT_TRUE(quotas.reserve(at(0s), request(0, 0, 1)).admitted);
  ASSERT_TRUE(quotas.settle(at(0s), RequestId{0}, 0, 2000));
  EXPECT_EQ(quotas.excess(), 1999);
  EXPECT_FALSE(quotas.reserve(at(59s), request(1, 0, 1)).admitted) << "1000 below zero at the ceiling";
  EXPECT_TRUE(quotas.reserve(at(61s), request(1, 0, 1)).admitted);
  EXPECT_TRUE(quotas.reserve(at(61s), request(2, 1, 100)).admitted) << "the other's guarantee is untouched";
  quotas.check();
}

TEST(Quotas, LearnsThe95thPercentile) {
  QuotaSettings settings = two();
  settings.tokens_per_min = 100'000'000;
  settings.namespaces[0].tokens_per_min = {100, 500, 100'000'000};
  Quotas quotas(settings);
  Rng rng = Rng::stream(1, 0, "estimate");
  for (std::uint32_t id = 0; id < 20'000; ++id) {
    const Instant now = at(1s * static_cast<std::int64_t>(id));
    ASSERT_TRUE(quotas.reserve(now, {RequestId{id}, 0, 0, 0, 0}).admitted);
    ASSERT_TRUE(quotas.settle(now, RequestId{id}, 0, static_cast<std::int64_t>(rng.below(1000))));
  }
  EXPECT_NEAR(static_cast<double>(quotas.estimate(0)), 950, 100);
}

// Random calls against the promises, counted here the slow way.
TEST(Quotas, KeepsItsPromisesWhateverTheCalls) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "quotas");
    Quotas quotas(two());
    std::map<std::uint32_t, std::pair<std::uint32_t, std::int64_t>> held;  // id -> namespace, tokens
    std::vector<std::pair<std::int64_t, std::int64_t>> spent;              // ns, net tokens
    Duration now{0};
    for (std::uint32_t id = 0; id < 400; ++id) {
      now += Duration(static_cast<std::int64_t>(rng.below(3'000'000'000)));
      const auto name_space = static_cast<std::uint32_t>(rng.below(2));
      const auto tokens = static_cast<std::int64_t>(1 + rng.below(120));
      std::int64_t running = 0;
      for (const auto& [_, what] : held) running += what.first == name_space;
      ASSERT_EQ(quotas.running(name_space), running);
      if (quotas.reserve(at(now), request(id, name_space, tokens)).admitted) {
        held[id] = {name_space, tokens};
        spent.emplace_back(now.count(), tokens);
      }
      if (!held.empty() && rng.below(3) > 0) {
        const auto which = std::next(held.begin(), static_cast<std::ptrdiff_t>(rng.below(held.size())));
        const std::int64_t used =
            rng.below(4) == 0 ? 0 : static_cast<std::int64_t>(rng.below(120)) % which->second.second;
        ASSERT_TRUE(used == 0 ? quotas.release(at(now), RequestId{which->first})
                              : quotas.settle(at(now), RequestId{which->first}, 0, used));
        spent.emplace_back(now.count(), used - which->second.second);
        held.erase(which);
      }
      quotas.check();
      ASSERT_LE(held.size(), 10U);
      std::int64_t sum = 0;  // of every window that ends now
      for (auto from = spent.rbegin(); from != spent.rend(); ++from) {
        sum += from->second;
        ASSERT_LE(sum, 1000 + 1000 * (now.count() - from->first) / 60'000'000'000 + 3) << "and the parts of tokens";
      }
    }
  }
}

}  // namespace
}  // namespace muster::policy
