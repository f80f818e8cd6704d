#include "muster/sim/simulation.h"

#include <algorithm>
#include <deque>

#include "ledger.h"
#include "lifecycle.h"
#include "muster/core/check.h"
#include "muster/core/digest.h"
#include "muster/core/rng.h"
#include "replica.h"
#include "sampler.h"
#include "step_clock.h"
#include "work_estimate.h"

namespace muster::sim {
namespace {

constexpr double kOutputTokensPrior = 256;  // expected of the first request; a mean over those completed takes over

void check_valid(const Scenario& s) {
  MUSTER_CHECK(s.trace != nullptr, "a scenario needs a trace");
  MUSTER_CHECK(s.kind.step != nullptr, "a scenario needs a step timer");
  MUSTER_CHECK(!s.replicas.empty(), "a scenario needs a replica");
  MUSTER_CHECK(!s.classes.empty(), "a scenario needs a class of requests");
  MUSTER_CHECK(s.class_of_tenant.empty() || s.class_of_tenant.size() >= s.trace->tenants.size(),
               "{} tenants, {} of them have a class", s.trace->tenants.size(), s.class_of_tenant.size());
  for (const std::uint32_t c : s.class_of_tenant)
    MUSTER_CHECK(c < s.classes.size(), "class {} of {}", c, s.classes.size());
  for (const ReplicaPlace& r : s.replicas)
    MUSTER_CHECK(r.zone < s.zones.size(), "zone {} of {}", r.zone, s.zones.size());
  for (const Fault& f : s.faults) {
    const std::size_t targets = f.kind == Fault::Kind::kZoneLoss ? s.zones.size() : s.replicas.size();
    MUSTER_CHECK(f.target < targets, "a fault strikes {} of {}", f.target, targets);
  }
  Duration last(0);
  for (const workload::Request& r : s.trace->requests) {
    MUSTER_CHECK(r.arrival >= last, "the trace goes back in time to {} ns", r.arrival.count());
    MUSTER_CHECK(r.input_tokens >= 1 && r.output_tokens >= 1, "a request of {} input and {} output tokens",
                 r.input_tokens, r.output_tokens);
    MUSTER_CHECK(s.class_of_tenant.empty() || r.tenant < s.class_of_tenant.size(), "tenant {} has no class", r.tenant);
    last = r.arrival;
  }
}

// The event queue has one place for each source of events, and a source has at most one event pending: a replica its
// next step's end or start, the fleet its next fault or start, the trace its next arrival, the sampler its next sample.
// The source is the order number of events at one instant: first all steps that end, then what follows from them,
// faults, arrivals. Once all of an instant is done, the replicas that it touched let steps in, so whoever arrives in it
// can still join; samples last.
class Simulation {
 public:
  Simulation(const Scenario& scenario, const Progress& progress);
  Outcome run();

 private:
  std::uint32_t replica_count() const { return static_cast<std::uint32_t>(replicas_.size()); }
  std::size_t fleet_source() const { return replicas_.size(); }
  std::size_t arrival_source() const { return replicas_.size() + 1; }
  std::size_t sample_source() const { return replicas_.size() + 2; }
  void set_event(std::size_t source, Instant at) { events_.set(source, at.time_since_epoch().count()); }

  bool handle(std::size_t source);
  void on_replica_events();
  void on_fleet_event();
  bool on_arrivals();
  bool closed_loop() const { return scenario_.closed_loop_users > 0; }
  Instant next_arrival_at() const;
  void answered();
  void on_sample();

  policy::RequestInfo describe(RequestId id) const;
  void perform_actions();
  void dispatch(RequestId id, std::uint32_t replica);
  void touch(std::uint32_t replica);
  void start_touched();
  void check() const;
  Outcome close();

  const Scenario& scenario_;
  const Progress& progress_;
  Ledger ledger_;
  Lifecycle lifecycle_;
  StepClock clock_;
  WorkEstimate work_;
  Sampler sampler_;
  policy::Fleet fleet_;
  std::deque<Replica> replicas_;     // [replica]
  std::vector<ZoneId> entry_zones_;  // [requests] where they come in; empty: no zone affinity
  policy::MinTree events_;           // [source] ns; see above
  Instant now_{};
  std::uint32_t next_arrival_ = 0;  // index into the trace
  std::uint32_t users_idle_ = 0;    // closed loop: users who send their next request now
  std::uint32_t sampled_arrivals_ = 0;
  std::vector<std::uint32_t> touched_;  // replicas to start at the end of this instant, each once
  std::vector<char> is_touched_;        // [replica]
  policy::Actions actions_;
  struct Completion {
    RequestId id;
    ReplicaId replica;
  };
  std::vector<RequestId> finished_;
  std::vector<Completion> completions_;
  std::vector<FleetEvent> log_;
  std::uint64_t event_count_ = 0;
};

Simulation::Simulation(const Scenario& scenario, const Progress& progress)
    : scenario_(scenario),
      progress_(progress),
      ledger_(scenario),
      lifecycle_(scenario),
      clock_(*scenario.kind.step),
      work_(*scenario.kind.step, scenario.kind.limits),
      sampler_(scenario.sample_interval),
      fleet_(scenario.policy),
      events_(scenario.replicas.size() + 3),
      is_touched_(scenario.replicas.size()) {
  for (std::size_t i = 0; i < scenario.replicas.size(); ++i)
    replicas_.emplace_back(static_cast<std::uint32_t>(i), scenario.kind.scheduler, scenario.kind.limits, clock_,
                           ledger_, scenario.step_by_step, scenario.observer);
  if (scenario.policy.zone_affinity == policy::ZoneAffinity::kPrefer) {
    Rng rng = Rng::stream(scenario.seed, 0, "entry zones");
    for (std::size_t i = 0; i < scenario.trace->requests.size(); ++i)
      entry_zones_.emplace_back(static_cast<std::uint32_t>(rng.below(scenario.zones.size())));
  }
  for (std::uint32_t i = 0; i < replica_count(); ++i)
    if (!scenario.replicas[i].standby)
      fleet_.on_replica_ready(now_, ReplicaId(i), ZoneId(scenario.replicas[i].zone), actions_);
  set_event(fleet_source(), lifecycle_.next_event());
  set_event(sample_source(), sampler_.next());
  users_idle_ = scenario.closed_loop_users;
  set_event(arrival_source(), next_arrival_at());
}

Outcome Simulation::run() {
  const std::uint64_t total = scenario_.trace->requests.size();
  while (ledger_.answered() < total) {
    const auto at = Instant(Duration(events_.min_key()));
    if (!touched_.empty() && at > now_) {
      start_touched();
      continue;
    }
    // Nothing happens any more, or nobody is left to serve those who wait and nobody else comes: they are not
    // completed.
    const bool more_come = events_.key(arrival_source()) != policy::MinTree::kNone;
    if (at == Instant::max() || (!more_come && lifecycle_.next_event() == Instant::max() && lifecycle_.serving() == 0))
      break;
    now_ = at;
    ++event_count_;
    if (!handle(events_.min_index())) break;
    if (scenario_.check_invariants) check();
  }
  return close();
}

// False: the caller gave up.
bool Simulation::handle(std::size_t source) {
  if (source < replicas_.size()) {
    on_replica_events();
  } else if (source == fleet_source()) {
    on_fleet_event();
  } else if (source == arrival_source()) {
    return on_arrivals();
  } else {
    on_sample();
  }
  return true;
}

// All of this instant.
void Simulation::on_replica_events() {
  completions_.clear();
  while (events_.min_key() == now_.time_since_epoch().count() && events_.min_index() < replicas_.size()) {
    const auto replica = static_cast<std::uint32_t>(events_.min_index());
    finished_.clear();
    replicas_[replica].finish_due(now_, finished_);
    for (const RequestId id : finished_) completions_.push_back({id, ReplicaId(replica)});
    set_event(replica, Instant::max());  // start_touched() says when there is more
    touch(replica);
  }
  for (const auto& [id, replica] : completions_) {
    ledger_.complete(id, now_);
    answered();
    fleet_.on_finished(now_, id, replica, actions_);
    perform_actions();
  }
}

void Simulation::on_fleet_event() {
  Lifecycle::Changes changes;
  const std::size_t logged_before = log_.size();
  lifecycle_.advance(now_, changes, log_);
  set_event(fleet_source(), lifecycle_.next_event());

  std::vector<RequestId> held;
  for (const std::uint32_t i : changes.lost) {
    replicas_[i].settle(now_);
    fleet_.on_replica_lost(now_, ReplicaId(i), actions_);
    const std::vector<RequestId> of_this = ledger_.held_by(i);
    held.insert(held.end(), of_this.begin(), of_this.end());
    replicas_[i].lose();
    set_event(i, replicas_[i].next_event());
  }
  // First all losses, so that nothing is sent from one dying replica to the next.
  std::sort(held.begin(), held.end());
  if (!held.empty())
    log_.push_back({.at = now_,
                    .kind = "requeue",
                    .text = fmt::format("{} requests of lost replicas go back to the queue", held.size())});
  for (const RequestId id : held) {
    ledger_.requeue(id);
    fleet_.on_arrival(now_, describe(id), true, actions_);
    perform_actions();
  }
  for (const std::uint32_t i : changes.ready)
    fleet_.on_replica_ready(now_, ReplicaId(i), ZoneId(scenario_.replicas[i].zone), actions_);
  perform_actions();
  if (scenario_.observer != nullptr)
    for (std::size_t i = logged_before; i < log_.size(); ++i) scenario_.observer->on_event(log_[i]);
}

// When the next request comes; Instant::max() if none does, as far as is known now.
Instant Simulation::next_arrival_at() const {
  if (next_arrival_ >= scenario_.trace->requests.size()) return Instant::max();
  if (closed_loop()) return users_idle_ > 0 ? now_ : Instant::max();
  return Instant(scenario_.trace->requests[next_arrival_].arrival);
}

// A request is answered: in a closed loop its user goes on.
void Simulation::answered() {
  if (!closed_loop()) return;
  ++users_idle_;
  set_event(arrival_source(), next_arrival_at());
}

// All arrivals of this instant. False: the caller gave up.
bool Simulation::on_arrivals() {
  const auto total = static_cast<std::uint32_t>(scenario_.trace->requests.size());
  const std::uint32_t progress_every = std::max(total / 200, 1u);
  bool go_on = true;
  while (next_arrival_ < total && next_arrival_at() == now_) {
    const RequestId id(next_arrival_++);
    if (closed_loop()) {
      ledger_.set_arrival(id, now_);
      --users_idle_;
    }
    ledger_.arrive(id);
    fleet_.on_arrival(now_, describe(id), false, actions_);
    perform_actions();
    if (progress_ && next_arrival_ % progress_every == 0)
      go_on = go_on && progress_(static_cast<double>(next_arrival_) / static_cast<double>(total));
  }
  set_event(arrival_source(), next_arrival_at());
  return go_on;
}

void Simulation::on_sample() {
  // All else of this instant is done: let the steps begin, also those that begin in the middle of a jump.
  for (std::uint32_t i = 0; i < replica_count(); ++i) {
    replicas_[i].settle(now_);
    touch(i);
  }
  start_touched();
  Sample sample{.at = now_,
                .arrivals = next_arrival_ - sampled_arrivals_,
                .queued = static_cast<std::uint32_t>(ledger_.not_started()),
                .ready_replicas = lifecycle_.serving(),
                .running = {},
                .kv_share = {}};
  for (const Replica& replica : replicas_) {
    const sched::SchedulerState state = replica.state();
    sample.running.push_back(static_cast<std::uint32_t>(state.running));
    sample.kv_share.push_back(static_cast<float>(state.kv_blocks_used) / static_cast<float>(state.kv_blocks_total));
  }
  sampled_arrivals_ = next_arrival_;
  sampler_.add(std::move(sample));
  set_event(sample_source(), sampler_.next());
}

policy::RequestInfo Simulation::describe(RequestId id) const {
  const std::uint32_t request_class = ledger_.class_of(id);
  const workload::Request& request = ledger_.request(id);
  policy::RequestInfo info{
      .id = id,
      .request_class = request_class,
      .rank = scenario_.classes[request_class].rank,
      .work = work_.of(request.input_tokens + ledger_.emitted(id), ledger_.mean_output_tokens_seen(kOutputTokensPrior)),
      .zone = {}};
  if (!entry_zones_.empty()) info.zone = entry_zones_[id.value];
  return info;
}

void Simulation::perform_actions() {
  // A replica that turns a request down makes room, so performing an action may add others.
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const policy::Action action = actions_[i];
    if (action.kind == policy::Action::Kind::kRefuse) {
      ledger_.reject(action.request);
      answered();
    } else {
      dispatch(action.request, action.replica.value);
    }
  }
  actions_.clear();
}

void Simulation::dispatch(RequestId id, std::uint32_t replica) {
  ledger_.dispatch(id, replica);
  const workload::Request& request = ledger_.request(id);
  // Tokens that another replica emitted before it was lost come back as prompt, and are computed again.
  const std::int32_t emitted = ledger_.emitted(id);
  const bool accepted = replicas_[replica].add(now_, {.id = id,
                                                      .prompt_tokens = request.input_tokens + emitted,
                                                      .max_tokens = request.output_tokens - emitted,
                                                      .priority = scenario_.classes[ledger_.class_of(id)].rank});
  touch(replica);
  if (accepted) return;
  ledger_.reject(id);
  answered();
  fleet_.on_finished(now_, id, ReplicaId(replica), actions_);
}

void Simulation::touch(std::uint32_t replica) {
  if (is_touched_[replica]) return;
  is_touched_[replica] = 1;
  touched_.push_back(replica);
}

void Simulation::start_touched() {
  for (const std::uint32_t i : touched_) {
    is_touched_[i] = 0;
    replicas_[i].start(now_);
    set_event(i, replicas_[i].next_event());
  }
  touched_.clear();
}

void Simulation::check() const {
  fleet_.check();
  ledger_.check();
  MUSTER_CHECK(fleet_.queued() == ledger_.in_fleet_queue(), "the fleet's queue holds {} requests, the ledger says {}",
               fleet_.queued(), ledger_.in_fleet_queue());
  std::int64_t held = 0;
  for (const Replica& replica : replicas_) {
    replica.check();
    const sched::SchedulerState state = replica.state();
    held += state.running + state.waiting;
  }
  MUSTER_CHECK(held == static_cast<std::int64_t>(ledger_.on_replicas()),
               "replicas hold {} requests, the ledger says {}", held, ledger_.on_replicas());
}

Outcome Simulation::close() {
  Outcome outcome;
  ledger_.close(outcome);
  outcome.stage_busy_seconds.resize(static_cast<std::size_t>(clock_.stages()));
  for (const Replica& replica : replicas_) {
    outcome.steps += replica.steps();
    outcome.occupied_seconds += to_seconds(replica.occupied());
    for (std::size_t stage = 0; stage < replica.stage_busy().size(); ++stage)
      outcome.stage_busy_seconds[stage] += to_seconds(replica.stage_busy()[stage]);
  }
  outcome.events = event_count_;
  if (outcome.completed > 0) {
    const Instant first = ledger_.arrival(RequestId(0));
    outcome.duration = ledger_.last_completion() - first;
    outcome.gpu_seconds = scenario_.kind.gpus * lifecycle_.up_seconds(first, ledger_.last_completion());
  }
  outcome.samples = sampler_.take();
  outcome.log = std::move(log_);
  Digest digest;
  ledger_.add_to(digest);
  for (const FleetEvent& event : outcome.log) {
    digest.add(event.at.time_since_epoch().count());
    digest.add(std::string_view(event.kind));
    digest.add(std::string_view(event.text));
  }
  outcome.digest = digest.value();
  return outcome;
}

}  // namespace

Outcome run(const Scenario& scenario, const Progress& progress) {
  check_valid(scenario);
  return Simulation(scenario, progress).run();
}

}  // namespace muster::sim
