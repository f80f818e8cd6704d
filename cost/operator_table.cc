#include "operator_table.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "muster/core/check.h"
#include "muster/core/text.h"
#include "muster/files/document.h"

namespace muster::cost {
namespace {

constexpr std::array<const char*, hardware::kFormats> kFormatNames = {"fp32", "tf32", "fp16", "bf16",
                                                                      "fp8",  "int8", "int4", "fp4"};
constexpr std::size_t kAxesMax = 4;

Result<std::vector<double>> parse_numbers(const files::Node& node) {
  MUSTER_TRY(const std::string text, node.text());
  std::vector<double> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == '\n')) ++at;
    if (at == end) break;
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) return node.error("not a list of numbers separated by spaces");
    numbers.push_back(value);
    at = next;
  }
  return numbers;
}

Result<Grid> parse_grid(const files::Node& node) {
  Grid grid;
  files::MapReader read(node);
  read.required("operator", grid.op);
  read.required("key", grid.key);
  double launch_us = 0;
  read.required("launch_us", launch_us);
  grid.launch_s = launch_us * 1e-6;
  read.required("rows", grid.rows);
  read.required("median_error", grid.median_error);
  read.required("p90_error", grid.p90_error);
  read.optional("faster_than_ideal", grid.faster_than_ideal);
  read.required("source", grid.source);
  const auto axes = read.required_child("axes");
  const auto factors = read.required_child("factors");
  MUSTER_TRY_VOID(read.finish());
  std::size_t size = 1;
  for (const auto& [name, knots] : axes->entries()) {
    Axis axis{.name = name, .knots = {}};
    MUSTER_TRY(axis.knots, parse_numbers(knots));
    if (axis.knots.empty() || !std::is_sorted(axis.knots.begin(), axis.knots.end()))
      return knots.error("knots must ascend");
    size *= axis.knots.size();
    grid.axes.push_back(std::move(axis));
  }
  if (grid.axes.empty() || grid.axes.size() > kAxesMax) return axes->error("one to four axes are needed");
  MUSTER_TRY(grid.factors, parse_numbers(*factors));
  if (grid.factors.size() != size)
    return factors->error(fmt::format("{} factors for a grid of {}", grid.factors.size(), size));
  return grid;
}

std::string numbers_text(std::span<const double> numbers, const char* indent) {
  std::string out;
  std::size_t column = 0;
  for (const double x : numbers) {
    std::string number = fmt::format("{:.3g}", x);
    if (column + number.size() > 110) {
      out.push_back('\n');
      out.append(indent);
      column = 0;
    } else if (column > 0) {
      out.push_back(' ');
    }
    column += number.size() + 1;
    out.append(number);
  }
  return out;
}

std::string knots_text(std::span<const double> knots) {
  std::string out;
  for (const double x : knots) out += fmt::format("{}{:g}", out.empty() ? "" : " ", x);
  return out;
}

}  // namespace

Bracket bracket(std::span<const double> knots, double x) {
  if (x <= knots.front() || knots.size() == 1) return {.index = 0, .fraction = 0};
  if (x >= knots.back()) return {.index = knots.size() - 2, .fraction = 1};
  std::size_t high = 1;
  while (knots[high] < x) ++high;
  return {.index = high - 1, .fraction = (x - knots[high - 1]) / (knots[high] - knots[high - 1])};
}

double Grid::factor(std::span<const double> coordinates) const {
  MUSTER_CHECK(coordinates.size() == axes.size(), "{} coordinates for {} axes", coordinates.size(), axes.size());
  std::array<Bracket, kAxesMax> at;
  for (std::size_t a = 0; a < axes.size(); ++a) at[a] = bracket(axes[a].knots, coordinates[a]);
  double sum = 0;
  for (std::size_t corner = 0; corner < (std::size_t{1} << axes.size()); ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const bool high = (corner >> a & 1) != 0;
      weight *= high ? at[a].fraction : 1 - at[a].fraction;
      index = index * axes[a].knots.size() + std::min(at[a].index + (high ? 1 : 0), axes[a].knots.size() - 1);
    }
    if (weight != 0) sum += weight * factors[index];
  }
  return sum;
}

std::vector<double> Grid::first_axis_factors(std::span<const double> others) const {
  MUSTER_CHECK(others.size() + 1 == axes.size(), "{} coordinates for {} further axes", others.size(), axes.size() - 1);
  const std::size_t knots = axes.front().knots.size();
  const std::size_t stride = factors.size() / knots;
  std::array<Bracket, kAxesMax> at;
  for (std::size_t a = 0; a < others.size(); ++a) at[a] = bracket(axes[a + 1].knots, others[a]);
  std::vector<double> out(knots, 0.0);
  for (std::size_t corner = 0; corner < (std::size_t{1} << others.size()); ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t a = 0; a < others.size(); ++a) {
      const bool high = (corner >> a & 1) != 0;
      const std::size_t size = axes[a + 1].knots.size();
      weight *= high ? at[a].fraction : 1 - at[a].fraction;
      index = index * size + std::min(at[a].index + (high ? 1 : 0), size - 1);
    }
    if (weight == 0) continue;
    for (std::size_t i = 0; i < knots; ++i) out[i] += weight * factors[i * stride + index];
  }
  return out;
}

bool Grid::covers(std::span<const double> coordinates) const {
  for (std::size_t a = 0; a < axes.size() && a < coordinates.size(); ++a)
    if (coordinates[a] < axes[a].knots.front() || coordinates[a] > axes[a].knots.back()) return false;
  return true;
}

const Grid* OperatorTable::find(std::string_view op, std::string_view key) const {
  for (const Grid& grid : grids)
    if (grid.op == op && grid.key == key) return &grid;
  return nullptr;
}

Result<OperatorTable> parse_operator_table(std::string_view text, const std::string& name) {
  MUSTER_TRY(const files::Node document, files::parse_document(text, name));
  OperatorTable table;
  files::MapReader read(document);
  read.required("gpu", table.gpu);
  read.required("engine", table.engine);
  read.required("engine_version", table.engine_version);
  read.required("memory_bytes_per_s", table.rates.memory_bytes_per_s);
  read.required("link_bytes_per_s", table.rates.link_bytes_per_s);
  const auto flops = read.required_child("flops");
  const auto grids = read.required_child("grids");
  MUSTER_TRY_VOID(read.finish());
  files::MapReader read_flops(*flops);
  for (std::size_t i = 0; i < hardware::kFormats; ++i) read_flops.optional(kFormatNames[i], table.rates.flops[i]);
  MUSTER_TRY_VOID(read_flops.finish());
  for (const files::Node& node : grids->items()) {
    MUSTER_TRY(Grid grid, parse_grid(node));
    table.grids.push_back(std::move(grid));
  }
  return table;
}

std::string to_text(const OperatorTable& table) {
  std::string out = "# Fitted by `muster calibrate --operators`; format: docs/formats/operator-tables.md.\n";
  out += fmt::format("gpu: {}\nengine: {}\nengine_version: \"{}\"\n", table.gpu, table.engine, table.engine_version);
  out += fmt::format("memory_bytes_per_s: {:.6g}\nlink_bytes_per_s: {:.6g}\nflops:\n", table.rates.memory_bytes_per_s,
                     table.rates.link_bytes_per_s);
  for (std::size_t i = 0; i < hardware::kFormats; ++i)
    if (table.rates.flops[i] > 0) out += fmt::format("  {}: {:.6g}\n", kFormatNames[i], table.rates.flops[i]);
  out += "grids:\n";
  for (const Grid& grid : table.grids) {
    out += fmt::format("  - operator: {}\n    key: \"{}\"\n    launch_us: {:.4g}\n    rows: {}\n", grid.op, grid.key,
                       grid.launch_s * 1e6, grid.rows);
    out += fmt::format("    median_error: {:.4f}\n    p90_error: {:.4f}\n    faster_than_ideal: {}\n", grid.median_error,
                       grid.p90_error, grid.faster_than_ideal);
    out += fmt::format("    source: \"{}\"\n    axes:\n", grid.source);
    for (const Axis& axis : grid.axes) out += fmt::format("      {}: \"{}\"\n", axis.name, knots_text(axis.knots));
    out += fmt::format("    factors: >-\n      {}\n", numbers_text(grid.factors, "      "));
  }
  return out;
}

}  // namespace muster::cost
