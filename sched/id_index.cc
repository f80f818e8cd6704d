#include "id_index.h"

#include <utility>

#include "muster/core/check.h"

namespace muster::sched {

std::uint32_t IdIndex::find(RequestId id) const {
  for (std::size_t i = home(id.value); entries_[i].slot != kNoSlot; i = next(i)) {
    if (entries_[i].id == id.value) return entries_[i].slot;
  }
  return kNoSlot;
}

void IdIndex::put(Entry entry) {
  std::size_t i = home(entry.id);
  while (entries_[i].slot != kNoSlot) i = next(i);
  entries_[i] = entry;
}

void IdIndex::insert(RequestId id, std::uint32_t slot) {
  if (2 * (size_ + 1) > entries_.size()) {
    std::vector<Entry> old(entries_.size() * 2);
    std::swap(old, entries_);
    for (const Entry& entry : old) {
      if (entry.slot != kNoSlot) put(entry);
    }
  }
  put({id.value, slot});
  ++size_;
}

void IdIndex::erase(RequestId id) {
  std::size_t hole = home(id.value);
  while (entries_[hole].slot != kNoSlot && entries_[hole].id != id.value) hole = next(hole);
  MUSTER_CHECK(entries_[hole].slot != kNoSlot, "request {} is not in the index", id.value);
  // Backward shift (Knuth, algorithm R): an entry moves into the hole when its home does not lie after the hole.
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = next(hole); entries_[i].slot != kNoSlot; i = next(i)) {
    if (((i - home(entries_[i].id)) & mask) >= ((i - hole) & mask)) {
      entries_[hole] = entries_[i];
      hole = i;
    }
  }
  entries_[hole] = Entry{};
  --size_;
}

}  // namespace muster::sched
