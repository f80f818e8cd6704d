// muster calibrate: figures of this machine instead of general ones, from an engine's start-up log or from measured
// operator latencies.
#include <memory>

#include "deployment_options.h"
#include "muster/cost/fit_operators.h"
#include "muster/cost/memory.h"
#include "muster/files/lines.h"
#include "muster/report/format.h"
#include "muster/report/table.h"
#include "progress.h"
#include "startup_log.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string startup_log, operators, out, model, gpu, precision, kv_precision, engine;
  int tp = 0, pp = 0;
  std::vector<std::string> catalog_files;
};

struct Predicted {
  model::ModelSpec model;
  hardware::Gpu gpu;
  cost::MemoryVerdict memory;
};

// What muster would have said about the deployment that wrote the log; nullopt when model or device are not named.
Result<std::optional<Predicted>> predict(const Options& options, const StartupLog& log) {
  if (options.model.empty() || options.gpu.empty()) return std::optional<Predicted>();
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  Predicted p;
  MUSTER_TRY(p.model, catalogues.models.find(options.model));
  MUSTER_TRY(p.gpu, catalogues.devices.find(options.gpu));
  const std::string engine = !options.engine.empty() ? options.engine
                             : log.version.empty()   ? "vllm"
                                                     : "vllm@" + log.version;
  MUSTER_TRY(const cost::EngineVersion version, cost::parse_engine(engine));
  cost::Deployment d{.model = &p.model, .gpu = &p.gpu};
  MUSTER_TRY(d.engine, cost::engine_profile(version));
  d.layout = {.tp = options.tp > 0 ? options.tp : log.tp.value_or(1),
              .pp = options.pp > 0 ? options.pp : log.pp.value_or(1)};
  std::string weights = options.precision;
  if (weights.empty()) weights = !log.quantization.empty() ? log.quantization : log.dtype;
  if (weights.empty() || (!model::parse_dtype(weights) && options.precision.empty()))
    d.precision.weights = p.model.default_dtype;
  else {
    MUSTER_TRY(d.precision.weights, parse_precision(weights, "--precision"));
  }
  const std::string kv = !options.kv_precision.empty() ? options.kv_precision : log.kv_cache_dtype;
  if (const auto dtype = model::parse_dtype(kv)) d.precision.kv = *dtype;
  d.max_model_len = log.max_model_len.value_or(0);
  d.memory_fraction = log.memory_fraction;
  if (const auto refusal = cost::refuse_layout(p.model, d.layout)) return fail("{}", *refusal);
  p.memory = cost::memory(d);
  return std::optional(std::move(p));
}

std::string compare(const StartupLog& log, const std::optional<Predicted>& predicted,
                    const report::TerminalStyle& style) {
  using report::Align;
  report::Table table(
      {{"per GPU"}, {"engine says", Align::kRight}, {"muster says", Align::kRight}, {"difference", Align::kRight}});
  const auto row = [&](const char* what, std::optional<double> measured, std::optional<double> mine,
                       std::string (*format)(double)) {
    if (!measured && !mine) return;
    const bool both = measured && mine && *measured != 0;
    table.row({what, report::or_dash(measured, format), report::or_dash(mine, format),
               both ? fmt::format("{:+.1f} %", 100 * (*mine / *measured - 1)) : "-"});
  };
  const auto mine = [&](Bytes cost::StageMemory::* member) -> std::optional<double> {
    return predicted ? std::optional(to_gib(predicted->memory.stage().*member)) : std::nullopt;
  };
  row("weights", log.weights_gib, mine(&cost::StageMemory::weights), report::gib);
  row("activation peak", log.activation_gib, mine(&cost::StageMemory::activation), report::gib);
  row("non-torch", log.non_torch_gib, mine(&cost::StageMemory::non_torch), report::gib);
  row("CUDA graphs", log.graph_gib, mine(&cost::StageMemory::graph), report::gib);
  row("KV cache", log.kv_gib, mine(&cost::StageMemory::kv), report::gib);
  std::optional<double> tokens, my_tokens;
  if (log.kv_tokens) tokens = static_cast<double>(*log.kv_tokens);
  if (predicted) my_tokens = static_cast<double>(predicted->memory.kv_tokens.value);
  row("KV tokens", tokens, my_tokens, report::count);
  row("KV blocks", static_cast<double>(*log.blocks()), std::nullopt, report::count);
  return table.print(style);
}

std::string override_yaml(const Options& options, const StartupLog& log) {
  std::string yaml = "# Measured by the engine itself; keys of a pool in a fleet file.\n";
  if (!log.model.empty()) yaml += "# model of the log: " + report::printable(log.model) + "\n";
  if (!options.model.empty()) yaml += "model: " + options.model + "\n";
  if (!options.gpu.empty()) yaml += "gpu: " + options.gpu + "\n";
  if (!log.version.empty()) yaml += "engine: vllm@" + report::printable(log.version) + "\n";
  yaml += fmt::format("kv_blocks: {}  # of {} tokens\n", *log.blocks(), log.block_tokens.value_or(16));
  return yaml;
}

Result<int> from_startup_log(const Options& options, const Console& console) {
  MUSTER_TRY(const std::string text, files::read_file(options.startup_log));
  MUSTER_TRY(const StartupLog log, parse_startup_log(text, options.startup_log));
  MUSTER_TRY(const std::optional<Predicted> predicted, predict(options, log));
  console.print(compare(log, predicted, console.style));
  if (!predicted) console.note("name --model and --gpu to see the prediction beside it");
  const std::string yaml = override_yaml(options, log);
  if (options.out.empty()) {
    console.print("\n" + yaml);
  } else {
    MUSTER_TRY_VOID(files::write_file(options.out + "/calibration.yaml", yaml));
    console.note(fmt::format("wrote {}/calibration.yaml", options.out));
  }
  console.note(fmt::format("use it: --kv-blocks {} in plan and predict, kv_blocks: {} in a pool of a fleet file",
                           *log.blocks(), *log.blocks()));
  return kDone;
}

Result<int> from_operators(const Options& options, const Console& console) {
  if (options.out.empty()) return fail("calibrate --operators needs --out DIR for the tables");
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  ProgressLine progress(console.progress);
  MUSTER_TRY(const std::vector<cost::FittedTable> tables,
             cost::fit_operators(options.operators, catalogues.devices.gpus(),
                                 [&](const std::string& file) { progress.show("reading " + file); }));
  progress.clear();
  using report::Align;
  report::Table shown({{"table"},
                       {"operator"},
                       {"key"},
                       {"rows", Align::kRight},
                       {"median error", Align::kRight},
                       {"p90", Align::kRight},
                       {"beats the roofline", Align::kRight, 1}});
  for (const cost::FittedTable& table : tables) {
    MUSTER_TRY_VOID(files::write_file(options.out + "/" + table.file_name, table.content));
    for (const cost::FitReport& grid : table.grids)
      shown.row({table.file_name, grid.op, grid.key, report::count(static_cast<double>(grid.rows)),
                 report::percent(grid.median_error), report::percent(grid.p90_error),
                 report::count(static_cast<double>(grid.faster_than_ideal))});
  }
  console.print(shown.print(console.style));
  console.note(fmt::format("wrote {} tables to {}", tables.size(), options.out));
  return kDone;
}

Result<int> run(const Options& options, const Console& console) {
  if (options.startup_log.empty() == options.operators.empty())
    return fail("calibrate needs one of --startup-log FILE and --operators DIR");
  return options.operators.empty() ? from_startup_log(options, console) : from_operators(options, console);
}

}  // namespace

void add_calibrate(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = root.add_subcommand(
      "calibrate", "Figures of your own machine: from an engine's start-up log, from operator latencies");
  verb->footer(
      "Examples:\n"
      "  vllm serve meta-llama/Llama-3.1-8B 2>&1 | tee start.log\n"
      "  muster calibrate --startup-log start.log --model llama-3.1-8b --gpu h100-sxm --out calibration/\n"
      "  muster calibrate --operators tables/ --out data/operators/\n"
      "The first writes the measured number of KV blocks, which then replaces the computed one (--kv-blocks).");
  verb->add_option("--startup-log", options->startup_log, "What a vLLM server printed until it was ready");
  verb->add_option("--operators", options->operators,
                   "Folder of DEVICE__FRAMEWORK_VERSION__OPERATOR.csv[.gz] (docs/formats/operator-tables.md)");
  verb->add_option("--out", options->out, "Folder for what is written");
  verb->add_option("--model", options->model, "Catalogue key or file, to compare with the prediction");
  verb->add_option("--gpu", options->gpu, "Device key, to compare with the prediction");
  verb->add_option("--precision", options->precision, "Weights (default: what the log says, else the checkpoint's)");
  verb->add_option("--kv-precision", options->kv_precision, "KV cache (default: what the log says, else 16 bits)");
  verb->add_option("--engine", options->engine, "Engine and version (default: the log's)");
  verb->add_option("--tp", options->tp, "Tensor-parallel degree (default: the log's)")->check(CLI::Range(1, 1024));
  verb->add_option("--pp", options->pp, "Pipeline stages (default: the log's)")->check(CLI::Range(1, 1024));
  verb->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
