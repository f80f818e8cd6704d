#include "pipeline_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::app {
namespace {

constexpr std::size_t kSteps = 28;  // as many as can be told apart in a picture

}  // namespace

PipelineWatch::PipelineWatch(const sim::Scenario& scenario) : scenario_(scenario) {
  const auto stages_of = [&](const sim::ReplicaPlace& place) {
    return static_cast<std::size_t>(scenario.kind_of(place.pool).step->stages());
  };
  const auto first = std::ranges::find_if(scenario.replicas,
                                          [&](const auto& place) { return !place.standby && stages_of(place) > 1; });
  if (first == scenario.replicas.end()) return;
  replica_ = static_cast<std::uint32_t>(first - scenario.replicas.begin());
  stages_ = stages_of(*first);
  window_.replica = fmt::format("{}/{}", scenario.zones[first->zone], replica_);
  window_.stages = static_cast<int>(stages_);
}

void PipelineWatch::on_steps(const sim::StepRecord& r) {
  if (!watches() || r.replica != replica_ || steps_ == kSteps || answered_ < scenario_.trace->requests.size() / 2)
    return;
  if (steps_ == 0) begin_ = r.begin;
  window_.begin_s = to_seconds(begin_.time_since_epoch());
  // While several steps pass as one they are alone in the pipeline, so the turn in it means nothing.
  const auto turn = static_cast<int>(steps_++ % stages_);
  for (std::size_t stage = 0; stage < stages_; ++stage) {
    if (r.steps > 1 && stage > 0) break;
    const sim::StageSpan span = r.steps == 1 ? r.stages[stage] : sim::StageSpan{r.begin, r.end};
    window_.spans.push_back({.stage = static_cast<int>(stage),
                             .micro_batch = turn,
                             .begin_ms = to_ms(span.begin - begin_),
                             .end_ms = to_ms(span.end - begin_),
                             .prefill_tokens = static_cast<double>(r.prefill_tokens),
                             .decode_sequences = static_cast<double>(r.decode_sequences),
                             .steps = r.steps});
  }
}

// From where the last stage has its first step to where stage 0 has its last: before and after, only a part of the
// pipeline's work is known.
report::PipelineWindow PipelineWatch::window() const {
  report::PipelineWindow cut = window_;
  cut.spans.clear();
  if (window_.spans.empty()) return cut;
  const auto last_stage = std::ranges::find_if(
      window_.spans, [&](const report::PipelineSpan& s) { return s.steps > 1 || s.stage + 1 == window_.stages; });
  double end = 0;
  for (const report::PipelineSpan& s : window_.spans)
    if (s.stage == 0) end = std::max(end, s.end_ms);
  const double begin = last_stage->begin_ms;
  for (report::PipelineSpan s : window_.spans) {
    s.begin_ms = std::max(s.begin_ms, begin) - begin;
    s.end_ms = std::min(s.end_ms, end) - begin;
    if (s.begin_ms < s.end_ms) cut.spans.push_back(s);
  }
  cut.begin_s += begin / 1e3;
  return cut;
}

}  // namespace muster::app
