// A short stretch of one replica's pipeline, kept to draw it.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/report/results.h"
#include "muster/sim/simulation.h"

namespace muster::app {

// Keeps the first steps after half of the requests are answered, of the first replica that has more than one stage.
class PipelineWatch final : public sim::Observer {
 public:
  explicit PipelineWatch(const sim::Scenario& scenario);

  bool watches() const { return stages_ > 1; }
  void on_answered(const sim::RequestRecord&) override { ++answered_; }
  void on_steps(const sim::StepRecord& record) override;
  report::PipelineWindow window() const;  // without spans when there was no pipeline, or it did not run

 private:
  const sim::Scenario& scenario_;
  std::uint32_t replica_ = 0;
  std::uint64_t answered_ = 0;
  std::size_t stages_ = 1, steps_ = 0;
  Instant begin_;
  report::PipelineWindow window_;
};

}  // namespace muster::app
