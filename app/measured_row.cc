#include "measured_row.h"

#include <cmath>
#include <utility>

#include "muster/files/csv.h"

namespace muster::app {
namespace {

using Text = std::pair<const char*, std::string MeasuredRow::*>;
using Whole = std::pair<const char*, std::optional<int> MeasuredRow::*>;
using Real = std::pair<const char*, std::optional<double> MeasuredRow::*>;

constexpr Text kTexts[] = {{"row_id", &MeasuredRow::row_id},
                           {"source", &MeasuredRow::source},
                           {"source_ref", &MeasuredRow::source_ref},
                           {"date", &MeasuredRow::date},
                           {"engine", &MeasuredRow::engine},
                           {"engine_version", &MeasuredRow::engine_version},
                           {"model", &MeasuredRow::model},
                           {"model_key", &MeasuredRow::model_key},
                           {"gpu", &MeasuredRow::gpu},
                           {"gpu_key", &MeasuredRow::gpu_key},
                           {"precision", &MeasuredRow::precision},
                           {"kv_precision", &MeasuredRow::kv_precision},
                           {"mode", &MeasuredRow::mode},
                           {"scenario", &MeasuredRow::scenario},
                           {"load_kind", &MeasuredRow::load_kind},
                           {"note", &MeasuredRow::note},
                           {"ttft_stat", &MeasuredRow::ttft_stat},
                           {"tpot_stat", &MeasuredRow::tpot_stat}};
constexpr Whole kWholes[] = {{"tp", &MeasuredRow::tp},
                             {"pp", &MeasuredRow::pp},
                             {"dp", &MeasuredRow::dp},
                             {"ep", &MeasuredRow::ep},
                             {"num_gpus", &MeasuredRow::num_gpus}};
constexpr Real kReals[] = {{"isl", &MeasuredRow::isl},
                           {"osl", &MeasuredRow::osl},
                           {"concurrency_or_batch", &MeasuredRow::concurrency},
                           {"request_rate", &MeasuredRow::request_rate},
                           {"output_tok_s_total", &MeasuredRow::output_tok_s},
                           {"ttft_ms", &MeasuredRow::ttft_ms},
                           {"tpot_ms", &MeasuredRow::tpot_ms},
                           {"e2e_ms", &MeasuredRow::e2e_ms}};

template <class Member>
Result<void> read_number(const files::CsvReader& csv, std::size_t column, MeasuredRow& row, Member member) {
  if (csv.field(column).empty()) return {};
  if constexpr (std::is_same_v<Member, std::optional<int> MeasuredRow::*>) {
    MUSTER_TRY(const std::int64_t value, csv.integer(column, 1, 1'000'000));
    row.*member = static_cast<int>(value);
  } else {
    MUSTER_TRY(const double value, csv.number(column));
    if (value <= 0) return fail("{}: {}: {} found, a number above 0 needed", csv.where(), csv.columns()[column], value);
    row.*member = value;
  }
  return {};
}

}  // namespace

Result<std::vector<MeasuredRow>> read_measured_rows(const std::string& path) {
  MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
  for (const char* needed : {"model_key", "gpu_key"}) MUSTER_TRY_VOID(csv.need(needed));
  std::vector<MeasuredRow> rows;
  for (;;) {
    MUSTER_TRY(const bool more, csv.next());
    if (!more) return rows;
    MeasuredRow row;
    for (const auto& [name, member] : kTexts)
      if (const auto column = csv.find(name)) row.*member = std::string(csv.field(*column));
    for (const auto& [name, member] : kWholes)
      if (const auto column = csv.find(name)) MUSTER_TRY_VOID(read_number(csv, *column, row, member));
    for (const auto& [name, member] : kReals)
      if (const auto column = csv.find(name)) MUSTER_TRY_VOID(read_number(csv, *column, row, member));
    if (row.row_id.empty()) row.row_id = fmt::format("line {}", rows.size() + 2);
    rows.push_back(std::move(row));
  }
}

}  // namespace muster::app
