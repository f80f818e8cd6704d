// The page of a size: what comes in, and the layout of one replica.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "html_data.h"
#include "html_parts.h"
#include "html_sections.h"
#include "layout_text.h"
#include "muster/report/format.h"
#include "muster/report/html.h"

namespace muster::report {
namespace {

using Kind = HtmlColumn::Kind;
constexpr std::size_t kMaxLayoutRows = 500;

std::string n(std::uint64_t x) {
  return count(static_cast<double>(x));
}
std::string whole(double x) {
  return count(std::round(x));
}

std::string lengths_table(const Traffic& t) {
  HtmlTable table({{"Tokens"},
                   {"mean", Kind::kNumber},
                   {"p50", Kind::kNumber},
                   {"p90", Kind::kNumber},
                   {"p95", Kind::kNumber},
                   {"p99", Kind::kNumber},
                   {"max", Kind::kNumber}});
  const auto add = [&](const char* name, const Lengths& l) {
    table.row({name, whole(l.mean), whole(l.p50), whole(l.p90), whole(l.p95), whole(l.p99), whole(l.max)});
  };
  add("Input", t.input);
  add("Output", t.output);
  add("Context", t.context);
  return table.print();
}

std::string memory_bars(const Candidate& c) {
  struct Part {
    const char* label;
    const char* css;
    double StageRow::* gib;
  };
  constexpr std::array<Part, 6> kParts = {{{"weights", "m-weights", &StageRow::weights_gib},
                                           {"activations", "m-activation", &StageRow::activation_gib},
                                           {"non-torch", "m-other", &StageRow::non_torch_gib},
                                           {"graphs", "m-graph", &StageRow::graph_gib},
                                           {"KV cache", "m-kv", &StageRow::kv_gib},
                                           {"free", "m-free", &StageRow::free_gib}}};
  if (c.stages.empty()) return {};
  const std::size_t shown = std::min<std::size_t>(c.stages.size(), 16);
  std::string html;
  for (std::size_t i = 0; i < shown; ++i) {
    double total = 0;
    for (const Part& part : kParts) total += std::max(0.0, c.stages[i].*part.gib);
    if (!(total > 0) || !std::isfinite(total)) continue;
    std::string bar;
    for (const Part& part : kParts) {
      const double share = std::max(0.0, c.stages[i].*part.gib) / total;
      if (share > 0 && part.gib != &StageRow::free_gib)
        bar +=
            fmt::format("<span class=\"{}\" style=\"width:{:.3f}%\" title=\"{} {}\">{}</span>", part.css, share * 100,
                        part.label, gib(c.stages[i].*part.gib), share > 0.06 ? number(c.stages[i].*part.gib) : "");
    }
    if (c.stages.size() > 1) html += note(fmt::format("stage {}: {} layers", i, c.stages[i].layers));
    html += fmt::format("<div class=\"memory\" role=\"img\" aria-label=\"memory of stage {}\">{}</div>\n", i, bar);
  }
  html += "<ul class=\"legend\">";
  for (const Part& part : kParts)
    html += fmt::format("<li><i class=\"{}\"></i>{} {}</li>", part.css, part.label, gib(c.stages.front().*part.gib));
  return title("Memory of one GPU") + card(html + "</ul>\n");
}

std::string speeds_table(const Size& s) {
  if (s.speeds.empty()) return {};
  HtmlTable table({{"Requests as long as"},
                   {"context", Kind::kNumber},
                   {"input", Kind::kNumber},
                   {"output", Kind::kNumber},
                   {"sequences", Kind::kNumber},
                   {"TPOT", Kind::kNumber},
                   {"output tok/s", Kind::kNumber}});
  for (const PercentileSpeed& p : s.speeds)
    table.row({p.percentile, whole(p.context_tokens), whole(p.input_tokens), whole(p.output_tokens),
               number(p.concurrency), milliseconds(p.tpot_ms), number(p.output_tok_s)});
  return title("Speed of one replica at the context percentiles") + card(table.print());
}

std::string fitting_table(const Size& s) {
  const Candidate* chosen = same_layout(s.considered, s.layout);
  HtmlTable table({{"GPU"},
                   {"precision"},
                   {"layout"},
                   {"GPUs", Kind::kNumber},
                   {"weights GiB", Kind::kNumber},
                   {"KV GiB", Kind::kNumber},
                   {"KV tokens", Kind::kNumber},
                   {"sequences", Kind::kNumber},
                   {"TTFT", Kind::kNumber},
                   {"TPOT", Kind::kNumber},
                   {"tok/s", Kind::kNumber},
                   {"tok/s per GPU", Kind::kNumber},
                   {"$/Mtok", Kind::kNumber},
                   {"limited by", Kind::kText}});
  std::size_t fitting = 0;
  for (const Candidate& c : s.considered) {
    if (!c.fits || (++fitting > kMaxLayoutRows && &c != chosen)) continue;
    table.row({c.gpu, c.precision, layout_label(c), figure_cell(c.gpus, count), figure_cell(c.weights_gib, number),
               figure_cell(c.kv_gib, number), figure_cell(static_cast<double>(c.kv_tokens), count),
               figure_cell(c.max_concurrency, number), figure_cell(c.ttft_ms, milliseconds),
               figure_cell(c.tpot_ms, milliseconds), figure_cell(c.output_tok_s, number),
               figure_cell(c.output_tok_s_per_gpu, number),
               c.usd_per_mtok ? figure_cell(*c.usd_per_mtok, usd) : HtmlCell("-", 1e18), c.binding},
              &c == chosen);
  }
  if (fitting == 0) return {};
  return title(fmt::format("Layouts that fit ({})", n(fitting))) +
         card((fitting > 10 ? table.print_filterable("fitting", "Filter: h100 fp8 TP4") : table.print_sortable()) +
              (fitting > kMaxLayoutRows
                   ? note(fmt::format("The first {} of {} are shown; result.json has all.", kMaxLayoutRows, fitting))
                   : ""));
}

std::string rejected_table(const Size& s) {
  HtmlTable table({{"GPU"}, {"precision"}, {"layout"}, {"GPUs", Kind::kNumber}, {"why not", Kind::kText}});
  std::size_t rejected = 0;
  for (const Candidate& c : s.considered)
    if (!c.fits && ++rejected <= kMaxLayoutRows)
      table.row({c.gpu, c.precision, layout_label(c), figure_cell(c.gpus, count), c.why});
  if (rejected == 0) return {};
  return title(fmt::format("Rejected layouts ({})", n(rejected))) +
         card(table.print_filterable("rejected", "Filter: h100 fp8 weights") +
              (rejected > kMaxLayoutRows
                   ? note(fmt::format("The first {} of {} are shown; result.json has all.", kMaxLayoutRows, rejected))
                   : ""));
}

}  // namespace

std::string traffic_section(const Traffic& t) {
  Facts facts;
  facts.add("Source", fmt::format("{}: {} requests over {}", t.source, n(t.requests), duration(t.span_s)));
  facts.add("Rate", fmt::format("{} requests/s mean, {} in the peak {} from {}", number(t.rate_rps),
                                number(t.peak_rate_rps), duration(t.peak_window_s), clock(t.peak_begin_s)));
  facts.add("Burstiness", fmt::format("inter-arrival CV {}, index of dispersion {} (a Poisson process has 1 and 1)",
                                      number(t.interarrival_cv), number(t.dispersion)));
  if (t.sessions > 0)
    facts.add("Sessions", fmt::format("{} of {} turns on average", n(t.sessions), number(t.turns_per_session)));
  if (t.prefix_reuse) facts.add("Prefix reuse", percent(*t.prefix_reuse) + " of the input tokens");
  std::string plots;
  if (!t.rate_curve_rps.empty())
    plots += figure({"rate", "", "Arrival rate", fmt::format("mean over windows of {}", duration(t.rate_window_s))});
  plots += figure({"lengths", "", "Request lengths", "the fleet is sized at the percentiles, not at the mean"});
  return grid(card(facts.print()) + card(lengths_table(t)) + plots);
}

std::string layout_section(const Size& s) {
  const Candidate& c = s.layout;
  Facts facts;
  facts.add("Chosen",
            fmt::format("{} {} {}: {} GPU{} per replica{}", c.gpu, c.precision, layout_label(c), c.gpus,
                        c.gpus == 1 ? "" : "s", c.kv_precision.empty() ? "" : ", KV cache in " + c.kv_precision));
  facts.add("Why", c.why);
  facts.add("Limited by", c.binding);
  facts.add("KV cache", fmt::format("{} tokens, {} requests of full length at once",
                                    n(static_cast<std::uint64_t>(std::max<std::int64_t>(c.kv_tokens, 0))),
                                    number(c.max_concurrency)));
  if (c.error_band > 0) facts.add("Error band", "\xc2\xb1" + percent(c.error_band) + " on step times");
  for (std::size_t i = 0; i < c.provenance.size(); ++i) facts.add(i == 0 ? "Sources" : "", c.provenance[i]);
  return card(facts.print()) + memory_bars(c) + speeds_table(s) + fitting_table(s) + rejected_table(s);
}

}  // namespace muster::report
