#include <cmath>
#include <utility>

#include "lengths.h"
#include "muster/core/rng.h"
#include "muster/workload/profile.h"

namespace muster::workload {
namespace {

ArrivalProcess process_of(const Profile& profile, const SynthesisOptions& options) {
  return {.kind = options.arrivals,
          .cv = options.cv.value_or(profile.interarrival_cv),
          .bursts = options.bursts.value_or(Bursts{.on_share = profile.on_share, .on_s = profile.burst_s})};
}

bool positive(double x) {
  return std::isfinite(x) && x > 0;
}

Result<void> check_options(const Profile& profile, const SynthesisOptions& options, double duration_s) {
  if (!positive(options.scale)) return fail("the scale is {}; a number over 0 is needed", options.scale);
  if (options.constant_rate_rps && !positive(*options.constant_rate_rps))
    return fail("the rate is {} requests/s; a number over 0 is needed", *options.constant_rate_rps);
  if (!positive(duration_s) || duration_s > 1e9)
    return fail("the duration is {} s; over 0 and up to 1e9 is needed", duration_s);
  if (profile.bins.empty() || profile.rate_curve_rps.empty() || !(profile.rate_window_s > 0))
    return fail("the profile {} has no lengths or no rates", profile.name);
  return {};
}

}  // namespace

Result<Trace> synthesise(const Profile& profile, const SynthesisOptions& options) {
  const double duration_s = options.duration ? to_seconds(*options.duration) : profile.span_s();
  MUSTER_TRY_VOID(check_options(profile, options, duration_s));
  std::vector<double> rates = profile.rate_curve_rps;
  if (options.constant_rate_rps) rates = {*options.constant_rate_rps};
  for (double& rate : rates) rate *= options.scale;
  const Result<std::vector<Duration>> times =
      arrivals(process_of(profile, options),
               {.rates_rps = std::move(rates), .window_s = profile.rate_window_s, .duration_s = duration_s},
               {.seed = options.seed, .run = options.run, .arrivals_max = options.requests_max});
  if (!times) return fail("{}: {}", profile.name, times.error().message);
  Trace trace;
  trace.source = profile.name;
  trace.requests.reserve(times->size());
  Lengths lengths(profile, Rng::stream(options.seed, options.run, "lengths"));
  for (const Duration at : *times) {
    Request request;
    request.arrival = at;
    lengths.draw(request);
    trace.requests.push_back(request);
  }
  return trace;
}

}  // namespace muster::workload
