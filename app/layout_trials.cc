#include <algorithm>

#include "parallel.h"
#include "sizer.h"

namespace muster::app {

LayoutTrials::LayoutTrials(std::unique_ptr<PreparedPool> pool, const std::vector<workload::Trace>& replications,
                           const SizeFile& file, const SizingTraffic& traffic, int threads)
    : pool_(std::move(pool)),
      replications_(&replications),
      file_(&file),
      warm_up_s_(traffic.warm_up_s),
      threads_(threads) {}

sim::Scenario LayoutTrials::scenario(int replicas, int standby_per_zone, int seed, double sample_interval_s) const {
  sim::Scenario s = app::scenario(*pool_, replicas, standby_per_zone);
  s.trace = &(*replications_)[static_cast<std::size_t>(seed)];
  s.seed = static_cast<std::uint64_t>(seed) + 1;
  s.policy.seed = s.seed;
  s.policy.routing = policy::parse_routing(file_->routing_policy).value_or(policy::Routing::kLeastWork);
  s.classes[0].name = "interactive";
  s.classes[0].slo = request_slo(file_->slo);
  s.warm_up = from_seconds(warm_up_s_);
  s.sample_interval = from_seconds(sample_interval_s);
  return s;
}

sim::Outcome LayoutTrials::run(int replicas, int standby_per_zone, int seed, bool lose_first_zone) const {
  sim::Scenario s = scenario(replicas, standby_per_zone, seed, 0);
  // The zone goes when the counted part begins, so that every counted request lives with the loss.
  if (lose_first_zone)
    s.faults.push_back({.kind = sim::Fault::Kind::kZoneLoss, .at = Instant(from_seconds(warm_up_s_)), .target = 0});
  return sim::run(s);
}

double LayoutTrials::score(const SloTargets& slo, const sim::Outcome& outcome) const {
  constexpr double kNeverFinished = 1000;
  if (outcome.all.completed < outcome.all.requests) return kNeverFinished;
  double worst = 0;
  for (const report::Slo& row : slo_rows(slo, outcome.all)) worst = std::max(worst, *row.measured_ms / row.target_ms);
  return worst;
}

Evaluate LayoutTrials::evaluator(const SloTargets& slo, TrialRecord* record) const {
  return [this, slo, record](const std::vector<Trial>& trials) {
    std::vector<double> scores(trials.size());
    std::vector<TrialMeasures> measures(trials.size());
    parallel_for(trials.size(), threads_, [&](std::size_t i) {
      const sim::Outcome outcome = run(trials[i].replicas, 0, trials[i].seed, false);
      scores[i] = score(slo, outcome);
      const auto requests = static_cast<double>(std::max<std::uint64_t>(1, outcome.all.requests));
      measures[i] = {.slos = slo_rows(slo, outcome.all),
                     .attainment = static_cast<double>(outcome.all.attained) / requests};
    });
    if (record != nullptr)
      for (std::size_t i = 0; i < trials.size(); ++i)
        (*record)[{trials[i].replicas, trials[i].seed}] = std::move(measures[i]);
    return scores;
  };
}

}  // namespace muster::app
