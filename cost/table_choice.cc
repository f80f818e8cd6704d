#include "table_choice.h"

#include <array>
#include <mutex>
#include <optional>

#include "muster/core/check.h"
#include "muster_cost_data.h"

namespace muster::cost {
namespace {

constexpr std::size_t kTablesMax = 32;

// A cache of the built-in tables, each parsed on first use and never changed afterwards: parsing takes milliseconds,
// and a planner asks for the same table thousands of times.
struct Cache {
  struct Entry {
    std::once_flag once;
    std::optional<OperatorTable> table;
  };
  std::array<Entry, kTablesMax> entries;
};

const OperatorTable* built_in_table(const std::string& gpu, const std::string& engine) {
  static Cache cache;
  const std::string name = "data/operators/" + gpu + "__" + engine + ".table";
  std::size_t index = 0;
  for (const embedded::File& file : embedded_files()) {
    if (!file.name.starts_with("data/operators/")) continue;
    MUSTER_CHECK(index < kTablesMax, "more than {} operator tables are built in", kTablesMax);
    Cache::Entry& entry = cache.entries[index++];
    if (file.name != name) continue;
    std::call_once(entry.once, [&] {
      auto table = parse_operator_table(file.content, name);
      MUSTER_CHECK(table, "{}", table.error().message);
      entry.table = *std::move(table);
    });
    return &*entry.table;
  }
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
