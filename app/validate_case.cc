#include "validate_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "muster/core/text.h"
#include "muster/files/number.h"
#include "validate_harness.h"

namespace muster::app {
namespace {

using Failure = std::unexpected<std::string>;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The number behind `word` in a note ("num_requests 30000"), or in front of it when `before` ("1000 requests").
std::optional<int> number_before(const std::string& note, const std::string& word) {
  const std::size_t at = note.find(word);
  if (at == std::string::npos || at == 0) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && note[begin - 1] >= '0' && note[begin - 1] <= '9') --begin;
  if (begin == at) return std::nullopt;
  const auto value = files::parse_integer(std::string_view(note).substr(begin, at - begin));
  return value && *value > 0 && *value < 10'000'000 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<int> number_after(const std::string& note, const std::string& word) {
  const std::size_t at = note.find(word);
  if (at == std::string::npos) return std::nullopt;
  std::size_t begin = at + word.size(), end = begin;
  while (end < note.size() && note[end] >= '0' && note[end] <= '9') ++end;
  if (end == begin) return std::nullopt;
  const auto value = files::parse_integer(std::string_view(note).substr(begin, end - begin));
  return value && *value > 0 && *value < 10'000'000 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string model_key(const MeasuredRow& row) {
  if (!row.model_key.empty()) return row.model_key;
  const std::string name = lower(row.model);
  for (const auto& [part, key] : {std::pair{"gptj", "gpt-j-6b"},
                                  {"gpt-j", "gpt-j-6b"},
                                  {"glm-4.5-air", "glm-4.5-air"},
                                  {"glm-4.6", "glm-4.6"},
                                  {"glm-5", "glm-5"}})
    if (contains(name, part)) return key;
  return {};
}

std::expected<void, std::string> name_engine(const MeasuredRow& row, ValidationCase& c) {
  const std::string name = lower(row.engine);
  const auto stands_in = [&](const char* engine) {
    c.engine = {engine, ""};
    c.marks.push_back(
        fmt::format("{} stands in for {}", engine, row.engine.empty() ? "an unnamed engine" : row.engine));
  };
  if (contains(name, "tensorrt-llm") || contains(name, "tensorrt_llm")) {
    c.engine = {"tensorrt-llm", row.engine_version};
    if (name != "tensorrt-llm") c.engine.version = "0.9";  // NIM 1.0 and NeMo of 2024
  } else if (name == "vllm" || name == "sglang" || name == "llama.cpp" || name == "muster") {
    c.engine = {name, row.engine_version};
  } else if (contains(name, "deepsparse") || name == "cuda 12.4") {
    return Failure("engine without a profile: " + row.engine);
  } else {
    stands_in(contains(name, "lmdeploy") ? "tensorrt-llm" : "vllm");
  }
  version_of_row(row, c);
  return {};
}

std::expected<void, std::string> name_precision(const MeasuredRow& row, const model::ModelSpec& model,
                                                ValidationCase& c) {
  std::string word = lower(row.precision.substr(0, row.precision.find(' ')));
  if (word.empty() && contains(row.note, "weight_data_types=")) {
    word = lower(row.note.substr(row.note.find("weight_data_types=") + 18));
    word = word.substr(0, word.find_first_of(";, "));
    c.marks.push_back("precision from the submission's form");
  }
  if (word == "q4_k_m" || word == "uint4" || word == "awq-int4") word = "int4";
  if (word == "nvfp4") word = "fp4";
  if (word == "model") {  // "model default"
    const std::string name = lower(row.model);
    word = contains(name, "fp8") ? "fp8" : std::string(model::name(model.default_dtype));
  }
  if (model.key.starts_with("gpt-oss") && word == "fp8") {
    word = "fp4";  // the checkpoint has MXFP4 experts whatever the activations are
    c.marks.push_back("fp8 read as MXFP4 weights");
  }
  if (word.empty()) {
    word = "bf16";
    if (!contains(row.source, "silicon_sample")) c.marks.push_back("precision assumed");
  }
  const auto weights = model::parse_dtype(word);
  if (!weights) return Failure("precision not known: " + row.precision);
  c.precision.weights = *weights;
  c.precision.kv = *weights == model::Dtype::kFp32 ? model::Dtype::kFp32 : model::Dtype::kBf16;
  if (!row.kv_precision.empty())
    if (const auto kv = model::parse_dtype(lower(row.kv_precision))) c.precision.kv = *kv;
  return {};
}

// Some InferenceX rows multiply the degrees: tp 8 with ep 8 on one 8-GPU server is printed as tp 64, ep 8, moe_tp 8;
// the same measurements are also there with the plain degrees.
void name_layout(const MeasuredRow& row, const model::ModelSpec& model, ValidationCase& c) {
  if (!row.tp && row.num_gpus && row.mode != "disagg") {
    c.gpus_assumed_for = *row.num_gpus;
    c.marks.push_back("layout assumed");
    return;
  }
  int tp = row.tp.value_or(1), dp = row.dp.value_or(1), ep = row.ep.value_or(1);
  const int moe_tp = number_after(row.note, "moe_tp ").value_or(1);
  const bool squared = ep > 1 && moe_tp == ep;
  if (squared && tp == ep * moe_tp && dp == 1) {
    tp = ep;
    c.marks.push_back("degrees were multiplied in the source");
  } else if (squared && tp == 1 && dp == ep * moe_tp) {
    dp = ep;
    c.marks.push_back("degrees were multiplied in the source");
  } else if (tp > 1 && tp == dp && ep == tp * dp) {
    // vLLM with expert parallelism over the tp ranks: the same runs are also there as tp 4, dp 1, ep 4.
    ep = tp;
    dp = 1;
    c.marks.push_back("degrees were multiplied in the source");
  } else if (tp == dp && contains(row.note, "attention DP")) {
    tp = 1;  // SGLang: the dp ranks are the tp ranks
  }
  if (model.key.starts_with("qwen3") && model.moe && dp == 1 && tp > 1 &&
      contains(row.note, "MoE models run with attention DP")) {
    // trtllm-bench of the 1.0 pages: enable_attention_dp, --ep as --tp. Read so for Qwen3 alone: the Llama 4 rows of
    // the same pages agree better without it, which is an observation and not stated there.
    dp = ep = tp;
    tp = 1;
    c.marks.push_back("attention data parallelism by the page's options");
  }
  c.layout = {.tp = tp, .pp = row.pp.value_or(1), .dp = 1, .ep = model.moe ? ep : 1};
  if (dp > 1 && model.moe && (ep > 1 || moe_tp > 1 || contains(row.note, "attention DP"))) {
    c.layout.dp = dp;  // attention data parallelism
    c.layout.ep = std::min(ep, tp * dp);
  } else {
    c.copies = dp;
    if (c.layout.ep > tp) c.layout.ep = tp;
  }
}

std::expected<void, std::string> name_load(const MeasuredRow& row, ValidationCase& c) {
  const std::string kind = lower(row.load_kind), scenario = lower(row.scenario);
  c.isl = row.isl.value_or(0);
  c.osl = row.osl.value_or(0);
  c.concurrency = row.concurrency.value_or(0);
  c.rate = row.request_rate.value_or(0);
  lengths_of_data_set(row, c);
  if (c.isl <= 0) return Failure("input length not stated");
  if (c.osl <= 0 && contains(scenario, "first token latency")) c.osl = 1;
  if (c.osl <= 0) return Failure("output length not stated");
  const auto stat = [](const std::string& s) { return contains(s, "median") || contains(s, "p50"); };
  c.median = stat(row.tpot_stat) || (row.tpot_stat.empty() && stat(row.ttft_stat));
  c.requests = number_before(row.note, " requests,").value_or(0);
  c.max_num_seqs = number_after(row.note, "max_num_seqs ").value_or(0);
  c.max_num_batched_tokens = number_after(row.note, "max_num_batched_tokens ").value_or(0);
  c.kv_tokens = number_after(row.note, "KV tokens ").value_or(0);
  if (row.mode == "disagg") {
    c.load = Load::kDisaggregated;
  } else if (contains(row.mode, "static") || (contains(kind, "batch") && row.mode.empty())) {
    c.load = Load::kStaticBatch;
  } else if (contains(kind, "offline max")) {
    c.load = Load::kOfflineMax;
  } else if (contains(kind, "single stream")) {
    c.load = Load::kStaticBatch;
    c.concurrency = 1;
  } else if (contains(kind, "num_prompts")) {
    c.load = Load::kBurst;
    c.requests = static_cast<int>(c.concurrency);
  } else if (c.rate > 0 && (kind == "rate" || kind == "trace")) {
    c.load = Load::kOpenLoop;
  } else {
    c.load = Load::kClosedLoop;
    if (c.concurrency <= 0) return Failure("load not stated");
  }
  if (c.load == Load::kStaticBatch && c.concurrency <= 0) c.concurrency = 1;
  if (c.load == Load::kBurst && c.concurrency <= 0) return Failure("load not stated");
  return {};
}

// "prefill 1x(tp8 pp1 dp1 moe_tp1 ep8 bs1) + decode 9x(...)"; "?x" where the number of workers is not stated.
std::optional<Workers> workers(const std::string& note, const std::string& side) {
  const std::size_t at = note.find(side + " ");
  if (at == std::string::npos) return std::nullopt;
  const char* text = note.c_str() + at + side.size() + 1;
  Workers w;
  int pp = 1, moe_tp = 1;
  if (std::sscanf(text, "%dx(tp%d pp%d dp%d moe_tp%d ep%d", &w.count, &w.tp, &pp, &w.dp, &moe_tp, &w.ep) == 6)
    w.count_known = true;
  else if (std::sscanf(text, "?x(tp%d pp%d dp%d moe_tp%d ep%d", &w.tp, &pp, &w.dp, &moe_tp, &w.ep) != 5)
    return std::nullopt;
  if (w.count < 1 || w.tp < 1 || w.dp < 1 || w.ep < 1 || pp != 1) return std::nullopt;
  if (w.ep > 1 && moe_tp == w.ep && w.tp == w.ep * moe_tp) w.tp = w.ep;
  if (w.tp > 1 && w.tp == w.dp) w.tp = 1;
  w.ep = std::min(w.ep, w.tp * w.dp);
  return w;
}

}  // namespace

std::expected<ValidationCase, std::string> express(const MeasuredRow& row, const Catalogues& catalogues) {
  ValidationCase c;
  c.model = model_key(row);
  if (c.model.empty()) return Failure("model not in the catalogue: " + row.model);
  const Result<model::ModelSpec> model = catalogues.models.find(c.model);
  if (!model) return Failure("model not in the catalogue: " + c.model);
  c.gpu = row.gpu_key;
  if (c.gpu.empty()) return Failure("gpu not in the catalogue: " + row.gpu);
  const Result<hardware::Gpu> gpu = catalogues.devices.find(c.gpu);
  if (!gpu) return Failure("gpu not in the catalogue: " + c.gpu);
  if (auto done = name_engine(row, c); !done) return Failure(done.error());
  if (auto done = name_precision(row, *model, c); !done) return Failure(done.error());
  if (row.model_key.empty() && !contains(lower(row.model), "gptj") && !contains(lower(row.model), "gpt-j"))
    c.marks.push_back(fmt::format("{} stands in for {}", c.model, row.model));
  name_layout(row, *model, c);
  if (auto done = name_load(row, c); !done) return Failure(done.error());
  if (c.load == Load::kDisaggregated) {
    const auto prefill = workers(row.note, "prefill"), decode = workers(row.note, "decode");
    if (!prefill || !decode) return Failure("disaggregated, layout of the workers not stated");
    c.prefill = *prefill;
    c.decode = *decode;
    c.marks.push_back("disaggregated: closed form");
    // The users of one decode worker are what sets its step: without the counts there is nothing to predict.
    if (!prefill->count_known || !decode->count_known) return Failure("disaggregated, worker counts not stated");
  }
  if (contains(lower(row.note), "speculative") || contains(lower(row.scenario), "speculative") ||
      contains(lower(row.note), "spec_decoding"))
    c.marks.push_back("speculative decoding, predicted without");
  if (contains(lower(row.scenario), "power-capped")) c.marks.push_back("power-capped, predicted without");
  // The image of InferenceX's recipes dsr1-*-b200-trt-mtp: same layouts and lengths as without, half the TPOT.
  if (c.engine.engine == "tensorrt-llm" && row.engine_version == "1.2.0rc6.post3" && model->key.starts_with("deepseek"))
    c.marks.push_back("speculative decoding (MTP recipe), predicted without");
  if (contains(row.note, "SUSPECT")) c.marks.push_back("suspect in the source");
  harness_of_source(row, *model, *gpu, c);
  return c;
}

}  // namespace muster::app
