#include "muster/hardware/catalogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster_hardware_data.h"
#include "read.h"

namespace muster::hardware {
namespace {

// Puts `item` in its place among `items`, which are sorted by key; replaces an equal key.
template <class T>
void insert_sorted(std::vector<T>& items, T item) {
  const auto at = std::ranges::lower_bound(items, item.key, {}, &T::key);
  if (at != items.end() && at->key == item.key)
    *at = std::move(item);
  else
    items.insert(at, std::move(item));
}

template <class T>
const T* find_sorted(const std::vector<T>& items, const std::string& key) {
  const auto at = std::ranges::lower_bound(items, key, {}, &T::key);
  return at != items.end() && at->key == key ? &*at : nullptr;
}

template <class T>
std::vector<std::string> keys_of(const std::vector<T>& items) {
  std::vector<std::string> keys;
  for (const T& item : items) keys.push_back(item.key);
  return keys;
}

// The profiles that the driver sizes at 1/8 of an H100 have 9984 MiB of 81559 MiB: 2 % less than an eighth. The parts
// whose real listing was not found are assumed to lose as much.
constexpr double kSliceMemoryLeft = 9984.0 * 8 / 81559;

Gpu slice_of(const Gpu& whole, const MigConfig& config, const MigProfile& profile) {
  Gpu slice = whole;
  slice.is_slice = true;
  slice.key = whole.key + "/" + profile.name;
  slice.name = whole.name + " " + profile.name;
  slice.compute_share = static_cast<double>(profile.compute_slices) / config.compute_slices_total;
  slice.memory_share = static_cast<double>(profile.memory_slices) / config.memory_slices_total;
  if (profile.memory.value > 0) {
    slice.memory = profile.memory;
    slice.memory_basis = config.evidence;
  } else {
    slice.memory = Bytes(std::llround(static_cast<double>(whole.memory.value) * slice.memory_share * kSliceMemoryLeft));
    slice.memory_basis = "estimated: the share of the whole device less the 2 % that an H100 slice loses";
  }
  slice.memory_bytes_per_s *= slice.memory_share;
  for (auto& flops : slice.dense_flops)
    if (flops) *flops *= slice.compute_share;
  slice.scale_up = Link{.technology = "none", .bytes_per_s = 0, .domain_gpus = 1, .all_to_all = false};
  slice.topology = "a MIG slice has no link to another slice";
  slice.tdp_watts *= slice.compute_share;
  slice.multiprocessors = profile.multiprocessors;
  for (Price& price : slice.prices) price.usd_per_gpu_hour *= slice.memory_share;
  if (slice.price) slice.price->usd_per_gpu_hour *= slice.memory_share;
  return slice;
}

const MigConfig* config_of(const std::vector<MigConfig>& mig, const std::string& gpu) {
  const auto at =
      std::ranges::find_if(mig, [&](const MigConfig& config) { return std::ranges::count(config.gpus, gpu) > 0; });
  return at != mig.end() ? &*at : nullptr;
}

}  // namespace

Result<Catalogue> Catalogue::built_in() {
  Catalogue out;
  for (const embedded::File& file : embedded_files()) {
    MUSTER_TRY(FileContent content, read_content(file.content, std::string(file.name)));
    std::ranges::move(content.gpus, std::back_inserter(out.gpus_));
    std::ranges::move(content.nodes, std::back_inserter(out.nodes_));
    std::ranges::move(content.mig, std::back_inserter(out.mig_));
  }
  std::ranges::sort(out.gpus_, {}, &Gpu::key);
  std::ranges::sort(out.nodes_, {}, &Node::key);
  return out;
}

Result<void> Catalogue::add_file(const std::string& path) {
  MUSTER_TRY(const std::string text, files::read_file(path));
  MUSTER_TRY(FileContent content, read_content(text, path));
  for (Gpu& gpu : content.gpus) insert_sorted(gpus_, std::move(gpu));
  for (const Node& node : content.nodes)
    if (!find_sorted(gpus_, node.gpu))
      return fail("{}: node {} has GPU {}, which is not in the catalogue{}", path, node.key, node.gpu,
                  did_you_mean(node.gpu, keys_of(gpus_)));
  for (Node& node : content.nodes) insert_sorted(nodes_, std::move(node));
  // A user's MIG configuration goes first: the first that names a GPU is the one that counts.
  mig_.insert(mig_.begin(), std::make_move_iterator(content.mig.begin()), std::make_move_iterator(content.mig.end()));
  return {};
}

Result<Gpu> Catalogue::find(const std::string& what) const {
  const std::size_t slash = what.find('/');
  const std::string key = what.substr(0, slash);
  const Gpu* whole = find_sorted(gpus_, key);
  if (!whole)
    return fail("GPU {} is not in the catalogue{}; `muster catalog gpus` lists it", key,
                did_you_mean(key, keys_of(gpus_)));
  if (slash == std::string::npos) return *whole;

  const std::string profile_name = what.substr(slash + 1);
  const MigConfig* config = config_of(mig_, key);
  if (!config) return fail("GPU {} has no MIG profiles, so {} does not exist", key, what);
  const auto profile = std::ranges::find(config->profiles, profile_name, &MigProfile::name);
  if (profile != config->profiles.end()) return slice_of(*whole, *config, *profile);
  std::vector<std::string> names;
  for (const MigProfile& known : config->profiles) names.push_back(known.name);
  return fail("GPU {} has no MIG profile {}; it has {}", key, profile_name, join(names, ", "));
}

std::vector<Gpu> Catalogue::slices_of(const Gpu& gpu) const {
  std::vector<Gpu> out;
  const MigConfig* config = gpu.is_slice ? nullptr : config_of(mig_, gpu.key);
  if (!config) return out;
  for (const MigProfile& profile : config->profiles)
    if (!profile.media_engines) out.push_back(slice_of(gpu, *config, profile));
  return out;
}

std::optional<Node> Catalogue::usual_node(const std::string& gpu) const {
  const std::string key = gpu.substr(0, gpu.find('/'));
  const Node* best = nullptr;
  for (const Node& node : nodes_)
    if (node.gpu == key && (!best || node.scale_up_gpus > best->scale_up_gpus)) best = &node;
  if (!best) return std::nullopt;
  return *best;
}

Result<Node> Catalogue::find_node(const std::string& key) const {
  if (const Node* node = find_sorted(nodes_, key)) return *node;
  return fail("node {} is not in the catalogue{}; `muster catalog nodes` lists it", key,
              did_you_mean(key, keys_of(nodes_)));
}

}  // namespace muster::hardware
