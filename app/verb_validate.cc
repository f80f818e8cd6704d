// muster validate: every row of a CSV of measurements predicted and compared.
#include <memory>

#include "muster/files/lines.h"
#include "parallel.h"
#include "progress.h"
#include "validate_summary.h"
#include "verbs.h"

namespace muster::app {
namespace {

struct Options {
  std::string measured, out;
  int threads = default_threads();
  int waves = 4;
  bool json = false;
  std::vector<std::string> catalog_files;
};

// One line a row, for a spreadsheet.
std::string rows_csv(const std::vector<Compared>& rows) {
  std::string out =
      "row_id,answered,measured_tpot_ms,predicted_tpot_ms,measured_ttft_ms,predicted_ttft_ms,ttft_scored,"
      "measured_output_tok_s,predicted_output_tok_s,error_band,remarks\n";
  const auto number = [](const std::optional<double>& x) { return x ? fmt::format("{:.6g}", *x) : std::string(); };
  for (const Compared& c : rows) {
    std::string remarks = c.why_not;
    for (const std::string& mark : c.prediction.marks) remarks += (remarks.empty() ? "" : "; ") + mark;
    for (char& letter : remarks)
      if (letter == '"' || letter == '\n') letter = '\'';
    out += fmt::format("{},{},{},{},{},{},{},{},{},{:.3g},\"{}\"\n", c.row.row_id, c.answered() ? 1 : 0,
                       number(c.row.tpot_ms), number(c.prediction.tpot_ms), number(c.row.ttft_ms),
                       number(c.prediction.ttft_ms), c.expressed && c.expressed->ttft_scored ? 1 : 0,
                       number(c.row.output_tok_s), number(c.prediction.output_tok_s), c.prediction.error_band, remarks);
  }
  return out;
}

Result<int> run(const Options& options, const Console& console) {
  MUSTER_TRY(const std::vector<MeasuredRow> rows, read_measured_rows(options.measured));
  MUSTER_TRY(const Catalogues catalogues, load_catalogues(options.catalog_files));
  ProgressLine progress(console.progress && !options.json);
  progress.show(fmt::format("predicting {} rows", rows.size()));
  const double started = wall_seconds();
  const std::vector<Compared> compared = compare_all(rows, catalogues, options.waves, options.threads);
  progress.clear();
  report::Validation validation = summarise(options.measured, compared);
  validation.wall_s = wall_seconds() - started;
  if (!options.out.empty()) {
    MUSTER_TRY_VOID(files::write_file(options.out + "/validate.json", report::to_json(validation)));
    MUSTER_TRY_VOID(files::write_file(options.out + "/validate.html", report::html(validation)));
    MUSTER_TRY_VOID(files::write_file(options.out + "/rows.csv", rows_csv(compared)));
    console.note(fmt::format("wrote {0}/validate.html, {0}/validate.json and {0}/rows.csv", options.out));
  }
  console.print(options.json ? report::to_json(validation) : report::terminal(validation, console.style));
  return kDone;
}

}  // namespace

void add_validate(CLI::App& root, Selected& selected) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      root.add_subcommand("validate", "Predictions against a CSV of measured rows: error per metric and group");
  verb->footer(
      "Example:\n"
      "  muster validate --measured my_runs.csv --out report/\n"
      "The columns are those of docs/formats/measured-rows.md; model_key and gpu_key are needed, a row uses what it "
      "has.\n"
      "TTFT is scored only where the load generator of the source is known. Rows that cannot be expressed are counted "
      "by "
      "reason.");
  verb->add_option("--measured", options->measured, "The CSV file (may be gzip)")->required();
  verb->add_option("--out", options->out, "Folder for validate.html (scatter), validate.json and rows.csv");
  verb->add_option("--threads", options->threads, "Rows predicted at the same time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb->add_option("--waves", options->waves,
                   "Requests per user that a closed loop simulates at most (4: fast; 10: as long as usual benchmarks)")
      ->check(CLI::Range(3, 100))
      ->capture_default_str();
  verb->add_option("--catalog", options->catalog_files, "Your own model, GPU or node file; may be repeated");
  verb->add_flag("--json", options->json, "Print one JSON document on stdout and nothing else");
  verb->callback([options, &selected] { selected.run = [options](const Console& c) { return run(*options, c); }; });
}

}  // namespace muster::app
