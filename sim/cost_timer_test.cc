// The step clock on the real cost model: what linear interpolation between its knots adds to a step's error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "muster/core/rng.h"
#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"
#include "muster/sim/step_timer.h"
#include "step_clock.h"

namespace muster::sim {
namespace {

TEST(CostStepTimer, DecodeStepsFromKnotsAreThoseOfTheModel) {
  const auto models = model::Catalogue::built_in();
  const auto devices = hardware::Catalogue::built_in();
  const auto engine = cost::engine_profile({.engine = "vllm", .version = "0.19"});
  ASSERT_TRUE(models && devices && engine);
  for (const char* key : {"llama-3.1-70b", "llama-3.1-8b"})
    for (const int pp : {1, 2}) {
      SCOPED_TRACE(std::string(key) + " pp " + std::to_string(pp));
      const auto spec = models->find(key);
      const auto gpu = devices->find("h100-sxm");
      ASSERT_TRUE(spec && gpu);
      const cost::Deployment deployment{.model = &*spec,
                                        .gpu = &*gpu,
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
      for (int i = 0; i < 3000; ++i) {
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
