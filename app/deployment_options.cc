#include "deployment_options.h"

#include <algorithm>

#include "muster/core/text.h"
#include "user_catalogue.h"

namespace muster::app {

Result<Catalogues> load_catalogues(const std::vector<std::string>& files) {
  MUSTER_TRY(model::Catalogue models, model::Catalogue::built_in());
  MUSTER_TRY(hardware::Catalogue devices, hardware::Catalogue::built_in());
  Catalogues catalogues{std::move(models), std::move(devices)};
  std::vector<std::string> all = user_catalogue_files();
  all.insert(all.end(), files.begin(), files.end());
  for (const std::string& file : all) {
    // A user's file is a device or a model; the device reader refuses models by their keys, and the other way round.
    const Result<void> as_device = catalogues.devices.add_file(file);
    if (as_device) continue;
    const Result<void> as_model = catalogues.models.add_file(file);
    if (!as_model)
      return fail("{} is neither a device file ({}) nor a model file ({})", file, as_device.error().message,
                  as_model.error().message);
  }
  return catalogues;
}

void DeploymentOptions::add_to(CLI::App& verb) {
  verb.add_option("--model", model, "Catalogue key, a path to a config.json, or a model file")->required();
  verb.add_option("--gpu", gpus, "Device key (h100-sxm), a MIG slice (h100-sxm/1g.10gb) or cpu; several by comma")
      ->delimiter(',');
  verb.add_option("--gpus", gpu_count, "GPUs that one replica may use at most (default: one node)")
      ->check(CLI::Range(1, 1024));
  verb.add_option("--nodes", nodes, "Nodes that one replica may use at most")->check(CLI::Range(1, 128));
  verb.add_option("--precision", precisions, "Weights: fp32, tf32, bf16, fp16, fp8, int8, int4, fp4; several by comma")
      ->delimiter(',');
  verb.add_option("--kv-precision", kv_precision, "KV cache: bf16, fp16, fp8, fp32 (default: 16 bits)");
  verb.add_option("--engine", engine, "Engine and version, such as vllm@0.19")->capture_default_str();
  verb.add_option("--tp", tp, "Pin the tensor-parallel degree")->check(CLI::Range(1, 1024));
  verb.add_option("--pp", pp, "Pin the number of pipeline stages")->check(CLI::Range(1, 1024));
  verb.add_option("--dp", dp, "Replicas behind a balancer")->check(CLI::Range(1, 4096));
  verb.add_option("--ep", ep, "Pin the expert-parallel degree")->check(CLI::Range(1, 1024));
  verb.add_option("--max-model-len", max_model_len, "Longest context, tokens (default: the model's)")
      ->check(CLI::Range(1, 100'000'000));
  verb.add_option("--gpu-memory-utilization", memory_fraction, "The engine's memory fraction")
      ->check(CLI::Range(0.01, 1.0));
  verb.add_option("--max-num-seqs", max_num_seqs, "Sequences running at once (default: the engine's)")
      ->check(CLI::Range(1, 1'000'000));
  verb.add_option("--max-num-batched-tokens", max_num_batched_tokens, "Tokens of one step (default: the engine's)")
      ->check(CLI::Range(1, 10'000'000));
  verb.add_option("--kv-blocks", kv_blocks, "Measured number of KV blocks, instead of the computed one")
      ->check(CLI::PositiveNumber);
  verb.add_option("--catalog", catalog_files, "Your own model, GPU or node file; may be repeated");
}

Result<model::Dtype> parse_precision(const std::string& text, std::string_view option) {
  if (const auto dtype = model::parse_dtype(text)) return *dtype;
  std::vector<std::string> names;
  for (const model::Dtype dtype : model::kDtypes) names.emplace_back(model::name(dtype));
  return fail("{}: unknown precision '{}'{}; known are {}", option, text, did_you_mean(text, names), join(names, ", "));
}

Result<std::unique_ptr<ResolvedDeployment>> resolve(const DeploymentOptions& options, const Catalogues& catalogues) {
  auto resolved = std::make_unique<ResolvedDeployment>();
  MUSTER_TRY(resolved->model, catalogues.models.find(options.model));
  planner::Question& question = resolved->question;
  question.model = &resolved->model;
  for (const std::string& key : options.gpus) {
    MUSTER_TRY(hardware::Gpu gpu, catalogues.devices.find(key));
    question.gpus.push_back(std::move(gpu));
  }
  if (question.gpus.empty())
    for (const hardware::Gpu& gpu : catalogues.devices.gpus())
      if (gpu.vendor != "cpu" && gpu.key != "cpu") question.gpus.push_back(gpu);
  MUSTER_TRY(const cost::EngineVersion version, cost::parse_engine(options.engine));
  MUSTER_TRY(question.engine, cost::engine_profile(version));
  for (const std::string& text : options.precisions) {
    MUSTER_TRY(const model::Dtype dtype, parse_precision(text, "--precision"));
    question.precisions.push_back(dtype);
  }
  if (!options.kv_precision.empty()) {
    MUSTER_TRY(question.kv, parse_precision(options.kv_precision, "--kv-precision"));
  }
  int per_node = 1;
  for (const hardware::Gpu& gpu : question.gpus)
    per_node = std::max(per_node, gpu.is_slice ? 1 : std::min(8, std::max(gpu.scale_up.domain_gpus, 8)));
  question.gpus_per_replica_max = options.gpu_count > 0 ? options.gpu_count : per_node * std::max(1, options.nodes);
  question.tp = options.tp;
  question.pp = options.pp;
  question.ep = options.ep;
  question.dp = options.dp.value_or(1);
  const int pinned = options.tp.value_or(1) * options.pp.value_or(1);
  if (options.gpu_count > 0 && pinned > options.gpu_count)
    return fail("--tp {} x --pp {} needs {} GPUs, --gpus gives {}", options.tp.value_or(1), options.pp.value_or(1),
                pinned, options.gpu_count);
  question.gpus_per_replica_max = std::max(question.gpus_per_replica_max, pinned);
  question.max_model_len = options.max_model_len;
  question.max_num_seqs = options.max_num_seqs;
  question.max_num_batched_tokens = options.max_num_batched_tokens;
  question.memory_fraction = options.memory_fraction;
  question.kv_blocks = options.kv_blocks;
  return resolved;
}

}  // namespace muster::app
