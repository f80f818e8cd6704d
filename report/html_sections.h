// Sections and parts that several pages are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/report/results.h"

namespace muster::report {

std::string traffic_section(const Traffic& traffic);
std::string layout_section(const Size& size);

std::string latency_table(const RunMetrics& run);
std::string events_table(const std::vector<Event>& events);
std::string uncertainty_section(const Uncertainty& uncertainty);  // uncertainty.cc
// `run` is the key of the run in the page's data.
std::string run_plots(const RunPlots& plots, std::string_view run, bool with_ready);
std::string cdf_figure(const RunPlots& plots, std::string_view run);

inline constexpr std::string_view kFooter =
    "Made by muster. Figures are predictions of a simulation of the fleet; this page is self-contained and loads "
    "nothing. Plots: "
    "Chart.js 3 (MIT licence), built in.";

}  // namespace muster::report
