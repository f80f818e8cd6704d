#include "muster/core/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/core/check.h"

namespace muster {
namespace {

constexpr double kMin = 1e-9;     // smaller values share the first bucket
constexpr double kGrowth = 1.01;  // a bucket's middle is within 0.5 % of everything in it
const double kLogGrowth = std::log(kGrowth);

std::size_t bucket_of(double x) {
  if (x <= kMin) return 0;
  return 1 + static_cast<std::size_t>(std::log(x / kMin) / kLogGrowth);
}

double bucket_value(std::size_t index) {
  if (index == 0) return 0;
  return kMin * std::exp((static_cast<double>(index) - 0.5) * kLogGrowth);
}

}  // namespace

void Moments::add(double x) {
  min_ = count_ == 0 ? x : std::min(min_, x);
  max_ = count_ == 0 ? x : std::max(max_, x);
  ++count_;
  const double delta = x - mean_;
  mean_ += delta / static_cast<double>(count_);
  m2_ += delta * (x - mean_);
}

void QuantileSketch::add(double x) {
  MUSTER_CHECK(std::isfinite(x) && x >= 0, "a sample must be finite and not negative, got {}", x);
  moments_.add(x);
  max_ = std::max(max_, x);
  if (!exact()) {
    add_to_bucket(x, 1);
    return;
  }
  sorted_ = sorted_ && (samples_.empty() || samples_.back() <= x);
  samples_.push_back(x);
  if (samples_.size() > kExactMax) spill();
}

void QuantileSketch::merge(const QuantileSketch& other) {
  merged_count_ += other.count();
  merged_sum_ += other.mean() * static_cast<double>(other.count());
  max_ = std::max(max_, other.max_);
  if (exact() && other.exact()) {
    samples_.insert(samples_.end(), other.samples_.begin(), other.samples_.end());
    sorted_ = false;
    if (samples_.size() > kExactMax) spill();
    return;
  }
  if (exact()) spill();
  for (const double x : other.samples_) add_to_bucket(x, 1);
  for (std::size_t i = 0; i < other.buckets_.size(); ++i)
    if (other.buckets_[i] > 0) {
      if (buckets_.size() <= i) buckets_.resize(i + 1);
      buckets_[i] += other.buckets_[i];
    }
}

double QuantileSketch::mean() const {
  if (count() == 0) return 0;
  return (moments_.mean() * static_cast<double>(moments_.count()) + merged_sum_) / static_cast<double>(count());
}

double QuantileSketch::quantile(double q) const {
  MUSTER_CHECK(q >= 0 && q <= 1, "a quantile lies in [0, 1], got {}", q);
  const std::uint64_t n = count();
  if (n == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(std::max(1.0, std::ceil(q * static_cast<double>(n))));
  if (exact()) {
    if (!sorted_) {
      std::sort(samples_.begin(), samples_.end());
      sorted_ = true;
    }
    return samples_[rank - 1];
  }
  if (rank == n) return max_;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(bucket_value(i), max_);
  }
  return max_;
}

void QuantileSketch::spill() {
  buckets_.resize(1);
  for (const double x : samples_) add_to_bucket(x, 1);
  samples_.clear();
  samples_.shrink_to_fit();
}

void QuantileSketch::add_to_bucket(double x, std::uint64_t n) {
  const std::size_t index = bucket_of(x);
  if (buckets_.size() <= index) buckets_.resize(index + 1);
  buckets_[index] += n;
}

double student_t_975(std::size_t degrees_of_freedom) {
  // Standard table; beyond it the normal value with the first Cornish-Fisher term (error under 0.1 %).
  constexpr std::array<double, 30> kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                             2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                             2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  MUSTER_CHECK(degrees_of_freedom >= 1, "Student's t needs at least one degree of freedom");
  if (degrees_of_freedom <= kTable.size()) return kTable[degrees_of_freedom - 1];
  const double z = 1.959964;
  return z + (z * z * z + z) / (4 * static_cast<double>(degrees_of_freedom));
}

MeanInterval mean_interval_95(std::span<const double> values) {
  Moments moments;
  for (const double v : values) moments.add(v);
  if (values.size() < 2) return {moments.mean(), 0};
  const double error = std::sqrt(moments.variance() / static_cast<double>(values.size()));
  return {moments.mean(), student_t_975(values.size() - 1) * error};
}

}  // namespace muster
