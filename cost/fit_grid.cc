#include "fit_grid.h"

#include <algorithm>
#include <cmath>

#include "muster/core/check.h"

namespace muster::cost {
namespace {

constexpr std::size_t kCornersMax = 16;
constexpr int kReweightings = 8;
constexpr int kConjugateSteps = 400;
constexpr double kSmoothness = 0.02;  // weight of one step between knots, relative to one row of average weight
constexpr double kFactorMin = 0.1;    // keeps knots without rows positive
constexpr double kErrorFloor = 0.02;  // relative error below which rows no longer gain weight

// One row of the linear system: sum over corners of weight x factor = 1, scaled by reference / measured.
struct Row {
  std::array<std::uint32_t, kCornersMax> knot{};
  std::array<double, kCornersMax> coefficient{};
  std::size_t corners = 0;
  double weight = 1;
};

Row make_row(const Grid& grid, const Observation& o) {
  Row row;
  const std::size_t dimensions = grid.axes.size();
  std::array<Bracket, 4> at;
  for (std::size_t a = 0; a < dimensions; ++a) at[a] = bracket(grid.axes[a].knots, o.coordinates[a]);
  for (std::size_t corner = 0; corner < (std::size_t{1} << dimensions); ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t a = 0; a < dimensions; ++a) {
      const bool high = (corner >> a & 1) != 0;
      weight *= high ? at[a].fraction : 1 - at[a].fraction;
      index = index * grid.axes[a].knots.size() + std::min(at[a].index + (high ? 1 : 0), grid.axes[a].knots.size() - 1);
    }
    if (weight == 0) continue;
    row.knot[row.corners] = static_cast<std::uint32_t>(index);
    row.coefficient[row.corners] = weight * o.reference_s / o.measured_s;
    ++row.corners;
  }
  return row;
}

double predicted(const Row& row, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t c = 0; c < row.corners; ++c) sum += row.coefficient[c] * x[row.knot[c]];
  return sum;
}

// Mean factor of the rows around each knot: where the fit starts, and the scale on which a step between knots counts.
std::vector<double> typical_factors(const std::vector<Row>& rows, std::size_t size) {
  std::vector<double> sum(size, 0.0);
  std::vector<double> weight(size, 0.0);
  double all = 0;
  for (const Row& row : rows) {
    double scale = 0;  // reference / measured: the coefficients of a row add up to it
    for (std::size_t c = 0; c < row.corners; ++c) scale += row.coefficient[c];
    for (std::size_t c = 0; c < row.corners; ++c) {
      const double share = row.coefficient[c] / scale;
      sum[row.knot[c]] += share / scale;
      weight[row.knot[c]] += share;
    }
    all += 1 / scale;
  }
  for (std::size_t i = 0; i < size; ++i)
    sum[i] = weight[i] > 0 ? sum[i] / weight[i] : all / static_cast<double>(rows.size());
  return sum;
}

struct Neighbours {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  double weight = 1;  // 1 / (factor of a x factor of b): steps count relatively
};

// Neighbouring knots along every axis.
std::vector<Neighbours> neighbours(const Grid& grid, const std::vector<double>& scale) {
  std::vector<Neighbours> pairs;
  std::size_t stride = 1;
  for (std::size_t a = grid.axes.size(); a-- > 0;) {
    const std::size_t n = grid.axes[a].knots.size();
    for (std::size_t i = 0; i + stride < grid.factors.size(); ++i)
      if (i / stride % n + 1 < n)
        pairs.push_back({.a = static_cast<std::uint32_t>(i),
                         .b = static_cast<std::uint32_t>(i + stride),
                         .weight = 1 / (scale[i] * scale[i + stride])});
    stride *= n;
  }
  return pairs;
}

struct System {
  const std::vector<Row>& rows;
  const std::vector<Neighbours>& pairs;
  double smoothness;

  // (A^T W A + smoothness) x
  std::vector<double> apply(const std::vector<double>& x) const {
    std::vector<double> out(x.size(), 0.0);
    for (const Row& row : rows) {
      const double scaled = row.weight * predicted(row, x);
      for (std::size_t c = 0; c < row.corners; ++c) out[row.knot[c]] += row.coefficient[c] * scaled;
    }
    for (const auto& [a, b, weight] : pairs) {
      const double step = smoothness * weight * (x[a] - x[b]);
      out[a] += step;
      out[b] -= step;
    }
    return out;
  }
  std::vector<double> right_side(std::size_t size) const {
    std::vector<double> out(size, 0.0);
    for (const Row& row : rows)
      for (std::size_t c = 0; c < row.corners; ++c) out[row.knot[c]] += row.weight * row.coefficient[c];
    return out;
  }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void conjugate_gradient(const System& system, std::vector<double>& x) {
  std::vector<double> residual = system.right_side(x.size());
  const double scale = dot(residual, residual);
  const std::vector<double> start = system.apply(x);
  for (std::size_t i = 0; i < x.size(); ++i) residual[i] -= start[i];
  std::vector<double> direction = residual;
  double norm = dot(residual, residual);
  for (int step = 0; step < kConjugateSteps && norm > 1e-14 * scale; ++step) {
    const std::vector<double> image = system.apply(direction);
    const double length = norm / dot(direction, image);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += length * direction[i];
      residual[i] -= length * image[i];
    }
    const double next = dot(residual, residual);
    for (std::size_t i = 0; i < x.size(); ++i) direction[i] = residual[i] + next / norm * direction[i];
    norm = next;
  }
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace

void fit_grid(Grid& grid, const std::vector<Observation>& observations) {
  MUSTER_CHECK(!observations.empty(), "{} {}: nothing to fit", grid.op, grid.key);
  std::size_t size = 1;
  for (const Axis& axis : grid.axes) size *= axis.knots.size();
  grid.factors.assign(size, 0.0);
  std::vector<Row> rows;
  rows.reserve(observations.size());
  for (Observation o : observations) {
    // Faster than the device can be: a slip of the measurement, or data that stayed in the cache. Not to be learned.
    if (o.measured_s < o.ideal_s) ++grid.faster_than_ideal;
    o.measured_s = std::max(o.measured_s, o.ideal_s);
    rows.push_back(make_row(grid, o));
  }
  std::vector<double> x = typical_factors(rows, size);
  const std::vector<Neighbours> pairs = neighbours(grid, x);
  const double average = static_cast<double>(rows.size()) / static_cast<double>(size);
  for (int iteration = 0; iteration < kReweightings; ++iteration) {
    double mean_weight = 0;
    for (const Row& row : rows) mean_weight += row.weight;
    mean_weight /= static_cast<double>(rows.size());
    conjugate_gradient({.rows = rows, .pairs = pairs, .smoothness = kSmoothness * mean_weight * std::min(1.0, average)},
                       x);
    for (Row& row : rows) row.weight = 1 / std::max(std::abs(predicted(row, x) - 1), kErrorFloor);
  }
  for (double& factor : x) factor = std::max(factor, kFactorMin);
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const Row& row : rows) errors.push_back(std::abs(predicted(row, x) - 1));
  grid.factors = x;
  grid.rows = static_cast<std::int64_t>(observations.size());
  grid.median_error = quantile(errors, 0.5);
  grid.p90_error = quantile(errors, 0.9);
}

}  // namespace muster::cost
