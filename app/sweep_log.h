// points.jsonl: the head line says which sweep it belongs to, then one line per finished point in the order in which
// they finished. docs/formats/sweep.md describes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "sweep_plan.h"

namespace muster::app {

struct PointRecord {
  std::size_t index = 0;
  std::string refused;  // why this point cannot run; empty: it ran
  std::string digest;
  std::optional<bool> targets_met;            // nullopt: no class has targets
  std::vector<std::optional<double>> values;  // [report::measures()]
  bool operator==(const PointRecord&) const = default;
};

// The lines without their ends.
std::string head_line(const SweepPlan& plan, const Shard& shard);
std::string point_line(const SweepPlan& plan, const PointRecord& record);

struct PointsFile {
  SweepPlan plan;
  Shard shard;
  std::map<std::size_t, PointRecord> points;
  std::size_t whole_bytes = 0;  // up to the last complete line
};
// A last line without its end (the writer was killed) is left out; any other damage fails with file and line.
Result<PointsFile> read_points(const std::string& path);

// Appends finished points to a file that nobody else writes. May be used from several threads.
class PointsWriter {
 public:
  // Opens `path`, new or as a former run of the same sweep left it. Fails if it belongs to other inputs (says what
  // differs), or if another process writes to it.
  static Result<std::unique_ptr<PointsWriter>> open(const std::string& path, const SweepPlan& plan, const Shard& shard);
  ~PointsWriter();
  PointsWriter(const PointsWriter&) = delete;
  PointsWriter& operator=(const PointsWriter&) = delete;

  const std::map<std::size_t, PointRecord>& found() const { return found_; }
  // In one write, so that a line is whole or absent. Fails on a full disk.
  Result<void> append(const PointRecord& record);

 private:
  PointsWriter(std::string path, int file, SweepPlan plan)
      : path_(std::move(path)), file_(file), plan_(std::move(plan)) {}
  Result<void> write_line(const std::string& line);

  std::string path_;
  int file_;
  SweepPlan plan_;
  std::mutex mutex_;
  std::map<std::size_t, PointRecord> found_;
};

// "" for the same sweep; else what is different, in words.
std::string difference(const SweepPlan& found, const SweepPlan& wanted);

}  // namespace muster::app
