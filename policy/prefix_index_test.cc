#include "muster/policy/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/core/rng.h"
#include "testing/naive_prefixes.h"

namespace muster::policy {
namespace {

TEST(PrefixIndex, AgreesWithListsOfPrefixes) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "prefix index");
    const std::size_t capacity = rng.below(30);
    std::size_t replicas = 1 + rng.below(80);
    PrefixIndex index(static_cast<std::uint32_t>(capacity));
    NaivePrefixes naive(capacity, replicas);
    index.resize(replicas);
    IndexSet among;
    among.resize(200);
    for (int i = 0; i < 200; ++i) {
      const auto replica = static_cast<std::uint32_t>(rng.below(std::min<std::size_t>(replicas, 70)));
      Blocks blocks(rng.below(10));
      for (std::uint64_t& block : blocks) block = rng.below(2);
      among.set(rng.below(replicas), rng.below(4) > 0);
      among.set(replica, true);
      index.set_prompt(blocks);
      std::size_t longest = 0;
      for (std::size_t r = 0; r < replicas; ++r)
        if (among.contains(r)) longest = std::max(longest, naive.depth(r, blocks));
      ASSERT_EQ(index.longest(among), longest);
      for (std::size_t r = 0; longest > 0 && r < replicas; ++r)
        ASSERT_EQ(index.holders().contains(r), among.contains(r) && naive.depth(r, blocks) == longest) << r;
      if (rng.below(20) == 0) {
        index.forget(ReplicaId(replica));
        naive.forget(replica);
      } else {
        index.note(ReplicaId(replica));
        naive.note(replica, blocks);
      }
      if (i == 100) {
        replicas += rng.below(100);
        index.resize(replicas);
        naive.resize(replicas);
      }
      index.check();
      ASSERT_EQ(index.blocks(ReplicaId(replica)), naive.blocks(replica));
      ASSERT_LE(index.blocks(ReplicaId(replica)), capacity);
    }
  }
}

// Plain ids say nothing of what comes before them: the same block after another beginning is another one.
TEST(PrefixIndex, ABlockCountsOnlyAfterItsOwnBeginning) {
  PrefixIndex index(10);
  index.resize(1);
  IndexSet all;
  all.resize(1);
  all.set(0, true);
  index.set_prompt(Blocks{1, 2, 3});
  index.note(ReplicaId(0));
  index.set_prompt(Blocks{2, 3});
  EXPECT_EQ(index.longest(all), 0U);
  index.set_prompt(Blocks{1, 3, 2});
  EXPECT_EQ(index.longest(all), 1U);
}

}  // namespace
}  // namespace muster::policy
