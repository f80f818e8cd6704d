#include "prefix_cache.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sched {

static_assert(kNoUnit == kNoSlot, "find() returns what the index returns");

PrefixCache::PrefixCache(std::int64_t pool_blocks, std::int64_t unit_blocks, UselessBlocks useless)
    : unit_blocks_(unit_blocks), useless_(useless) {
  MUSTER_CHECK(unit_blocks >= 1, "units of {} KV blocks", unit_blocks);
  give_back(pool_blocks);
}

std::uint32_t PrefixCache::new_run() {
  if (spare_.empty()) {
    runs_.emplace_back();
    return static_cast<std::uint32_t>(runs_.size() - 1);
  }
  const std::uint32_t run = spare_.back();
  spare_.pop_back();
  runs_[run] = {};
  return run;
}

void PrefixCache::push_back(std::uint32_t run) {
  Run& r = runs_[run];
  r.queued = ++queued_;
  r.previous = back_;
  r.next = kNoUnit;
  (back_ == kNoUnit ? front_ : runs_[back_].next) = run;
  back_ = run;
}

void PrefixCache::push_front(std::uint32_t run) {
  Run& r = runs_[run];
  r.queued = 0;
  r.previous = kNoUnit;
  r.next = front_;
  (front_ == kNoUnit ? back_ : runs_[front_].previous) = run;
  front_ = run;
}

void PrefixCache::unlink(std::uint32_t run) {
  const Run& r = runs_[run];
  (r.previous == kNoUnit ? front_ : runs_[r.previous].next) = r.next;
  (r.next == kNoUnit ? back_ : runs_[r.next].previous) = r.previous;
}

std::uint32_t PrefixCache::insert(std::uint64_t chain) {
  const std::uint32_t unit = new_run();
  runs_[unit].chain = chain;
  runs_[unit].blocks = unit_blocks_;
  runs_[unit].references = 1;
  runs_[unit].is_unit = true;
  ++units_held_;
  std::uint32_t equal = index_.find(chain);
  if (equal == kNoUnit) {
    index_.insert(chain, unit);
    return unit;
  }
  while (runs_[equal].next_equal != kNoUnit) equal = runs_[equal].next_equal;
  runs_[equal].next_equal = unit;
  return unit;
}

// From now on nobody finds it.
void PrefixCache::forget(std::uint32_t unit) {
  Run& r = runs_[unit];
  std::uint32_t equal = index_.find(r.chain);
  if (equal == unit) {
    if (r.next_equal == kNoUnit) {
      index_.erase(r.chain);
    } else {
      index_.assign(r.chain, r.next_equal);
    }
  } else {
    while (runs_[equal].next_equal != unit) equal = runs_[equal].next_equal;
    runs_[equal].next_equal = r.next_equal;
  }
  r.next_equal = kNoUnit;
  r.is_unit = false;
}

void PrefixCache::acquire(std::uint32_t unit) {
  if (runs_[unit].references++ > 0) return;
  unlink(unit);
  ++units_held_;
}

std::int64_t PrefixCache::release(std::uint32_t unit) {
  if (--runs_[unit].references > 0) return 0;
  push_back(unit);
  --units_held_;
  return unit_blocks_;
}

void PrefixCache::take(std::int64_t blocks) {
  while (blocks > 0) {
    const std::uint32_t run = front_;
    Run& r = runs_[run];
    if (r.is_unit) forget(run);
    const std::int64_t taken = std::min(blocks, r.blocks);
    r.blocks -= taken;
    blocks -= taken;
    if (r.blocks > 0) continue;
    unlink(run);
    spare_.push_back(run);
  }
}

void PrefixCache::give_back(std::int64_t blocks) {
  if (blocks == 0) return;
  const std::uint32_t neighbour = useless_ == UselessBlocks::kFirst ? front_ : back_;
  if (neighbour != kNoUnit && !runs_[neighbour].is_unit) {
    runs_[neighbour].blocks += blocks;
    return;
  }
  const std::uint32_t run = new_run();
  runs_[run].blocks = blocks;
  useless_ == UselessBlocks::kFirst ? push_front(run) : push_back(run);
}

std::int64_t PrefixCache::blocks_before(std::span<const std::uint32_t> units) const {
  std::uint32_t first = kNoUnit;
  for (const std::uint32_t unit : units) {
    if (is_free(unit) && (first == kNoUnit || runs_[unit].queued < runs_[first].queued)) first = unit;
  }
  if (first == kNoUnit) return kNoneFree;
  std::int64_t blocks = 0;
  for (std::uint32_t run = front_; run != first; run = runs_[run].next) blocks += runs_[run].blocks;
  return blocks;
}

void PrefixCache::check(std::int64_t free_blocks, std::span<const std::int64_t> holders) const {
  std::int64_t queued_blocks = 0;
  std::size_t listed = 0, found = 0;
  std::uint64_t last = 0;
  for (std::uint32_t run = front_; run != kNoUnit; run = runs_[run].next, ++listed) {
    const Run& r = runs_[run];
    MUSTER_CHECK(r.references == 0 && r.blocks >= 1, "run {}: {} references, {} blocks", run, r.references, r.blocks);
    MUSTER_CHECK(!r.is_unit || r.blocks == unit_blocks_, "unit {} has {} blocks left", run, r.blocks);
    MUSTER_CHECK(r.queued >= last, "run {} is out of order", run);
    last = r.queued;
    queued_blocks += r.blocks;
  }
  MUSTER_CHECK(queued_blocks == free_blocks, "{} blocks in the queue, {} free", queued_blocks, free_blocks);
  for (std::size_t unit = 0; unit < runs_.size(); ++unit) {
    const Run& r = runs_[unit];
    MUSTER_CHECK(r.references == holders[unit], "unit {}: {} references, {} holders", unit, r.references,
                 holders[unit]);
    listed += r.references > 0;
    if (!r.is_unit) continue;
    std::uint32_t equal = index_.find(r.chain);
    found += equal == unit;
    while (equal != unit && equal != kNoUnit) equal = runs_[equal].next_equal;
    MUSTER_CHECK(equal == unit, "unit {} cannot be found", unit);
  }
  MUSTER_CHECK(listed + spare_.size() == runs_.size(), "{} runs, {} listed", runs_.size(), listed);
  MUSTER_CHECK(found == index_.size(), "{} chains, {} found", index_.size(), found);
}

}  // namespace muster::sched
