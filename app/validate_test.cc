#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "attention_dp_timer.h"
#include "muster/files/lines.h"
#include "parallel.h"
#include "validate_summary.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

const Catalogues& catalogues() {
  static const Catalogues all = [] {
    return Catalogues{*model::Catalogue::built_in(), *hardware::Catalogue::built_in()};
  }();
  return all;
}

MeasuredRow qwen_row() {
  return {.row_id = "a",
          .source = "own",
          .engine = "vLLM",
          .engine_version = "0.12.0",
          .model_key = "qwen3-32b",
          .gpu_key = "h100-sxm",
          .precision = "bf16",
          .mode = "agg",
          .load_kind = "concurrency",
          .tp = 2,
          .pp = 1,
          .dp = 1,
          .num_gpus = 2,
          .isl = 1024,
          .osl = 1024,
          .concurrency = 8,
          .tpot_ms = 15.9};
}

TEST(Express, ReadsDeploymentAndLoad) {
  const auto c = express(qwen_row(), catalogues());
  ASSERT_TRUE(c) << c.error();
  EXPECT_EQ(c->engine.text(), "vllm@0.12.0");
  EXPECT_EQ(c->layout, (cost::Layout{.tp = 2}));
  EXPECT_EQ(c->load, Load::kClosedLoop);
  EXPECT_EQ(c->concurrency, 8);
  EXPECT_TRUE(c->marks.empty());
}

TEST(Express, NamesWhatItCannotExpress) {
  MeasuredRow row = qwen_row();
  row.gpu_key = "";
  row.gpu = "Ascend 910B";
  EXPECT_EQ(express(row, catalogues()).error(), "gpu not in the catalogue: Ascend 910B");
  row = qwen_row();
  row.model_key = "";
  row.model = "bert-large";
  EXPECT_EQ(express(row, catalogues()).error(), "model not in the catalogue: bert-large");
  row = qwen_row();
  row.isl.reset();
  EXPECT_EQ(express(row, catalogues()).error(), "input length not stated");
  row = qwen_row();
  row.mode = "disagg";
  row.note = "disagg: prefill ?x(tp8 pp1 dp1 moe_tp8 ep1 bs?) + decode ?x(tp8 pp1 dp1 moe_tp8 ep1 bs?)";
  EXPECT_EQ(express(row, catalogues()).error(), "disaggregated, worker counts not stated");
}

TEST(Express, UndoesMultipliedDegrees) {
  MeasuredRow row = qwen_row();
  row.model_key = "deepseek-r1";
  row.gpu_key = "b200-sxm";
  row.precision = "fp4";
  row.tp = 64;
  row.ep = 8;
  row.note = "moe_tp 8";
  EXPECT_EQ(express(row, catalogues())->layout, (cost::Layout{.tp = 8, .ep = 8}));
  row.tp = 1;
  row.dp = 64;
  EXPECT_EQ(express(row, catalogues())->layout, (cost::Layout{.tp = 1, .dp = 8, .ep = 8}));
  row.tp = 4;
  row.dp = 4;
  row.ep = 16;
  row.note = "moe_tp 1";
  EXPECT_EQ(express(row, catalogues())->layout, (cost::Layout{.tp = 4, .ep = 4}));
}

TEST(Predict, ComesOutTheSameEveryTime) {
  const Compared a = compare(qwen_row(), catalogues()), b = compare(qwen_row(), catalogues());
  ASSERT_TRUE(a.answered()) << a.why_not;
  EXPECT_EQ(*a.prediction.tpot_ms, *b.prediction.tpot_ms);
  EXPECT_EQ(*a.prediction.output_tok_s, *b.prediction.output_tok_s);
}

// Little's law joins the three figures of a closed loop.
TEST(Predict, ClosedLoopObeysLittlesLaw) {
  MeasuredRow row = qwen_row();
  for (const int users : {1, 8, 64}) {
    row.concurrency = users;
    const Compared c = compare(row, catalogues(), 10);
    ASSERT_TRUE(c.answered()) << c.why_not;
    const double e2e_s = (*c.prediction.ttft_ms + *c.prediction.tpot_ms * 1023) * 1e-3;
    EXPECT_NEAR(*c.prediction.output_tok_s, users * 1024 / e2e_s, 0.03 * users * 1024 / e2e_s) << users;
  }
}

TEST(Predict, FewWavesComeCloseToMany) {
  MeasuredRow row = qwen_row();
  row.source = "InferenceX";
  row.concurrency = 64;
  const Compared few = compare(row, catalogues(), 4), many = compare(row, catalogues(), 10);
  EXPECT_NEAR(*few.prediction.tpot_ms, *many.prediction.tpot_ms, 0.02 * *many.prediction.tpot_ms);
  EXPECT_NEAR(*few.prediction.ttft_ms, *many.prediction.ttft_ms, 0.15 * *many.prediction.ttft_ms);
}

TEST(Predict, AttentionDpNeedsTheWeightsOnEveryRank) {
  const auto model = *catalogues().models.find("deepseek-r1");
  const auto gpu = *catalogues().devices.find("h200-sxm");
  cost::Deployment d{.model = &model,
                     .gpu = &gpu,
                     .engine = *cost::engine_profile({"tensorrt-llm", "1.1"}),
                     .layout = {.tp = 1, .dp = 8, .ep = 8},
                     .precision = {model::Dtype::kFp8, model::Dtype::kBf16},
                     .max_model_len = 8192};
  const cost::MemoryVerdict attention_dp = attention_dp_memory(d);
  d.layout = {.tp = 8, .ep = 8};
  const cost::MemoryVerdict tensor = cost::memory(d);
  EXPECT_GT(attention_dp.stage().weights.value, tensor.stage().weights.value);
  // MLA keeps the whole latent cache on every tensor-parallel rank: eight groups hold nearly eight times the tokens.
  EXPECT_GT(attention_dp.kv_tokens.value, 5 * tensor.kv_tokens.value);
}

TEST(Summarise, CountsErrorsAndReasons) {
  MeasuredRow unknown = qwen_row();
  unknown.model_key = "no-such-model";
  const std::vector<MeasuredRow> rows{qwen_row(), unknown};
  const std::vector<Compared> compared = compare_all(rows, catalogues(), 4, 2);
  const report::Validation v = summarise("rows.csv", compared);
  EXPECT_EQ(v.rows, 2u);
  EXPECT_EQ(v.expressible, 1u);
  ASSERT_EQ(v.not_expressed.size(), 1u);
  EXPECT_THAT(v.not_expressed[0].reason, HasSubstr("no-such-model"));
  ASSERT_TRUE(v.groups.front().tpot);
  EXPECT_NEAR(v.groups.front().tpot->mape, std::abs(*compared[0].prediction.tpot_ms / 15.9 - 1), 1e-12);
  EXPECT_EQ(v.worst.size(), 1u);
}

TEST(ReadMeasuredRows, SaysWhereANumberIsNone) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "measured_rows_test.csv").string();
  ASSERT_TRUE(files::write_file(path, "model_key,gpu_key,isl,tpot_ms\nqwen3-32b,h100-sxm,1024,ten\n"));
  const auto rows = read_measured_rows(path);
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr(":2"));
  EXPECT_THAT(rows.error().message, HasSubstr("tpot_ms"));
  ASSERT_TRUE(files::write_file(path, "model_key,isl\nqwen3-32b,1\n"));
  EXPECT_THAT(read_measured_rows(path).error().message, HasSubstr("gpu_key"));
}

// ---- accuracy against measured rows; absolute limits ---------------------------------------------------------------

class Accuracy : public testing::Test {
 protected:
  static std::vector<Compared> rows(const std::string& file, const std::function<bool(const MeasuredRow&)>& wanted) {
    const std::string path = std::string(MUSTER_SHARED_DATA) + "/measured/" + file;
    if (!std::filesystem::exists(path)) return {};
    const auto all = read_measured_rows(path);
    EXPECT_TRUE(all) << (all ? "" : all.error().message);
    std::vector<MeasuredRow> some;
    for (const MeasuredRow& row : *all)
      if (wanted(row)) some.push_back(row);
    return compare_all(some, catalogues(), 4, default_threads());
  }
  // Rows whose recipe speculates are predicted without, and are left out here.
  static std::vector<const Compared*> plain(const std::vector<Compared>& rows) {
    std::vector<const Compared*> out;
    for (const Compared& c : rows) {
      const bool speculates =
          std::ranges::any_of(c.prediction.marks, [](const std::string& m) { return m.starts_with("speculative"); });
      if (!speculates) out.push_back(&c);
    }
    return out;
  }
  static report::ValidationGroup group(const std::vector<Compared>& rows) { return group_of("", plain(rows)); }
};
#define SKIP_WITHOUT(rows) \
  if ((rows).empty()) GTEST_SKIP() << "needs the measured rows of " MUSTER_SHARED_DATA "/measured, which are not here"

TEST_F(Accuracy, Qwen32bOnVllmAndH100) {
  const auto compared = rows("aiconfigurator_silicon.csv", [](const MeasuredRow& r) {
    return r.mode == "agg" && r.engine == "vLLM" && r.model_key == "qwen3-32b" && r.gpu_key == "h100-sxm" &&
           r.precision != "fp8";
  });
  SKIP_WITHOUT(compared);
  const auto g = group(compared);
  EXPECT_LE(g.tpot->mape, 0.08) << g.tpot->n << " rows, bias " << g.tpot->bias;
  RecordProperty("tpot_mape_percent", std::to_string(100 * g.tpot->mape));
}

TEST_F(Accuracy, Llama70bFp8OnVllm) {
  const auto compared = rows("aiconfigurator_silicon.csv", [](const MeasuredRow& r) {
    return r.mode == "agg" && r.engine == "vLLM" && r.model_key == "llama-3.1-70b" && r.precision == "fp8";
  });
  SKIP_WITHOUT(compared);
  const auto g = group(compared);
  EXPECT_LE(g.tpot->mape, 0.08) << g.tpot->n << " rows, bias " << g.tpot->bias;
}

TEST_F(Accuracy, DenseOnTensorRtLlmAndHopper) {
  const auto compared = rows("aiconfigurator_silicon.csv", [](const MeasuredRow& r) {
    return r.mode == "agg" && r.engine == "TensorRT-LLM" && (r.gpu_key == "h100-sxm" || r.gpu_key == "h200-sxm") &&
           (r.model_key.starts_with("llama") || r.model_key == "qwen3-32b");
  });
  SKIP_WITHOUT(compared);
  const auto g = group(compared);
  EXPECT_LE(g.tpot->mape, 0.10) << g.tpot->n << " rows, bias " << g.tpot->bias;
}

TEST_F(Accuracy, MixturesOfExpertsOnVllm) {
  const auto compared = rows("aiconfigurator_silicon.csv", [](const MeasuredRow& r) {
    // Of gpt-oss-120b on H100 above 256 users only a dozen ran at once (their TTFT is minutes, their TPOT that of a
    // dozen).
    const bool throttled = r.model_key == "gpt-oss-120b" && r.gpu_key == "h100-sxm" && r.concurrency.value_or(0) > 256;
    return r.mode == "agg" && r.engine == "vLLM" && !throttled &&
           (r.model_key == "gpt-oss-120b" || r.model_key == "minimax-m2.5" || r.model_key == "kimi-k2.5");
  });
  SKIP_WITHOUT(compared);
  const auto g = group(compared);
  EXPECT_LE(g.tpot->mape, 0.15) << g.tpot->n << " rows, bias " << g.tpot->bias;
}

TEST_F(Accuracy, TensorRtLlmPerformanceOverview) {
  const auto compared = rows("trtllm_perf_overview.csv", [](const MeasuredRow&) { return true; });
  SKIP_WITHOUT(compared);
  const auto g = group(compared);
  EXPECT_LE(g.throughput->median, 0.12) << g.throughput->n << " rows, bias " << g.throughput->bias;
}

// 1 row in 4, by the row's hash; every file.
TEST_F(Accuracy, NearlyEveryAggregatedRowHasAnAnswer) {
  std::size_t all = 0, answered = 0;
  std::vector<std::string> missing;
  for (const char* file :
       {"aiconfigurator_silicon.csv", "trtllm_perf_overview.csv", "dstack.csv", "gpustack_perf_lab.csv",
        "vendor_pages.csv", "splitwise_static_batch.csv", "llamacpp_single_stream.csv", "optimum_habana.csv",
        "lmdeploy_a100.csv", "azure_guide.csv", "fleet_routing.csv", "llmservingsim_vllm.csv", "misc_small.csv"}) {
    const auto compared =
        rows(file, [](const MeasuredRow& r) { return r.mode != "disagg" && r.row_id.find_first_of("048c") == 0; });
    for (const Compared& c : compared) {
      ++all;
      if (c.answered())
        ++answered;
      else
        missing.push_back(c.why_not);
    }
  }
  if (all == 0) GTEST_SKIP() << "needs the measured rows of " MUSTER_SHARED_DATA "/measured, which are not here";
  EXPECT_GE(static_cast<double>(answered), 0.95 * static_cast<double>(all)) << testing::PrintToString(missing);
}

}  // namespace
}  // namespace muster::app
