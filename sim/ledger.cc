#include "ledger.h"

namespace muster::sim {

Ledger::Ledger(const Scenario& scenario)
    : scenario_(scenario), entries_(scenario.trace->requests.size()), classes_(scenario.classes.size()) {
  if (scenario.closed_loop_users > 0) own_arrivals_.assign(entries_.size(), kNever);
}

std::uint32_t Ledger::class_of(RequestId id) const {
  return scenario_.class_of_tenant.empty() ? 0 : scenario_.class_of_tenant[request(id).tenant];
}

void Ledger::arrive(RequestId id) {
  entries_[id.value].stage = Stage::kInFleetQueue;
  ++arrived_;
  ++in_fleet_queue_;
  ++not_started_;
  if (counts(id)) ++classes_[class_of(id)].requests;
}

void Ledger::reject(RequestId id) {
  Entry& e = entries_[id.value];
  --(e.stage == Stage::kOnReplica ? on_replicas_ : in_fleet_queue_);
  if (e.first_scheduled == kNever) --not_started_;
  e.stage = Stage::kRejected;
  ++rejected_;
  if (counts(id)) ++classes_[class_of(id)].rejected;
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

void Ledger::complete(RequestId id, Instant now) {
  Entry& e = entries_[id.value];
  const workload::Request& r = request(id);
  MUSTER_CHECK(e.emitted == r.output_tokens, "request {} ended with {} of {} tokens", id.value, e.emitted,
               r.output_tokens);
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
  std::vector<RequestId> ids;  // losses are rare: a pass over all that arrived will do
  for (std::uint32_t i = 0; i < arrived_; ++i)
    if (entries_[i].stage == Stage::kOnReplica && entries_[i].replica == replica) ids.emplace_back(i);
  return ids;
}

double Ledger::mean_output_tokens_seen(double prior) const {
  return (prior + static_cast<double>(output_tokens_)) / static_cast<double>(1 + completed_);
}

void Ledger::check() const {
  MUSTER_CHECK(arrived_ == answered() + in_fleet_queue_ + on_replicas_,
               "{} requests arrived, but {} are answered, {} wait and {} are on replicas", arrived_, answered(),
               in_fleet_queue_, on_replicas_);
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
          .replica = e.replica,
          .request_class = static_cast<std::uint16_t>(class_of(id)),
          .tenant = r.tenant,
          .preemptions = e.preemptions,
          .end = e.stage == Stage::kCompleted  ? RequestRecord::End::kCompleted
                 : e.stage == Stage::kRejected ? RequestRecord::End::kRejected
                                               : RequestRecord::End::kNone};
}

void Ledger::close(Outcome& outcome) const {
  outcome.requests = arrived_;
  outcome.completed = completed_;
  outcome.rejected = rejected_;
  outcome.preempted = preemptions_;
  outcome.input_tokens = input_tokens_;
  outcome.output_tokens = output_tokens_;
  outcome.classes = classes_;
  for (const ClassOutcome& c : classes_) {
    ClassOutcome& all = outcome.all;
    all.requests += c.requests;
    all.completed += c.completed;
    all.rejected += c.rejected;
    all.attained += c.attained;
    all.output_tokens += c.output_tokens;
    all.queue_wait_ms.merge(c.queue_wait_ms);
    all.ttft_ms.merge(c.ttft_ms);
    all.tpot_ms.merge(c.tpot_ms);
    all.e2e_ms.merge(c.e2e_ms);
  }
  if (!scenario_.keep_requests) return;
  outcome.requests_log.reserve(arrived_);
  for (std::uint32_t i = 0; i < arrived_; ++i) outcome.requests_log.push_back(record(RequestId(i)));
}

void Ledger::add_to(Digest& digest) const {
  for (std::uint32_t i = 0; i < arrived_; ++i) {
    const Entry& e = entries_[i];
    digest.add(arrival(RequestId(i)).time_since_epoch().count());
    digest.add(e.first_scheduled.time_since_epoch().count());
    digest.add(e.first_token.time_since_epoch().count());
    digest.add(e.last_token.time_since_epoch().count());
    digest.add(std::uint64_t{e.replica} << 32 | std::uint64_t{e.preemptions} << 8 |
               static_cast<std::uint64_t>(e.stage));
  }
}

}  // namespace muster::sim
