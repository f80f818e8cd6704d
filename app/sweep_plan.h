// What a sweep runs: the Cartesian product of its axes, of traffic scales and of seeds, in a fixed order, so that
// shards of it on several machines fit together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fleet_edit.h"
#include "muster/core/result.h"

namespace muster::app {

struct Axis {
  std::string path;
  std::vector<std::string> values;
};

// "pools.0.replicas.initial=4..12:2,16": a path, then values separated by commas (not inside brackets); a..b[:step] is
// a range with both ends in it. Fails on anything else, an empty list, a value given twice and over 10,000 values.
Result<Axis> parse_axis(std::string_view text);
// The same for numbers: "0.5,1,1.5", "1..8".
Result<std::vector<double>> parse_numbers(std::string_view text, std::string_view option);

struct SweepPoint {
  std::size_t index = 0;
  std::vector<std::size_t> choice;  // [axes] index of the value
  std::size_t scale = 0, seed = 0;  // indices
};

struct SweepPlan {
  std::string fleet, traffic;  // names of the files
  std::vector<Axis> axes;
  std::vector<double> scales = {1};
  std::vector<std::uint64_t> seeds = {1};
  std::string inputs;  // digest of everything that the results depend on, in hexadecimal

  std::size_t size() const;
  SweepPoint point(std::size_t index) const;  // the first axis is the slowest, then scale, then seed
  std::vector<Setting> settings(const SweepPoint& point) const;
  std::string text(const SweepPoint& point) const;  // "replicas.initial=4 scale=1 seed=2"
};

// Of n shards, number i (1..n) runs the points whose index is i - 1 modulo n.
struct Shard {
  std::size_t i = 1, n = 1;
  bool has(std::size_t index) const { return index % n == i - 1; }
};
Result<Shard> parse_shard(std::string_view text);  // "2/8"

}  // namespace muster::app
