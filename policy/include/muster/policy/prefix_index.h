// Which replica has seen which beginnings of prompts: a guess at what their prefix caches hold.
//
// Per replica the most recently used blocks, at most a stated number of them. A block stands for all of the prompt up
// to its end, and a prompt uses its blocks from the last to the first; so what comes before a block is always fresher
// than the block, goes later, and every replica knows whole prefixes only. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/core/units.h"
#include "muster/policy/id_map.h"
#include "muster/policy/index_set.h"

namespace muster::policy {

class PrefixIndex {
 public:
  static constexpr std::size_t kDepthMax = 512;  // blocks of a prompt that are looked at, so that a decision is bounded

  // Memory: up to 40 to 60 bytes per replica and block, and a bit per replica for each distinct block.
  explicit PrefixIndex(std::uint32_t blocks_per_replica) : capacity_(blocks_per_replica) {}

  void resize(std::size_t replicas);  // more of them; those there are keep what they know
  // The prompt that the next calls are about. `blocks` are ids of its blocks, be they chained already or not.
  void set_prompt(std::span<const std::uint64_t> blocks);
  // How many of the prompt's first blocks the one of `among` that knows the longest prefix knows; holders() are all
  // that know as much. O(log blocks) look-ups of replicas / 64 words each.
  std::size_t longest(const IndexSet& among);
  const IndexSet& holders() const { return holders_; }
  void note(ReplicaId replica);    // it is sent the prompt; O(blocks)
  void forget(ReplicaId replica);  // its cache is lost
  std::size_t blocks(ReplicaId replica) const { return known_[replica.value].slots.size(); }
  void check() const;  // panics if an invariant is broken

 private:
  struct Slot {
    std::uint64_t hash;
    std::uint32_t older, newer;  // a circle: the oldest's older is the newest
  };
  struct Known {
    FlatMap<std::uint64_t, std::uint32_t> slot_of;
    std::vector<Slot> slots;
    std::uint32_t newest = 0;
  };

  static void unlink(Known& known, std::uint32_t slot);
  static void make_newest(Known& known, std::uint32_t slot);
  void add_holder(std::uint64_t hash, std::size_t replica);
  void remove_holder(std::uint64_t hash, std::size_t replica);
  bool intersect(std::uint64_t hash, const IndexSet& among);  // into holders_; whether any is left

  std::size_t capacity_;
  std::vector<std::uint64_t> chain_;  // [block] hash of the prompt up to its end
  IndexSet holders_;
  std::vector<Known> known_;                      // [replica]
  std::size_t words_ = 0;                         // of a row of bits
  FlatMap<std::uint64_t, std::uint32_t> row_of_;  // of a block that any replica knows
  std::vector<std::uint64_t> bits_;               // [row, words_] a bit per replica that knows the block
  std::vector<std::uint32_t> counts_;             // [row] of those bits
  std::vector<std::uint32_t> free_rows_;
};

}  // namespace muster::policy
