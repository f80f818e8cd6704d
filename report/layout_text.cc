#include "layout_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace muster::report {
namespace {

using LatencyMember = Latency RunMetrics::*;
using StatisticMember = double Latency::*;

constexpr std::array<std::pair<std::string_view, LatencyMember>, 4> kMetrics = {{
    {"queue_wait_", &RunMetrics::queue_wait_ms},
    {"ttft_", &RunMetrics::ttft_ms},
    {"tpot_", &RunMetrics::tpot_ms},
    {"e2e_", &RunMetrics::e2e_ms},
}};
constexpr std::array<std::string_view, 4> kMetricLabels = {"Queue wait", "TTFT", "TPOT", "E2E"};
constexpr std::array<std::pair<std::string_view, StatisticMember>, 6> kStatistics = {{
    {"mean", &Latency::mean},
    {"p50", &Latency::p50},
    {"p90", &Latency::p90},
    {"p95", &Latency::p95},
    {"p99", &Latency::p99},
    {"max", &Latency::max},
}};
constexpr std::array<std::optional<double>, 6> kQuantiles = {std::nullopt, 0.5, 0.9, 0.95, 0.99, std::nullopt};

struct SloParts {
  std::size_t metric = 0, statistic = 0;
};
std::optional<SloParts> parse(std::string_view name) {
  for (std::size_t m = 0; m < kMetrics.size(); ++m) {
    if (!name.starts_with(kMetrics[m].first)) continue;
    const std::string_view rest = name.substr(kMetrics[m].first.size());
    for (std::size_t s = 0; s < kStatistics.size(); ++s)
      if (rest.ends_with("_ms") && rest.substr(0, rest.size() - 3) == kStatistics[s].first) return SloParts{m, s};
  }
  return std::nullopt;
}

}  // namespace

std::string layout_label(const Candidate& c) {
  std::string label = fmt::format("TP{}", c.tp);
  if (c.pp > 1) label += fmt::format(" PP{}", c.pp);
  if (c.ep > 1) label += fmt::format(" EP{}", c.ep);
  return c.dp > 1 ? fmt::format("DP{} {}", c.dp, label) : label;
}

std::optional<SloName> parse_slo(std::string_view slo_name) {
  const std::optional<SloParts> parts = parse(slo_name);
  if (!parts) return std::nullopt;
  std::string_view metric = kMetrics[parts->metric].first;
  metric.remove_suffix(1);  // the underscore
  return SloName{metric, kQuantiles[parts->statistic]};
}

std::optional<double> slo_value(const RunMetrics& run, std::string_view slo_name) {
  const std::optional<SloParts> parts = parse(slo_name);
  if (!parts || run.requests == 0) return std::nullopt;
  return run.*kMetrics[parts->metric].second.*kStatistics[parts->statistic].second;
}

std::string slo_label(std::string_view slo_name) {
  const std::optional<SloParts> parts = parse(slo_name);
  if (!parts) return std::string(slo_name);
  return fmt::format("{} {}", kMetricLabels[parts->metric], kStatistics[parts->statistic].first);
}

const Slo* sizing_slo(const Size& size) {
  for (const Slo& slo : size.slos)
    if (slo.name == size.sizing_target) return &slo;
  return size.slos.empty() ? nullptr : &size.slos.front();
}

std::vector<Rejected> group_rejected(const std::vector<Candidate>& candidates) {
  std::vector<Rejected> groups;              // in the order of the candidates
  std::vector<std::pair<bool, int>> weight;  // [groups]: of the layout that gave the reason
  for (const Candidate& c : candidates) {
    if (c.fits) continue;
    const std::pair<bool, int> here(c.weights_gib > 0, c.gpus);
    std::size_t at = 0;
    while (at < groups.size() && (groups[at].gpu != c.gpu || groups[at].precision != c.precision)) ++at;
    if (at == groups.size()) {
      groups.push_back({c.gpu, c.precision, layout_label(c), c.why});
      weight.push_back(here);
      continue;
    }
    groups[at].layouts += ", " + layout_label(c);
    if (here > weight[at]) {
      weight[at] = here;
      groups[at].why = c.why;
    }
  }
  return groups;
}

int standby_in_zone(const Size& size, std::size_t zone) {
  const int zones = static_cast<int>(size.zones.size());
  if (zones == 0) return size.standby;
  return size.standby / zones + (static_cast<int>(zone) < size.standby % zones ? 1 : 0);
}

std::string replicas_by_zone(const Size& size) {
  std::string text;
  for (std::size_t z = 0; z < std::min(size.zones.size(), size.replicas_per_zone.size()); ++z) {
    text += fmt::format("{}{} {}", z == 0 ? "" : ", ", size.zones[z], size.replicas_per_zone[z]);
    if (size.standby > 0) text += fmt::format(" + {}", standby_in_zone(size, z));
  }
  return text.empty() || size.standby == 0 ? text : text + " (serving + warm standby)";
}

std::string confidence_statement(const Size& size) {
  const std::string base =
      fmt::format("{} {}", size.replicas_for_slo, size.replicas_for_slo == 1 ? "replica" : "replicas");
  return size.replicas_at_95 > 0 ? fmt::format("{}; {} at 95 %", base, size.replicas_at_95) : base;
}

std::vector<SizeStep> steps_by_size(const Size& size) {
  std::map<int, SizeStep> by_size;
  for (const SizeStep& step : size.steps)
    if (const auto at = by_size.find(step.replicas); at == by_size.end() || at->second.seeds <= step.seeds)
      by_size[step.replicas] = step;
  std::vector<SizeStep> steps;
  for (const auto& [replicas, step] : by_size) steps.push_back(step);
  return steps;
}

bool meets_sizing_slo(const Size& size, const SizeStep& step) {
  const Slo* slo = sizing_slo(size);
  return slo ? step.p95_latency_ms <= slo->target_ms : step.seeds_meeting == step.seeds;
}

const Candidate* same_layout(const std::vector<Candidate>& candidates, const Candidate& chosen) {
  for (const Candidate& c : candidates)
    if (c.fits && c.gpu == chosen.gpu && c.precision == chosen.precision && c.kv_precision == chosen.kv_precision &&
        c.tp == chosen.tp && c.pp == chosen.pp && c.dp == chosen.dp && c.ep == chosen.ep)
      return &c;
  return nullptr;
}

}  // namespace muster::report
