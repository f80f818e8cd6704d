// What is publicly known of the harnesses and recipes behind measured rows that the rows themselves do not state.
#pragma once

#include "validate_case.h"

namespace muster::app {

// The engine's version in a form that the engine tables understand; by the date where the row has none.
void version_of_row(const MeasuredRow& row, ValidationCase& c);
// Mean lengths of the data sets of MLPerf Inference.
void lengths_of_data_set(const MeasuredRow& row, ValidationCase& c);
// Flags, KV format, spread of lengths and number of requests by source; whether TTFT may be scored.
void harness_of_source(const MeasuredRow& row, const model::ModelSpec& model, const hardware::Gpu& gpu,
                       ValidationCase& c);

}  // namespace muster::app
