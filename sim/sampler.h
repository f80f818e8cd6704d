// The time series of a run, in bounded memory: when it grows too long, every second sample goes and the interval
// doubles.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "muster/core/time.h"
#include "muster/sim/simulation.h"

namespace muster::sim {

class Sampler {
 public:
  explicit Sampler(Duration interval)
      : interval_(interval), next_(interval > Duration(0) ? Instant(interval) : Instant::max()) {}

  Instant next() const { return next_; }

  // `sample.arrivals` counts those since the sample before. Requires sample.at == next().
  void add(Sample sample) {
    if (samples_.size() == kSamplesMax) thin_out();
    sample.arrivals += carried_arrivals_;
    // After thinning out, this one may lie between the points of the wider grid.
    const bool on_grid = sample.at.time_since_epoch() % interval_ == Duration(0);
    carried_arrivals_ = on_grid ? 0 : sample.arrivals;
    next_ = sample.at + interval_ - sample.at.time_since_epoch() % interval_;
    if (on_grid) samples_.push_back(std::move(sample));
  }

  std::vector<Sample> take() { return std::move(samples_); }

 private:
  void thin_out() {
    static_assert(kSamplesMax % 2 == 0, "the last sample must be one that stays");
    interval_ *= 2;
    std::size_t kept = 0;
    std::uint32_t arrivals = 0;
    for (Sample& s : samples_) {
      arrivals += s.arrivals;
      if (s.at.time_since_epoch() % interval_ != Duration(0)) continue;
      s.arrivals = arrivals;
      arrivals = 0;
      std::swap(samples_[kept++], s);
    }
    samples_.resize(kept);
  }

  Duration interval_;
  Instant next_;
  std::uint32_t carried_arrivals_ = 0;  // of samples between the last that was kept and the next that will be
  std::vector<Sample> samples_;
};

}  // namespace muster::sim
