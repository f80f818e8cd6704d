#include "within_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "muster/core/intervals.h"
#include "muster/core/time.h"
#include "muster/report/measures.h"

namespace muster::app {
namespace {

struct Figure {
  std::string_view name;
  double q;  // negative: the mean
};
constexpr std::array<Figure, 5> kFigures = {Figure{"mean", -1}, Figure{"p50", 0.5}, Figure{"p90", 0.9},
                                            Figure{"p95", 0.95}, Figure{"p99", 0.99}};

// Samples that a section needs beyond a quantile, or for a mean, so that its own estimate is nearly unbiased.
constexpr double kSamplesBeyond = 10, kSamplesForMean = 30;

std::uint64_t first_counted(const workload::Trace& trace, double warm_up_s) {
  const auto at = std::ranges::lower_bound(trace.requests, from_seconds(warm_up_s), {}, &workload::Request::arrival);
  return static_cast<std::uint64_t>(at - trace.requests.begin());
}

double value_of(const QuantileSketch& sketch, double q) {
  return q < 0 ? sketch.mean() : sketch.quantile(q);
}

std::string figure_name(std::size_t latency, const Figure& figure) {
  return fmt::format("{}.{}", kLatencies[latency], figure.name);
}

void set(report::Estimate& e, const std::optional<Interval>& interval, std::string_view by) {
  if (!interval) return;
  e.low = interval->low;
  e.high = interval->high;
  e.by = by;
}

}  // namespace

std::array<double, 4> latencies_of(const sim::RequestRecord& r) {
  const double decode_ms = to_ms(r.last_token - r.first_token);
  return {to_ms(r.first_scheduled - r.arrival), to_ms(r.first_token - r.arrival),
          r.output_tokens > 1 ? decode_ms / (r.output_tokens - 1) : -1, to_ms(r.last_token - r.arrival)};
}

WithinRun::WithinRun(const workload::Trace& trace, double warm_up_s)
    : first_(first_counted(trace, warm_up_s)), count_(trace.requests.size() - first_) {}

void WithinRun::on_answered(const sim::RequestRecord& r) {
  if (!r.completed() || r.id.value < first_ || count_ == 0) return;
  const std::size_t section = std::min<std::size_t>((r.id.value - first_) * kSections / count_, kSections - 1);
  const std::array<double, 4> values = latencies_of(r);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) continue;
    sections_[section][i].add(values[i]);
    whole_[i].add(values[i]);
  }
}

std::optional<std::vector<double>> WithinRun::section_values(std::size_t latency, double q) const {
  std::vector<double> values;
  for (const auto& section : sections_) {
    const auto n = static_cast<double>(section[latency].count());
    if (q < 0 ? n < kSamplesForMean : n * std::min(q, 1 - q) < kSamplesBeyond) return std::nullopt;
    values.push_back(value_of(section[latency], q));
  }
  return values;
}

std::vector<report::Estimate> WithinRun::estimates(const report::RunMetrics& run) const {
  std::vector<report::Estimate> list;
  for (std::size_t i = 0; i < kLatencies.size(); ++i)
    for (const Figure& figure : kFigures) {
      report::Estimate e{.name = figure_name(i, figure)};
      if (const report::Measure* m = report::find_measure(e.name)) e.value = m->value(run).value_or(0);
      if (const auto sections = section_values(i, figure.q)) {
        set(e, section_confidence_95(e.value, *sections), "sections");
      } else if (figure.q > 0) {
        const std::uint64_t n = whole_[i].count();
        const auto at_rank = [&](std::uint64_t rank) {
          return whole_[i].quantile((static_cast<double>(rank) - 0.5) / static_cast<double>(n));
        };
        if (const auto ranks = quantile_ranks_95(n, figure.q))
          set(e, Interval{at_rank(ranks->low), at_rank(ranks->high)}, "order statistics");
      }
      if (e.low) e.low = std::max(0.0, *e.low);  // no latency is negative
      list.push_back(std::move(e));
    }
  return list;
}

std::vector<report::Estimate> WithinRun::differences(const WithinRun& a, const report::RunMetrics& run_a,
                                                     const report::RunMetrics& run_b) const {
  std::vector<report::Estimate> list;
  for (std::size_t i = 0; i < kLatencies.size(); ++i)
    for (const Figure& figure : kFigures) {
      report::Estimate e{.name = figure_name(i, figure)};
      if (const report::Measure* m = report::find_measure(e.name))
        e.value = m->value(run_b).value_or(0) - m->value(run_a).value_or(0);
      const auto mine = section_values(i, figure.q), theirs = a.section_values(i, figure.q);
      if (mine && theirs) {
        std::vector<double> differences;
        for (std::size_t s = 0; s < kSections; ++s) differences.push_back((*mine)[s] - (*theirs)[s]);
        set(e, section_confidence_95(e.value, differences), "sections");
      }
      list.push_back(std::move(e));
    }
  return list;
}

PairedRuns::PairedRuns(const workload::Trace& trace, double warm_up_s) : first_(first_counted(trace, warm_up_s)) {
  for (Side* side : {&a_, &b_}) side->values.assign(trace.requests.size(), {-1, -1, -1, -1});
}

void PairedRuns::Side::on_answered(const sim::RequestRecord& r) {
  if (!r.completed()) return;
  const std::array<double, 4> latencies = latencies_of(r);
  for (std::size_t i = 0; i < latencies.size(); ++i) values[r.id.value][i] = static_cast<float>(latencies[i]);
}

std::vector<report::PairedRequests> PairedRuns::take() {
  std::vector<report::PairedRequests> list;
  for (std::size_t i = 0; i < kLatencies.size(); ++i) {
    std::vector<float> differences;
    std::array<Moments, kSections> sections;
    Moments whole;
    std::uint64_t lower = 0, higher = 0;
    const std::uint64_t n = a_.values.size();
    for (std::uint64_t r = first_; r < n; ++r) {
      const float a = a_.values[r][i], b = b_.values[r][i];
      if (a < 0 || b < 0) continue;
      const float d = b - a;
      differences.push_back(d);
      whole.add(static_cast<double>(d));
      sections[(r - first_) * kSections / (n - first_)].add(static_cast<double>(d));
      lower += d < 0;
      higher += d > 0;
    }
    if (differences.empty()) continue;
    const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
    std::nth_element(differences.begin(), middle, differences.end());
    const auto pairs = static_cast<double>(differences.size());
    report::PairedRequests p{.name = std::string(kLatencies[i]),
                             .pairs = differences.size(),
                             .mean = whole.mean(),
                             .median = static_cast<double>(*middle),
                             .b_lower = static_cast<double>(lower) / pairs,
                             .b_higher = static_cast<double>(higher) / pairs};
    std::vector<double> means;
    for (const Moments& section : sections)
      if (static_cast<double>(section.count()) >= kSamplesForMean) means.push_back(section.mean());
    if (means.size() == kSections)
      if (const auto interval = section_confidence_95(p.mean, means)) {
        p.low = interval->low;
        p.high = interval->high;
      }
    list.push_back(std::move(p));
  }
  return list;
}

}  // namespace muster::app
