#include "muster/report/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "html_parts.h"
#include "html_sections.h"
#include "json_value.h"
#include "muster/report/format.h"
#include "muster/report/measures.h"
#include "page.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 40;     // on the terminal
constexpr std::size_t kRowsOnPage = 2000;  // of the table; the plot has every point up to kPointsMax
constexpr std::size_t kPointsMax = 5000;

// What people look at; CSV and JSON have every figure.
struct ShownColumn {
  std::string_view name, heading;
  int drop;  // order in which narrow terminals lose it
};
constexpr std::array kShown = {ShownColumn{"slo_attainment", "SLO met", 0},
                               ShownColumn{"ttft_ms.p95", "TTFT p95", 0},
                               ShownColumn{"tpot_ms.p95", "TPOT p95", 2},
                               ShownColumn{"e2e_ms.p95", "E2E p95", 0},
                               ShownColumn{"output_tok_s", "output tok/s", 3},
                               ShownColumn{"gpu_hours", "GPU-h", 4},
                               ShownColumn{"usd", "cost", 0}};

std::size_t index_of(std::string_view name) {
  return static_cast<std::size_t>(find_measure(name) - measures().data());
}

std::optional<double> figure_of(const SweepRow& row, std::string_view name) {
  const std::size_t i = index_of(name);
  if (i >= row.figures.size() || !row.figures[i]) return std::nullopt;
  return row.figures[i]->value;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) (out += c) += c == '"' ? "\"" : "";
  return out + '"';
}

std::string csv_number(const std::optional<double>& x) {
  return x ? dump(number_json(*x, 6), -1) : "";
}

bool several_scales(const Sweep& sweep) {
  return std::ranges::any_of(sweep.rows, [&](const SweepRow& r) { return r.scale != sweep.rows.front().scale; });
}

// "initial" for pools.0.replicas.initial, unless another axis ends alike.
std::vector<std::string> short_names(const Sweep& sweep) {
  std::vector<std::string> names;
  const auto tail = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  for (const std::string& path : sweep.axes) {
    const auto alike = std::ranges::count_if(sweep.axes, [&](const std::string& p) { return tail(p) == tail(path); });
    names.push_back(alike == 1 ? tail(path) : path);
  }
  return names;
}

std::string targets_text(const SweepRow& row) {
  return row.targets_met ? percent(*row.targets_met) : "-";
}

std::string seeds_text(const Sweep& sweep) {
  if (sweep.seeds.size() == 1) return fmt::format("seed {}", sweep.seeds.front());
  return fmt::format("means over {} seeds", sweep.seeds.size());
}

bool any_cost(const Sweep& sweep) {
  return std::ranges::any_of(sweep.rows, [](const SweepRow& r) { return figure_of(r, "usd").has_value(); });
}

}  // namespace

void mark_pareto(Sweep& sweep) {
  const bool priced = std::ranges::all_of(
      sweep.rows, [](const SweepRow& r) { return !r.refused.empty() || figure_of(r, "usd").has_value(); });
  // As they are shown: what differs beyond that is chance.
  const auto cost = [&](const SweepRow& r) {
    return number_json(figure_of(r, priced ? "usd" : "gpu_hours").value_or(0), 3).get<double>();
  };
  const auto attainment = [](const SweepRow& r) {
    return std::round(figure_of(r, "slo_attainment").value_or(0) * 1e4) / 1e4;
  };
  // By rising cost a row is on the front when nothing at most as dear has attained as much.
  std::vector<SweepRow*> order;
  for (SweepRow& row : sweep.rows)
    if (row.refused.empty()) order.push_back(&row);
  std::ranges::stable_sort(order, [&](const SweepRow* a, const SweepRow* b) {
    if (a->scale != b->scale) return a->scale < b->scale;
    if (cost(*a) != cost(*b)) return cost(*a) < cost(*b);
    return attainment(*a) > attainment(*b);
  });
  const SweepRow* best = nullptr;
  for (SweepRow* row : order) {
    if (best != nullptr && best->scale != row->scale) best = nullptr;
    const bool twin =
        best != nullptr && cost(*best) == cost(*row) && attainment(*best) == attainment(*row);  // both stay
    row->pareto = best == nullptr || attainment(*row) > attainment(*best) || twin;
    if (row->pareto) best = row;
  }
}

std::string to_csv(const Sweep& sweep) {
  const bool intervals = sweep.seeds.size() > 1;
  std::string out;
  for (const std::string& axis : sweep.axes) out += csv_field(axis) + ",";
  out += "scale,seeds,refused,targets_met,pareto";
  for (const Measure& m : measures()) {
    out += fmt::format(",{}", m.name);
    if (intervals) out += fmt::format(",{0}.low,{0}.high", m.name);
  }
  out += '\n';
  for (const SweepRow& row : sweep.rows) {
    for (const std::string& value : row.settings) out += csv_field(value) + ",";
    out += fmt::format("{},{},{},{},{}", csv_number(row.scale), sweep.seeds.size(), csv_field(row.refused),
                       csv_number(row.targets_met), row.pareto ? 1 : 0);
    for (std::size_t i = 0; i < measures().size(); ++i) {
      const std::optional<Estimate> e = i < row.figures.size() ? row.figures[i] : std::nullopt;
      out += "," + csv_number(e ? std::optional(e->value) : std::nullopt);
      if (intervals) out += "," + csv_number(e ? e->low : std::nullopt) + "," + csv_number(e ? e->high : std::nullopt);
    }
    out += '\n';
  }
  return out;
}

std::string to_json(const Sweep& sweep) {
  Json rows = Json::array();
  for (const SweepRow& row : sweep.rows) {
    Json set = Json::object(), figures = Json::object();
    for (std::size_t a = 0; a < sweep.axes.size(); ++a) set[sweep.axes[a]] = row.settings[a];
    for (std::size_t i = 0; i < row.figures.size(); ++i) {
      const std::optional<Estimate>& e = row.figures[i];
      const auto number = [](const std::optional<double>& x) { return x ? number_json(*x, 6) : Json(nullptr); };
      figures[measures()[i].name] =
          e ? Json{{"value", number(e->value)}, {"low", number(e->low)}, {"high", number(e->high)}} : Json(nullptr);
    }
    rows.push_back({{"set", std::move(set)},
                    {"scale", number_json(row.scale, 6)},
                    {"refused", row.refused.empty() ? Json(nullptr) : Json(row.refused)},
                    {"targets_met", row.targets_met ? number_json(*row.targets_met, 6) : Json(nullptr)},
                    {"pareto", row.pareto},
                    {"figures", std::move(figures)}});
  }
  return dump({{"fleet", sweep.fleet},
               {"traffic", sweep.traffic},
               {"axes", sweep.axes},
               {"seeds", sweep.seeds},
               {"rows", std::move(rows)}},
              2) +
         "\n";
}

std::string terminal(const Sweep& sweep, const TerminalStyle& style) {
  Page page(style);
  page.title(fmt::format("{} variants of {}, {}", sweep.rows.size(), sweep.fleet, seeds_text(sweep)));
  page.fact("Traffic", sweep.traffic);
  page.space();
  const bool scales = !sweep.rows.empty() && several_scales(sweep), priced = any_cost(sweep);
  std::vector<Column> columns;
  for (const std::string& name : short_names(sweep)) columns.push_back({name, Align::kRight});
  if (scales) columns.push_back({"scale", Align::kRight});
  for (const ShownColumn& c : kShown)
    if (c.name != "usd" || priced) columns.push_back({std::string(c.heading), Align::kRight, c.drop});
  columns.push_back({"targets", Align::kRight, 1});
  columns.push_back({""});
  Table table(columns);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < std::min(sweep.rows.size(), kRowsShown); ++i) {
    const SweepRow& row = sweep.rows[i];
    std::vector<Cell> cells;
    for (const std::string& value : row.settings) cells.emplace_back(value);
    if (scales) cells.emplace_back(fmt::format("{:.4g}", row.scale));
    for (const ShownColumn& c : kShown)
      if (c.name != "usd" || priced) cells.emplace_back(or_dash(figure_of(row, c.name), find_measure(c.name)->format));
    cells.emplace_back(targets_text(row));
    cells.emplace_back(row.pareto ? "*" : row.refused.empty() ? "" : "x", Tone::kAccent);
    table.row(std::move(cells));
  }
  page.table(table);
  if (sweep.rows.size() > kRowsShown)
    page.paragraph(fmt::format("and {} more; sweep.csv has all", sweep.rows.size() - kRowsShown), Tone::kDim);
  page.space();
  page.paragraph(fmt::format("* on the front of {} against SLO met: none{} is better in one and as good in the other.",
                             priced ? "cost" : "GPU-hours", scales ? " at the same scale" : ""),
                 Tone::kDim);
  for (const SweepRow& row : sweep.rows)
    if (!row.refused.empty() && ++refused == 1) page.paragraph("x " + row.refused, Tone::kDim);
  if (refused > 1)
    page.paragraph(fmt::format("and {} more that cannot run; sweep.csv says why", refused - 1), Tone::kDim);
  return page.take();
}

namespace {

// What the plot can put on its axes: the settings, the scale, and every figure.
Json plot_data(const Sweep& sweep, const std::vector<std::string>& names) {
  Json columns = Json::array(), rows = Json::array(), pareto = Json::array();
  for (const std::string& name : names) columns.push_back({{"label", name}, {"setting", true}});
  columns.push_back({{"label", "traffic scale"}, {"setting", true}});
  for (const Measure& m : measures()) columns.push_back({{"label", m.label}, {"name", m.name}});
  std::size_t points = 0;
  for (const SweepRow& row : sweep.rows) {
    if (!row.refused.empty() || ++points > kPointsMax) continue;
    Json values = Json::array();
    for (const std::string& value : row.settings) values.push_back(value);
    values.push_back(number_json(row.scale, 6));
    for (const std::optional<Estimate>& e : row.figures) values.push_back(e ? number_json(e->value, 5) : Json(nullptr));
    rows.push_back(std::move(values));
    pareto.push_back(row.pareto);
  }
  const std::size_t first = sweep.axes.size() + 1;
  return {{"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"pareto", std::move(pareto)},
          {"x", first + index_of(any_cost(sweep) ? "usd" : "gpu_hours")},
          {"y", first + index_of("slo_attainment")},
          {"color", several_scales(sweep) || sweep.axes.empty() ? sweep.axes.size() : sweep.axes.size() - 1}};
}

HtmlCell measure_cell(const SweepRow& row, std::string_view name) {
  const std::optional<double> x = figure_of(row, name);
  return x ? HtmlCell(find_measure(name)->format(*x), *x) : HtmlCell("-");
}

}  // namespace

std::string html(const Sweep& sweep) {
  using Kind = HtmlColumn::Kind;
  const std::vector<std::string> names = short_names(sweep);
  PageText text{.kicker = "muster sweep", .title = fmt::format("{} variants of {}", sweep.rows.size(), sweep.fleet)};
  text.subtitle = fmt::format("{}; {}", sweep.traffic, seeds_text(sweep));
  text.lead =
      "Varied: " + (sweep.axes.empty() ? "the traffic only" : fmt::format("{}", fmt::join(sweep.axes, ", "))) + ".";
  text.footer = std::string(kFooter);
  std::vector<HtmlColumn> columns;
  for (const std::string& name : names) columns.push_back({name});
  columns.push_back({"scale", Kind::kNumber});
  for (const ShownColumn& c : kShown) columns.push_back({std::string(c.heading), Kind::kNumber});
  columns.push_back({"targets met", Kind::kNumber});
  columns.push_back({"note", Kind::kText});
  HtmlTable table(columns);
  for (std::size_t i = 0; i < std::min(sweep.rows.size(), kRowsOnPage); ++i) {
    const SweepRow& row = sweep.rows[i];
    std::vector<HtmlCell> cells;
    for (const std::string& value : row.settings) cells.emplace_back(value);
    cells.emplace_back(fmt::format("{:.4g}", row.scale), row.scale);
    for (const ShownColumn& c : kShown) cells.push_back(measure_cell(row, c.name));
    cells.emplace_back(targets_text(row), row.targets_met.value_or(-1));
    cells.emplace_back(row.refused.empty() ? row.pareto ? "on the cost/SLO front" : "" : row.refused);
    table.row(cells, row.pareto);
  }
  std::string rows = card(table.print_filterable("variants", "words, such as least-work"));
  if (sweep.rows.size() > kRowsOnPage)
    rows += note(fmt::format("{} more rows are in sweep.csv.", sweep.rows.size() - kRowsOnPage));
  const std::string plot = figure({"sweep", "sweep", "Any two columns",
                                   "one point a variant; filled: on the front of cost against SLO attainment", true});
  text.sections = {{"plot", "Plot", "Variants", sweep.rows.empty() ? "" : grid(plot)},
                   {"rows", "Table", "All variants", rows}};
  return page(text, {{"runs", {{"sweep", plot_data(sweep, names)}}}});
}

}  // namespace muster::report
