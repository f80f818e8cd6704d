// Readers of the hardware files (docs/formats/catalogue.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/core/result.h"
#include "muster/hardware/gpu.h"

namespace muster::hardware {

// What one file holds: a GPU, or a list of nodes, or a list of MIG configurations.
struct FileContent {
  std::vector<Gpu> gpus;
  std::vector<Node> nodes;
  std::vector<MigConfig> mig;
};

// `name` is the file name for messages. Fails with file, line and field.
Result<FileContent> read_content(std::string_view text, const std::string& name);

}  // namespace muster::hardware
