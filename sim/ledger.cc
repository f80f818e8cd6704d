#include "ledger.h"

#include <algorithm>

namespace muster::sim {

void ClassOutcome::add(const ClassOutcome& other) {
  requests += other.requests;
  completed += other.completed;
  rejected += other.rejected;
  timed_out += other.timed_out;
  attained += other.attained;
  output_tokens += other.output_tokens;
  queue_wait_ms.merge(other.queue_wait_ms);
  ttft_ms.merge(other.ttft_ms);
  tpot_ms.merge(other.tpot_ms);
  e2e_ms.merge(other.e2e_ms);
}

Ledger::Ledger(const Scenario& scenario, bool own_arrivals)
    : scenario_(scenario), entries_(scenario.trace->requests.size()), classes_(scenario.classes.size()) {
  if (own_arrivals) own_arrivals_.assign(entries_.size(), kNever);
}

std::uint32_t Ledger::class_of(RequestId id) const {
  return scenario_.class_of_tenant.empty() ? 0 : scenario_.class_of_tenant[request(id).tenant];
}

void Ledger::arrive(RequestId id, Instant now) {
  if (!own_arrivals_.empty()) own_arrivals_[id.value] = now;
  account_presence(now);
  ++in_system_;
  entries_[id.value].stage = Stage::kInFleetQueue;
  ++arrived_;
  ++in_fleet_queue_;
  ++not_started_;
  if (counts(id)) ++classes_[class_of(id)].requests;
}

void Ledger::withdraw(RequestId id) {
  Entry& e = entries_[id.value];
  --(e.stage == Stage::kOnReplica ? on_replicas_ : in_fleet_queue_);
  if (e.first_scheduled == kNever) --not_started_;
  e.stage = Stage::kAway;
  ++away_;
  wasted_output_tokens_ += static_cast<std::uint64_t>(e.emitted);
}

void Ledger::arrive_again(RequestId id) {
  Entry& e = entries_[id.value];
  e = {.preemptions = e.preemptions, .attempt = static_cast<std::uint8_t>(std::min(e.attempt + 1, 255))};
  e.stage = Stage::kInFleetQueue;
  --away_;
  ++retries_;
  ++in_fleet_queue_;
  ++not_started_;
}

void Ledger::fail(RequestId id, Instant now, Stage rejected_or_timed_out) {
  leave_system(id, now);
  entries_[id.value].stage = rejected_or_timed_out;
  --away_;
  const bool rejected = rejected_or_timed_out == Stage::kRejected;
  ++(rejected ? rejected_ : timed_out_);
  if (counts(id)) ++(rejected ? classes_[class_of(id)].rejected : classes_[class_of(id)].timed_out);
  if (scenario_.observer != nullptr) scenario_.observer->on_answered(record(id));
}

void Ledger::dispatch(RequestId id, std::uint32_t replica) {
  Entry& e = entries_[id.value];
  e.stage = Stage::kOnReplica;
  e.replica = replica;
  --in_fleet_queue_;
  ++on_replicas_;
}

void Ledger::requeue(RequestId id) {
  Entry& e = entries_[id.value];
  e.stage = Stage::kInFleetQueue;
  --on_replicas_;
  ++in_fleet_queue_;
  if (e.first_scheduled != kNever) preempted(id);
}

void Ledger::hand_over(RequestId id) {
  entries_[id.value].stage = Stage::kInFleetQueue;
  --on_replicas_;
  ++in_fleet_queue_;
}

void Ledger::complete(RequestId id, Instant now) {
  Entry& e = entries_[id.value];
  const workload::Request& r = request(id);
  MUSTER_CHECK(e.emitted == r.output_tokens, "request {} ended with {} of {} tokens", id.value, e.emitted,
               r.output_tokens);
  leave_system(id, now);
  e.last_token = now;
  e.stage = Stage::kCompleted;
  --on_replicas_;
  ++completed_;
  last_completion_ = now;
  input_tokens_ += static_cast<std::uint64_t>(r.input_tokens);
  output_tokens_ += static_cast<std::uint64_t>(r.output_tokens);
  if (scenario_.observer != nullptr) scenario_.observer->on_answered(record(id));
  if (!counts(id)) return;

  ClassOutcome& c = classes_[class_of(id)];
  const RequestSlo& slo = scenario_.classes[class_of(id)].slo;
  const Duration wait = e.first_scheduled - arrival(id);
  const Duration ttft = e.first_token - arrival(id);
  const Duration e2e = now - arrival(id);
  const Duration decoding = now - e.first_token;
  const std::int64_t gaps = r.output_tokens - 1;
  ++c.completed;
  c.output_tokens += static_cast<std::uint64_t>(r.output_tokens);
  c.queue_wait_ms.add(to_ms(wait));
  c.ttft_ms.add(to_ms(ttft));
  c.e2e_ms.add(to_ms(e2e));
  if (gaps > 0) c.tpot_ms.add(to_ms(decoding) / static_cast<double>(gaps));
  const bool meets_all = (!slo.queue_wait || wait <= *slo.queue_wait) && (!slo.ttft || ttft <= *slo.ttft) &&
                         (!slo.e2e || e2e <= *slo.e2e) && (!slo.tpot || decoding <= *slo.tpot * gaps);
  if (meets_all) ++c.attained;
}

std::vector<RequestId> Ledger::held_by(std::uint32_t replica) const {
  std::vector<RequestId> ids;  // losses are rare: a pass over all will do
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].stage == Stage::kOnReplica && entries_[i].replica == replica) ids.emplace_back(i);
  return ids;
}

double Ledger::mean_output_tokens_seen(double prior) const {
  return (prior + static_cast<double>(output_tokens_)) / static_cast<double>(1 + completed_);
}

void Ledger::account_presence(Instant now) {
  presence_ns_ += in_system_ * static_cast<std::uint64_t>((now - presence_until_).count());
  presence_until_ = now;
}

void Ledger::leave_system(RequestId id, Instant now) {
  account_presence(now);
  --in_system_;
  stays_ns_ += static_cast<std::uint64_t>((now - arrival(id)).count());
}

void Ledger::check_littles_law() const {
  std::uint64_t stays_ns = stays_ns_;
  for (std::uint32_t i = 0; i < entries_.size() && in_system_ > 0; ++i) {
    const Stage stage = entries_[i].stage;
    if (stage == Stage::kInFleetQueue || stage == Stage::kOnReplica || stage == Stage::kAway)
      stays_ns += static_cast<std::uint64_t>((presence_until_ - arrival(RequestId(i))).count());
  }
  MUSTER_CHECK(presence_ns_ == stays_ns, "Little's law: {} ns of presence, {} ns of stays", presence_ns_, stays_ns);
}

void Ledger::check() const {
  MUSTER_CHECK(arrived_ == answered() + in_fleet_queue_ + on_replicas_ + away_,
               "{} requests arrived, but {} are answered, {} wait, {} are on replicas and {} are to come again",
               arrived_, answered(), in_fleet_queue_, on_replicas_, away_);
}

RequestRecord::End Ledger::end_of(Stage stage) {
  switch (stage) {
    case Stage::kCompleted:
      return RequestRecord::End::kCompleted;
    case Stage::kRejected:
      return RequestRecord::End::kRejected;
    case Stage::kTimedOut:
      return RequestRecord::End::kTimedOut;
    default:
      return RequestRecord::End::kNone;
  }
}

RequestRecord Ledger::record(RequestId id) const {
  const Entry& e = entries_[id.value];
  const workload::Request& r = request(id);
  return {.id = id,
          .arrival = arrival(id),
          .first_scheduled = e.first_scheduled,
          .first_token = e.first_token,
          .last_token = e.last_token,
          .input_tokens = r.input_tokens,
          .output_tokens = r.output_tokens,
          .cached_tokens = e.cached_tokens,
          .replica = e.replica,
          .request_class = static_cast<std::uint16_t>(class_of(id)),
          .tenant = r.tenant,
          .preemptions = e.preemptions,
          .attempts = static_cast<std::uint16_t>(e.attempt + 1),
          .end = end_of(e.stage)};
}

void Ledger::close(Outcome& outcome) const {
  check_littles_law();
  outcome.requests = arrived_;
  outcome.completed = completed_;
  outcome.rejected = rejected_;
  outcome.timed_out = timed_out_;
  outcome.retries = retries_;
  outcome.wasted_output_tokens = wasted_output_tokens_;
  outcome.preempted = preemptions_;
  outcome.input_tokens = input_tokens_;
  outcome.output_tokens = output_tokens_;
  outcome.classes = classes_;
  for (const ClassOutcome& c : classes_) outcome.all.add(c);
  if (!scenario_.keep_requests) return;
  outcome.requests_log.reserve(arrived_);
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].stage != Stage::kToCome) outcome.requests_log.push_back(record(RequestId(i)));
}

void Ledger::add_to(Digest& digest) const {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    if (e.stage == Stage::kToCome) continue;
    digest.add(arrival(RequestId(i)).time_since_epoch().count());
    digest.add(e.first_scheduled.time_since_epoch().count());
    digest.add(e.first_token.time_since_epoch().count());
    digest.add(e.last_token.time_since_epoch().count());
    digest.add(std::uint64_t{e.replica} << 32 | std::uint64_t{e.attempt} << 24 | std::uint64_t{e.preemptions} << 8 |
               static_cast<std::uint64_t>(e.stage));
  }
}

}  // namespace muster::sim
