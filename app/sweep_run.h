// Running a sweep, and joining the shards of one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "deployment_options.h"
#include "fleet_file.h"
#include "muster/report/sweep.h"
#include "sweep_log.h"
#include "sweep_plan.h"
#include "traffic_source.h"

namespace muster::app {

struct SweepInputs {
  std::string fleet_path, trace, profile, pool;
  std::vector<std::string> catalog_files;
  double warm_up_s = 0;
};

// What every point is made from; read once.
struct SweepBase {
  SweepInputs inputs;
  std::string fleet_text;
  Catalogues catalogues;
  TrafficSource traffic;
};
Result<SweepBase> read_sweep_base(const SweepInputs& inputs);

// Sets plan.inputs: a digest of the plan and of the content of every file that the results depend on.
Result<void> digest_inputs(const SweepBase& base, SweepPlan& plan);

// Does every value of every axis give a fleet file that can be read (each axis by itself)? The complaint names the
// setting; an unknown field comes with "did you mean".
Result<void> check_axes(const SweepBase& base, const SweepPlan& plan);

struct SweepProgress {
  std::size_t done = 0, total = 0;
};
// Runs those of the shard's points that `writer` did not find, on `threads` threads; each is appended as it finishes.
// Stops at the first failure that is not a matter of one point.
Result<void> run_sweep(const SweepBase& base, const SweepPlan& plan, const Shard& shard, int threads,
                       PointsWriter& writer, const std::function<void(const SweepProgress&)>& progress);

// The results of every point by variant: seeds are joined. Requires all points of the plan.
report::Sweep table_of(const SweepPlan& plan, const std::map<std::size_t, PointRecord>& points);

// All points*.jsonl of the folders. Fails when they belong to different sweeps, contradict each other, or (kNo) when
// points are missing: names them and the shard that had them.
struct MergedSweep {
  SweepPlan plan;
  std::map<std::size_t, PointRecord> points;
};
Result<MergedSweep> merge(const std::vector<std::string>& folders);

}  // namespace muster::app
