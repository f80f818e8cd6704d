#include "size_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "muster/core/text.h"
#include "muster/files/document.h"
#include "slo_file.h"

namespace muster::app {
namespace {

// Paths in a file are relative to that file.
std::string beside(const std::string& file, const std::string& path) {
  if (path.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(file).parent_path() / path).string();
}

Result<TrafficSpec> read_traffic(const files::Node& node, const std::string& file) {
  TrafficSpec traffic;
  files::MapReader read(node);
  read.optional("profile", traffic.profile);
  read.optional("trace", traffic.trace);
  read.optional("scale", traffic.scale);
  read.optional("arrivals", traffic.arrivals);
  read.optional("peak_window_s", traffic.peak_window_s);
  MUSTER_TRY_VOID(read.finish());
  if (traffic.profile.empty() == traffic.trace.empty())
    return node.error("needs either a profile or a trace, and one of them only");
  if (traffic.scale <= 0) return node.error(fmt::format("scale {} found; a number above 0 is needed", traffic.scale));
  if (traffic.peak_window_s < 30 || traffic.peak_window_s > 86400)
    return node.error(fmt::format("peak_window_s {} found; 30 to 86400 is needed", traffic.peak_window_s));
  traffic.profile = beside(file, traffic.profile);
  traffic.trace = beside(file, traffic.trace);
  return traffic;
}

// `key: word` or `key: [word, word]`.
void read_words(files::MapReader& read, std::string_view key, std::vector<std::string>& out) {
  const std::optional<files::Node> node = read.child(key);
  if (!node) return;
  std::vector<files::Node> items = node->is_list() ? node->items() : std::vector<files::Node>{*node};
  for (const files::Node& item : items) {
    const Result<std::string> word = item.text();
    if (!word) return read.fail_with(std::unexpected(word.error()));
    out.push_back(*word);
  }
}

void read_limit(files::MapReader& read, std::string_view key, int& out) {
  int value = 0;
  read.optional(key, value);
  if (value < 0) return read.fail_with(fail("{} {} found; a whole number above 0 is needed", key, value));
  if (value > 0) out = value;
}

Result<void> read_parallel(const files::Node& node, SizeFile& size) {
  files::MapReader read(node);
  for (const auto& [key, out] : {std::pair{"tp", &size.tp}, std::pair{"pp", &size.pp}, std::pair{"ep", &size.ep}}) {
    int value = 0;
    read.optional(key, value);
    if (value < 0) read.fail_with(node.error(fmt::format("{} {} found; at least 1 is needed", key, value)));
    if (value > 0) *out = value;
  }
  return read.finish();
}

Result<void> check(const files::Node& document, const SizeFile& size) {
  if (size.gpus.empty()) return document.error("gpu is missing; a device key or a list of them is needed");
  if (!size.slo.any())
    return document.error("slo is missing; at least one target is needed, such as {e2e_p95_ms: 20000}");
  if (size.zones.empty()) return document.error("zones is empty; at least one is needed");
  if (size.headroom < 0 || size.headroom > 4)
    return document.error(fmt::format("headroom {} found; a share such as 0.35 is needed", size.headroom));
  if (size.standby_per_zone < 0) return document.error("standby_per_zone cannot be negative");
  if (size.cold_s < 0 || size.warm_s < 0) return document.error("start-up times cannot be negative");
  std::vector<std::string> zones = size.zones;
  std::ranges::sort(zones);
  if (std::ranges::adjacent_find(zones) != zones.end()) return document.error("zones names a zone twice");
  return {};
}

}  // namespace

Result<SizeFile> read_size(const std::string& path) {
  MUSTER_TRY(const files::Node document, files::read_document(path));
  SizeFile size;
  files::MapReader read(document);
  read.required("fleet", size.fleet);
  read.required("model", size.model);
  read.optional("engine", size.engine);
  read_words(read, "gpu", size.gpus);
  read_words(read, "precision", size.precisions);
  read.optional("kv_precision", size.kv_precision);
  read_limit(read, "gpus_per_replica_max", size.gpus_per_replica_max);
  read_limit(read, "max_model_len", size.max_model_len);
  read_limit(read, "max_num_seqs", size.max_num_seqs);
  read_limit(read, "max_num_batched_tokens", size.max_num_batched_tokens);
  read_limit(read, "replicas_max", size.replicas_max);
  read_positive(read, "gpu_memory_utilization", size.memory_fraction);
  read.optional("zones", size.zones);
  read.optional("headroom", size.headroom);
  read.optional("standby_per_zone", size.standby_per_zone);
  read.optional("survive_zone_loss", size.survive_zone_loss);
  read.optional("routing", size.routing_policy);
  if (const auto parallel = read.child("parallel"))
    if (const Result<void> r = read_parallel(*parallel, size); !r) read.fail_with(std::unexpected(r.error()));
  if (const auto slo = read.child("slo")) {
    const Result<SloTargets> targets = read_slo(*slo);
    if (targets)
      size.slo = *targets;
    else
      read.fail_with(std::unexpected(targets.error()));
  }
  if (const auto traffic = read.required_child("traffic")) {
    const Result<TrafficSpec> parsed = read_traffic(*traffic, path);
    if (parsed)
      size.traffic = *parsed;
    else
      read.fail_with(std::unexpected(parsed.error()));
  }
  if (const auto startup = read.child("startup")) {
    files::MapReader inner(*startup);
    inner.optional("cold_s", size.cold_s);
    inner.optional("warm_s", size.warm_s);
    if (const Result<void> r = inner.finish(); !r) read.fail_with(std::unexpected(r.error()));
  }
  MUSTER_TRY_VOID(read.finish());
  MUSTER_TRY_VOID(check(document, size));
  return size;
}

}  // namespace muster::app
