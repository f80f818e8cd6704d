// Integer key -> position. Open addressing with linear probing, at most half full. Never iterated, so its order is
// nobody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "muster/core/check.h"

namespace muster::sched {

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

template <typename Key>
class OpenIndex {
 public:
  OpenIndex() : entries_(16) {}

  std::size_t size() const { return size_; }
  std::uint32_t find(Key key) const {  // kNoSlot when absent
    for (std::size_t i = home(key); entries_[i].slot != kNoSlot; i = next(i)) {
      if (entries_[i].key == key) return entries_[i].slot;
    }
    return kNoSlot;
  }
  void insert(Key key, std::uint32_t slot) {  // requires that the key is absent
    if (2 * (size_ + 1) > entries_.size()) {
      std::vector<Entry> old(entries_.size() * 2);
      std::swap(old, entries_);
      for (const Entry& entry : old) {
        if (entry.slot != kNoSlot) put(entry);
      }
    }
    put({key, slot});
    ++size_;
  }
  void assign(Key key, std::uint32_t slot) { entries_[place_of(key)].slot = slot; }  // requires that the key is present
  void erase(Key key) {                                                              // requires that the key is present
    std::size_t hole = place_of(key);
    // Backward shift (Knuth, algorithm R): an entry moves into the hole when its home does not lie after the hole.
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t i = next(hole); entries_[i].slot != kNoSlot; i = next(i)) {
      if (((i - home(entries_[i].key)) & mask) >= ((i - hole) & mask)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole] = Entry{};
    --size_;
  }

 private:
  struct Entry {
    Key key = 0;
    std::uint32_t slot = kNoSlot;  // kNoSlot: the entry is empty
  };

  std::size_t home(Key key) const {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4): consecutive keys spread over the table.
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32) & (entries_.size() - 1);
  }
  std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }
  void put(Entry entry) {
    std::size_t i = home(entry.key);
    while (entries_[i].slot != kNoSlot) i = next(i);
    entries_[i] = entry;
  }
  std::size_t place_of(Key key) const {
    std::size_t i = home(key);
    while (entries_[i].slot != kNoSlot && entries_[i].key != key) i = next(i);
    MUSTER_CHECK(entries_[i].slot != kNoSlot, "key {} is not in the index", key);
    return i;
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace muster::sched
