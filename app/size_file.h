// What `muster size` is asked: model, devices, traffic, targets. docs/formats/size.md describes the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fleet_file.h"
#include "muster/core/result.h"

namespace muster::app {

struct TrafficSpec {
  std::string profile;             // a workload profile, or
  std::string trace;               // a trace file; exactly one of the two
  double scale = 1;                // multiplies the rate
  std::string arrivals = "gamma";  // how requests arrive within the rate curve
  double peak_window_s = 300;      // the stretch at peak rate that every replication simulates
};

struct SizeFile {
  std::string fleet;
  std::string model, engine = "vllm";
  std::vector<std::string> gpus;        // candidates; the cheapest fleet wins
  std::vector<std::string> precisions;  // allowed; empty: the checkpoint's own 16 bits, and fp8 where the device has it
  std::string kv_precision;
  int gpus_per_replica_max = 8;
  std::optional<int> tp, pp, ep;
  int max_model_len = 0, max_num_seqs = 0, max_num_batched_tokens = 0;
  std::optional<double> memory_fraction;
  std::vector<std::string> zones = {"a"};
  TrafficSpec traffic;
  SloTargets slo;
  double headroom = 0.35;  // replicas above the smallest number that meets the SLO, as a share of it
  int standby_per_zone = 1;
  bool survive_zone_loss = true;
  double cold_s = 150, warm_s = 6;
  std::string routing_policy = "least-work";
  int replicas_max = 2000;  // give up beyond
};

Result<SizeFile> read_size(const std::string& path);

}  // namespace muster::app
