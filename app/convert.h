// From the planner's types to what the reports show.
#pragma once

#include "muster/planner/planner.h"
#include "muster/report/results.h"

namespace muster::app {

report::Candidate to_report(const planner::Candidate& candidate);
report::Option to_report(const planner::Option& option);
report::PriceQuote price_of(const hardware::Gpu& gpu);

}  // namespace muster::app
