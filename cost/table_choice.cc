#include "table_choice.h"

#include <array>
#include <utility>

#include "muster/core/check.h"
#include "muster_cost_data.h"

namespace muster::cost {
namespace {

constexpr std::size_t kTablesMax = 32;

// The built-in table in place `index` of the embedded files: a constant, parsed on first use, as parsing takes
// milliseconds and a planner asks for the same table thousands of times.
template <std::size_t index>
const OperatorTable& built_in() {
  static const OperatorTable table = [] {
    const embedded::File& file = embedded_files()[index];
    auto parsed = parse_operator_table(file.content, std::string(file.name));
    MUSTER_CHECK(parsed, "{}", parsed.error().message);
    return *std::move(parsed);
  }();
  return table;
}

template <std::size_t... index>
const OperatorTable& built_in_at(std::size_t wanted, std::index_sequence<index...>) {
  constexpr std::array<const OperatorTable& (*)(), sizeof...(index)> kTables = {built_in<index>...};
  return kTables[wanted]();
}

const OperatorTable* built_in_table(const std::string& gpu, const std::string& engine) {
  const std::string name = "data/operators/" + gpu + "__" + engine + ".table";
  const auto files = embedded_files();
  MUSTER_CHECK(files.size() <= kTablesMax, "more than {} files are built in", kTablesMax);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (files[i].name == name) return &built_in_at(i, std::make_index_sequence<kTablesMax>());
  return nullptr;
}

// The measured device whose kernels behave most like those of `gpu`; empty when none does.
std::string nearest_device(const hardware::Gpu& gpu) {
  const auto is = [&gpu](const char* part) { return gpu.architecture.find(part) != std::string::npos; };
  if (is("Hopper")) return gpu.key.find("h200") != std::string::npos ? "h200-sxm" : "h100-sxm";
  if (is("Blackwell")) return gpu.memory_bytes_per_s > 3e12 ? "b200-sxm" : "l40s";  // GDDR parts: like the L40S
  if (is("Ada")) return "l40s";
  if (is("Ampere") || is("Turing") || is("Volta")) return "a100-sxm-80";
  return "";
}

// The engines whose kernels were measured; others use much the same libraries as vLLM.
std::string nearest_engine(const std::string& engine) {
  if (engine == "tensorrt-llm") return "trtllm";
  return engine == "muster" ? "" : "vllm";
}

}  // namespace

std::string describe(const OperatorTable& table) {
  return fmt::format("{}, {} {}", table.gpu, table.engine, table.engine_version);
}

TableChoice choose_table(const hardware::Gpu& gpu, const std::string& engine) {
  TableChoice choice;
  const std::string family = nearest_engine(engine);
  choice.same_engine = engine == "vllm" || engine == "tensorrt-llm";
  choice.table = gpu.is_slice ? nullptr : built_in_table(gpu.key, family);
  choice.same_device = choice.table != nullptr;
  if (!choice.table) choice.table = built_in_table(nearest_device(gpu), family);
  if (!choice.table) {
    choice.text = fmt::format("no measured device is like {}", gpu.key);
    return choice;
  }
  choice.text = describe(*choice.table);
  if (!choice.same_device) choice.text += fmt::format(", scaled to the roofline of {}", gpu.key);
  if (!choice.same_engine) choice.text += fmt::format(", borrowed for {}", engine);
  return choice;
}

const OperatorTable* other_engine_table(const OperatorTable& table) {
  return built_in_table(table.gpu, table.engine == "vllm" ? "trtllm" : "vllm");
}

}  // namespace muster::cost
