#include "muster/core/intervals.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/statistics.h"

namespace muster {
namespace {

constexpr double kTail = 0.025;  // on each side of a 95 % interval

// The probabilities of a binomial around its mode; beyond `first` and the last they are below 1e-18 of the mode's.
struct BinomialBody {
  std::uint64_t first = 0;
  std::vector<double> probability;
};

BinomialBody binomial_body(std::uint64_t n, double q) {
  constexpr double kNegligible = 1e-18;
  const auto mode = std::min(n, static_cast<std::uint64_t>(static_cast<double>(n + 1) * q));
  const double odds = q / (1 - q);
  std::vector<double> below, above = {1};  // in units of the mode's
  for (std::uint64_t k = mode; k < n && above.back() > kNegligible; ++k)
    above.push_back(above.back() * static_cast<double>(n - k) / static_cast<double>(k + 1) * odds);
  double weight = 1;
  for (std::uint64_t k = mode; k > 0 && weight > kNegligible; --k) {
    weight *= static_cast<double>(k) / static_cast<double>(n - k + 1) / odds;
    below.push_back(weight);
  }
  BinomialBody body{.first = mode - below.size(), .probability = {below.rbegin(), below.rend()}};
  body.probability.insert(body.probability.end(), above.begin(), above.end());
  double sum = 0;
  for (const double p : body.probability) sum += p;
  for (double& p : body.probability) p /= sum;
  return body;
}

}  // namespace

std::optional<Interval> mean_confidence_95(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const MeanInterval m = mean_interval_95(values);
  return Interval{m.mean - m.half_width, m.mean + m.half_width};
}

std::optional<Interval> section_confidence_95(double whole, std::span<const double> sections) {
  if (sections.size() < 2) return std::nullopt;
  const auto k = static_cast<double>(sections.size());
  double squares = 0;
  for (const double s : sections) squares += (s - whole) * (s - whole);
  const double half = student_t_975(sections.size() - 1) * std::sqrt(squares / (k * (k - 1)));
  return Interval{whole - half, whole + half};
}

std::optional<RankInterval> quantile_ranks_95(std::uint64_t n, double q) {
  MUSTER_CHECK(q > 0 && q < 1, "a quantile with an interval lies in (0, 1), got {}", q);
  if (n == 0) return std::nullopt;
  const BinomialBody body = binomial_body(n, q);
  // low: the largest rank with P(B < low) <= 2.5 %; high: the smallest with P(B >= high) <= 2.5 %.
  std::uint64_t low = body.first, high = body.first + body.probability.size();
  double below = 0;
  for (const double p : body.probability) {
    if (below + p > kTail) break;
    below += p;
    ++low;
  }
  double above = 0;
  for (std::size_t i = body.probability.size(); i-- > 0;) {
    if (above + body.probability[i] > kTail) break;
    above += body.probability[i];
    --high;
  }
  if (low < 1 || high > n) return std::nullopt;
  return RankInterval{low, high};
}

std::optional<std::size_t> mser_5(std::span<const double> series) {
  constexpr std::size_t kBatch = 5, kShortest = 50;
  if (series.size() < kShortest) return std::nullopt;
  std::vector<double> batches(series.size() / kBatch);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (std::size_t j = 0; j < kBatch; ++j) batches[i] += series[i * kBatch + j];
    batches[i] /= kBatch;
  }
  // From the end, so that every cut is one step of Welford's sums. The last few batches alone say nothing.
  Moments rest;
  double best = 0;
  std::size_t cut = batches.size();
  for (std::size_t i = batches.size(); i-- > 0;) {
    rest.add(batches[i]);
    const auto n = static_cast<double>(rest.count());
    if (rest.count() < kBatch) continue;
    const double error = rest.variance() * (n - 1) / (n * n);
    if (cut == batches.size() || error <= best) {
      best = error;
      cut = i;
    }
  }
  if (cut > batches.size() / 2) return std::nullopt;
  return cut * kBatch;
}

}  // namespace muster
