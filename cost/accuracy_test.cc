// Closed-form predictions against published measurements. The limits are absolute; the host constants were fitted on
// the sixteenth of the rows that data/engines/*.yaml names.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "muster/cost/step.h"
#include "muster/files/csv.h"
#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"

namespace muster::cost {
namespace {

const std::string kRows = std::string(MUSTER_SHARED_DATA) + "/measured/aiconfigurator_silicon.csv";

struct Group {
  std::string engine, version, model, gpu, precision;  // as the file has them
  std::string assumed_version;                         // where it has none
  double limit = 0;                                    // of the mean absolute relative error of TPOT
};

struct Score {
  int rows = 0;
  double absolute = 0;
  double signed_sum = 0;
};

class Accuracy : public testing::Test {
 protected:
  static Result<Score> score(const Group& group) {
    MUSTER_TRY(const auto gpus, hardware::Catalogue::built_in());
    MUSTER_TRY(const auto models, model::Catalogue::built_in());
    MUSTER_TRY(const model::ModelSpec model, models.find(group.model));
    MUSTER_TRY(const hardware::Gpu gpu, gpus.find(group.gpu));
    MUSTER_TRY(EngineVersion version, parse_engine(group.engine));
    version.version = group.version.empty() ? group.assumed_version : group.version;
    Deployment d;
    d.model = &model;
    d.gpu = &gpu;
    MUSTER_TRY(d.engine, engine_profile(version));
    d.precision.weights = group.precision.empty() ? model.default_dtype : *model::parse_dtype(group.precision);
    const bool narrow = model::weight_bytes(d.precision.weights) < 1.5;
    // TensorRT-LLM's FP8 checkpoints bring an FP8 cache; vLLM keeps 16 bits unless told otherwise.
    if (version.engine == "tensorrt-llm" && narrow) d.precision.kv = model::Dtype::kFp8;
    MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(kRows));
    const auto text = [&csv](const char* column) { return std::string(csv.field(*csv.find(column))); };
    const auto number = [&csv](const char* column) { return csv.number(*csv.find(column)).value_or(0); };
    Score total;
    while (true) {
      MUSTER_TRY(const bool more, csv.next());
      if (!more) return total;
      if (text("engine") != group.engine || text("engine_version") != group.version ||
          text("model_key") != group.model || text("gpu_key") != group.gpu || text("precision") != group.precision ||
          text("mode") != "agg" || number("dp") > 1)
        continue;
      d.layout.tp = static_cast<int>(number("tp"));
      d.layout.ep = model.moe ? std::max(1, std::min(d.layout.tp, static_cast<int>(number("ep")))) : 1;
      d.max_model_len = static_cast<int>(number("isl") + number("osl")) + 64;
      // InferenceX draws lengths from 0.8 to 1.0 of the nominal ones.
      const double length = text("source").find("InferenceX") != std::string::npos ? 0.9 : 1.0;
      const MemoryVerdict verdict = memory(d);
      if (!verdict.fits) continue;
      const SteadyState state = steady_state(StepModel::make(d), d, verdict, number("isl") * length,
                                             number("osl") * length, number("concurrency_or_batch"));
      const double error = state.tpot_ms / number("tpot_ms") - 1;
      ++total.rows;
      total.absolute += std::abs(error);
      total.signed_sum += error;
    }
  }
};

TEST_F(Accuracy, TimePerOutputToken) {
  if (!std::filesystem::exists(kRows)) GTEST_SKIP() << kRows << " is not here";
  const Group groups[] = {
      {"vLLM", "0.12.0", "qwen3-32b", "h100-sxm", "", "", 0.06},
      {"vLLM", "", "llama-3.1-70b", "h100-sxm", "fp8", "0.19", 0.08},
      {"vLLM", "", "llama-3.1-70b", "h200-sxm", "fp8", "0.19", 0.08},
      {"vLLM", "", "llama-3.1-70b", "b200-sxm", "fp8", "0.19", 0.10},
      {"TensorRT-LLM", "", "llama-3.1-70b", "h200-sxm", "fp8", "1.2", 0.10},
      {"TensorRT-LLM", "", "llama-3.1-70b", "b200-sxm", "fp8", "1.2", 0.10},
      {"TensorRT-LLM", "", "llama-3.1-70b", "b200-sxm", "fp4", "1.2", 0.11},
      {"TensorRT-LLM", "1.0.0rc3", "qwen3-32b", "h100-sxm", "fp8", "", 0.10},
      {"TensorRT-LLM", "1.0.0rc3", "llama-3.1-8b", "h100-sxm", "", "", 0.11},
      {"TensorRT-LLM", "1.0.0rc3", "qwen3-235b-a22b", "h100-sxm", "fp8", "", 0.12},
      {"vLLM", "0.18.0", "gpt-oss-120b", "h100-sxm", "fp4", "", 0.15},
      {"vLLM", "0.18.0", "gpt-oss-120b", "h200-sxm", "fp4", "", 0.15},
      {"vLLM", "0.19.0", "minimax-m2.5", "b200-sxm", "fp8", "", 0.15},
  };
  for (const Group& group : groups) {
    const auto found = score(group);
    const std::string name =
        fmt::format("{}@{} {} {} {}", group.engine, group.version, group.model, group.gpu, group.precision);
    ASSERT_TRUE(found) << name << ": " << found.error().message;
    EXPECT_GE(found->rows, 5) << name;
    const double mean = found->absolute / found->rows;
    fmt::print("{:55s} rows {:3d} error {:4.1f} % bias {:+5.1f} %\n", name, found->rows, 100 * mean,
               100 * found->signed_sum / found->rows);
    EXPECT_LE(mean, group.limit) << name;
  }
}

}  // namespace
}  // namespace muster::cost
