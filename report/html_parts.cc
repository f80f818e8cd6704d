#include "html_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "json_value.h"
#include "muster/core/check.h"
#include "muster/report/format.h"
#include "muster_report_data.h"

namespace muster::report {
namespace {

std::string_view embedded(std::string_view name) {
  for (const embedded::File& file : embedded_files())
    if (file.name == name) return file.content;
  MUSTER_CHECK(false, "{} is not built in", name);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string_view class_of(HtmlColumn::Kind kind) {
  switch (kind) {
    case HtmlColumn::Kind::kNumber:
      return "num";
    case HtmlColumn::Kind::kText:
      return "text";
    case HtmlColumn::Kind::kName:
      break;
  }
  return "name";
}

std::string class_attribute(std::string_view a, std::string_view b = {}) {
  if (a.empty() && b.empty()) return {};
  return fmt::format(" class=\"{}{}{}\"", a, a.empty() || b.empty() ? "" : " ", b);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::ordered_json& document) {
  // Outside strings JSON has none of these; inside, the escapes mean the same characters. So neither "</script" nor
  // "<!--" can appear, nor the line separators that older script parsers refuse.
  std::string text = dump(document, -1);
  replace_all(text, "<", "\\u003c");
  replace_all(text, ">", "\\u003e");
  replace_all(text, "&", "\\u0026");
  replace_all(text, "\xe2\x80\xa8", "\\u2028");
  replace_all(text, "\xe2\x80\xa9", "\\u2029");
  return text;
}

bool HtmlTable::has_text() const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [](const HtmlColumn& c) { return c.kind == HtmlColumn::Kind::kText; });
}

void HtmlTable::row(const std::vector<HtmlCell>& cells, bool chosen) {
  MUSTER_CHECK(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(), columns_.size());
  body_ += chosen ? "<tr class=\"chosen\">" : "<tr>";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string sort = std::isfinite(cells[c].sort) ? fmt::format(" data-sort=\"{:.9g}\"", cells[c].sort) : "";
    // The phone's layout of tables with texts has no heading row.
    const bool labelled = columns_[c].kind == HtmlColumn::Kind::kNumber && has_text();
    const std::string heading = labelled ? fmt::format(" data-heading=\"{}\"", escape(columns_[c].heading)) : "";
    body_ += fmt::format("<td{}{}{}>{}</td>", class_attribute(class_of(columns_[c].kind), cells[c].verdict), sort,
                         heading, escape(cells[c].text));
  }
  body_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::table(std::string_view attributes, std::string_view css) const {
  const bool dense = columns_.size() > 8;
  const std::string_view shape = dense ? "full dense" : has_text() ? "full texts" : "";
  std::string head;
  for (const HtmlColumn& column : columns_)
    head += fmt::format("<th scope=\"col\"{}>{}</th>", class_attribute(class_of(column.kind)), escape(column.heading));
  constexpr std::size_t kTall = 16;  // rows; a longer table scrolls inside its card, except on paper
  return fmt::format("<div class=\"scroll{}\"><table{}{}><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
                     rows_ > kTall ? " tall" : "", attributes, class_attribute(css, shape), head, body_);
}

std::string HtmlTable::print() const {
  return table("", "");
}
std::string HtmlTable::print_sortable() const {
  return table("", "sortable");
}
std::string HtmlTable::print_filterable(std::string_view id, std::string_view placeholder) const {
  return fmt::format(
      "<div class=\"filter\"><input type=\"search\" data-table=\"{0}\" placeholder=\"{1}\" "
      "aria-label=\"{1}\"><output></output></div>\n{2}",
      id, escape(placeholder), table(fmt::format(" id=\"{}\"", id), "sortable"));
}

void Facts::add(std::string_view label, std::string_view text) {
  if (!text.empty()) body_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape(label), escape(text));
}
std::string Facts::print() const {
  return body_.empty() ? std::string() : fmt::format("<dl class=\"facts\">\n{}</dl>\n", body_);
}

std::string tiles(const std::vector<Tile>& list) {
  std::string out = "<dl class=\"tiles\">\n";
  for (const Tile& t : list)
    out += fmt::format("<div{}><dt>{}</dt><dd>{}{}</dd></div>\n", class_attribute("tile", t.verdict), escape(t.label),
                       escape(t.figure), t.note.empty() ? "" : fmt::format("<small>{}</small>", escape(t.note)));
  return out + "</dl>\n";
}

std::string figure(const Figure& f) {
  return fmt::format(
      "<figure{}><figcaption>{}<span>{}</span></figcaption><div class=\"plot\"><canvas role=\"img\" aria-label=\"{}\" "
      "data-chart=\"{}\"{}></canvas></div></figure>\n",
      class_attribute(f.wide ? "wide" : ""), escape(f.title), escape(f.explanation), escape(f.title), f.chart,
      f.run.empty() ? "" : fmt::format(" data-run=\"{}\"", f.run));
}

std::string replica_figure(std::string_view what, std::string_view run, std::string_view title,
                           std::string_view explanation) {
  return fmt::format(
      "<figure><figcaption>{0}<span>{1}</span></figcaption>"
      "<div class=\"plot low\"><canvas role=\"img\" aria-label=\"{0}, spread over the replicas\" data-chart=\"{2}\" "
      "data-run=\"{3}\"></canvas></div>"
      "<div class=\"plot heat\"><canvas role=\"img\" aria-label=\"{0}, one row per replica\" data-heat=\"{2}\" "
      "data-run=\"{3}\"></canvas></div>"
      "<div class=\"scale\">0 <i></i> <b></b></div></figure>\n",
      escape(title), escape(explanation), what, run);
}

std::string card(const std::string& html) {
  return "<div class=\"card\">" + html + "</div>\n";
}
std::string grid(const std::string& html) {
  return "<div class=\"grid\">\n" + html + "</div>\n";
}
std::string title(std::string_view text) {
  return fmt::format("<h3>{}</h3>\n", escape(text));
}
std::string note(std::string_view text) {
  return fmt::format("<p class=\"note\">{}</p>\n", escape(text));
}
std::string intro(std::string_view text) {
  return fmt::format("<p>{}</p>\n", escape(text));
}
HtmlCell figure_cell(double x, std::string (*format)(double)) {
  return {format(x), x};
}

std::string page(const PageText& text, const nlohmann::ordered_json& data) {
  std::string navigation, body;
  for (const Section& section : text.sections) {
    if (section.html.empty()) continue;
    navigation += fmt::format("<a href=\"#{}\">{}</a>", section.id, section.navigation);
    body += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", section.id, section.heading, section.html);
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<title>{title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
      "<header class=\"top\"><p class=\"kicker\">{kicker}</p><h1>{title}</h1><p "
      "class=\"sub\">{subtitle}</p>\n{lead}{tiles}</header>\n"
      "<nav aria-label=\"Sections\"><div>{navigation}</div></nav>\n<main>\n{body}</main>\n<footer>{footer}</footer>\n"
      "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{library}\n</script>\n"
      "<script>\n{script}</script>\n</body>\n</html>\n",
      fmt::arg("title", escape(text.title)), fmt::arg("css", embedded("report/html/report.css")),
      fmt::arg("kicker", escape(text.kicker)), fmt::arg("subtitle", escape(text.subtitle)),
      fmt::arg("lead", text.lead.empty() ? "" : fmt::format("<p class=\"lead\">{}</p>\n", escape(text.lead))),
      fmt::arg("tiles", text.tiles), fmt::arg("navigation", navigation), fmt::arg("body", body),
      fmt::arg("footer", escape(text.footer)), fmt::arg("data", script_json(data)),
      fmt::arg("library", embedded("chart.min.js")), fmt::arg("script", embedded("report/html/report.js")));
}

}  // namespace muster::report
