// RequestId -> slot. Open addressing with linear probing: the ids of one replica are a scattered subset of the
// positions in a trace, so an array over all ids would cost every replica the whole trace. Never iterated, so its
// order is nobody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/core/units.h"

namespace muster::sched {

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

class IdIndex {
 public:
  IdIndex() : entries_(16) {}

  std::size_t size() const { return size_; }
  std::uint32_t find(RequestId id) const;  // kNoSlot when absent
  void insert(RequestId id, std::uint32_t slot);  // requires that id is absent
  void erase(RequestId id);                       // requires that id is present

 private:
  struct Entry {
    std::uint32_t id = 0;
    std::uint32_t slot = kNoSlot;  // kNoSlot: the entry is empty
  };

  std::size_t home(std::uint32_t id) const {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4): consecutive ids spread over the table.
    return static_cast<std::size_t>((id * 0x9e3779b97f4a7c15ULL) >> 32) & (entries_.size() - 1);
  }
  std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }
  void put(Entry entry);

  std::vector<Entry> entries_;  // a power of two, at most half full
  std::size_t size_ = 0;
};

}  // namespace muster::sched
