#include "muster/workload/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <unordered_set>

#include "quantile.h"
#include "rate_curve.h"

namespace muster::workload {
namespace {

LengthStatistics length_statistics(std::vector<std::int64_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  const std::span<const std::int64_t> sorted = lengths;
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return {.mean = sum / static_cast<double>(lengths.size()),
          .p10 = interpolated_quantile(sorted, 0.1),
          .p50 = interpolated_quantile(sorted, 0.5),
          .p90 = interpolated_quantile(sorted, 0.9),
          .p95 = interpolated_quantile(sorted, 0.95),
          .p99 = interpolated_quantile(sorted, 0.99),
          .max = static_cast<double>(lengths.back())};
}

double population_variance(const Moments& m) {
  return m.count() == 0 ? 0 : m.variance() * static_cast<double>(m.count() - 1) / static_cast<double>(m.count());
}

double interarrival_cv(const Trace& trace) {
  Moments gaps;
  for (std::size_t i = 1; i < trace.requests.size(); ++i)
    gaps.add(to_seconds(trace.requests[i].arrival - trace.requests[i - 1].arrival));
  return gaps.mean() > 0 ? std::sqrt(population_variance(gaps)) / gaps.mean() : 0;
}

double dispersion(const TraceStatistics& s) {
  Moments counts;
  for (std::size_t i = 0; i + 1 < s.rate_curve_rps.size(); ++i)  // the last window is rarely whole
    counts.add(s.rate_curve_rps[i] * s.rate_window_s);
  return counts.mean() > 0 ? population_variance(counts) / counts.mean() : 0;
}

void find_peak(const Trace& trace, Duration width, TraceStatistics& s) {
  s.peak_window_s = to_seconds(width);
  std::size_t most = 0;
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < trace.requests.size(); ++begin) {
    const Duration from = trace.requests[begin].arrival;
    while (end < trace.requests.size() && trace.requests[end].arrival - from < width) ++end;
    if (end - begin <= most) continue;
    most = end - begin;
    s.peak_begin_s = to_seconds(from);
  }
  s.peak_rate_rps = s.peak_window_s > 0 ? static_cast<double>(most) / s.peak_window_s : 0;
}

// 1-based ranks; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<std::int32_t>& values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i;
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    for (std::size_t k = i; k < j; ++k) rank[order[k]] = 0.5 * static_cast<double>(i + 1 + j);
    i = j;
  }
  return rank;
}

double rank_correlation(const Trace& trace) {
  constexpr std::size_t kSampleMax = 200'000;
  const std::size_t step = (trace.requests.size() + kSampleMax - 1) / kSampleMax;
  std::vector<std::int32_t> inputs, outputs;
  for (std::size_t i = 0; i < trace.requests.size(); i += step) {
    inputs.push_back(trace.requests[i].input_tokens);
    outputs.push_back(trace.requests[i].output_tokens);
  }
  const std::vector<double> x = ranks(inputs);
  const std::vector<double> y = ranks(outputs);
  const double middle = 0.5 * static_cast<double>(x.size() + 1);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

double prefix_reuse(const Trace& trace) {
  std::unordered_set<std::uint64_t> seen;  // asked only, never walked
  std::uint64_t blocks = 0, hits = 0;
  for (const Request& r : trace.requests) {
    const auto ids = std::span(trace.block_ids).subspan(r.first_block, r.block_count);
    const std::int64_t of_prompt =
        trace.block_tokens > 0 ? (std::int64_t{r.input_tokens} + trace.block_tokens - 1) / trace.block_tokens : 0;
    const bool has_answer = std::int64_t{r.block_count} > of_prompt && of_prompt > 0;
    const auto prompt = has_answer ? ids.first(static_cast<std::size_t>(of_prompt)) : ids;
    blocks += prompt.size();
    // A part-filled last block of a turn has the id of the full one, which only the next turn brings.
    const auto kept = has_answer ? content_blocks(trace, r) : ids;
    for (std::size_t i = 0; i < std::max(prompt.size(), kept.size()); ++i) {
      hits += i < prompt.size() && seen.contains(ids[i]) ? 1 : 0;
      if (i < kept.size()) seen.insert(ids[i]);
    }
  }
  return blocks > 0 ? static_cast<double>(hits) / static_cast<double>(blocks) : 0;
}

void count_sessions(const Trace& trace, TraceStatistics& s) {
  std::unordered_set<std::uint32_t> sessions;  // asked only, never walked
  std::uint64_t turns = 0;
  for (const Request& r : trace.requests) {
    if (r.session == kNoSession) continue;
    ++turns;
    sessions.insert(r.session);
  }
  s.sessions = sessions.size();
  s.turns_per_session = turns > 0 ? static_cast<double>(turns) / static_cast<double>(s.sessions) : 0;
}

}  // namespace

TraceStatistics statistics(const Trace& trace, Duration peak_window) {
  TraceStatistics s;
  s.requests = trace.requests.size();
  if (trace.requests.empty()) return s;
  s.span_s = to_seconds(trace.span());
  s.rate_rps = s.span_s > 0 ? static_cast<double>(s.requests) / s.span_s : 0;
  s.interarrival_cv = interarrival_cv(trace);
  s.rate_window_s = std::min(60.0, s.span_s / 10);
  s.rate_curve_rps = s.span_s > 0 ? measured_rates(trace, s.rate_window_s) : std::vector<double>();
  s.dispersion = dispersion(s);
  find_peak(trace, std::min(peak_window, trace.span() / 10), s);

  std::vector<std::int64_t> input, output, context;
  for (const Request& r : trace.requests) {
    input.push_back(r.input_tokens);
    output.push_back(r.output_tokens);
    context.push_back(std::int64_t{r.input_tokens} + r.output_tokens);
  }
  s.input = length_statistics(std::move(input));
  s.output = length_statistics(std::move(output));
  s.context = length_statistics(std::move(context));
  s.length_correlation = rank_correlation(trace);
  s.prefix_reuse = prefix_reuse(trace);
  count_sessions(trace, s);
  return s;
}

}  // namespace muster::workload
