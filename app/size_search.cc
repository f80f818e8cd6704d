#include "size_search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/core/check.h"
#include "muster/core/statistics.h"

namespace muster::app {
namespace {

// One-sided 95 % point of Student's t with n - 1 degrees of freedom, n = 2 .. 16 (standard table).
double student_t_95(std::size_t n) {
  constexpr std::array<double, 15> kTable = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860,
                                             1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753};
  return kTable[std::min(n - 2, kTable.size() - 1)];
}

double deviation(const std::vector<double>& values) {
  Moments moments;
  for (const double v : values) moments.add(v);
  return std::sqrt(moments.variance());
}

class Search {
 public:
  Search(const Evaluate& evaluate, const SearchSettings& settings) : evaluate_(evaluate), settings_(settings) {}

  const SizeEvidence& sizes(int replicas, int seeds) {
    SizeEvidence& evidence = tried_[replicas];
    std::vector<Trial> missing;
    for (int seed = static_cast<int>(evidence.scores.size()); seed < seeds; ++seed) missing.push_back({replicas, seed});
    if (!missing.empty()) {
      const std::vector<double> scores = evaluate_(missing);
      MUSTER_CHECK(scores.size() == missing.size(), "{} scores for {} trials", scores.size(), missing.size());
      evidence.scores.insert(evidence.scores.end(), scores.begin(), scores.end());
    }
    return evidence;
  }

  bool enough(int replicas, int seeds) { return sizes(replicas, seeds).mean() <= 1; }

  // The smallest size that is enough on the quick seeds; nullopt when growing does not help any more.
  std::optional<int> bracket(SearchResult& result) {
    int high = std::clamp(settings_.first_guess, 1, settings_.replicas_max);
    int low = 0;  // known to be too small; 0 always is
    double last_score = HUGE_VAL;
    while (!enough(high, settings_.quick_seeds)) {
      const double score = tried_[high].mean();
      result.best_score = score;
      result.largest_tried = high;
      const bool no_gain = score > 0.99 * last_score && std::isfinite(last_score);
      if (high >= settings_.replicas_max || (no_gain && high > 4 * settings_.first_guess)) return std::nullopt;
      last_score = score;
      low = high;
      high = std::min(settings_.replicas_max, high * 2);
    }
    while (high - low > 1) {
      // The first step down is long, as the guess may be far too high.
      const int middle = low == 0 ? high / 2 : low + (high - low) / 2;
      (enough(middle, settings_.quick_seeds) ? high : low) = middle;
    }
    return high;
  }

  SearchResult run(bool quick) {
    SearchResult result;
    std::optional<int> n = bracket(result);
    if (n && !quick) n = decide(*n, result);
    result.replicas = n;
    for (const auto& [replicas, evidence] : tried_)
      if (static_cast<int>(evidence.scores.size()) >= settings_.seeds) result.sizes[replicas] = evidence;
    return result;
  }

 private:
  std::optional<int> decide(int n, SearchResult& result) {
    while (!enough(n, settings_.seeds)) {
      if (n >= settings_.replicas_max) return std::nullopt;
      ++n;
    }
    while (n > 1 && enough(n - 1, settings_.seeds)) --n;
    for (int sure = n; sure <= std::min(settings_.replicas_max, n + std::max(8, n / 2)); ++sure)
      if (sizes(sure, settings_.seeds).bound_for_next_95() <= 1) {
        result.replicas_at_95 = sure;
        break;
      }
    return n;
  }

  const Evaluate& evaluate_;
  const SearchSettings& settings_;
  std::map<int, SizeEvidence> tried_;
};

}  // namespace

int SizeEvidence::meeting() const {
  return static_cast<int>(std::ranges::count_if(scores, [](double s) { return s <= 1; }));
}

double SizeEvidence::mean() const {
  return mean_interval_95(scores).mean;
}

double SizeEvidence::half_width_95() const {
  return mean_interval_95(scores).half_width;
}

double SizeEvidence::bound_for_next_95() const {
  const std::size_t n = scores.size();
  if (n < 2) return HUGE_VAL;
  return mean() + student_t_95(n) * deviation(scores) * std::sqrt(1 + 1 / static_cast<double>(n));
}

SearchResult search(const Evaluate& evaluate, const SearchSettings& settings, bool quick) {
  MUSTER_CHECK(settings.quick_seeds >= 1 && settings.seeds >= settings.quick_seeds, "seeds {} quick {}", settings.seeds,
               settings.quick_seeds);
  return Search(evaluate, settings).run(quick);
}

}  // namespace muster::app
