// The KV blocks of one replica: how many are free, and how many each sequence holds.
//
// Counts, not ids: the simulator needs no block tables, and a jump over n decode steps then costs one addition per
// sequence instead of one pop per block. Every change goes through grow() and release() on the sequence's own
// KvHolding, so that a pool with real ids (block tables, prefix cache) changes this file and not the scheduling rules.
#pragma once

#include <cstdint>

#include "muster/core/check.h"

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
    holding.tokens += static_cast<std::int32_t>(blocks) * block_tokens_;
    return true;
  }

  void release(KvHolding& holding) {
    free_ += blocks_of(holding);
    holding.tokens = 0;
  }

 private:
  std::int64_t total_;
  std::int64_t free_;
  std::int32_t block_tokens_;
};

}  // namespace muster::sched
