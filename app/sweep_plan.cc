#include "sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::app {
namespace {

constexpr std::size_t kValuesMax = 10'000;

// At the commas that stand outside of brackets and quotes.
std::vector<std::string_view> split_values(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.push_back(trim(text.substr(begin)));
  return parts;
}

// The values of "a..b" or "a..b:step"; nullopt when it is not a range.
Result<std::optional<std::vector<std::string>>> range_of(std::string_view text, std::string_view where) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  std::string_view last_text = text.substr(dots + 2);
  std::optional<double> step = 1;
  if (const std::size_t colon = last_text.find(':'); colon != std::string_view::npos) {
    step = files::parse_number(last_text.substr(colon + 1));
    last_text = last_text.substr(0, colon);
  }
  const std::optional<double> first = files::parse_number(text.substr(0, dots)), last = files::parse_number(last_text);
  if (!first || !last) return std::nullopt;  // a word with dots in it, such as a path
  if (!step || *step <= 0 || *last < *first)
    return fail("{}: the range {} needs a first value, a last one that is not smaller, and a step above 0", where,
                text);
  const double steps = std::floor((*last - *first) / *step + 1e-9);
  if (steps >= static_cast<double>(kValuesMax)) return fail("{}: over {} values in {}", where, kValuesMax, text);
  std::vector<std::string> values;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(steps); ++i)
    values.push_back(fmt::format("{:.12g}", *first + static_cast<double>(i) * *step));
  return values;
}

Result<std::vector<std::string>> values_of(std::string_view text, std::string_view where) {
  std::vector<std::string> values;
  for (const std::string_view part : split_values(text)) {
    if (part.empty()) return fail("{}: a value is empty", where);
    MUSTER_TRY(const auto range, range_of(part, where));
    if (range)
      values.insert(values.end(), range->begin(), range->end());
    else
      values.emplace_back(part);
  }
  if (values.size() > kValuesMax)
    return fail("{}: {} values; at most {} are possible", where, values.size(), kValuesMax);
  std::vector<std::string> sorted = values;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return fail("{}: the value {} is given twice", where, *twice);
  return values;
}

}  // namespace

Result<Axis> parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return fail("--set {}: PATH=VALUES is needed, such as pools.0.replicas.initial=4..12", text);
  Axis axis{.path = std::string(trim(text.substr(0, equals)))};
  MUSTER_TRY(axis.values, values_of(text.substr(equals + 1), fmt::format("--set {}", axis.path)));
  return axis;
}

Result<std::vector<double>> parse_numbers(std::string_view text, std::string_view option) {
  MUSTER_TRY(const std::vector<std::string> values, values_of(text, option));
  std::vector<double> numbers;
  for (const std::string& value : values) {
    const std::optional<double> number = files::parse_number(value);
    if (!number) return fail("{} {}: numbers are needed, as in 1,2 or 1..4", option, files::shown(value));
    numbers.push_back(*number);
  }
  return numbers;
}

std::size_t SweepPlan::size() const {
  std::size_t n = scales.size() * seeds.size();
  for (const Axis& axis : axes) n *= axis.values.size();
  return n;
}

SweepPoint SweepPlan::point(std::size_t index) const {
  SweepPoint point{.index = index, .choice = std::vector<std::size_t>(axes.size())};
  point.seed = index % seeds.size();
  index /= seeds.size();
  point.scale = index % scales.size();
  index /= scales.size();
  for (std::size_t a = axes.size(); a-- > 0;) {
    point.choice[a] = index % axes[a].values.size();
    index /= axes[a].values.size();
  }
  return point;
}

std::vector<Setting> SweepPlan::settings(const SweepPoint& point) const {
  std::vector<Setting> list;
  for (std::size_t a = 0; a < axes.size(); ++a) list.push_back({axes[a].path, axes[a].values[point.choice[a]]});
  return list;
}

std::string SweepPlan::text(const SweepPoint& point) const {
  std::string out = app::text(settings(point));
  return fmt::format("{}{}scale={} seed={}", out, out.empty() ? "" : " ", scales[point.scale], seeds[point.seed]);
}

Result<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto part = [&](std::string_view digits) { return files::parse_integer(digits); };
  const auto i = part(text.substr(0, slash));
  const auto n = slash == std::string_view::npos ? std::nullopt : part(text.substr(slash + 1));
  if (!i || !n || *i < 1 || *n < *i || *n > 1'000'000)
    return fail("--shard {}: I/N is needed with 1 <= I <= N, such as 2/8", text);
  return Shard{static_cast<std::size_t>(*i), static_cast<std::size_t>(*n)};
}

}  // namespace muster::app
