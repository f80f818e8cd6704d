// Samples, their quantiles, and how sure we may be of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Mean and variance in one pass (Welford).
class Moments {
 public:
  void add(double x);
  std::uint64_t count() const { return count_; }
  double mean() const { return mean_; }
  double variance() const { return count_ > 1 ? m2_ / static_cast<double>(count_ - 1) : 0; }  // unbiased
  double max() const { return max_; }                                                         // 0 when empty
  double min() const { return min_; }                                                         // 0 when empty

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0;
  double m2_ = 0;
  double min_ = 0;
  double max_ = 0;
};

// Quantiles of non-negative values in bounded memory: exact up to kExactMax samples, then logarithmic buckets with a
// relative error of at most 0.5 %. Mergeable; the result does not depend on the order of adding or merging while exact.
// quantile(q) is the smallest sample x with at least q of the samples <= x (nearest rank).
class QuantileSketch {
 public:
  static constexpr std::size_t kExactMax = 65536;

  void add(double x);  // requires x >= 0 and finite
  void merge(const QuantileSketch& other);
  std::uint64_t count() const { return moments_.count() + merged_count_; }
  double mean() const;
  double max() const { return max_; }
  double quantile(double q) const;  // 0 when empty; requires 0 <= q <= 1
  bool exact() const { return buckets_.empty(); }

 private:
  void spill();
  void add_to_bucket(double x, std::uint64_t n);

  Moments moments_;                 // of the values given to add()
  std::uint64_t merged_count_ = 0;  // values that came by merge()
  double merged_sum_ = 0;
  double max_ = 0;
  mutable std::vector<double> samples_;  // while exact; sorted on demand
  mutable bool sorted_ = true;
  std::vector<std::uint64_t> buckets_;  // empty while exact; bucket i holds [kMin * g^(i-1), kMin * g^i)
};

// The mean of a few independent replications with its 95 % confidence half-width (Student's t; 0 for fewer than two).
struct MeanInterval {
  double mean = 0;
  double half_width = 0;
};
MeanInterval mean_interval_95(std::span<const double> values);

double student_t_975(std::size_t degrees_of_freedom);  // two-sided 95 % point; requires degrees_of_freedom >= 1

}  // namespace muster
