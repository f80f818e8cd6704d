// When clients send: open loop, closed loop, turns of sessions, retries; and when they lose patience.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/core/rng.h"
#include "muster/core/time.h"
#include "muster/core/units.h"
#include "muster/sim/simulation.h"

namespace muster::sim {

class Clients {
 public:
  struct Event {
    enum class Kind : std::uint8_t { kSend, kSendAgain, kFirstTokenDue, kAnswerDue };
    Kind kind = Kind::kSend;
    RequestId id;
    std::uint32_t attempt = 0;  // that this is about: 0 for the first
  };

  // Keeps a reference to the scenario.
  explicit Clients(const Scenario& scenario);

  // The next event, as far as is known at `now`; Instant::max(): none.
  Instant next(Instant now) const;
  // One that is due; nullopt: no more at `now`. What it sends must be handed to sent().
  std::optional<Event> pop(Instant now);

  // A request went out: the client's patience begins.
  void sent(Instant now, RequestId id, std::uint32_t attempt);
  // It failed (refused, or given up): will the client try again? If not, answered() has to follow.
  bool tries_again(Instant now, RequestId id, std::uint32_t attempt);
  // The final word on a request: its user goes on, its session has its next turn, unless it failed.
  void answered(Instant now, RequestId id, bool completed);

  std::uint64_t sent_first() const { return sent_first_; }  // requests that went out at least once
  std::uint64_t dropped() const { return dropped_; }        // turns that never come, as one before them failed
  bool arrivals_are_the_traces() const { return !closed_loop() && next_turn_.empty(); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Timer {
    Instant at;
    std::uint64_t number = 0;  // order of making; breaks ties
    Event event;
  };
  static bool later(const Timer& a, const Timer& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  bool closed_loop() const { return behaviour_.users > 0; }
  void set_timer(Instant at, const Event& event);
  void skip_later_turns();
  bool user_may_send() const { return users_idle_ > 0 && (!behaviour_.lock_step || wave_left_ > 0); }
  Duration think_time();

  const ClientBehaviour& behaviour_;
  const workload::Trace& trace_;
  Rng think_rng_, retry_rng_;
  std::uint32_t next_ = 0;                // index into the trace of the next request that nothing else sends
  std::uint32_t users_idle_ = 0;          // closed loop: users who send their next request now
  std::uint32_t wave_left_ = 0;           // lock step: of this wave, not yet sent
  std::vector<std::uint32_t> next_turn_;  // [requests] the request that follows in its session; kNone; empty: not used
  std::vector<bool> is_later_turn_;       // [requests]
  std::vector<Timer> timers_;             // a binary heap, earliest in front
  std::uint64_t timers_made_ = 0;
  std::uint64_t sent_first_ = 0, dropped_ = 0;
};

}  // namespace muster::sim
