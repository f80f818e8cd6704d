// How sure one run, or a few replications, make us of a figure: 95 % confidence intervals, and where a run's warm-up
// ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace muster {

struct Interval {
  double low = 0, high = 0;
  bool excludes(double x) const { return x < low || x > high; }
};

// The 95 % interval of the mean of independent values (Student's t); of paired differences, give the differences.
// nullopt for fewer than two.
std::optional<Interval> mean_confidence_95(std::span<const double> values);

// Sectioning: `whole` is a figure of a run of which `sections` are the same figure over its 2 or more consecutive
// parts. The half-width is t(k-1) * sqrt(sum (section - whole)^2 / (k (k-1))): centred on the whole, whose bias is
// smaller than the sections'. Assumes that sections are long enough to be nearly independent, so it holds for
// autocorrelated series such as waiting times. Source: Asmussen and Glynn, Stochastic Simulation (2007), III.5;
// Nakayama, ACM TOMACS 24(4), 2014.
std::optional<Interval> section_confidence_95(double whole, std::span<const double> sections);

// The order statistics x_(low) <= x_(high), 1-based, that enclose the q-quantile of n independent samples with at least
// 95 % probability, whatever their distribution: P(low <= B < high) for B ~ Binomial(n, q). nullopt when n is too small
// for an interval with two ends. Source: David and Nagaraja, Order Statistics (2003), 7.1.
struct RankInterval {
  std::uint64_t low = 0, high = 0;
};
std::optional<RankInterval> quantile_ranks_95(std::uint64_t n, double q);

// MSER-5: the number of leading values of a series to leave out, a multiple of 5, so that the standard error of the
// mean of the rest is smallest. A cut beyond the middle means that the series is too short to tell (White, Cobb and
// Spratt 2000): nullopt then, and under 50 values. Source: White, Simulation 69(6), 1997.
std::optional<std::size_t> mser_5(std::span<const double> series);

}  // namespace muster
