// Layouts on the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "layout_text.h"
#include "muster/report/format.h"
#include "muster/report/terminal.h"
#include "page.h"

namespace muster::report {
namespace {

constexpr std::size_t kFittingShown = 40;
constexpr std::size_t kRejectedShown = 60;

void add_best(const Candidate& c, Page& page) {
  page.heading(fmt::format("Best: {} {} {}", c.gpu, c.precision, layout_label(c)));
  page.fact("Speed",
            fmt::format("{} output tok/s ({} per GPU), TTFT {}, TPOT {}{}", number(c.output_tok_s),
                        number(c.output_tok_s_per_gpu), milliseconds(c.ttft_ms), milliseconds(c.tpot_ms),
                        c.error_band > 0 ? fmt::format(", {}{}", page.plus_minus(), percent(c.error_band)) : ""));
  page.fact("KV cache",
            fmt::format("{} tokens{}; {} requests of full length at once", count(static_cast<double>(c.kv_tokens)),
                        c.kv_precision.empty() ? "" : " in " + c.kv_precision, number(c.max_concurrency)));
  page.fact("Price", c.usd_h
                         ? fmt::format("{}/h{}", usd(*c.usd_h),
                                       c.usd_per_mtok ? ", " + usd(*c.usd_per_mtok) + " per million output tokens" : "")
                         : "no price known");
  page.fact("Binding", c.binding);
  page.fact("Why", c.why);
  for (std::size_t i = 0; i < c.provenance.size(); ++i) page.fact(i == 0 ? "Sources" : "", c.provenance[i], Tone::kDim);
  page.space();
  add_stages(c, page);
}

void add_all_rejected(const std::vector<Candidate>& candidates, Page& page) {
  Table table({{"GPU"}, {"precision"}, {"layout"}, {"why not"}});
  std::size_t rejected = 0;
  for (const Candidate& c : candidates)
    if (!c.fits && rejected++ < kRejectedShown) table.row({c.gpu, c.precision, layout_label(c), c.why});
  if (rejected == 0) return;
  page.heading(fmt::format("Does not fit ({})", rejected));
  page.table(table);
  if (rejected > kRejectedShown)
    page.paragraph(fmt::format("and {} more (--json has all)", rejected - kRejectedShown), Tone::kDim);
}

Tone tone_of(std::string_view verdict) {
  if (verdict == "yes" || verdict == "chosen" || verdict == "fits") return Tone::kGood;
  if (verdict == "no" || verdict == "impossible" || verdict == "refused") return Tone::kBad;
  return Tone::kPlain;
}

}  // namespace

void add_fitting(const std::vector<Candidate>& candidates, const Candidate* chosen, std::size_t limit, Page& page) {
  Table table({{"GPU"},
               {"precision"},
               {"layout"},
               {"GPUs", Align::kRight, 4},
               {"weights GiB", Align::kRight, 5},
               {"KV GiB", Align::kRight, 7},
               {"KV tokens", Align::kRight},
               {"seqs", Align::kRight, 6},
               {"TTFT", Align::kRight, 8},
               {"TPOT", Align::kRight, 2},
               {"tok/s", Align::kRight},
               {"per GPU", Align::kRight, 1},
               {"$/Mtok", Align::kRight}});
  std::size_t fitting = 0;
  for (const Candidate& c : candidates) {
    if (!c.fits) continue;
    const bool mark = &c == chosen;
    if (++fitting > limit && !mark) continue;
    const Tone tone = mark ? Tone::kGood : Tone::kPlain;
    const auto cell = [tone](std::string text) { return Cell(std::move(text), tone); };
    table.row({cell(c.gpu), cell(c.precision), cell(layout_label(c) + (mark ? " *" : "")), cell(count(c.gpus)),
               cell(number(c.weights_gib)), cell(number(c.kv_gib)), cell(count(static_cast<double>(c.kv_tokens))),
               cell(number(c.max_concurrency)), cell(milliseconds(c.ttft_ms)), cell(milliseconds(c.tpot_ms)),
               cell(number(c.output_tok_s)), cell(number(c.output_tok_s_per_gpu)), cell(or_dash(c.usd_per_mtok, usd))});
  }
  if (fitting == 0) return page.paragraph("No layout fits.", Tone::kBad);
  page.table(table);
  if (fitting > limit) page.paragraph(fmt::format("{} layouts fit; the best {} are shown", fitting, limit), Tone::kDim);
}

void add_stages(const Candidate& c, Page& page) {
  if (c.stages.empty()) return;
  Table table({{"GiB per GPU"},
               {"layers", Align::kRight},
               {"weights", Align::kRight},
               {"activation", Align::kRight},
               {"non-torch", Align::kRight},
               {"graphs", Align::kRight},
               {"KV cache", Align::kRight},
               {"free", Align::kRight}});
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    const StageRow& s = c.stages[i];
    table.row({fmt::format("stage {}", i), count(s.layers), number(s.weights_gib), number(s.activation_gib),
               number(s.non_torch_gib), number(s.graph_gib), number(s.kv_gib), number(s.free_gib)});
  }
  page.table(table);
}

std::string terminal(const Plan& plan, const TerminalStyle& style) {
  Page page(style);
  page.title(fmt::format("{} on {} {}", plan.model, plan.engine, plan.engine_version));
  const auto best =
      std::find_if(plan.candidates.begin(), plan.candidates.end(), [](const Candidate& c) { return c.fits; });
  page.heading("Fits, best first");
  add_fitting(plan.candidates, nullptr, kFittingShown, page);
  if (best != plan.candidates.end()) add_best(*best, page);
  add_all_rejected(plan.candidates, page);
  if (!plan.options.empty()) {
    page.heading("Why and why not");
    Table table({{"option"}, {"verdict"}, {"why"}});
    for (const Option& o : plan.options) table.row({o.option, {o.verdict, tone_of(o.verdict)}, o.why});
    page.table(table);
  }
  return page.take();
}

}  // namespace muster::report
