// The bricks of the page. Every text given here is untrusted and is escaped here, so that callers cannot forget.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::report {

std::string escape(std::string_view text);                        // for element content and quoted attributes
std::string script_json(const nlohmann::ordered_json& document);  // for <script type="application/json">

struct HtmlColumn {
  enum class Kind { kName, kNumber, kText };  // kText: long, may wrap
  std::string heading;
  Kind kind = Kind::kName;
};
struct HtmlCell {
  HtmlCell(std::string t) : text(std::move(t)) {}                     // NOLINT: a text is a cell
  HtmlCell(const char* t) : text(t) {}                                // NOLINT
  HtmlCell(std::string t, double s) : text(std::move(t)), sort(s) {}  // a figure with the value to sort by
  HtmlCell judged(bool good) && {
    verdict = good ? "good" : "bad";
    return std::move(*this);
  }
  std::string text;
  double sort = std::numeric_limits<double>::quiet_NaN();
  std::string_view verdict;  // "good", "bad" or empty
};

class HtmlTable {
 public:
  explicit HtmlTable(std::vector<HtmlColumn> columns) : columns_(std::move(columns)) {}
  void row(const std::vector<HtmlCell>& cells, bool chosen = false);
  std::size_t rows() const { return rows_; }
  std::string print() const;
  std::string print_sortable() const;
  // With a text field that hides the rows without its words. `id` is ours, not untrusted.
  std::string print_filterable(std::string_view id, std::string_view placeholder) const;

 private:
  bool has_text() const;
  std::string table(std::string_view attributes, std::string_view css) const;

  std::vector<HtmlColumn> columns_;
  std::string body_;
  std::size_t rows_ = 0;
};

HtmlCell figure_cell(double x, std::string (*format)(double));  // sorts by `x`

class Facts {  // labelled texts
 public:
  void add(std::string_view label, std::string_view text);  // nothing when `text` is empty
  std::string print() const;

 private:
  std::string body_;
};

struct Tile {
  std::string label = {}, figure = {}, note = {};
  std::string_view verdict = {};  // "good", "bad" or empty
};
std::string tiles(const std::vector<Tile>& tiles);

// A plot of report.js: `chart` names the drawing and `run` the key in data.runs; both are ours.
struct Figure {
  std::string_view chart = {}, run = {};
  std::string title = {}, explanation = {};
  bool wide = false;
};
std::string figure(const Figure& f);
// The spread over the replicas and, below, one row per replica. `what`: "batch" or "kv".
std::string replica_figure(std::string_view what, std::string_view run, std::string_view title,
                           std::string_view explanation);

// `html` is markup, `text` is not.
std::string card(const std::string& html);
std::string grid(const std::string& html);
std::string title(std::string_view text);
std::string note(std::string_view text);
std::string intro(std::string_view text);

struct Section {
  std::string_view id, navigation, heading;  // ours
  std::string html;
};
struct PageText {
  std::string kicker = {}, title = {}, subtitle = {}, lead = {}, footer = {};
  std::string tiles = {};  // HTML
  std::vector<Section> sections = {};
};
std::string page(const PageText& text, const nlohmann::ordered_json& data);

}  // namespace muster::report
