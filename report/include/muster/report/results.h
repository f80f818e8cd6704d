// The results of muster's verbs as plain structs: what the terminal, JSON and HTML writers show.
// Units are in the names. An empty optional is shown as "-" and written as null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::report {

struct Latency {  // milliseconds
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

struct Event {  // something that happened to the fleet
  double at_s = 0;
  std::string kind;  // "zone_loss", "scale_up", "promotion", ...
  std::string text;
};

// A group of requests: a class, a tenant or a pool.
struct GroupMetrics {
  std::string name;
  std::uint64_t requests = 0, completed = 0, rejected = 0, timed_out = 0;
  Latency ttft_ms, tpot_ms, e2e_ms, queue_wait_ms;
  double output_tok_s = 0;
  double slo_attainment = 0;  // share of the requests that met every target of their class
};

// Mean TTFT by where the time goes. What the run does not model (the client's and the server's side of the network, the
// way of the first token back) has no figure: a measurement at the client contains it.
struct TtftParts {
  std::optional<double> client_ms, ingress_ms;
  double queue_ms = 0;  // arrival at the engine to the first step that computes something of the prompt
  double schedule_to_first_token_ms = 0;  // from there to the end of the step that samples the first token
  std::optional<double> response_ms;
};

struct Estimate {  // of one figure of a run, named as in measures.h
  std::string name;
  double value = 0;                 // of the run, or the mean over the replications
  std::optional<double> low, high;  // 95 % confidence interval; absent: too few samples to give one
  std::string by;                   // "sections", "order statistics", "Student t"; empty without an interval
};
// How sure a run, or a few replications of it, make us of its figures.
struct Uncertainty {
  std::uint64_t first_seed = 1;
  int replications = 1;                    // seeds first_seed, first_seed + 1, ...
  std::optional<int> replications_in_slo;  // in which every class met its targets; absent: no class has targets
  std::string method;                      // how the intervals were made and what they assume
  std::string warm_up = "none";            // "none", "fixed", "MSER-5"
  double warm_up_s = 0;                    // left out of latencies and attainment
  std::vector<Estimate> estimates;
  std::vector<std::string> digests;  // [replications]
  std::vector<std::string> notes;
};

// KV caches that moved from prefill to decode replicas.
struct KvTransferMetrics {
  std::uint64_t transfers = 0;
  double gib = 0;
  double mean_wait_ms = 0, mean_ms = 0;  // for the link; on the way, without that wait
};

// Prompt tokens looked up in the prefix caches, and how many of them were there.
struct PrefixCacheMetrics {
  double queried_tokens = 0, hit_tokens = 0;
  double hit_rate() const { return queried_tokens > 0 ? hit_tokens / queried_tokens : 0; }
};

// Of the time in which a replica had at least one step in flight.
struct StageMetrics {
  double busy = 0;  // share in which this pipeline stage was busy; what is missing to 1 is bubbles
};

struct RunMetrics {
  std::string load;  // the load generator, in words
  std::uint64_t requests = 0, completed = 0, rejected = 0, preempted = 0;
  std::uint64_t timed_out = 0, retries = 0;  // given up for good by the client; tried again
  std::uint64_t wasted_output_tokens = 0;    // of attempts that were given up
  std::optional<KvTransferMetrics> kv_transfers;
  std::optional<PrefixCacheMetrics> prefix_cache;
  double duration_s = 0;
  Latency ttft_ms, tpot_ms, e2e_ms, queue_wait_ms;
  std::optional<TtftParts> ttft_parts;
  double output_tok_s = 0, total_tok_s = 0, output_tok_s_per_gpu = 0;
  double slo_attainment = 0, goodput_rps = 0;
  double gpu_hours = 0;
  std::optional<double> usd;
  std::vector<StageMetrics> stages;    // empty: no pipeline
  std::optional<double> bubble_share;  // 1 - mean of the stages' busy shares
  std::uint64_t steps = 0;
  double wall_s = 0;
  double requests_per_wall_s() const { return wall_s > 0 ? static_cast<double>(requests) / wall_s : 0; }
  double steps_per_wall_s() const { return wall_s > 0 ? static_cast<double>(steps) / wall_s : 0; }
  std::string digest;
  std::vector<GroupMetrics> classes, tenants, pools;
  std::vector<Event> events;
  std::optional<Uncertainty> uncertainty;
};

// What to plot of a run.
struct ReplicaSeries {
  std::string name;              // "a/0"
  std::vector<double> batch;     // running sequences at each sample
  std::vector<double> kv_share;  // KV blocks used / total
};
// A short stretch of a pipeline, to see its bubbles.
struct PipelineSpan {
  int stage = 0;
  int micro_batch = 0;              // turn in the pipeline, from 0
  double begin_ms = 0, end_ms = 0;  // since the window's begin
  double prefill_tokens = 0, decode_sequences = 0;
  std::int64_t steps = 1;  // above 1: so many decode steps, alone in the pipeline, one after the other; only of stage 0
};
struct PipelineWindow {
  std::string replica;  // "a/0"
  int stages = 0;
  double begin_s = 0;
  std::vector<PipelineSpan> spans;
};
struct RunPlots {
  double interval_s = 0;
  std::vector<double> arrivals_rps;  // [samples]
  std::vector<double> queued;        // requests not yet started, whole fleet
  std::vector<double> ready_replicas;
  std::vector<ReplicaSeries> replicas;
  PipelineWindow pipeline;
  // Cumulative distributions as (value_ms, share) pairs, thinned to at most 400 points.
  std::vector<std::pair<double, double>> queue_wait_cdf, ttft_cdf, e2e_cdf, tpot_cdf;
};

struct Lengths {  // tokens
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
struct Traffic {
  std::string source;
  std::uint64_t requests = 0;
  double span_s = 0, rate_rps = 0, interarrival_cv = 0, dispersion = 0;
  double peak_rate_rps = 0, peak_begin_s = 0, peak_window_s = 0;
  Lengths input, output, context;
  std::optional<double> prefix_reuse;
  std::uint64_t sessions = 0;    // 0: the trace does not know them
  double turns_per_session = 0;  // mean
  std::vector<double> rate_curve_rps;
  double rate_window_s = 0;
};

struct StageRow {
  int layers = 0;
  double weights_gib = 0, activation_gib = 0, non_torch_gib = 0, graph_gib = 0, kv_gib = 0, free_gib = 0;
};
struct Candidate {  // one layout of one model on one device; memory is GiB per GPU on the tightest stage
  std::string gpu, precision, kv_precision;
  int tp = 1, pp = 1, dp = 1, ep = 1, gpus = 1;
  bool fits = false;
  std::vector<StageRow> stages;
  double weights_gib = 0, activation_gib = 0, non_torch_gib = 0, graph_gib = 0, kv_gib = 0;
  std::int64_t kv_tokens = 0;
  double max_concurrency = 0;
  double ttft_ms = 0, tpot_ms = 0, output_tok_s = 0, output_tok_s_per_gpu = 0;
  std::optional<double> usd_h, usd_per_mtok;
  std::string binding, why;
  std::vector<std::string> provenance;
  double error_band = 0;  // relative half-width
};
struct Option {  // a question people ask ("why not FP32?") and its answer here
  std::string option, verdict, code, why;
};
struct Plan {
  std::string model, engine, engine_version;
  std::vector<Candidate> candidates;  // best first; then those that do not fit
  std::vector<Option> options;
};

struct PriceQuote {
  std::optional<double> usd_per_gpu_h;
  std::string provider, source, date;  // empty without a price
};
struct PercentileSpeed {   // one replica when every request is as long as this percentile
  std::string percentile;  // "p50"
  double context_tokens = 0, input_tokens = 0, output_tokens = 0;
  double concurrency = 0, output_tok_s = 0, tpot_ms = 0;
};
struct SizeStep {  // one fleet size that was tried
  int replicas = 0;
  int seeds = 0, seeds_meeting = 0;
  double p95_latency_ms = 0;  // of Size::sizing_target, mean over the seeds
  double half_width_ms = 0;   // 95 % confidence
  double slo_attainment = 0;
};
struct Slo {
  std::string name;  // "<queue_wait|ttft|tpot|e2e>_<mean|p50|p90|p95|p99|max>_ms"
  double target_ms = 0;
  std::optional<double> measured_ms;  // at the final size
};
struct Relaxation {
  std::string change, effect;
};
struct Phase {
  std::string name;
  double wall_s = 0;
};

struct Size {
  std::string fleet, model, engine;
  int replicas = 0;          // for the SLO at peak, with headroom, without standby
  int replicas_for_slo = 0;  // the smallest N that meets the SLO at peak
  int standby = 0, gpus = 0;
  std::vector<std::string> zones;
  std::vector<int> replicas_per_zone;
  Candidate layout;
  double headroom = 0;       // replicas above replicas_for_slo, as a share of it
  double peak_rate_rps = 0;  // that the fleet was sized for
  std::optional<double> usd_h, usd_per_mtok;
  PriceQuote price;
  std::string binding;
  std::vector<Relaxation> relax;
  int replicas_at_95 = 0;     // with which 95 % of the seeds meet the SLO
  std::vector<Slo> slos;      // measured at the final size
  std::string sizing_target;  // name of the target that a smaller fleet misses by most: it decides the size
  std::vector<SizeStep> steps;
  RunMetrics at_n, at_n_minus_1;  // at the peak, with replicas_for_slo and with one fewer; without requests: not run
  RunMetrics zone_loss;           // the final fleet, one zone lost at the peak
  bool zone_loss_meets_slo = false;
  Traffic traffic;
  std::vector<PercentileSpeed> speeds;
  std::vector<Candidate> considered;  // fitting and rejected
  std::string paragraph;              // the answer as an engineer would say it
  RunPlots plots;                     // of the run at the final size
  RunPlots zone_loss_plots;
  std::string fleet_file;
  std::vector<Phase> phases;
};

}  // namespace muster::report
