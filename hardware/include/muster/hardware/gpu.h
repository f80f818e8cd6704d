// Accelerators, their slices, links and prices.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/units.h"

namespace muster::hardware {

// Matrix-unit formats of a device. Kept apart from the model's Dtype: hardware does not know models.
enum class Format { kFp32, kTf32, kFp16, kBf16, kFp8, kInt8, kInt4, kFp4 };
inline constexpr std::size_t kFormats = 8;

struct Price {
  std::string provider;       // "AWS us-east-1"
  std::string instance;       // "p5.48xlarge"; may be empty
  double usd_per_gpu_hour = 0;
  std::string source;
  std::string date;           // as printed by the source
  std::string note;           // doubts about it; may be empty
};

struct Link {
  std::string technology;                // "NVLink 4", "PCIe 5 x16", "none" (between MIG slices)
  double bytes_per_s = 0;                // per device, one direction
  int domain_gpus = 1;                   // devices reachable over it
  bool all_to_all = false;               // through a switch (NVSwitch), so that every pair has the full rate
};

// A device that a rank runs on: a whole accelerator, a MIG slice of one, or a CPU socket.
struct Gpu {
  std::string key;                       // "h100-sxm", "h100-sxm/1g.10gb"
  std::string name;
  std::string vendor;                    // "nvidia", "amd", "intel"
  std::string architecture;              // "Hopper"
  Bytes memory;                          // as the driver reports it
  std::string memory_basis;
  double memory_bytes_per_s = 0;
  std::array<std::optional<double>, kFormats> dense_flops;  // FLOP/s or OP/s without sparsity; nullopt: not supported
  Link scale_up;                         // NVLink, xGMI, or PCIe when there is nothing better
  double pcie_bytes_per_s = 0;           // one direction
  double tdp_watts = 0;
  int multiprocessors = 0;               // 0: not known
  std::vector<Price> prices;             // all that were found
  std::optional<Price> price;            // the one that muster quotes; nullopt: no price known
  std::string topology;                  // of the scale-up link, in words; may be empty
  std::vector<std::string> sources;
  std::vector<std::string> notes;        // derived figures, and values of other sources that disagree
  bool is_slice = false;
  double compute_share = 1;              // of the whole device; 1/7 for a 1g slice
  double memory_share = 1;               // of bandwidth and of price

  std::optional<double> flops(Format format) const { return dense_flops[static_cast<std::size_t>(format)]; }
};

struct MigProfile {
  std::string name;                      // "1g.10gb"
  int compute_slices = 0;
  int memory_slices = 0;
  int max_instances = 0;
  std::vector<int> placement_starts;     // on the memory-slice grid
  int placement_size = 0;
  Bytes memory;                          // 0: not known; find() then estimates it from the slices
  int multiprocessors = 0;               // 0: not known
  bool media_engines = false;            // a "+me" variant: at most one per GPU
};

struct MigConfig {
  std::string name;
  std::vector<std::string> gpus;         // keys of the GPUs that it describes
  int compute_slices_total = 0;
  int memory_slices_total = 0;
  std::vector<MigProfile> profiles;
  std::string evidence;                  // how well founded sizes and placements are
  std::vector<std::string> notes;
};

// A server or cloud instance type.
struct Node {
  std::string key;                       // "dgx-h100"
  std::string name;
  std::string gpu;                       // key
  int gpus = 0;
  int scale_up_gpus = 0;                 // 8 in an HGX board, 72 in NVL72
  double fabric_bytes_per_s = 0;         // of the accelerators, one direction, all NICs together; 0: not known
  double host_ram_gib = 0;               // 0: not known
  std::vector<std::string> sources;
  std::vector<std::string> notes;
};

}  // namespace muster::hardware
