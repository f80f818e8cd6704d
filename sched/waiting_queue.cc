#include "waiting_queue.h"

namespace muster::sched {

void WaitingQueue::push(Order order, std::uint32_t slot) {
  if (slot >= position_.size()) position_.resize(slot + std::size_t{1});
  heap_.emplace_back();
  sift_up(heap_.size() - 1, {order, slot});
}

void WaitingQueue::sift_up(std::size_t i, const Entry& entry) {
  while (i > 0) {
    const std::size_t parent = (i - 1) / 2;
    if (heap_[parent].order < entry.order) break;
    place(i, heap_[parent]);
    i = parent;
  }
  place(i, entry);
}

void WaitingQueue::sift_down(std::size_t i, const Entry& entry) {
  for (std::size_t child = 2 * i + 1; child < heap_.size(); child = 2 * i + 1) {
    if (child + 1 < heap_.size() && heap_[child + 1].order < heap_[child].order) ++child;
    if (entry.order < heap_[child].order) break;
    place(i, heap_[child]);
    i = child;
  }
  place(i, entry);
}

void WaitingQueue::remove_at(std::size_t i) {
  const Entry last = heap_.back();
  heap_.pop_back();
  if (i == heap_.size()) return;
  if (i > 0 && last.order < heap_[(i - 1) / 2].order) {
    sift_up(i, last);
  } else {
    sift_down(i, last);
  }
}

void WaitingQueue::check() const {
  for (std::size_t i = 0; i < heap_.size(); ++i) {
    MUSTER_CHECK(position_[heap_[i].slot] == i, "slot {} is at {}, its position says {}", heap_[i].slot, i,
                 position_[heap_[i].slot]);
    MUSTER_CHECK(i == 0 || heap_[(i - 1) / 2].order < heap_[i].order, "the waiting heap is broken at {}", i);
  }
}

}  // namespace muster::sched
