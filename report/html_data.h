// The figures that report.js draws, thinned to a bounded size.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/report/results.h"

namespace muster::report {

inline constexpr std::size_t kMaxPoints = 1000;        // per series over time
inline constexpr std::size_t kMaxReplicas = 32;        // with a row of their own
inline constexpr std::size_t kMaxReplicaPoints = 240;  // per replica
inline constexpr std::size_t kMaxEvents = 200;

enum class Merge { kMean, kMax, kMin };
// Merges neighbours until at most `most` values are left: each stands for `stride(values.size(), most)` of the old
// ones.
std::vector<double> thin(const std::vector<double>& values, std::size_t most, Merge merge);
std::size_t stride(std::size_t samples, std::size_t most);

nlohmann::ordered_json run_data(const RunPlots& plots, const std::vector<Event>& events, const std::vector<Slo>& slos);
nlohmann::ordered_json traffic_data(const Traffic& traffic);
nlohmann::ordered_json search_data(const Size& size);

}  // namespace muster::report
