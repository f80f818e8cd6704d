#include "sweep_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>

#include "fleet_run.h"
#include "muster/core/digest.h"
#include "muster/core/intervals.h"
#include "muster/core/statistics.h"
#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster/report/measures.h"
#include "parallel.h"

namespace muster::app {
namespace {

// A change of what muster computes must not be mixed with older points.
constexpr std::string_view kVersion = "muster 0.1.0 sweep 1";

Result<FleetFile> fleet_of(const SweepBase& base, const std::vector<Setting>& settings) {
  MUSTER_TRY(const std::string document, edited(base.fleet_text, base.inputs.fleet_path, settings));
  return parse_fleet(document, fmt::format("{} with {}", base.inputs.fleet_path, text(settings)));
}

Result<void> add_file(const std::string& path, Digest& digest) {
  MUSTER_TRY(files::LineReader lines, files::LineReader::open(path));
  std::string_view line;
  while (true) {
    MUSTER_TRY(const bool more, lines.next(line));
    if (!more) return {};
    digest.add(line);
  }
}

// Traces by (scale, seed), each made when first asked for and dropped when its last point has run.
class TraceCache {
 public:
  TraceCache(const SweepBase& base, const SweepPlan& plan, const std::vector<std::size_t>& pending)
      : base_(base), plan_(plan) {
    for (const std::size_t index : pending) ++entries_[key(plan.point(index))].users;
  }
  Result<std::shared_ptr<const workload::Trace>> take(const SweepPoint& point) {
    Entry& entry = entries_.at(key(point));
    const std::lock_guard lock(entry.mutex);
    if (!entry.trace) {
      MUSTER_TRY(entry.trace, base_.traffic.make(plan_.scales[point.scale], plan_.seeds[point.seed]));
    }
    std::shared_ptr<const workload::Trace> trace = entry.trace;
    if (--entry.users == 0) entry.trace.reset();
    return trace;
  }
  // Points that share a trace run one after the other, so that few traces are held.
  static std::pair<std::size_t, std::size_t> key(const SweepPoint& point) { return {point.scale, point.seed}; }

 private:
  struct Entry {
    std::mutex mutex;
    std::size_t users = 0;
    std::shared_ptr<const workload::Trace> trace;
  };
  const SweepBase& base_;
  const SweepPlan& plan_;
  std::map<std::pair<std::size_t, std::size_t>, Entry> entries_;  // filled before any thread looks
};

Result<PointRecord> run_point(const SweepBase& base, const SweepPlan& plan, const SweepPoint& point,
                              TraceCache& traces) {
  PointRecord record{.index = point.index};
  MUSTER_TRY(const auto trace, traces.take(point));
  const auto refused = [&](const Error& error) {
    record.refused = error.message;
    return record;
  };
  Result<FleetFile> file = fleet_of(base, plan.settings(point));
  if (!file) return refused(file.error());  // settings that cannot be together
  const Result<FleetUnderTest> fleet = FleetUnderTest::prepare(*file, base.inputs.pool, base.catalogues);
  if (!fleet) return refused(fleet.error());
  const Result<FleetRun> run =
      fleet->run(*trace, {.seed = plan.seeds[point.seed], .warm_up_s = base.inputs.warm_up_s, .sample_s = 0});
  if (!run) return refused(run.error());
  record.digest = run->metrics.digest;
  if (fleet->has_targets()) record.targets_met = fleet->meets_targets(*run);
  for (const report::Measure& m : report::measures()) record.values.push_back(m.value(run->metrics));
  return record;
}

}  // namespace

Result<SweepBase> read_sweep_base(const SweepInputs& inputs) {
  SweepBase base{.inputs = inputs};
  MUSTER_TRY(base.fleet_text, files::read_file(inputs.fleet_path, std::size_t{16} << 20));
  MUSTER_TRY(base.catalogues, load_catalogues(inputs.catalog_files));
  MUSTER_TRY(base.traffic, TrafficSource::open(inputs.trace, inputs.profile));
  return base;
}

Result<void> digest_inputs(const SweepBase& base, SweepPlan& plan) {
  Digest digest;
  digest.add(kVersion);
  digest.add(base.fleet_text);
  digest.add(base.inputs.pool);
  digest.add(base.inputs.warm_up_s);
  MUSTER_TRY_VOID(add_file(plan.traffic, digest));
  for (const std::string& file : base.inputs.catalog_files) MUSTER_TRY_VOID(add_file(file, digest));
  const auto add_if_file = [&](const std::string& word) -> Result<void> {  // model: path/to/config.json
    std::error_code error;
    return std::filesystem::is_regular_file(word, error) ? add_file(word, digest) : Result<void>();
  };
  MUSTER_TRY(const FleetFile fleet, parse_fleet(base.fleet_text, base.inputs.fleet_path));
  for (const PoolSpec& pool : fleet.pools) MUSTER_TRY_VOID(add_if_file(pool.model));
  for (const Axis& axis : plan.axes) {
    digest.add(axis.path);
    digest.add(static_cast<std::uint64_t>(axis.values.size()));
    for (const std::string& value : axis.values) {
      digest.add(value);
      MUSTER_TRY_VOID(add_if_file(value));
    }
  }
  digest.add(static_cast<std::uint64_t>(plan.scales.size()));
  for (const double scale : plan.scales) digest.add(scale);
  for (const std::uint64_t seed : plan.seeds) digest.add(seed);
  plan.inputs = digest.hex();
  return {};
}

Result<void> check_axes(const SweepBase& base, const SweepPlan& plan) {
  MUSTER_TRY_VOID(parse_fleet(base.fleet_text, base.inputs.fleet_path));
  std::set<std::string> paths;
  for (const Axis& axis : plan.axes) {
    if (!paths.insert(axis.path).second) return fail("--set {}: given twice; give all its values at once", axis.path);
    std::optional<Error> first;
    std::size_t failures = 0;
    for (const std::string& value : axis.values)
      if (const Result<FleetFile> file = fleet_of(base, {{axis.path, value}}); !file) {
        if (!first) first = file.error();
        ++failures;
      }
    // A value that only works together with another axis' is refused point by point; a field that nobody knows is not.
    if (first && (failures == axis.values.size() || plan.axes.size() == 1)) return std::unexpected(*first);
  }
  return {};
}

Result<void> run_sweep(const SweepBase& base, const SweepPlan& plan, const Shard& shard, int threads,
                       PointsWriter& writer, const std::function<void(const SweepProgress&)>& progress) {
  std::vector<std::size_t> pending;
  SweepProgress share;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (!shard.has(i)) continue;
    ++share.total;
    if (writer.found().contains(i))
      ++share.done;
    else
      pending.push_back(i);
  }
  std::ranges::stable_sort(pending, {}, [&](std::size_t i) { return TraceCache::key(plan.point(i)); });
  TraceCache traces(base, plan, pending);
  std::mutex mutex;
  std::optional<Error> error;
  std::atomic<bool> stop = false;
  progress(share);
  parallel_for(pending.size(), threads, [&](std::size_t job) {
    if (stop) return;
    Result<PointRecord> record = run_point(base, plan, plan.point(pending[job]), traces);
    const Result<void> written = record ? writer.append(*record) : std::unexpected(record.error());
    const std::lock_guard lock(mutex);
    if (!written) {
      if (!error) error = written.error();
      stop = true;
      return;
    }
    ++share.done;
    progress(share);
  });
  if (error) return std::unexpected(*error);
  return {};
}

report::Sweep table_of(const SweepPlan& plan, const std::map<std::size_t, PointRecord>& points) {
  report::Sweep sweep{.fleet = plan.fleet, .traffic = plan.traffic, .seeds = plan.seeds};
  for (const Axis& axis : plan.axes) sweep.axes.push_back(axis.path);
  const std::size_t seeds = plan.seeds.size();
  for (std::size_t first = 0; first < plan.size(); first += seeds) {  // the seeds of a variant are neighbours
    const SweepPoint point = plan.point(first);
    report::SweepRow row{.scale = plan.scales[point.scale]};
    for (const Setting& s : plan.settings(point)) row.settings.push_back(s.value);
    std::vector<const PointRecord*> runs;
    for (std::size_t i = first; i < first + seeds; ++i) {
      const PointRecord& record = points.at(i);
      if (!record.refused.empty()) row.refused = record.refused;
      runs.push_back(&record);
    }
    for (std::size_t m = 0; row.refused.empty() && m < report::measures().size(); ++m) {
      std::vector<double> values;
      for (const PointRecord* run : runs)
        if (run->values[m]) values.push_back(*run->values[m]);
      if (values.size() != seeds) {
        row.figures.push_back(std::nullopt);
        continue;
      }
      report::Estimate e{.name = std::string(report::measures()[m].name), .value = mean_interval_95(values).mean};
      if (const auto interval = mean_confidence_95(values)) {
        e.low = interval->low;
        e.high = interval->high;
      }
      row.figures.emplace_back(std::move(e));
    }
    if (row.refused.empty() && runs.front()->targets_met) {
      double met = 0;
      for (const PointRecord* run : runs) met += run->targets_met.value_or(false);
      row.targets_met = met / static_cast<double>(seeds);
    }
    sweep.rows.push_back(std::move(row));
  }
  report::mark_pareto(sweep);
  return sweep;
}

namespace {

Result<std::vector<std::string>> points_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("points") && name.ends_with(".jsonl")) paths.push_back(entry.path().string());
  }
  if (error) return fail("{}: {}", folder, error.message());
  if (paths.empty()) return fail("{}: no points*.jsonl in it; is it the --out folder of a sweep?", folder);
  std::ranges::sort(paths);
  return paths;
}

std::unexpected<Error> missing(const SweepPlan& plan, const std::map<std::size_t, PointRecord>& points,
                               std::size_t shards) {
  constexpr std::size_t kNamed = 10;
  std::vector<std::string> names;
  std::set<std::size_t> of_shards;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (points.contains(i)) continue;
    if (names.size() < kNamed) names.push_back(fmt::format("{} ({})", i, plan.text(plan.point(i))));
    of_shards.insert(i % shards + 1);
  }
  std::string which;
  if (shards > 1)
    which = fmt::format(" of shard{} {} of {}", of_shards.size() > 1 ? "s" : "", fmt::join(of_shards, ", "), shards);
  const std::size_t count = plan.size() - points.size();
  return std::unexpected(
      Error{fmt::format("{} of {} points are missing{}: {}{}; run what is missing again with the same --out", count,
                        plan.size(), which, join(names, ", "), count > kNamed ? ", ..." : ""),
            Error::Kind::kNo});
}

}  // namespace

Result<MergedSweep> merge(const std::vector<std::string>& folders) {
  MergedSweep merged;
  std::string first_path;
  std::size_t shards = 1;
  for (const std::string& folder : folders) {
    MUSTER_TRY(const std::vector<std::string> paths, points_files(folder));
    for (const std::string& path : paths) {
      MUSTER_TRY(PointsFile file, read_points(path));
      if (file.whole_bytes == 0) continue;  // a shard that was killed before it began
      if (first_path.empty()) {
        first_path = path;
        merged.plan = file.plan;
      } else if (const std::string what = difference(merged.plan, file.plan); !what.empty()) {
        return fail("{} and {} belong to different sweeps: {}", first_path, path, what);
      }
      shards = std::max(shards, file.shard.n);
      for (auto& [index, record] : file.points) {
        const auto [at, fresh] = merged.points.try_emplace(index, record);
        if (!fresh && at->second != record)
          return fail("{}: point {} differs from another shard's: were they made by different builds of muster?", path,
                      index);
      }
    }
  }
  if (first_path.empty()) return fail("no points in {}", join(folders, ", "));
  if (merged.points.size() < merged.plan.size()) return missing(merged.plan, merged.points, shards);
  return merged;
}

}  // namespace muster::app
