#include "convert.h"

namespace muster::app {

report::Candidate to_report(const planner::Candidate& c) {
  report::Candidate out{.gpu = c.gpu->key,
                        .precision = std::string(model::name(c.precision.weights)),
                        .kv_precision = std::string(model::name(c.precision.kv)),
                        .tp = c.layout.tp,
                        .pp = c.layout.pp,
                        .dp = c.layout.dp,
                        .ep = c.layout.ep,
                        .gpus = c.layout.gpus(),
                        .fits = c.fits,
                        .usd_h = c.usd_h(),
                        .usd_per_mtok = c.usd_per_mtok(),
                        .why = c.why,
                        .provenance = c.provenance,
                        .error_band = c.error_band};
  if (c.memory) {
    for (const cost::StageMemory& s : c.memory->stages)
      out.stages.push_back({.layers = s.layers,
                            .weights_gib = to_gib(s.weights),
                            .activation_gib = to_gib(s.activation),
                            .non_torch_gib = to_gib(s.non_torch),
                            .graph_gib = to_gib(s.graph),
                            .kv_gib = to_gib(s.kv),
                            .free_gib = to_gib(s.free)});
    const report::StageRow& tightest = out.stages[static_cast<std::size_t>(c.memory->tightest)];
    out.weights_gib = tightest.weights_gib;
    out.activation_gib = tightest.activation_gib;
    out.non_torch_gib = tightest.non_torch_gib;
    out.graph_gib = tightest.graph_gib;
    out.kv_gib = tightest.kv_gib;
    out.kv_tokens = c.memory->kv_tokens.value;
    out.max_concurrency = c.memory->max_concurrency;
  }
  if (c.speed) {
    out.ttft_ms = c.speed->ttft_ms;
    out.tpot_ms = c.speed->tpot_ms;
    out.output_tok_s = c.output_tok_s();
    out.output_tok_s_per_gpu = c.output_tok_s_per_gpu();
    out.binding = c.speed->binding;
  }
  return out;
}

report::Option to_report(const planner::Option& o) {
  return {.option = o.option, .verdict = o.verdict, .code = o.code, .why = o.why};
}

report::PriceQuote price_of(const hardware::Gpu& gpu) {
  if (!gpu.price) return {};
  return {.usd_per_gpu_h = gpu.price->usd_per_gpu_hour,
          .provider = gpu.price->provider + (gpu.price->instance.empty() ? "" : " " + gpu.price->instance),
          .source = gpu.price->source,
          .date = gpu.price->date};
}

}  // namespace muster::app
