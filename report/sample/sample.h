// The result of an invented fleet, shaped like a real one: for tests and for looking at the page. No figure here is a
// finding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/rng.h"
#include "muster/report/results.h"

namespace muster::report::sample {

inline Latency latency(double mean, double p50, double p90, double p95, double p99, double max) {
  return {.mean = mean, .p50 = p50, .p90 = p90, .p95 = p95, .p99 = p99, .max = max};
}

inline RunMetrics run(double wait_p95, double e2e_p95, double attainment) {
  RunMetrics r;
  r.requests = 22415;
  r.completed = 22409;
  r.rejected = 6;
  r.preempted = 14;
  r.duration_s = 612.4;
  r.queue_wait_ms = latency(wait_p95 / 6, wait_p95 / 40, wait_p95 / 2, wait_p95, wait_p95 * 2.2, wait_p95 * 4.1);
  r.ttft_ms =
      latency(180 + wait_p95 / 6, 131, 320 + wait_p95 / 2, 455 + wait_p95, 910 + 2.2 * wait_p95, 2980 + 4 * wait_p95);
  r.tpot_ms = latency(31.4, 30.2, 38.9, 43.7, 55.1, 88.6);
  r.e2e_ms = latency(e2e_p95 * 0.42, e2e_p95 * 0.36, e2e_p95 * 0.81, e2e_p95, e2e_p95 * 1.62, e2e_p95 * 2.7);
  r.output_tok_s = 7731.6;
  r.total_tok_s = 50012.3;
  r.output_tok_s_per_gpu = 161.1;
  r.slo_attainment = attainment;
  r.goodput_rps = 36.6 * attainment;
  r.gpu_hours = 10.2;
  r.usd = 110.4;
  r.steps = 1'238'114;
  r.wall_s = 0.412;
  r.digest = "5f2c19d07ae4b813";
  GroupMetrics group;
  group.name = "interactive";
  group.requests = r.requests;
  group.completed = r.completed;
  group.rejected = r.rejected;
  group.ttft_ms = r.ttft_ms;
  group.tpot_ms = r.tpot_ms;
  group.e2e_ms = r.e2e_ms;
  group.queue_wait_ms = r.queue_wait_ms;
  group.output_tok_s = r.output_tok_s;
  group.slo_attainment = attainment;
  r.classes.push_back(group);
  return r;
}

inline std::vector<std::pair<double, double>> cdf(double median, double sigma, Rng rng) {
  std::vector<double> values(400);
  for (double& v : values) v = median * std::exp(sigma * rng.normal());
  std::sort(values.begin(), values.end());
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < values.size(); ++i)
    points.emplace_back(values[i], static_cast<double>(i + 1) / static_cast<double>(values.size()));
  return points;
}

// A fluid queue under a bursty rate, with the first third of the replicas gone between samples `from` and `to`.
inline RunPlots plots(std::size_t samples, std::size_t replicas, std::size_t from, std::size_t to, std::uint64_t seed) {
  Rng rng = Rng::stream(seed, 0, "report sample");
  RunPlots p;
  p.interval_s = 600.0 / static_cast<double>(samples);
  for (std::size_t r = 0; r < replicas; ++r)
    p.replicas.push_back({.name = std::string(1, static_cast<char>('a' + r * 3 / replicas)) + "/" +
                                  std::to_string(r % std::max<std::size_t>(1, (replicas + 2) / 3)),
                          .batch = {},
                          .kv_share = {}});
  double queue = 0, burst = 1;
  for (std::size_t i = 0; i < samples; ++i) {
    const double phase = static_cast<double>(i) / static_cast<double>(samples);
    burst += 0.15 * (1 - burst) + 0.18 * rng.normal();
    const double rate = std::max(0.0, 36 * (0.72 + 0.35 * std::sin(3.1 * phase)) * std::max(0.3, burst));
    const bool lost = i >= from && i < to;
    const double ready = static_cast<double>(replicas) - (lost ? static_cast<double>(replicas / 3) : 0);
    queue = std::max(0.0, queue + (rate - ready * 4.4) * p.interval_s);
    p.arrivals_rps.push_back(rate);
    p.queued.push_back(std::round(queue));
    p.ready_replicas.push_back(ready);
    for (std::size_t r = 0; r < replicas; ++r) {
      const bool down = lost && r < replicas / 3;
      const double load = down ? 0 : std::min(1.0, rate / ready / 4.4 * (1 + 0.08 * rng.normal()));
      p.replicas[r].batch.push_back(std::round(96 * load));
      p.replicas[r].kv_share.push_back(std::clamp(0.86 * load + 0.03 * rng.normal() * (down ? 0 : 1), 0.0, 1.0));
    }
  }
  p.queue_wait_cdf = cdf(25, 1.6, Rng::stream(seed, 1, "wait"));
  p.ttft_cdf = cdf(210, 0.75, Rng::stream(seed, 1, "ttft"));
  p.e2e_cdf = cdf(6100, 0.62, Rng::stream(seed, 1, "e2e"));
  p.tpot_cdf = cdf(30, 0.22, Rng::stream(seed, 1, "tpot"));
  return p;
}

inline Candidate fitting(std::string gpu, std::string precision, int tp, int pp, double weights, double kv,
                         double speed, double usd_per_gpu) {
  Candidate c;
  c.gpu = std::move(gpu);
  c.precision = std::move(precision);
  c.kv_precision = "fp8";
  c.tp = tp;
  c.pp = pp;
  c.gpus = tp * pp;
  c.fits = true;
  for (int s = 0; s < pp; ++s)
    c.stages.push_back({.layers = 80 / pp,
                        .weights_gib = weights,
                        .activation_gib = 1.9,
                        .non_torch_gib = 0.62,
                        .graph_gib = 0.84,
                        .kv_gib = kv,
                        .free_gib = 7.9});
  c.weights_gib = weights;
  c.activation_gib = 1.9;
  c.non_torch_gib = 0.62;
  c.graph_gib = 0.84;
  c.kv_gib = kv;
  c.kv_tokens = static_cast<std::int64_t>(kv * tp * pp * 6553.6);
  c.max_concurrency = static_cast<double>(c.kv_tokens) / 4096;
  c.ttft_ms = 2000.0 / (tp * pp);
  c.tpot_ms = 92.0 / tp;
  c.output_tok_s = speed;
  c.output_tok_s_per_gpu = speed / c.gpus;
  if (usd_per_gpu > 0) {
    c.usd_h = usd_per_gpu * c.gpus;
    c.usd_per_mtok = *c.usd_h / speed / 3600 * 1e6;
  }
  c.binding = "HBM bandwidth while decoding";
  c.why = "smallest group that holds the weights with room for 131 sequences at p95 context; NVLink inside the node";
  c.provenance = {"weights: exact tensor shapes", "step time: roofline x fitted efficiency (H100 GEMM tables)"};
  c.error_band = 0.08;
  return c;
}

inline Candidate rejected(std::string gpu, std::string precision, int tp, std::string why) {
  Candidate c;
  c.gpu = std::move(gpu);
  c.precision = std::move(precision);
  c.tp = tp;
  c.gpus = tp;
  c.why = std::move(why);
  return c;
}

inline std::vector<Candidate> considered() {
  return {fitting("h100-sxm", "fp8", 4, 1, 16.4, 51.9, 2610, 3.93),
          fitting("h100-sxm", "fp8", 2, 1, 32.8, 35.5, 1270, 3.93),
          fitting("h200-sxm", "fp8", 2, 1, 32.8, 90.1, 1690, 4.98),
          fitting("h100-sxm", "fp8", 8, 1, 8.2, 60.1, 4210, 3.93),
          fitting("h100-sxm", "bf16", 4, 1, 32.9, 35.4, 1630, 3.93),
          fitting("b200", "fp4", 1, 1, 37.4, 118, 2240, 0),
          fitting("a100-sxm-80gb", "int8", 4, 1, 16.5, 51.2, 1105, 2.74),
          fitting("h100-sxm", "fp8", 4, 2, 8.2, 60.1, 3920, 3.93),
          rejected("h100-sxm", "fp8", 1,
                   "weights 65.7 GiB + overhead 3.4 GiB leave 2.2 GiB for KV: 14,400 tokens, less than one "
                   "request at max-model-len 32,768"),
          rejected("h100-sxm", "bf16", 1, "weights 131.4 GiB > 79.2 GiB per GPU"),
          rejected("h100-sxm", "bf16", 2, "weights 65.7 GiB per GPU leave 2.1 GiB for KV"),
          rejected("h100-sxm", "fp32", 4, "weights 65.7 GiB per GPU; and FP32 has no tensor-core path (67 TFLOP/s)"),
          rejected("h100-sxm", "fp8", 3, "64 attention heads do not divide by 3"),
          rejected("a100-sxm-80gb", "fp8", 4, "Ampere has no FP8 matrix units"),
          rejected("l4", "int4", 8, "PCIe all-reduce of 8 GPUs: 160 per step take 41 ms, TPOT 96 ms > 60 ms"),
          rejected("h100-sxm/1g.10gb", "int4", 8,
                   "MIG slices have no peer-to-peer link: no tensor parallelism over slices")};
}

inline Traffic traffic() {
  Traffic t;
  t.source = "azure-2023-conv profile x 6.6";
  t.requests = 127816;
  t.span_s = 3500;
  t.rate_rps = 36.5;
  t.interarrival_cv = 1.24;
  t.dispersion = 3.1;
  t.peak_rate_rps = 58.2;
  t.peak_begin_s = 1860;
  t.peak_window_s = 600;
  t.input = {.mean = 1155, .p50 = 1020, .p90 = 2341, .p95 = 3012, .p99 = 4050, .max = 14050};
  t.output = {.mean = 211, .p50 = 129, .p90 = 451, .p95 = 500, .p99 = 610, .max = 1000};
  t.context = {.mean = 1366, .p50 = 1218, .p90 = 2712, .p95 = 3391, .p99 = 4470, .max = 14820};
  t.rate_window_s = 20;
  Rng rng = Rng::stream(7, 0, "curve");
  for (int i = 0; i < 175; ++i) t.rate_curve_rps.push_back(36 + 14 * std::sin((i - 40) / 28.0) + 5 * rng.normal());
  return t;
}

inline Size size() {
  Size s;
  s.fleet = "chat-70b";
  s.model = "llama-3.1-70b";
  s.engine = "vllm@0.19";
  s.replicas = 12;
  s.replicas_for_slo = 9;
  s.standby = 3;
  s.gpus = 60;
  s.zones = {"a", "b", "c"};
  s.replicas_per_zone = {4, 4, 4};
  s.considered = considered();
  s.layout = s.considered.front();
  s.headroom = 0.33;
  s.usd_h = 60 * 3.93;
  s.usd_per_mtok = 8.47;
  s.price = {.usd_per_gpu_h = 3.93,
             .provider = "AWS us-east-1 p5.48xlarge",
             .source = "https://aws.example/ec2/capacityblocks",
             .date = "2025-06-01"};
  s.binding = "SLO: E2E p95 at peak; decoding is bound by HBM bandwidth (KV 61 % full)";
  s.relax = {{"E2E p95 target 20 s -> 22 s", "8 replicas instead of 9, $47 less per hour"},
             {"KV cache bf16 -> fp8", "batch 131 -> 240, 8 replicas"}};
  s.replicas_at_95 = 10;
  s.slos = {{"e2e_p95_ms", 20000, 17240},
            {"ttft_p95_ms", 2000, 820},
            {"tpot_p95_ms", 60, 43.7},
            {"queue_wait_p95_ms", 500, 122}};
  s.steps = {{6, 8, 0, 61800, 9200, 0.642}, {7, 8, 0, 34400, 4100, 0.871}, {8, 8, 2, 21300, 1500, 0.941},
             {9, 8, 7, 18900, 820, 0.968},  {10, 8, 8, 17900, 410, 0.988}, {12, 8, 8, 17240, 220, 0.9961}};
  s.at_n = run(410, 18900, 0.968);
  s.at_n_minus_1 = run(2260, 21300, 0.941);
  s.zone_loss = run(690, 19380, 0.957);
  s.zone_loss.events = {{60, "zone_loss", "zone a lost: 4 serving and 1 standby replica, 262 running requests"},
                        {66, "promotion", "b/4 serves"},
                        {66.2, "promotion", "c/4 serves"},
                        {360, "zone_back", "zone a is back, replicas start cold"},
                        {510, "ready", "4 replicas of zone a serve"}};
  s.zone_loss_meets_slo = true;
  s.traffic = traffic();
  s.speeds = {{"p50", 1218, 1020, 129, 256, 4120, 38.1},
              {"p90", 2712, 2341, 451, 212, 3020, 41.9},
              {"p95", 3391, 3012, 500, 188, 2610, 43.7},
              {"p99", 4470, 4050, 610, 146, 2040, 45.2}};
  s.paragraph =
      "Llama 3.1 70B in FP8 at contexts up to 4,470 tokens (p99) runs with tensor parallelism 4 on one half of an "
      "8-GPU H100 "
      "node per replica, over NVLink; a replica gives 2,610 output tokens/s at the p95 context. Nine replicas keep the "
      "p95 of "
      "queue wait plus generation at 18.9 s against 20 s in the peak ten minutes; with 33 % headroom that is twelve, "
      "four in "
      "each of three zones, plus one warm standby per zone. Losing a zone at peak still meets the SLO (19.4 s). Scale "
      "on queue "
      "wait p95 above 500 ms, then on TPOT above 1.3 times its baseline.";
  s.plots = plots(600, 12, 0, 0, 11);
  s.zone_loss_plots = plots(600, 12, 60, 510, 12);
  s.fleet_file = "fleet.yaml";
  s.phases = {{"trace", 0.31}, {"layouts", 0.04}, {"search", 3.9}, {"zone loss", 0.8}, {"files", 0.05}};
  return s;
}

inline Plan plan() {
  Plan p;
  p.model = "llama-3.1-70b";
  p.engine = "vllm";
  p.engine_version = "0.19";
  p.candidates = considered();
  p.options = {{"PP instead of TP", "no", "latency",
                "two stages halve the weights per GPU but add a 1.1 ms bubble per step; TP4 fits on "
                "one node, so PP only costs"},
               {"FP8", "yes", "fits", "halves weights and KV bytes; H100 has FP8 matrix units"},
               {"MIG", "refused", "no_peer_link", "70B needs 4 GPUs; slices have no NVLink"}};
  return p;
}

}  // namespace muster::report::sample
