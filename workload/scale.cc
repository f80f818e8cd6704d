#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/core/rng.h"
#include "muster/workload/trace.h"
#include "sort.h"

namespace muster::workload {
namespace {

constexpr std::size_t kNeighbours = 8;  // the local gap is taken over so many requests on each side
constexpr double kJitterGaps = 4;       // jitter in local mean gaps
constexpr double kJitterMaxS = 30;      // half of a window of the usual rate curve
constexpr double kJitterMaxOfSpan = 0.05;

// How far a copy of each request may move, in seconds.
std::vector<double> jitters(const Trace& trace) {
  const std::vector<Request>& all = trace.requests;
  const double limit = std::min(kJitterMaxS, kJitterMaxOfSpan * to_seconds(trace.span()));
  std::vector<double> reach(all.size(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t low = i - std::min(i, kNeighbours);
    const std::size_t high = std::min(i + kNeighbours, all.size() - 1);
    if (low == high) continue;
    const double gap = to_seconds(all[high].arrival - all[low].arrival) / static_cast<double>(high - low);
    reach[i] = std::min(kJitterGaps * gap, limit);
  }
  return reach;
}

// `arrival` moved by `by`, turned back at the trace's ends, where moving on would thin out the load.
Duration moved(Duration arrival, Duration by, Duration first, Duration last) {
  Duration at = arrival + by;
  if (at < first) at = first + (first - at);
  if (at > last) at = last - (at - last);
  return std::clamp(at, first, last);
}

// Marks a random `chosen` of `n` (Knuth, algorithm S).
std::vector<bool> choose(std::size_t n, std::size_t chosen, Rng& rng) {
  std::vector<bool> mark(n, false);
  for (std::size_t i = 0; i < n && chosen > 0; ++i) {
    if (rng.below(n - i) >= chosen) continue;
    mark[i] = true;
    --chosen;
  }
  return mark;
}

// Makes the copies' prefix blocks differ from the originals'.
class BlockCopies {
 public:
  explicit BlockCopies(const Trace& trace) {
    for (const std::uint64_t id : trace.block_ids) largest_ = std::max(largest_, id);
  }
  std::uint64_t id(std::uint64_t original, std::uint64_t copy) const {
    if (largest_ < std::numeric_limits<std::uint64_t>::max() / (copy + 1) - 1) return original + copy * (largest_ + 1);
    std::uint64_t z = original + copy * 0x9e3779b97f4a7c15ULL;  // ids that are hashes fill 64 bits: splitmix64's mix
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t largest_ = 0;
};

}  // namespace

Result<Trace> scale(const Trace& trace, double factor, std::uint64_t seed) {
  if (!(factor > 0) || factor > 1e6) return fail("the scale is {}; a factor over 0 and up to 1e6 is needed", factor);
  const std::size_t n = trace.requests.size();
  const double total = factor * static_cast<double>(n);
  if (total > 2147483648.0) return fail("{} requests times {} are more than 2^31", n, factor);
  if (static_cast<double>(trace.block_ids.size()) * factor > 4294967295.0)
    return fail("{} prefix blocks times {} are more than 2^32", trace.block_ids.size(), factor);

  const auto whole = static_cast<std::size_t>(factor);
  const auto share =
      static_cast<std::size_t>(std::llround((factor - static_cast<double>(whole)) * static_cast<double>(n)));
  Rng jitter_rng = Rng::stream(seed, 0, "scale-jitter");
  Rng share_rng = Rng::stream(seed, 0, "scale-share");
  const std::vector<bool> in_share = choose(n, share, share_rng);
  const std::vector<double> reach = jitters(trace);
  const BlockCopies blocks(trace);

  Trace out;
  out.source = trace.source;
  out.block_tokens = trace.block_tokens;
  out.tenants = trace.tenants;
  out.requests.reserve(whole * n + share);
  for (std::size_t copy = 0; copy <= whole; ++copy) {
    Duration by(0);
    for (std::size_t i = 0; i < n; ++i) {
      Request r = trace.requests[i];
      const bool same_instant = i > 0 && r.arrival == trace.requests[i - 1].arrival;
      if (copy > 0 && !same_instant) by = from_seconds((2 * jitter_rng.uniform() - 1) * reach[i]);
      if (copy == whole && !in_share[i]) continue;
      if (copy > 0) r.arrival = moved(r.arrival, by, trace.requests.front().arrival, trace.requests.back().arrival);
      const auto first = static_cast<std::uint32_t>(out.block_ids.size());
      for (std::uint32_t b = 0; b < r.block_count; ++b)
        out.block_ids.push_back(blocks.id(trace.block_ids[r.first_block + b], copy));
      r.first_block = first;
      out.requests.push_back(r);
    }
  }
  sort_by_arrival(out.requests);
  return out;
}

Trace window(const Trace& trace, Duration begin, Duration end) {
  Trace out;
  out.source = trace.source;
  out.block_tokens = trace.block_tokens;
  out.tenants = trace.tenants;
  for (Request r : trace.requests) {
    if (r.arrival < begin || r.arrival >= end) continue;
    r.arrival -= begin;
    const auto ids = trace.block_ids.begin() + r.first_block;
    r.first_block = static_cast<std::uint32_t>(out.block_ids.size());
    out.block_ids.insert(out.block_ids.end(), ids, ids + r.block_count);
    out.requests.push_back(r);
  }
  return out;
}

}  // namespace muster::workload
