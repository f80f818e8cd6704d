#include "muster/cost/engine.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "muster/core/text.h"
#include "muster/files/document.h"
#include "muster_cost_data.h"

namespace muster::cost {
namespace {

// "0.19.0" -> {0, 19, 0}; "1.3.0rc20" -> {1, 3, 0}. Stops at the first part that does not start with a digit; nullopt
// when there is none ("nightly-5b8c"): such a version is read as the newest.
std::optional<std::vector<int>> version_numbers(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string_view part : split(text, '.')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{}) break;
    numbers.push_back(value);
    if (end != part.data() + part.size()) break;
  }
  if (numbers.empty()) return std::nullopt;
  return numbers;
}

bool not_after(const std::vector<int>& row, const std::vector<int>& asked) {
  for (std::size_t i = 0; i < std::max(row.size(), asked.size()); ++i) {
    const int a = i < row.size() ? row[i] : 0;
    const int b = i < asked.size() ? asked[i] : 0;
    if (a != b) return a < b;
  }
  return true;
}

std::string canonical_engine(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "trtllm" || word == "trt-llm" || word == "tensorrt_llm" || word == "tensorrtllm") return "tensorrt-llm";
  if (word == "llamacpp" || word == "llama-cpp" || word == "llama_cpp") return "llama.cpp";
  return word;
}

// The embedded file data/engines/NAME.yaml.
std::string_view engine_file(const std::string& name) {
  for (const embedded::File& file : embedded_files())
    if (file.name == "data/engines/" + name + ".yaml") return file.content;
  return {};
}

Result<BudgetRule> parse_budget_rule(const files::Node& node) {
  MUSTER_TRY(const std::string text, node.text());
  if (text == "fraction_of_total") return BudgetRule::kFractionOfTotal;
  if (text == "fraction_of_free") return BudgetRule::kFractionOfFree;
  if (text == "static_fraction") return BudgetRule::kStaticFraction;
  return node.error(fmt::format("`{}` is none of fraction_of_total, fraction_of_free, static_fraction", text));
}

// Applies one row of the table on top of the older rows: a key that is absent keeps the older value.
Result<void> apply_row(const files::Node& node, EngineProfile& profile) {
  files::MapReader read(node);
  read.required("from", profile.matched_version);
  if (const auto rule = read.child("budget_rule")) {
    MUSTER_TRY(profile.budget_rule, parse_budget_rule(*rule));
  }
  read.optional("memory_fraction", profile.memory_fraction);
  read.optional("graphs_in_budget", profile.graphs_in_budget);
  read.optional("kv_block_tokens", profile.kv_block_tokens);
  read.optional("max_num_batched_tokens", profile.max_num_batched_tokens);
  read.optional("max_num_seqs", profile.max_num_seqs);
  read.optional("large_max_num_batched_tokens", profile.large_max_num_batched_tokens);
  read.optional("large_max_num_seqs", profile.large_max_num_seqs);
  double host_fixed_us = static_cast<double>(profile.host_fixed.count()) * 1e-3;
  double host_per_sequence_us = static_cast<double>(profile.host_per_sequence.count()) * 1e-3;
  read.optional("host_fixed_us", host_fixed_us);
  read.optional("host_per_sequence_us", host_per_sequence_us);
  profile.host_fixed = from_seconds(host_fixed_us * 1e-6);
  profile.host_per_sequence = from_seconds(host_per_sequence_us * 1e-6);
  double serial_fixed_us = static_cast<double>(profile.host_serial_fixed.count()) * 1e-3;
  double serial_per_sequence_us = static_cast<double>(profile.host_serial_per_sequence.count()) * 1e-3;
  read.optional("host_serial_fixed_us", serial_fixed_us);
  read.optional("host_serial_per_sequence_us", serial_per_sequence_us);
  profile.host_serial_fixed = from_seconds(serial_fixed_us * 1e-6);
  profile.host_serial_per_sequence = from_seconds(serial_per_sequence_us * 1e-6);
  read.optional("host_per_prefill_token_ns", profile.host_per_prefill_token_ns);
  read.optional("asynchronous_scheduling", profile.asynchronous_scheduling);
  read.optional("fused_elementwise", profile.fused_elementwise);
  read.optional("activation_gib_per_k_tokens_hidden", profile.activation_gib_per_k_tokens_hidden);
  read.optional("activation_gib_per_k_tokens_mlp", profile.activation_gib_per_k_tokens_mlp);
  read.optional("activation_fixed_gib", profile.activation_fixed_gib);
  read.optional("logits_gib_per_k_seqs_vocab", profile.logits_gib_per_k_seqs_vocab);
  read.optional("moe_workspace", profile.moe_workspace);
  read.optional("repacks_int4", profile.repacks_int4);
  read.optional("groups_kv_layers", profile.groups_kv_layers);
  read.optional("non_torch_tp1_gib", profile.non_torch_tp1_gib);
  read.optional("non_torch_tp_gib", profile.non_torch_tp_gib);
  read.optional("non_torch_pp_gib", profile.non_torch_pp_gib);
  read.optional("graph_fixed_gib", profile.graph_fixed_gib);
  read.optional("graph_gib_per_layer", profile.graph_gib_per_layer);
  std::vector<std::string> sources;
  read.required("sources", sources);
  for (std::string& source : sources)
    profile.sources.push_back(fmt::format("from {}: {}", profile.matched_version, source));
  return read.finish();
}

}  // namespace

std::vector<std::string> engine_names() {
  return {"llama.cpp", "muster", "sglang", "tensorrt-llm", "vllm"};
}

Result<EngineVersion> parse_engine(const std::string& text) {
  const std::size_t at = text.find('@');
  EngineVersion version;
  version.engine = canonical_engine(text.substr(0, at));
  if (at != std::string::npos) version.version = std::string(trim(std::string_view(text).substr(at + 1)));
  const std::vector<std::string> known = engine_names();
  if (std::find(known.begin(), known.end(), version.engine) == known.end())
    return fail("engine `{}` is not one of {}{}", text.substr(0, at), join(known, ", "),
                did_you_mean(version.engine, known));
  if (at != std::string::npos && version.version.empty())
    return fail("engine `{}`: a version is missing after `@`, for example vllm@0.19", text);
  return version;
}

Result<EngineProfile> engine_profile(const EngineVersion& version) {
  const std::string_view content = engine_file(version.engine);
  if (content.empty()) {
    const std::vector<std::string> known = engine_names();
    return fail("engine `{}` is not one of {}{}", version.engine, join(known, ", "),
                did_you_mean(version.engine, known));
  }
  const std::string file = "data/engines/" + version.engine + ".yaml";
  MUSTER_TRY(const files::Node document, files::parse_document(content, file));
  files::MapReader read(document);
  std::string name;
  read.required("engine", name);
  const auto rows = read.required_child("versions");
  MUSTER_TRY_VOID(read.finish());

  const auto asked = version.version.empty() ? std::nullopt : version_numbers(version.version);
  EngineProfile profile;
  bool first = true;
  for (const files::Node& row : rows->items()) {
    const auto from = row.find("from");
    if (!from) return row.error("`from` is missing");
    MUSTER_TRY(const std::string from_text, from->text());
    const auto numbers = version_numbers(from_text);
    if (!numbers) return from->error("not a version such as 0.19");
    // A version older than the first row takes the first row.
    if (!first && asked && !not_after(*numbers, *asked)) break;
    MUSTER_TRY_VOID(apply_row(row, profile));
    first = false;
  }
  profile.version = version;
  return profile;
}

}  // namespace muster::cost
