// Which column (or JSON key) of a trace file holds what, by the names that published traces use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/result.h"
#include "muster/workload/read.h"

namespace muster::workload {

struct Columns {
  Format format = Format::kCsv;
  std::size_t arrival = 0;
  std::size_t input = 0;
  std::size_t output = 0;
  std::optional<std::size_t> blocks;  // hash_ids
  std::optional<std::size_t> tenant;
  std::optional<std::size_t> session;  // session or session_id; not BurstGPT's, whose think times are unknown
  std::optional<std::size_t> think;    // think_s
  std::optional<int> time_exponent;    // unit of the arrival in ns: 9 for seconds ... 0; nullopt: the values tell
};

// Assigns the columns of `names`. `json`: JSON Lines keys rather than a CSV header. Fails with the names found and
// those needed, and says so where the file is known to be a table of something else (rates, lengths without arrivals).
Result<Columns> assign_columns(const std::vector<std::string>& names, bool json, const std::string& where);

}  // namespace muster::workload
