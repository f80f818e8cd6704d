// RequestId -> slot. The ids of one replica are a scattered subset of the positions in a trace, so an array over all
// ids would cost every replica the whole trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/core/units.h"
#include "open_index.h"

namespace muster::sched {

class IdIndex {
 public:
  std::size_t size() const { return index_.size(); }
  std::uint32_t find(RequestId id) const { return index_.find(id.value); }          // kNoSlot when absent
  void insert(RequestId id, std::uint32_t slot) { index_.insert(id.value, slot); }  // requires: absent
  void erase(RequestId id) { index_.erase(id.value); }                              // requires: present

 private:
  OpenIndex<std::uint32_t> index_;
};

}  // namespace muster::sched
