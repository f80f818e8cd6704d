#include "html_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "json_value.h"
#include "layout_text.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;

Json num(double x) {
  return number_json(x, 5);
}
Json nums(const std::vector<double>& values, int digits = 4) {
  Json list = Json::array();
  for (const double x : values) list.push_back(number_json(x, digits));
  return list;
}

Json cdf_points(const std::vector<std::pair<double, double>>& points) {
  Json list = Json::array();
  const std::size_t step = stride(points.size(), kMaxPoints);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (i % step == step - 1 || i + 1 == points.size()) list.push_back({num(points[i].first), num(points[i].second)});
  return list;
}

using Rows = std::vector<std::vector<double>>;  // [replicas][points]

struct Spread {
  std::vector<double> mean, low, high;  // [points], over the replicas
};
Spread spread_over(const Rows& rows) {
  Spread s;
  std::size_t points = 0;
  for (const std::vector<double>& row : rows) points = std::max(points, row.size());
  for (std::size_t i = 0; i < points; ++i) {
    double sum = 0, low = 0, high = 0;
    std::size_t n = 0;
    for (const std::vector<double>& row : rows) {
      if (i >= row.size() || !std::isfinite(row[i])) continue;
      low = n == 0 ? row[i] : std::min(low, row[i]);
      high = n == 0 ? row[i] : std::max(high, row[i]);
      sum += row[i];
      ++n;
    }
    s.mean.push_back(n == 0 ? 0 : sum / static_cast<double>(n));
    s.low.push_back(low);
    s.high.push_back(high);
  }
  return s;
}

// The first rows as they are; the rest as their mean in one last row.
Json rows_json(const Rows& rows, bool summarise) {
  Json list = Json::array();
  for (std::size_t r = 0; r < std::min(rows.size(), kMaxReplicas); ++r) list.push_back(nums(rows[r], 3));
  if (summarise) list.push_back(nums(spread_over(Rows(rows.begin() + kMaxReplicas, rows.end())).mean, 3));
  return list;
}

Json heat(const RunPlots& plots) {
  std::size_t samples = 0;
  for (const ReplicaSeries& r : plots.replicas) samples = std::max({samples, r.batch.size(), r.kv_share.size()});
  Rows batch, kv;
  Json names = Json::array();
  for (const ReplicaSeries& r : plots.replicas) {
    std::vector<double> padded = r.batch;
    padded.resize(samples);
    batch.push_back(thin(padded, kMaxReplicaPoints, Merge::kMean));
    padded = r.kv_share;
    padded.resize(samples);
    kv.push_back(thin(padded, kMaxReplicaPoints, Merge::kMean));
    if (names.size() < kMaxReplicas) names.push_back(r.name);
  }
  const bool summarise = plots.replicas.size() > kMaxReplicas;
  if (summarise) names.push_back(fmt::format("+{} mean", plots.replicas.size() - kMaxReplicas));
  const Spread b = spread_over(batch), k = spread_over(kv);
  return {{"step_s", num(plots.interval_s * static_cast<double>(stride(samples, kMaxReplicaPoints)))},
          {"names", std::move(names)},
          {"batch", rows_json(batch, summarise)},
          {"kv", rows_json(kv, summarise)},
          {"batch_mean", nums(b.mean)},
          {"batch_low", nums(b.low)},
          {"batch_high", nums(b.high)},
          {"kv_mean", nums(k.mean)},
          {"kv_low", nums(k.low)},
          {"kv_high", nums(k.high)}};
}

}  // namespace

std::size_t stride(std::size_t samples, std::size_t most) {
  return std::max<std::size_t>(1, (samples + most - 1) / most);
}

std::vector<double> thin(const std::vector<double>& values, std::size_t most, Merge merge) {
  const std::size_t step = stride(values.size(), most);
  std::vector<double> out;
  for (std::size_t begin = 0; begin < values.size(); begin += step) {
    const std::size_t end = std::min(begin + step, values.size());
    double kept = values[begin], sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += values[i];
      if (merge == Merge::kMax) kept = std::max(kept, values[i]);
      if (merge == Merge::kMin) kept = std::min(kept, values[i]);
    }
    out.push_back(merge == Merge::kMean ? sum / static_cast<double>(end - begin) : kept);
  }
  return out;
}

Json run_data(const RunPlots& plots, const std::vector<Event>& events, const std::vector<Slo>& slos) {
  const std::size_t samples = std::max({plots.arrivals_rps.size(), plots.queued.size(), plots.ready_replicas.size()});
  const auto series = [&](std::vector<double> values, Merge merge) {
    values.resize(samples, values.empty() ? 0 : values.back());
    return nums(thin(values, kMaxPoints, merge));
  };
  Json targets = Json::array();
  for (const Slo& slo : slos) {
    const std::optional<SloName> name = parse_slo(slo.name);
    if (!name || !std::isfinite(slo.target_ms) || slo.target_ms <= 0) continue;
    targets.push_back({{"metric", name->metric},
                       {"label", slo_label(slo.name)},
                       {"ms", num(slo.target_ms)},
                       {"share", name->quantile ? num(*name->quantile) : Json(nullptr)}});
  }
  Json happened = Json::array();
  for (std::size_t i = 0; i < std::min(events.size(), kMaxEvents); ++i)
    happened.push_back({{"t", num(events[i].at_s)}});
  return {{"step_s", num(plots.interval_s * static_cast<double>(stride(samples, kMaxPoints)))},
          {"arrivals", series(plots.arrivals_rps, Merge::kMean)},
          {"queued", series(plots.queued, Merge::kMax)},
          {"ready", series(plots.ready_replicas, Merge::kMin)},
          {"heat", heat(plots)},
          {"cdf",
           {{"queue_wait", cdf_points(plots.queue_wait_cdf)},
            {"ttft", cdf_points(plots.ttft_cdf)},
            {"tpot", cdf_points(plots.tpot_cdf)},
            {"e2e", cdf_points(plots.e2e_cdf)}}},
          {"slos", std::move(targets)},
          {"events", std::move(happened)}};
}

Json traffic_data(const Traffic& t) {
  const auto quantiles = [](const Lengths& l) { return nums({l.mean, l.p50, l.p90, l.p95, l.p99}, 6); };
  const double end = t.peak_begin_s + t.peak_window_s;
  return {{"window_s", num(t.rate_window_s * static_cast<double>(stride(t.rate_curve_rps.size(), kMaxPoints)))},
          {"rate", nums(thin(t.rate_curve_rps, kMaxPoints, Merge::kMean))},
          {"peak", t.peak_window_s > 0 ? Json::array({num(t.peak_begin_s), num(end)}) : Json(nullptr)},
          {"lengths",
           {{"labels", {"mean", "p50", "p90", "p95", "p99"}},
            {"input", quantiles(t.input)},
            {"output", quantiles(t.output)},
            {"context", quantiles(t.context)}}}};
}

Json search_data(const Size& size) {
  Json n = Json::array(), p95 = Json::array(), half = Json::array(), share = Json::array();
  for (const SizeStep& step : steps_by_size(size)) {
    n.push_back(step.replicas);
    p95.push_back(num(step.p95_latency_ms));
    half.push_back(num(step.half_width_ms));
    share.push_back(num(step.seeds == 0 ? 0.0 : static_cast<double>(step.seeds_meeting) / step.seeds));
  }
  const Slo* slo = sizing_slo(size);
  return {{"n", std::move(n)},
          {"p95", std::move(p95)},
          {"half", std::move(half)},
          {"share", std::move(share)},
          {"slo", slo ? num(slo->target_ms) : Json(nullptr)},
          {"label", slo ? slo_label(slo->name) : "p95"},
          {"answer", size.replicas_for_slo},
          {"final", size.replicas}};
}

}  // namespace muster::report
