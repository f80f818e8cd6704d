// The smallest fleet that meets its targets, found by trying sizes on several replications of the traffic.
//
// Knows nothing of fleets: a trial is (replicas, seed) -> score, where score is the largest measured / target over the
// p95 targets; at most 1 means that all are met. Common random numbers: the same seed is the same traffic at every
// size.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace muster::app {

struct Trial {
  int replicas = 0;
  int seed = 0;
};
// Scores of a batch of trials, in order; may work in parallel.
using Evaluate = std::function<std::vector<double>(const std::vector<Trial>&)>;

struct SearchSettings {
  int first_guess = 1;
  int replicas_max = 2000;
  int quick_seeds = 2;  // to bracket the answer
  int seeds = 8;        // to decide it
};

struct SizeEvidence {  // one size, all seeds that were tried on it
  std::vector<double> scores;
  int meeting() const;  // seeds with a score of at most 1
  double mean() const;
  double half_width_95() const;
  // A bound that one more replication stays under with 95 % probability: mean + t(0.95) * s * sqrt(1 + 1/n).
  double bound_for_next_95() const;
};

struct SearchResult {
  std::optional<int> replicas;  // smallest N whose mean score is at most 1; nullopt: no size up to the largest tried
  std::optional<int>
      replicas_at_95;  // smallest N >= replicas whose bound_for_next_95 is at most 1; nullopt: not up to replicas_max
  double best_score = 0;  // when nothing meets: the score that more replicas no longer improve
  int largest_tried = 0;
  std::map<int, SizeEvidence> sizes;  // fully tried ones (`seeds` seeds)
};

// `quick`: only the bracketing, for comparing alternatives; `replicas` is then decided on quick_seeds seeds.
SearchResult search(const Evaluate& evaluate, const SearchSettings& settings, bool quick = false);

}  // namespace muster::app
