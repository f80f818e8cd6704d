#include "clients.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::sim {

Clients::Clients(const Scenario& scenario)
    : behaviour_(scenario.clients),
      trace_(*scenario.trace),
      think_rng_(Rng::stream(scenario.seed, 0, "think time")),
      retry_rng_(Rng::stream(scenario.seed, 0, "retry backoff")),
      users_idle_(behaviour_.users),
      wave_left_(behaviour_.users) {
  if (!behaviour_.sessions) return;
  const auto requests = static_cast<std::uint32_t>(trace_.requests.size());
  next_turn_.assign(requests, kNone);
  is_later_turn_.assign(requests, false);
  std::vector<std::uint32_t> last_of_session;  // [session] its latest request; kNone
  for (std::uint32_t i = 0; i < requests; ++i) {
    const std::uint32_t session = trace_.requests[i].session;
    if (session == workload::kNoSession) continue;
    if (session >= last_of_session.size()) last_of_session.resize(session + 1, kNone);
    std::uint32_t& last = last_of_session[session];
    if (last != kNone) {
      next_turn_[last] = i;
      is_later_turn_[i] = true;
    }
    last = i;
  }
  skip_later_turns();
}

void Clients::skip_later_turns() {
  while (!is_later_turn_.empty() && next_ < trace_.requests.size() && is_later_turn_[next_]) ++next_;
}

Instant Clients::next(Instant now) const {
  const Instant timer = timers_.empty() ? Instant::max() : timers_.front().at;
  if (next_ >= trace_.requests.size()) return timer;
  if (closed_loop()) return user_may_send() ? now : timer;
  return std::min(timer, Instant(trace_.requests[next_].arrival));
}

std::optional<Clients::Event> Clients::pop(Instant now) {
  if (next_ < trace_.requests.size() &&
      (closed_loop() ? user_may_send() : Instant(trace_.requests[next_].arrival) <= now)) {
    const RequestId id(next_++);
    skip_later_turns();
    if (closed_loop()) {
      --users_idle_;
      if (behaviour_.lock_step) --wave_left_;
    }
    ++sent_first_;
    return Event{.kind = Event::Kind::kSend, .id = id, .attempt = 0};
  }
  if (timers_.empty() || timers_.front().at > now) return std::nullopt;
  std::pop_heap(timers_.begin(), timers_.end(), later);
  const Event event = timers_.back().event;
  timers_.pop_back();
  sent_first_ += event.kind == Event::Kind::kSend ? 1 : 0;
  return event;
}

void Clients::set_timer(Instant at, const Event& event) {
  timers_.push_back({.at = at, .number = timers_made_++, .event = event});
  std::push_heap(timers_.begin(), timers_.end(), later);
}

void Clients::sent(Instant now, RequestId id, std::uint32_t attempt) {
  if (behaviour_.first_token_timeout)
    set_timer(now + *behaviour_.first_token_timeout, {Event::Kind::kFirstTokenDue, id, attempt});
  if (behaviour_.timeout) set_timer(now + *behaviour_.timeout, {Event::Kind::kAnswerDue, id, attempt});
}

bool Clients::tries_again(Instant now, RequestId id, std::uint32_t attempt) {
  if (attempt >= behaviour_.retries_max) return false;
  // Exponential backoff with jitter: the mean doubles with each attempt, drawn evenly from half to one and a half.
  const double factor = static_cast<double>(std::uint64_t{1} << std::min<std::uint32_t>(attempt, 20));
  const double jitter = 0.5 + retry_rng_.uniform();
  const double wait_ns = static_cast<double>(behaviour_.retry_backoff.count()) * factor * jitter;
  set_timer(now + Duration(static_cast<std::int64_t>(wait_ns)), {Event::Kind::kSendAgain, id, attempt + 1});
  return true;
}

Duration Clients::think_time() {
  if (behaviour_.think <= Duration(0) || !behaviour_.exponential_think) return behaviour_.think;
  return Duration(static_cast<std::int64_t>(think_rng_.exponential(static_cast<double>(behaviour_.think.count()))));
}

void Clients::answered(Instant now, RequestId id, bool completed) {
  if (!next_turn_.empty()) {
    std::uint32_t turn = next_turn_[id.value];
    if (turn != kNone && completed) {
      set_timer(now + trace_.requests[turn].think, {Event::Kind::kSend, RequestId(turn), 0});
    } else {
      for (; turn != kNone; turn = next_turn_[turn]) ++dropped_;  // the session ends here
    }
  }
  if (!closed_loop()) return;
  const Duration think = behaviour_.lock_step ? Duration(0) : think_time();
  if (think > Duration(0) && next_ < trace_.requests.size()) {
    const RequestId next_id(next_++);  // the user's next one is fixed now, and sent later
    set_timer(now + think, {Event::Kind::kSend, next_id, 0});
    return;
  }
  ++users_idle_;
  if (behaviour_.lock_step && users_idle_ == behaviour_.users) wave_left_ = behaviour_.users;
}

}  // namespace muster::sim
