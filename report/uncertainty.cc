// The confidence intervals of a run or of its replications, in JSON, on the terminal and in the page.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "html_parts.h"
#include "html_sections.h"
#include "json_value.h"
#include "muster/report/format.h"
#include "muster/report/measures.h"
#include "page.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;

// What people look at; JSON has every figure.
constexpr std::array kShown = {
    "queue_wait_ms.p50", "queue_wait_ms.p95", "queue_wait_ms.p99", "ttft_ms.p50", "ttft_ms.p95", "ttft_ms.p99",
    "tpot_ms.p50",       "tpot_ms.p95",       "tpot_ms.p99",       "e2e_ms.p50",  "e2e_ms.p95",  "e2e_ms.p99",
    "slo_attainment",    "goodput_rps",       "output_tok_s",      "gpu_hours",   "usd",         "usd_per_mtok"};

std::vector<const Estimate*> shown(const Uncertainty& u) {
  std::vector<const Estimate*> list;
  for (const Estimate& e : u.estimates)
    if (std::ranges::find(kShown, e.name) != kShown.end()) list.push_back(&e);
  return list;
}

Json bound(const std::optional<double>& x) {
  return x ? number_json(*x, 6) : Json(nullptr);
}

struct Words {
  std::string label, value, low, high;
};
Words words(const Estimate& e) {
  const Measure* m = find_measure(e.name);
  if (m == nullptr) return {e.name, number(e.value), or_dash(e.low, number), or_dash(e.high, number)};
  return {std::string(m->label), m->format(e.value), or_dash(e.low, m->format), or_dash(e.high, m->format)};
}

std::string heading(const Uncertainty& u) {
  if (u.replications == 1) return "95 % intervals of this run";
  return fmt::format("{} replications, seeds {} to {}", u.replications, u.first_seed,
                     u.first_seed + static_cast<std::uint64_t>(u.replications) - 1);
}

std::string value_heading(const Uncertainty& u) {
  return u.replications > 1 ? "mean" : "value";
}

// What there is to say beside the figures.
std::vector<std::string> remarks(const Uncertainty& u) {
  std::vector<std::string> list;
  if (u.replications > 1 && u.replications_in_slo)
    list.push_back(fmt::format("Every target met in {} of {} replications.", *u.replications_in_slo, u.replications));
  if (u.warm_up_s > 0)
    list.push_back(fmt::format("Warm-up: the first {} do not count ({}).", duration(u.warm_up_s), u.warm_up));
  list.push_back(u.method);
  list.insert(list.end(), u.notes.begin(), u.notes.end());
  return list;
}

}  // namespace

Json uncertainty_document(const Uncertainty& u) {
  Json estimates = Json::object();
  for (const Estimate& e : u.estimates)
    estimates[e.name] = {{"value", number_json(e.value, 6)},
                         {"low", bound(e.low)},
                         {"high", bound(e.high)},
                         {"by", e.by.empty() ? Json(nullptr) : Json(e.by)}};
  return {{"level", 0.95},
          {"first_seed", u.first_seed},
          {"replications", u.replications},
          {"replications_in_slo", u.replications_in_slo ? Json(*u.replications_in_slo) : Json(nullptr)},
          {"warm_up", {{"method", u.warm_up}, {"seconds", number_json(u.warm_up_s, 6)}}},
          {"method", u.method},
          {"estimates", std::move(estimates)},
          {"digests", u.digests},
          {"notes", u.notes}};
}

void add_uncertainty(const Uncertainty& u, Page& page) {
  page.heading(heading(u));
  Table table({{"figure"}, {value_heading(u), Align::kRight}, {"from", Align::kRight}, {"to", Align::kRight}});
  for (const Estimate* e : shown(u)) {
    const Words w = words(*e);
    table.row({w.label, w.value, w.low, w.high});
  }
  page.table(table);
  for (const std::string& remark : remarks(u)) page.paragraph(remark, Tone::kDim);
}

std::string uncertainty_section(const Uncertainty& u) {
  using Kind = HtmlColumn::Kind;
  HtmlTable table({{"figure"}, {value_heading(u), Kind::kNumber}, {"95 % from", Kind::kNumber}, {"to", Kind::kNumber}});
  for (const Estimate* e : shown(u)) {
    const Words w = words(*e);
    table.row({w.label, w.value, w.low, w.high});
  }
  std::string html = intro(heading(u) + ".");
  for (const std::string& remark : remarks(u)) html += note(remark);
  return html + card(table.print());
}

}  // namespace muster::report
