// Requests as they arrive: what a trace file holds and what a synthesiser makes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/core/time.h"

namespace muster::workload {

inline constexpr std::uint32_t kNoSession = 0xffffffff;

struct Request {
  Duration arrival;                // since the start of the trace; not negative
  std::int32_t input_tokens = 0;   // at least 1
  std::int32_t output_tokens = 0;  // at least 1
  std::uint32_t first_block = 0;   // into Trace::block_ids; requests of one session may share a stretch of it
  std::uint32_t block_count = 0;   // 0: no prefix information; over ceil(input / block_tokens): the answer's too
  std::uint16_t tenant = 0;        // into Trace::tenants
  // Turns of one conversation have one number and come in the trace's order; kNoSession: a request of its own.
  std::uint32_t session = kNoSession;
  // From the end of the answer before to this turn; 0 for a first turn. A closed loop sends the turn then, where
  // `arrival` is what an open loop uses: an estimate, or what was once measured.
  Duration think{0};
};

struct Trace {
  std::string source;                    // file or profile, for messages and reports
  std::vector<Request> requests;         // sorted by arrival; equal arrivals keep the file's order
  std::vector<std::uint64_t> block_ids;  // equal ids mean equal prefix blocks (and equal blocks before them)
  int block_tokens = 0;                  // tokens of one prefix block (512 for Mooncake); 0 without blocks
  std::vector<std::string> tenants;      // empty: one anonymous tenant
  std::uint64_t repaired_order = 0;      // rows that came out of order and were sorted in
  std::uint64_t repaired_lengths = 0;    // lengths of 0 that were read as 1
  std::uint64_t skipped_failures = 0;    // BurstGPT rows without a response: the service failed

  Duration span() const { return requests.empty() ? Duration(0) : requests.back().arrival - requests.front().arrival; }
};

// The ids of a request's whole blocks: of its prompt, and of its answer where the trace knows that too (as a next turn
// repeats it): that is where it has more ids than the prompt fills blocks. A last block that ends in the middle is left
// out, as nothing can reuse it: in a session its id is the one it has once later turns have filled it.
std::span<const std::uint64_t> content_blocks(const Trace& trace, const Request& request);

inline constexpr std::int64_t kTokensMax = 16'777'216;  // longer lengths are taken for damage

// Multiplies the rate by `factor` without changing the shape: `factor` x as many requests in the same span, with the
// same rate curve and the same lengths. Of k whole copies the first keeps its arrivals and the others are moved by up
// to
// +-4 local mean gaps (the gap over the 8 requests before and after), at most 30 s or a 20th of the span: so bursts
// stay bursts, quiet stays quiet, and copies do not arrive hand in hand. Requests of one instant move together. The
// fraction is a random share (seeded) of exactly round(fraction x requests). Sessions are chosen and moved as a whole,
// so with them the count is exact in sessions; copies have session numbers of their own. Each copy has prefix blocks of
// its own, as other users would, so prefix reuse stays what it was. Fails unless 0 < factor <= 1e6, or over 2^31
// requests.
//
// What cannot stay: a share below 1 of a bursty trace is less bursty (thinning tends to Poisson). For whole factors up
// to 10 the CV of the gaps stays within 15 % for renewal (Gamma) arrivals of CV 1 to 2.5. Pauses between the bursts of
// real traces stay as long while the gaps inside the bursts shrink, so their CV grows with the factor (Mooncake
// conversation: 3.0, at twice the rate 3.8, at ten times 5.3).
Result<Trace> scale(const Trace& trace, double factor, std::uint64_t seed);

// Requests with arrival in [begin, end), moved so that the window starts at 0.
Trace window(const Trace& trace, Duration begin, Duration end);

}  // namespace muster::workload
