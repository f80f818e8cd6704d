#include "read.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/files/document.h"

namespace muster::hardware {
namespace {

using files::MapReader;

constexpr std::array<std::pair<std::string_view, Format>, kFormats> kFormatNames = {{{"fp32", Format::kFp32},
                                                                                     {"tf32", Format::kTf32},
                                                                                     {"fp16", Format::kFp16},
                                                                                     {"bf16", Format::kBf16},
                                                                                     {"fp8", Format::kFp8},
                                                                                     {"int8", Format::kInt8},
                                                                                     {"int4", Format::kInt4},
                                                                                     {"fp4", Format::kFp4}}};

// Reads one number and scales it to the unit of the struct; it must lie in [min, max] of the file's unit.
struct Scaled {
  std::string_view key;
  double scale;
  double min;
  double max;
};
void read_scaled(MapReader& read, const Scaled& field, bool needed, double& out) {
  const auto node = needed ? read.required_child(field.key) : read.child(field.key);
  if (!node) return;
  const Result<double> value = node->number();
  if (!value)
    read.fail_with(std::unexpected(value.error()));
  else if (!(*value >= field.min && *value <= field.max))
    read.fail_with(node->error(fmt::format("{} found; needed: {} to {}", *value, field.min, field.max)));
  else
    out = *value * field.scale;
}

Result<Price> read_price(const files::Node& node, bool& quoted) {
  Price price;
  MapReader read(node);
  read.required("provider", price.provider);
  read.optional("instance", price.instance);
  read_scaled(read, {.key = "usd_per_gpu_hour", .scale = 1, .min = 0, .max = 1e6}, true, price.usd_per_gpu_hour);
  read.optional("quoted", quoted);
  read.required("source", price.source);
  read.required("date", price.date);
  read.optional("note", price.note);
  MUSTER_TRY_VOID(read.finish());
  return price;
}

Result<Link> read_link(const files::Node& node) {
  Link link;
  MapReader read(node);
  read.required("technology", link.technology);
  read_scaled(read, {.key = "gb_per_s_each_way", .scale = 1e9, .min = 0, .max = 1e6}, true, link.bytes_per_s);
  read.required("domain_gpus", link.domain_gpus);
  read.optional("all_to_all", link.all_to_all);
  MUSTER_TRY_VOID(read.finish());
  if (link.domain_gpus < 1) return node.error(fmt::format("domain_gpus is {}; needed: at least 1", link.domain_gpus));
  if (link.domain_gpus > 1 && link.bytes_per_s <= 0)
    return node.error("gb_per_s_each_way is 0 although other devices are reachable");
  return link;
}

Result<void> read_rates(const files::Node& node, Gpu& gpu) {
  MapReader read(node);
  for (const auto& [name, format] : kFormatNames) {
    double flops = 0;
    read_scaled(read, {.key = name, .scale = 1e12, .min = 1e-6, .max = 1e9}, false, flops);
    if (flops > 0) gpu.dense_flops[static_cast<std::size_t>(format)] = flops;
  }
  return read.finish();
}

Result<Gpu> read_gpu(const files::Node& node) {
  Gpu gpu;
  MapReader read(node);
  read.required("key", gpu.key);
  read.required("name", gpu.name);
  read.required("vendor", gpu.vendor);
  read.optional("architecture", gpu.architecture);
  std::int64_t memory_bytes = 0;
  read.required("memory_bytes", memory_bytes);
  gpu.memory = Bytes(memory_bytes);
  read.optional("memory_basis", gpu.memory_basis);
  read_scaled(read, {.key = "memory_gb_per_s", .scale = 1e9, .min = 1e-3, .max = 1e6}, true, gpu.memory_bytes_per_s);
  if (const auto rates = read.required_child("dense_tflops")) {
    MUSTER_TRY_VOID(read_rates(*rates, gpu));
  }
  if (const auto link = read.required_child("scale_up")) {
    MUSTER_TRY(gpu.scale_up, read_link(*link));
  }
  read.optional("topology", gpu.topology);
  read_scaled(read, {.key = "pcie_gb_per_s_each_way", .scale = 1e9, .min = 0, .max = 1e6}, false, gpu.pcie_bytes_per_s);
  read_scaled(read, {.key = "tdp_watts", .scale = 1, .min = 0, .max = 1e6}, false, gpu.tdp_watts);
  read.optional("multiprocessors", gpu.multiprocessors);
  if (const auto prices = read.child("prices"))
    for (const files::Node& item : prices->items()) {
      bool quoted = false;
      MUSTER_TRY(Price price, read_price(item, quoted));
      if (quoted && gpu.price) return item.error("a second price is marked as quoted; needed: at most one");
      if (quoted) gpu.price = price;
      gpu.prices.push_back(std::move(price));
    }
  read.optional("notes", gpu.notes);
  read.required("sources", gpu.sources);
  MUSTER_TRY_VOID(read.finish());
  if (gpu.memory.value < (1 << 20))
    return node.error(fmt::format("memory_bytes is {}; needed: at least 1 MiB", gpu.memory.value));
  if (gpu.key.find('/') != std::string::npos)
    return node.error(fmt::format("key {} contains a slash, which separates a GPU from its MIG profile", gpu.key));
  return gpu;
}

Result<Node> read_node(const files::Node& file_node) {
  Node node;
  MapReader read(file_node);
  read.required("key", node.key);
  read.required("name", node.name);
  read.required("gpu", node.gpu);
  read.required("gpus", node.gpus);
  node.scale_up_gpus = 1;
  read.optional("scale_up_gpus", node.scale_up_gpus);
  read_scaled(read, {.key = "fabric_gb_per_s_each_way", .scale = 1e9, .min = 0, .max = 1e6}, false,
              node.fabric_bytes_per_s);
  read_scaled(read, {.key = "host_ram_gib", .scale = 1, .min = 0, .max = 1e6}, false, node.host_ram_gib);
  read.optional("notes", node.notes);
  read.required("sources", node.sources);
  MUSTER_TRY_VOID(read.finish());
  if (node.gpus < 1 || node.scale_up_gpus < 1)
    return file_node.error(
        fmt::format("gpus {} and scale_up_gpus {}; needed: at least 1 each", node.gpus, node.scale_up_gpus));
  return node;
}

// A placement must lie on the grid of memory slices and the profile must not be larger than the device.
Result<void> check_profile(const files::Node& node, const MigProfile& profile, const MigConfig& config) {
  if (profile.compute_slices < 1 || profile.compute_slices > config.compute_slices_total)
    return node.error(
        fmt::format("compute_slices is {}; needed: 1 to {}", profile.compute_slices, config.compute_slices_total));
  if (profile.memory_slices < 1 || profile.memory_slices > config.memory_slices_total)
    return node.error(
        fmt::format("memory_slices is {}; needed: 1 to {}", profile.memory_slices, config.memory_slices_total));
  if (profile.max_instances < 1 || std::ssize(profile.placement_starts) < profile.max_instances)
    return node.error(
        fmt::format("max_instances is {} with {} placements", profile.max_instances, profile.placement_starts.size()));
  for (const int start : profile.placement_starts)
    if (start < 0 || profile.placement_size < 1 || start > config.memory_slices_total - profile.placement_size)
      return node.error(fmt::format("placement {}+{} is outside the {} memory slices", start, profile.placement_size,
                                    config.memory_slices_total));
  return {};
}

Result<MigProfile> read_profile(const files::Node& node, const MigConfig& config) {
  MigProfile profile;
  MapReader read(node);
  std::int64_t memory_mib = 0;
  read.required("name", profile.name);
  read.required("compute_slices", profile.compute_slices);
  read.required("memory_slices", profile.memory_slices);
  read.required("max_instances", profile.max_instances);
  read.required("placement_starts", profile.placement_starts);
  read.required("placement_size", profile.placement_size);
  read.optional("memory_mib", memory_mib);
  read.optional("multiprocessors", profile.multiprocessors);
  MUSTER_TRY_VOID(read.finish());
  if (memory_mib < 0 || memory_mib > (1 << 30)) return node.error(fmt::format("memory_mib is {}", memory_mib));
  profile.memory = Bytes(memory_mib << 20);
  profile.media_engines = profile.name.find("+me") != std::string::npos;
  MUSTER_TRY_VOID(check_profile(node, profile, config));
  return profile;
}

Result<MigConfig> read_mig(const files::Node& node) {
  MigConfig config;
  MapReader read(node);
  read.required("name", config.name);
  read.required("gpus", config.gpus);
  read.required("compute_slices_total", config.compute_slices_total);
  read.required("memory_slices_total", config.memory_slices_total);
  read.required("evidence", config.evidence);
  read.optional("notes", config.notes);
  const auto profiles = read.required_child("profiles");
  MUSTER_TRY_VOID(read.finish());
  for (const files::Node& item : profiles->items()) {
    MUSTER_TRY(MigProfile profile, read_profile(item, config));
    config.profiles.push_back(std::move(profile));
  }
  return config;
}

}  // namespace

Result<FileContent> read_content(std::string_view text, const std::string& name) {
  FileContent content;
  MUSTER_TRY(const files::Node root, files::parse_document(text, name));
  if (!root.is_map() || (!root.find("nodes") && !root.find("configs"))) {
    MUSTER_TRY(Gpu gpu, read_gpu(root));
    content.gpus.push_back(std::move(gpu));
    return content;
  }
  MapReader read(root);
  const auto nodes = read.child("nodes");
  const auto configs = read.child("configs");
  read.ignore("sources");
  MUSTER_TRY_VOID(read.finish());
  if (nodes)
    for (const files::Node& item : nodes->items()) {
      MUSTER_TRY(Node node, read_node(item));
      content.nodes.push_back(std::move(node));
    }
  if (configs)
    for (const files::Node& item : configs->items()) {
      MUSTER_TRY(MigConfig config, read_mig(item));
      content.mig.push_back(std::move(config));
    }
  return content;
}

}  // namespace muster::hardware
