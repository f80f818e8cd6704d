// A small workload profile: what `muster trace fit` keeps of a trace and `muster trace synth` makes arrivals from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/result.h"
#include "muster/workload/arrivals.h"
#include "muster/workload/trace.h"

namespace muster::workload {

// Joint lengths: requests are cut into bins of equal count by input length; each bin keeps its own quantiles of both
// lengths, so that long prompts keep their own kind of answers.
struct LengthBin {
  std::vector<double> input_quantiles;   // tokens at Profile::probabilities within the bin; never decreasing
  std::vector<double> output_quantiles;  // the same
};

struct Profile {
  std::string name;
  std::string source;                  // where the trace came from, its licence
  std::uint64_t requests = 0;          // that it was fitted on
  std::vector<double> rate_curve_rps;  // mean rate in each window
  double rate_window_s = 60;
  double interarrival_cv = 1;         // of the gaps after removing the rate curve
  double on_share = 0.5;              // for kOnOff: share of the time that is on; 1: always, which is Poisson
  double burst_s = 10;                // mean length of an on period, for kOnOff
  std::vector<double> probabilities;  // of the bins' quantiles: from 0 to 1, closer together near 1
  std::vector<LengthBin> bins;        // equally likely, by rising input length

  double span_s() const { return static_cast<double>(rate_curve_rps.size()) * rate_window_s; }
  double mean_rate_rps() const;
  double peak_rate_rps() const;  // of the rate curve
};

// Windows of 60 s (a tenth of the span where that is shorter, longer where there would be over 240), up to 8 length
// bins. on_share and burst_s are those of the interrupted Poisson process with the trace's gap CV and its dispersion of
// counts over 16 mean gaps. `source` becomes trace.source. Fails under 2 requests or if all arrive at one instant.
Result<Profile> fit(const Trace& trace, const std::string& name);

// Files: YAML (docs/formats/workload-profile.md).
Result<Profile> read_profile(const std::string& path);
Result<Profile> parse_profile(std::string_view text, const std::string& file_name);
std::string to_yaml(const Profile& profile);

struct SynthesisOptions {
  Arrivals arrivals = Arrivals::kGamma;
  std::optional<double> cv = std::nullopt;          // of the gaps, for kGamma and kWeibull; default: the profile's
  std::optional<Bursts> bursts = std::nullopt;      // for kOnOff; default: the profile's
  double scale = 1;                                 // multiplies the rate
  std::optional<Duration> duration = std::nullopt;  // repeats or cuts the rate curve; default: its own span
  std::optional<double> constant_rate_rps = std::nullopt;  // ignore the curve
  std::uint64_t seed = 1;
  std::uint64_t run = 0;  // replication
  std::uint64_t requests_max = 100'000'000;
};

// Arrivals are points in the time of the integrated rate curve, stationary from the start, so that each window's
// expected count is the curve's for every kind of arrivals. Deterministic by (seed, run); lengths come from a stream of
// their own, so request i has the same lengths whatever the arrivals. The trace has no prefix blocks. Fails on a scale,
// duration or rate that is not positive and finite, and where over requests_max requests would come.
Result<Trace> synthesise(const Profile& profile, const SynthesisOptions& options);

}  // namespace muster::workload
