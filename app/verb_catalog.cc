// muster catalog: models, GPUs, nodes, MIG profiles, prices, engines: list, show, add.
#include <filesystem>

#include "deployment_options.h"
#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster/model/tensors.h"
#include "muster/report/table.h"
#include "user_catalogue.h"
#include "verbs.h"

namespace muster::app {
namespace {

using report::Align;
using report::Table;

struct Options {
  std::string what = "models", key, file;
  std::vector<std::string> catalog_files;
};

std::string billions(std::int64_t parameters) {
  return fmt::format("{:.2f} B", static_cast<double>(parameters) / 1e9);
}

std::string price_text(const std::optional<hardware::Price>& price) {
  return price ? fmt::format("{:.2f}", price->usd_per_gpu_hour) : std::string("no price known");
}

std::string flops_text(const hardware::Gpu& gpu, hardware::Format format) {
  const std::optional<double> flops = gpu.flops(format);
  return flops ? fmt::format("{:.0f}", *flops / 1e12) : std::string("-");
}

Result<std::string> list_models(const Catalogues& catalogues, const report::TerminalStyle& style) {
  Table table({{"key"},
               {"name", Align::kLeft, 2},
               {"parameters", Align::kRight},
               {"active", Align::kRight},
               {"layers", Align::kRight, 1},
               {"KV B/token", Align::kRight},
               {"context", Align::kRight}});
  for (const std::string& key : catalogues.models.keys()) {
    MUSTER_TRY(const model::ModelSpec spec, catalogues.models.find(key));
    table.row({key, spec.name, billions(model::parameter_count(spec)), billions(model::active_parameter_count(spec)),
               std::to_string(spec.layers), std::to_string(model::kv_bytes_per_token(spec, model::Dtype::kBf16).value),
               std::to_string(spec.max_position_embeddings)});
  }
  return table.print(style);
}

std::string list_gpus(const Catalogues& catalogues, const report::TerminalStyle& style) {
  Table table({{"key"},
               {"architecture", Align::kLeft, 2},
               {"GiB", Align::kRight},
               {"TB/s", Align::kRight},
               {"bf16 TFLOP/s", Align::kRight},
               {"fp8 TFLOP/s", Align::kRight, 1},
               {"link GB/s", Align::kRight},
               {"$/GPU-h", Align::kRight}});
  for (const hardware::Gpu& gpu : catalogues.devices.gpus())
    table.row({gpu.key, gpu.architecture, fmt::format("{:.1f}", to_gib(gpu.memory)),
               fmt::format("{:.2f}", gpu.memory_bytes_per_s / 1e12), flops_text(gpu, hardware::Format::kBf16),
               flops_text(gpu, hardware::Format::kFp8), fmt::format("{:.0f}", gpu.scale_up.bytes_per_s / 1e9),
               price_text(gpu.price)});
  return table.print(style);
}

std::string list_nodes(const Catalogues& catalogues, const report::TerminalStyle& style) {
  Table table({{"key"},
               {"name", Align::kLeft, 1},
               {"gpu"},
               {"GPUs", Align::kRight},
               {"fabric GB/s", Align::kRight},
               {"RAM GiB", Align::kRight}});
  for (const hardware::Node& node : catalogues.devices.nodes())
    table.row({node.key, node.name, node.gpu, std::to_string(node.gpus),
               node.fabric_bytes_per_s > 0 ? fmt::format("{:.0f}", node.fabric_bytes_per_s / 1e9) : "-",
               node.host_ram_gib > 0 ? fmt::format("{:.0f}", node.host_ram_gib) : "-"});
  return table.print(style);
}

std::string list_mig(const Catalogues& catalogues, const report::TerminalStyle& style) {
  Table table({{"slice (--gpu)"},
               {"compute", Align::kRight},
               {"memory", Align::kRight},
               {"GiB", Align::kRight},
               {"at most", Align::kRight},
               {"placements", Align::kLeft, 1}});
  for (const hardware::MigConfig& config : catalogues.devices.mig())
    for (const std::string& gpu : config.gpus)
      for (const hardware::MigProfile& profile : config.profiles)
        table.row({gpu + "/" + profile.name, fmt::format("{}/{}", profile.compute_slices, config.compute_slices_total),
                   fmt::format("{}/{}", profile.memory_slices, config.memory_slices_total),
                   fmt::format("{:.1f}", to_gib(profile.memory)), std::to_string(profile.max_instances),
                   fmt::format("{}", fmt::join(profile.placement_starts, " "))});
  return table.print(style);
}

std::string list_prices(const Catalogues& catalogues, const report::TerminalStyle& style) {
  Table table({{"gpu"},
               {"$/GPU-h", Align::kRight},
               {"provider"},
               {"instance", Align::kLeft, 1},
               {"date"},
               {"source", Align::kLeft, 2}});
  for (const hardware::Gpu& gpu : catalogues.devices.gpus())
    for (const hardware::Price& price : gpu.prices)
      table.row({gpu.key, fmt::format("{:.2f}", price.usd_per_gpu_hour), price.provider, price.instance, price.date,
                 price.source});
  return table.print(style);
}

Result<std::string> list_engines(const report::TerminalStyle& style) {
  Table table({{"engine"},
               {"newest figures"},
               {"fraction", Align::kRight},
               {"batched tokens", Align::kRight},
               {"max seqs", Align::kRight},
               {"host us/step", Align::kRight},
               {"us/sequence", Align::kRight}});
  for (const std::string& name : cost::engine_names()) {
    MUSTER_TRY(const cost::EngineProfile engine, cost::engine_profile({.engine = name, .version = ""}));
    table.row({name, engine.matched_version, fmt::format("{:.2f}", engine.memory_fraction),
               std::to_string(engine.max_num_batched_tokens), std::to_string(engine.max_num_seqs),
               fmt::format("{:.0f}", to_seconds(engine.host_fixed) * 1e6),
               fmt::format("{:.0f}", to_seconds(engine.host_per_sequence) * 1e6)});
  }
  return table.print(style);
}

Result<int> list(const Options& options, const Console& console) {
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  const std::vector<std::string> known = {"models", "gpus", "nodes", "mig", "prices", "engines"};
  Result<std::string> text = fail("catalog list {}: unknown{}; known are {}", options.what,
                                  did_you_mean(options.what, known), join(known, ", "));
  if (options.what == "models") text = list_models(catalogues, console.style);
  if (options.what == "gpus") text = list_gpus(catalogues, console.style);
  if (options.what == "nodes") text = list_nodes(catalogues, console.style);
  if (options.what == "mig") text = list_mig(catalogues, console.style);
  if (options.what == "prices") text = list_prices(catalogues, console.style);
  if (options.what == "engines") text = list_engines(console.style);
  if (!text) return std::unexpected(text.error());
  console.print(*text);
  return kDone;
}

std::string show_model(const model::ModelSpec& spec, const report::TerminalStyle& style) {
  Table table({{"field"}, {"value"}});
  const std::int64_t counted = model::parameter_count(spec);
  table.row({"name", spec.name});
  table.row({"parameters", std::to_string(counted)});
  if (spec.published_parameters)
    table.row({"published", fmt::format("{} ({:+.4f} %): {}", *spec.published_parameters,
                                        100.0 * static_cast<double>(counted - *spec.published_parameters) /
                                            static_cast<double>(*spec.published_parameters),
                                        spec.published_source)});
  table.row({"active per token", std::to_string(model::active_parameter_count(spec))});
  table.row({"layers x hidden", fmt::format("{} x {}", spec.layers, spec.hidden_size)});
  table.row({"heads", spec.mla
                          ? fmt::format("{} (latent, rank {})", spec.attention_heads, spec.mla->kv_lora_rank)
                          : fmt::format("{} query, {} KV, of {}", spec.attention_heads, spec.kv_heads, spec.head_dim)});
  if (spec.moe)
    table.row({"experts", fmt::format("{} of {}, {} shared", spec.moe->experts_per_token, spec.moe->experts,
                                      spec.moe->shared_experts)});
  if (spec.sliding_window)
    table.row({"sliding window", fmt::format("{} tokens on {} of {} layers", spec.sliding_window->window,
                                             std::ranges::count(spec.sliding_window->local, true), spec.layers)});
  table.row({"vocabulary", fmt::format("{}{}", spec.vocab_size, spec.tied_embeddings ? " (tied)" : "")});
  table.row({"context", fmt::format("{} tokens", spec.max_position_embeddings)});
  table.row(
      {"KV per token", fmt::format("{} bytes in 16 bits", model::kv_bytes_per_token(spec, model::Dtype::kBf16).value)});
  table.row({"checkpoint", std::string(model::name(spec.default_dtype))});
  for (const std::string& source : spec.sources) table.row({"source", source});
  if (!spec.note.empty()) table.row({"note", spec.note});
  return table.print(style);
}

std::string show_gpu(const hardware::Gpu& gpu, const report::TerminalStyle& style) {
  Table table({{"field"}, {"value"}});
  table.row({"name", gpu.name});
  table.row({"memory", fmt::format("{:.2f} GiB at {:.2f} TB/s ({})", to_gib(gpu.memory), gpu.memory_bytes_per_s / 1e12,
                                   gpu.memory_basis)});
  for (const auto& [label, format] :
       {std::pair{"fp32", hardware::Format::kFp32}, std::pair{"tf32", hardware::Format::kTf32},
        std::pair{"fp16", hardware::Format::kFp16}, std::pair{"bf16", hardware::Format::kBf16},
        std::pair{"fp8", hardware::Format::kFp8}, std::pair{"int8", hardware::Format::kInt8},
        std::pair{"fp4", hardware::Format::kFp4}})
    table.row({label,
               gpu.flops(format) ? flops_text(gpu, format) + " T/s dense" : std::string("not supported or not known")});
  table.row({"link", fmt::format("{}, {:.0f} GB/s each way, {} GPUs", gpu.scale_up.technology,
                                 gpu.scale_up.bytes_per_s / 1e9, gpu.scale_up.domain_gpus)});
  if (gpu.is_slice)
    table.row({"share", fmt::format("{:.3f} of compute, {:.3f} of memory", gpu.compute_share, gpu.memory_share)});
  if (gpu.price)
    table.row(
        {"quoted price", fmt::format("${:.2f}/GPU-h, {} {}, {} ({})", gpu.price->usd_per_gpu_hour, gpu.price->provider,
                                     gpu.price->instance, gpu.price->date, gpu.price->source)});
  else
    table.row({"quoted price", "no price known"});
  for (const std::string& source : gpu.sources) table.row({"source", source});
  return table.print(style);
}

Result<int> show(const Options& options, const Console& console) {
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  const Result<hardware::Gpu> gpu = catalogues.devices.find(options.key);
  if (gpu) {
    console.print(show_gpu(*gpu, console.style));
    return kDone;
  }
  const Result<model::ModelSpec> spec = catalogues.models.find(options.key);
  if (spec) {
    console.print(show_model(*spec, console.style));
    return kDone;
  }
  std::vector<std::string> keys = catalogues.models.keys();
  for (const hardware::Gpu& g : catalogues.devices.gpus()) keys.push_back(g.key);
  if (options.key.find('/') != std::string::npos) return std::unexpected(gpu.error());
  return fail("{} is neither a model nor a GPU{}", options.key, did_you_mean(options.key, keys));
}

Result<int> add(const Options& options, const Console& console) {
  MUSTER_TRY(const Catalogues checked, load_catalogues({options.file}));  // refuses what cannot be read
  MUSTER_TRY(const std::string text, files::read_file(options.file));
  MUSTER_TRY(const std::string folder, user_catalogue_folder());
  const std::filesystem::path file(options.file);
  // A bare config.json is kept under the name of its folder, which is the key it gets.
  const std::string name = file.filename() == "config.json"
                               ? std::filesystem::absolute(file).parent_path().filename().string() + ".json"
                               : file.filename().string();
  const std::string target = (std::filesystem::path(folder) / name).string();
  MUSTER_TRY_VOID(files::write_file(target, text));
  console.print(fmt::format("Added {}; every verb knows it from now on", target));
  return kDone;
}

}  // namespace

void add_catalog(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      root.add_subcommand("catalog", "Models, GPUs, nodes, MIG profiles, prices, engines: list, show, add");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  muster catalog list gpus\n"
      "  muster catalog show llama-3.1-70b\n"
      "  muster catalog show h100-sxm/1g.10gb\n"
      "  muster catalog add my-gpu.yaml        (docs/formats/catalogue.md)");
  CLI::App* sub = verb->add_subcommand("list", "List models, gpus, nodes, mig, prices or engines");
  sub->add_option("WHAT", options->what, "models, gpus, nodes, mig, prices, engines")->capture_default_str();
  sub->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  sub->callback([options, &selected] { selected.run = [options](const Console& c) { return list(*options, c); }; });
  sub = verb->add_subcommand("show", "Everything known about a model or a GPU, with sources");
  sub->add_option("KEY", options->key, "Key, config.json or slice")->required();
  sub->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  sub->callback([options, &selected] { selected.run = [options](const Console& c) { return show(*options, c); }; });
  sub = verb->add_subcommand("add", "Check a model, GPU or node file and keep it for every later call");
  sub->add_option("FILE", options->file, "YAML of docs/formats/catalogue.md, or a config.json")->required();
  sub->callback([options, &selected] { selected.run = [options](const Console& c) { return add(*options, c); }; });
}

}  // namespace muster::app
