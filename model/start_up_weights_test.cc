// Weights per GPU against what vLLM 0.19 logged when it loaded them (data/memory/PROVENANCE.md beside the shared data).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "muster/files/csv.h"
#include "muster/model/catalogue.h"
#include "muster/model/tensors.h"

namespace muster::model {
namespace {

// Names of the log -> keys of the catalogue.
const std::map<std::string, std::string>& keys_by_name() {
  static const std::map<std::string, std::string> keys = {
      {"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"},
      {"RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "llama-3.1-70b"},
      {"redhatai/Llama-3.3-70B-Instruct-quantized.w8a8", "llama-3.1-70b"},
      {"RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", "qwen2.5-7b"},
      {"google/gemma-2-27b-it", "gemma-2-27b"},
      {"google/gemma-2-2b-it", "gemma-2-2b"},
      {"google/gemma-3-27b-it", "gemma-3-27b"},
      {"google/gemma-3-4b-it", "gemma-3-4b"},
      {"ibm-granite/granite-3.1-2b-instruct", "granite-3.1-2b"},
      {"ibm-granite/granite-3.3-8b-instruct", "granite-3.3-8b"},
      {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
      {"RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b"},
      {"mistralai/Mistral-Small-3.1-24B-Instruct-2503", "mistral-small-3.1-24b"},
      {"RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8", "mistral-small-3.1-24b"},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
      {"moonshotai/Kimi-Dev-72B", "kimi-dev-72b"},
      {"moonshotai/Kimi-VL-A3B-Instruct", "kimi-vl-a3b"},
      {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
      {"Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"},
      {"Qwen/Qwen3-8B", "qwen3-8b"},
  };
  return keys;
}

// The fullest stage: layers as even as possible, embedding on the first stage and head on the last.
double fullest_stage_gib(const ModelSpec& spec, Dtype dtype, int tp, int pp) {
  double most = 0;
  for (int stage = 0, first = 0; stage < pp; ++stage) {
    const int count = (spec.layers - first) / (pp - stage);
    most = std::max(most, to_gib(weight_bytes_per_rank({.spec = &spec,
                                                        .dtype = dtype,
                                                        .tp = tp,
                                                        .ep = 1,
                                                        .first_layer = first,
                                                        .layer_count = count,
                                                        .has_embedding = stage == 0,
                                                        .has_head = stage == pp - 1})));
    first += count;
  }
  return most;
}

TEST(StartUpWeights, WithinOnePercentOnEveryLoggedRow) {
  const std::string path = MUSTER_SHARED_DATA "/memory/vllm_startup_h100.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no measured start-ups at " << path;
  const Catalogue catalogue = Catalogue::built_in().value();
  files::CsvReader csv = files::CsvReader::open(path).value();
  const auto column = [&](const char* name) { return csv.need(name).value(); };
  const std::size_t model = column("model"), tp = column("tp"), pp = column("pp"), dtype = column("dtype");
  const std::size_t quantization = column("quantization"), weights = column("weights_gib");
  int rows = 0, within_goal = 0;
  double worst = 0;
  while (csv.next().value()) {
    const std::string name(csv.field(model));
    ASSERT_TRUE(keys_by_name().contains(name)) << name;
    const ModelSpec spec = catalogue.find(keys_by_name().at(name)).value();
    const std::string_view format = csv.field(quantization) == "none" ? csv.field(dtype) : csv.field(quantization);
    const double predicted =
        fullest_stage_gib(spec, parse_dtype(format).value(), static_cast<int>(csv.integer(tp, 1, 64).value()),
                          static_cast<int>(csv.integer(pp, 1, 64).value()));
    const double logged = csv.number(weights).value();
    const double error = predicted / logged - 1;
    EXPECT_LE(std::abs(error), 0.01) << name << " tp" << csv.field(tp) << " pp" << csv.field(pp) << " " << format
                                     << ": predicted " << predicted << ", logged " << logged;
    if (std::abs(error) > 0.003)
      fmt::print("{} {} tp{}: {:.3f} GiB, logged {:.2f} ({:+.2f} %)\n", name, format, csv.field(tp), predicted, logged,
                 100 * error);
    ++rows;
    within_goal += std::abs(error) <= 0.003 ? 1 : 0;
    worst = std::max(worst, std::abs(error));
  }
  EXPECT_GT(rows, 0);
  fmt::print("{} rows, {} within 0.3 %, worst {:.2f} %\n", rows, within_goal, 100 * worst);
}

// Start-ups quoted in public reports that are not in the table above (vLLM before 0.17 and 0.19, H100, bf16 unless
// noted).
TEST(StartUpWeights, OtherPublicLogs) {
  struct Row {
    const char* key;
    Dtype dtype;
    int tp;
    int pp;
    double gib;
  };
  // llm-d-planner docs/empirical-vllm-memory-results.md and accuracy/results/v0.19.0.
  const Row rows[] = {{"phi-4", Dtype::kBf16, 1, 1, 27.39},        {"qwen3-30b-a3b", Dtype::kBf16, 1, 1, 56.88},
                      {"qwen3-32b", Dtype::kBf16, 1, 1, 61.03},    {"qwen3-32b", Dtype::kBf16, 2, 1, 30.59},
                      {"llama-3.1-70b", Dtype::kFp8, 4, 1, 16.96}, {"llama-3.1-8b", Dtype::kBf16, 1, 2, 7.51}};
  const Catalogue catalogue = Catalogue::built_in().value();
  for (const Row& row : rows) {
    const double predicted = fullest_stage_gib(catalogue.find(row.key).value(), row.dtype, row.tp, row.pp);
    EXPECT_NEAR(predicted / row.gib, 1, 0.003)
        << row.key << " tp" << row.tp << ": " << predicted << ", logged " << row.gib;
  }
  // gpt-oss as published: experts in MXFP4, the rest in bf16.
  EXPECT_NEAR(fullest_stage_gib(catalogue.find("gpt-oss-20b").value(), Dtype::kFp4, 1, 1) / 13.47, 1, 0.003);
  EXPECT_NEAR(fullest_stage_gib(catalogue.find("gpt-oss-120b").value(), Dtype::kFp4, 1, 1) / 64.38, 1, 0.004);
}

// Sizes of the published checkpoints on disk, which hold the tensors alone.
TEST(StartUpWeights, QuantisedCheckpointsOnDisk) {
  const Catalogue catalogue = Catalogue::built_in().value();
  const std::pair<const char*, double> gigabytes[] = {
      {"gpt-oss-20b", 13.76}, {"gpt-oss-120b", 65.25}, {"kimi-k2.5", 595}};
  for (const auto& [key, size] : gigabytes) {
    const ModelSpec spec = catalogue.find(key).value();
    const Bytes bytes = weight_bytes_per_rank({.spec = &spec,
                                               .dtype = spec.default_dtype,
                                               .first_layer = 0,
                                               .layer_count = spec.layers,
                                               .has_embedding = true,
                                               .has_head = true,
                                               .as_loaded = false});
    EXPECT_NEAR(static_cast<double>(bytes.value) / 1e9 / size, 1, 0.003) << key;
  }
}

}  // namespace
}  // namespace muster::model
