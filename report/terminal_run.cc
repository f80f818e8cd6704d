// Runs and traffic on the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "muster/core/text.h"
#include "muster/report/format.h"
#include "muster/report/terminal.h"
#include "page.h"

namespace muster::report {
namespace {

constexpr std::size_t kEventsShown = 20;

Table summary_table(std::string_view first) {
  return Table({{std::string(first)},
                {"mean", Align::kRight},
                {"p50", Align::kRight},
                {"p90", Align::kRight},
                {"p95", Align::kRight},
                {"p99", Align::kRight},
                {"max", Align::kRight}});
}

template <class Summary>  // Latency or Lengths
void add_summary(std::string_view name, const Summary& s, std::string (*format)(double), Table& table) {
  table.row(
      {std::string(name), format(s.mean), format(s.p50), format(s.p90), format(s.p95), format(s.p99), format(s.max)});
}

std::string whole(double x) {
  return count(std::round(x));
}

void add_groups(std::string_view kind, const std::vector<GroupMetrics>& groups, Page& page) {
  if (groups.empty()) return;
  Table table({{std::string(kind)},
               {"requests", Align::kRight},
               {"rejected", Align::kRight, 2},
               {"wait p95", Align::kRight},
               {"TTFT p95", Align::kRight},
               {"TPOT p95", Align::kRight, 1},
               {"E2E p95", Align::kRight},
               {"output tok/s", Align::kRight, 3},
               {"SLO met", Align::kRight}});
  for (const GroupMetrics& g : groups)
    table.row({g.name, count(static_cast<double>(g.requests)), count(static_cast<double>(g.rejected)),
               milliseconds(g.queue_wait_ms.p95), milliseconds(g.ttft_ms.p95), milliseconds(g.tpot_ms.p95),
               milliseconds(g.e2e_ms.p95), number(g.output_tok_s), percent(g.slo_attainment)});
  page.space();
  page.table(table);
}

void add_events(const std::vector<Event>& events, Page& page) {
  if (events.empty()) return;
  Table table({{"at", Align::kRight}, {"event"}, {""}});
  for (std::size_t i = 0; i < std::min(events.size(), kEventsShown); ++i)
    table.row({clock(events[i].at_s), events[i].kind, events[i].text});
  page.space();
  page.table(table);
  if (events.size() > kEventsShown)
    page.paragraph(fmt::format("and {} more events (--json has all)", events.size() - kEventsShown), Tone::kDim);
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t width, bool unicode) {
  static constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 8> kAscii = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const std::size_t marks = std::min(width, values.size());
  std::vector<double> means(marks);
  for (std::size_t i = 0; i < marks; ++i) {
    const std::size_t begin = i * values.size() / marks, end = (i + 1) * values.size() / marks;
    for (std::size_t j = begin; j < end; ++j) means[i] += std::isfinite(values[j]) ? std::max(values[j], 0.0) : 0;
    means[i] /= static_cast<double>(end - begin);
  }
  const double top = means.empty() ? 0 : *std::max_element(means.begin(), means.end());
  std::string line;
  for (const double mean : means) {
    const double height = top > 0 ? mean / top : 0;
    const auto level = static_cast<std::size_t>(std::lround(height * 7));
    line += (unicode ? kBlocks : kAscii)[std::min<std::size_t>(level, 7)];
  }
  return line;
}

void add_traffic(const Traffic& t, Page& page) {
  page.fact("Source", fmt::format("{}: {} requests over {}", t.source, count(static_cast<double>(t.requests)),
                                  duration(t.span_s)));
  std::string rate = fmt::format("{} req/s mean", number(t.rate_rps));
  if (t.peak_window_s > 0)
    rate += fmt::format("; {} ({} x) in the peak {} from {}", number(t.peak_rate_rps),
                        number(t.peak_rate_rps / t.rate_rps), duration(t.peak_window_s), clock(t.peak_begin_s));
  page.fact("Rate", rate);
  page.fact("Burstiness", fmt::format("inter-arrival CV {}, index of dispersion {} (Poisson: 1, 1)",
                                      number(t.interarrival_cv), number(t.dispersion)));
  if (t.sessions > 0)
    page.fact("Sessions", fmt::format("{} of {} turns on average", count(static_cast<double>(t.sessions)),
                                      number(t.turns_per_session)));
  if (t.prefix_reuse) page.fact("Prefix reuse", percent(*t.prefix_reuse) + " of the input tokens");
  if (!t.rate_curve_rps.empty()) {
    const std::size_t marks =
        std::min<std::size_t>(t.rate_curve_rps.size(), std::min<std::size_t>(page.fact_width(), 60));
    page.fact("Rate curve", sparkline(t.rate_curve_rps, marks, page.style().unicode), Tone::kAccent);
    const auto [low, high] = std::minmax_element(t.rate_curve_rps.begin(), t.rate_curve_rps.end());
    const double mark_s = t.rate_window_s * static_cast<double>(t.rate_curve_rps.size()) / static_cast<double>(marks);
    page.fact("",
              fmt::format("{} to {} req/s in windows of {}; one mark is {}", number(*low), number(*high),
                          duration(t.rate_window_s), duration(mark_s)),
              Tone::kDim);
  }
  page.space();
  Table table = summary_table("tokens");
  add_summary("input", t.input, whole, table);
  add_summary("output", t.output, whole, table);
  add_summary("context", t.context, whole, table);
  page.table(table);
}

void add_latencies(const RunMetrics& run, Page& page) {
  Table table = summary_table("");
  add_summary("Queue wait", run.queue_wait_ms, milliseconds, table);
  add_summary("TTFT", run.ttft_ms, milliseconds, table);
  add_summary("TPOT", run.tpot_ms, milliseconds, table);
  add_summary("E2E", run.e2e_ms, milliseconds, table);
  page.table(table);
}

std::string terminal(const Traffic& traffic, const TerminalStyle& style) {
  Page page(style);
  page.title("Traffic");
  add_traffic(traffic, page);
  return page.take();
}

std::string terminal(const RunMetrics& r, const TerminalStyle& style) {
  Page page(style);
  const auto n = [](std::uint64_t x) { return count(static_cast<double>(x)); };
  page.title(fmt::format("{} requests in {}", n(r.requests), duration(r.duration_s)));
  if (!r.load.empty()) page.fact("Load", r.load);
  page.fact("Requests",
            fmt::format("{} completed, {} rejected; {} preemptions", n(r.completed), n(r.rejected), n(r.preempted)));
  if (r.timed_out + r.retries > 0)
    page.fact("Clients", fmt::format("{} gave up, {} tried again; {} output tokens wasted", n(r.timed_out),
                                     n(r.retries), n(r.wasted_output_tokens)));
  page.fact("Throughput", fmt::format("{} output tok/s ({} per GPU), {} total tok/s", number(r.output_tok_s),
                                      number(r.output_tok_s_per_gpu), number(r.total_tok_s)));
  page.fact("SLO", fmt::format("met by {} of the requests; goodput {} req/s", percent(r.slo_attainment),
                               number(r.goodput_rps)));
  if (r.prefix_cache)
    page.fact("Prefix cache", fmt::format("{} of {} prompt tokens found", percent(r.prefix_cache->hit_rate()),
                                          count(r.prefix_cache->queried_tokens)));
  if (r.kv_transfers)
    page.fact("KV transfers",
              fmt::format("{}, {:.4g} GiB; {} each, and {} waiting for the link", n(r.kv_transfers->transfers),
                          r.kv_transfers->gib, milliseconds(r.kv_transfers->mean_ms),
                          milliseconds(r.kv_transfers->mean_wait_ms)));
  if (r.bubble_share) {
    std::vector<std::string> busy;
    for (const StageMetrics& stage : r.stages) busy.push_back(percent(stage.busy));
    page.fact("Pipeline", fmt::format("{} bubbles; stages busy {} of the time with a step in flight",
                                      percent(*r.bubble_share), join(busy, ", ")));
  }
  page.fact("Cost", fmt::format("{} GPU-hours, {}", number(r.gpu_hours), r.usd ? usd(*r.usd) : "no price known"));
  page.fact("Run", fmt::format("{} engine steps in {} ({} requests/s, {} steps/s){}", n(r.steps), duration(r.wall_s),
                               count(std::round(r.requests_per_wall_s())), count(std::round(r.steps_per_wall_s())),
                               r.digest.empty() ? "" : "; digest " + r.digest));
  if (r.ttft_parts)
    page.fact(
        "Mean TTFT",
        fmt::format("{} in the queue, {} from the first step to the first token; client, ingress and response are not "
                    "in it",
                    milliseconds(r.ttft_parts->queue_ms), milliseconds(r.ttft_parts->schedule_to_first_token_ms)));
  page.space();
  add_latencies(r, page);
  if (r.uncertainty) add_uncertainty(*r.uncertainty, page);
  add_groups("class", r.classes, page);
  add_groups("tenant", r.tenants, page);
  add_groups("pool", r.pools, page);
  add_events(r.events, page);
  return page.take();
}

}  // namespace muster::report
