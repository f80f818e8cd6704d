#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "muster/workload/trace.h"

namespace muster::workload {

// Sorts by arrival; equal arrivals keep their order. (std::stable_sort of libstdc++ 12 does not compile under clang's
// -Werror in C++23: its temporary buffer is deprecated.)
inline void sort_by_arrival(std::vector<Request>& requests) {
  std::vector<std::pair<Duration, std::uint32_t>> order;
  order.reserve(requests.size());
  for (const Request& r : requests) order.emplace_back(r.arrival, static_cast<std::uint32_t>(order.size()));
  std::sort(order.begin(), order.end());
  std::vector<Request> sorted;
  sorted.reserve(requests.size());
  for (const auto& [arrival, index] : order) sorted.push_back(requests[index]);
  requests = std::move(sorted);
}

}  // namespace muster::workload
