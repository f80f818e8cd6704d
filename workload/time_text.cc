#include "time_text.h"

#include <chrono>
#include <cmath>

#include "muster/files/number.h"

namespace muster::workload {
namespace {

constexpr std::int64_t kPowersOfTen[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
constexpr std::int64_t kNanosecondsMax = 9'000'000'000'000'000'000;

bool digit(char c) {
  return c >= '0' && c <= '9';
}

// Takes exactly `count` digits off the front.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!digit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

// Digits after a decimal point as nanoseconds of a second; digits after the ninth are dropped.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return 0;
  std::int64_t ns = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && digit(text[digits]); ++digits)
    if (digits < 9) ns += (text[digits] - '0') * kPowersOfTen[8 - digits];
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return ns;
}

// "", "Z", "UTC", "+hh:mm" or "-hh:mm", as seconds east of Greenwich.
std::optional<int> parse_zone(std::string_view text) {
  if (text.empty() || text == "Z" || text == "UTC" || text == " UTC") return 0;
  const char sign = text[0];
  if (sign != '+' && sign != '-') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2);
  take(text, ':');
  const auto minutes = text.empty() ? std::optional<int>(0) : take_digits(text, 2);
  if (!hours || !minutes || !text.empty()) return std::nullopt;
  return (sign == '-' ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

}  // namespace

std::optional<std::int64_t> parse_decimal_ns(std::string_view text, int exponent) {
  std::string_view rest = text;
  const bool negative = take(rest, '-');
  std::int64_t whole = 0;
  std::size_t i = 0;
  for (; i < rest.size() && digit(rest[i]) && i < 18; ++i) whole = whole * 10 + (rest[i] - '0');
  bool plain = i > 0;
  std::int64_t below = 0;  // ns after the decimal point
  if (plain && i < rest.size() && rest[i] == '.') {
    const std::size_t point = i++;
    for (; i < rest.size() && digit(rest[i]); ++i) {
      const auto place = static_cast<int>(i - point);  // 1 for the first digit after the point
      if (place <= exponent) below += (rest[i] - '0') * kPowersOfTen[exponent - place];
      if (place == exponent + 1 && rest[i] >= '5') ++below;  // round half up
    }
  }
  std::int64_t ns = 0;
  plain =
      plain && i == rest.size() && !__builtin_mul_overflow(whole, kPowersOfTen[exponent], &ns) && ns <= kNanosecondsMax;
  if (plain) return negative ? -(ns + below) : ns + below;
  const auto value = files::parse_number(text);
  if (!value) return std::nullopt;
  const double scaled = *value * static_cast<double>(kPowersOfTen[exponent]);
  if (std::abs(scaled) > static_cast<double>(kNanosecondsMax)) return std::nullopt;
  return std::llround(scaled);
}

std::optional<std::int64_t> parse_date_ns(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !(take(text, ' ') || take(text, 'T'))) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second) return std::nullopt;
  const auto fraction = take_fraction(text);
  const auto zone = parse_zone(text);
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!fraction || !zone || !date.ok() || *year < 1970 || *year > 2200) return std::nullopt;
  if (*hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = days * 86400 + *hour * 3600 + *minute * 60 + *second - *zone;
  return seconds * 1'000'000'000 + *fraction;
}

std::optional<std::int64_t> TimeColumn::parse(std::string_view text) {
  if (first_) {
    first_ = false;
    dates_ = text.find(':') != std::string_view::npos;
    // Ten years: no trace starts so late on its own clock. The other limits lie decades from today in their units.
    const double value = std::abs(files::parse_number(text).value_or(0));
    if (!exponent_) exponent_ = value > 1e17 ? 0 : value > 1e14 ? 3 : value > 1e11 ? 6 : 9;
    constexpr double kTenYearsNs = 3.15e17;
    since_epoch_ = dates_ || value * static_cast<double>(kPowersOfTen[*exponent_]) > kTenYearsNs;
  }
  return dates_ ? parse_date_ns(text) : parse_decimal_ns(text, *exponent_);
}

}  // namespace muster::workload
