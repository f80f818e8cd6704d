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

// The compiled curves against the sum over every operator. Between two knots the curve is linear while the sum bends
// with the fitted factors, so the two agree exactly at knots and to a few per cent elsewhere.
TEST(Step, CompiledCurvesFollowTheSumOfOperators) {
  const hardware::Gpu gpu = fixtures::h100();
  const std::array models{fixtures::llama_70b(), fixtures::mixtral(), fixtures::deepseek_v2_lite()};
  const std::uint64_t seed = 77;
  SCOPED_TRACE(seed);
  Rng rng = Rng::stream(seed, 0, "curves");
  for (const model::ModelSpec& model : models)
    for (const Layout layout : {Layout{.tp = 2}, Layout{.tp = 4, .pp = 2}}) {
      const StepModel step = StepModel::make(deployment(model, gpu, layout));
      double sum = 0;
      for (int i = 0; i < 400; ++i) {
        const auto sequences = static_cast<std::int64_t>(rng.below(512)) + 1;
        const std::array<PrefillChunk, 1> chunk{
            PrefillChunk{.tokens = static_cast<std::int64_t>(rng.below(8192)) + 1, .prefix = 0}};
        StepShape shape = decode(sequences, static_cast<std::int64_t>(rng.below(8000)) + 1);
        if (i % 2 == 0) shape.prefills = chunk;
        const int stage = i % layout.pp;
        const StepBreakdown b = step.breakdown(stage, shape);
        const double error = to_seconds(step.stage_time(stage, shape)) / (b.device_s() + b.host_s) - 1;
        EXPECT_LE(std::abs(error), 0.04) << model.key << " " << sequences << " " << chunk[0].tokens;
        sum += std::abs(error);
      }
      EXPECT_LE(sum / 400, 0.005) << model.key;
      for (const std::int64_t knot : {1, 16, 64, 128, 256, 512}) {
        const StepBreakdown b = step.breakdown(0, decode(knot, 1000));
        EXPECT_NEAR(to_seconds(step.stage_time(0, decode(knot, 1000))), b.device_s() + b.host_s, 1.1e-9);
      }
    }
}

TEST(Step, ExtrapolatesBeyondTheLastKnotInProportion) {
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = fixtures::h100();
  const StepModel step = StepModel::make(deployment(model, gpu, {.tp = 1}));
  const auto prefill = [&](std::int64_t tokens) {
    const std::array<PrefillChunk, 1> chunk{PrefillChunk{.tokens = tokens, .prefix = 0}};
    return to_seconds(step.stage_time(0, {.prefills = chunk, .sampled_sequences = 1}));
  };
  EXPECT_GT(prefill(65536), 1.9 * prefill(32768));
  EXPECT_LT(prefill(65536), 4.1 * prefill(32768));  // attention is quadratic
}

TEST(Step, AnAsynchronousSchedulerHidesTheShorterOfHostAndDevice) {
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = fixtures::h100();
  Deployment d = deployment(model, gpu, {.tp = 8});
  const double together = to_seconds(StepModel::make(d).stage_time(0, decode(8, 500)));
  const double device = StepModel::make(d).breakdown(0, decode(8, 500)).device_s();
  d.engine.asynchronous_scheduling = true;
  const double hidden = to_seconds(StepModel::make(d).stage_time(0, decode(8, 500)));
  const double host = to_seconds(d.engine.host_fixed) + 8 * to_seconds(d.engine.host_per_sequence);
  EXPECT_NEAR(together, device + host, 2e-9);
  EXPECT_NEAR(hidden, std::max(device, host), 2e-9);
  d.engine.host_serial_fixed = 1ms;
  EXPECT_NEAR(to_seconds(StepModel::make(d).stage_time(0, decode(8, 500))), hidden + 1e-3, 2e-9);
}

TEST(Step, SaysWhatIsMeasuredAndWhatIsBorrowed) {
  const model::ModelSpec model = fixtures::llama_8b();
  hardware::Gpu gpu = fixtures::h100();
  Deployment d = deployment(model, gpu, {.tp = 1});
  const StepModel measured = StepModel::make(d);
  EXPECT_FALSE(measured.is_estimate());
  EXPECT_LE(measured.error_band(), 0.1);
  EXPECT_NE(measured.provenance()[0].find("h100-sxm, vllm 0.24.0"), std::string::npos) << measured.provenance()[0];

  gpu.key = "h100-pcie";  // the same chip, less bandwidth
  gpu.memory_bytes_per_s = 2e12;
  const StepModel borrowed = StepModel::make(d);
  EXPECT_TRUE(borrowed.is_estimate());
  EXPECT_GT(borrowed.error_band(), measured.error_band());
  EXPECT_NE(borrowed.provenance()[0].find("scaled to the roofline"), std::string::npos);
  EXPECT_GT(borrowed.stage_time(0, decode(1, 100)), measured.stage_time(0, decode(1, 100)) * 5 / 4);

  gpu.key = "mi300x";
  gpu.architecture = "CDNA 3";
  const StepModel bare = StepModel::make(d);
  EXPECT_TRUE(bare.is_estimate());
  EXPECT_NE(bare.provenance()[0].find("roofline with general efficiencies"), std::string::npos);
  EXPECT_GE(bare.error_band(), borrowed.error_band());

  const StepModel slice = [&] {
    static const hardware::Gpu part = fixtures::h100_slice();
    d.gpu = &part;
    return StepModel::make(d);
  }();
  EXPECT_TRUE(slice.is_estimate());
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
