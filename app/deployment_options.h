// The options that name a model, a device, an engine and a layout, shared by plan and predict; and the catalogues.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/hardware/catalogue.h"
#include "muster/model/catalogue.h"
#include "muster/planner/planner.h"

namespace muster::app {

struct Catalogues {
  model::Catalogue models;
  hardware::Catalogue devices;
};
// The built-in catalogues, what `muster catalog add` keeps, and `files` (a model, GPU or node file each).
Result<Catalogues> load_catalogues(const std::vector<std::string>& files);

struct DeploymentOptions {
  std::string model;
  std::vector<std::string> gpus;  // keys; empty: every whole GPU (plan), an error elsewhere
  int gpu_count = 0;              // --gpus: per replica at most; 0: one node
  int nodes = 0;
  std::vector<std::string> precisions;
  std::string kv_precision;
  std::string engine = "vllm";
  std::optional<int> tp, pp, dp, ep;
  int max_model_len = 0, max_num_seqs = 0, max_num_batched_tokens = 0;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> kv_blocks;
  std::vector<std::string> catalog_files;

  void add_to(CLI::App& verb);
};

// A planner question together with what it points to. Not copyable: the question refers to the model.
struct ResolvedDeployment {
  model::ModelSpec model;
  planner::Question question;  // input/output tokens and concurrency are left to the caller
};
Result<std::unique_ptr<ResolvedDeployment>> resolve(const DeploymentOptions& options, const Catalogues& catalogues);

Result<model::Dtype> parse_precision(const std::string& text, std::string_view option);  // fails listing the names

}  // namespace muster::app
