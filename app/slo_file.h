// The `slo:` map of fleet and size files.
#pragma once

#include "fleet_file.h"
#include "muster/files/document.h"

namespace muster::app {

// Targets must be positive; fails for unknown keys.
Result<SloTargets> read_slo(const files::Node& node);

// Reads an optional positive number of a map.
void read_positive(files::MapReader& read, std::string_view key, std::optional<double>& out);

}  // namespace muster::app
