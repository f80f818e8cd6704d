// The answer of `muster size` on the terminal: traffic, layout, fleet, money, evidence, and one paragraph.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "layout_text.h"
#include "muster/report/format.h"
#include "muster/report/terminal.h"
#include "page.h"

namespace muster::report {
namespace {

constexpr std::size_t kFittingShown = 5;
constexpr std::size_t kRejectedShown = 5;
constexpr std::size_t kStepsShown = 6;

void add_layouts(const Size& s, Page& page) {
  const Candidate* chosen = same_layout(s.considered, s.layout);
  add_fitting(s.considered, chosen, kFittingShown, page);
  const std::vector<Rejected> rejected = group_rejected(s.considered);
  if (!rejected.empty()) {
    page.space();
    Table table({{"does not fit"}, {"precision"}, {"layouts", Align::kLeft}, {"why (the largest of them)"}});
    for (std::size_t i = 0; i < std::min(rejected.size(), kRejectedShown); ++i)
      table.row({rejected[i].gpu, rejected[i].precision, rejected[i].layouts, rejected[i].why});
    page.table(table);
    if (const std::size_t shown = std::min(rejected.size(), kRejectedShown); shown < rejected.size())
      page.paragraph(fmt::format("{} of {} pairs of GPU and precision; report.html has all", shown, rejected.size()),
                     Tone::kDim);
  }
  page.space();
  const Candidate& c = s.layout;
  page.fact("Chosen",
            fmt::format("{} {} {}{}: {} per replica, {} KV tokens, {} requests of full length at once", c.gpu,
                        c.precision, layout_label(c), c.kv_precision.empty() ? "" : " (KV " + c.kv_precision + ")",
                        c.gpus == 1 ? "1 GPU" : fmt::format("{} GPUs", c.gpus), count(static_cast<double>(c.kv_tokens)),
                        number(c.max_concurrency)),
            Tone::kStrong);
  page.fact("Why", c.why);
  page.fact("Limited by", c.error_band > 0
                              ? fmt::format("{} (step times {}{})", c.binding, page.plus_minus(), percent(c.error_band))
                              : c.binding);
}

void add_speeds(const Size& s, Page& page) {
  if (s.speeds.empty()) return;
  Table table({{"one replica at"},
               {"context", Align::kRight},
               {"input", Align::kRight},
               {"output", Align::kRight},
               {"sequences", Align::kRight},
               {"TPOT", Align::kRight},
               {"output tok/s", Align::kRight}});
  for (const PercentileSpeed& p : s.speeds)
    table.row({p.percentile, count(p.context_tokens), count(p.input_tokens), count(p.output_tokens),
               number(p.concurrency), milliseconds(p.tpot_ms), number(p.output_tok_s)});
  page.space();
  page.table(table);
}

// The fleet sizes nearest to the answer: those below matter as much as those above.
std::vector<SizeStep> steps_around_answer(const Size& s) {
  std::vector<SizeStep> steps = steps_by_size(s);
  const auto distance = [&](const SizeStep& step) { return std::abs(step.replicas - s.replicas_for_slo); };
  while (steps.size() > kStepsShown)
    steps.erase(distance(steps.front()) > distance(steps.back()) ? steps.begin() : steps.end() - 1);
  return steps;
}

void add_search(const Size& s, Page& page) {
  if (s.steps.empty()) return;
  const Slo* slo = sizing_slo(s);
  Table table({{"replicas", Align::kRight},
               {slo ? slo_label(slo->name) : "p95", Align::kRight},
               {fmt::format("{} 95 %", page.plus_minus()), Align::kRight},
               {"requests in SLO", Align::kRight},
               {"seeds in SLO", Align::kRight},
               {""}});
  for (const SizeStep& step : steps_around_answer(s)) {
    const bool answer = step.replicas == s.replicas_for_slo;
    const bool met = meets_sizing_slo(s, step);
    const Tone tone = answer ? Tone::kGood : Tone::kPlain;
    table.row({{fmt::format("{}", step.replicas), tone},
               {milliseconds(step.p95_latency_ms), tone},
               {milliseconds(step.half_width_ms), tone},
               {percent(step.slo_attainment), tone},
               {fmt::format("{}/{}", step.seeds_meeting, step.seeds), tone},
               answer ? Cell("<- the smallest", tone) : Cell(met ? "" : "misses", Tone::kBad)});
  }
  page.table(table);
}

void add_fleet(const Size& s, Page& page) {
  add_search(s, page);
  page.space();
  const Slo* slo = sizing_slo(s);
  page.fact(
      "At the peak",
      confidence_statement(s) +
          (slo ? fmt::format(" ({} {} {})", slo_label(slo->name), page.at_most(), milliseconds(slo->target_ms)) : ""),
      Tone::kStrong);
  page.fact("Headroom", fmt::format("{} replicas: {} above the need, for bursts and rolling deploys", s.replicas,
                                    percent(s.headroom)));
  page.fact("Zones", replicas_by_zone(s));
  if (s.standby == 0) page.fact("Standby", "none");
  if (s.zone_loss.requests > 0) {
    const std::optional<double> value = slo ? slo_value(s.zone_loss, slo->name) : std::nullopt;
    page.fact(
        "Zone loss",
        fmt::format("{} at peak: {}{} of requests", s.zone_loss_meets_slo ? "still meets the SLO" : "MISSES the SLO",
                    value ? fmt::format("{} {}, ", slo_label(slo->name), milliseconds(*value)) : "",
                    percent(s.zone_loss.slo_attainment)),
        s.zone_loss_meets_slo ? Tone::kGood : Tone::kBad);
  }
}

void add_money(const Size& s, Page& page) {
  page.fact("GPUs",
            fmt::format("{} {}: ({} + {} standby) x {}", s.gpus, s.layout.gpu, s.replicas, s.standby, s.layout.gpus));
  if (!s.price.usd_per_gpu_h) {
    page.fact("Price", fmt::format("no price known for {}", s.layout.gpu), Tone::kBad);
    return;
  }
  std::string total = s.usd_h ? fmt::format("{}/h", usd(*s.usd_h)) : "no price known";
  if (s.usd_h) total += fmt::format(", {} a month", usd(*s.usd_h * 730));
  if (s.usd_per_mtok) total += fmt::format(", {} per million output tokens", usd(*s.usd_per_mtok));
  page.fact("Cost", total, Tone::kStrong);
  page.fact("Price", fmt::format("{} per GPU-hour, {}, {}", usd(*s.price.usd_per_gpu_h),
                                 s.price.provider.empty() ? "provider not named" : s.price.provider,
                                 s.price.date.empty() ? "no date" : s.price.date));
  page.fact("Source", s.price.source, Tone::kDim);
}

void add_evidence(const Size& s, Page& page) {
  Table table({{""},
               {"target", Align::kRight},
               {fmt::format("N = {}", s.replicas_for_slo), Align::kRight},
               {fmt::format("N - 1 = {}", s.replicas_for_slo - 1), Align::kRight},
               {"final fleet", Align::kRight},
               {"zone loss", Align::kRight}});
  for (const Slo& slo : s.slos) {
    const auto cell = [&](const std::optional<double>& value) {
      return value ? Cell(milliseconds(*value), *value <= slo.target_ms ? Tone::kGood : Tone::kBad) : Cell("-");
    };
    table.row({slo_label(slo.name), milliseconds(slo.target_ms), cell(slo_value(s.at_n, slo.name)),
               cell(slo_value(s.at_n_minus_1, slo.name)), cell(slo.measured_ms),
               cell(slo_value(s.zone_loss, slo.name))});
  }
  const auto across = [&](const char* name, auto of) {
    const auto cell = [&](const RunMetrics& run) { return run.requests == 0 ? std::string("-") : of(run); };
    table.row({name, "", cell(s.at_n), cell(s.at_n_minus_1), "", cell(s.zone_loss)});
  };
  across("requests in SLO", [](const RunMetrics& r) { return percent(r.slo_attainment); });
  across("goodput req/s", [](const RunMetrics& r) { return number(r.goodput_rps); });
  across("preemptions", [](const RunMetrics& r) { return count(static_cast<double>(r.preempted)); });
  page.table(table);
  page.space();
  page.fact("Binding", s.binding, Tone::kStrong);
  for (std::size_t i = 0; i < s.relax.size(); ++i)
    page.fact(i == 0 ? "Cheapest" : "", fmt::format("{}: {}", s.relax[i].change, s.relax[i].effect));
}

void add_phases(const Size& s, Page& page) {
  if (s.phases.empty()) return;
  std::string text;
  double total = 0;
  for (const Phase& phase : s.phases) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", phase.name, duration(phase.wall_s));
    total += phase.wall_s;
  }
  page.space();
  page.paragraph(
      fmt::format("Took {}: {}. Digest {}.", duration(total), text, s.at_n.digest.empty() ? "-" : s.at_n.digest),
      Tone::kDim);
}

}  // namespace

std::string terminal(const Size& s, const TerminalStyle& style) {
  Page page(style);
  page.title(fmt::format("{}: {} + {} standby replicas of {} on {} {}, {}", s.fleet, s.replicas, s.standby, s.model,
                         s.gpus, s.layout.gpu, s.usd_h ? usd(*s.usd_h) + "/h" : "no price known"));
  page.heading("1. Traffic");
  add_traffic(s.traffic, page);
  page.heading(fmt::format("2. Layout ({})", s.engine));
  add_layouts(s, page);
  add_speeds(s, page);
  page.heading("3. Fleet");
  add_fleet(s, page);
  page.heading("4. Money");
  add_money(s, page);
  page.heading("5. Evidence");
  add_evidence(s, page);
  page.heading("6. Answer");
  page.paragraph(s.paragraph);
  add_phases(s, page);
  return page.take();
}

}  // namespace muster::report
