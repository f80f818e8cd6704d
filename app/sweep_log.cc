#include "sweep_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "exact_number.h"
#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster/files/lines.h"
#include "muster/report/measures.h"

namespace muster::app {
namespace {

constexpr int kFormat = 1;

template <class T, class Write>
std::string list(const std::vector<T>& values, Write write) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(write(value));
  return "[" + join(parts, ", ") + "]";
}

Result<SweepPlan> plan_of(const files::Node& head, Shard& shard) {
  SweepPlan plan;
  files::MapReader read(head);
  int format = 0;
  std::size_t points = 0;
  std::string shard_text;
  read.required("muster_sweep", format);
  read.required("inputs", plan.inputs);
  read.required("fleet", plan.fleet);
  read.required("traffic", plan.traffic);
  read.required("points", points);
  read.required("scales", plan.scales);
  read.required("seeds", plan.seeds);
  read.required("shard", shard_text);
  if (const auto axes = read.required_child("set"))
    for (const files::Node& item : axes->items()) {
      Axis axis;
      files::MapReader inner(item);
      inner.required("path", axis.path);
      inner.required("values", axis.values);
      if (const Result<void> r = inner.finish(); !r) read.fail_with(std::unexpected(r.error()));
      plan.axes.push_back(std::move(axis));
    }
  MUSTER_TRY_VOID(read.finish());
  if (format != kFormat) return head.error(fmt::format("format {} found; this muster reads {}", format, kFormat));
  MUSTER_TRY(shard, parse_shard(shard_text));
  if (plan.scales.empty() || plan.seeds.empty() || plan.size() != points)
    return head.error(fmt::format("{} points found, but the axes make {}", points, plan.size()));
  return plan;
}

Result<PointRecord> record_of(const files::Node& line, const SweepPlan& plan) {
  PointRecord record;
  files::MapReader read(line);
  read.required("point", record.index);
  read.ignore("set");
  read.ignore("scale");
  read.ignore("seed");
  read.optional("refused", record.refused);
  read.optional("digest", record.digest);
  bool met = false;
  if (read.child("targets_met")) {
    read.optional("targets_met", met);
    record.targets_met = met;
  }
  const auto values = read.child("values");
  MUSTER_TRY_VOID(read.finish());
  if (record.index >= plan.size())
    return line.error(fmt::format("point {} found; the sweep has {}", record.index, plan.size()));
  if (!record.refused.empty()) return record;
  if (!values) return line.error("values are missing");
  for (const report::Measure& m : report::measures()) {
    const auto value = values->find(m.name);
    if (!value) {
      record.values.push_back(std::nullopt);
      continue;
    }
    MUSTER_TRY(const double number, value->number());
    record.values.push_back(number);
  }
  return record;
}

}  // namespace

std::string head_line(const SweepPlan& plan, const Shard& shard) {
  const auto axis = [](const Axis& a) {
    return fmt::format("{{\"path\": {}, \"values\": {}}}", json_text(a.path), list(a.values, json_text));
  };
  const auto plain = [](const auto& x) { return fmt::format("{}", x); };
  return fmt::format(
      "{{\"muster_sweep\": {}, \"inputs\": {}, \"fleet\": {}, \"traffic\": {}, \"points\": {}, \"shard\": \"{}/{}\", "
      "\"set\": {}, \"scales\": {}, \"seeds\": {}}}",
      kFormat, json_text(plan.inputs), json_text(plan.fleet), json_text(plan.traffic), plan.size(), shard.i, shard.n,
      list(plan.axes, axis), list(plan.scales, plain), list(plan.seeds, plain));
}

std::string point_line(const SweepPlan& plan, const PointRecord& record) {
  const SweepPoint point = plan.point(record.index);
  std::vector<std::string> set;
  for (const Setting& s : plan.settings(point)) set.push_back(json_text(s.path) + ": " + json_text(s.value));
  std::string line = fmt::format("{{\"point\": {}, \"set\": {{{}}}, \"scale\": {}, \"seed\": {}", record.index,
                                 join(set, ", "), plan.scales[point.scale], plan.seeds[point.seed]);
  if (!record.refused.empty()) return line + fmt::format(", \"refused\": {}}}", json_text(record.refused));
  std::vector<std::string> values;
  for (std::size_t i = 0; i < record.values.size(); ++i)  // as many digits as read back the same double
    values.push_back(fmt::format("\"{}\": {}", report::measures()[i].name,
                                 record.values[i] ? fmt::format("{}", *record.values[i]) : "null"));
  if (record.targets_met) line += fmt::format(", \"targets_met\": {}", *record.targets_met);
  return line + fmt::format(", \"digest\": {}, \"values\": {{{}}}}}", json_text(record.digest), join(values, ", "));
}

Result<PointsFile> read_points(const std::string& path) {
  MUSTER_TRY(const std::string text, files::read_file(path, std::size_t{4} << 30));
  PointsFile file;
  const std::size_t last = text.rfind('\n');
  file.whole_bytes = last == std::string::npos ? 0 : last + 1;
  std::size_t number = 0;
  for (const std::string_view line : split(std::string_view(text).substr(0, file.whole_bytes), '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    MUSTER_TRY(const files::Node node, files::parse_document(line, fmt::format("{} line {}", path, number)));
    if (number == 1) {
      MUSTER_TRY(file.plan, plan_of(node, file.shard));
      continue;
    }
    MUSTER_TRY(PointRecord record, record_of(node, file.plan));
    const std::size_t index = record.index;
    file.points.insert_or_assign(index, std::move(record));
  }
  return file;
}

std::string difference(const SweepPlan& found, const SweepPlan& wanted) {
  if (found.inputs == wanted.inputs) return "";
  std::vector<std::string> parts;
  if (found.fleet != wanted.fleet) parts.push_back(fmt::format("fleet {} there, {} here", found.fleet, wanted.fleet));
  if (found.traffic != wanted.traffic)
    parts.push_back(fmt::format("traffic {} there, {} here", found.traffic, wanted.traffic));
  const auto axis_text = [](const SweepPlan& plan) {
    std::vector<std::string> axes;
    for (const Axis& a : plan.axes) axes.push_back(a.path + "=" + join(a.values, ","));
    return axes.empty() ? "nothing" : join(axes, " ");
  };
  if (axis_text(found) != axis_text(wanted))
    parts.push_back(fmt::format("--set {} there, {} here", axis_text(found), axis_text(wanted)));
  if (found.scales != wanted.scales) parts.push_back("other scales");
  if (found.seeds != wanted.seeds) parts.push_back("other seeds");
  if (parts.empty())
    return "the fleet file, the traffic, a catalogue file, the warm-up, the pool or the version of muster has changed";
  return join(parts, "; ");
}

Result<std::unique_ptr<PointsWriter>> PointsWriter::open(const std::string& path, const SweepPlan& plan,
                                                         const Shard& shard) {
  const auto system_error = [&](const char* what) { return fail("{}: {}: {}", path, what, std::strerror(errno)); };
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return fail("{}: cannot be made: {}", folder.string(), error.message());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return system_error("cannot be opened");
  std::unique_ptr<PointsWriter> writer(new PointsWriter(path, file, plan));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? fail("{}: another sweep is writing to it", path) : system_error("cannot be locked");
  MUSTER_TRY(PointsFile found, read_points(path));
  if (::ftruncate(file, static_cast<off_t>(found.whole_bytes)) != 0) return system_error("cannot be cut");
  if (found.whole_bytes == 0) {
    MUSTER_TRY_VOID(writer->write_line(head_line(plan, shard)));
    return writer;
  }
  if (const std::string what = difference(found.plan, plan); !what.empty())
    return fail("{}: belongs to another sweep ({}): give another --out, or remove the file", path, what);
  writer->found_ = std::move(found.points);
  return writer;
}

PointsWriter::~PointsWriter() {
  ::close(file_);
}

Result<void> PointsWriter::append(const PointRecord& record) {
  return write_line(point_line(plan_, record));
}

Result<void> PointsWriter::write_line(const std::string& line) {
  const std::string whole = line + '\n';
  const std::lock_guard lock(mutex_);
  const ssize_t written = ::write(file_, whole.data(), whole.size());
  if (written == static_cast<ssize_t>(whole.size())) return {};
  return fail("{}: cannot be written: {}", path_, written < 0 ? std::strerror(errno) : "no space left");
}

}  // namespace muster::app
