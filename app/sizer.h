// `muster size`: from a size file to the smallest fleet that keeps its targets, with the evidence.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deployment_options.h"
#include "fleet_simulation.h"
#include "muster/report/results.h"
#include "size_file.h"
#include "size_search.h"
#include "size_traffic.h"

namespace muster::app {

struct SizerSettings {
  std::uint64_t seed = 1;
  int seeds = 8;  // replications that decide the size
  int threads = 1;
  std::function<void(std::string_view)> progress = [](std::string_view) {};  // what is being done now
  std::function<double()> clock = [] { return 0.0; };                        // seconds, for the phases' wall time
};

struct SizeAnswer {
  report::Size report;  // without fleet_file
  FleetFile fleet;      // what to write there
};

// Fails with kNo when no layout fits or no fleet meets the targets: names what is infeasible and the nearest feasible
// target. Fails with kInput when the file names something unknown.
Result<SizeAnswer> size_fleet(const SizeFile& file, const Catalogues& catalogues, const SizerSettings& settings);

struct TrialMeasures {
  std::vector<report::Slo> slos;  // in the order of slo_rows
  double attainment = 0;          // share of the requests within every target
};
using TrialRecord = std::map<std::pair<int, int>, TrialMeasures>;  // by (replicas, seed)

// One layout under the sizing traffic: its trials and what they cost. Keeps the replications shared by all layouts.
class LayoutTrials {
 public:
  LayoutTrials(std::unique_ptr<PreparedPool> pool, const std::vector<workload::Trace>& replications,
               const SizeFile& file, const SizingTraffic& traffic, int threads);

  const PreparedPool& pool() const { return *pool_; }
  sim::Scenario scenario(int replicas, int standby_per_zone, int seed, double sample_interval_s) const;
  sim::Outcome run(int replicas, int standby_per_zone, int seed, bool lose_first_zone) const;
  // The largest measured / target over the p95 targets `slo`; 1000 when a request never finished.
  double score(const SloTargets& slo, const sim::Outcome& outcome) const;
  // `record`, when given, receives what each trial measured and must outlive the evaluator.
  Evaluate evaluator(const SloTargets& slo, TrialRecord* record = nullptr) const;

 private:
  std::unique_ptr<PreparedPool> pool_;
  const std::vector<workload::Trace>* replications_;
  const SizeFile* file_;
  double warm_up_s_;
  int threads_;
};

// Replicas with headroom: at least (headroom - 5 points) above `needed`, so that 0.35 gives 30 to 40 % where whole
// replicas allow it.
int with_headroom(int needed, double headroom);

// Words (size_words.cc).
std::string binding_of(const SizeFile& file, const LayoutTrials& trials, const report::Candidate& layout, int needed,
                       const sim::Outcome& too_small, bool zone_forced);
std::string paragraph(const report::Size& size, const SizeFile& file);
std::string infeasible_message(const SizeFile& file, const LayoutTrials& trials, int replicas);

}  // namespace muster::app
