#include "replications.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "muster/core/intervals.h"
#include "muster/core/statistics.h"
#include "muster/core/text.h"
#include "muster/report/measures.h"
#include "parallel.h"
#include "within_run.h"

namespace muster::app {
namespace {

constexpr std::string_view kOneRun =
    "By 10 consecutive sections of the run; where they are too short, by order statistics, which takes requests as "
    "independent and may be too narrow. How other days would differ: --replications.";
constexpr std::string_view kReplications = "By Student's t over independent replications, each figure by itself.";

std::uint64_t seed_of(const ReplicationSettings& settings, std::size_t replication) {
  return settings.run.seed + replication;
}

// The work that runs side by side, with the share that is done.
class Shares {
 public:
  Shares(std::size_t jobs, const std::function<void(double)>& show) : done_(jobs), show_(show) {}
  bool set(std::size_t job, double share) {
    const std::lock_guard lock(mutex_);
    done_[job] = share;
    double sum = 0;
    for (const double d : done_) sum += d;
    show_(sum / static_cast<double>(done_.size()));
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<double> done_;
  const std::function<void(double)>& show_;
};

RunSettings run_settings(const ReplicationSettings& settings, std::size_t replication) {
  RunSettings run = settings.run;
  run.seed = seed_of(settings, replication);
  run.warm_up_s = settings.warm_up.seconds;
  run.observer = nullptr;
  if (replication > 0) run.outputs = nullptr;
  return run;
}

report::Uncertainty about(const ReplicationSettings& settings) {
  return {.first_seed = settings.run.seed,
          .replications = settings.replications,
          .method = std::string(settings.replications == 1 ? kOneRun : kReplications),
          .warm_up = settings.warm_up.method,
          .warm_up_s = settings.warm_up.seconds,
          .notes = settings.warm_up.notes};
}

void note_recorded_traffic(const TrafficSource& traffic, const ReplicationSettings& settings, bool fleet_varies,
                           std::vector<std::string>& notes) {
  if (settings.replications == 1 || traffic.varies_with_seed(settings.scale)) return;
  notes.push_back(
      fleet_varies
          ? fmt::format("{} is replayed as recorded: the replications differ in entry zones and router draws only.",
                        traffic.name())
          : fmt::format("{} is replayed as recorded and nothing else here is random: the replications are one and the "
                        "same run. For other days like it, use --profile with what `muster trace fit` makes of it.",
                        traffic.name()));
}

}  // namespace

Result<WarmUp> find_warm_up(const FleetUnderTest& fleet, const TrafficSource& traffic,
                            const ReplicationSettings& settings) {
  constexpr double kPoints = 2000;
  MUSTER_TRY(const auto trace, traffic.make(settings.scale, settings.run.seed));
  RunSettings pilot = run_settings(settings, 0);
  pilot.warm_up_s = 0;
  pilot.outputs = nullptr;
  pilot.sample_s = std::max(1e-3, to_seconds(trace->span()) / kPoints);
  MUSTER_TRY(const FleetRun run, fleet.run(*trace, pilot));
  std::vector<double> in_system;
  const Instant last_arrival = Instant(trace->requests.empty() ? Duration(0) : trace->requests.back().arrival);
  const bool closed_loop = run.scenario.clients.users > 0;
  for (const sim::Sample& sample : run.outcome.samples) {
    if (!closed_loop && sample.at > last_arrival) break;  // the fleet drains: that is no steady state either
    double n = sample.queued;
    for (const std::uint32_t running : sample.running) n += running;
    in_system.push_back(n);
  }
  WarmUp warm_up{.method = "MSER-5"};
  const std::optional<std::size_t> cut = mser_5(in_system);
  if (!cut)
    warm_up.notes.push_back(
        "MSER-5 finds no steady stretch in the second half of the run (its load keeps changing, or it is too short): "
        "nothing is left out.");
  else if (*cut > 0)
    warm_up.seconds = to_seconds(run.outcome.samples[*cut].at.time_since_epoch());
  return warm_up;
}

std::vector<report::Estimate> replicated_estimates(const std::vector<report::RunMetrics>& runs) {
  std::vector<report::Estimate> list;
  for (const report::Measure& m : report::measures()) {
    std::vector<double> values;
    for (const report::RunMetrics& run : runs)
      if (const auto value = m.value(run)) values.push_back(*value);
    if (values.size() != runs.size()) continue;  // no price known
    report::Estimate e{.name = std::string(m.name), .value = mean_interval_95(values).mean};
    if (const auto interval = mean_confidence_95(values)) {
      e.low = interval->low;
      e.high = interval->high;
      e.by = "Student t";
    }
    list.push_back(std::move(e));
  }
  return list;
}

Result<Replicated> replicate(const FleetUnderTest& fleet, const TrafficSource& traffic,
                             const ReplicationSettings& settings) {
  const auto n = static_cast<std::size_t>(settings.replications);
  Replicated all;
  std::vector<report::RunMetrics> runs(n);
  std::vector<char> met(n);
  std::vector<report::Estimate> own;
  std::vector<std::optional<Error>> errors(n);
  Shares shares(n, settings.progress);
  parallel_for(n, settings.threads, [&](std::size_t i) {
    const auto trace = traffic.make(settings.scale, seed_of(settings, i));
    if (!trace) return void(errors[i] = trace.error());
    RunSettings one = run_settings(settings, i);
    one.progress = [&](double share) { return shares.set(i, share); };
    std::optional<WithinRun> within;
    if (n == 1) one.observer = &within.emplace(**trace, one.warm_up_s);
    Result<FleetRun> run = fleet.run(**trace, one);
    if (!run) return void(errors[i] = run.error());
    shares.set(i, 1);
    met[i] = fleet.meets_targets(*run);
    runs[i] = run->metrics;
    if (within) own = within->estimates(run->metrics);
    if (i == 0) {
      all.first = *std::move(run);
    }
  });
  for (const auto& error : errors)
    if (error) return std::unexpected(*error);
  report::Uncertainty u = about(settings);
  u.estimates = n == 1 ? std::move(own) : replicated_estimates(runs);
  for (const report::RunMetrics& run : runs) u.digests.push_back(run.digest);
  const auto meeting = static_cast<int>(std::ranges::count_if(met, [](char m) { return m != 0; }));
  if (fleet.has_targets()) u.replications_in_slo = meeting;
  note_recorded_traffic(traffic, settings, fleet.varies_with_seed(), u.notes);
  if (!all.first.outcome.all.e2e_ms.exact())
    u.notes.push_back(fmt::format("Percentiles of over {} requests come from a sketch and are within 0.5 %.",
                                  QuantileSketch::kExactMax));
  all.targets_met = meeting == settings.replications;
  all.first.metrics.uncertainty = std::move(u);
  return all;
}

namespace {

using Verdict = report::ComparisonRow::Verdict;

void judge(report::ComparisonRow& row) {
  const report::Measure* m = report::find_measure(row.name);
  const bool certain = row.low && row.high && Interval{*row.low, *row.high}.excludes(0);
  if (row.difference == 0 && (!row.low || (*row.low == 0 && *row.high == 0))) row.verdict = Verdict::kEqual;
  if (!certain || m == nullptr || m->better == report::Better::kNeither) return;
  const bool b_higher = row.difference > 0;
  row.verdict = b_higher == (m->better == report::Better::kHigher) ? Verdict::kB : Verdict::kA;
}

}  // namespace

std::vector<report::ComparisonRow> paired_rows(const std::vector<report::RunMetrics>& a,
                                               const std::vector<report::RunMetrics>& b) {
  std::vector<report::ComparisonRow> rows;
  for (const report::Measure& m : report::measures()) {
    std::vector<double> of_a, of_b, differences;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto x = m.value(a[i]), y = m.value(b[i]);
      if (!x || !y) continue;
      of_a.push_back(*x);
      of_b.push_back(*y);
      differences.push_back(*y - *x);
    }
    if (differences.size() != a.size()) continue;  // no price known for one of them
    report::ComparisonRow row{.name = std::string(m.name),
                              .a = mean_interval_95(of_a).mean,
                              .b = mean_interval_95(of_b).mean,
                              .difference = mean_interval_95(differences).mean};
    if (const auto interval = mean_confidence_95(differences)) {
      row.low = interval->low;
      row.high = interval->high;
    }
    judge(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<FleetComparison> compare(const FleetUnderTest& a, const FleetUnderTest& b, const TrafficSource& traffic,
                                const ReplicationSettings& settings, const std::string& name_a,
                                const std::string& name_b) {
  const auto n = static_cast<std::size_t>(settings.replications);
  FleetComparison result;
  std::array<std::vector<report::RunMetrics>, 2> runs = {std::vector<report::RunMetrics>(n),
                                                         std::vector<report::RunMetrics>(n)};
  const std::array fleets = {&a, &b};
  std::array first = {&result.first_a, &result.first_b};
  std::vector<std::optional<Error>> errors(2 * n);
  std::optional<PairedRuns> pairs;
  std::array<std::optional<WithinRun>, 2> within;
  MUSTER_TRY(const auto first_trace, traffic.make(settings.scale, settings.run.seed));
  pairs.emplace(*first_trace, settings.warm_up.seconds);
  Shares shares(2 * n, settings.progress);
  parallel_for(2 * n, settings.threads, [&](std::size_t job) {
    const std::size_t i = job / 2, side = job % 2;
    const auto trace = i == 0 ? Result<std::shared_ptr<const workload::Trace>>(first_trace)
                              : traffic.make(settings.scale, seed_of(settings, i));
    if (!trace) return void(errors[job] = trace.error());
    std::optional<BothObservers> both;
    RunSettings one = run_settings(settings, i);
    one.progress = [&](double share) { return shares.set(job, share); };
    if (i == 0) {
      sim::Observer& pair = side == 0 ? pairs->a() : pairs->b();
      one.observer = &both.emplace(within[side].emplace(**trace, one.warm_up_s), pair);
    }
    Result<FleetRun> run = fleets[side]->run(**trace, one);
    if (!run) return void(errors[job] = run.error());
    shares.set(job, 1);
    runs[side][i] = run->metrics;
    if (i == 0) *first[side] = *std::move(run);
  });
  for (const auto& error : errors)
    if (error) return std::unexpected(*error);
  report::Comparison& c = result.comparison;
  c.name_a = name_a;
  c.name_b = name_b;
  c.about = about(settings);
  note_recorded_traffic(traffic, settings, a.varies_with_seed() || b.varies_with_seed(), c.about.notes);
  c.rows = paired_rows(runs[0], runs[1]);
  if (n == 1)
    for (const report::Estimate& d : within[1]->differences(*within[0], runs[0][0], runs[1][0])) {
      const auto row = std::ranges::find(c.rows, d.name, &report::ComparisonRow::name);
      row->low = d.low;
      row->high = d.high;
      judge(*row);
    }
  c.requests = pairs->take();
  c.a = result.first_a.metrics;
  c.b = result.first_b.metrics;
  c.words = comparison_words(c);
  return result;
}

std::vector<std::string> comparison_words(const report::Comparison& c) {
  // The figures that decide between two fleets; the other percentiles follow them.
  constexpr std::array<std::string_view, 7> kDeciding = {"slo_attainment", "ttft_ms.p95",       "tpot_ms.p95",
                                                         "e2e_ms.p95",     "queue_wait_ms.p95", "output_tok_s",
                                                         "usd_per_mtok"};
  std::vector<std::string> better_a, better_b, not_shown, no_interval;
  for (const std::string_view name : kDeciding) {
    const auto row = std::ranges::find(c.rows, name, &report::ComparisonRow::name);
    if (row == c.rows.end() || row->verdict == Verdict::kEqual) continue;
    const report::Measure& m = *report::find_measure(name);
    const std::string difference = fmt::format("{} {}", m.label, report::signed_difference(m, row->difference));
    if (!row->low) {
      no_interval.push_back(difference);
      continue;
    }
    auto& list = row->verdict == Verdict::kA ? better_a : row->verdict == Verdict::kB ? better_b : not_shown;
    list.push_back(fmt::format("{} ({} to {})", difference, report::signed_difference(m, *row->low),
                               report::signed_difference(m, *row->high)));
  }
  std::vector<std::string> words;
  if (better_a.empty() && better_b.empty())
    words.push_back("No deciding figure tells the two apart: no 95 % interval of a difference excludes 0.");
  else if (!better_a.empty() && !better_b.empty())
    words.push_back("Each is better in something: the choice is a trade.");
  else
    words.push_back(fmt::format("{} is better where the two are shown to differ.", better_a.empty() ? "B" : "A"));
  const auto add = [&](std::string_view lead, const std::vector<std::string>& list) {
    if (!list.empty()) words.push_back(fmt::format("{}: {}.", lead, join(list, "; ")));
  };
  add("B is better (B - A; the 95 % interval excludes 0)", better_b);
  add("A is better (B - A; the 95 % interval excludes 0)", better_a);
  add("Not shown to differ (the interval includes 0)", not_shown);
  add("Without an interval, which takes --replications", no_interval);
  return words;
}

}  // namespace muster::app
