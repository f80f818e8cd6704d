#include "size_traffic.h"

#include <algorithm>
#include <cmath>

#include "muster/core/text.h"
#include "muster/workload/read.h"
#include "muster/workload/statistics.h"

namespace muster::app {
namespace {

report::Lengths lengths(const workload::LengthStatistics& s) {
  return {.mean = s.mean, .p50 = s.p50, .p90 = s.p90, .p95 = s.p95, .p99 = s.p99, .max = s.max};
}

// The largest mean of the rate curve over `width_s`, requests/s.
double busiest(const workload::Profile& profile, double width_s) {
  const std::size_t windows = std::clamp<std::size_t>(
      static_cast<std::size_t>(std::lround(width_s / profile.rate_window_s)), 1, profile.rate_curve_rps.size());
  double best = 0;
  for (std::size_t i = 0; i + windows <= profile.rate_curve_rps.size(); ++i) {
    double sum = 0;
    for (std::size_t j = i; j < i + windows; ++j) sum += profile.rate_curve_rps[j];
    best = std::max(best, sum / static_cast<double>(windows));
  }
  return best;
}

}  // namespace

report::Traffic describe(const workload::Trace& trace, Duration peak_window) {
  const workload::TraceStatistics s = workload::statistics(trace, peak_window);
  report::Traffic t{.source = trace.source,
                    .requests = s.requests,
                    .span_s = s.span_s,
                    .rate_rps = s.rate_rps,
                    .interarrival_cv = s.interarrival_cv,
                    .dispersion = s.dispersion,
                    .peak_rate_rps = s.peak_rate_rps,
                    .peak_begin_s = s.peak_begin_s,
                    .peak_window_s = s.peak_window_s,
                    .input = lengths(s.input),
                    .output = lengths(s.output),
                    .context = lengths(s.context),
                    .sessions = s.sessions,
                    .turns_per_session = s.turns_per_session,
                    .rate_curve_rps = s.rate_curve_rps,
                    .rate_window_s = s.rate_window_s};
  if (trace.block_tokens > 0) t.prefix_reuse = s.prefix_reuse;
  return t;
}

Result<SizingTraffic> sizing_traffic(const TrafficSpec& spec, std::uint64_t seed) {
  SizingTraffic traffic;
  traffic.scale = spec.scale;
  traffic.peak_window_s = spec.peak_window_s;
  const std::optional<workload::Arrivals> arrivals = workload::parse_arrivals(spec.arrivals);
  if (!arrivals) return fail("traffic: unknown arrivals '{}'; known are {}", spec.arrivals, workload::kArrivalsKnown);
  traffic.arrivals = *arrivals;
  workload::Trace whole;
  if (spec.trace.empty()) {
    MUSTER_TRY(traffic.profile, workload::read_profile(spec.profile));
    MUSTER_TRY(whole,
               workload::synthesise(traffic.profile, {.arrivals = *arrivals, .scale = spec.scale, .seed = seed}));
    whole.source = spec.profile;
  } else {
    MUSTER_TRY(const workload::Trace trace, workload::read_trace(spec.trace));
    MUSTER_TRY(traffic.profile, workload::fit(trace, spec.trace));
    MUSTER_TRY(whole, workload::scale(trace, spec.scale, seed));
    whole.source = spec.trace;
  }
  if (whole.requests.empty()) return fail("{}: no requests in the traffic", whole.source);
  traffic.description = describe(whole, from_seconds(spec.peak_window_s));
  traffic.peak_rate_rps = spec.scale * busiest(traffic.profile, spec.peak_window_s);
  traffic.sample = std::move(whole.requests);
  return traffic;
}

Result<workload::Trace> SizingTraffic::replication(std::uint64_t seed, std::uint64_t run) const {
  return workload::synthesise(profile, {.arrivals = arrivals,
                                        .duration = from_seconds(warm_up_s + peak_window_s),
                                        .constant_rate_rps = peak_rate_rps,
                                        .seed = seed,
                                        .run = run});
}

PercentileLengths lengths_at(const std::vector<workload::Request>& requests, double percentile) {
  std::vector<std::pair<std::int64_t, std::size_t>> by_context;
  by_context.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    by_context.emplace_back(std::int64_t{requests[i].input_tokens} + requests[i].output_tokens, i);
  std::ranges::sort(by_context);
  const auto n = static_cast<double>(by_context.size());
  const auto first = static_cast<std::size_t>(std::clamp(std::floor((percentile - 0.02) * n), 0.0, n - 1));
  const auto last =
      static_cast<std::size_t>(std::clamp(std::ceil((percentile + 0.02) * n), static_cast<double>(first) + 1, n));
  PercentileLengths mean;
  for (std::size_t i = first; i < last; ++i) {
    mean.input += requests[by_context[i].second].input_tokens;
    mean.output += requests[by_context[i].second].output_tokens;
  }
  const auto count = static_cast<double>(last - first);
  mean.input /= count;
  mean.output /= count;
  // The context itself is the exact percentile (nearest rank), as in the traffic table.
  const auto rank = static_cast<std::size_t>(std::clamp(std::ceil(percentile * n), 1.0, n)) - 1;
  mean.context = static_cast<double>(by_context[rank].first);
  return mean;
}

}  // namespace muster::app
