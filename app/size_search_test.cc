#include "size_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "muster/core/rng.h"

namespace muster::app {
namespace {

// A fleet whose score falls with its size: load / replicas, with noise per seed.
Evaluate falling(double load, double noise, int* calls = nullptr) {
  return [=](const std::vector<Trial>& trials) {
    std::vector<double> scores;
    for (const Trial& t : trials) {
      Rng rng = Rng::stream(static_cast<std::uint64_t>(t.seed), 0, "noise");
      scores.push_back(load / t.replicas * (1 + noise * rng.normal()));
      if (calls != nullptr) ++*calls;
    }
    return scores;
  };
}

TEST(SizeSearch, FindsTheSmallestSizeFromAnyGuess) {
  for (const int guess : {1, 3, 9, 40, 500})
    for (const double load : {0.5, 1.0, 7.3, 9.0, 63.0}) {
      const SearchResult result = search(falling(load, 0), {.first_guess = guess});
      ASSERT_TRUE(result.replicas) << load;
      EXPECT_EQ(*result.replicas, std::max(1, static_cast<int>(std::ceil(load)))) << "guess " << guess;
      EXPECT_EQ(result.replicas_at_95, result.replicas);
    }
}

TEST(SizeSearch, NoiseAsksForMoreAt95) {
  const SearchResult result = search(falling(8.9, 0.05), {.first_guess = 9});
  ASSERT_TRUE(result.replicas && result.replicas_at_95);
  EXPECT_GE(*result.replicas_at_95, *result.replicas);
  EXPECT_GT(*result.replicas_at_95, 9);
  EXPECT_TRUE(result.sizes.contains(*result.replicas));
  EXPECT_TRUE(result.sizes.contains(*result.replicas - 1)) << "N - 1 is the evidence that N is needed";
}

TEST(SizeSearch, AFloorThatNoFleetPassesIsReported) {
  const Evaluate floor = [](const std::vector<Trial>& trials) {
    std::vector<double> scores;
    for (const Trial& t : trials) scores.push_back(1.3 + 4.0 / t.replicas);
    return scores;
  };
  const SearchResult result = search(floor, {.first_guess = 4});
  EXPECT_FALSE(result.replicas);
  EXPECT_NEAR(result.best_score, 1.3, 0.1);
}

TEST(SizeSearch, TheLimitOnReplicasIsKept) {
  const SearchResult result = search(falling(50, 0), {.first_guess = 4, .replicas_max = 30});
  EXPECT_FALSE(result.replicas);
  EXPECT_EQ(result.largest_tried, 30);
}

TEST(SizeSearch, NoTrialIsRunTwice) {
  std::set<std::pair<int, int>> seen;
  const Evaluate once = [&](const std::vector<Trial>& trials) {
    std::vector<double> scores;
    for (const Trial& t : trials) {
      EXPECT_TRUE(seen.emplace(t.replicas, t.seed).second) << t.replicas << " " << t.seed;
      scores.push_back(12.5 / t.replicas);
    }
    return scores;
  };
  EXPECT_EQ(search(once, {.first_guess = 5}).replicas, 13);
}

}  // namespace
}  // namespace muster::app
