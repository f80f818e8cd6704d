#include "muster/cost/step.h"

#include <gtest/gtest.h>

#include <array>

#include "fixtures.h"
#include "muster/core/rng.h"

namespace muster::cost {
namespace {

Deployment deployment(const model::ModelSpec& model, const hardware::Gpu& gpu, Layout layout) {
  Deployment d;
  d.model = &model;
  d.gpu = &gpu;
  d.engine = fixtures::engine("vllm@0.12.0");
  d.layout = layout;
  d.max_model_len = 8192;
  return d;
}

StepShape decode(std::int64_t sequences, std::int64_t kv_each) {
  return {.prefills = {},
          .decode_sequences = sequences,
          .decode_kv_tokens = sequences * kv_each,
          .sampled_sequences = sequences};
}

TEST(Step, NoStepIsFasterThanReadingTheWeights) {
  const model::ModelSpec model = fixtures::qwen3_32b();
  const hardware::Gpu gpu = fixtures::h100();
  for (const int tp : {1, 2, 4, 8}) {
    const StepModel step = StepModel::make(deployment(model, gpu, {.tp = tp}));
    const double floor_s = 2.0 * 31.2e9 / tp / gpu.memory_bytes_per_s;  // 31.2 G linear weights without embeddings
    EXPECT_GT(to_seconds(step.stage_time(0, decode(1, 128))), floor_s) << tp;
  }
}

TEST(Step, GrowsWithWork) {
  const model::ModelSpec model = fixtures::llama_70b();
  const hardware::Gpu gpu = fixtures::h100();
  const StepModel step = StepModel::make(deployment(model, gpu, {.tp = 4, .pp = 2}));
  const auto rng_seed = std::uint64_t{20260901};
  SCOPED_TRACE(rng_seed);
  Rng rng = Rng::stream(rng_seed, 0, "step");
  for (int i = 0; i < 300; ++i) {
    const auto sequences = static_cast<std::int64_t>(rng.below(256)) + 1;
    const auto kv = static_cast<std::int64_t>(rng.below(8000)) + 1;
    const std::array<PrefillChunk, 1> chunk{PrefillChunk{.tokens = static_cast<std::int64_t>(rng.below(4000)) + 1,
                                                         .prefix = static_cast<std::int64_t>(rng.below(4000))}};
    StepShape shape = decode(sequences, kv);
    shape.prefills = chunk;
    for (int stage = 0; stage < step.stages(); ++stage) {
      const Duration base = step.stage_time(stage, shape);
      EXPECT_GE(base, step.stage_time(stage, decode(sequences, kv)));
      StepShape more = shape;
      more.decode_kv_tokens *= 2;
      EXPECT_GE(step.stage_time(stage, more), base);
      more = shape;
      more.decode_sequences += 32;
      EXPECT_GE(step.stage_time(stage, more), base);
    }
  }
}

TEST(Step, BreakdownAddsUpAndSaysWhatBinds) {
  const model::ModelSpec model = fixtures::llama_70b();
  const hardware::Gpu gpu = fixtures::h100();
  const StepModel step = StepModel::make(deployment(model, gpu, {.tp = 4}));
  const StepBreakdown small = step.breakdown(0, decode(1, 1000));
  EXPECT_NEAR(small.device_s() + small.host_s, to_seconds(step.stage_time(0, decode(1, 1000))), 1e-9);
  EXPECT_GT(small.memory_bound_s, 10 * small.compute_bound_s);
  const std::array<PrefillChunk, 1> chunk{PrefillChunk{.tokens = 8192, .prefix = 0}};
  const StepBreakdown large = step.breakdown(0, {.prefills = chunk, .sampled_sequences = 1});
  EXPECT_GT(large.compute_bound_s, large.memory_bound_s);
}

TEST(Step, EveryKindOfModelAndLayoutHasATime) {
  const hardware::Gpu gpu = fixtures::h100();
  const std::array models{fixtures::llama_8b(), fixtures::mixtral(), fixtures::deepseek_v2_lite(),
                          fixtures::gemma({"gemma-2-2b", 26, 2304, 9216, 8, 4, 256, 256000, true}, {4096, 2})};
  for (const model::ModelSpec& model : models)
    for (const Layout layout : {Layout{.tp = 1}, Layout{.tp = 2}, Layout{.tp = 2, .pp = 2}}) {
      const StepModel step = StepModel::make(deployment(model, gpu, layout));
      EXPECT_EQ(step.stages(), layout.pp);
      EXPECT_GT(step.latency(decode(8, 500)), Duration(100us)) << model.key;
      EXPECT_LT(step.latency(decode(8, 500)), Duration(100ms)) << model.key;
      EXPECT_FALSE(step.provenance().empty());
    }
}

TEST(SteadyStateOfAReplica, GrowsWithConcurrencyUntilMemoryBinds) {
  const model::ModelSpec model = fixtures::qwen3_32b();
  const hardware::Gpu gpu = fixtures::h100();
  const Deployment d = deployment(model, gpu, {.tp = 2});
  const MemoryVerdict verdict = memory(d);
  ASSERT_TRUE(verdict.fits) << verdict.why;
  const StepModel step = StepModel::make(d);
  double before = 0;
  for (const double concurrency : {1, 2, 4, 8, 16, 32}) {
    const SteadyState state = steady_state(step, d, verdict, 1024, 1024, concurrency);
    EXPECT_GT(state.output_tok_s, before);
    EXPECT_DOUBLE_EQ(state.batch, concurrency);
    EXPECT_EQ(state.binding, "bandwidth");
    before = state.output_tok_s;
  }
  const SteadyState all = steady_state(step, d, verdict, 4096, 1024, 0);
  EXPECT_EQ(all.binding, "kv_memory");
  EXPECT_LE(all.batch * 4608, static_cast<double>(verdict.kv_tokens.value));
}

}  // namespace
}  // namespace muster::cost
