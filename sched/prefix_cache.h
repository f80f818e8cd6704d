// Which prefixes of finished and running sequences can be found again, and in which order the free KV blocks are taken.
//
// A unit is one whole content block of some sequence (SchedulerLimits::content_block_tokens), known by the chained hash
// of all content up to its end. Its content is known only as a whole, so it is found only as a whole; its memory is
// counted in KV blocks. A unit that a sequence holds is referenced; without references its blocks are free, but it can
// be found until the first of them is taken for something else.
//
// Free blocks lie in a queue and are taken from its front: least recently freed first. A sequence gives its blocks back
// from its last to its first, so a unit never lies behind the one it continues: leaves go first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "open_index.h"

namespace muster::sched {

inline constexpr std::uint32_t kNoUnit = 0xffffffff;

class PrefixCache {
 public:
  // Where free blocks go that nobody can find: behind all others, as they were freed last, or in front of all.
  enum class UselessBlocks : std::uint8_t { kInOrder, kFirst };

  // All of the pool's blocks are free.
  PrefixCache(std::int64_t pool_blocks, std::int64_t unit_blocks, UselessBlocks useless);

  // The hash of a content block and all before it; of the first: parent = 0. Two rounds of splitmix64's finaliser
  // (Steele et al., OOPSLA 2014): among 10^7 units a collision has a probability of 10^14 / 2^65 = 3e-6.
  static std::uint64_t chained(std::uint64_t parent, std::uint64_t content) {
    return mixed(mixed(parent + 0x9e3779b97f4a7c15ULL) ^ content);
  }

  std::int64_t unit_blocks() const { return unit_blocks_; }
  std::uint32_t find(std::uint64_t chain) const { return index_.find(chain); }  // kNoUnit; of equals the first inserted
  bool is_free(std::uint32_t unit) const { return runs_[unit].references == 0; }
  bool has_equal(std::uint32_t unit) const { return runs_[unit].next_equal != kNoUnit; }

  // A unit of blocks that were taken; it has one reference.
  std::uint32_t insert(std::uint64_t chain);
  void acquire(std::uint32_t unit);          // one more reference; the blocks of a free one are free no longer
  std::int64_t release(std::uint32_t unit);  // one less; returns the blocks that this makes free
  void take(std::int64_t blocks);            // from the front of the queue; requires that so many are free
  void give_back(std::int64_t blocks);       // that nobody can find
  // Blocks that can be taken until the first of these units is lost; kNoneFree when all are referenced.
  static constexpr std::int64_t kNoneFree = -1;
  std::int64_t blocks_before(std::span<const std::uint32_t> units) const;

  std::int64_t units_held() const { return units_held_; }                             // with references
  void check(std::int64_t free_blocks, std::span<const std::int64_t> holders) const;  // holders: [unit] references
  std::size_t runs() const { return runs_.size(); }

 private:
  // Free blocks next to each other in the queue; or a unit, in the queue or referenced.
  struct Run {
    std::uint64_t chain = 0;
    std::uint64_t queued = 0;  // when it joined the queue: 1, 2, 3, ...; useless blocks in front: 0
    std::uint32_t previous = kNoUnit, next = kNoUnit;  // in the queue
    std::uint32_t next_equal = kNoUnit;                // the next unit of the same chain, in the order of insertion
    std::int32_t references = 0;
    std::int64_t blocks = 0;
    bool is_unit = false;  // can be found
  };

  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  std::uint32_t new_run();
  void push_back(std::uint32_t run);
  void push_front(std::uint32_t run);
  void unlink(std::uint32_t run);
  void forget(std::uint32_t unit);

  std::int64_t unit_blocks_;
  UselessBlocks useless_;
  OpenIndex<std::uint64_t> index_;  // chain -> the first of its units
  std::vector<Run> runs_;
  std::vector<std::uint32_t> spare_;  // unused entries of runs_
  std::uint32_t front_ = kNoUnit, back_ = kNoUnit;
  std::uint64_t queued_ = 0;
  std::int64_t units_held_ = 0;
};

}  // namespace muster::sched
