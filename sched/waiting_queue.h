// The waiting sequences of one replica, by Order. A binary heap with the position of every slot, so that an abort takes
// a sequence out of the middle in O(log n). Arrivals of one priority come in order and cost O(1); a preempted sequence
// arrived before all that never ran, so its place is the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sequence_table.h"

namespace muster::sched {

class WaitingQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint32_t front() const { return heap_.front().slot; }       // requires !empty()
  void push(Order order, std::uint32_t slot);                      // requires that the slot is not in the queue
  void pop() { remove_at(0); }                                     // requires !empty()
  void remove(std::uint32_t slot) { remove_at(position_[slot]); }  // requires that the slot is in the queue
  bool contains(std::uint32_t slot) const {
    return slot < position_.size() && position_[slot] < heap_.size() && heap_[position_[slot]].slot == slot;
  }
  void check() const;

 private:
  struct Entry {
    Order order;
    std::uint32_t slot = 0;
  };

  void place(std::size_t i, const Entry& entry) {
    heap_[i] = entry;
    position_[entry.slot] = static_cast<std::uint32_t>(i);
  }
  void sift_up(std::size_t i, const Entry& entry);
  void sift_down(std::size_t i, const Entry& entry);
  void remove_at(std::size_t i);

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;  // [slots] index into heap_; meaningless for a slot that is not in the queue
};

}  // namespace muster::sched
