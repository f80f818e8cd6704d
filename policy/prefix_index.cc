#include "muster/policy/prefix_index.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::policy {
namespace {

// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

void PrefixIndex::resize(std::size_t replicas) {
  known_.resize(replicas);
  const std::size_t words = (replicas + 63) / 64;
  if (words == words_) return;
  std::vector<std::uint64_t> wider(counts_.size() * words);
  for (std::size_t row = 0; row < counts_.size(); ++row)
    std::copy_n(bits_.data() + row * words_, words_, wider.data() + row * words);
  bits_.swap(wider);
  words_ = words;
  holders_.resize(replicas);
}

void PrefixIndex::set_prompt(std::span<const std::uint64_t> blocks) {
  chain_.clear();
  std::uint64_t hash = 0;
  for (const std::uint64_t block : blocks.first(std::min({blocks.size(), kDepthMax, capacity_}))) {
    hash = mixed(hash + 0x9e3779b97f4a7c15ULL + mixed(block));
    chain_.push_back(hash);
  }
}

bool PrefixIndex::intersect(std::uint64_t hash, const IndexSet& among) {
  const std::uint32_t* row = row_of_.find(hash);
  std::uint64_t any = 0;
  for (std::size_t word = 0; word < words_; ++word) {
    const std::uint64_t bits = row == nullptr ? 0 : bits_[*row * words_ + word] & among.word(word);
    holders_.set_word(word, bits);
    any |= bits;
  }
  return any != 0;
}

std::size_t PrefixIndex::longest(const IndexSet& among) {
  // Whoever knows a block knows all before it, so whether any knows it changes once along the chain.
  std::size_t known = 0, unknown = chain_.size() + 1;
  while (known + 1 < unknown) {
    const std::size_t depth = known + (unknown - known) / 2;
    (intersect(chain_[depth - 1], among) ? known : unknown) = depth;
  }
  if (known > 0) intersect(chain_[known - 1], among);
  return known;
}

void PrefixIndex::unlink(Known& known, std::uint32_t slot) {
  const Slot& s = known.slots[slot];
  known.slots[s.older].newer = s.newer;
  known.slots[s.newer].older = s.older;
  if (known.newest == slot) known.newest = s.older;
}

void PrefixIndex::make_newest(Known& known, std::uint32_t slot) {
  Slot& s = known.slots[slot];
  s.older = known.newest;
  s.newer = known.slots[known.newest].newer;  // the oldest
  known.slots[s.newer].older = slot;
  known.slots[s.older].newer = slot;
  known.newest = slot;
}

void PrefixIndex::note(ReplicaId replica) {
  Known& known = known_[replica.value];
  for (std::size_t i = chain_.size(); i-- > 0;) {
    const std::uint64_t hash = chain_[i];
    std::uint32_t slot = 0;
    if (const std::uint32_t* found = known.slot_of.find(hash)) {
      slot = *found;
      if (slot == known.newest) continue;
      unlink(known, slot);
    } else if (known.slots.size() < capacity_) {
      slot = static_cast<std::uint32_t>(known.slots.size());
      known.slots.push_back({hash, slot, slot});
      known.slot_of.insert(hash, slot);
      add_holder(hash, replica.value);
      if (slot == 0) {
        known.newest = 0;
        continue;
      }
    } else {
      slot = known.slots[known.newest].newer;  // the oldest
      unlink(known, slot);
      remove_holder(known.slots[slot].hash, replica.value);
      known.slot_of.erase(known.slots[slot].hash);
      known.slots[slot].hash = hash;
      known.slot_of.insert(hash, slot);
      add_holder(hash, replica.value);
      if (capacity_ == 1) continue;
    }
    make_newest(known, slot);
  }
}

void PrefixIndex::forget(ReplicaId replica) {
  Known& known = known_[replica.value];
  for (const Slot& slot : known.slots) remove_holder(slot.hash, replica.value);
  known.slots.clear();
  known.slot_of.clear();
}

void PrefixIndex::add_holder(std::uint64_t hash, std::size_t replica) {
  std::uint32_t row = 0;
  if (const std::uint32_t* found = row_of_.find(hash)) {
    row = *found;
  } else {
    if (free_rows_.empty()) {
      free_rows_.push_back(static_cast<std::uint32_t>(counts_.size()));
      counts_.push_back(0);
      bits_.resize(bits_.size() + words_);
    }
    row = free_rows_.back();
    free_rows_.pop_back();
    row_of_.insert(hash, row);
  }
  bits_[row * words_ + replica / 64] |= std::uint64_t{1} << (replica % 64);
  ++counts_[row];
}

void PrefixIndex::remove_holder(std::uint64_t hash, std::size_t replica) {
  const std::uint32_t row = *row_of_.find(hash);
  bits_[row * words_ + replica / 64] &= ~(std::uint64_t{1} << (replica % 64));
  if (--counts_[row] > 0) return;
  row_of_.erase(hash);
  free_rows_.push_back(row);
}

void PrefixIndex::check() const {
  std::size_t held = 0, listed = 0;
  for (std::size_t replica = 0; replica < known_.size(); ++replica) {
    const Known& known = known_[replica];
    held += known.slots.size();
    MUSTER_CHECK(known.slots.size() <= capacity_ && known.slots.size() == known.slot_of.size(),
                 "replica {}: {} blocks of {}, {} listed", replica, known.slots.size(), capacity_,
                 known.slot_of.size());
    std::uint32_t at = known.newest;
    for (std::size_t i = 0; i < known.slots.size(); ++i) {
      const Slot& slot = known.slots[at];
      const std::uint32_t* row = row_of_.find(slot.hash);
      MUSTER_CHECK(row != nullptr && (bits_[*row * words_ + replica / 64] >> (replica % 64) & 1U) != 0,
                   "replica {}: slot {} holds a block of which it is no holder", replica, at);
      MUSTER_CHECK(known.slots[slot.older].newer == at, "replica {}: slot {} is out of the circle", replica, at);
      at = slot.older;
    }
    MUSTER_CHECK(known.slots.empty() || at == known.newest, "replica {}: the circle does not close", replica);
  }
  for (const std::uint32_t count : counts_) listed += count;
  MUSTER_CHECK(held == listed && row_of_.size() + free_rows_.size() == counts_.size(),
               "{} blocks known, {} listed; {} rows used, {} free of {}", held, listed, row_of_.size(),
               free_rows_.size(), counts_.size());
}

}  // namespace muster::policy
