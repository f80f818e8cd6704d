// Quotas per namespace: tokens per minute and concurrent requests, reserved at admission and settled at the end.
//
// Sans-IO, like Fleet: every call carries the current instant, which never decreases. Not thread-safe. Integers only.
// Guarantee, nominal and ceiling as in Volcano's queues and Kueue's cluster queues: what is guaranteed is never lent
// before it overflows; up to nominal comes before any borrowing; up to the ceiling is borrowed from what is left over.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/policy/id_map.h"

namespace muster::policy {

struct QuotaLimits {  // 0 <= guarantee <= nominal <= ceiling
  std::int64_t guarantee = 0;
  std::int64_t nominal = 0;
  std::int64_t ceiling = 0;
};

struct NamespaceQuota {
  QuotaLimits tokens_per_min;  // each at most 1e8
  QuotaLimits concurrent;
  std::int64_t first_estimate = 256;  // output tokens of a request that states no maximum, before any was seen
};

struct QuotaSettings {
  std::int64_t tokens_per_min = 0;  // of the fleet: at least the sum of the guarantees, at most 1e8
  std::int64_t concurrent = 0;      // likewise
  std::vector<NamespaceQuota> namespaces;
  // How long a refusal below nominal holds borrowers back, and the hint where no better one is known. A client that
  // retries by the hint keeps its claim.
  Duration claim{1'000'000'000};
};

struct QuotaRequest {
  RequestId id;
  std::uint32_t name_space = 0;     // index in QuotaSettings::namespaces
  std::int64_t prompt_tokens = 0;   // at least 0
  std::int64_t max_tokens = 0;      // the two fields of the API; 0: not given. The larger counts: taking either one
  std::int64_t max_completion = 0;  // alone lets the other bypass the reservation (litellm PR #34223)
};

struct QuotaAnswer {
  bool admitted = false;
  std::string_view reason;              // of a refusal; static storage
  std::optional<Duration> retry_after;  // of a refusal: an estimate; nullopt: it can never be admitted
};

// Keeps these promises, whatever the calls:
//  - in any time t, at most tokens_per_min * (1 min + t) tokens are reserved, less what was refunded, and not counting
//    what was used beyond reservations;
//  - a namespace with a whole minute's guarantee unspent, no debt and fewer requests than its guarantee is admitted at
//    once with a request of no more tokens than the guarantee;
//  - nobody exceeds its ceiling of requests, nor all of them the fleet's;
//  - a refusal changes no level and no counter; at most, it holds borrowers back for `claim`;
//  - a reservation is settled or released once; reserved = settled + released + outstanding, in tokens.
// An actual use above the reservation is charged too: the levels go below zero and the namespace waits.
// A claim holds borrowers back from both resources, whichever was short. A call costs O(namespaces) and, once the map
// has grown to the peak, allocates nothing.
class Quotas {
 public:
  explicit Quotas(QuotaSettings settings);

  // Requires an id that is not outstanding.
  QuotaAnswer reserve(Instant now, const QuotaRequest& request);
  // The end, or an abort after some tokens: what was used of each. False: not outstanding, nothing changed.
  bool settle(Instant now, RequestId id, std::int64_t prompt_tokens, std::int64_t output_tokens);
  // It never ran: all of it is refunded, and nothing learned. False as above.
  bool release(Instant now, RequestId id);

  std::int64_t running(std::uint32_t name_space) const { return spaces_[name_space].running; }
  std::int64_t estimate(std::uint32_t name_space) const { return spaces_[name_space].estimate; }
  std::int64_t reserved() const { return reserved_; }  // tokens, since the beginning; the next two are parts of it
  std::int64_t settled() const { return settled_; }    // used, up to the reservation
  std::int64_t released() const { return released_; }  // refunded
  std::int64_t excess() const { return excess_; }      // used beyond the reservation
  void check() const;                                  // panics if an invariant is broken

 private:
  // Holds up to one minute's tokens. The part of a token is kept, so that steps of any size fill it alike.
  struct Bucket {
    std::int64_t rate = 0;                  // tokens per minute
    std::int64_t level = 0;                 // tokens
    std::int64_t part = 0;                  // of a token, in 1 / ns per minute
    std::int64_t fill(Duration elapsed);    // returns what overflowed
    std::int64_t put(std::int64_t tokens);  // likewise
  };
  struct Space {
    Bucket own;      // the guarantee
    Bucket nominal;  // measures only: above it is borrowing
    Bucket ceiling;  // measures only
    std::int64_t running = 0;
    std::int64_t estimate = 0;
    std::optional<Instant> claim_until;
  };
  struct Reservation {
    std::uint32_t name_space = 0;
    std::int64_t tokens = 0;
    std::int64_t from_shared = 0;
  };

  void advance(Instant now);
  bool claimed_by_another(Instant now, std::uint32_t name_space) const;
  std::int64_t lendable_requests() const;  // what no unfilled guarantee needs
  std::optional<std::string_view> refusal(Instant now, std::uint32_t name_space, std::int64_t tokens) const;
  Duration retry_after(const Space& space, std::int64_t tokens) const;
  void give_back(const Reservation& reservation, std::int64_t tokens);
  void charge(Space& space, std::int64_t tokens);
  static void learn(Space& space, std::int64_t output_tokens);

  QuotaSettings settings_;
  std::vector<Space> spaces_;  // [namespace]
  Bucket shared_;              // what is not guaranteed to anyone, and what overflowed from `own`
  IdMap<Reservation> outstanding_;
  Instant now_{};
  std::int64_t running_ = 0;
  std::int64_t outstanding_tokens_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t settled_ = 0;
  std::int64_t released_ = 0;
  std::int64_t excess_ = 0;
};

}  // namespace muster::policy
