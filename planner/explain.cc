// The option-by-option verdicts: what people choose each option for, and what it does here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"
#include "muster/planner/disaggregation.h"
#include "muster/planner/planner.h"

namespace muster::planner {
namespace {

std::string speed_text(const Candidate& c) {
  return fmt::format("{} on {} GPU{}: {:.0f} tok/s per GPU, TPOT {:.1f} ms", cost::text(c.layout),
                     c.layout.gpus_per_replica(), c.layout.gpus_per_replica() == 1 ? "" : "s", c.output_tok_s_per_gpu(),
                     c.speed->tpot_ms);
}

std::string change_text(const Candidate& from, const Candidate& to) {
  return fmt::format("{:+.0f} % tok/s per GPU, {:+.0f} % TPOT",
                     100 * (to.output_tok_s_per_gpu() / from.output_tok_s_per_gpu() - 1),
                     100 * (to.speed->tpot_ms / from.speed->tpot_ms - 1));
}

// "helps" or "worse" when throughput per GPU moves by more than the margin, else "no gain".
std::string verdict_of(const Candidate& from, const Candidate& to) {
  constexpr double kMargin = 0.03;
  const double ratio = to.output_tok_s_per_gpu() / from.output_tok_s_per_gpu();
  if (ratio > 1 + kMargin) return "helps";
  if (ratio < 1 - kMargin) return "worse";
  return "no gain";
}

class Explainer {
 public:
  Explainer(const Question& question, const Candidate& chosen) : question_(question), chosen_(chosen) {}

  Candidate with_layout(int tp, int pp) const {
    const int ep = chosen_.layout.ep > 1 ? tp : 1;
    return evaluate(question_, *chosen_.gpu, {.tp = tp, .pp = pp, .dp = 1, .ep = ep}, chosen_.precision.weights);
  }

  double weights_gib() const { return to_gib(chosen_.memory->stage().weights); }

  Option tensor_parallel() const {
    Option option{.option = "Tensor parallelism", .code = "tp"};
    const Candidate alone = with_layout(1, 1);
    const int tp = std::max(2, chosen_.layout.tp);
    const Candidate cut = with_layout(tp, chosen_.layout.pp);
    const std::string use = "shards heads and MLP over the GPUs of a node, an all-reduce pair per layer. ";
    if (!cut.fits) {
      option.verdict = "refused";
      option.why = use + cut.why;
    } else if (!alone.fits) {
      option.verdict = chosen_.layout.tp > 1 ? "chosen" : "helps";
      option.why = use + fmt::format("One {} does not hold the model ({}); tp {} leaves {:.1f} GiB of weights per GPU",
                                     chosen_.gpu->key, alone.why, tp, to_gib(cut.memory->stage().weights));
    } else {
      option.verdict = chosen_.layout.tp > 1 ? "chosen" : verdict_of(alone, cut);
      option.why = use + fmt::format("It fits one GPU; tp {} against tp 1: {} (latency against all-reduce time)", tp,
                                     change_text(alone, cut));
    }
    return option;
  }

  Option pipeline(int tp, int pp, std::string name, std::string code) const {
    Option option{.option = std::move(name), .code = std::move(code)};
    const std::string use =
        "groups of layers on stages, only activations cross: for models over one node or slow links. ";
    if (chosen_.layout.tp == tp && chosen_.layout.pp == pp) {
      option.verdict = "chosen";
      option.why = use + speed_text(chosen_);
      return option;
    }
    const Candidate staged = with_layout(tp, pp);
    option.verdict = staged.fits ? verdict_of(chosen_, staged) : "refused";
    option.why =
        use + (staged.fits ? speed_text(staged) + fmt::format(" against the chosen {}: {}", cost::text(chosen_.layout),
                                                              change_text(chosen_, staged))
                           : staged.why);
    return option;
  }

  Option data_parallel() const {
    return {.option = "Data parallelism",
            .verdict = "for throughput",
            .code = "dp",
            .why = fmt::format(
                "copies the whole model behind a balancer: two replicas give {:.0f} tok/s on {} GPUs. It never "
                "helps to fit: each copy still needs {:.1f} GiB of weights on each of {} GPUs",
                2 * chosen_.speed->output_tok_s, 2 * chosen_.layout.gpus_per_replica(), weights_gib(),
                chosen_.layout.gpus_per_replica())};
  }

  Option larger_batch() const {
    Option option{.option = "Larger batch", .code = "larger_batch"};
    const double batch = chosen_.speed->batch;
    Question half = question_;
    half.concurrency = std::max(1.0, std::floor(batch / 2));
    const Candidate smaller = evaluate(half, *chosen_.gpu, chosen_.layout, chosen_.precision.weights);
    const double context = question_.input_tokens + question_.output_tokens;
    const double kv_gib = to_gib(chosen_.memory->stage().kv);
    const double share =
        chosen_.memory->kv_tokens.value > 0 ? context / static_cast<double>(chosen_.memory->kv_tokens.value) : 0;
    const bool kv_bound = chosen_.speed->binding == "kv_memory";
    option.verdict = kv_bound ? "refused" : "possible";
    option.why = fmt::format(
        "weights are read once per step for the whole batch: from {:.0f} to {:.0f} sequences {}. Each sequence of "
        "{:.0f} tokens "
        "costs {:.2f} GiB of KV per GPU of the {:.1f} there are; {}",
        half.concurrency, batch, change_text(smaller, chosen_), context, kv_gib * share, kv_gib,
        kv_bound ? "KV memory is what ends it" : fmt::format("here {} ends it", chosen_.speed->binding));
    return option;
  }

  Option precision(model::Dtype dtype, std::string name, std::string code, std::string use) const {
    Option option{.option = std::move(name), .code = std::move(code)};
    if (dtype == chosen_.precision.weights) {
      option.verdict = "chosen";
      option.why = use + fmt::format("; {:.1f} GiB of weights per GPU, {}", weights_gib(), speed_text(chosen_));
      return option;
    }
    const Candidate other =
        evaluate(question_, *chosen_.gpu,
                 {.tp = chosen_.layout.tp, .pp = chosen_.layout.pp, .dp = 1, .ep = chosen_.layout.ep}, dtype);
    option.verdict = other.fits ? verdict_of(chosen_, other) : "refused";
    option.why =
        use + "; " +
        (other.fits ? fmt::format("{:.1f} GiB of weights per GPU against {:.1f}, KV for {} tokens against {}, {}",
                                  to_gib(other.memory->stage().weights), weights_gib(), other.memory->kv_tokens.value,
                                  chosen_.memory->kv_tokens.value, change_text(chosen_, other))
                    : other.why);
    return option;
  }

  Option mig(const std::vector<hardware::Gpu>& slices) const {
    Option option{.option = "MIG slices",
                  .verdict = "refused",
                  .code = "mig",
                  .why = "cuts one GPU into isolated parts for small models. "};
    if (slices.empty()) {
      option.why += fmt::format("{} has no MIG profiles", chosen_.gpu->key);
      return option;
    }
    const Candidate* best = nullptr;
    std::vector<Candidate> tried;
    tried.reserve(slices.size());
    for (const hardware::Gpu& slice : slices) {
      tried.push_back(evaluate(question_, slice, {}, chosen_.precision.weights));
      if (tried.back().fits && (best == nullptr || tried.back().output_tok_s_per_gpu() / slice.memory_share >
                                                       best->output_tok_s_per_gpu() / best->gpu->memory_share))
        best = &tried.back();
    }
    if (best != nullptr) {
      option.verdict = "possible";
      option.why += fmt::format("{} holds it: {:.0f} tok/s, TPOT {:.1f} ms on {:.0f} % of a GPU", best->gpu->key,
                                best->output_tok_s(), best->speed->tpot_ms, 100 * best->gpu->memory_share);
    } else {
      const auto largest = std::ranges::max_element(tried, {}, [](const Candidate& c) { return c.gpu->memory; });
      option.why += fmt::format("The largest slice, {}: {}; slices have no link between them, so tp cannot join them",
                                largest->gpu->key, largest->why);
    }
    return option;
  }

  Option more_memory(const std::vector<hardware::Gpu>& larger) const {
    Option option{.option = "More memory per GPU",
                  .verdict = "no gain",
                  .code = "more_memory",
                  .why = "fewer GPUs per replica, or more KV and a larger batch. "};
    std::vector<Candidate> best_of_each;
    for (const hardware::Gpu& gpu : larger) {
      Question wider = question_;
      wider.gpus = {gpu};
      wider.precisions = {chosen_.precision.weights};
      wider.tp = wider.pp = wider.ep = std::nullopt;
      wider.dp = 1;
      std::vector<Candidate> found = enumerate(wider);
      if (found.empty() || !found.front().fits) continue;
      found.front().gpu = &gpu;
      best_of_each.push_back(found.front());
    }
    if (best_of_each.empty()) {
      option.why += fmt::format("No device with more memory than {} was considered", chosen_.gpu->key);
      return option;
    }
    const auto best = std::ranges::max_element(best_of_each, {}, &Candidate::output_tok_s_per_gpu);
    option.verdict = verdict_of(chosen_, *best);
    option.why += fmt::format("{} ({:.0f} GiB) runs {}: {}", best->gpu->key, to_gib(best->gpu->memory),
                              speed_text(*best), change_text(chosen_, *best));
    const auto here = chosen_.usd_per_mtok(), there = best->usd_per_mtok();
    if (here && there) option.why += fmt::format(", ${:.2f} against ${:.2f} per million output tokens", *there, *here);
    return option;
  }

  Option disaggregation() const {
    constexpr double kMargin = 0.03;
    Option option{.option = "Prefill apart from decode",
                  .code = "disaggregation",
                  .why = "prompts stop stretching the steps of others, and each role has its own batch. "};
    const std::optional<Disaggregated> split = disaggregate(question_, chosen_);
    if (!split) {
      option.verdict = "not computed";
      option.why += fmt::format("With {} pipeline stages the closed form says nothing; simulate it", chosen_.layout.pp);
      return option;
    }
    option.verdict = split->gain() > kMargin ? "helps" : split->gain() < -kMargin ? "worse" : "no gain";
    option.why += fmt::format(
        "{} prefill + {} decode replicas do {:.3g} requests/s per GPU at TPOT {:.1f} ms, mixed ones {:.3g} at {:.1f} "
        "ms: "
        "{:+.0f} %. A prompt's KV cache takes {:.1f} ms over 50 GB/s. Before queueing: simulate both with --versus",
        split->prefill_replicas, split->decode_replicas, split->requests_s_per_gpu, split->tpot_ms,
        split->mixed_requests_s_per_gpu, chosen_.speed->tpot_ms, 100 * split->gain(), split->kv_transfer_ms);
    return option;
  }

 private:
  const Question& question_;
  const Candidate& chosen_;
};

}  // namespace

std::vector<Option> explain(const Question& question, const Candidate& chosen, const std::vector<hardware::Gpu>& larger,
                            const std::vector<hardware::Gpu>& slices) {
  MUSTER_CHECK(chosen.fits && chosen.speed, "only a layout that fits can be explained");
  const Explainer explainer(question, chosen);
  const int gpus = std::max(2, chosen.layout.gpus_per_replica());
  std::vector<Option> options;
  options.push_back(explainer.tensor_parallel());
  options.push_back(explainer.pipeline(1, gpus, "Pipeline parallelism", "pp"));
  options.push_back(explainer.pipeline(std::max(2, gpus / 2), 2, "Tensor and pipeline parallelism", "tp_pp"));
  options.push_back(explainer.data_parallel());
  options.push_back(explainer.larger_batch());
  options.push_back(
      explainer.precision(model::Dtype::kFp32, "FP32", "fp32", "for training and numerics, doubles every byte"));
  options.push_back(
      explainer.precision(model::Dtype::kFp8, "FP8", "fp8", "halves weights at a small, task-dependent loss"));
  options.push_back(
      explainer.precision(model::Dtype::kInt4, "INT4", "int4", "quarters weights, computes in 16 bits, larger loss"));
  options.push_back(explainer.mig(slices));
  options.push_back(explainer.more_memory(larger));
  options.push_back(explainer.disaggregation());
  return options;
}

}  // namespace muster::planner
