// The part of BatchScheduler that shares prefixes: what a waiting sequence finds, when what was computed can be found,
// and how far a jump may go before a waiting sequence would find something else.
#include <algorithm>
#include <utility>

#include "batch_scheduler.h"

namespace muster::sched {

void BatchScheduler::cache_prefixes(const PrefixRules& rules) {
  if (!limits_.prefix_caching || limits_.content_block_tokens == 0) return;
  prefix_rules_ = rules;
  knows_content_ = true;
  MUSTER_CHECK(limits_.content_block_tokens <= KvBlockPool::kMaxSequenceTokens, "content blocks of {} tokens",
               limits_.content_block_tokens);
  pool_.cache_prefixes(limits_.content_block_tokens, rules.useless);
}

BatchScheduler::Hit BatchScheduler::look_up(std::uint32_t slot) const {
  const std::int64_t unit_tokens = limits_.content_block_tokens;
  const PrefixCache& cache = pool_.prefixes();
  const std::int64_t last = table_[slot].known - 1;
  Hit hit;
  std::uint64_t chain = 0;
  for (const std::uint64_t content : prefixes_[slot].content) {
    if (hit.tokens + unit_tokens > last) break;
    chain = PrefixCache::chained(chain, content);
    const std::uint32_t unit = cache.find(chain);
    if (unit == kNoUnit) break;
    hit.tokens += unit_tokens;
    if (!cache.is_free(unit)) hit.blocks_held += cache.unit_blocks();
  }
  return hit;
}

BatchScheduler::Hit BatchScheduler::first_hit(const StepPlan& plan) {
  if (pool_.caches_prefixes()) make_pieces_findable(plan);
  return first_hit();
}

// Takes the units of the hit, before anything else is taken that could cost them their place.
void BatchScheduler::start_prefix(std::uint32_t slot, const Hit& hit) {
  if (table_[slot].kv_ready > 0) return skip(slot, hit);
  Prefix& prefix = prefixes_[slot];
  prefix.chain = 0;
  const auto units = static_cast<std::size_t>(hit.tokens / limits_.content_block_tokens);
  for (std::size_t i = 0; i < units; ++i) {
    prefix.chain = PrefixCache::chained(prefix.chain, prefix.content[i]);
    prefix.units.push_back(pool_.prefixes().find(prefix.chain));
  }
  pool_.share(table_[slot].kv, prefix.units);
  skip(slot, hit);
}

void BatchScheduler::skip(std::uint32_t slot, const Hit& hit) {
  Sequence& s = table_[slot];
  s.computed = s.scheduled = static_cast<std::int32_t>(hit.tokens);
  prompt_tokens_waiting_ -= hit.tokens;
  if (std::exchange(s.kv_ready, 0) > 0 || std::exchange(prefixes_[slot].started, true)) return;
  prefix_tokens_queried_ += s.known;
  prefix_tokens_hit_ += hit.tokens;
}

void BatchScheduler::release_blocks(std::uint32_t slot) {
  if (!pool_.caches_prefixes()) return pool_.release(table_[slot].kv);
  pool_.release(table_[slot].kv, prefixes_[slot].units);
  prefixes_[slot].units.clear();
}

void BatchScheduler::make_findable(std::uint32_t slot, std::int64_t tokens) {
  Prefix& prefix = prefixes_[slot];
  PrefixCache& cache = pool_.prefixes();
  while (prefix.units.size() < prefix.content.size() &&
         static_cast<std::int64_t>(prefix.units.size() + 1) * limits_.content_block_tokens <= tokens) {
    prefix.chain = PrefixCache::chained(prefix.chain, prefix.content[prefix.units.size()]);
    const bool keeps = prefix_rules_.duplicates == Duplicates::kKept;
    const std::uint32_t equal = keeps ? kNoUnit : cache.find(prefix.chain);
    if (equal == kNoUnit) {
      prefix.units.push_back(cache.insert(prefix.chain));
    } else if (prefix_rules_.duplicates == Duplicates::kUseless) {
      prefix.units.push_back(kNoUnit);
    } else {
      KvHolding shared;
      pool_.share(shared, {&equal, 1});
      pool_.give_back_unit();
      prefix.units.push_back(equal);
    }
  }
}

void BatchScheduler::make_pieces_findable(const StepPlan& plan) {
  if (answers_are_findable_later()) return;
  // 32 bits: this is once per piece, and the division is most of it.
  const auto unit_tokens = static_cast<std::uint32_t>(limits_.content_block_tokens);
  for (; pieces_findable_ < plan.pieces.size(); ++pieces_findable_) {
    const Piece& piece = plan.pieces[pieces_findable_];
    if (static_cast<std::uint32_t>(piece.computed_before) % unit_tokens + piece.tokens >= unit_tokens)
      make_findable(piece.slot, piece.computed_before + piece.tokens);
  }
}

// The steps of a jump but its first, which is `plan` and has been through make_pieces_findable(). Step by step, as of
// equal units the first is found first.
void BatchScheduler::make_steps_findable(const StepPlan& plan, std::int64_t steps) {
  if (answers_are_findable_later()) return;
  const std::int64_t unit_tokens = limits_.content_block_tokens;
  std::vector<std::pair<std::int64_t, std::uint32_t>> completed;  // in how many steps from the end, by which slot
  for (const Piece& piece : plan.pieces) {
    const Prefix& prefix = prefixes_[piece.slot];
    const std::int64_t scheduled = table_[piece.slot].scheduled;  // with the jump
    for (std::size_t unit = prefix.units.size(); unit < prefix.content.size(); ++unit) {
      const std::int64_t end = static_cast<std::int64_t>(unit + 1) * unit_tokens;
      if (end > scheduled) break;
      completed.emplace_back(scheduled - end, piece.slot);
    }
  }
  std::stable_sort(completed.begin(), completed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [before_end, slot] : completed) make_findable(slot, table_[slot].scheduled - before_end);
  MUSTER_CHECK(completed.empty() || completed.front().first < steps - 1, "a unit of the first step was forgotten");
}

void BatchScheduler::piece_is_back(const Piece& piece) {
  const Sequence& s = table_[piece.slot];
  if (prefix_rules_.findable == Findable::kWhenComputed ||
      (prefix_rules_.findable == Findable::kWhenPromptComputed && s.computed >= s.prefill_end))
    make_findable(piece.slot, s.computed);
}

// Where content is findable in the step that completes it, what the first waiting sequence finds may change in the
// middle of a jump: free units of its prefix are taken (then it may start, with a shorter first piece, or find an equal
// unit that somebody holds), or a decode completes one that it lacks. The jump ends before the first of these. With the
// other rules neither matters: nobody completes anything before he leaves, and a sequence starts with blocks for all it
// knows, of which it takes the free ones in any case.
std::int64_t BatchScheduler::further_steps_with_same_hit(const StepPlan& plan, std::int64_t further_steps_max) const {
  if (!pool_.caches_prefixes() || answers_are_findable_later()) return further_steps_max;
  const std::int64_t unit_tokens = limits_.content_block_tokens;
  const std::uint32_t first = waiting_.front();
  if (table_[first].kv_ready > 0) return further_steps_max;
  const std::int64_t last = table_[first].known - 1;
  std::vector<std::uint64_t> wanted;  // chains of all it could find
  std::vector<std::uint32_t> found;
  bool has_equal = false;
  for (const std::uint64_t content : prefixes_[first].content) {
    if (static_cast<std::int64_t>(wanted.size() + 1) * unit_tokens > last) break;
    wanted.push_back(PrefixCache::chained(wanted.empty() ? 0 : wanted.back(), content));
    const bool goes_on = found.size() + 1 == wanted.size();
    const std::uint32_t unit = goes_on ? pool_.prefixes().find(wanted.back()) : kNoUnit;
    if (unit == kNoUnit) continue;
    found.push_back(unit);
    has_equal |= pool_.prefixes().has_equal(unit);
  }
  std::int64_t steps = further_steps_max;
  const std::int64_t budget_next = limits_.max_num_batched_tokens - static_cast<std::int64_t>(plan.pieces.size());
  const bool may_start_in_pieces = table_[first].known > std::min(budget_next, piece_tokens_max_);
  if (has_equal || (may_start_in_pieces && !whole_prompt_must_fit_)) {
    const std::int64_t blocks = pool_.prefixes().blocks_before(found);
    if (blocks != PrefixCache::kNoneFree) steps = further_steps_with_blocks(plan, blocks, steps);
  }
  for (const Piece& piece : plan.pieces) {
    const Prefix& prefix = prefixes_[piece.slot];
    std::uint64_t chain = prefix.chain;
    for (std::size_t unit = prefix.units.size(); unit < std::min(prefix.content.size(), wanted.size()); ++unit) {
      // This many steps after `plan`, which computes a token of it too.
      const std::int64_t completed = static_cast<std::int64_t>(unit + 1) * unit_tokens - piece.computed_before - 1;
      if (completed > steps) break;
      chain = PrefixCache::chained(chain, prefix.content[unit]);
      if (chain != wanted[unit]) break;
      if (unit < found.size() && !pool_.prefixes().is_free(found[unit])) continue;
      steps = completed - 1;
      break;
    }
  }
  return steps;
}

void BatchScheduler::check_prefixes() const {
  std::vector<std::int64_t> holders(pool_.prefixes().runs());
  for (std::uint32_t slot = 0; slot < table_.slots(); ++slot) {
    const Prefix& prefix = prefixes_[slot];
    if (table_[slot].place != Place::kRunning)
      MUSTER_CHECK(prefix.units.empty(), "slot {} does not run, but has {} units", slot, prefix.units.size());
    MUSTER_CHECK(
        static_cast<std::int64_t>(prefix.units.size()) * limits_.content_block_tokens <= table_[slot].kv.tokens,
        "slot {}: {} units, KV of {} tokens", slot, prefix.units.size(), table_[slot].kv.tokens);
    for (const std::uint32_t unit : prefix.units) {
      if (unit != kNoUnit) ++holders[unit];
    }
  }
  pool_.prefixes().check(pool_.free(), holders);
}

}  // namespace muster::sched
