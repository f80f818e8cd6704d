// The prefix index written the slow and obvious way, for the tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::policy {

using Blocks = std::vector<std::uint64_t>;

// The obvious way: per replica a list of whole prefixes, the most recent in front, cut off at the capacity.
class NaivePrefixes {
 public:
  NaivePrefixes(std::size_t capacity, std::size_t replicas) : capacity_(capacity), known_(replicas) {}
  void resize(std::size_t replicas) { known_.resize(replicas); }
  void note(std::size_t replica, const Blocks& blocks) {
    std::vector<Blocks>& known = known_[replica];
    for (std::size_t n = std::min(blocks.size(), capacity_); n > 0; --n) {
      const Blocks prefix(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(n));
      std::erase(known, prefix);
      known.insert(known.begin(), prefix);
    }
    if (known.size() > capacity_) known.resize(capacity_);
  }
  void forget(std::size_t replica) { known_[replica].clear(); }
  std::size_t depth(std::size_t replica, const Blocks& blocks) const {
    std::size_t n = 0;
    while (n < blocks.size() &&
           std::ranges::count(known_[replica],
                              Blocks(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(n + 1))) > 0)
      ++n;
    return n;
  }
  std::size_t blocks(std::size_t replica) const { return known_[replica].size(); }

 private:
  std::size_t capacity_;
  std::vector<std::vector<Blocks>> known_;
};

}  // namespace muster::policy
