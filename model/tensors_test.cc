#include "muster/model/tensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/model/catalogue.h"

namespace muster::model {
namespace {

const Catalogue& catalogue() {
  static const Catalogue built_in = Catalogue::built_in().value();
  return built_in;
}

// Every model with a published total, to 0.1 %; where a vision tower is part of the published total, it is added.
TEST(Parameters, AgreeWithThePublishedTotals) {
  int with_total = 0;
  for (const std::string& key : catalogue().keys()) {
    const ModelSpec spec = catalogue().find(key).value();
    if (!spec.published_parameters) continue;
    ++with_total;
    EXPECT_FALSE(spec.published_source.empty()) << key;
    const double published = static_cast<double>(*spec.published_parameters);
    const std::int64_t counted = parameter_count(spec) + (spec.published_includes_other ? spec.other_parameters : 0);
    EXPECT_NEAR(static_cast<double>(counted) / published, 1, 0.001)
        << key << ": counted " << counted << ", published " << *spec.published_parameters;
  }
  EXPECT_GE(with_total, 45);
}

// Models whose makers print only a rounded number.
TEST(Parameters, AgreeWithNominalSizes) {
  const std::pair<const char*, double> nominal[] = {
      {"qwen3.5-397b-a17b", 397}, {"qwen3-next-80b-a3b", 80}, {"glm-5", 744},
      {"glm-4.5-air", 106},       {"minimax-m2.5", 230},      {"glm-4.6", 355},
      {"llama-4-maverick", 400},  {"falcon-40b", 41},         {"deepseek-v3.2", 671}};
  for (const auto& [key, billions] : nominal)
    EXPECT_NEAR(static_cast<double>(parameter_count(catalogue().find(key).value())) / 1e9 / billions, 1, 0.02) << key;
}

TEST(Parameters, ActiveOnes) {
  // DeepSeek-V3 report (arXiv 2412.19437): 37B active; gpt-oss model card: 3.6B and 5.1B without the embedding.
  EXPECT_NEAR(static_cast<double>(active_parameter_count(catalogue().find("deepseek-v3").value())) / 37.55e9, 1, 0.001);
  const ModelSpec small = catalogue().find("gpt-oss-20b").value();
  EXPECT_NEAR(static_cast<double>(active_parameter_count(small) - embedding_elements(small)) / 3.61e9, 1, 0.01);
  const ModelSpec dense = catalogue().find("llama-3.1-70b").value();
  EXPECT_EQ(active_parameter_count(dense), parameter_count(dense));
}

// A slow count of one model, written out by hand: Llama 3.1 8B.
TEST(Tensors, OfLlama8BByHand) {
  const ModelSpec spec = catalogue().find("llama-3.1-8b").value();
  std::int64_t total = 2LL * 128256 * 4096 + 4096;  // embedding, head, final norm
  for (int layer = 0; layer < 32; ++layer)
    total += 4096LL * 4096 * 2 + 2LL * 4096 * 1024 + 3LL * 4096 * 14336 + 2LL * 4096;
  EXPECT_EQ(total, 8030261248);
  EXPECT_EQ(parameter_count(spec), total);
  std::vector<std::string_view> names;
  for (const Tensor& tensor : layer_tensors(spec, 5)) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"norms", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                  "up_proj", "down_proj"}));
}

TEST(Tensors, OnlyTheRightOnesAreQuantised) {
  for (const std::string& key : catalogue().keys()) {
    const ModelSpec spec = catalogue().find(key).value();
    for (int layer = 0; layer < spec.layers; ++layer)
      for (const Tensor& tensor : layer_tensors(spec, layer)) {
        const bool matrix = tensor.name.ends_with("proj") || tensor.name == "in_proj_qkvz" ||
                            tensor.name == "kv_a_proj_with_mqa" || tensor.name == "indexer.wq_b" ||
                            tensor.name == "indexer.wk";
        const bool sensitive = tensor.name == "indexer.weights_proj";
        EXPECT_EQ(tensor.quantised, matrix && !sensitive) << key << " " << tensor.name;
        EXPECT_EQ(tensor.elements % tensor.units, 0) << key << " " << tensor.name;
      }
    for (const Tensor& tensor : embedding_tensors(spec)) EXPECT_FALSE(tensor.quantised) << key;
    for (const Tensor& tensor : head_tensors(spec)) EXPECT_FALSE(tensor.quantised) << key;
  }
}

// What all ranks hold together, from the tensors alone: the slow reference for weight_bytes_per_rank.
double all_ranks_by_hand(const ModelSpec& spec, int tp, int pp, double full_bytes, double low_bytes) {
  double total = static_cast<double>(spec.other_parameters) * full_bytes * tp;
  const auto add = [&](const Tensor& tensor) {
    double copies = 1;
    if (tensor.shard == Shard::kReplicated) copies = tp;
    if (tensor.shard == Shard::kKvHeads && tp > spec.kv_heads) copies = static_cast<double>(tp) / spec.kv_heads;
    if (tensor.shard == Shard::kExperts && tensor.units == 1) copies = tp;  // a bias that is added once
    const double bytes = static_cast<double>(tensor.elements) * (tensor.quantised ? low_bytes : full_bytes) * copies;
    total += bytes;
    return bytes;
  };
  for (int layer = 0; layer < spec.layers; ++layer)
    for (const Tensor& tensor : layer_tensors(spec, layer)) add(tensor);
  for (const Tensor& tensor : embedding_tensors(spec)) add(tensor);
  for (const Tensor& tensor : head_tensors(spec)) add(tensor);
  total += static_cast<double>(final_norm_elements(spec)) * full_bytes * tp;
  if (spec.tied_embeddings && pp > 1) add(embedding_tensors(spec).front());  // the last stage has its own copy
  return total;
}

bool divides_evenly(const ModelSpec& spec, int tp) {
  if (spec.attention_heads % tp != 0 || (tp <= spec.kv_heads ? spec.kv_heads % tp : tp % spec.kv_heads) != 0)
    return false;
  if (spec.vocab_size % 64 != 0 || spec.vocab_size % tp != 0) return false;
  if (spec.linear_attention && spec.linear_attention->key_heads % tp != 0) return false;
  if (spec.moe && (spec.moe->expert_intermediate_size % tp != 0 || spec.moe->shared_intermediate_size % tp != 0))
    return false;
  return spec.intermediate_size % tp == 0;
}

// Over every model, layout and precision that divides evenly: the ranks together hold exactly the model, replicated
// tensors once per rank.
TEST(Shards, SumUpToTheWhole) {
  int layouts = 0;
  for (const std::string& key : catalogue().keys()) {
    ModelSpec spec = catalogue().find(key).value();
    spec.only_experts_quantised = false;
    spec.quantisation_group = 0;
    for (const int tp : {1, 2, 4, 8, 16}) {
      if (!divides_evenly(spec, tp)) continue;
      for (const int pp : {1, 2, 3})
        for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp8, Dtype::kInt4, Dtype::kFp4}) {
          double total = 0;
          for (int stage = 0, first = 0; stage < pp; ++stage) {
            const int count = (spec.layers - first) / (pp - stage);
            const ShardedWeights rank{.spec = &spec,
                                      .dtype = dtype,
                                      .tp = tp,
                                      .ep = 1,
                                      .first_layer = first,
                                      .layer_count = count,
                                      .has_embedding = stage == 0,
                                      .has_head = stage == pp - 1,
                                      .as_loaded = false};
            total += static_cast<double>(weight_bytes_per_rank(rank).value) * tp;
            first += count;
          }
          const double full_bytes = dtype == Dtype::kFp32 ? 4 : 2;
          const double whole = all_ranks_by_hand(spec, tp, pp, full_bytes, weight_bytes(dtype));
          EXPECT_NEAR(total / whole, 1, 1e-6) << key << " tp" << tp << " pp" << pp << " " << name(dtype);
          ++layouts;
        }
    }
  }
  EXPECT_GT(layouts, 1000);
}

TEST(Shards, ExpertParallelRanksHoldWholeExperts) {
  const ModelSpec spec = catalogue().find("qwen3-235b-a22b").value();
  ShardedWeights rank{.spec = &spec,
                      .dtype = Dtype::kBf16,
                      .tp = 8,
                      .ep = 1,
                      .first_layer = 0,
                      .layer_count = spec.layers,
                      .has_embedding = true,
                      .has_head = true,
                      .as_loaded = false};
  const Bytes by_column = weight_bytes_per_rank(rank);
  rank.ep = 8;
  EXPECT_EQ(weight_bytes_per_rank(rank), by_column);  // 128 experts and 1536 columns both divide by 8
  rank.ep = 2;                                        // 64 experts, each cut over 4 ranks
  EXPECT_EQ(weight_bytes_per_rank(rank), by_column);
  rank.ep = 3;  // 43 of 128 experts on the fullest rank
  EXPECT_GT(weight_bytes_per_rank(rank), by_column);
}

TEST(Shards, KeyValueHeadsAreReplicatedBeyondTheirNumber) {
  const ModelSpec spec = catalogue().find("llama-3.1-8b").value();
  EXPECT_EQ(kv_bytes_per_token_and_layer(spec, 0, Dtype::kBf16, 1).value, 4096);
  EXPECT_EQ(kv_bytes_per_token_and_layer(spec, 0, Dtype::kBf16, 8).value, 512);
  EXPECT_EQ(kv_bytes_per_token_and_layer(spec, 0, Dtype::kBf16, 16).value, 512);
  EXPECT_EQ(kv_bytes_per_token_and_layer(spec, 0, Dtype::kFp8, 8).value, 256);
}

// 31104 for DeepSeek-V2-Lite is what a vLLM 0.19 log implies: 43.61 GiB for 1,505,552 tokens.
TEST(KeyValueCache, BytesPerToken) {
  EXPECT_EQ(kv_bytes_per_token(catalogue().find("llama-3.1-8b").value(), Dtype::kBf16).value, 131072);
  EXPECT_EQ(kv_bytes_per_token(catalogue().find("llama-3.1-70b").value(), Dtype::kBf16).value, 327680);
  EXPECT_EQ(kv_bytes_per_token(catalogue().find("deepseek-v2-lite").value(), Dtype::kBf16).value, 31104);
  EXPECT_EQ(kv_bytes_per_token(catalogue().find("deepseek-v3").value(), Dtype::kBf16).value, 70272);
  // Only every fourth layer of Qwen3.5 has a cache: 15 x 2 x 2 heads x 256 x 2 bytes.
  const ModelSpec hybrid = catalogue().find("qwen3.5-397b-a17b").value();
  EXPECT_EQ(kv_bytes_per_token(hybrid, Dtype::kBf16).value, 30720);
  EXPECT_EQ(kv_bytes_per_token_and_layer(hybrid, 0, Dtype::kBf16, 1).value, 0);
  EXPECT_EQ(hybrid.linear_attention->state_bytes_per_layer, 64 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) * 3 * 2);
}

TEST(Layers, KindsFollowTheDescription) {
  const ModelSpec maverick = catalogue().find("llama-4-maverick").value();
  EXPECT_FALSE(maverick.is_moe_layer(0));
  EXPECT_TRUE(maverick.is_moe_layer(1));
  const ModelSpec deepseek = catalogue().find("deepseek-v3").value();
  EXPECT_FALSE(deepseek.is_moe_layer(2));
  EXPECT_TRUE(deepseek.is_moe_layer(3));
  const ModelSpec gemma = catalogue().find("gemma-3-27b").value();
  EXPECT_TRUE(gemma.is_local_layer(4));
  EXPECT_FALSE(gemma.is_local_layer(5));
  const ModelSpec gpt_oss = catalogue().find("gpt-oss-20b").value();
  EXPECT_TRUE(gpt_oss.is_local_layer(0));
  EXPECT_FALSE(gpt_oss.is_local_layer(1));
  const ModelSpec hybrid = catalogue().find("qwen3-next-80b-a3b").value();
  EXPECT_TRUE(hybrid.is_linear_layer(2));
  EXPECT_FALSE(hybrid.is_linear_layer(3));
}

TEST(Dtypes, NamesAndSizes) {
  for (const Dtype dtype : kDtypes) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  EXPECT_EQ(parse_dtype("BFloat16"), Dtype::kBf16);
  EXPECT_EQ(parse_dtype("w4a16"), Dtype::kInt4);
  EXPECT_EQ(parse_dtype("fp7"), std::nullopt);
  EXPECT_EQ(compute_dtype(Dtype::kInt4), Dtype::kBf16);
  EXPECT_EQ(compute_dtype(Dtype::kFp8), Dtype::kFp8);
  EXPECT_EQ(weight_bytes(Dtype::kFp4), 0.53125);
}

TEST(Validate, NamesModelAndField) {
  const auto refused = [](auto&& change) {
    ModelSpec spec = catalogue().find("llama-3.1-8b").value();
    change(spec);
    const auto result = validate(spec);
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_EQ(refused([](ModelSpec&) {}), "accepted");
  EXPECT_EQ(refused([](ModelSpec& spec) { spec.layers = 0; }), "llama-3.1-8b: layers is 0; needed: 1 to 4096");
  EXPECT_EQ(refused([](ModelSpec& spec) { spec.kv_heads = 5; }),
            "llama-3.1-8b: attention_heads 32 is not a multiple of kv_heads 5");
  EXPECT_NE(refused([](ModelSpec& spec) {
              spec.moe = Moe{.experts = 4, .experts_per_token = 5, .expert_intermediate_size = 8};
            }).find("moe.experts_per_token is 5; needed: 1 to 4"),
            std::string::npos);
  EXPECT_NE(refused([](ModelSpec& spec) {
              spec.sliding_window = SlidingWindow{.window = 8, .local = {true}};
            }).find("describes 1 layers"),
            std::string::npos);
  EXPECT_NE(refused([](ModelSpec& spec) {
              spec.hidden_size = 1 << 20, spec.intermediate_size = 1 << 24;
            }).find("at most 1e15"),
            std::string::npos);
  EXPECT_NE(refused([](ModelSpec& spec) { spec.rotary_fraction = NAN; }).find("rotary_fraction"), std::string::npos);
}

}  // namespace
}  // namespace muster::model
