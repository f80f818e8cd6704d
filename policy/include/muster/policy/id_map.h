// Request id, or hash of a block, -> value, in one flat array (linear probing): no allocation once it has grown to the
// most requests held at once. Deliberately without iteration in hash order; for_each_key() is for gathering ids that
// the caller then sorts or only counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/core/units.h"

namespace muster::policy {

template <class Key, class Value>
class FlatMap {
 public:
  std::size_t size() const { return size_; }

  // Null when absent. Valid until the next insert or erase.
  const Value* find(Key id) const {
    if (cells_.empty()) return nullptr;
    for (std::size_t at = home(id);; at = next(at)) {
      if (!cells_[at].used) return nullptr;
      if (cells_[at].id == id) return &cells_[at].value;
    }
  }

  // False: the id is there already, and keeps its value.
  bool insert(Key id, const Value& value) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    std::size_t at = home(id);
    for (; cells_[at].used; at = next(at))
      if (cells_[at].id == id) return false;
    cells_[at] = {id, true, value};
    ++size_;
    return true;
  }

  // False: the id is not there.
  bool erase(Key id) {
    if (cells_.empty()) return false;
    std::size_t hole = home(id);
    for (;; hole = next(hole)) {
      if (!cells_[hole].used) return false;
      if (cells_[hole].id == id) break;
    }
    // Move later cells of the run back, so that no probe meets a gap before its id.
    for (std::size_t at = next(hole); cells_[at].used; at = next(at)) {
      const std::size_t from_home = (at - home(cells_[at].id)) & (cells_.size() - 1);
      const std::size_t from_hole = (at - hole) & (cells_.size() - 1);
      if (from_home < from_hole) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].used = false;
    --size_;
    return true;
  }

  void clear() {
    cells_.clear();
    size_ = 0;
  }

  template <class F>
  void for_each_key(F f) const {
    for (const Cell& cell : cells_)
      if (cell.used) f(cell.id, cell.value);
  }

 private:
  struct Cell {
    Key id{};
    bool used = false;
    Value value{};
  };

  // Ids are counted upwards: sixteen in a row stay side by side, for the sake of the processor's cache, and the
  // multiplication spreads the rows, whatever the stride.
  static std::uint64_t spread(RequestId id) {
    return ((id.value / 16) * 0x9e3779b97f4a7c15ULL >> 32) * 16 + id.value % 16;
  }
  static std::uint64_t spread(std::uint64_t hash) { return hash; }  // well mixed already
  std::size_t home(Key key) const { return static_cast<std::size_t>(spread(key)) & (cells_.size() - 1); }
  std::size_t next(std::size_t at) const { return (at + 1) & (cells_.size() - 1); }

  void grow() {
    std::vector<Cell> old(cells_.empty() ? 64 : 2 * cells_.size());
    old.swap(cells_);
    size_ = 0;
    for (const Cell& cell : old)
      if (cell.used) insert(cell.id, cell.value);
  }

  std::vector<Cell> cells_;  // a power of two of them, at most half used
  std::size_t size_ = 0;
};

template <class Value>
using IdMap = FlatMap<RequestId, Value>;

}  // namespace muster::policy
