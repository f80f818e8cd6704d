// The same traffic under the rules of every engine's scheduler: the table of docs/schedulers.md.
//   ninja -C build/release bench_schedulers
//   build/release/bench/bench_schedulers [profile] [scale] [scheduler]
//
// Each row is what `muster simulate` prints for the fleet file below with `scheduler:` set; memory and step times are
// those of one engine (vllm@0.19), so only the rules differ. llama.cpp gives each slot an equal share of the KV cache
// and refuses a prompt that does not fit into one, so it has 32 slots where the others run up to 256 sequences.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "deployment_options.h"
#include "fleet_file.h"
#include "fleet_simulation.h"
#include "muster/sched/scheduler.h"
#include "muster/workload/profile.h"

namespace muster::app {
namespace {

std::string fleet_text(std::string_view scheduler) {
  return fmt::format(R"(fleet: schedulers
pools:
  - name: chat
    model: llama-3.1-70b
    engine: vllm@0.19
    scheduler: {}
    max_num_seqs: {}
    gpu: h100-sxm
    precision: fp8
    parallel: {{tp: 4}}
    replicas: {{initial: 2}}
classes:
  - {{name: interactive, slo: {{ttft_p95_ms: 2000, tpot_p95_ms: 60}}}}
)",
                     scheduler, scheduler == "llama.cpp" ? 32 : 256);
}

Result<void> print_row(std::string_view scheduler, const Catalogues& catalogues, const workload::Trace& trace) {
  MUSTER_TRY(const FleetFile file, parse_fleet(fleet_text(scheduler), "fleet"));
  MUSTER_TRY(const PreparedFleet fleet, prepare_fleet(file, "", catalogues));
  MUSTER_TRY(const sim::Scenario s, scenario(fleet, trace));
  const sim::Outcome outcome = sim::run(s);
  const report::RunMetrics m = metrics(s, outcome, std::nullopt, "chat");
  fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} | {} | {:.1f} % |\n",
             scheduler, m.queue_wait_ms.p95, m.ttft_ms.p50, m.ttft_ms.p95, m.tpot_ms.p50, m.tpot_ms.p95, m.tpot_ms.p99,
             m.e2e_ms.p50 / 1e3, m.e2e_ms.p95 / 1e3, m.preempted, m.rejected, 100 * m.slo_attainment);
  return {};
}

Result<void> bench(const std::string& profile_path, double scale, std::string_view only) {
  MUSTER_TRY(const Catalogues catalogues, load_catalogues({}));
  MUSTER_TRY(const workload::Profile profile, workload::read_profile(profile_path));
  MUSTER_TRY(const workload::Trace trace, workload::synthesise(profile, {.scale = scale, .seed = 1}));
  fmt::print("{} x {:g}: {} requests in {:.0f} s\n\n", profile_path, scale, trace.requests.size(),
             to_seconds(trace.span()));
  fmt::print(
      "| scheduler | wait p95 ms | TTFT p50 ms | TTFT p95 ms | TPOT p50 ms | TPOT p95 ms | TPOT p99 ms | E2E p50 s | "
      "E2E p95 s | preempted | refused | SLO met |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const sched::SchedulerKind kind : sched::kSchedulerKinds)
    if (only.empty() || only == sched::name(kind)) MUSTER_TRY_VOID(print_row(sched::name(kind), catalogues, trace));
  return {};
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  const auto done = muster::app::bench(argc > 1 ? argv[1] : "examples/profiles/azure-conv.yaml",
                                       argc > 2 ? std::atof(argv[2]) : 1, argc > 3 ? argv[3] : "");
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 2;
}
