// The step clock on the real cost model: what linear interpolation between its knots adds to a step's error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "muster/core/rng.h"
#include "muster/sim/step_timer.h"
#include "step_clock.h"

namespace muster::sim {
namespace {

// By hand: a simulator test has no business with the catalogues.
model::ModelSpec llama_70b() {
  model::ModelSpec m;
  m.key = "llama-3.1-70b";
  m.layers = 80;
  m.hidden_size = 8192;
  m.intermediate_size = 28672;
  m.attention_heads = 64;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.vocab_size = 128256;
  m.max_position_embeddings = 131072;
  return m;
}

hardware::Gpu h100() {
  hardware::Gpu gpu;
  gpu.key = "h100-sxm";
  gpu.memory = Bytes(80 * kGiB);
  gpu.memory_bytes_per_s = 3.35e12;
  gpu.dense_flops.fill(989e12);
  gpu.scale_up = {.technology = "NVLink 4", .bytes_per_s = 450e9, .domain_gpus = 8, .all_to_all = true};
  gpu.pcie_bytes_per_s = 64e9;
  return gpu;
}

TEST(CostStepTimer, DecodeStepsFromKnotsAreThoseOfTheModel) {
  const model::ModelSpec spec = llama_70b();
  const hardware::Gpu gpu = h100();
  const auto engine = cost::engine_profile({.engine = "vllm", .version = "0.19"});
  ASSERT_TRUE(engine);
  for (const int pp : {1, 2}) {
    SCOPED_TRACE("pp " + std::to_string(pp));
    const cost::Deployment deployment{.model = &spec,
                                      .gpu = &gpu,
                                      .engine = *engine,
                                      .layout = {.tp = 4, .pp = pp},
                                      .precision = {},
                                      .memory_fraction = std::nullopt,
                                      .kv_blocks = std::nullopt};
    const CostStepTimer timer(cost::StepModel::make(deployment));
    ASSERT_EQ(timer.stages(), pp);
    StepClock clock(timer);
    Rng rng = Rng::stream(3, 0, "cost timer");
    double worst = 0;
    for (int i = 0; i < 5000; ++i) {
      const auto sequences = static_cast<std::int64_t>(1 + rng.below(256));
      const auto kv = sequences * static_cast<std::int64_t>(1 + rng.below(8000));
      for (int stage = 0; stage < pp; ++stage) {
        const double exact = to_seconds(timer.stage_time(
            stage,
            {.prefills = {}, .decode_sequences = sequences, .decode_kv_tokens = kv, .sampled_sequences = sequences}));
        const double clocked = to_seconds(clock.decode_time(static_cast<std::size_t>(stage), sequences, kv));
        worst = std::max(worst, std::abs(clocked / exact - 1));
      }
    }
    EXPECT_LT(worst, 1e-3);
    RecordProperty("worst_relative_difference", std::to_string(worst));
  }
}

}  // namespace
}  // namespace muster::sim
