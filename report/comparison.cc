#include "muster/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "html_data.h"
#include "html_parts.h"
#include "html_sections.h"
#include "json_value.h"
#include "muster/core/check.h"
#include "muster/report/format.h"
#include "muster/report/measures.h"
#include "page.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;
using Verdict = ComparisonRow::Verdict;

// What people look at; JSON has every figure.
constexpr std::array kShown = {
    "queue_wait_ms.p50", "queue_wait_ms.p95", "queue_wait_ms.p99", "ttft_ms.p50", "ttft_ms.p95",  "ttft_ms.p99",
    "tpot_ms.p50",       "tpot_ms.p95",       "e2e_ms.p50",        "e2e_ms.p95",  "e2e_ms.p99",   "slo_attainment",
    "goodput_rps",       "output_tok_s",      "preempted",         "gpu_hours",   "usd_per_mtok", "usd"};

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kA:
      return "A";
    case Verdict::kB:
      return "B";
    case Verdict::kEqual:
      return "equal";
    case Verdict::kNotShown:
      break;
  }
  return "-";
}

Json optional_json(const std::optional<double>& x) {
  return x ? number_json(*x, 6) : Json(nullptr);
}

std::string interval_words(const Measure& m, const std::optional<double>& low, const std::optional<double>& high) {
  if (!low || !high) return "-";
  return fmt::format("{} to {}", signed_difference(m, *low), signed_difference(m, *high));
}

std::string milliseconds_label(std::string_view metric) {
  const Measure* m = find_measure(fmt::format("{}.mean", metric));
  std::string label(m != nullptr ? m->label : metric);
  if (label.ends_with(" mean")) label.resize(label.size() - 5);
  return label;
}

const Measure& milliseconds_measure() {
  const Measure* m = find_measure("e2e_ms.mean");
  MUSTER_CHECK(m != nullptr, "measures lack {}", "e2e_ms.mean");
  return *m;
}

// Rows that are shown, with their measures.
std::vector<std::pair<const ComparisonRow*, const Measure*>> shown(const Comparison& c) {
  std::vector<std::pair<const ComparisonRow*, const Measure*>> list;
  for (const ComparisonRow& row : c.rows)
    if (std::ranges::find(kShown, row.name) != kShown.end())
      if (const Measure* m = find_measure(row.name)) list.emplace_back(&row, m);
  return list;
}

std::string heading(const Comparison& c) {
  if (c.about.replications == 1) return fmt::format("same traffic, one run each, seed {}", c.about.first_seed);
  return fmt::format("same traffic, {} pairs of runs, seeds {} to {}", c.about.replications, c.about.first_seed,
                     c.about.first_seed + static_cast<std::uint64_t>(c.about.replications) - 1);
}

std::vector<std::string> remarks(const Comparison& c) {
  std::vector<std::string> list = {c.about.method};
  if (c.about.warm_up_s > 0)
    list.push_back(
        fmt::format("Warm-up: the first {} do not count ({}).", duration(c.about.warm_up_s), c.about.warm_up));
  list.insert(list.end(), c.about.notes.begin(), c.about.notes.end());
  return list;
}

}  // namespace

std::string to_json(const Comparison& c) {
  Json rows = Json::array(), requests = Json::array();
  for (const ComparisonRow& r : c.rows)
    rows.push_back({{"name", r.name},
                    {"a", number_json(r.a, 6)},
                    {"b", number_json(r.b, 6)},
                    {"difference", number_json(r.difference, 6)},
                    {"low", optional_json(r.low)},
                    {"high", optional_json(r.high)},
                    {"better", name(r.verdict) == "-" ? Json(nullptr) : Json(name(r.verdict))}});
  for (const PairedRequests& p : c.requests)
    requests.push_back({{"name", p.name},
                        {"pairs", p.pairs},
                        {"mean", number_json(p.mean, 6)},
                        {"median", number_json(p.median, 6)},
                        {"low", optional_json(p.low)},
                        {"high", optional_json(p.high)},
                        {"b_lower", number_json(p.b_lower, 6)},
                        {"b_higher", number_json(p.b_higher, 6)}});
  Json about = uncertainty_document(c.about);
  about.erase("estimates");
  about.erase("digests");
  about.erase("replications_in_slo");
  return dump({{"a", c.name_a},
               {"b", c.name_b},
               {"words", c.words},
               {"about", std::move(about)},
               {"comparison", std::move(rows)},
               {"requests_paired", std::move(requests)},
               {"run_a", run_document(c.a)},
               {"run_b", run_document(c.b)}},
              2) +
         "\n";
}

std::string terminal(const Comparison& c, const TerminalStyle& style) {
  Page page(style);
  page.title("Two fleets, " + heading(c));
  page.fact("A", c.name_a);
  page.fact("B", c.name_b);
  page.space();
  for (const std::string& sentence : c.words) page.paragraph(sentence);
  page.space();
  Table table({{"figure"},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"B - A", Align::kRight},
               {"95 % interval", Align::kRight},
               {"better"}});
  for (const auto& [row, m] : shown(c))
    table.row({std::string(m->label),
               m->format(row->a),
               m->format(row->b),
               signed_difference(*m, row->difference),
               interval_words(*m, row->low, row->high),
               {std::string(name(row->verdict)), row->verdict == Verdict::kNotShown ? Tone::kDim : Tone::kStrong}});
  page.table(table);
  if (!c.requests.empty()) {
    page.heading("Request by request (B - A, requests that both completed)");
    Table pairs({{""},
                 {"mean", Align::kRight},
                 {"95 % interval", Align::kRight},
                 {"median", Align::kRight},
                 {"B lower", Align::kRight},
                 {"B higher", Align::kRight}});
    const Measure& ms = milliseconds_measure();
    for (const PairedRequests& p : c.requests)
      pairs.row({milliseconds_label(p.name), signed_difference(ms, p.mean), interval_words(ms, p.low, p.high),
                 signed_difference(ms, p.median), percent(p.b_lower), percent(p.b_higher)});
    page.table(pairs);
  }
  page.space();
  for (const std::string& remark : remarks(c)) page.paragraph(remark, Tone::kDim);
  return page.take();
}

std::string html(const Comparison& c, const RunPlots& plots_a, const RunPlots& plots_b) {
  using Kind = HtmlColumn::Kind;
  PageText text{.kicker = "muster simulate", .title = fmt::format("{} versus {}", c.name_a, c.name_b)};
  text.subtitle = fmt::format("A: {}; B: {}; {}", c.name_a, c.name_b, heading(c));
  text.lead = c.words.empty() ? "" : c.words.front();
  text.footer = std::string(kFooter);
  HtmlTable table({{"figure"},
                   {"A", Kind::kNumber},
                   {"B", Kind::kNumber},
                   {"B - A", Kind::kNumber},
                   {"95 % interval", Kind::kNumber},
                   {"better"}});
  for (const auto& [row, m] : shown(c))
    table.row({std::string(m->label), m->format(row->a), m->format(row->b), signed_difference(*m, row->difference),
               interval_words(*m, row->low, row->high), std::string(name(row->verdict))});
  std::string answer;
  for (std::size_t i = 1; i < c.words.size(); ++i) answer += intro(c.words[i]);  // the first is the lead
  answer += card(table.print());
  for (const std::string& remark : remarks(c)) answer += note(remark);
  std::string pairs;
  if (!c.requests.empty()) {
    HtmlTable by_request({{"B - A"},
                          {"pairs", Kind::kNumber},
                          {"mean", Kind::kNumber},
                          {"95 % interval", Kind::kNumber},
                          {"median", Kind::kNumber},
                          {"B lower", Kind::kNumber},
                          {"B higher", Kind::kNumber}});
    const Measure& ms = milliseconds_measure();
    for (const PairedRequests& p : c.requests)
      by_request.row({milliseconds_label(p.name), count(static_cast<double>(p.pairs)), signed_difference(ms, p.mean),
                      interval_words(ms, p.low, p.high), signed_difference(ms, p.median), percent(p.b_lower),
                      percent(p.b_higher)});
    pairs = card(by_request.print());
  }
  text.sections = {
      {"answer", "Answer", "Which is better", answer},
      {"pairs", "Requests", "Request by request", pairs},
      {"a", "A", "A", grid(card(latency_table(c.a)) + cdf_figure(plots_a, "a") + run_plots(plots_a, "a", true))},
      {"b", "B", "B", grid(card(latency_table(c.b)) + cdf_figure(plots_b, "b") + run_plots(plots_b, "b", true))}};
  return page(text, {{"runs", {{"a", run_data(plots_a, c.a.events, {})}, {"b", run_data(plots_b, c.b.events, {})}}}});
}

}  // namespace muster::report
