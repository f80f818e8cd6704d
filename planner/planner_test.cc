#include "muster/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"
#include "muster/planner/disaggregation.h"

namespace muster::planner {
namespace {

using testing::HasSubstr;

// Questions about real catalogue entries.
class Planner : public testing::Test {
 protected:
  Question ask(const std::string& model, const std::vector<std::string>& gpus) {
    model_ = models_.find(model).value();
    Question question{.model = &model_, .engine = cost::engine_profile({.engine = "vllm", .version = "0.19"}).value()};
    for (const std::string& gpu : gpus) question.gpus.push_back(devices_.find(gpu).value());
    return question;
  }
  static const Candidate* find(const std::vector<Candidate>& all, int tp, int pp, model::Dtype dtype) {
    for (const Candidate& c : all)
      if (c.layout.tp == tp && c.layout.pp == pp && c.precision.weights == dtype) return &c;
    return nullptr;
  }

  model::Catalogue models_ = model::Catalogue::built_in().value();
  hardware::Catalogue devices_ = hardware::Catalogue::built_in().value();
  model::ModelSpec model_;
};

TEST_F(Planner, A70BIn16BitsFitsNoSingleGpu) {
  const std::vector<Candidate> all = enumerate(ask("llama-3.1-70b", {"h100-sxm"}));
  const Candidate* alone = find(all, 1, 1, model::Dtype::kBf16);
  ASSERT_NE(alone, nullptr);
  EXPECT_FALSE(alone->fits) << "140 GB of weights on an 80 GB device";
  EXPECT_FALSE(alone->why.empty());
  const Candidate* four = find(all, 4, 1, model::Dtype::kBf16);
  ASSERT_NE(four, nullptr);
  EXPECT_TRUE(four->fits) << four->why;
  const Candidate* staged = find(all, 2, 2, model::Dtype::kBf16);
  ASSERT_NE(staged, nullptr);
  EXPECT_TRUE(staged->fits) << staged->why;
  EXPECT_EQ(staged->memory->stages.size(), 2u);
}

TEST_F(Planner, DataParallelismNeverHelpsToFit) {
  Question question = ask("llama-3.1-70b", {"h100-sxm"});
  question.precisions = {model::Dtype::kBf16};
  question.tp = 1;
  question.pp = 1;
  question.dp = 8;
  for (const Candidate& c : enumerate(question)) EXPECT_FALSE(c.fits);
}

TEST_F(Planner, DataParallelismMultipliesSpeedAndCost) {
  Question question = ask("llama-3.1-8b", {"h100-sxm"});
  question.precisions = {model::Dtype::kBf16};
  question.tp = question.pp = 1;
  const Candidate one = enumerate(question).front();
  question.dp = 3;
  const Candidate three = enumerate(question).front();
  EXPECT_NEAR(three.output_tok_s(), 3 * one.output_tok_s(), 1e-6 * three.output_tok_s());
  EXPECT_NEAR(*three.usd_h(), 3 * *one.usd_h(), 1e-9);
  EXPECT_NEAR(*three.usd_per_mtok(), *one.usd_per_mtok(), 1e-9);
}

TEST_F(Planner, Fp32MakesEverythingWorse) {
  const std::vector<Candidate> all = enumerate(ask("llama-3.1-8b", {"h100-sxm"}));
  const Candidate* wide = find(all, 1, 1, model::Dtype::kFp32);
  const Candidate* half = find(all, 1, 1, model::Dtype::kBf16);
  ASSERT_TRUE(wide && half);
  ASSERT_TRUE(wide->fits && half->fits);
  EXPECT_NEAR(to_gib(wide->memory->stage().weights), 2 * to_gib(half->memory->stage().weights), 0.1);
  EXPECT_LT(wide->memory->kv_tokens, half->memory->kv_tokens);
  EXPECT_LT(wide->output_tok_s(), half->output_tok_s());
}

TEST_F(Planner, TheBestComesFirstAndTheRejectedHaveReasons) {
  const std::vector<Candidate> all = enumerate(ask("llama-3.1-70b", {"h100-sxm", "l40s"}));
  bool rejected = false;
  double last = 1e18;
  for (const Candidate& c : all) {
    if (c.fits) {
      EXPECT_FALSE(rejected) << "a fitting layout after a rejected one";
      EXPECT_LE(c.output_tok_s_per_gpu(), last + 1e-9);
      last = c.output_tok_s_per_gpu();
    } else {
      rejected = true;
      EXPECT_FALSE(c.why.empty());
      EXPECT_EQ(c.why.find('\n'), std::string::npos) << "one line each";
    }
  }
  EXPECT_TRUE(rejected);
}

TEST_F(Planner, GoalsOrderDifferently) {
  Question question = ask("llama-3.1-8b", {"h100-sxm", "l4"});
  question.precisions = {model::Dtype::kBf16};
  question.goal = Goal::kLatency;
  const std::vector<Candidate> by_latency = enumerate(question);
  for (const Candidate& c : by_latency)
    if (c.fits) EXPECT_GE(c.speed->tpot_ms, by_latency.front().speed->tpot_ms);
  question.goal = Goal::kCost;
  const std::vector<Candidate> by_cost = enumerate(question);
  for (const Candidate& c : by_cost)
    if (c.fits && c.usd_per_mtok()) EXPECT_GE(*c.usd_per_mtok(), *by_cost.front().usd_per_mtok());
}

TEST_F(Planner, TensorParallelismThatDoesNotDivideIsRefused) {
  Question question = ask("qwen3-14b", {"h100-sxm"});
  question.precisions = {model::Dtype::kBf16};
  question.tp = 5;
  question.pp = 1;
  const std::vector<Candidate> all = enumerate(question);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].fits);
  EXPECT_THAT(all[0].why, HasSubstr("5"));
}

TEST_F(Planner, EveryOptionGetsAVerdictInNumbers) {
  Question question = ask("llama-3.1-70b", {"h100-sxm"});
  question.precisions = {model::Dtype::kFp8};
  const std::vector<Candidate> all = enumerate(question);
  ASSERT_TRUE(all.front().fits);
  const hardware::Gpu h100 = devices_.find("h100-sxm").value();
  const std::vector<Option> options =
      explain(question, all.front(), {devices_.find("h200-sxm").value()}, devices_.slices_of(h100));
  std::set<std::string> codes;
  for (const Option& option : options) {
    codes.insert(option.code);
    EXPECT_FALSE(option.verdict.empty()) << option.code;
    EXPECT_TRUE(option.why.find_first_of("0123456789") != std::string::npos) << option.code << ": " << option.why;
  }
  EXPECT_EQ(codes, (std::set<std::string>{"tp", "pp", "tp_pp", "dp", "larger_batch", "fp32", "fp8", "int4", "mig",
                                          "more_memory", "disaggregation"}));
}

TEST_F(Planner, DisaggregationBalancesItsTwoRoles) {
  Question question = ask("llama-3.1-70b", {"h100-sxm"});
  question.precisions = {model::Dtype::kFp8};
  question.tp = 4;
  question.pp = 1;
  question.concurrency = 32;
  double prefill_share_before = 0;
  for (const double input_tokens : {500.0, 4000.0, 16000.0}) {
    SCOPED_TRACE(input_tokens);
    question.input_tokens = input_tokens;
    question.output_tokens = 300;
    const Candidate mixed = enumerate(question).front();
    const std::optional<Disaggregated> split = disaggregate(question, mixed);
    ASSERT_TRUE(split);
    EXPECT_LE(split->tpot_ms, mixed.speed->tpot_ms);
    const int p = split->prefill_replicas, d = split->decode_replicas;
    EXPECT_NEAR(split->requests_s_per_gpu, std::min(p * split->prefill_rps, d * split->decode_rps) / (4 * (p + d)),
                1e-9);
    // No neighbour is better.
    for (const auto& [more_p, more_d] : {std::pair(p + 1, d), std::pair(p, d + 1)})
      EXPECT_LE(std::min(more_p * split->prefill_rps, more_d * split->decode_rps) / (4 * (more_p + more_d)),
                std::max(split->requests_s_per_gpu, more_p > 8 || more_d > 8 ? 1e9 : 0) + 1e-9);
    const double prefill_share = static_cast<double>(p) / (p + d);
    EXPECT_GT(prefill_share, prefill_share_before);  // longer prompts need more prefill
    prefill_share_before = prefill_share;
    // 80 layers x 2 x 8 KV heads x 128 x 2 bytes = 327,680 bytes a token.
    EXPECT_NEAR(split->kv_transfer_ms, input_tokens * 327680 / 50e9 * 1e3, 1e-6);
  }
  question.pp = 2;
  EXPECT_FALSE(disaggregate(question, enumerate(question).front()));
}

}  // namespace
}  // namespace muster::planner
