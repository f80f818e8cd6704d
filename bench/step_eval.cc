// Nanoseconds per step evaluation, and microseconds per layout that a planner looks at.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "muster/cost/step.h"
#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

template <class Work>
double nanoseconds_each(int times, const Work& work) {
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) work(i);
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / times;
}

cost::StepShape decode(int i) {
  const std::int64_t sequences = 1 + i % 200;
  return {.prefills = {},
          .decode_sequences = sequences,
          .decode_kv_tokens = sequences * (500 + i % 3000),
          .sampled_sequences = sequences};
}

void measure(const cost::Deployment& d) {
  constexpr int kSteps = 1'000'000;
  constexpr int kLayouts = 2'000;
  const cost::StepModel step = cost::StepModel::make(d);
  std::int64_t sum = 0;  // keeps the work alive
  sum += step.stage_time(0, decode(0)).count();
  const double plain = nanoseconds_each(kSteps, [&](int i) { sum += step.stage_time(0, decode(i)).count(); });
  std::array<cost::PrefillChunk, 2> chunks{cost::PrefillChunk{.tokens = 2048, .prefix = 512},
                                           cost::PrefillChunk{.tokens = 700, .prefix = 0}};
  const double mixed = nanoseconds_each(kSteps, [&](int i) {
    chunks[0].tokens = 1 + i % 4000;
    cost::StepShape shape = decode(i);
    shape.prefills = chunks;
    sum += step.stage_time(0, shape).count();
  });
  const cost::MemoryVerdict verdict = cost::memory(d);
  const double memory = nanoseconds_each(kLayouts, [&](int) { sum += cost::memory(d).kv_tokens.value; });
  const double layout = nanoseconds_each(kLayouts, [&](int) {
    sum +=
        static_cast<std::int64_t>(cost::steady_state(cost::StepModel::make(d), d, verdict, 1024, 256, 0).output_tok_s);
  });
  fmt::print(
      "{:16s} decode step {:4.0f} ns, mixed step {:4.0f} ns; memory {:4.1f} us, make and steady state {:5.1f} us{}\n",
      d.model->key, plain, mixed, memory * 1e-3, layout * 1e-3, sum == 0 ? " " : "");
}

}  // namespace

int main() {
  const auto models = model::Catalogue::built_in();
  const auto gpus = hardware::Catalogue::built_in();
  const auto engine = cost::engine_profile({.engine = "vllm", .version = "0.19"});
  if (!models || !gpus || !engine) return EXIT_FAILURE;
  for (const char* key : {"llama-3.1-70b", "gemma-3-27b", "gpt-oss-120b", "deepseek-v3"}) {
    const auto model = models->find(key);
    const auto gpu = gpus->find("h200-sxm");
    if (!model || !gpu) return EXIT_FAILURE;
    cost::Deployment d;
    d.model = &*model;
    d.gpu = &*gpu;
    d.engine = *engine;
    d.layout.tp = 8;
    d.precision.weights = muster::model::Dtype::kFp8;
    d.max_model_len = 8192;
    measure(d);
  }
  return EXIT_SUCCESS;
}
