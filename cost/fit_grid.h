// Fits the factors of a grid to measured rows.
#pragma once

#include <array>
#include <vector>

#include "operator_table.h"

namespace muster::cost {

struct Observation {
  std::array<double, 4> coordinates{};  // one per axis
  double reference_s = 0;               // launch + roofline
  double measured_s = 0;
  double ideal_s = 0;  // roofline alone: no row may be faster; 0: no such bound
};

// Minimises the sum of |relative error| (by iteratively reweighted least squares, with a small penalty on steps between
// neighbouring knots so that knots without rows follow their neighbours). Fills factors, rows and errors.
void fit_grid(Grid& grid, const std::vector<Observation>& observations);

}  // namespace muster::cost
