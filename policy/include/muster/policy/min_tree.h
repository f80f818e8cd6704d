// The smallest of a fixed set of numbered keys that change one at a time: a winner tree.
//
// Each change costs one walk to the root (8 comparisons for 256 keys) and allocates nothing. Equal keys: the lower
// index wins, whatever the order in which they were set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace muster::policy {

class MinTree {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit MinTree(std::size_t size = 0) { resize(size); }

  // Keeps the keys there are; new ones are kNone.
  void resize(std::size_t size) {
    keys_.resize(std::bit_ceil(size < 2 ? std::size_t{2} : size), kNone);
    winners_.resize(keys_.size());
    for (std::size_t node = keys_.size() - 1; node >= 1; --node)
      winners_[node] = better(contender(2 * node), contender(2 * node + 1));
  }

  void set(std::size_t index, std::int64_t key) {
    keys_[index] = key;
    for (std::size_t node = (index + keys_.size()) / 2; node >= 1; node /= 2) {
      const std::uint32_t before = winners_[node];
      winners_[node] = better(contender(2 * node), contender(2 * node + 1));
      if (before != index && winners_[node] == before)
        return;  // `index` did not win here, and does not: all above stays
    }
  }

  std::int64_t key(std::size_t index) const { return keys_[index]; }
  std::size_t size() const { return keys_.size(); }
  std::size_t min_index() const { return winners_[1]; }
  std::int64_t min_key() const { return keys_[winners_[1]]; }

 private:
  // Node n has the children 2n and 2n + 1; the leaf of key i is node keys_.size() + i.
  std::uint32_t contender(std::size_t node) const {
    return node >= keys_.size() ? static_cast<std::uint32_t>(node - keys_.size()) : winners_[node];
  }
  // The left one has the lower index.
  std::uint32_t better(std::uint32_t left, std::uint32_t right) const {
    return keys_[right] < keys_[left] ? right : left;
  }

  std::vector<std::int64_t> keys_;      // padded to a power of two, at least 2
  std::vector<std::uint32_t> winners_;  // [inner node] index of the smallest key below it; [0] is unused
};

}  // namespace muster::policy
