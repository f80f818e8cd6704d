// Arrival times as trace files write them, exact to the nanosecond.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/core/time.h"

namespace muster::workload {

// A decimal number of units of 10^exponent ns ("12.5" with 9: 12.5 s) in nanoseconds, rounded to the nearest. Plain
// decimals are exact; with an exponent ("1e-3") the value goes through a double.
std::optional<std::int64_t> parse_decimal_ns(std::string_view text, int exponent);

// "2023-11-16 18:15:46.6805900", also with T, Z and +01:00, as nanoseconds since 1970. Years 1970 to 2200.
std::optional<std::int64_t> parse_date_ns(std::string_view text);

// The times of one column. Where its name does not tell the unit, the first value does: a date, or by its size seconds,
// or milliseconds, microseconds or nanoseconds since 1970.
class TimeColumn {
 public:
  // `exponent` of the unit in ns: 9 for seconds ... 0; nullopt: to be told by the first value.
  explicit TimeColumn(std::optional<int> exponent = std::nullopt) : exponent_(exponent) {}

  std::optional<std::int64_t> parse(std::string_view text);  // nanoseconds
  // Values count from 1970 and not from the trace's own start.
  bool since_epoch() const { return since_epoch_; }

 private:
  std::optional<int> exponent_;
  bool first_ = true;
  bool dates_ = false;
  bool since_epoch_ = false;
};

}  // namespace muster::workload
