#include "validate_harness.h"

#include <algorithm>
#include <string_view>

#include "muster/core/text.h"

namespace muster::app {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "vllm/vllm-openai-rocm:v0.21.0", "vLLM 0.4.3+rocm614, PyTorch ..." -> "0.21.0", "0.4.3"
std::string first_version(const std::string& text) {
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (!digit(i) || (i > 0 && (digit(i - 1) || text[i - 1] == '.'))) continue;
    std::size_t end = i;
    while (digit(end)) ++end;
    if (end >= text.size() || text[end] != '.' || !digit(end + 1)) continue;
    while (digit(end) || (end < text.size() && text[end] == '.')) ++end;
    return text.substr(i, end - i);
  }
  return {};
}

// Release dates: GitHub releases of the three projects (month in which the minor version appeared).
struct Release {
  const char *engine, *date, *version;
};
constexpr Release kReleases[] = {
    {"vllm", "2024-09", "0.6"},         {"vllm", "2025-08", "0.10"},        {"vllm", "2025-10", "0.11"},
    {"vllm", "2025-12", "0.12"},        {"vllm", "2026-01", "0.14"},        {"vllm", "2026-02", "0.16"},
    {"vllm", "2026-03", "0.17"},        {"vllm", "2026-04", "0.19"},        {"tensorrt-llm", "2023-10", "0.5"},
    {"tensorrt-llm", "2025-09", "1.0"}, {"tensorrt-llm", "2025-11", "1.1"}, {"tensorrt-llm", "2026-02", "1.2"},
    {"sglang", "2025-08", "0.5"}};

std::string version_at(const std::string& engine, const std::string& date) {
  std::string version;
  for (const Release& r : kReleases)
    if (engine == r.engine && date >= r.date) version = r.version;
  return version;
}

bool is_inferencex(const MeasuredRow& row) {
  return contains(row.source, "InferenceX");
}

// benchmarks/*.sh of SemiAnalysisAI/InferenceX (Oct 2025 to Apr 2026): 10 prompts per user after a warm-up, lengths
// uniform in 0.8 to 1.0 of the nominal ones, no think time, no prefix cache.
void inferencex(const MeasuredRow& row, const model::ModelSpec& model, const hardware::Gpu& gpu, ValidationCase& c) {
  const bool blackwell = contains(gpu.architecture, "Blackwell");
  c.shortest = 0.8;
  c.longest = 1.0;
  c.requests = static_cast<int>(10 * c.concurrency);
  c.ttft_scored = row.mode == "agg";
  c.max_model_len = static_cast<int>(c.isl + c.osl) + (c.isl == c.osl ? 20 : 200);
  if (c.engine.engine == "vllm") {
    // kv-cache-dtype fp8 for Llama-70B everywhere and for gpt-oss on Blackwell; async-scheduling true;
    // max-num-batched-tokens 8192; max-num-seqs = concurrency (512 on Blackwell).
    if (model.key == "llama-3.1-70b" || blackwell) c.precision.kv = model::Dtype::kFp8;
    c.asynchronous_scheduling = true;
    c.max_num_batched_tokens = 8192;
    c.memory_fraction = model.moe && model.key != "gpt-oss-120b" ? 0.95 : 0.9;
  } else if (c.engine.engine == "tensorrt-llm") {
    // kv_cache_config dtype fp8 everywhere; max_num_tokens: the context for dense models, 20000 for gpt-oss, else
    // max(concurrency + isl + 64, 8192); free_gpu_memory_fraction 0.8 for DeepSeek, 0.85 for gpt-oss.
    c.precision.kv = model::Dtype::kFp8;
    if (model.key == "gpt-oss-120b") {
      c.max_num_batched_tokens = 20000;
      c.memory_fraction = 0.85;
    } else if (model.moe) {
      c.max_num_batched_tokens = static_cast<int>(std::max(c.concurrency + c.isl + 64, 8192.0));
      c.memory_fraction = 0.8;
    } else {
      c.max_num_batched_tokens = c.max_model_len;
    }
  } else if (c.engine.engine == "sglang") {
    // kv-cache-dtype fp8_e4m3 and chunked-prefill-size 16384 on Blackwell (trtllm_mla attention).
    if (blackwell) {
      c.precision.kv = model::Dtype::kFp8;
      c.max_num_batched_tokens = 16384;
    }
  }
}

}  // namespace

void version_of_row(const MeasuredRow& row, ValidationCase& c) {
  std::string& version = c.engine.version;
  if (contains(row.source, "MLPerf")) {
    const bool old = contains(row.source, "v4.");
    version = c.engine.engine == "vllm" ? first_version(row.engine_version) : old ? "0.11" : "1.0";
    // "PyTorch 2.9.1 ..." is not vLLM's version.
    if (c.engine.engine == "vllm" && (version.empty() || !version.starts_with("0."))) version = old ? "0.6" : "0.10";
    return;
  }
  if (contains(version, "docs of 2023")) version = "0.5";
  if (contains(version, "after 1.0")) version = "1.1";
  // A Dynamo version, not the engine's.
  if (c.engine.engine == "tensorrt-llm" && contains(row.note, "ai-dynamo") && !contains(version, "rc")) version.clear();
  if (contains(version, "/") || contains(version, " ")) version = first_version(version);
  if (first_version(version).empty() && contains(version, ".") == false) version.clear();
  if (version.empty() && !row.date.empty()) {
    version = version_at(c.engine.engine, row.date);
    if (!version.empty()) c.marks.push_back("engine version by date");
  }
  if (version.empty() && contains(row.source, "Azure")) version = "0.12";
  if (c.engine.engine == "llama.cpp") version.clear();
}

void lengths_of_data_set(const MeasuredRow& row, ValidationCase& c) {
  if (!contains(row.source, "MLPerf") || c.isl > 0) return;
  // Means over the data sets of MLPerf Inference (mlcommons/inference language/*/README.md; the input mean of OpenOrca
  // and of the Mixtral mix are estimates).
  struct Lengths {
    const char* model;
    double in, out;
  };
  constexpr Lengths kLengths[] = {
      {"llama-2-70b", 290, 294}, {"llama-3.1-405b", 9428, 684}, {"mixtral-8x7b", 300, 145},  {"llama-3.1-8b", 778, 128},
      {"gpt-j-6b", 880, 69},     {"deepseek-r1", 800, 3880},    {"llama-3.1-70b", 290, 294}, {"llama-2-7b", 290, 294}};
  for (const Lengths& l : kLengths)
    if (c.model == l.model) {
      c.isl = l.in;
      if (c.osl <= 0) c.osl = l.out;
      c.long_tailed = true;
      c.marks.push_back("lengths of the data set");
    }
}

void harness_of_source(const MeasuredRow& row, const model::ModelSpec& model, const hardware::Gpu& gpu,
                       ValidationCase& c) {
  if (is_inferencex(row)) {
    inferencex(row, model, gpu, c);
    return;
  }
  if (contains(row.source, "silicon_sample")) {
    c.shortest = 0.9;  // the source does not record how lengths were drawn
    c.longest = 1.1;
    c.ttft_scored = c.engine.engine == "vllm" && model.key == "qwen3-32b";
    // sglang.bench_serving with equal lengths: all users' prompts come together in every wave.
    if (c.engine.engine == "sglang") c.shortest = c.longest = 1;
  }
  if (contains(row.source, "MLPerf")) {
    c.precision.kv = c.precision.weights == model::Dtype::kFp8 || c.precision.weights == model::Dtype::kFp4
                         ? model::Dtype::kFp8
                         : c.precision.kv;
    c.max_num_seqs = 1024;  // submissions tune it upwards
  }
  if (c.engine.engine == "tensorrt-llm" && row.kv_precision.empty() &&
      (c.precision.weights == model::Dtype::kFp8 || c.precision.weights == model::Dtype::kFp4))
    c.precision.kv = model::Dtype::kFp8;  // NVIDIA's quantised checkpoints keep an FP8 cache
  if (contains(row.scenario, "ShareGPT") || contains(row.note, "ShareGPT") ||
      contains(row.scenario, "all prompts at once"))
    c.long_tailed = c.isl < 600 || contains(row.scenario, "ShareGPT");
  if (c.load == Load::kStaticBatch) {
    c.ttft_scored = row.ttft_ms.has_value();
    c.max_num_seqs = static_cast<int>(c.concurrency);
  }
  if (c.load == Load::kOfflineMax && contains(row.note, "num_requests 30000")) {
    // TensorRT-LLM docs/source/performance/perf-overview.md (0.14 and later): requests of a run, by lengths. Runs with
    // long outputs are only a few batches long, so filling and draining show in the throughput.
    struct Run {
      double isl, osl;
      int requests;
    };
    constexpr Run kRuns[] = {{128, 128, 30000},  {128, 2048, 3000},  {128, 4096, 1500},
                             {500, 2000, 3000},  {1000, 1000, 3000}, {2048, 128, 3000},
                             {2048, 2048, 1500}, {5000, 500, 1500},  {20000, 2000, 1000}};
    for (const Run& run : kRuns)
      if (c.isl == run.isl && c.osl == run.osl) c.requests = run.requests;
  }
  if (c.load == Load::kOfflineMax && c.max_num_seqs == 0) {
    // trtllm-bench and vllm bench throughput raise the batch until memory binds.
    c.max_num_seqs = c.engine.engine == "tensorrt-llm" ? 2048 : 256;
    c.max_model_len = static_cast<int>(c.isl + c.osl);
  }
  if (c.max_model_len == 0) c.max_model_len = static_cast<int>(std::max(4096.0, 2 * (c.isl + c.osl)));
  if (c.long_tailed) c.max_model_len = std::max(c.max_model_len, static_cast<int>(8 * (c.isl + c.osl)));
}

}  // namespace muster::app
