#include "muster/report/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "html_parts.h"
#include "html_sections.h"
#include "json_value.h"
#include "muster/report/format.h"
#include "page.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPointsMax = 4000;  // of the scatter: then every k-th, worst first

Json number_or_null(const std::optional<ErrorFigures>& figures, double ErrorFigures::* member) {
  return figures ? number_json((*figures).*member, 6) : Json(nullptr);
}

Json group_json(const ValidationGroup& g) {
  return {{"key", g.key},
          {"n", g.n},
          {"tpot_n", g.tpot ? g.tpot->n : 0},
          {"tpot_mape", number_or_null(g.tpot, &ErrorFigures::mape)},
          {"tpot_bias", number_or_null(g.tpot, &ErrorFigures::bias)},
          {"tpot_median", number_or_null(g.tpot, &ErrorFigures::median)},
          {"tpot_p90", number_or_null(g.tpot, &ErrorFigures::p90)},
          {"ttft_n", g.ttft ? g.ttft->n : 0},
          {"ttft_mape", number_or_null(g.ttft, &ErrorFigures::mape)},
          {"ttft_bias", number_or_null(g.ttft, &ErrorFigures::bias)},
          {"ttft_median", number_or_null(g.ttft, &ErrorFigures::median)},
          {"throughput_n", g.throughput ? g.throughput->n : 0},
          {"throughput_mape", number_or_null(g.throughput, &ErrorFigures::mape)},
          {"throughput_bias", number_or_null(g.throughput, &ErrorFigures::bias)},
          {"throughput_median", number_or_null(g.throughput, &ErrorFigures::median)},
          {"bias", number_json(g.bias, 6)}};
}

Json row_json(const ValidationRow& r) {
  return {{"row_id", r.row_id},
          {"row", r.text},
          {"metric", r.metric},
          {"measured", number_json(r.measured, 6)},
          {"predicted", number_json(r.predicted, 6)},
          {"error", number_json(r.error, 4)},
          {"reason", r.reason}};
}

Json reasons_json(const std::vector<ValidationReason>& reasons) {
  Json list = Json::array();
  for (const ValidationReason& r : reasons) list.push_back({{"reason", r.reason}, {"n", r.n}});
  return list;
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", 100 * share);
}
std::string error_percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}
std::string mape(const std::optional<ErrorFigures>& f) {
  return f ? error_percent(f->mape) : "-";
}
std::string bias(const std::optional<ErrorFigures>& f) {
  return f ? signed_percent(f->bias) : "-";
}
std::string middle(const std::optional<ErrorFigures>& f) {
  return f ? error_percent(f->median) : "-";
}

std::string coverage(const Validation& v) {
  const auto share = [](std::size_t a, std::size_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
  };
  return fmt::format("{} of {} rows have an answer ({}); of the {} aggregated ones {}", v.expressible, v.rows,
                     percent(share(v.expressible, v.rows)), v.aggregated_rows,
                     percent(share(v.aggregated_expressible, v.aggregated_rows)));
}

void add_reasons(std::string_view heading, const std::vector<ValidationReason>& reasons, Page& page) {
  if (reasons.empty()) return;
  page.heading(heading);
  Table table({{"rows", Align::kRight}, {"reason"}});
  for (const ValidationReason& r : reasons) table.row({count(static_cast<double>(r.n)), r.reason});
  page.table(table);
}

}  // namespace

std::string to_json(const Validation& v) {
  Json groups = Json::array(), worst = Json::array();
  for (const ValidationGroup& g : v.groups) groups.push_back(group_json(g));
  for (const ValidationRow& r : v.worst) worst.push_back(row_json(r));
  return dump({{"file", v.file},
               {"rows", v.rows},
               {"expressible", v.expressible},
               {"aggregated_rows", v.aggregated_rows},
               {"aggregated_expressible", v.aggregated_expressible},
               {"not_expressed", reasons_json(v.not_expressed)},
               {"marks", reasons_json(v.marks)},
               {"groups", groups},
               {"worst", worst},
               {"wall_s", number_json(v.wall_s, 4)}},
              2) +
         "\n";
}

std::string terminal(const Validation& v, const TerminalStyle& style) {
  Page page(style);
  page.title(fmt::format("Predicted against measured: {}", v.file));
  page.paragraph(coverage(v) + fmt::format("; {} to predict them.", duration(v.wall_s)));
  page.heading("Errors by group");
  Table table({{"group"},
               {"rows", Align::kRight},
               {"TPOT MAPE", Align::kRight},
               {"bias", Align::kRight},
               {"median", Align::kRight, 2},
               {"TTFT MAPE", Align::kRight, 1},
               {"tok/s MAPE", Align::kRight},
               {"tok/s bias", Align::kRight, 4},
               {"tok/s median", Align::kRight, 3}});
  for (const ValidationGroup& g : v.groups)
    table.row({{g.key, g.key == "all" ? Tone::kStrong : Tone::kPlain},
               count(static_cast<double>(g.n)),
               mape(g.tpot),
               bias(g.tpot),
               middle(g.tpot),
               mape(g.ttft),
               mape(g.throughput),
               bias(g.throughput),
               middle(g.throughput)});
  page.table(table);
  page.heading("Worst rows");
  Table worst({{"row"},
               {"metric"},
               {"measured", Align::kRight},
               {"predicted", Align::kRight},
               {"error", Align::kRight},
               {"likely reason"}});
  for (const ValidationRow& r : v.worst)
    worst.row({r.text + " (" + r.row_id + ")", r.metric, number(r.measured), number(r.predicted),
               signed_percent(r.error), r.reason});
  page.table(worst);
  add_reasons("Rows without an answer", v.not_expressed, page);
  add_reasons("What was assumed or is known to be missing", v.marks, page);
  return page.take();
}

std::string html(const Validation& v) {
  using Kind = HtmlColumn::Kind;
  PageText text{.kicker = "muster validate", .title = "Predicted against measured"};
  text.subtitle = v.file;
  text.lead = coverage(v) + ".";
  text.footer = std::string(kFooter);
  const ValidationGroup all = v.groups.empty() ? ValidationGroup{} : v.groups.front();
  text.tiles = tiles({{"TPOT MAPE", mape(all.tpot), "bias " + bias(all.tpot)},
                      {"TTFT MAPE", mape(all.ttft), "where the harness is known"},
                      {"Throughput MAPE", mape(all.throughput), "median " + middle(all.throughput)},
                      {"Rows", count(static_cast<double>(v.expressible)), fmt::format("of {}", v.rows)}});
  HtmlTable groups({{"group"},
                    {"rows", Kind::kNumber},
                    {"TPOT MAPE", Kind::kNumber},
                    {"bias", Kind::kNumber},
                    {"median", Kind::kNumber},
                    {"TTFT MAPE", Kind::kNumber},
                    {"tok/s MAPE", Kind::kNumber},
                    {"tok/s bias", Kind::kNumber}});
  const auto cell = [](const std::optional<ErrorFigures>& f, double ErrorFigures::* m, std::string (*format)(double)) {
    return f ? HtmlCell(format((*f).*m), (*f).*m) : HtmlCell("-");
  };
  for (const ValidationGroup& g : v.groups)
    groups.row({g.key,
                {count(static_cast<double>(g.n)), static_cast<double>(g.n)},
                cell(g.tpot, &ErrorFigures::mape, error_percent),
                cell(g.tpot, &ErrorFigures::bias, signed_percent),
                cell(g.tpot, &ErrorFigures::median, error_percent),
                cell(g.ttft, &ErrorFigures::mape, error_percent),
                cell(g.throughput, &ErrorFigures::mape, error_percent),
                cell(g.throughput, &ErrorFigures::bias, signed_percent)});
  HtmlTable worst({{"row"},
                   {"metric"},
                   {"measured", Kind::kNumber},
                   {"predicted", Kind::kNumber},
                   {"error", Kind::kNumber},
                   {"likely reason", Kind::kText}});
  for (const ValidationRow& r : v.worst)
    worst.row({r.text,
               r.metric,
               {number(r.measured), r.measured},
               {number(r.predicted), r.predicted},
               {signed_percent(r.error), r.error},
               r.reason});
  HtmlTable reasons({{"rows", Kind::kNumber}, {"reason", Kind::kText}});
  for (const ValidationReason& r : v.not_expressed)
    reasons.row({{count(static_cast<double>(r.n)), static_cast<double>(r.n)}, r.reason});
  // [metric][group] -> points (measured, predicted)
  std::map<std::string, std::map<std::string, Json>> points;
  const std::size_t step = (v.points.size() + kPointsMax - 1) / std::max<std::size_t>(1, kPointsMax);
  for (std::size_t i = 0; i < v.points.size(); i += std::max<std::size_t>(1, step)) {
    const ValidationRow& r = v.points[i];
    points[r.metric][r.group].push_back({number_json(r.measured, 4), number_json(r.predicted, 4)});
  }
  Json runs = Json::object();
  std::string plots;
  for (const auto& [metric, name] :
       {std::pair{"tpot_ms", "TPOT, ms"}, {"output_tok_s", "Output tokens/s"}, {"ttft_ms", "TTFT, ms"}}) {
    if (!points.contains(metric)) continue;
    runs[metric] = {{"points", points[metric]}};
    plots += figure(
        {"scatter", metric, name, "measured across, predicted up; the line is equality, dashed: 20 % off", true});
  }
  text.sections = {{"scatter", "Scatter", "Predicted against measured", plots.empty() ? "" : grid(plots)},
                   {"groups", "Groups", "Errors by group", card(groups.print_sortable())},
                   {"worst", "Worst rows", "Worst rows", card(worst.print())},
                   {"missing", "No answer", "Rows without an answer", reasons.rows() > 0 ? card(reasons.print()) : ""}};
  return page(text, {{"runs", runs}});
}

}  // namespace muster::report
