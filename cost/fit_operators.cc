#include "muster/cost/fit_operators.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "measured_rows.h"
#include "muster/core/text.h"
#include "muster/files/document.h"

namespace muster::cost {
namespace {

using Reader = Result<KeyedObservations> (*)(const MeasuredTable&);

struct Source {
  const char* file;  // the third part of the file's name
  const char* op;
  Reader reader;
};
constexpr Source kSources[] = {
    {"gemm_perf", "gemm", read_gemm},
    {"context_attention_perf", "prefill", read_context_attention},
    {"generation_attention_perf", "decode", read_generation_attention},
    {"mla_context_module_perf", "mla_prefill", read_mla_context_module},
    {"mla_generation_module_perf", "mla_decode", read_mla_generation_module},
    {"moe_perf", "moe", read_moe},
    {"custom_allreduce_perf", "all_reduce", read_custom_all_reduce},
    {"nccl_perf", "all_gather", read_nccl},
};

struct MeasuredFile {
  std::string path;
  std::string name;       // without folder
  std::string gpu;        // catalogue key
  std::string framework;  // "vllm", "trtllm", "nccl"
  std::string version;
  const Source* source = nullptr;
};

// "a100_sxm" of the tables is the 80 GB part.
std::string gpu_key(const std::string& device) {
  if (device == "a100_sxm") return "a100-sxm-80";
  std::string key = device;
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

std::optional<MeasuredFile> parse_name(const std::filesystem::path& path) {
  MeasuredFile file;
  file.path = path.string();
  file.name = path.filename().string();
  std::vector<std::string> parts;
  std::string stem = file.name.substr(0, file.name.find(".csv"));
  for (std::size_t at = stem.find("__"); at != std::string::npos; at = stem.find("__")) {
    parts.push_back(stem.substr(0, at));
    stem = stem.substr(at + 2);
  }
  parts.push_back(stem);
  const std::size_t underscore = parts.size() == 3 ? parts[1].find('_') : std::string::npos;
  if (underscore == std::string::npos) return std::nullopt;
  file.gpu = gpu_key(parts[0]);
  file.framework = parts[1].substr(0, underscore);
  file.version = parts[1].substr(underscore + 1);
  for (const Source& source : kSources)
    if (parts[2] == source.file) file.source = &source;
  return file.source ? std::optional(file) : std::nullopt;
}

// File name -> "repository@commit path", from index.json; empty when there is none.
Result<std::map<std::string, std::string>> read_index(const std::string& folder) {
  std::map<std::string, std::string> sources;
  const std::string path = folder + "/index.json";
  if (!std::filesystem::exists(path)) return sources;
  MUSTER_TRY(const files::Node index, files::read_document(path));
  const auto text = [](const files::Node& node, std::string_view key) {
    const auto child = node.find(key);
    return child ? child->text().value_or("") : std::string();
  };
  const std::string origin = text(index, "repo") + "@" + text(index, "commit").substr(0, 12);
  if (const auto tables = index.find("tables"))
    for (const files::Node& table : tables->items())
      sources[text(table, "file")] = origin + " " + text(table, "source_path");
  return sources;
}

struct Pending {
  OperatorTable table;
  FittedTable fitted;
};

Result<void> add_file(const MeasuredFile& file, const std::string& source, Pending& pending) {
  MUSTER_TRY(const KeyedObservations keyed,
             file.source->reader({.path = file.path, .framework = file.framework, .rates = pending.table.rates}));
  for (const auto& [key, observations] : keyed) {
    Grid grid = grid_of(file.source->op, key);
    grid.source = source;
    fit_grid(grid, observations);
    pending.fitted.grids.push_back({.op = grid.op,
                                    .key = grid.key,
                                    .rows = grid.rows,
                                    .median_error = grid.median_error,
                                    .p90_error = grid.p90_error,
                                    .faster_than_ideal = grid.faster_than_ideal});
    pending.table.grids.push_back(std::move(grid));
  }
  return {};
}

Result<std::vector<MeasuredFile>> list_files(const std::string& folder) {
  std::error_code error;
  std::vector<MeasuredFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (const auto file = parse_name(entry.path())) files.push_back(*file);
  if (error) return fail("{}: {}", folder, error.message());
  if (files.empty())
    return fail(
        "{}: no table named DEVICE__FRAMEWORK_VERSION__OPERATOR.csv[.gz], such as "
        "h100_sxm__vllm_0.24.0__gemm_perf.csv.gz",
        folder);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

}  // namespace

Result<std::vector<FittedTable>> fit_operators(const std::string& folder, std::span<const hardware::Gpu> gpus,
                                               const std::function<void(const std::string&)>& progress) {
  MUSTER_TRY(const std::vector<MeasuredFile> files, list_files(folder));
  MUSTER_TRY(const auto sources, read_index(folder));
  std::map<std::string, Pending> tables;  // by file name of the result
  for (const MeasuredFile& file : files) {
    if (file.framework == "nccl") continue;
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const auto& g) { return g.key == file.gpu; });
    if (gpu == gpus.end()) return fail("{}: no GPU `{}` in the catalogue", file.path, file.gpu);
    Pending& pending = tables[fmt::format("{}__{}.table", file.gpu, file.framework)];
    pending.table.gpu = file.gpu;
    pending.table.engine = file.framework;
    pending.table.engine_version = file.version;
    pending.table.rates = device_rates(*gpu);
  }
  for (const MeasuredFile& file : files) {
    progress(file.name);
    const auto found = sources.find(file.name);
    const std::string source = found == sources.end() ? file.name : found->second;
    for (auto& [name, pending] : tables)
      // What NCCL does belongs to every engine on the device.
      if (pending.table.gpu == file.gpu && (file.framework == pending.table.engine || file.framework == "nccl"))
        MUSTER_TRY_VOID(add_file(file, source, pending));
  }
  std::vector<FittedTable> out;
  for (auto& [name, pending] : tables) {
    pending.fitted.file_name = name;
    pending.fitted.content = to_text(pending.table);
    out.push_back(std::move(pending.fitted));
  }
  return out;
}

}  // namespace muster::cost
