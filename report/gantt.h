// A pipeline's stages over a short time, as an inline SVG: what the bubbles look like.
#pragma once

#include <string>

#include "muster/report/results.h"

namespace muster::report {

// A figure with a legend; "" without spans. Colours are the page's (report.css), so it follows light and dark.
std::string pipeline_figure(const PipelineWindow& window);

}  // namespace muster::report
