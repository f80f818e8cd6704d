#include "muster/policy/quota.h"

#include <algorithm>
#include <utility>

#include "muster/core/check.h"

namespace muster::policy {
namespace {

constexpr Duration kMinute{60'000'000'000};
constexpr std::int64_t kRateMax = 100'000'000;  // tokens per minute; times kMinute in ns it still fits in 63 bits

void check_limits(const QuotaLimits& limits) {
  MUSTER_CHECK(0 <= limits.guarantee && limits.guarantee <= limits.nominal && limits.nominal <= limits.ceiling,
               "guarantee {}, nominal {}, ceiling {}", limits.guarantee, limits.nominal, limits.ceiling);
}

}  // namespace

std::int64_t Quotas::Bucket::put(std::int64_t tokens) {
  const std::int64_t overflow = std::max<std::int64_t>(0, level + tokens - rate);
  level += tokens - overflow;
  return overflow;
}

std::int64_t Quotas::Bucket::fill(Duration elapsed) {
  const std::int64_t gained = rate * elapsed.count() + part;
  part = gained % kMinute.count();
  return put(gained / kMinute.count());
}

Quotas::Quotas(QuotaSettings settings) : settings_(std::move(settings)) {
  std::int64_t tokens = 0;
  std::int64_t requests = 0;
  for (const NamespaceQuota& quota : settings_.namespaces) {
    check_limits(quota.tokens_per_min);
    check_limits(quota.concurrent);
    MUSTER_CHECK(quota.tokens_per_min.ceiling <= kRateMax, "{} tokens per minute", quota.tokens_per_min.ceiling);
    tokens += quota.tokens_per_min.guarantee;
    requests += quota.concurrent.guarantee;
    const auto full = [](std::int64_t rate) { return Bucket{rate, rate, 0}; };
    spaces_.push_back({full(quota.tokens_per_min.guarantee), full(quota.tokens_per_min.nominal),
                       full(quota.tokens_per_min.ceiling), 0, quota.first_estimate, std::nullopt});
  }
  MUSTER_CHECK(tokens <= settings_.tokens_per_min && settings_.tokens_per_min <= kRateMax,
               "{} tokens per minute, {} guaranteed", settings_.tokens_per_min, tokens);
  MUSTER_CHECK(requests <= settings_.concurrent, "{} requests, {} guaranteed", settings_.concurrent, requests);
  MUSTER_CHECK(settings_.claim > Duration(0), "a claim of {} ns", settings_.claim.count());
  shared_.rate = settings_.tokens_per_min - tokens;
  shared_.level = shared_.rate;
}

void Quotas::advance(Instant now) {
  MUSTER_CHECK(now >= now_, "time runs backwards");
  // A minute fills `own`, a second one lets it overflow into `shared_`, debts aside: a minute at a time keeps the
  // products small. An hour covers any debt worth the name and bounds the work after a long silence.
  Duration left = std::min<Duration>(now - now_, 60 * kMinute);
  now_ = now;
  while (left > Duration(0)) {
    const Duration step = std::min(left, kMinute);
    left -= step;
    std::int64_t overflow = 0;
    for (Space& space : spaces_) {
      overflow += space.own.fill(step);
      space.nominal.fill(step);
      space.ceiling.fill(step);
    }
    shared_.fill(step);
    shared_.put(overflow);
  }
}

bool Quotas::claimed_by_another(Instant now, std::uint32_t name_space) const {
  for (std::size_t i = 0; i < spaces_.size(); ++i)
    if (i != name_space && spaces_[i].claim_until && now < *spaces_[i].claim_until) return true;
  return false;
}

std::int64_t Quotas::lendable_requests() const {
  std::int64_t free = settings_.concurrent - running_;
  for (std::size_t i = 0; i < spaces_.size(); ++i)
    free -= std::max<std::int64_t>(0, settings_.namespaces[i].concurrent.guarantee - spaces_[i].running);
  return free;
}

std::optional<std::string_view> Quotas::refusal(Instant now, std::uint32_t name_space, std::int64_t tokens) const {
  const Space& space = spaces_[name_space];
  const QuotaLimits& requests = settings_.namespaces[name_space].concurrent;
  if (space.running >= requests.ceiling) return "the namespace is at its ceiling of concurrent requests";
  if (space.ceiling.level < tokens) return "the namespace is at its ceiling of tokens per minute";
  if (space.running >= requests.guarantee && lendable_requests() < 1) return "no concurrent request is left to borrow";
  if (space.own.level + std::max<std::int64_t>(0, shared_.level) < tokens) return "no tokens are left to borrow";
  // The guarantee itself is never held back by somebody's claim.
  const bool guaranteed = space.running < requests.guarantee && space.own.level >= tokens;
  const bool borrows = space.running >= requests.nominal || space.nominal.level < tokens;
  if (borrows && !guaranteed && claimed_by_another(now, name_space)) return "what was borrowed is reclaimed";
  return std::nullopt;
}

Duration Quotas::retry_after(const Space& space, std::int64_t tokens) const {
  Duration wait = settings_.claim;
  const auto cover = [&](std::int64_t missing, std::int64_t rate) {
    if (missing > 0 && rate > 0) wait = std::max<Duration>(wait, (missing * 60'000 / rate + 1) * 1ms);
  };
  cover(tokens - space.ceiling.level, space.ceiling.rate);
  cover(tokens - space.own.level - shared_.level, space.own.rate + shared_.rate);
  return wait;
}

QuotaAnswer Quotas::reserve(Instant now, const QuotaRequest& request) {
  advance(now);
  MUSTER_CHECK(outstanding_.find(request.id) == nullptr, "request {} is outstanding", request.id.value);
  MUSTER_CHECK(request.prompt_tokens >= 0, "{} prompt tokens", request.prompt_tokens);
  Space& space = spaces_[request.name_space];
  const std::int64_t stated = std::max(request.max_tokens, request.max_completion);
  // Each part is clamped: a huge field is too large, not an overflow.
  const std::int64_t tokens =
      std::min(request.prompt_tokens, 2 * kRateMax) + std::min(stated > 0 ? stated : space.estimate, 2 * kRateMax);
  if (tokens > std::min(space.ceiling.rate, space.own.rate + shared_.rate))
    return {false, "the request is larger than a minute's tokens", std::nullopt};
  const QuotaLimits& requests = settings_.namespaces[request.name_space].concurrent;
  if (requests.ceiling == 0) return {false, "the namespace may run no requests", std::nullopt};
  if (const auto reason = refusal(now, request.name_space, tokens)) {
    if (space.running < requests.nominal && space.nominal.level >= tokens) space.claim_until = now + settings_.claim;
    return {false, *reason, retry_after(space, tokens)};
  }
  space.claim_until.reset();
  const std::int64_t from_own = std::clamp<std::int64_t>(space.own.level, 0, tokens);
  space.own.level -= from_own;
  shared_.level -= tokens - from_own;
  space.nominal.level -= tokens;
  space.ceiling.level -= tokens;
  ++space.running;
  ++running_;
  reserved_ += tokens;
  outstanding_tokens_ += tokens;
  outstanding_.insert(request.id, {request.name_space, tokens, tokens - from_own});
  return {true, {}, std::nullopt};
}

void Quotas::give_back(const Reservation& reservation, std::int64_t tokens) {
  Space& space = spaces_[reservation.name_space];
  const std::int64_t to_shared = std::min(tokens, reservation.from_shared);  // the borrowed part first
  shared_.put(to_shared + space.own.put(tokens - to_shared));
  space.nominal.put(tokens);
  space.ceiling.put(tokens);
  --space.running;
  --running_;
  outstanding_tokens_ -= reservation.tokens;
  released_ += tokens;
  settled_ += reservation.tokens - tokens;
}

void Quotas::charge(Space& space, std::int64_t tokens) {
  const std::int64_t from_own = std::clamp<std::int64_t>(space.own.level, 0, tokens);
  space.own.level -= from_own;
  shared_.level -= tokens - from_own;
  space.nominal.level -= tokens;
  space.ceiling.level -= tokens;
  excess_ += tokens;
}

// The 95th percentile by stochastic approximation (Robbins and Monro 1951): at rest where 1 in 20 is larger, since the
// step up is 19 times that down.
void Quotas::learn(Space& space, std::int64_t output_tokens) {
  const std::int64_t step = std::max<std::int64_t>(1, space.estimate / 256);
  space.estimate += output_tokens > space.estimate ? 19 * step : -step;
  space.estimate = std::clamp<std::int64_t>(space.estimate, 1, kRateMax);
}

bool Quotas::settle(Instant now, RequestId id, std::int64_t prompt_tokens, std::int64_t output_tokens) {
  advance(now);
  const Reservation* found = outstanding_.find(id);
  if (found == nullptr) return false;
  MUSTER_CHECK(prompt_tokens >= 0 && output_tokens >= 0, "{} and {} tokens", prompt_tokens, output_tokens);
  const Reservation reservation = *found;
  outstanding_.erase(id);
  const std::int64_t actual = prompt_tokens + output_tokens;
  give_back(reservation, std::max<std::int64_t>(0, reservation.tokens - actual));
  if (actual > reservation.tokens) charge(spaces_[reservation.name_space], actual - reservation.tokens);
  learn(spaces_[reservation.name_space], output_tokens);
  return true;
}

bool Quotas::release(Instant now, RequestId id) {
  advance(now);
  const Reservation* found = outstanding_.find(id);
  if (found == nullptr) return false;
  const Reservation reservation = *found;
  outstanding_.erase(id);
  give_back(reservation, reservation.tokens);
  return true;
}

void Quotas::check() const {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> running(spaces_.size());
  outstanding_.for_each_key([&](RequestId, const Reservation& reservation) {
    tokens += reservation.tokens;
    ++running[reservation.name_space];
  });
  MUSTER_CHECK(tokens == outstanding_tokens_, "{} tokens outstanding, not {}", tokens, outstanding_tokens_);
  MUSTER_CHECK(reserved_ == settled_ + released_ + tokens,
               "{} tokens reserved, {} settled, {} released, {} outstanding", reserved_, settled_, released_, tokens);
  for (std::size_t i = 0; i < spaces_.size(); ++i) {
    MUSTER_CHECK(running[i] == spaces_[i].running, "namespace {} runs {}, not {}", i, running[i], spaces_[i].running);
    MUSTER_CHECK(running[i] <= settings_.namespaces[i].concurrent.ceiling, "namespace {} runs {}", i, running[i]);
    MUSTER_CHECK(spaces_[i].own.level >= 0, "namespace {} owes {} of its guarantee", i, -spaces_[i].own.level);
  }
  MUSTER_CHECK(lendable_requests() >= 0, "guaranteed requests were lent");
}

}  // namespace muster::policy
