#include "validate_summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "parallel.h"

namespace muster::app {
namespace {

std::optional<double> relative(const std::optional<double>& predicted, const std::optional<double>& measured) {
  if (!predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<report::ErrorFigures> figures(const std::vector<double>& errors) {
  if (errors.empty()) return std::nullopt;
  report::ErrorFigures f{.n = errors.size()};
  std::vector<double> absolute;
  for (const double e : errors) {
    absolute.push_back(std::abs(e));
    f.mape += std::abs(e);
    f.bias += e;
  }
  const auto n = static_cast<double>(errors.size());
  f.mape /= n;
  f.bias /= n;
  f.median = median(absolute);
  std::ranges::sort(absolute);
  f.p90 = absolute[std::min(absolute.size() - 1, static_cast<std::size_t>(0.9 * n))];
  return f;
}

std::string load_of(const ValidationCase& c) {
  switch (c.load) {
    case Load::kOfflineMax:
      return "offline maximum";
    case Load::kStaticBatch:
      return c.concurrency <= 1 ? "single stream" : "static batch";
    case Load::kOpenLoop:
      return "open loop";
    case Load::kBurst:
      return "all at once";
    case Load::kDisaggregated:
      return "disaggregated";
    case Load::kClosedLoop:
      break;
  }
  for (const int limit : {4, 16, 64, 256})
    if (c.concurrency <= limit) return fmt::format("closed loop, up to {} users", limit);
  return "closed loop, above 256 users";
}

std::string layout_of(const ValidationCase& c) {
  if (c.load == Load::kDisaggregated) return "disaggregated";
  if (c.gpus_assumed_for > 0) return "not stated";
  cost::Layout layout = c.layout;
  std::string text = cost::text(layout);
  if (c.layout.dp > 1) text += " (attention dp)";
  return text;
}

}  // namespace

std::optional<double> Compared::tpot_error() const {
  return answered() ? relative(prediction.tpot_ms, row.tpot_ms) : std::nullopt;
}
std::optional<double> Compared::throughput_error() const {
  return answered() ? relative(prediction.output_tok_s, row.output_tok_s) : std::nullopt;
}
std::optional<double> Compared::ttft_error() const {
  return answered() && expressed->ttft_scored ? relative(prediction.ttft_ms, row.ttft_ms) : std::nullopt;
}
std::optional<double> Compared::main_error() const {
  if (const auto e = tpot_error()) return e;
  if (const auto e = throughput_error()) return e;
  return ttft_error();
}

Compared compare(const MeasuredRow& row, const Catalogues& catalogues, int waves_max) {
  Compared compared{.row = row};
  std::expected<ValidationCase, std::string> c = express(row, catalogues);
  if (!c) {
    compared.why_not = c.error();
    return compared;
  }
  compared.expressed = std::move(*c);
  // The latency of a whole static batch says its throughput.
  if (compared.expressed->load == Load::kStaticBatch && row.e2e_ms && !row.output_tok_s && !row.tpot_ms && !row.ttft_ms)
    compared.row.output_tok_s = compared.expressed->concurrency * compared.expressed->osl / (*row.e2e_ms * 1e-3);
  compared.prediction = predict(*compared.expressed, catalogues, waves_max);
  compared.why_not = compared.prediction.why_not;
  return compared;
}

std::vector<Compared> compare_all(std::span<const MeasuredRow> rows, const Catalogues& catalogues, int waves_max,
                                  int threads) {
  std::vector<Compared> all(rows.size());
  parallel_for(rows.size(), threads, [&](std::size_t i) { all[i] = compare(rows[i], catalogues, waves_max); });
  return all;
}

report::ValidationGroup group_of(const std::string& key, std::span<const Compared* const> rows) {
  std::vector<double> tpot, ttft, throughput, main;
  for (const Compared* c : rows) {
    if (const auto e = c->tpot_error()) tpot.push_back(*e);
    if (const auto e = c->ttft_error()) ttft.push_back(*e);
    if (const auto e = c->throughput_error()) throughput.push_back(*e);
    if (const auto e = c->main_error()) main.push_back(*e);
  }
  report::ValidationGroup group{
      .key = key, .n = rows.size(), .tpot = figures(tpot), .ttft = figures(ttft), .throughput = figures(throughput)};
  if (const auto f = figures(main)) group.bias = f->bias;
  return group;
}

std::string likely_reason(const Compared& compared) {
  const Prediction& p = compared.prediction;
  const double error = compared.main_error().value_or(0);
  for (const std::string& mark : p.marks)
    if (mark.starts_with("suspect") || mark.starts_with("speculative") || mark.starts_with("power-capped")) return mark;
  // Little's law on the row itself: users that decode at once.
  const MeasuredRow& row = compared.row;
  if (compared.expressed && compared.expressed->load == Load::kClosedLoop && row.ttft_ms && row.tpot_ms) {
    const double decode_ms = *row.tpot_ms * compared.expressed->osl;
    const double share = decode_ms / (*row.ttft_ms + decode_ms);
    if (share < 0.3 && error > 0.3 && !p.saturated)
      return fmt::format(
          "by its own TTFT only {:.0f} of {:.0f} users decoded at once: a limit that the row does not state",
          share * compared.expressed->concurrency, compared.expressed->concurrency);
  }
  if (p.saturated) return "saturated: the queue sets the figure, and a small error of capacity moves it far";
  if (p.estimate) return "no measured operator table for this device or format: a roofline stands in";
  for (const std::string& mark : p.marks)
    if (mark.starts_with("layout") || mark.starts_with("lengths") || mark.starts_with("fits only") ||
        mark.starts_with("worker counts") || mark.starts_with("attention") ||
        mark.find("stands in") != std::string::npos)
      return mark;
  if (compared.expressed && compared.expressed->load == Load::kClosedLoop && compared.expressed->concurrency <= 16)
    return error < 0 ? "few users: time of host and launches that is not modelled"
                     : "few users: host or launch time of this engine is overestimated";
  return error < 0 ? "large batch: kernels, communication or stalls are slower than their tables"
                   : "large batch: kernels are faster than their tables, or steps overlap more";
}

report::Validation summarise(const std::string& file, std::span<const Compared> rows) {
  report::Validation v{.file = file, .rows = rows.size()};
  std::map<std::string, std::vector<const Compared*>> groups;
  std::map<std::string, std::size_t> reasons, marks;
  std::vector<const Compared*> all, scored;
  for (const Compared& c : rows) {
    const bool aggregated = c.row.mode != "disagg";
    v.aggregated_rows += aggregated ? 1 : 0;
    if (!c.answered()) {
      ++reasons[c.why_not];
      continue;
    }
    ++v.expressible;
    v.aggregated_expressible += aggregated ? 1 : 0;
    for (const std::string& mark : c.prediction.marks) ++marks[mark];
    all.push_back(&c);
    if (c.main_error()) scored.push_back(&c);
    const ValidationCase& e = *c.expressed;
    const std::string kind = aggregated ? "" : ", disaggregated";
    groups["source=" + c.row.source].push_back(&c);
    groups["engine=" + e.engine.engine + kind].push_back(&c);
    groups["model=" + e.model + kind].push_back(&c);
    groups["gpu=" + e.gpu + kind].push_back(&c);
    groups["layout=" + layout_of(e)].push_back(&c);
    groups["load=" + load_of(e)].push_back(&c);
    groups[fmt::format("set={} {} {} {}{}", e.engine.engine, e.model, e.gpu, model::name(e.precision.weights), kind)]
        .push_back(&c);
  }
  v.groups.push_back(group_of("all", all));
  for (const auto& [key, members] : groups) v.groups.push_back(group_of(key, members));
  for (const auto& [reason, n] : reasons) v.not_expressed.push_back({.reason = reason, .n = n});
  for (const auto& [mark, n] : marks) v.marks.push_back({.reason = mark, .n = n});
  std::ranges::stable_sort(v.not_expressed, std::greater{}, &report::ValidationReason::n);
  std::ranges::stable_sort(v.marks, std::greater{}, &report::ValidationReason::n);
  std::ranges::stable_sort(scored, std::greater{},
                           [](const Compared* c) { return std::abs(std::log1p(*c->main_error())); });
  for (const Compared* c : scored) {
    const ValidationCase& e = *c->expressed;
    const bool tpot = c->tpot_error().has_value(), throughput = !tpot && c->throughput_error().has_value();
    report::ValidationRow row{
        .row_id = c->row.row_id,
        .text = fmt::format("{} {} {} {} {} {:.0f}/{:.0f} c{:.0f}", e.engine.text(), e.model, e.gpu,
                            model::name(e.precision.weights), layout_of(e), e.isl, e.osl, e.concurrency),
        .metric = tpot         ? "tpot_ms"
                  : throughput ? "output_tok_s"
                               : "ttft_ms",
        .measured = tpot         ? *c->row.tpot_ms
                    : throughput ? *c->row.output_tok_s
                                 : *c->row.ttft_ms,
        .predicted = tpot         ? *c->prediction.tpot_ms
                     : throughput ? *c->prediction.output_tok_s
                                  : *c->prediction.ttft_ms,
        .error = *c->main_error(),
        .group = e.engine.engine,
        .reason = likely_reason(*c)};
    if (v.worst.size() < 20) v.worst.push_back(row);
    v.points.push_back(std::move(row));
  }
  return v;
}

}  // namespace muster::app
