// The page of a size: fleet, runs, money and evidence around the sections of html_layout.cc.
#include <fmt/format.h>

#include <algorithm>

#include "html_data.h"
#include "html_parts.h"
#include "html_sections.h"
#include "layout_text.h"
#include "muster/report/format.h"
#include "muster/report/html.h"

namespace muster::report {
namespace {

using Kind = HtmlColumn::Kind;

std::string n(std::uint64_t x) {
  return count(static_cast<double>(x));
}

std::string search_table(const Size& s) {
  HtmlTable table({{"Replicas", Kind::kNumber},
                   {"p95", Kind::kNumber},
                   {"\xc2\xb1 95 %", Kind::kNumber},
                   {"requests in SLO", Kind::kNumber},
                   {"seeds in SLO", Kind::kNumber}});
  for (const SizeStep& step : steps_by_size(s))
    table.row({fmt::format("{}", step.replicas),
               HtmlCell(milliseconds(step.p95_latency_ms)).judged(meets_sizing_slo(s, step)),
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
  facts.add(
      "At the peak",
      confidence_statement(s) +
          (slo ? fmt::format(" confidence ({} at most {})", slo_label(slo->name), milliseconds(slo->target_ms)) : ""));
  facts.add("Headroom", fmt::format("{} of the capacity is above the need for bursts and rolling deploys: {} replicas",
                                    percent(s.headroom), s.replicas));
  facts.add("Standby", s.standby == 0 ? "none" : fmt::format("{} replicas, loaded and idle", s.standby));
  std::string html = grid(card(facts.print()) + card(zones_table(s)));
  if (!s.steps.empty())
    html += grid(figure({"search", "", "Search for the fleet size",
                         "bars: 95 % confidence over the seeds; circle: every seed meets the "
                         "SLO, diamond: some, triangle: none"}) +
                 card(search_table(s)));
  return html;
}

std::string zone_loss_section(const Size& s) {
  if (s.zone_loss.requests == 0) return {};
  const Slo* slo = sizing_slo(s);
  const std::optional<double> value = slo ? slo_value(s.zone_loss, slo->name) : std::nullopt;
  std::string text =
      fmt::format("A zone is lost at the peak: the fleet {} the SLO", s.zone_loss_meets_slo ? "still meets" : "misses");
  if (value)
    text +=
        fmt::format(" ({} {}, target {})", slo_label(slo->name), milliseconds(*value), milliseconds(slo->target_ms));
  text += fmt::format("; {} of the requests are in SLO.", percent(s.zone_loss.slo_attainment));
  return intro(text) +
         grid(run_plots(s.zone_loss_plots, "zone_loss", true) + cdf_figure(s.zone_loss_plots, "zone_loss")) +
         (s.zone_loss.events.empty() ? "" : title("Events") + events_table(s.zone_loss.events));
}

std::string money_section(const Size& s) {
  HtmlTable table({{"What"}, {"GPUs", Kind::kNumber}, {"$/h", Kind::kNumber}, {"$ per month (730 h)", Kind::kNumber}});
  const auto row = [&](const std::string& name, int gpus) {
    const std::optional<double> hour =
        s.price.usd_per_gpu_h ? std::optional(*s.price.usd_per_gpu_h * gpus) : std::nullopt;
    const std::optional<double> month = hour ? std::optional(*hour * 730) : std::nullopt;
    table.row({name, fmt::format("{}", gpus), or_dash(hour, usd), or_dash(month, usd)});
  };
  row(fmt::format("{} replicas that meet the SLO", s.replicas_for_slo), s.replicas_for_slo * s.layout.gpus);
  row(fmt::format("{} for headroom", s.replicas - s.replicas_for_slo),
      (s.replicas - s.replicas_for_slo) * s.layout.gpus);
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
  HtmlTable table({{""},
                   {"target", Kind::kNumber},
                   {fmt::format("N = {}", s.replicas_for_slo), Kind::kNumber},
                   {fmt::format("N \xe2\x88\x92 1 = {}", s.replicas_for_slo - 1), Kind::kNumber},
                   {"final fleet", Kind::kNumber},
                   {"zone loss", Kind::kNumber}});
  for (const Slo& slo : s.slos) {
    const auto cell = [&](const std::optional<double>& value) {
      return value ? HtmlCell(milliseconds(*value)).judged(*value <= slo.target_ms) : HtmlCell("-");
    };
    table.row({slo_label(slo.name), milliseconds(slo.target_ms), cell(slo_value(s.at_n, slo.name)),
               cell(slo_value(s.at_n_minus_1, slo.name)), cell(slo.measured_ms),
               cell(slo_value(s.zone_loss, slo.name))});
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
  if (s.at_n.requests > 0)
    html += title(fmt::format("Latency with {} replicas", s.replicas_for_slo)) + card(latency_table(s.at_n));
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
  list.push_back(
      {"Replicas", s.standby > 0 ? fmt::format("{} + {}", s.replicas, s.standby) : fmt::format("{}", s.replicas),
       fmt::format("{}; the SLO needs {}{}", s.standby > 0 ? "serving + warm standby" : "serving", s.replicas_for_slo,
                   s.replicas_at_95 > 0 ? fmt::format(" ({} at 95 %)", s.replicas_at_95) : "")});
  list.push_back({"GPUs", fmt::format("{}", s.gpus), fmt::format("{}, {} per replica", s.layout.gpu, s.layout.gpus)});
  list.push_back({"Cost", s.usd_h ? usd(*s.usd_h) + "/h" : "no price known",
                  s.usd_per_mtok ? usd(*s.usd_per_mtok) + " per million output tokens" : ""});
  if (const Slo* slo = sizing_slo(s); slo && slo->measured_ms)
    list.push_back({slo_label(slo->name) + " at peak", milliseconds(*slo->measured_ms),
                    fmt::format("target {}", milliseconds(slo->target_ms)),
                    *slo->measured_ms <= slo->target_ms ? "good" : "bad"});
  if (s.zone_loss.requests > 0)
    list.push_back({"Zone lost at peak", s.zone_loss_meets_slo ? "in SLO" : "misses SLO",
                    fmt::format("{} of the requests in SLO", percent(s.zone_loss.slo_attainment)),
                    s.zone_loss_meets_slo ? "good" : "bad"});
  list.push_back({"Headroom", percent(s.headroom), "above the need"});
  return list;
}

}  // namespace

std::string html(const Size& s) {
  PageText text{.kicker = "muster size", .title = s.fleet, .lead = s.paragraph, .tiles = tiles(size_tiles(s))};
  text.subtitle =
      fmt::format("{} on {}: {} {} {}", s.model, s.engine, s.layout.gpu, s.layout.precision, layout_label(s.layout));
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
  const nlohmann::ordered_json data = {{"traffic", traffic_data(s.traffic)},
                                       {"search", search_data(s)},
                                       {"runs",
                                        {{"peak", run_data(s.plots, s.at_n.events, s.slos)},
                                         {"zone_loss", run_data(s.zone_loss_plots, s.zone_loss.events, s.slos)}}}};
  return page(text, data);
}

}  // namespace muster::report
