#include "muster/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "html_data.h"
#include "html_parts.h"
#include "layout_text.h"
#include "muster/report/format.h"

namespace muster::report {
namespace {

using Kind = HtmlColumn::Kind;
constexpr std::size_t kMaxLayoutRows = 500;

std::string n(std::uint64_t x) { return count(static_cast<double>(x)); }
std::string whole(double x) { return count(std::round(x)); }
std::string card(const std::string& html) { return "<div class=\"card\">" + html + "</div>\n"; }
std::string grid(const std::string& html) { return "<div class=\"grid\">\n" + html + "</div>\n"; }
std::string title(std::string_view text) { return fmt::format("<h3>{}</h3>\n", escape(text)); }
std::string note(std::string_view text) { return fmt::format("<p class=\"note\">{}</p>\n", escape(text)); }
std::string intro(std::string_view text) { return fmt::format("<p>{}</p>\n", escape(text)); }
HtmlCell figure_cell(double x, std::string (*format)(double)) { return {format(x), x}; }

// ---- runs -----------------------------------------------------------------------------------------------------------

std::string latency_table(const RunMetrics& run) {
  HtmlTable table({{"Latency"}, {"mean", Kind::kNumber}, {"p50", Kind::kNumber}, {"p90", Kind::kNumber},
                   {"p95", Kind::kNumber}, {"p99", Kind::kNumber}, {"max", Kind::kNumber}});
  const auto add = [&](const char* name, const Latency& l) {
    table.row({name, milliseconds(l.mean), milliseconds(l.p50), milliseconds(l.p90), milliseconds(l.p95), milliseconds(l.p99),
               milliseconds(l.max)});
  };
  add("Queue wait", run.queue_wait_ms);
  add("TTFT", run.ttft_ms);
  add("TPOT", run.tpot_ms);
  add("E2E", run.e2e_ms);
  return table.print();
}

std::string groups_table(std::string_view kind, const std::vector<GroupMetrics>& groups) {
  if (groups.empty()) return {};
  HtmlTable table({{std::string(kind)}, {"requests", Kind::kNumber}, {"rejected", Kind::kNumber}, {"wait p95", Kind::kNumber},
                   {"TTFT p95", Kind::kNumber}, {"TPOT p95", Kind::kNumber}, {"E2E p95", Kind::kNumber},
                   {"output tok/s", Kind::kNumber}, {"SLO met", Kind::kNumber}});
  for (const GroupMetrics& g : groups)
    table.row({g.name, n(g.requests), n(g.rejected), milliseconds(g.queue_wait_ms.p95), milliseconds(g.ttft_ms.p95),
               milliseconds(g.tpot_ms.p95), milliseconds(g.e2e_ms.p95), number(g.output_tok_s), percent(g.slo_attainment)});
  return card(table.print());
}

std::string events_table(const std::vector<Event>& events) {
  if (events.empty()) return {};
  HtmlTable table({{"#", Kind::kNumber}, {"at", Kind::kNumber}, {"event"}, {"what happened", Kind::kText}});
  for (std::size_t i = 0; i < std::min(events.size(), kMaxEvents); ++i)
    table.row({fmt::format("{}", i + 1), clock(events[i].at_s), events[i].kind, events[i].text});
  std::string html = table.print();
  if (events.size() > kMaxEvents) html += note(fmt::format("{} more events are not shown.", events.size() - kMaxEvents));
  return card(html);
}

std::string run_plots(const RunPlots& plots, std::string_view run, bool with_ready) {
  std::string html;
  const std::size_t samples = std::max({plots.arrivals_rps.size(), plots.queued.size(), plots.ready_replicas.size()});
  if (samples > 0) {
    const double step = plots.interval_s * static_cast<double>(stride(samples, kMaxPoints));
    html += figure({"load", run, "Arrivals and queue", fmt::format("requests that have not started, whole fleet; one point is {}, "
                    "with the longest queue in it", duration(step)), !with_ready});
    if (with_ready) html += figure({"ready", run, "Ready replicas", "numbers mark the events below"});
  }
  if (!plots.replicas.empty() && !plots.replicas.front().batch.empty()) {
    const std::string shown = plots.replicas.size() > kMaxReplicas
        ? fmt::format("; rows: {} of {} replicas and the mean of the others", kMaxReplicas, plots.replicas.size())
        : std::string("; rows: one per replica");
    html += replica_figure("batch", run, "Batch: running sequences", "line: mean; band: least to most loaded replica" + shown);
    html += replica_figure("kv", run, "KV cache occupancy", "share of the KV blocks in use" + shown);
  }
  return html;
}

bool has_cdf(const RunPlots& p) {
  return !(p.queue_wait_cdf.empty() && p.ttft_cdf.empty() && p.e2e_cdf.empty() && p.tpot_cdf.empty());
}

std::string cdf_figure(const RunPlots& plots, std::string_view run) {
  if (!has_cdf(plots)) return {};
  return figure({"cdf", run, "Latency distributions", "share of the requests up to each latency; dashed: SLO targets; values below "
                 "1 ms are drawn at 1 ms", true});
}

// ---- the sections of a size -----------------------------------------------------------------------------------------

std::string lengths_table(const Traffic& t) {
  HtmlTable table({{"Tokens"}, {"mean", Kind::kNumber}, {"p50", Kind::kNumber}, {"p90", Kind::kNumber}, {"p95", Kind::kNumber},
                   {"p99", Kind::kNumber}, {"max", Kind::kNumber}});
  const auto add = [&](const char* name, const Lengths& l) {
    table.row({name, whole(l.mean), whole(l.p50), whole(l.p90), whole(l.p95), whole(l.p99), whole(l.max)});
  };
  add("Input", t.input);
  add("Output", t.output);
  add("Context", t.context);
  return table.print();
}

std::string traffic_section(const Traffic& t) {
  Facts facts;
  facts.add("Source", fmt::format("{}: {} requests over {}", t.source, n(t.requests), duration(t.span_s)));
  facts.add("Rate", fmt::format("{} requests/s mean, {} in the peak {} from {}", number(t.rate_rps), number(t.peak_rate_rps),
                                duration(t.peak_window_s), clock(t.peak_begin_s)));
  facts.add("Burstiness", fmt::format("inter-arrival CV {}, index of dispersion {} (a Poisson process has 1 and 1)",
                                      number(t.interarrival_cv), number(t.dispersion)));
  if (t.prefix_reuse) facts.add("Prefix reuse", percent(*t.prefix_reuse) + " of the input tokens");
  std::string plots;
  if (!t.rate_curve_rps.empty())
    plots += figure({"rate", "", "Arrival rate", fmt::format("mean over windows of {}", duration(t.rate_window_s))});
  plots += figure({"lengths", "", "Request lengths", "the fleet is sized at the percentiles, not at the mean"});
  return grid(card(facts.print()) + card(lengths_table(t)) + plots);
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
        bar += fmt::format("<span class=\"{}\" style=\"width:{:.3f}%\" title=\"{} {}\">{}</span>", part.css, share * 100, part.label,
                           gib(c.stages[i].*part.gib), share > 0.06 ? number(c.stages[i].*part.gib) : "");
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
  HtmlTable table({{"Requests as long as"}, {"context", Kind::kNumber}, {"input", Kind::kNumber}, {"output", Kind::kNumber},
                   {"sequences", Kind::kNumber}, {"TPOT", Kind::kNumber}, {"output tok/s", Kind::kNumber}});
  for (const PercentileSpeed& p : s.speeds)
    table.row({p.percentile, whole(p.context_tokens), whole(p.input_tokens), whole(p.output_tokens), number(p.concurrency),
               milliseconds(p.tpot_ms), number(p.output_tok_s)});
  return title("Speed of one replica at the context percentiles") + card(table.print());
}

std::string fitting_table(const Size& s) {
  const Candidate* chosen = same_layout(s.considered, s.layout);
  HtmlTable table({{"GPU"}, {"precision"}, {"layout"}, {"GPUs", Kind::kNumber}, {"weights GiB", Kind::kNumber},
                   {"KV GiB", Kind::kNumber}, {"KV tokens", Kind::kNumber}, {"sequences", Kind::kNumber}, {"TTFT", Kind::kNumber},
                   {"TPOT", Kind::kNumber}, {"tok/s", Kind::kNumber}, {"tok/s per GPU", Kind::kNumber}, {"$/Mtok", Kind::kNumber},
                   {"limited by", Kind::kText}});
  std::size_t fitting = 0;
  for (const Candidate& c : s.considered) {
    if (!c.fits || (++fitting > kMaxLayoutRows && &c != chosen)) continue;
    table.row({c.gpu, c.precision, layout_label(c), figure_cell(c.gpus, count), figure_cell(c.weights_gib, number),
               figure_cell(c.kv_gib, number), figure_cell(static_cast<double>(c.kv_tokens), count),
               figure_cell(c.max_concurrency, number), figure_cell(c.ttft_ms, milliseconds), figure_cell(c.tpot_ms, milliseconds),
               figure_cell(c.output_tok_s, number), figure_cell(c.output_tok_s_per_gpu, number),
               c.usd_per_mtok ? figure_cell(*c.usd_per_mtok, usd) : HtmlCell("-", 1e18), c.binding}, &c == chosen);
  }
  if (fitting == 0) return {};
  return title(fmt::format("Layouts that fit ({})", fitting)) +
         card((fitting > 10 ? table.print_filterable("fitting", "Filter: h100 fp8 TP4") : table.print_sortable()) +
              (fitting > kMaxLayoutRows ? note(fmt::format("The first {} of {} are shown; result.json has all.", kMaxLayoutRows, fitting)) : ""));
}

std::string rejected_table(const Size& s) {
  HtmlTable table({{"GPU"}, {"precision"}, {"layout"}, {"GPUs", Kind::kNumber}, {"why not", Kind::kText}});
  std::size_t rejected = 0;
  for (const Candidate& c : s.considered)
    if (!c.fits && ++rejected <= kMaxLayoutRows)
      table.row({c.gpu, c.precision, layout_label(c), figure_cell(c.gpus, count), c.why});
  if (rejected == 0) return {};
  return title(fmt::format("Rejected layouts ({})", rejected)) +
         card(table.print_filterable("rejected", "Filter: h100 fp8 weights") +
              (rejected > kMaxLayoutRows ? note(fmt::format("The first {} of {} are shown; result.json has all.", kMaxLayoutRows, rejected)) : ""));
}

std::string layout_section(const Size& s) {
  const Candidate& c = s.layout;
  Facts facts;
  facts.add("Chosen", fmt::format("{} {} {}: {} GPU{} per replica{}", c.gpu, c.precision, layout_label(c), c.gpus,
                                  c.gpus == 1 ? "" : "s", c.kv_precision.empty() ? "" : ", KV cache in " + c.kv_precision));
  facts.add("Why", c.why);
  facts.add("Limited by", c.binding);
  facts.add("KV cache", fmt::format("{} tokens, {} sequences at once", n(static_cast<std::uint64_t>(std::max<std::int64_t>(c.kv_tokens, 0))),
                                    number(c.max_concurrency)));
  if (c.error_band > 0) facts.add("Error band", "\xc2\xb1" + percent(c.error_band) + " on step times");
  for (std::size_t i = 0; i < c.provenance.size(); ++i) facts.add(i == 0 ? "Sources" : "", c.provenance[i]);
  return card(facts.print()) + memory_bars(c) + speeds_table(s) + fitting_table(s) + rejected_table(s);
}

std::string search_table(const Size& s) {
  HtmlTable table({{"Replicas", Kind::kNumber}, {"p95", Kind::kNumber}, {"\xc2\xb1 95 %", Kind::kNumber},
                   {"requests in SLO", Kind::kNumber}, {"seeds in SLO", Kind::kNumber}});
  for (const SizeStep& step : steps_by_size(s))
    table.row({fmt::format("{}", step.replicas), HtmlCell(milliseconds(step.p95_latency_ms)).judged(meets_sizing_slo(s, step)),
               milliseconds(step.half_width_ms), percent(step.slo_attainment),
               fmt::format("{} of {}", step.seeds_meeting, step.seeds)},
              step.replicas == s.replicas_for_slo);
  return table.print();
}

std::string zones_table(const Size& s) {
  HtmlTable table({{"Zone"}, {"serving", Kind::kNumber}, {"warm standby", Kind::kNumber}, {"GPUs", Kind::kNumber}});
  for (std::size_t z = 0; z < s.zones.size(); ++z) {
    const int serving = z < s.replicas_per_zone.size() ? s.replicas_per_zone[z] : 0;
    const int standby = standby_in_zone(s, z);
    table.row({s.zones[z], fmt::format("{}", serving), fmt::format("{}", standby),
               fmt::format("{}", (serving + standby) * s.layout.gpus)});
  }
  table.row({"All", fmt::format("{}", s.replicas), fmt::format("{}", s.standby), fmt::format("{}", s.gpus)});
  return table.print();
}

std::string fleet_section(const Size& s) {
  const Slo* slo = sizing_slo(s);
  Facts facts;
  facts.add("At the peak", confidence_statement(s) + (slo ? fmt::format(" confidence ({} at most {})", slo_label(slo->name),
                                                                        milliseconds(slo->target_ms)) : ""));
  facts.add("Headroom", fmt::format("{} of the capacity is spare at peak for bursts and rolling deploys: {} replicas",
                                    percent(s.headroom), s.replicas));
  facts.add("Standby", s.standby == 0 ? "none" : fmt::format("{} replicas, loaded and idle", s.standby));
  std::string html = grid(card(facts.print()) + card(zones_table(s)));
  if (!s.steps.empty())
    html += grid(figure({"search", "", "Search for the fleet size", "bars: 95 % confidence over the seeds; circle: every seed meets the "
                         "SLO, diamond: some, triangle: none"}) + card(search_table(s)));
  return html;
}

std::string zone_loss_section(const Size& s) {
  if (s.zone_loss.requests == 0) return {};
  const Slo* slo = sizing_slo(s);
  const std::optional<double> value = slo ? slo_value(s.zone_loss, slo->name) : std::nullopt;
  std::string text = fmt::format("A zone is lost at the peak: the fleet {} the SLO", s.zone_loss_meets_slo ? "still meets" : "misses");
  if (value) text += fmt::format(" ({} {}, target {})", slo_label(slo->name), milliseconds(*value), milliseconds(slo->target_ms));
  text += fmt::format("; {} of the requests are in SLO.", percent(s.zone_loss.slo_attainment));
  return intro(text) + grid(run_plots(s.zone_loss_plots, "zone_loss", true) + cdf_figure(s.zone_loss_plots, "zone_loss")) +
         (s.zone_loss.events.empty() ? "" : title("Events") + events_table(s.zone_loss.events));
}

std::string money_section(const Size& s) {
  HtmlTable table({{"What"}, {"GPUs", Kind::kNumber}, {"$/h", Kind::kNumber}, {"$ per month (730 h)", Kind::kNumber}});
  const auto row = [&](const std::string& name, int gpus) {
    const std::optional<double> hour = s.price.usd_per_gpu_h ? std::optional(*s.price.usd_per_gpu_h * gpus) : std::nullopt;
    const std::optional<double> month = hour ? std::optional(*hour * 730) : std::nullopt;
    table.row({name, fmt::format("{}", gpus), or_dash(hour, usd), or_dash(month, usd)});
  };
  row(fmt::format("{} replicas that meet the SLO", s.replicas_for_slo), s.replicas_for_slo * s.layout.gpus);
  row(fmt::format("{} for headroom", s.replicas - s.replicas_for_slo), (s.replicas - s.replicas_for_slo) * s.layout.gpus);
  row(fmt::format("{} warm standby", s.standby), s.standby * s.layout.gpus);
  row("All", s.gpus);
  Facts facts;
  if (!s.price.usd_per_gpu_h) {
    facts.add("Price", fmt::format("no price known for {}", s.layout.gpu));
  } else {
    facts.add("Price", fmt::format("{} per GPU-hour of {}", usd(*s.price.usd_per_gpu_h), s.layout.gpu));
    facts.add("Provider", s.price.provider);
    facts.add("Source", s.price.source);
    facts.add("Date", s.price.date);
    if (s.usd_per_mtok) facts.add("Per million output tokens", usd(*s.usd_per_mtok));
  }
  return grid(card(facts.print()) + card(table.print()));
}

std::string evidence_section(const Size& s) {
  HtmlTable table({{""}, {"target", Kind::kNumber}, {fmt::format("N = {}", s.replicas_for_slo), Kind::kNumber},
                   {fmt::format("N \xe2\x88\x92 1 = {}", s.replicas_for_slo - 1), Kind::kNumber}, {"final fleet", Kind::kNumber},
                   {"zone loss", Kind::kNumber}});
  for (const Slo& slo : s.slos) {
    const auto cell = [&](const std::optional<double>& value) {
      return value ? HtmlCell(milliseconds(*value)).judged(*value <= slo.target_ms) : HtmlCell("-");
    };
    table.row({slo_label(slo.name), milliseconds(slo.target_ms), cell(slo_value(s.at_n, slo.name)),
               cell(slo_value(s.at_n_minus_1, slo.name)), cell(slo.measured_ms), cell(slo_value(s.zone_loss, slo.name))});
  }
  const auto across = [&](const char* name, auto of) {
    const auto cell = [&](const RunMetrics& run) { return run.requests == 0 ? std::string("-") : of(run); };
    table.row({name, "", cell(s.at_n), cell(s.at_n_minus_1), "", cell(s.zone_loss)});
  };
  across("Requests in SLO", [](const RunMetrics& r) { return percent(r.slo_attainment); });
  across("Goodput, requests/s", [](const RunMetrics& r) { return number(r.goodput_rps); });
  across("Output tok/s", [](const RunMetrics& r) { return number(r.output_tok_s); });
  across("Output tok/s per GPU", [](const RunMetrics& r) { return number(r.output_tok_s_per_gpu); });
  across("Requests", [](const RunMetrics& r) { return n(r.requests); });
  across("Rejected", [](const RunMetrics& r) { return n(r.rejected); });
  across("Preemptions", [](const RunMetrics& r) { return n(r.preempted); });
  across("Digest", [](const RunMetrics& r) { return r.digest; });
  std::string html;
  Facts facts;
  facts.add("Binding", s.binding);
  for (std::size_t i = 0; i < s.relax.size(); ++i)
    facts.add(i == 0 ? "Cheapest relaxation" : "", fmt::format("{}: {}", s.relax[i].change, s.relax[i].effect));
  html += card(facts.print()) + grid("<div class=\"card wide\">" + table.print() + "</div>");
  if (s.at_n.requests > 0) html += title(fmt::format("Latency with {} replicas", s.replicas_for_slo)) + card(latency_table(s.at_n));
  return html;
}

std::string phases_section(const Size& s) {
  if (s.phases.empty()) return {};
  HtmlTable table({{"Phase"}, {"wall time", Kind::kNumber}});
  double total = 0;
  for (const Phase& phase : s.phases) {
    table.row({phase.name, duration(phase.wall_s)});
    total += phase.wall_s;
  }
  table.row({"All", duration(total)});
  return card(table.print());
}

std::vector<Tile> size_tiles(const Size& s) {
  std::vector<Tile> list;
  list.push_back({"Replicas", s.standby > 0 ? fmt::format("{} + {}", s.replicas, s.standby) : fmt::format("{}", s.replicas),
                  fmt::format("{}; the SLO needs {}{}", s.standby > 0 ? "serving + warm standby" : "serving", s.replicas_for_slo,
                              s.replicas_at_95 > 0 ? fmt::format(" ({} at 95 %)", s.replicas_at_95) : "")});
  list.push_back({"GPUs", fmt::format("{}", s.gpus), fmt::format("{}, {} per replica", s.layout.gpu, s.layout.gpus)});
  list.push_back({"Cost", s.usd_h ? usd(*s.usd_h) + "/h" : "no price known",
                  s.usd_per_mtok ? usd(*s.usd_per_mtok) + " per million output tokens" : ""});
  if (const Slo* slo = sizing_slo(s); slo && slo->measured_ms)
    list.push_back({slo_label(slo->name) + " at peak", milliseconds(*slo->measured_ms),
                    fmt::format("target {}", milliseconds(slo->target_ms)), *slo->measured_ms <= slo->target_ms ? "good" : "bad"});
  if (s.zone_loss.requests > 0)
    list.push_back({"Zone lost at peak", s.zone_loss_meets_slo ? "in SLO" : "misses SLO",
                    fmt::format("{} of the requests in SLO", percent(s.zone_loss.slo_attainment)),
                    s.zone_loss_meets_slo ? "good" : "bad"});
  list.push_back({"Headroom", percent(s.headroom), "spare at peak"});
  return list;
}

constexpr std::string_view kFooter =
    "Made by muster. Figures are predictions of a simulation of the fleet; this page is self-contained and loads nothing. Plots: "
    "Chart.js 3 (MIT licence), built in.";

}  // namespace

std::string html(const Size& s) {
  PageText text{.kicker = "muster size", .title = s.fleet, .lead = s.paragraph, .tiles = tiles(size_tiles(s))};
  text.subtitle = fmt::format("{} on {}: {} {} {}", s.model, s.engine, s.layout.gpu, s.layout.precision, layout_label(s.layout));
  text.footer = fmt::format("{}{}{}", kFooter, s.fleet_file.empty() ? "" : " Fleet file: " + s.fleet_file + ".",
                            s.at_n.digest.empty() ? "" : " Digest: " + s.at_n.digest + ".");
  const std::string peak = run_plots(s.plots, "peak", false) + cdf_figure(s.plots, "peak");
  text.sections = {{"traffic", "Traffic", "Traffic", traffic_section(s.traffic)},
                   {"layout", "Layout", "Layout", layout_section(s)},
                   {"fleet", "Fleet", "Fleet", fleet_section(s)},
                   {"peak", "Peak", "The peak, with the final fleet", peak.empty() ? "" : grid(peak)},
                   {"zone-loss", "Zone loss", "Loss of a zone at the peak", zone_loss_section(s)},
                   {"money", "Money", "Money", money_section(s)},
                   {"evidence", "Evidence", "Evidence", evidence_section(s)},
                   {"phases", "Phases", "Where the time of this answer went", phases_section(s)}};
  const nlohmann::ordered_json data = {
      {"traffic", traffic_data(s.traffic)},
      {"search", search_data(s)},
      {"runs", {{"peak", run_data(s.plots, s.at_n.events, s.slos)}, {"zone_loss", run_data(s.zone_loss_plots, s.zone_loss.events, s.slos)}}}};
  return page(text, data);
}

std::string html(const RunMetrics& run, const RunPlots& plots, std::string_view run_title, const std::vector<Slo>& slos) {
  PageText text{.kicker = "muster simulate", .title = std::string(run_title)};
  text.subtitle = fmt::format("{} requests in {}", n(run.requests), duration(run.duration_s));
  text.footer = fmt::format("{}{}", kFooter, run.digest.empty() ? "" : " Digest: " + run.digest + ".");
  text.tiles = tiles({{"Requests in SLO", percent(run.slo_attainment), fmt::format("goodput {} requests/s", number(run.goodput_rps))},
                      {"Completed", n(run.completed), fmt::format("{} rejected, {} preemptions", n(run.rejected), n(run.preempted))},
                      {"Output tok/s", number(run.output_tok_s), number(run.output_tok_s_per_gpu) + " per GPU"},
                      {"TTFT p95", milliseconds(run.ttft_ms.p95), "queue wait p95 " + milliseconds(run.queue_wait_ms.p95)},
                      {"E2E p95", milliseconds(run.e2e_ms.p95), "TPOT p95 " + milliseconds(run.tpot_ms.p95)},
                      {"Cost", run.usd ? usd(*run.usd) : "no price known", number(run.gpu_hours) + " GPU-hours"}});
  std::string targets;
  if (!slos.empty()) {
    HtmlTable table({{"SLO"}, {"target", Kind::kNumber}, {"measured", Kind::kNumber}});
    for (const Slo& slo : slos) {
      const std::optional<double> value = slo.measured_ms ? slo.measured_ms : slo_value(run, slo.name);
      table.row({slo_label(slo.name), milliseconds(slo.target_ms),
                 value ? HtmlCell(milliseconds(*value)).judged(*value <= slo.target_ms) : HtmlCell("-")});
    }
    targets = card(table.print());
  }
  const std::string groups = groups_table("Class", run.classes) + groups_table("Tenant", run.tenants) + groups_table("Pool", run.pools);
  const std::string over_time = run_plots(plots, "run", true);
  text.sections = {{"latency", "Latency", "Latency", grid(card(latency_table(run)) + targets + cdf_figure(plots, "run"))},
                   {"time", "Over time", "Over time", over_time.empty() ? "" : grid(over_time)},
                   {"groups", "Groups", "Classes, tenants and pools", groups},
                   {"events", "Events", "What happened", events_table(run.events)}};
  return page(text, {{"runs", {{"run", run_data(plots, run.events, slos)}}}});
}

}  // namespace muster::report
