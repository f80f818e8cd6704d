// Collects the rows of a trace file and makes a valid Trace of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "muster/core/result.h"
#include "muster/workload/trace.h"
#include "time_text.h"

namespace muster::workload {

class TraceBuilder {
 public:
  // Texts of one row.
  struct Row {
    std::string_view arrival, input, output;
    std::string_view blocks;                 // ids with blanks between; empty: none
    std::optional<std::string_view> tenant;  // rows without one belong to the tenant "" once others have names
    std::string_view session;                // any text; empty: a request of its own
    std::string_view think;                  // seconds; empty: 0
  };
  // The file's own names, for messages; `unit` is "column" or "key".
  struct Names {
    std::string arrival, input, output, blocks, think, unit;
  };

  TraceBuilder(std::string source, Names names, TimeColumn times, bool zero_output_is_failure);

  // The message of a bad row, without file and line; empty if the row is good.
  std::string add(const Row& row);

  // Sorts, moves epoch times to 0, works out the size of a prefix block. Fails where no row is left.
  Result<Trace> finish() &&;

 private:
  std::string add_turn(const Row& row, Request& request);
  std::string add_blocks(std::string_view text, Request& request);
  std::optional<std::uint16_t> tenant(std::string_view name);

  Trace trace_;
  Names names_;
  TimeColumn times_;
  bool zero_output_is_failure_;
  std::int64_t last_arrival_ = 0;
  std::unordered_map<std::string, std::uint16_t> tenants_;   // looked up only; the order is trace_.tenants'
  std::unordered_map<std::string, std::uint32_t> sessions_;  // looked up only; numbered as they appear
};

}  // namespace muster::workload
