// Builds a text page for a terminal: title, headings, labelled facts, paragraphs and tables, all within the width.
#pragma once

#include <string>
#include <string_view>

#include "muster/report/results.h"
#include "muster/report/table.h"

namespace muster::report {

class Page {
 public:
  explicit Page(const TerminalStyle& style) : style_(style) {}

  void title(std::string_view text);
  void heading(std::string_view text);                                                 // after an empty line
  void fact(std::string_view label, std::string_view text, Tone tone = Tone::kPlain);  // nothing when `text` is empty
  void paragraph(std::string_view text, Tone tone = Tone::kPlain);
  void table(const Table& table);
  void space();  // an empty line; never two in a row

  const TerminalStyle& style() const { return style_; }
  std::size_t fact_width() const;  // columns that a fact's text has
  const char* plus_minus() const { return style_.unicode ? "\xc2\xb1" : "+-"; }
  const char* at_most() const { return style_.unicode ? "\xe2\x89\xa4" : "<="; }
  std::string take() { return std::move(out_); }

 private:
  TerminalStyle style_;
  std::string out_;
};

// Parts that several pages share.
void add_traffic(const Traffic& traffic, Page& page);
void add_latencies(const RunMetrics& run, Page& page);
void add_stages(const Candidate& candidate, Page& page);
void add_uncertainty(const Uncertainty& uncertainty, Page& page);  // uncertainty.cc
// Layouts that fit, at most `limit`, the chosen one (may be null) marked.
void add_fitting(const std::vector<Candidate>& candidates, const Candidate* chosen, std::size_t limit, Page& page);

}  // namespace muster::report
