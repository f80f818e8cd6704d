#include "layer_table_timer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "muster/core/statistics.h"
#include "muster/files/csv.h"
#include "muster/sim/simulation.h"

namespace muster::app {
namespace {

TEST(NestedTable, IsExactAtPointsAndLinearBetweenAndBeyond) {
  NestedTable t;
  for (const double x : {1.0, 2.0, 4.0})
    for (const double y : {0.0, 10.0}) t.add({x, y}, 3 * x + 5 * y + 2);
  for (const double x : {1.0, 1.5, 2.0, 3.0, 4.0, 6.0})
    for (const double y : {0.0, 4.0, 10.0, 30.0}) {
      const double point[] = {x, y};
      EXPECT_NEAR(t.at(point), 3 * x + 5 * y + 2, 1e-9) << x << " " << y;
    }
}

// ---- a measured run, request by request ----------------------------------------------------------------------------

struct Measured {
  workload::Trace trace;
  QuantileSketch ttft, tpot, e2e;
};

Result<Measured> read_run(const std::string& path) {
  MUSTER_TRY(files::CsvReader csv, files::CsvReader::open(path));
  Measured m;
  m.trace.source = path;
  std::vector<std::size_t> columns;
  for (const char* name : {"arrival_s", "input_tokens", "output_tokens", "ttft_ms", "tpot_ms", "e2e_ms"}) {
    MUSTER_TRY(const std::size_t column, csv.need(name));
    columns.push_back(column);
  }
  for (;;) {
    MUSTER_TRY(const bool more, csv.next());
    if (!more) break;
    std::vector<double> row;
    for (const std::size_t column : columns) {
      MUSTER_TRY(const double value, csv.number(column));
      row.push_back(value);
    }
    m.trace.requests.push_back({.arrival = from_seconds(row[0]),
                                .input_tokens = static_cast<std::int32_t>(row[1]),
                                .output_tokens = static_cast<std::int32_t>(row[2])});
    m.ttft.add(row[3]);
    m.tpot.add(row[4]);
    m.e2e.add(row[5]);
  }
  return m;
}

struct Set {
  const char *device, *raw;
  std::int64_t kv_blocks, max_num_seqs;
};

void compare(const Set& set, double limit) {
  const std::string shared = MUSTER_SHARED_DATA;
  const std::string run = shared + "/measured/raw/llmservingsim_" + set.raw + "_Llama-3.1-8B.csv";
  if (!std::filesystem::exists(run)) GTEST_SKIP() << "needs " << run << ", which is not here";
  const auto measured = read_run(run);
  ASSERT_TRUE(measured) << measured.error().message;
  const auto engine = cost::engine_profile({"vllm", "0.19"});
  const auto timer =
      LayerTableTimer::read(shared + "/calibration/" + set.device + "__llama-3.1-8b__bf16__tp1", 32, *engine);
  ASSERT_TRUE(timer) << timer.error().message;
  sim::Scenario s;
  s.kind.step = &*timer;
  s.kind.limits = {.max_num_batched_tokens = 2048,
                   .max_num_seqs = set.max_num_seqs,
                   .kv_blocks = set.kv_blocks,
                   .kv_block_tokens = 16};
  s.zones = {"a"};
  s.replicas = {{.zone = 0, .standby = false}};
  s.policy.running_max = 100'000;  // the engine's own queue holds what waits
  s.classes = {{.name = "all", .rank = 0, .slo = {}}};
  s.trace = &measured->trace;
  const sim::Outcome o = sim::run(s);
  std::printf("%s: %llu preemptions, %llu steps\n", set.device, static_cast<unsigned long long>(o.preempted),
              static_cast<unsigned long long>(o.steps));
  const auto check = [&](const char* what, double mine, double theirs) {
    std::printf("%s %-10s measured %9.1f predicted %9.1f (%+.1f %%)\n", set.device, what, theirs, mine,
                100 * (mine / theirs - 1));
    EXPECT_NEAR(mine / theirs, 1, limit) << set.device << " " << what;
  };
  check("TTFT mean", o.all.ttft_ms.mean(), measured->ttft.mean());
  check("TPOT mean", o.all.tpot_ms.mean(), measured->tpot.mean());
  check("E2E mean", o.all.e2e_ms.mean(), measured->e2e.mean());
  check("TTFT p99", o.all.ttft_ms.quantile(0.99), measured->ttft.quantile(0.99));
  check("TPOT p99", o.all.tpot_ms.quantile(0.99), measured->tpot.quantile(0.99));
  check("E2E p99", o.all.e2e_ms.quantile(0.99), measured->e2e.quantile(0.99));
}

// Overloaded: some 240 preemptions, whose recomputation the engine's prefix cache shortens and ours does not.
TEST(LayerTables, Rtx4090RunOfLlama8b) {
  compare({"rtx4090", "RTX4090", 2588, 256}, 0.085);
}
// The number of KV blocks is not in its log; with 128 sequences at most it does not bind.
TEST(LayerTables, RtxPro6000RunOfLlama8b) {
  compare({"rtxpro6000", "RTXPRO6000", 30000, 128}, 0.07);
}

}  // namespace
}  // namespace muster::app
