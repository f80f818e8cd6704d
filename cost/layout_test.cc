#include "muster/cost/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fixtures.h"

namespace muster::cost {
namespace {

using fixtures::h100;
using testing::HasSubstr;

TEST(StageLayers, GivesTheRemainderToStagesBeforeTheLast) {
  EXPECT_EQ(stage_layers(32, 4), (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(stage_layers(10, 4), (std::vector<int>{2, 3, 3, 2}));
  EXPECT_EQ(stage_layers(7, 4), (std::vector<int>{2, 2, 2, 1}));
  for (int layers = 1; layers <= 130; ++layers)
    for (int pp = 1; pp <= layers && pp <= 16; ++pp) {
      const std::vector<int> stages = stage_layers(layers, pp);
      EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), 0), layers);
      EXPECT_LE(*std::max_element(stages.begin(), stages.end()) - *std::min_element(stages.begin(), stages.end()), 1);
    }
}

TEST(RefuseLayout, AcceptsWhatDivides) {
  EXPECT_FALSE(refuse_layout(fixtures::llama_70b(), {.tp = 8}));
  EXPECT_FALSE(refuse_layout(fixtures::llama_70b(), {.tp = 16, .pp = 2}));  // KV heads are copied
  EXPECT_FALSE(refuse_layout(fixtures::mixtral(), {.tp = 8, .ep = 8}));
  EXPECT_FALSE(refuse_layout(fixtures::deepseek_v2_lite(), {.tp = 8, .ep = 4}));
}

TEST(RefuseLayout, NamesWhatDoesNotDivide) {
  // The measured refusal: vLLM does not start Qwen3-14B on five GPUs; 40 heads divide, the vocabulary does not.
  const auto tp5 = refuse_layout(fixtures::qwen3_14b(), {.tp = 5});
  ASSERT_TRUE(tp5);
  EXPECT_THAT(*tp5, HasSubstr("vocabulary 151936"));
  EXPECT_THAT(*refuse_layout(fixtures::llama_70b(), {.tp = 3}), HasSubstr("64 attention heads"));
  EXPECT_THAT(*refuse_layout(fixtures::llama_70b(), {.tp = 1, .pp = 81}), HasSubstr("80 layers"));
  EXPECT_THAT(*refuse_layout(fixtures::llama_70b(), {.tp = 8, .ep = 8}), HasSubstr("no experts"));
  EXPECT_THAT(*refuse_layout(fixtures::mixtral(), {.tp = 16, .ep = 16}), HasSubstr("8 experts"));
  EXPECT_THAT(*refuse_layout(fixtures::mixtral(), {.tp = 2, .ep = 4}), HasSubstr("does not divide tp 2"));
  EXPECT_TRUE(refuse_layout(fixtures::llama_8b(), {.tp = 0}));
}

TEST(RefuseDevice, SlicesHaveNoLinks) {
  EXPECT_FALSE(refuse_device(fixtures::h100_slice(), {.tp = 1, .dp = 7}, {}));
  EXPECT_THAT(*refuse_device(fixtures::h100_slice(), {.tp = 2}, {}), HasSubstr("no link"));
  EXPECT_THAT(*refuse_device(fixtures::h100_slice(), {.tp = 1, .pp = 2}, {}), HasSubstr("no link"));
}

TEST(RefuseDevice, NeedsMatrixUnitsAndALinkDomain) {
  EXPECT_FALSE(refuse_device(h100(), {.tp = 8}, {.weights = model::Dtype::kFp8, .kv = model::Dtype::kFp8}));
  EXPECT_THAT(*refuse_device(h100(), {.tp = 16}, {}), HasSubstr("NVLink 4"));
  hardware::Gpu a100 = h100();
  a100.key = "a100-sxm-80";
  a100.dense_flops[static_cast<std::size_t>(hardware::Format::kFp8)].reset();
  EXPECT_THAT(*refuse_device(a100, {.tp = 1}, {.weights = model::Dtype::kFp8}), HasSubstr("no fp8 matrix units"));
  // Weight-only formats multiply in 16 bits.
  EXPECT_FALSE(refuse_device(a100, {.tp = 1}, {.weights = model::Dtype::kInt4}));
  EXPECT_EQ(compute_format(a100, model::Dtype::kFp4), hardware::Format::kBf16);
  // PCIe cards without a scale-up domain still form groups inside one server.
  hardware::Gpu pcie = h100();
  pcie.scale_up = {.technology = "PCIe 5 x16", .bytes_per_s = 64e9, .domain_gpus = 1, .all_to_all = false};
  EXPECT_FALSE(refuse_device(pcie, {.tp = 4}, {}));
  EXPECT_TRUE(refuse_device(pcie, {.tp = 16}, {}));
}

}  // namespace
}  // namespace muster::cost
