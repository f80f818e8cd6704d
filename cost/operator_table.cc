#include "operator_table.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "muster/core/check.h"
#include "muster/core/text.h"

namespace muster::cost {
namespace {

constexpr std::array<const char*, hardware::kFormats> kFormatNames = {"fp32", "tf32", "fp16", "bf16",
                                                                      "fp8",  "int8", "int4", "fp4"};
constexpr std::size_t kAxesMax = 4;
constexpr std::size_t kLineMax = 110;
constexpr std::string_view kHeader = "muster operator table 1";

// A table of 20,000 numbers is read in about a millisecond: a planner over the whole catalogue reads all of them.
class Parser {
 public:
  explicit Parser(std::string name) : name_(std::move(name)) {}

  Result<OperatorTable> parse(std::string_view text) {
    bool header = false;
    for (const std::string_view raw : split(text, '\n')) {
      ++line_;
      const std::string_view line = trim(raw);
      if (line.empty() || line.starts_with('#')) continue;
      if (!header) {
        if (line != kHeader) return wrong(fmt::format("`{}` found where `{}` is needed", line, kHeader));
        header = true;
        continue;
      }
      const std::size_t space = std::min(line.find(' '), line.size());
      MUSTER_TRY_VOID(entry(line.substr(0, space), trim(line.substr(space))));
    }
    if (!header || table_.gpu.empty() || table_.engine.empty() || table_.rates.memory_bytes_per_s <= 0)
      return wrong("header, gpu, engine and memory_bytes_per_s are needed");
    for (const Grid& grid : table_.grids) MUSTER_TRY_VOID(complete(grid));
    return std::move(table_);
  }

 private:
  std::unexpected<Error> wrong(const std::string& what) const { return fail("{}:{}: {}", name_, line_, what); }

  Result<void> number(std::string_view text, double& out) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc{} || end != text.data() + text.size()) return wrong(fmt::format("`{}` is no number", text));
    return {};
  }

  Result<void> numbers(std::string_view text, std::vector<double>& out) const {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
      double value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc{}) return wrong("a list of numbers separated by spaces is needed");
      out.push_back(value);
      at = next;
      while (at != end && *at == ' ') ++at;
    }
    return {};
  }

  Result<void> entry(std::string_view word, std::string_view rest) {
    if (word == "gpu") return text(rest, table_.gpu);
    if (word == "engine") return text(rest, table_.engine);
    if (word == "engine_version") return text(rest, table_.engine_version);
    if (word == "memory_bytes_per_s") return number(rest, table_.rates.memory_bytes_per_s);
    if (word == "link_bytes_per_s") return number(rest, table_.rates.link_bytes_per_s);
    if (word == "flops") return flops(rest);
    if (word == "grid") {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      Grid& grid = table_.grids.emplace_back();
      MUSTER_TRY_VOID(text(rest.substr(0, space), grid.op));
      return text(trim(rest.substr(space)), grid.key);
    }
    if (table_.grids.empty()) return wrong(fmt::format("unknown entry `{}` before the first grid", word));
    return grid_entry(word, rest, table_.grids.back());
  }

  Result<void> grid_entry(std::string_view word, std::string_view rest, Grid& grid) {
    double value = 0;
    if (word == "source") return text(rest, grid.source);
    if (word == "factors") return numbers(rest, grid.factors);
    if (word == "median_error") return number(rest, grid.median_error);
    if (word == "p90_error") return number(rest, grid.p90_error);
    if (word == "axis") {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      Axis& axis = grid.axes.emplace_back();
      axis.name = rest.substr(0, space);
      return numbers(trim(rest.substr(space)), axis.knots);
    }
    MUSTER_TRY_VOID(number(rest, value));
    if (word == "launch_us") {
      grid.launch_s = value * 1e-6;
    } else if (word == "rows") {
      grid.rows = static_cast<std::int64_t>(value);
    } else if (word == "faster_than_ideal") {
      grid.faster_than_ideal = static_cast<std::int64_t>(value);
    } else {
      return wrong(fmt::format("unknown entry `{}`", word));
    }
    return {};
  }

  Result<void> text(std::string_view rest, std::string& out) const {
    if (rest.empty()) return wrong("a value is missing");
    out = rest;
    return {};
  }

  Result<void> flops(std::string_view rest) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    for (std::size_t i = 0; i < hardware::kFormats; ++i)
      if (rest.substr(0, space) == kFormatNames[i]) return number(trim(rest.substr(space)), table_.rates.flops[i]);
    return wrong(fmt::format("unknown format `{}`", rest.substr(0, space)));
  }

  Result<void> complete(const Grid& grid) const {
    const auto bad = [&](const std::string& what) {
      return fail("{}: grid {} {}: {}", name_, grid.op, grid.key, what);
    };
    if (grid.axes.empty() || grid.axes.size() > kAxesMax) return bad("one to four axes are needed");
    std::size_t size = 1;
    for (const Axis& axis : grid.axes) {
      if (axis.knots.empty() || !std::is_sorted(axis.knots.begin(), axis.knots.end()))
        return bad(fmt::format("the knots of axis {} must ascend", axis.name));
      size *= axis.knots.size();
    }
    if (grid.factors.size() != size) return bad(fmt::format("{} factors found, {} needed", grid.factors.size(), size));
    if (grid.launch_s <= 0) return bad("launch_us must be positive");
    return {};
  }

  std::string name_;
  int line_ = 0;
  OperatorTable table_;
};

// Lines of `word` and numbers, broken before kLineMax.
void append_numbers(std::string& out, const char* word, std::span<const double> numbers) {
  std::size_t column = 0;
  for (const double x : numbers) {
    const std::string number = fmt::format("{:.3g}", x);
    if (column == 0 || column + number.size() > kLineMax) {
      if (column > 0) out.push_back('\n');
      out.append(word);
      column = 0;
    }
    out.push_back(' ');
    out.append(number);
    column += number.size() + 1;
  }
  out.push_back('\n');
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
  return Parser(name).parse(text);
}

std::string to_text(const OperatorTable& table) {
  std::string out(kHeader);
  out += fmt::format("\n# Fitted by `muster calibrate --operators`; format: docs/formats/operator-tables.md.\n");
  out += fmt::format("gpu {}\nengine {}\nengine_version {}\n", table.gpu, table.engine, table.engine_version);
  out += fmt::format("memory_bytes_per_s {:.6g}\nlink_bytes_per_s {:.6g}\n", table.rates.memory_bytes_per_s,
                     table.rates.link_bytes_per_s);
  for (std::size_t i = 0; i < hardware::kFormats; ++i)
    if (table.rates.flops[i] > 0) out += fmt::format("flops {} {:.6g}\n", kFormatNames[i], table.rates.flops[i]);
  for (const Grid& grid : table.grids) {
    out += fmt::format("\ngrid {} {}\nsource {}\nlaunch_us {:.4g}\nrows {}\n", grid.op, grid.key, grid.source,
                       grid.launch_s * 1e6, grid.rows);
    out += fmt::format("median_error {:.4f}\np90_error {:.4f}\nfaster_than_ideal {}\n", grid.median_error,
                       grid.p90_error, grid.faster_than_ideal);
    for (const Axis& axis : grid.axes) {
      out += "axis " + axis.name;
      for (const double knot : axis.knots) out += fmt::format(" {:g}", knot);
      out.push_back('\n');
    }
    append_numbers(out, "factors", grid.factors);
  }
  return out;
}

}  // namespace muster::cost
