// The KV blocks of one replica: how many are free, and how many each sequence holds.
//
// Counts, not ids: the simulator needs no block tables, and a jump over n decode steps then costs one addition per
// sequence instead of one pop per block. Every change goes through the functions here, so that a pool with real ids
// (block tables) changes this file and not the scheduling rules. With a prefix cache, the pool also keeps the order in
// which free blocks are taken, and a holding may have units (prefix_cache.h) that others hold too: those count once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "muster/core/check.h"
#include "prefix_cache.h"

namespace muster::sched {

// What one sequence holds.
struct KvHolding {
  std::int32_t tokens = 0;  // that fit into its blocks: a multiple of the block size
};

class KvBlockPool {
 public:
  // Longest sequence, tokens: leaves room for rounding up to a block inside 32 bits.
  static constexpr std::int64_t kMaxSequenceTokens = std::int64_t{1} << 30;

  KvBlockPool(std::int64_t blocks, std::int64_t block_tokens)
      : total_(blocks), free_(blocks), block_tokens_(static_cast<std::int32_t>(block_tokens)) {
    MUSTER_CHECK(blocks >= 1, "a pool of {} KV blocks", blocks);
    MUSTER_CHECK(block_tokens >= 1 && block_tokens <= kMaxSequenceTokens, "KV blocks of {} tokens", block_tokens);
  }

  std::int64_t total() const { return total_; }
  std::int64_t free() const { return free_; }
  std::int64_t used() const { return total_ - free_; }
  std::int64_t block_tokens() const { return block_tokens_; }

  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  std::int64_t blocks_of(const KvHolding& holding) const { return holding.tokens / block_tokens_; }
  // Blocks to take so that the holding has room for `tokens`.
  std::int64_t shortfall(const KvHolding& holding, std::int32_t tokens) const {
    if (tokens <= holding.tokens) return 0;
    return (tokens - holding.tokens + block_tokens_ - 1) / block_tokens_;
  }

  // Makes room for `tokens` in all. False: too few free blocks, and nothing was taken.
  bool grow(KvHolding& holding, std::int32_t tokens) {
    const std::int64_t blocks = shortfall(holding, tokens);
    if (blocks > free_) return false;
    free_ -= blocks;
    if (prefixes_) [[unlikely]]
      prefixes_->take(blocks);
    holding.tokens += static_cast<std::int32_t>(blocks) * block_tokens_;
    return true;
  }

  void release(KvHolding& holding) {
    give_back(blocks_of(holding));
    holding.tokens = 0;
  }

  // ---- With a prefix cache. A sequence lists the units of its holding from its start; kNoUnit: blocks of its own.

  // Requires that all is free.
  void cache_prefixes(std::int64_t unit_tokens, PrefixCache::UselessBlocks useless) {
    MUSTER_CHECK(unit_tokens >= 1 && unit_tokens % block_tokens_ == 0, "content blocks of {} tokens, KV blocks of {}",
                 unit_tokens, block_tokens_);
    prefixes_.emplace(total_, unit_tokens / block_tokens_, useless);
  }
  bool caches_prefixes() const { return prefixes_.has_value(); }
  PrefixCache& prefixes() { return *prefixes_; }
  const PrefixCache& prefixes() const { return *prefixes_; }
  // These become the start of an empty holding.
  void share(KvHolding& holding, std::span<const std::uint32_t> units) {
    for (const std::uint32_t unit : units) {
      if (prefixes_->is_free(unit)) free_ -= prefixes_->unit_blocks();
      prefixes_->acquire(unit);
      holding.tokens += static_cast<std::int32_t>(prefixes_->unit_blocks()) * block_tokens_;
    }
  }
  // A unit's worth of blocks that only one holding had.
  void give_back_unit() { give_back(prefixes_->unit_blocks()); }
  // From the last to the first, so that of a prefix the end is lost first.
  void release(KvHolding& holding, std::span<const std::uint32_t> units) {
    std::int64_t own = blocks_of(holding);
    for (const std::uint32_t unit : units) own -= unit == kNoUnit ? 0 : prefixes_->unit_blocks();
    give_back(own);
    for (std::size_t i = units.size(); i-- > 0;) {
      if (units[i] != kNoUnit) free_ += prefixes_->release(units[i]);
    }
    holding.tokens = 0;
  }

 private:
  void give_back(std::int64_t blocks) {
    free_ += blocks;
    if (prefixes_) [[unlikely]]
      prefixes_->give_back(blocks);
  }

  std::int64_t total_;
  std::int64_t free_;
  std::int32_t block_tokens_;
  std::optional<PrefixCache> prefixes_;
};

}  // namespace muster::sched
