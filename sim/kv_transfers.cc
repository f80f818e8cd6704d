#include "kv_transfers.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sim {

void KvTransfers::start(Instant now, RequestId id, std::uint32_t from, std::uint32_t to, const Disaggregation& link,
                        std::int64_t tokens) {
  const double bytes = static_cast<double>(tokens) * static_cast<double>(link.kv_bytes_per_token);
  const Duration time = from_seconds(bytes / link.link_bytes_per_s);
  const Instant begin = std::max({now, out_free_[from], in_free_[to]});
  out_free_[from] = in_free_[to] = begin + time;
  in_flight_.push_back({.done = begin + time + link.link_latency, .number = figures_.transfers, .id = id, .to = to});
  std::push_heap(in_flight_.begin(), in_flight_.end(), later);
  ++figures_.transfers;
  figures_.bytes += bytes;
  figures_.waited_seconds += to_seconds(begin - now);
  figures_.moving_seconds += to_seconds(time + link.link_latency);
}

std::optional<KvTransfers::Arrived> KvTransfers::pop(Instant now) {
  if (next() > now) return std::nullopt;
  std::pop_heap(in_flight_.begin(), in_flight_.end(), later);
  const Transfer transfer = in_flight_.back();
  in_flight_.pop_back();
  return Arrived{transfer.id, transfer.to};
}

bool KvTransfers::cancel(RequestId id) {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const Transfer& t) { return t.id == id; });
  if (found == in_flight_.end()) return false;  // losses and timeouts are rare: a pass over all will do
  in_flight_.erase(found);
  std::make_heap(in_flight_.begin(), in_flight_.end(), later);
  return true;
}

}  // namespace muster::sim
