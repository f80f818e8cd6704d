// The three containers under the fleet's decisions, each against the obvious standard one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "muster/core/rng.h"
#include "muster/policy/id_map.h"
#include "muster/policy/index_set.h"
#include "muster/policy/min_tree.h"

namespace muster::policy {
namespace {

TEST(MinTree, AgreesWithALinearSearch) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "min tree");
    std::vector<std::int64_t> keys(1 + rng.below(70), MinTree::kNone);
    MinTree tree(keys.size());
    for (int i = 0; i < 300; ++i) {
      const std::size_t index = rng.below(keys.size());
      keys[index] = rng.below(8) == 0 ? MinTree::kNone : static_cast<std::int64_t>(rng.below(20));  // many equal keys
      tree.set(index, keys[index]);
      if (i == 150) {
        keys.resize(keys.size() + rng.below(40), MinTree::kNone);
        tree.resize(keys.size());
      }
      const auto smallest = std::min_element(keys.begin(), keys.end());  // the first of equal ones
      ASSERT_EQ(tree.min_key(), *smallest);
      ASSERT_EQ(tree.min_index(), static_cast<std::size_t>(smallest - keys.begin()));
    }
  }
}

TEST(IndexSet, AgreesWithASet) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "index set");
    const std::size_t size = 1 + rng.below(300);
    IndexSet set;
    set.resize(size);
    std::set<std::size_t> reference;
    for (int i = 0; i < 300; ++i) {
      const std::size_t index = rng.below(size);
      const bool member = rng.below(3) > 0;
      set.set(index, member);
      if (member)
        reference.insert(index);
      else
        reference.erase(index);
      ASSERT_EQ(set.count(), reference.size());
      ASSERT_EQ(set.contains(index), member);
      if (reference.empty()) continue;
      const std::size_t from = rng.below(size + 1);
      const auto after = reference.lower_bound(from);
      ASSERT_EQ(set.next(from), after == reference.end() ? *reference.begin() : *after) << "from " << from;
      const std::size_t n = rng.below(reference.size());
      ASSERT_EQ(set.nth(n), *std::next(reference.begin(), static_cast<std::ptrdiff_t>(n)));
    }
  }
}

TEST(IdMap, AgreesWithAMap) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng::stream(seed, 0, "id map");
    IdMap<int> map;
    std::map<std::uint32_t, int> reference;
    const std::uint64_t range = 1 + rng.below(200);
    const std::uint32_t stride = rng.below(2) == 0 ? 1 : 64;
    for (int i = 0; i < 2000; ++i) {
      const auto key = static_cast<std::uint32_t>(rng.below(range)) * stride;
      switch (rng.below(3)) {
        case 0:
          ASSERT_EQ(map.insert(RequestId(key), i), reference.emplace(key, i).second);
          break;
        case 1:
          ASSERT_EQ(map.erase(RequestId(key)), reference.erase(key) == 1);
          break;
        default: {
          const int* found = map.find(RequestId(key));
          const auto expected = reference.find(key);
          ASSERT_EQ(found != nullptr, expected != reference.end());
          if (found != nullptr) ASSERT_EQ(*found, expected->second);
        }
      }
      ASSERT_EQ(map.size(), reference.size());
    }
    std::map<std::uint32_t, int> all;
    map.for_each_key([&](RequestId id, int value) { all.emplace(id.value, value); });
    EXPECT_EQ(all, reference);
  }
}

}  // namespace
}  // namespace muster::policy
