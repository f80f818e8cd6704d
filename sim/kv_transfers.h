// KV caches on their way from prefill to decode replicas, over links that are shared.
//
// Each replica has one link for all that leaves it and one for all that comes in; a transfer needs both, alone: it
// begins when both are free, in the order in which transfers were asked for, and takes bytes / bandwidth. The latency
// is added at the end and does not keep the links busy.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/sim/simulation.h"

namespace muster::sim {

class KvTransfers {
 public:
  explicit KvTransfers(std::size_t replicas)
      : out_free_(replicas, Instant::min()), in_free_(replicas, Instant::min()) {}

  void start(Instant now, RequestId id, std::uint32_t from, std::uint32_t to, const Disaggregation& link,
             std::int64_t tokens);
  Instant next() const { return in_flight_.empty() ? Instant::max() : in_flight_.front().done; }
  // One that has arrived; nullopt: no more at `now`.
  struct Arrived {
    RequestId id;
    std::uint32_t to = 0;
  };
  std::optional<Arrived> pop(Instant now);
  // False: it was not on its way. The links stay taken for as long as they would have been.
  bool cancel(RequestId id);

  std::size_t in_flight() const { return in_flight_.size(); }
  const KvTransferFigures& figures() const { return figures_; }

 private:
  struct Transfer {
    Instant done;
    std::uint64_t number = 0;  // order of asking; breaks ties
    RequestId id;
    std::uint32_t to = 0;
  };
  static bool later(const Transfer& a, const Transfer& b) {
    return a.done != b.done ? a.done > b.done : a.number > b.number;
  }
  std::vector<Instant> out_free_, in_free_;  // [replicas] when the link is free
  std::vector<Transfer> in_flight_;          // a binary heap, first to arrive in front
  KvTransferFigures figures_;
};

}  // namespace muster::sim
