// The operators of one pipeline stage of a deployment, ready to be timed. The obvious reference behind StepModel: every
// operator of every layer is evaluated and added up.
#pragma once

#include <vector>

#include "muster/cost/step.h"
#include "operators.h"

namespace muster::cost {

enum class AttentionKind { kFull, kWindow, kLinear };

// Layers of one stage that do the same work.
struct LayerGroup {
  int count = 0;
  AttentionKind attention = AttentionKind::kFull;
  bool moe = false;
  std::vector<CompiledGemm> gemms;  // each runs once per layer on all tokens
  std::vector<double> elementwise;  // bytes per token of each memory-bound kernel
  int all_reduces = 0;              // of tokens x hidden
  std::optional<CompiledMoe> experts;
};

struct StagePlan {
  bool first = false;
  bool last = false;
  std::vector<LayerGroup> groups;
};

class Plan {
 public:
  explicit Plan(const Deployment& deployment);

  const std::vector<StagePlan>& stages() const { return stages_; }
  const Operators& operators() const { return operators_; }

  std::vector<std::string> provenance() const;
  bool is_estimate() const { return operators_.is_estimate() || !outside_.empty(); }
  double error_band() const;

  // Everything whose time depends only on the number of tokens: GEMMs, experts, element-wise kernels, all-reduces,
  // embedding, and the transfer to the next stage.
  StepBreakdown token_work(const StagePlan& stage, double tokens) const;
  // The LM head and sampling of `rows` sequences; nothing on other stages than the last.
  StepBreakdown head_work(const StagePlan& stage, double rows) const;
  // Attention over the KV cache (for MLA the whole block).
  StepBreakdown attention_work(const StagePlan& stage, const StepShape& shape) const;

 private:
  void note_domain();
  void add_attention_gemms(LayerGroup& group) const;
  void add_mlp(LayerGroup& group) const;
  void add_linear_attention(StepBreakdown& b, const LayerGroup& group, const StepShape& shape) const;

  Operators operators_;
  model::ModelSpec model_;
  Layout layout_;
  std::vector<StagePlan> stages_;
  std::vector<const char*> outside_;  // operators with a shape outside the measured domain
  AttentionShape attention_, window_attention_;
  MlaShape mla_;
  MoeShape moe_;
  std::optional<CompiledGemm> head_;
  bool fused_elementwise_ = false;
  bool dense_quantised_ = true;  // false: only the experts are stored in the low precision (gpt-oss)
};

double total_tokens(const StepShape& shape);

}  // namespace muster::cost
