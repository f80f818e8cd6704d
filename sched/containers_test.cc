// The containers under the scheduler against the standard library's.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <unordered_map>

#include "id_index.h"
#include "kv_block_pool.h"
#include "muster/core/rng.h"
#include "waiting_queue.h"

namespace muster::sched {
namespace {

TEST(IdIndex, FindsWhatAMapFinds) {
  Rng rng = Rng::stream(1, 0, "id index");
  IdIndex index;
  std::map<std::uint32_t, std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    // Few distinct ids, dense and with a stride of the table's size: clusters, and erasing in the middle of them.
    const auto n = static_cast<std::uint32_t>(rng.below(300));
    const std::uint32_t id = n % 2 ? n : n * 4096;
    if (expected.contains(id)) {
      EXPECT_EQ(index.find(RequestId(id)), expected[id]);
      index.erase(RequestId(id));
      expected.erase(id);
    } else {
      EXPECT_EQ(index.find(RequestId(id)), kNoSlot);
      index.insert(RequestId(id), i);
      expected[id] = i;
    }
    ASSERT_EQ(index.size(), expected.size());
    if (i % 100) continue;
    for (const auto& [known, slot] : expected) ASSERT_EQ(index.find(RequestId(known)), slot);
  }
}

TEST(WaitingQueue, KeepsTheOrderOfASet) {
  Rng rng = Rng::stream(2, 0, "waiting queue");
  WaitingQueue queue;
  std::set<std::pair<Order, std::uint32_t>> expected;
  std::unordered_map<std::uint32_t, Order> in_queue;  // looked up only
  std::uint64_t arrival = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto slot = static_cast<std::uint32_t>(rng.below(64));
    if (const auto it = in_queue.find(slot); it != in_queue.end()) {
      ASSERT_TRUE(queue.contains(slot));
      queue.remove(slot);
      expected.erase({it->second, slot});
      in_queue.erase(it);
    } else {
      ASSERT_FALSE(queue.contains(slot));
      const Order order{static_cast<std::int32_t>(rng.below(5)) - 2, ++arrival};
      queue.push(order, slot);
      expected.insert({order, slot});
      in_queue[slot] = order;
    }
    queue.check();
    ASSERT_EQ(queue.size(), expected.size());
    if (expected.empty()) continue;
    ASSERT_EQ(queue.front(), expected.begin()->second);
    if (rng.below(4) == 0) {
      queue.pop();
      in_queue.erase(expected.begin()->second);
      expected.erase(expected.begin());
    }
  }
}

TEST(KvBlockPool, GrowsByWholeBlocksOrNotAtAll) {
  KvBlockPool pool(3, 16);
  KvHolding a, b;
  EXPECT_TRUE(pool.grow(a, 16));
  EXPECT_EQ(pool.used(), 1);
  EXPECT_TRUE(pool.grow(a, 17));
  EXPECT_EQ(pool.used(), 2);
  EXPECT_TRUE(pool.grow(a, 32));
  EXPECT_EQ(pool.used(), 2);
  EXPECT_FALSE(pool.grow(b, 17));  // two blocks, one is free
  EXPECT_EQ(pool.used(), 2);
  EXPECT_EQ(b.tokens, 0);
  EXPECT_TRUE(pool.grow(b, 1));
  EXPECT_EQ(pool.free(), 0);
  pool.release(a);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(a.tokens, 0);
}

}  // namespace
}  // namespace muster::sched
