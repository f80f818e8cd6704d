#include "muster/cost/engine.h"

#include <gtest/gtest.h>

namespace muster::cost {
namespace {

EngineProfile profile(const char* text) {
  const auto version = parse_engine(text);
  EXPECT_TRUE(version.has_value()) << text;
  const auto found = engine_profile(*version);
  EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().message);
  return found.value_or(EngineProfile{});
}

TEST(Engine, ParsesNamesVersionsAndAliases) {
  const auto vllm = parse_engine("vLLM@0.19");
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->engine, "vllm");
  EXPECT_EQ(vllm->version, "0.19");
  EXPECT_EQ(parse_engine("TRT-LLM@1.2.0rc2")->engine, "tensorrt-llm");
  EXPECT_EQ(parse_engine("llamacpp")->engine, "llama.cpp");
}

TEST(Engine, RefusesUnknownNamesWithTheNearestOne) {
  const auto wrong = parse_engine("vlm@0.19");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("did you mean vllm"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(parse_engine("vllm@"));
}

TEST(Engine, EveryEngineHasAProfileWithSources) {
  for (const std::string& name : engine_names()) {
    const EngineProfile found = profile(name.c_str());
    EXPECT_FALSE(found.sources.empty()) << name;
    EXPECT_GT(found.memory_fraction, 0.5) << name;
    EXPECT_GT(found.max_num_seqs, 0) << name;
  }
}

TEST(Engine, VllmRulesChangeWithTheVersion) {
  EXPECT_DOUBLE_EQ(profile("vllm@0.12.0").memory_fraction, 0.90);
  EXPECT_DOUBLE_EQ(profile("vllm@0.21.3").memory_fraction, 0.90);
  EXPECT_DOUBLE_EQ(profile("vllm@0.22").memory_fraction, 0.92);
  EXPECT_FALSE(profile("vllm@0.20").graphs_in_budget);
  EXPECT_TRUE(profile("vllm@0.21").graphs_in_budget);
  EXPECT_FALSE(profile("vllm@0.12.0").asynchronous_scheduling);
  EXPECT_TRUE(profile("vllm@0.19").asynchronous_scheduling);
  EXPECT_LT(profile("vllm@0.17").logits_gib_per_k_seqs_vocab, profile("vllm@0.16").logits_gib_per_k_seqs_vocab);
  // Versions are numbers, not text: 0.9 is older than 0.17.
  EXPECT_EQ(profile("vllm@0.9.2").matched_version, "0.6");
  // No version, or one that is not a number, is the newest.
  EXPECT_EQ(profile("vllm").matched_version, profile("vllm@99").matched_version);
  EXPECT_EQ(profile("vllm@nightly-5b8c").matched_version, profile("vllm@99").matched_version);
  // Older than the first row: the first row.
  EXPECT_EQ(profile("vllm@0.1").matched_version, "0.6");
}

}  // namespace
}  // namespace muster::cost
