// What a measured row says was run, in muster's terms: the deployment, the load and the harness around it. Whatever the
// row leaves open and this file fills in is written down as a mark.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "deployment_options.h"
#include "measured_row.h"
#include "muster/cost/memory.h"

namespace muster::app {

enum class Load {
  kClosedLoop,    // `concurrency` users, each sends its next request when the last is answered
  kOpenLoop,      // Poisson at `rate`
  kBurst,         // `requests` at once, at most `concurrency` in the engine
  kOfflineMax,    // as many as fit, steady state
  kStaticBatch,   // `concurrency` prompts together, then decode together
  kDisaggregated  // prefill replicas feed decode replicas; closed form
};

struct Workers {  // one side of a disaggregated deployment
  int count = 1, tp = 1, dp = 1, ep = 1;
  bool count_known = false;
};

struct ValidationCase {
  std::string model, gpu;  // catalogue keys
  cost::EngineVersion engine;
  cost::Precision precision;
  cost::Layout layout;       // of one replica; dp: attention data parallelism inside it
  int copies = 1;            // whole replicas side by side
  int gpus_assumed_for = 0;  // > 0: the layout is not stated; choose the best for so many GPUs
  int max_num_batched_tokens = 0, max_num_seqs = 0, max_model_len = 0;  // 0: the engine's default
  std::optional<double> memory_fraction;
  int kv_tokens = 0;                     // measured; 0: as muster computes it
  bool asynchronous_scheduling = false;  // switched on by hand

  Load load = Load::kClosedLoop;
  double isl = 0, osl = 0;           // tokens, mean
  double shortest = 1, longest = 1;  // lengths are uniform in [shortest, longest] x the mean
  bool long_tailed = false;          // ... or exponential, as in chat data sets
  double concurrency = 0, rate = 0;
  int requests = 0;                // of the whole run; 0: not stated
  bool ttft_scored = false;        // the harness is known well enough
  bool median = false;             // the row states medians
  Workers prefill, decode;         // kDisaggregated
  std::vector<std::string> marks;  // "layout assumed", ...
};

// The reason as a short phrase that many rows share ("no text model", "gpu not in the catalogue").
std::expected<ValidationCase, std::string> express(const MeasuredRow& row, const Catalogues& catalogues);

}  // namespace muster::app
