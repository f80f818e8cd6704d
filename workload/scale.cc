#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

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

// What moves and is chosen together: the turns of a session, or a request of its own. Numbered as they appear.
struct Units {
  explicit Units(const Trace& trace) {
    std::unordered_map<std::uint32_t, std::uint32_t> of_session;  // looked up only
    of_request.reserve(trace.requests.size());
    for (const Request& r : trace.requests) {
      if (r.session == kNoSession) {
        of_request.push_back(count++);
        continue;
      }
      const auto [at, added] = of_session.try_emplace(r.session, count);
      count += added ? 1 : 0;
      of_request.push_back(at->second);
      sessions = std::max(sessions, r.session + 1);
    }
  }
  std::vector<std::uint32_t> of_request;
  std::uint32_t count = 0;
  std::uint32_t sessions = 0;  // over the largest session number; 0: none
};

struct UnitMove {
  Duration by;
  Duration last{0};  // where its last turn has come to: turning back at an end must not swap turns
};

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
  std::uint64_t block_ids = 0;  // sessions share stretches of Trace::block_ids; the copies do not
  for (const Request& r : trace.requests) block_ids += r.block_count;
  if (static_cast<double>(block_ids) * factor > 4294967295.0)
    return fail("{} prefix blocks times {} are more than 2^32", block_ids, factor);

  const Units units(trace);
  if (factor * units.sessions > 2147483648.0)
    return fail("session numbers up to {} times {} are more than 2^31", units.sessions, factor);

  const auto whole = static_cast<std::size_t>(factor);
  const double rest = factor - static_cast<double>(whole);
  const auto share = static_cast<std::size_t>(std::llround(rest * static_cast<double>(units.count)));
  Rng jitter_rng = Rng::stream(seed, 0, "scale-jitter");
  Rng share_rng = Rng::stream(seed, 0, "scale-share");
  const std::vector<bool> in_share = choose(units.count, share, share_rng);
  const std::vector<double> reach = jitters(trace);
  const BlockCopies blocks(trace);

  Trace out;
  out.source = trace.source;
  out.block_tokens = trace.block_tokens;
  out.tenants = trace.tenants;
  out.requests.reserve(static_cast<std::size_t>(total) + 1);
  for (std::size_t copy = 0; copy <= whole; ++copy) {
    Duration by(0);
    std::vector<std::optional<UnitMove>> moves(copy > 0 ? units.count : 0);
    for (std::size_t i = 0; i < n; ++i) {
      Request r = trace.requests[i];
      const std::uint32_t unit = units.of_request[i];
      const bool same_instant = i > 0 && r.arrival == trace.requests[i - 1].arrival;
      const bool first_turn = copy > 0 && !moves[unit];
      if (first_turn && !same_instant) by = from_seconds((2 * jitter_rng.uniform() - 1) * reach[i]);
      if (first_turn) moves[unit] = UnitMove{.by = by};
      if (copy == whole && !in_share[unit]) continue;
      if (copy > 0) {
        UnitMove& move = *moves[unit];
        r.arrival = moved(r.arrival, move.by, trace.requests.front().arrival, trace.requests.back().arrival);
        r.arrival = move.last = std::max(r.arrival, move.last);
        if (r.session != kNoSession) r.session += static_cast<std::uint32_t>(copy) * units.sessions;
      }
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
