#include "muster/cost/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "fixtures.h"
#include "muster/files/csv.h"
#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"

namespace muster::cost {
namespace {

using testing::HasSubstr;

const std::string kStartups = std::string(MUSTER_SHARED_DATA) + "/memory/vllm_startup_h100.csv";

struct Startup {
  std::string model, name;
  Deployment deployment;
  double weights_gib = 0;
  double kv_tokens = 0;
};

model::Dtype dtype_of(std::string_view dtype, std::string_view quantization) {
  if (quantization != "none") return *model::parse_dtype(quantization);
  return dtype == "f32" ? model::Dtype::kFp32 : dtype == "f16" ? model::Dtype::kFp16 : model::Dtype::kBf16;
}

std::string catalogue_key(const std::string& published) {
  const std::pair<const char*, const char*> keys[] = {
      {"Llama-3.1-8B", "llama-3.1-8b"},     {"Llama-3.3-70B", "llama-3.1-70b"},
      {"Qwen2.5-7B", "qwen2.5-7b"},         {"Qwen2.5-72B", "qwen2.5-72b"},
      {"Kimi-Dev-72B", "kimi-dev-72b"},     {"Qwen3-8B", "qwen3-8b"},
      {"Mixtral-8x7B", "mixtral-8x7b"},     {"DeepSeek-V2-Lite", "deepseek-v2-lite"},
      {"Kimi-VL-A3B", "kimi-vl-a3b"},       {"Mistral-Small-3.1-24B", "mistral-small-3.1-24b"},
      {"granite-3.1-2b", "granite-3.1-2b"}, {"granite-3.3-8b", "granite-3.3-8b"},
      {"gemma-2-27b", "gemma-2-27b"},       {"gemma-2-2b", "gemma-2-2b"},
      {"gemma-3-27b", "gemma-3-27b"},       {"gemma-3-4b", "gemma-3-4b"}};
  for (const auto& [part, key] : keys)
    if (published.find(part) != std::string::npos) return key;
  return published;
}

void for_each_startup(const std::function<void(const Startup&)>& check) {
  auto csv = files::CsvReader::open(kStartups);
  ASSERT_TRUE(csv) << csv.error().message;
  const auto models = model::Catalogue::built_in();
  const auto devices = hardware::Catalogue::built_in();
  ASSERT_TRUE(models && devices);
  const auto gpu = devices->find("h100-sxm");
  ASSERT_TRUE(gpu) << gpu.error().message;
  const auto column = [&](const char* name) { return *csv->need(name); };
  int rows = 0;
  while (*csv->next()) {
    const std::string name(csv->field(column("model")));
    const auto model = models->find(catalogue_key(name));
    ASSERT_TRUE(model) << model.error().message;
    Startup s;
    s.model = name;
    s.deployment.model = &*model;
    s.deployment.gpu = &*gpu;
    s.deployment.device_memory = Bytes(static_cast<std::int64_t>(*csv->number(column("total_memory_gib")) * kGiB));
    s.deployment.engine = fixtures::engine("vllm@0.19.0");
    s.deployment.layout.tp = static_cast<int>(*csv->integer(column("tp"), 1, 64));
    s.deployment.layout.pp = static_cast<int>(*csv->integer(column("pp"), 1, 64));
    s.deployment.max_model_len = static_cast<int>(*csv->integer(column("max_model_len"), 1, 1 << 20));
    s.deployment.memory_fraction = *csv->number(column("gpu_memory_utilization"));
    const model::Dtype weights = dtype_of(csv->field(column("dtype")), csv->field(column("quantization")));
    s.deployment.precision.weights = weights;
    s.deployment.precision.kv = csv->field(column("kv_cache_dtype")) == "fp8" ? model::Dtype::kFp8
                                : weights == model::Dtype::kFp32              ? model::Dtype::kFp32
                                                                              : model::Dtype::kBf16;
    s.weights_gib = *csv->number(column("weights_gib"));
    s.kv_tokens = *csv->number(column("kv_cache_tokens"));
    s.name = fmt::format("{} {} {} kv {}", name, text(s.deployment.layout), model::name(weights),
                         model::name(s.deployment.precision.kv));
    check(s);
    ++rows;
  }
  EXPECT_GT(rows, 25);
}

TEST(MemoryOfMeasuredStartups, WeightsWithinOnePercent) {
  if (!std::filesystem::exists(kStartups)) GTEST_SKIP() << kStartups << " is not here";
  for_each_startup([](const Startup& s) {
    const MemoryVerdict verdict = memory(s.deployment);
    const double error = to_gib(verdict.stage().weights) / s.weights_gib - 1;
    // The last stage limits the tokens while the log prints the first one's weights; both hold one vocabulary matrix.
    EXPECT_LE(std::abs(error), 0.01) << s.name << ": " << to_gib(verdict.stage().weights) << " for " << s.weights_gib;
    fmt::print("{:75s} weights {:+.2f} %\n", s.name, 100 * error);
  });
}

TEST(MemoryOfMeasuredStartups, KvTokensWithinThreePercent) {
  if (!std::filesystem::exists(kStartups)) GTEST_SKIP() << kStartups << " is not here";
  for_each_startup([](const Startup& s) {
    const MemoryVerdict verdict = memory(s.deployment);
    const double error = static_cast<double>(verdict.kv_tokens.value) / s.kv_tokens - 1;
    EXPECT_TRUE(verdict.fits) << s.name << ": " << verdict.why;
    EXPECT_LE(std::abs(error), 0.03) << s.name << ": " << verdict.kv_tokens.value << " for " << s.kv_tokens;
    fmt::print("{:75s} KV tokens {:+.2f} %\n", s.name, 100 * error);
  });
}

Deployment llama_70b_on(const hardware::Gpu& gpu, const model::ModelSpec& model, int tp) {
  Deployment d;
  d.model = &model;
  d.gpu = &gpu;
  d.engine = fixtures::engine("vllm@0.19");
  d.layout.tp = tp;
  d.max_model_len = 8192;
  return d;
}

TEST(Memory, SaysWhichFlagWouldHelp) {
  const model::ModelSpec model = fixtures::llama_70b();
  const hardware::Gpu gpu = fixtures::h100();
  const MemoryVerdict one = memory(llama_70b_on(gpu, model, 1));
  EXPECT_FALSE(one.fits);
  EXPECT_THAT(one.why, HasSubstr("GiB of weights per GPU, has"));
  EXPECT_THAT(one.why, HasSubstr("use --tp 2, or --precision int4"));
  EXPECT_TRUE(memory(llama_70b_on(gpu, model, 2)).fits);
  EXPECT_LT(one.stage().free.value, 0);

  Deployment tight = llama_70b_on(gpu, model, 2);
  tight.memory_fraction = 0.93;
  tight.max_model_len = 131072;
  const MemoryVerdict two = memory(tight);
  EXPECT_FALSE(two.fits);
  EXPECT_THAT(two.why, HasSubstr("--max-model-len"));
  // The length that it names does fit, and the next block does not.
  const std::size_t at = two.why.find("--max-model-len ") + 16;
  tight.max_model_len = std::stoi(two.why.substr(at));
  EXPECT_TRUE(memory(tight).fits);
  tight.max_model_len += 16;
  EXPECT_FALSE(memory(tight).fits);
}

TEST(Memory, AddsUpToTheDevice) {
  const model::ModelSpec model = fixtures::llama_70b();
  const hardware::Gpu gpu = fixtures::h100();
  for (const int tp : {2, 4, 8})
    for (const int pp : {1, 2, 3}) {
      Deployment d = llama_70b_on(gpu, model, tp);
      d.layout.pp = pp;
      const MemoryVerdict verdict = memory(d);
      if (!verdict.fits) continue;
      int layers = 0;
      for (const StageMemory& s : verdict.stages) {
        layers += s.layers;
        EXPECT_EQ((s.weights + s.activation + s.non_torch + s.graph + s.kv + s.free).value, gpu.memory.value);
        EXPECT_GE(s.free.value, 0);
      }
      EXPECT_EQ(layers, model.layers);
    }
}

TEST(Memory, AMeasuredBlockCountOverrides) {
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = fixtures::h100();
  Deployment d = llama_70b_on(gpu, model, 1);
  d.kv_blocks = 2588;
  EXPECT_EQ(memory(d).kv_tokens.value, 2588 * 16);
}

TEST(Memory, CopiesOfTheModelDoNotChangeTheMemoryPerGpu) {
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = fixtures::h100();
  Deployment d = llama_70b_on(gpu, model, 1);
  const std::int64_t tokens = memory(d).kv_tokens.value;
  d.layout.dp = 4;
  EXPECT_EQ(memory(d).kv_tokens.value, tokens);
}

TEST(Memory, KvHeadsAreCopiedBeyondTheirNumber) {
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = fixtures::h100();
  const double tokens_8 = static_cast<double>(memory(llama_70b_on(gpu, model, 8)).kv_tokens.value);
  const double tokens_16 = static_cast<double>(memory(llama_70b_on(gpu, model, 16)).kv_tokens.value);
  EXPECT_NEAR(tokens_16 / tokens_8, 1.0, 0.03);  // twice the GPUs, twice the copies
}

TEST(Memory, WindowedLayersStopGrowing) {
  const model::ModelSpec gemma =
      fixtures::gemma({"gemma-3-27b", 62, 5376, 21504, 32, 16, 128, 262208, true, false, true}, {1024, 6});
  const hardware::Gpu gpu = fixtures::h100();
  const Deployment d = llama_70b_on(gpu, gemma, 1);
  EXPECT_DOUBLE_EQ(kv_tokens_of_sequence(d, 1000), 1000);
  // Seven groups of ten layers: one grows, six stop at the window.
  EXPECT_DOUBLE_EQ(kv_tokens_of_sequence(d, 8192), (8192 + 6 * 1024) / 7.0);
}

TEST(Memory, CudaOffersLessThanTheDriverReports) {
  const auto catalogue = hardware::Catalogue::built_in();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_NEAR(to_gib(visible_memory(*catalogue->find("h100-sxm"))), 79.19, 0.02);
  EXPECT_NEAR(to_gib(visible_memory(*catalogue->find("rtx4090"))), 23.517, 0.3);  // only a marketing figure is known
  const hardware::Gpu slice = *catalogue->find("h100-sxm/1g.10gb");
  EXPECT_EQ(visible_memory(slice), slice.memory);
  const model::ModelSpec model = fixtures::llama_8b();
  const hardware::Gpu gpu = *catalogue->find("h100-sxm");
  Deployment d = llama_70b_on(gpu, model, 1);
  const Tokens tokens = memory(d).kv_tokens;
  d.device_memory = Bytes(visible_memory(gpu).value - 10 * kGiB);
  EXPECT_NEAR(static_cast<double>((tokens - memory(d).kv_tokens).value), 9.0 * kGiB / 131072, 32);
}

TEST(Memory, DefaultFlagsFollowTheDevice) {
  const model::ModelSpec model = fixtures::llama_8b();
  hardware::Gpu gpu = fixtures::h100();
  EXPECT_EQ(max_num_seqs(llama_70b_on(gpu, model, 1)), 1024);
  EXPECT_EQ(max_num_batched_tokens(llama_70b_on(gpu, model, 1)), 8192);
  gpu.key = "a100-sxm-80";
  EXPECT_EQ(max_num_seqs(llama_70b_on(gpu, model, 1)), 256);
  EXPECT_EQ(max_num_batched_tokens(llama_70b_on(gpu, model, 1)), 2048);
}

}  // namespace
}  // namespace muster::cost
