#include "muster/workload/read.h"

#include <optional>
#include <vector>

#include "columns.h"
#include "muster/core/text.h"
#include "muster/files/csv.h"
#include "muster/files/lines.h"
#include "read_json.h"
#include "trace_builder.h"

namespace muster::workload {
namespace {

TraceBuilder::Names names_of(const Columns& columns, const std::vector<std::string>& names, std::string unit) {
  return {.arrival = names[columns.arrival],
          .input = names[columns.input],
          .output = names[columns.output],
          .blocks = columns.blocks ? names[*columns.blocks] : "",
          .think = columns.think ? names[*columns.think] : "think_s",
          .unit = std::move(unit)};
}

TraceBuilder builder_for(const std::string& path, const Columns& columns, const std::vector<std::string>& names,
                         const char* unit) {
  return TraceBuilder(path, names_of(columns, names, unit), TimeColumn(columns.time_exponent),
                      columns.format == Format::kBurstGpt);
}

Result<Trace> read_csv(const std::string& path) {
  MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
  MUSTER_TRY(const Columns columns, assign_columns(csv.columns(), false, csv.where()));
  TraceBuilder builder = builder_for(path, columns, csv.columns(), "column");
  for (;;) {
    MUSTER_TRY(const bool more, csv.next());
    if (!more) break;
    const std::string problem =
        builder.add({.arrival = csv.field(columns.arrival),
                     .input = csv.field(columns.input),
                     .output = csv.field(columns.output),
                     .blocks = columns.blocks ? csv.field(*columns.blocks) : std::string_view(),
                     .tenant = columns.tenant ? std::optional(csv.field(*columns.tenant)) : std::nullopt,
                     .session = columns.session ? csv.field(*columns.session) : std::string_view(),
                     .think = columns.think ? csv.field(*columns.think) : std::string_view()});
    if (!problem.empty()) return fail("{}: {}", csv.where(), problem);
  }
  return std::move(builder).finish();
}

// The next line that is not blank; false at the end.
Result<bool> next_line(files::LineReader& lines, std::string_view& line) {
  do {
    MUSTER_TRY(const bool more, lines.next(line));
    if (!more) return false;
    if (lines.line_number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  } while (trim(line).empty());
  return true;
}

Result<Trace> read_jsonl(const std::string& path) {
  MUSTER_TRY(files::LineReader lines, files::LineReader::open(path));
  std::string_view line;
  MUSTER_TRY(bool more, next_line(lines, line));
  if (!more) return fail("{}: the file is empty; requests are needed", path);
  auto names = JsonRow::keys(line);
  if (!names) return fail("{}: {}", lines.where(), names.error().message);
  MUSTER_TRY(const Columns columns, assign_columns(*names, true, lines.where()));
  TraceBuilder builder = builder_for(path, columns, *names, "key");

  // Positions in `wanted`: 0 arrival, 1 input, 2 output, then the optional ones.
  std::vector<std::string> wanted = {(*names)[columns.arrival], (*names)[columns.input], (*names)[columns.output]};
  const std::size_t blocks = 3;
  const std::size_t tenant = 4;
  const std::size_t session = 5;
  const std::size_t think = 6;
  wanted.push_back(columns.blocks ? (*names)[*columns.blocks] : "hash_ids");
  wanted.push_back(columns.tenant ? (*names)[*columns.tenant] : "tenant");
  wanted.push_back(columns.session ? (*names)[*columns.session] : "session");
  wanted.push_back(columns.think ? (*names)[*columns.think] : "think_s");
  JsonRow row(wanted);
  while (more) {
    std::string problem = row.read(line);
    for (std::size_t i = 0; i < 3 && problem.empty(); ++i)
      if (!row.present(i)) problem = fmt::format("the key `{}` is missing", wanted[i]);
    if (problem.empty())
      problem = builder.add({.arrival = row.text(0),
                             .input = row.text(1),
                             .output = row.text(2),
                             .blocks = row.text(blocks),
                             .tenant = row.present(tenant) ? std::optional(row.text(tenant)) : std::nullopt,
                             .session = row.text(session),
                             .think = row.text(think)});
    if (!problem.empty()) return fail("{}: {}", lines.where(), problem);
    MUSTER_TRY(more, next_line(lines, line));
  }
  return std::move(builder).finish();
}

// Whether the first line that is not blank begins like JSON.
Result<bool> is_json(const std::string& path) {
  MUSTER_TRY(files::LineReader lines, files::LineReader::open(path));
  std::string_view line;
  MUSTER_TRY(const bool more, next_line(lines, line));
  if (!more) return fail("{}: the file is empty; a trace of requests is needed", path);
  const std::string_view text = trim(line);
  if (text.starts_with('['))
    return fail("{}: begins with a JSON list; JSON Lines (one object per line) or CSV is needed", lines.where());
  return text.starts_with('{');
}

}  // namespace

Result<Trace> read_trace(const std::string& path) {
  MUSTER_TRY(const bool json, is_json(path));
  return json ? read_jsonl(path) : read_csv(path);
}

Result<Format> recognise(const std::string& path) {
  MUSTER_TRY(const bool json, is_json(path));
  if (!json) {
    MUSTER_TRY(const files::CsvReader csv, files::CsvReader::open(path));
    MUSTER_TRY(const Columns columns, assign_columns(csv.columns(), false, csv.where()));
    return columns.format;
  }
  MUSTER_TRY(files::LineReader lines, files::LineReader::open(path));
  std::string_view line;
  MUSTER_TRY_VOID(next_line(lines, line));
  const auto names = JsonRow::keys(line);
  if (!names) return fail("{}: {}", lines.where(), names.error().message);
  MUSTER_TRY(const Columns columns, assign_columns(*names, true, lines.where()));
  return columns.format;
}

std::string_view name(Format format) {
  switch (format) {
    case Format::kAzure:
      return "Azure CSV";
    case Format::kMooncake:
      return "Mooncake JSONL";
    case Format::kBurstGpt:
      return "BurstGPT CSV";
    case Format::kCsv:
      return "CSV";
    case Format::kJsonl:
      return "JSONL";
  }
  return "";
}

}  // namespace muster::workload
