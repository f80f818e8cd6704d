#include "gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "html_parts.h"
#include "muster/report/format.h"

namespace muster::report {
namespace {

constexpr int kColours = 5;  // --c1 to --c5 of report.css
constexpr double kLeft = 70, kRight = 96, kWidth = 1110, kRow = 34,
                 kGap = 8;  // px; the page is 1110 wide inside a card
constexpr double kPlot = kWidth - kLeft - kRight;

int colour(int micro_batch) {
  return micro_batch % kColours + 1;
}

// 1, 2 or 5 times a power of ten, so that there are 5 to 10 marks.
double tick_ms(double span_ms) {
  const double rough = std::max(span_ms, 1e-6) / 8, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

struct Drawing {
  const PipelineWindow& window;
  double span_ms;
  std::string svg = {};

  double x(double ms) const { return kLeft + kPlot * ms / span_ms; }
  static double y(int stage) { return stage * (kRow + kGap); }

  void rectangle(const PipelineSpan& s) {
    const bool run = s.steps > 1;  // several steps, one after the other through all stages
    const double height = run ? y(window.stages - 1) + kRow - y(s.stage) : kRow;
    const double width = std::max(0.5, x(s.end_ms) - x(s.begin_ms));
    const std::string what =
        run ? fmt::format("{} decode steps of {} sequences, alone in the pipeline", s.steps, count(s.decode_sequences))
            : fmt::format("stage {}: {} prompt tokens, {} decodes", s.stage, count(s.prefill_tokens),
                          count(s.decode_sequences));
    const std::string style =
        run ? std::string("fill:var(--muted);fill-opacity:.25")
            : fmt::format("fill:var(--c{});fill-opacity:{}", colour(s.micro_batch), s.prefill_tokens > 0 ? 1 : 0.45);
    fmt::format_to(std::back_inserter(svg),
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" style=\"{};stroke:var(--card);"
                   "stroke-width:.6\"><title>{}, {:.1f} to {:.1f} ms</title></rect>",
                   x(s.begin_ms), y(s.stage), width, height, style, escape(what), s.begin_ms, s.end_ms);
    label(s, width);
  }

  void label(const PipelineSpan& s, double width) {
    const std::string text = s.steps > 1            ? fmt::format("{} steps", s.steps)
                             : s.prefill_tokens > 0 ? count(s.prefill_tokens)
                                                    : count(s.decode_sequences);
    if (width < 7.0 * static_cast<double>(text.size()) + 4) return;
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" style=\"font-size:11px;fill:var(--{})\">{}"
                   "</text>",
                   x(s.begin_ms) + width / 2, y(s.stage) + kRow / 2 + 4, s.prefill_tokens > 0 ? "card" : "ink", text);
  }

  void rows() {
    for (int stage = 0; stage < window.stages; ++stage) {
      double busy_ms = 0;
      for (const PipelineSpan& s : window.spans)
        if (s.stage == stage && s.steps == 1) busy_ms += std::min(s.end_ms, span_ms) - std::max(s.begin_ms, 0.0);
      fmt::format_to(std::back_inserter(svg),
                     "<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" style=\"fill:var(--free)\"/>"
                     "<text x=\"0\" y=\"{:.1f}\" style=\"font-size:13px;fill:var(--ink)\">stage {}</text>"
                     "<text x=\"{}\" y=\"{:.1f}\" style=\"font-size:13px;fill:var(--muted)\">{} busy</text>",
                     kLeft, y(stage), kPlot, kRow, y(stage) + kRow / 2 + 4, stage, kLeft + kPlot + 8,
                     y(stage) + kRow / 2 + 4, percent(busy_ms / span_ms));
    }
  }

  void axis() {
    const double top = y(window.stages) - kGap, step = tick_ms(span_ms);
    for (double at = 0; at <= span_ms; at += step)
      fmt::format_to(std::back_inserter(svg),
                     "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" style=\"stroke:var(--muted)\"/>"
                     "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" style=\"font-size:12px;"
                     "fill:var(--muted)\">{4:g} ms</text>",
                     x(at), top, top + 5, top + 19, at);
  }
};

}  // namespace

std::string pipeline_figure(const PipelineWindow& window) {
  double span_ms = 0;
  for (const PipelineSpan& s : window.spans) span_ms = std::max(span_ms, s.end_ms);
  if (window.spans.empty() || window.stages < 2 || span_ms <= 0) return {};
  Drawing d{.window = window, .span_ms = span_ms};
  d.rows();
  for (const PipelineSpan& s : window.spans) d.rectangle(s);
  d.axis();
  std::string legend;
  for (int i = 0; i < std::min(window.stages, kColours); ++i)
    legend += fmt::format("<li><i style=\"background:var(--c{})\"></i>micro-batch {}</li>", colour(i), i + 1);
  return fmt::format(
      "<figure class=\"wide\"><figcaption>Pipeline of replica {}, {} stages<span>from {} on: each column of one colour "
      "is "
      "a micro-batch on its way through the stages; strong: it computes prompts (number: their tokens), pale: it only "
      "decodes (number: sequences); grey: the stage waits, a bubble</span></figcaption>"
      "<div class=\"scroll\"><svg viewBox=\"0 0 {} {:.0f}\" style=\"display:block;width:100%;min-width:640px;"
      "margin-top:12px\" role=\"img\">{}</svg></div><ul class=\"legend\">{}<li><i class=\"m-free\"></i>bubble</li></ul>"
      "</figure>",
      escape(window.replica), window.stages, clock(window.begin_s), kWidth, Drawing::y(window.stages) + 16, d.svg,
      legend);
}

}  // namespace muster::report
