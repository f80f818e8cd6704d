// The sequences of one replica, in reused slots.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "id_index.h"
#include "kv_block_pool.h"
#include "muster/core/check.h"
#include "muster/core/units.h"

namespace muster::sched {

// Who goes first: the lower priority number, then the earlier arrival. No two sequences are equal.
struct Order {
  std::int32_t priority = 0;
  std::uint64_t arrival = 0;  // 1, 2, 3, ... in the order of add()
  friend constexpr auto operator<=>(const Order&, const Order&) = default;
};

enum class Place : std::uint8_t {
  kFree,     // the slot is unused
  kWaiting,  // holds no KV blocks
  kRunning,  // holds the KV blocks of its computed tokens and of those in flight
  kLeaving,  // aborted; only keeps its slot until its steps in flight are back
};

// All counts are tokens. 0 <= computed <= scheduled <= known < end, and computed < known.
struct Sequence {
  std::int32_t scheduled = 0;    // computed, and those of the steps that are out
  std::int32_t computed = 0;     // whose KV is there; the tokens of a step count when it is back
  std::int32_t known = 0;        // prompt and emitted
  std::int32_t prompt = 0;       // as it came
  std::int32_t end = 0;          // prompt + max_tokens: the sequence leaves when `known` gets there
  std::int32_t prefill_end = 0;  // to compute before it decodes: the prompt, after a preemption the emitted ones too
  std::int32_t kv_ready = 0;     // KV that came along and has no blocks yet; while it waits
  KvHolding kv;
  RequestId id;
  Order order;
  Place place = Place::kFree;
  std::uint16_t steps_out = 0;  // that it is in

  bool in_flight() const { return steps_out > 0; }
  std::int32_t emitted() const { return known - prompt; }
  std::int32_t prefill_left() const { return prefill_end > computed ? prefill_end - computed : 0; }
};

class SequenceTable {
 public:
  // Requires that no sequence with this id can be found. The slot stays the sequence's until release().
  std::uint32_t insert(const Sequence& sequence) {
    std::uint32_t slot;
    if (free_slots_.empty()) {
      slot = static_cast<std::uint32_t>(sequences_.size());
      sequences_.push_back(sequence);
      free_slots_.reserve(sequences_.capacity());  // so that release() never allocates
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
      sequences_[slot] = sequence;
    }
    index_.insert(sequence.id, slot);
    return slot;
  }
  // From now on find() does not know its id, which may be added again.
  void forget(std::uint32_t slot) { index_.erase(sequences_[slot].id); }
  // Requires forget() first.
  void release(std::uint32_t slot) {
    sequences_[slot].place = Place::kFree;
    free_slots_.push_back(slot);
  }

  std::uint32_t find(RequestId id) const { return index_.find(id); }  // kNoSlot: unknown
  Sequence& operator[](std::uint32_t slot) { return sequences_[slot]; }
  const Sequence& operator[](std::uint32_t slot) const { return sequences_[slot]; }
  std::size_t slots() const { return sequences_.size(); }
  std::size_t known_ids() const { return index_.size(); }

 private:
  std::vector<Sequence> sequences_;        // [slots]
  std::vector<std::uint32_t> free_slots_;  // last released, first reused
  IdIndex index_;
};

}  // namespace muster::sched
