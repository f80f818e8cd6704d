#include "muster/sim/simulation.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "clients.h"
#include "kv_transfers.h"
#include "ledger.h"
#include "lifecycle.h"
#include "muster/core/check.h"
#include "muster/core/digest.h"
#include "muster/core/rng.h"
#include "pool_metrics.h"
#include "replica.h"
#include "sampler.h"
#include "step_clock.h"
#include "work_estimate.h"

namespace muster::sim {
namespace {

constexpr Duration kInVainMax{3600s};

std::unique_ptr<policy::ScalingRule> make_rule(const Scaling& scaling) {
  if (const auto* muster = std::get_if<policy::AutoscalerSettings>(&scaling))
    return std::make_unique<policy::Autoscaler>(*muster);
  if (const auto* hpa = std::get_if<policy::HpaSettings>(&scaling)) return std::make_unique<policy::HpaRule>(*hpa);
  return std::make_unique<policy::KedaRule>(std::get<policy::KedaSettings>(scaling));
}

void check_valid(const Scenario& s) {
  MUSTER_CHECK(s.trace != nullptr, "a scenario needs a trace");
  MUSTER_CHECK(s.kind.step != nullptr, "a scenario needs a step timer");
  MUSTER_CHECK(!s.replicas.empty(), "a scenario needs a replica");
  MUSTER_CHECK(!s.classes.empty(), "a scenario needs a class of requests");
  MUSTER_CHECK(s.class_of_tenant.empty() || s.class_of_tenant.size() >= s.trace->tenants.size(),
               "{} tenants, {} of them have a class", s.trace->tenants.size(), s.class_of_tenant.size());
  for (const std::uint32_t c : s.class_of_tenant)
    MUSTER_CHECK(c < s.classes.size(), "class {} of {}", c, s.classes.size());
  for (const Pool& pool : s.more_pools)
    MUSTER_CHECK(pool.kind.step != nullptr, "pool {} needs a step timer", pool.name);
  for (const ReplicaPlace& r : s.replicas) {
    MUSTER_CHECK(r.zone < s.zones.size(), "zone {} of {}", r.zone, s.zones.size());
    MUSTER_CHECK(r.pool < s.pools(), "pool {} of {}", r.pool, s.pools());
    MUSTER_CHECK(!r.standby || !r.off, "a standby replica is on");
  }
  MUSTER_CHECK(s.clients.retries_max < 255, "{} retries; at most 254 can be counted", s.clients.retries_max);
  MUSTER_CHECK(s.pool_of_class.empty() || s.pool_of_class.size() == s.classes.size(),
               "{} classes, {} of them have a pool", s.classes.size(), s.pool_of_class.size());
  for (const std::uint32_t p : s.pool_of_class) MUSTER_CHECK(p < s.pools(), "pool {} of {}", p, s.pools());
  if (s.disaggregation) {
    MUSTER_CHECK(s.pools() == 2 && s.pool_of_class.empty(), "prefill and decode need two pools, got {}", s.pools());
    MUSTER_CHECK(s.disaggregation->link_bytes_per_s > 0, "the KV cache cannot move over a link of {} bytes/s",
                 s.disaggregation->link_bytes_per_s);
  }
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
// next step's end or start, the transfers the next to arrive, the fleet its next fault or start, the clients their next
// request or the end of their patience, the scaling rules their next look, the sampler its next sample. The source is
// the order number of events at one instant: first all steps that end, then what follows from them, transfers, faults,
// clients. Once all of an instant is done, the replicas that it touched let steps in, so whoever arrives in it can
// still join; samples last.
class Simulation {
 public:
  Simulation(const Scenario& scenario, const Progress& progress);
  Outcome run();

 private:
  // Replicas of one kind, with their router.
  struct PoolState {
    PoolState(const ReplicaKind& kind, const policy::FleetSettings& settings)
        : clock(*kind.step), work(*kind.step, kind.limits), fleet(settings) {}
    StepClock clock;
    WorkEstimate work;
    policy::Fleet fleet;
    std::unique_ptr<policy::ScalingRule> rule;      // nullptr: not scaled
    std::optional<PoolMetricsWindow> metrics = {};  // with a rule
    Duration occupied{0};                           // of its replicas, at the last sample
    Instant occupied_at{};
  };
  struct Completion {
    RequestId id;
    ReplicaId replica;
  };

  std::uint32_t replica_count() const { return static_cast<std::uint32_t>(replicas_.size()); }
  std::size_t transfer_source() const { return replicas_.size(); }
  std::size_t fleet_source() const { return replicas_.size() + 1; }
  std::size_t client_source() const { return replicas_.size() + 2; }
  std::size_t scaling_source() const { return replicas_.size() + 3; }
  std::size_t sample_source() const { return replicas_.size() + 4; }
  void set_event(std::size_t source, Instant at) { events_.set(source, at.time_since_epoch().count()); }
  std::uint32_t pool_of(ReplicaId replica) const { return scenario_.replicas[replica.value].pool; }
  std::uint32_t first_pool_of(RequestId id) const {
    return scenario_.pool_of_class.empty() ? 0 : scenario_.pool_of_class[ledger_.class_of(id)];
  }

  bool handle(std::size_t source);
  void on_replica_events();
  void on_done(const Completion& completion);
  void on_transfers();
  void on_fleet_event();
  bool on_clients();
  void on_patience_ends(const Clients::Event& event);
  bool on_sample();
  bool on_scaling();
  std::optional<double> busy_share(std::uint32_t pool);
  void carry_out(std::uint32_t pool, const policy::ScaleDecision& decision);
  void switch_off_if_drained(std::uint32_t replica);
  Instant next_scaling() const;
  bool is_scaled(std::uint32_t pool) const { return pools_[pool].rule != nullptr; }

  void arrive(RequestId id, std::uint32_t pool, bool again);
  void fail(RequestId id, Ledger::Stage how);
  bool needs_decode(RequestId id) const { return ledger_.emitted(id) < ledger_.request(id).output_tokens; }
  policy::RequestInfo describe(RequestId id, std::uint32_t pool) const;
  void perform_actions(std::uint32_t pool);
  void dispatch(RequestId id, std::uint32_t pool, std::uint32_t replica);
  void add_to_replica(RequestId id, std::uint32_t replica);
  void touch(std::uint32_t replica);
  void start_touched();
  void check() const;
  Outcome close();

  const Scenario& scenario_;
  const Progress& progress_;
  Clients clients_;
  Ledger ledger_;
  Lifecycle lifecycle_;
  KvTransfers transfers_;
  Sampler sampler_;
  std::deque<PoolState> pools_;      // [pool]
  std::deque<Replica> replicas_;     // [replica]
  std::vector<ZoneId> entry_zones_;  // [requests] where they come in; empty: no zone affinity
  policy::MinTree events_;           // [source] ns; see above
  Instant now_{};
  std::uint64_t sampled_arrivals_ = 0;
  std::vector<std::uint32_t> touched_;  // replicas to start at the end of this instant, each once
  std::vector<char> is_touched_;        // [replica]
  policy::Actions actions_;             // of one pool
  std::vector<RequestId> finished_;
  std::vector<Completion> completions_;
  std::vector<FleetEvent> log_;
  Instant in_vain_since_ = Instant::max();  // see on_scaling()
  std::uint64_t event_count_ = 0;
};

Simulation::Simulation(const Scenario& scenario, const Progress& progress)
    : scenario_(scenario),
      progress_(progress),
      clients_(scenario),
      ledger_(scenario, !clients_.arrivals_are_the_traces()),
      lifecycle_(scenario),
      transfers_(scenario.replicas.size()),
      sampler_(scenario.sample_interval),
      events_(scenario.replicas.size() + 5),
      is_touched_(scenario.replicas.size()) {
  for (std::uint32_t pool = 0; pool < scenario.pools(); ++pool)
    pools_.emplace_back(scenario.kind_of(pool), scenario.policy_of(pool));
  for (std::uint32_t i = 0; i < scenario.replicas.size(); ++i) {
    const std::uint32_t pool = scenario.replicas[i].pool;
    const ReplicaKind& kind = scenario.kind_of(pool);
    sched::SchedulerLimits limits = kind.limits;
    limits.content_block_tokens = scenario.trace->block_tokens;
    if (limits.content_block_tokens % limits.kv_block_tokens != 0) limits.content_block_tokens = 0;  // nothing to share
    replicas_.emplace_back(i, kind.scheduler, limits, pools_[pool].clock, ledger_, scenario.step_by_step,
                           scenario.observer);
  }
  for (std::uint32_t pool = 0; pool < scenario.scaling.size(); ++pool) {
    if (!scenario.scaling[pool]) continue;
    PoolState& state = pools_[pool];
    state.rule = make_rule(*scenario.scaling[pool]);
    state.metrics.emplace(ledger_, state.work);
    ledger_.keep_starts();
  }
  bool any_zones = false;
  for (std::uint32_t pool = 0; pool < scenario.pools(); ++pool)
    any_zones |= scenario.policy_of(pool).zone_affinity == policy::ZoneAffinity::kPrefer;
  if (any_zones) {
    Rng rng = Rng::stream(scenario.seed, 0, "entry zones");
    for (std::size_t i = 0; i < scenario.trace->requests.size(); ++i)
      entry_zones_.emplace_back(static_cast<std::uint32_t>(rng.below(scenario.zones.size())));
  }
  for (std::uint32_t i = 0; i < replica_count(); ++i) {
    if (scenario.replicas[i].standby || scenario.replicas[i].off) continue;
    pools_[scenario.replicas[i].pool].fleet.on_replica_ready(now_, ReplicaId(i), ZoneId(scenario.replicas[i].zone),
                                                             actions_);
  }
  set_event(transfer_source(), Instant::max());
  set_event(fleet_source(), lifecycle_.next_event());
  set_event(sample_source(), sampler_.next());
  set_event(scaling_source(), next_scaling());
  set_event(client_source(), clients_.next(now_));
}

Outcome Simulation::run() {
  const std::uint64_t total = scenario_.trace->requests.size();
  while (ledger_.answered() + clients_.dropped() < total) {
    const auto at = Instant(Duration(events_.min_key()));
    if (!touched_.empty() && at > now_) {
      start_touched();
      continue;
    }
    // Nothing happens any more: those who still wait are not completed.
    if (at == Instant::max()) break;
    now_ = at;
    ++event_count_;
    if (!handle(events_.min_index())) break;
    if (scenario_.check_invariants) check();
  }
  return close();
}

// False: the caller gave up, or nothing can happen any more.
bool Simulation::handle(std::size_t source) {
  if (source < replicas_.size()) {
    on_replica_events();
  } else if (source == transfer_source()) {
    on_transfers();
  } else if (source == fleet_source()) {
    on_fleet_event();
  } else if (source == client_source()) {
    return on_clients();
  } else if (source == scaling_source()) {
    return on_scaling();
  } else {
    return on_sample();
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
  for (const Completion& completion : completions_) on_done(completion);
}

// A replica is done with a request: it is complete, or goes on to its decode.
void Simulation::on_done(const Completion& completion) {
  const RequestId id = completion.id;
  const std::uint32_t pool = pool_of(completion.replica);
  const bool goes_on = scenario_.disaggregation && needs_decode(id);
  if (goes_on) {
    ledger_.hand_over(id);
  } else {
    ledger_.complete(id, now_);
    if (is_scaled(pool)) pools_[pool].metrics->completed(id, now_);
    clients_.answered(now_, id, true);
    set_event(client_source(), clients_.next(now_));
  }
  pools_[pool].fleet.on_finished(now_, id, completion.replica, actions_);
  perform_actions(pool);
  switch_off_if_drained(completion.replica.value);
  if (goes_on) arrive(id, 1, true);
}

void Simulation::on_transfers() {
  while (const std::optional<KvTransfers::Arrived> arrived = transfers_.pop(now_)) {
    add_to_replica(arrived->id, arrived->to);
    perform_actions(pool_of(ReplicaId(arrived->to)));
  }
  set_event(transfer_source(), transfers_.next());
}

void Simulation::on_fleet_event() {
  Lifecycle::Changes changes;
  const std::size_t logged_before = log_.size();
  lifecycle_.advance(now_, changes, log_);
  set_event(fleet_source(), lifecycle_.next_event());

  std::vector<RequestId> held;
  for (const std::uint32_t i : changes.lost) {
    replicas_[i].settle(now_);
    pools_[pool_of(ReplicaId(i))].fleet.on_replica_lost(now_, ReplicaId(i), actions_);
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
    transfers_.cancel(id);
    ledger_.requeue(id);
    arrive(id, first_pool_of(id), true);  // a decode replica's KV cache is gone: from the prompt again
  }
  set_event(transfer_source(), transfers_.next());
  for (const std::uint32_t i : changes.ready) {
    const std::uint32_t pool = pool_of(ReplicaId(i));
    pools_[pool].fleet.on_replica_ready(now_, ReplicaId(i), ZoneId(scenario_.replicas[i].zone), actions_);
    perform_actions(pool);
  }
  if (scenario_.observer != nullptr)
    for (std::size_t i = logged_before; i < log_.size(); ++i) scenario_.observer->on_event(log_[i]);
}

// All that clients do at this instant. False: the caller gave up.
bool Simulation::on_clients() {
  const auto total = static_cast<std::uint64_t>(scenario_.trace->requests.size());
  const std::uint64_t progress_every = std::max<std::uint64_t>(total / 200, 1);
  bool go_on = true;
  while (const std::optional<Clients::Event> event = clients_.pop(now_)) {
    switch (event->kind) {
      case Clients::Event::Kind::kSend:
        ledger_.arrive(event->id, now_);
        clients_.sent(now_, event->id, 0);
        arrive(event->id, first_pool_of(event->id), false);
        if (progress_ && clients_.sent_first() % progress_every == 0)
          go_on = go_on && progress_(static_cast<double>(clients_.sent_first()) / static_cast<double>(total));
        break;
      case Clients::Event::Kind::kSendAgain:
        ledger_.arrive_again(event->id);
        clients_.sent(now_, event->id, event->attempt);
        arrive(event->id, first_pool_of(event->id), false);
        break;
      case Clients::Event::Kind::kFirstTokenDue:
      case Clients::Event::Kind::kAnswerDue:
        on_patience_ends(*event);
        break;
    }
  }
  set_event(client_source(), clients_.next(now_));
  return go_on;
}

void Simulation::on_patience_ends(const Clients::Event& event) {
  const RequestId id = event.id;
  const Ledger::Stage stage = ledger_.stage(id);
  const bool is_open = stage == Ledger::Stage::kInFleetQueue || stage == Ledger::Stage::kOnReplica;
  if (!is_open || ledger_.attempt(id) != event.attempt) return;
  if (event.kind == Clients::Event::Kind::kFirstTokenDue && ledger_.has_first_token(id)) return;
  if (stage == Ledger::Stage::kOnReplica) {
    const ReplicaId replica(ledger_.replica(id));
    if (!transfers_.cancel(id)) replicas_[replica.value].abort(now_, id);
    touch(replica.value);
    set_event(transfer_source(), transfers_.next());
    fail(id, Ledger::Stage::kTimedOut);
    pools_[pool_of(replica)].fleet.on_finished(now_, id, replica, actions_);
    perform_actions(pool_of(replica));
    switch_off_if_drained(replica.value);
    return;
  }
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
    if (!pools_[pool].fleet.on_cancelled(now_, id, actions_)) continue;
    fail(id, Ledger::Stage::kTimedOut);
    perform_actions(pool);
    return;
  }
  MUSTER_CHECK(false, "request {} waits in no queue", id.value);
}

bool Simulation::on_sample() {
  // All else of this instant is done: let the steps begin, also those that begin in the middle of a jump.
  for (std::uint32_t i = 0; i < replica_count(); ++i) {
    replicas_[i].settle(now_);
    touch(i);
  }
  start_touched();
  Sample sample{.at = now_,
                .arrivals = static_cast<std::uint32_t>(clients_.sent_first() - sampled_arrivals_),
                .queued = static_cast<std::uint32_t>(ledger_.not_started()),
                .ready_replicas = lifecycle_.serving(),
                .running = {},
                .kv_share = {}};
  for (const Replica& replica : replicas_) {
    const sched::SchedulerState state = replica.state();
    sample.running.push_back(static_cast<std::uint32_t>(state.running));
    sample.kv_share.push_back(static_cast<float>(state.kv_blocks_used) / static_cast<float>(state.kv_blocks_total));
  }
  sampled_arrivals_ = clients_.sent_first();
  sampler_.add(std::move(sample));
  // Whether anything is left to happen but samples.
  set_event(sample_source(), Instant::max());
  const bool more = events_.min_key() != policy::MinTree::kNone;  // a scaling rule sees for itself
  set_event(sample_source(), sampler_.next());
  return more;
}

// When a scaling rule looks next. They all look at the same instants: the soonest that one of them wants.
Instant Simulation::next_scaling() const {
  Instant next = Instant::max();
  for (const PoolState& pool : pools_)
    if (pool.rule != nullptr) next = std::min(next, pool.rule->wakeup().value_or(now_ + Duration(1s)));
  return next;
}

// Of the time since the last look, the share in which the pool's serving replicas had a step in flight.
std::optional<double> Simulation::busy_share(std::uint32_t pool) {
  Duration occupied(0);
  std::uint32_t serving = 0;
  for (std::uint32_t i = 0; i < replica_count(); ++i) {
    if (pool_of(ReplicaId(i)) != pool) continue;
    occupied += replicas_[i].occupied();
    serving += lifecycle_.state(i) == Lifecycle::State::kServing ? 1 : 0;
  }
  PoolState& state = pools_[pool];
  const Duration busy = occupied - std::exchange(state.occupied, occupied);
  const Duration elapsed = now_ - std::exchange(state.occupied_at, now_);
  if (serving == 0 || elapsed <= Duration(0)) return std::nullopt;
  return std::min(1.0, to_seconds(busy) / (to_seconds(elapsed) * serving));
}

// False: nothing can happen any more, whatever the rules decide.
bool Simulation::on_scaling() {
  for (const Ledger::Start& start : ledger_.take_starts()) {
    const std::uint32_t pool = pool_of(ReplicaId(start.replica));
    if (is_scaled(pool)) pools_[pool].metrics->started(start.id, start.at);
  }
  for (std::uint32_t i = 0; i < replica_count(); ++i) {
    replicas_[i].settle(now_);
    touch(i);
  }
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
    if (!is_scaled(pool)) continue;
    PoolState& state = pools_[pool];
    policy::PoolMetrics metrics = state.metrics->sample(now_, lifecycle_.counts(pool), scenario_.kind_of(pool).gpus);
    for (std::uint32_t i = 0; i < replica_count(); ++i)
      if (pool_of(ReplicaId(i)) == pool) metrics.running += static_cast<std::uint64_t>(replicas_[i].state().running);
    // The busy share is what NVML reports. muster's rule wants the share of the device in use, which nothing here
    // knows.
    if (!std::holds_alternative<policy::AutoscalerSettings>(*scenario_.scaling[pool]))
      metrics.gpu_utilisation = busy_share(pool);
    if (const std::optional<policy::ScaleDecision> decision = state.rule->on_metrics(now_, metrics))
      carry_out(pool, *decision);
  }
  set_event(fleet_source(), lifecycle_.next_event());
  set_event(scaling_source(), next_scaling());
  // A pool without replicas whose rule brings none back would be looked at forever.
  const bool waits_in_vain = ledger_.on_replicas() == 0 && lifecycle_.next_event() == Instant::max() &&
                             clients_.next(now_) == Instant::max() && lifecycle_.serving() == 0;
  in_vain_since_ = waits_in_vain ? std::min(in_vain_since_, now_) : Instant::max();
  return !waits_in_vain || now_ - in_vain_since_ < kInVainMax;
}

void Simulation::carry_out(std::uint32_t pool, const policy::ScaleDecision& decision) {
  std::vector<std::uint32_t> draining, resumed;
  const std::size_t logged_before = log_.size();
  log_.push_back({.at = now_,
                  .kind = decision.to > decision.from ? "scale_up" : "scale_down",
                  .text = fmt::format("{} to {} replicas: {}", decision.from, decision.to, decision.reason)});
  lifecycle_.scale(now_, pool, decision.to, draining, resumed);
  for (const std::uint32_t i : draining) pools_[pool].fleet.on_replica_draining(now_, ReplicaId(i));
  for (const std::uint32_t i : resumed)
    pools_[pool].fleet.on_replica_ready(now_, ReplicaId(i), ZoneId(scenario_.replicas[i].zone), actions_);
  perform_actions(pool);
  for (const std::uint32_t i : draining) switch_off_if_drained(i);
  if (scenario_.observer != nullptr)
    for (std::size_t i = logged_before; i < log_.size(); ++i) scenario_.observer->on_event(log_[i]);
}

void Simulation::switch_off_if_drained(std::uint32_t replica) {
  if (lifecycle_.state(replica) != Lifecycle::State::kDraining) return;
  if (pools_[pool_of(ReplicaId(replica))].fleet.assigned(ReplicaId(replica)) == 0)
    lifecycle_.drained(now_, replica, log_);
}

void Simulation::arrive(RequestId id, std::uint32_t pool, bool again) {
  if (is_scaled(pool)) pools_[pool].metrics->arrived(id);
  pools_[pool].fleet.on_arrival(now_, describe(id, pool), again, actions_);
  perform_actions(pool);
}

// It has no answer: its client tries again, or that was it.
void Simulation::fail(RequestId id, Ledger::Stage how) {
  ledger_.withdraw(id);
  if (!clients_.tries_again(now_, id, ledger_.attempt(id))) {
    ledger_.fail(id, now_, how);
    clients_.answered(now_, id, false);
  }
  set_event(client_source(), clients_.next(now_));
}

policy::RequestInfo Simulation::describe(RequestId id, std::uint32_t pool) const {
  const std::uint32_t request_class = ledger_.class_of(id);
  const workload::Request& request = ledger_.request(id);
  double output_tokens = ledger_.mean_output_tokens_seen(WorkEstimate::kOutputTokensPrior);
  std::int64_t prompt_tokens = request.input_tokens + ledger_.emitted(id);
  if (scenario_.disaggregation && pool == 0) output_tokens = 1;
  if (scenario_.disaggregation && pool == 1) prompt_tokens = 1;
  policy::RequestInfo info{.id = id,
                           .request_class = request_class,
                           .rank = scenario_.classes[request_class].rank,
                           .work = pools_[pool].work.of(prompt_tokens, output_tokens),
                           .zone = {}};
  if (!entry_zones_.empty()) info.zone = entry_zones_[id.value];
  if (scenario_.policy_of(pool).prefix_affinity)
    info.prefix_blocks = workload::content_blocks(*scenario_.trace, request);
  return info;
}

void Simulation::perform_actions(std::uint32_t pool) {
  // A replica that turns a request down makes room, so performing an action may add others.
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const policy::Action action = actions_[i];
    if (action.kind == policy::Action::Kind::kRefuse) {
      fail(action.request, Ledger::Stage::kRejected);
    } else {
      dispatch(action.request, pool, action.replica.value);
    }
  }
  actions_.clear();
}

void Simulation::dispatch(RequestId id, std::uint32_t pool, std::uint32_t replica) {
  const std::uint32_t from = ledger_.replica(id);
  ledger_.dispatch(id, replica);
  if (scenario_.disaggregation && pool == 1) {
    // The last token that the prefill emitted has no KV yet: the first decode step computes it.
    const std::int64_t kv_tokens = ledger_.request(id).input_tokens + ledger_.emitted(id) - 1;
    transfers_.start(now_, id, from, replica, *scenario_.disaggregation, kv_tokens);
    set_event(transfer_source(), transfers_.next());
  } else {
    add_to_replica(id, replica);
  }
}

void Simulation::add_to_replica(RequestId id, std::uint32_t replica) {
  const workload::Request& request = ledger_.request(id);
  const std::uint32_t pool = pool_of(ReplicaId(replica));
  // Tokens that another replica emitted come back as prompt: to be computed again, unless their KV came along.
  const std::int32_t emitted = ledger_.emitted(id);
  sched::NewSequence sequence{.id = id,
                              .prompt_tokens = request.input_tokens + emitted,
                              .max_tokens = request.output_tokens - emitted,
                              .priority = scenario_.classes[ledger_.class_of(id)].rank,
                              .content_blocks = workload::content_blocks(*scenario_.trace, request)};
  if (scenario_.disaggregation && pool == 0) sequence.max_tokens = 1;
  if (scenario_.disaggregation && pool == 1) sequence.kv_ready_tokens = sequence.prompt_tokens - 1;
  const bool accepted = replicas_[replica].add(now_, sequence);
  touch(replica);
  if (accepted) return;
  fail(id, Ledger::Stage::kRejected);
  pools_[pool].fleet.on_finished(now_, id, ReplicaId(replica), actions_);
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
  std::uint64_t queued = 0;
  for (const PoolState& pool : pools_) {
    pool.fleet.check();
    queued += pool.fleet.queued();
  }
  ledger_.check();
  MUSTER_CHECK(queued == ledger_.in_fleet_queue(), "the queues hold {} requests, the ledger says {}", queued,
               ledger_.in_fleet_queue());
  auto held = static_cast<std::int64_t>(transfers_.in_flight());
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
  for (const Replica& replica : replicas_) {
    outcome.steps += replica.steps();
    outcome.prefix_tokens_queried += replica.prefix().queried;
    outcome.prefix_tokens_hit += replica.prefix().hit;
    outcome.occupied_seconds += to_seconds(replica.occupied());
    outcome.stage_busy_seconds.resize(std::max(outcome.stage_busy_seconds.size(), replica.stage_busy().size()));
    for (std::size_t stage = 0; stage < replica.stage_busy().size(); ++stage)
      outcome.stage_busy_seconds[stage] += to_seconds(replica.stage_busy()[stage]);
  }
  outcome.events = event_count_;
  outcome.kv_transfers = transfers_.figures();
  if (outcome.completed > 0) {
    const Instant first = ledger_.arrival(RequestId(0));
    outcome.duration = ledger_.last_completion() - first;
    for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
      outcome.pool_gpu_seconds.push_back(lifecycle_.gpu_seconds(pool, first, ledger_.last_completion()));
      outcome.gpu_seconds += outcome.pool_gpu_seconds.back();
    }
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
