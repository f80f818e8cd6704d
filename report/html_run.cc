// The page of one run, and the parts of it that the page of a size shows too.
#include <fmt/format.h>

#include <algorithm>

#include "gantt.h"
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

std::string groups_table(std::string_view kind, const std::vector<GroupMetrics>& groups) {
  if (groups.empty()) return {};
  HtmlTable table({{std::string(kind)},
                   {"requests", Kind::kNumber},
                   {"rejected", Kind::kNumber},
                   {"wait p95", Kind::kNumber},
                   {"TTFT p95", Kind::kNumber},
                   {"TPOT p95", Kind::kNumber},
                   {"E2E p95", Kind::kNumber},
                   {"output tok/s", Kind::kNumber},
                   {"SLO met", Kind::kNumber}});
  for (const GroupMetrics& g : groups)
    table.row({g.name, n(g.requests), n(g.rejected), milliseconds(g.queue_wait_ms.p95), milliseconds(g.ttft_ms.p95),
               milliseconds(g.tpot_ms.p95), milliseconds(g.e2e_ms.p95), number(g.output_tok_s),
               percent(g.slo_attainment)});
  return card(table.print());
}

// How much of the pipelines' time is bubbles, all replicas together.
std::string pipeline_text(const RunMetrics& run) {
  if (!run.bubble_share) return {};
  HtmlTable table({{"Stage"}, {"busy", Kind::kNumber}, {"bubbles", Kind::kNumber}});
  for (std::size_t i = 0; i < run.stages.size(); ++i)
    table.row({fmt::format("{}", i), percent(run.stages[i].busy), percent(1 - run.stages[i].busy)});
  table.row({"all", percent(1 - *run.bubble_share), percent(*run.bubble_share)});
  return intro("Of the time in which a replica had at least one step in flight, all replicas together.") +
         card(table.print());
}

bool has_cdf(const RunPlots& p) {
  return !(p.queue_wait_cdf.empty() && p.ttft_cdf.empty() && p.e2e_cdf.empty() && p.tpot_cdf.empty());
}

}  // namespace

std::string latency_table(const RunMetrics& run) {
  HtmlTable table({{"Latency"},
                   {"mean", Kind::kNumber},
                   {"p50", Kind::kNumber},
                   {"p90", Kind::kNumber},
                   {"p95", Kind::kNumber},
                   {"p99", Kind::kNumber},
                   {"max", Kind::kNumber}});
  const auto add = [&](const char* name, const Latency& l) {
    table.row({name, milliseconds(l.mean), milliseconds(l.p50), milliseconds(l.p90), milliseconds(l.p95),
               milliseconds(l.p99), milliseconds(l.max)});
  };
  add("Queue wait", run.queue_wait_ms);
  add("TTFT", run.ttft_ms);
  add("TPOT", run.tpot_ms);
  add("E2E", run.e2e_ms);
  return table.print();
}

std::string events_table(const std::vector<Event>& events) {
  if (events.empty()) return {};
  HtmlTable table({{"#", Kind::kNumber}, {"at", Kind::kNumber}, {"event"}, {"what happened", Kind::kText}});
  for (std::size_t i = 0; i < std::min(events.size(), kMaxEvents); ++i)
    table.row({fmt::format("{}", i + 1), clock(events[i].at_s), events[i].kind, events[i].text});
  std::string html = table.print();
  if (events.size() > kMaxEvents)
    html += note(fmt::format("{} more events are not shown.", events.size() - kMaxEvents));
  return card(html);
}

std::string run_plots(const RunPlots& plots, std::string_view run, bool with_ready) {
  std::string html;
  const std::size_t samples = std::max({plots.arrivals_rps.size(), plots.queued.size(), plots.ready_replicas.size()});
  if (samples > 0) {
    const double step = plots.interval_s * static_cast<double>(stride(samples, kMaxPoints));
    html += figure({"load", run, "Arrivals and queue",
                    fmt::format("requests that have not started, whole fleet; one point is {}, "
                                "with the longest queue in it",
                                duration(step)),
                    !with_ready});
    if (with_ready) html += figure({"ready", run, "Ready replicas", "numbers mark the events below"});
  }
  if (!plots.replicas.empty() && !plots.replicas.front().batch.empty()) {
    const std::string shown =
        plots.replicas.size() > kMaxReplicas
            ? fmt::format("; rows: {} of {} replicas and the mean of the others", kMaxReplicas, plots.replicas.size())
            : std::string("; rows: one per replica");
    html += replica_figure("batch", run, "Batch: running sequences",
                           "line: mean; band: least to most loaded replica" + shown);
    html += replica_figure("kv", run, "KV cache occupancy", "share of the KV blocks in use" + shown);
  }
  return html;
}

std::string cdf_figure(const RunPlots& plots, std::string_view run) {
  if (!has_cdf(plots)) return {};
  return figure({"cdf", run, "Latency distributions",
                 "share of the requests up to each latency; dashed: SLO targets; values below "
                 "1 ms are drawn at 1 ms",
                 true});
}
std::string html(const RunMetrics& run, const RunPlots& plots, std::string_view run_title,
                 const std::vector<Slo>& slos) {
  PageText text{.kicker = "muster simulate", .title = std::string(run_title)};
  text.subtitle = fmt::format("{} requests in {}", n(run.requests), duration(run.duration_s));
  if (!run.load.empty()) text.subtitle += "; " + run.load;
  text.footer = fmt::format("{}{}", kFooter, run.digest.empty() ? "" : " Digest: " + run.digest + ".");
  text.tiles = tiles(
      {{"Requests in SLO", percent(run.slo_attainment), fmt::format("goodput {} requests/s", number(run.goodput_rps))},
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
  const std::string groups =
      groups_table("Class", run.classes) + groups_table("Tenant", run.tenants) + groups_table("Pool", run.pools);
  const std::string pipeline = pipeline_text(run) + pipeline_figure(plots.pipeline);
  const std::string over_time = run_plots(plots, "run", true);
  text.sections = {
      {"latency", "Latency", "Latency", grid(card(latency_table(run)) + targets + cdf_figure(plots, "run"))},
      {"sure", "Intervals", "How sure these figures are",
       run.uncertainty ? uncertainty_section(*run.uncertainty) : std::string()},
      {"time", "Over time", "Over time", over_time.empty() ? "" : grid(over_time)},
      {"pipeline", "Pipeline", "Pipeline and its bubbles", pipeline},
      {"groups", "Groups", "Classes, tenants and pools", groups},
      {"events", "Events", "What happened", events_table(run.events)}};
  return page(text, {{"runs", {{"run", run_data(plots, run.events, slos)}}}});
}

}  // namespace muster::report
