#include "muster/files/csv.h"

#include <algorithm>

#include "muster/core/text.h"
#include "muster/files/number.h"

namespace muster::files {
namespace {

// The columns' names with commas between, cut when there are very many.
std::string listed(const std::vector<std::string>& columns) {
  constexpr std::size_t kShown = 30;
  std::string text;
  for (std::size_t i = 0; i < std::min(columns.size(), kShown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shown(columns[i]));
  return text + (columns.size() > kShown ? ", ..." : "");
}

std::string_view trim_front(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

// Blanks only at the ends, and cheaply: the reader calls this for every field.
std::string_view trim_field(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<CsvReader> CsvReader::open(const std::string& path) {
  MUSTER_TRY(LineReader lines, LineReader::open(path));
  CsvReader reader(std::move(lines));
  std::string_view line;
  do {
    MUSTER_TRY(const bool more, reader.lines_.next(line));
    if (!more) return fail("{}: the file is empty; a header line is needed", path);
    if (reader.lines_.line_number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);  // UTF-8 BOM
  } while (trim(line).empty());
  MUSTER_TRY_VOID(reader.split_line(line));
  for (const std::string_view name : reader.fields_) {
    if (!name.empty() && reader.find(name)) return fail("{}: two columns are named {}", reader.where(), shown(name));
    reader.columns_.emplace_back(name);
  }
  return reader;
}

std::optional<std::size_t> CsvReader::find(std::string_view column) const {
  const auto at = std::find(columns_.begin(), columns_.end(), column);
  if (at == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - columns_.begin());
}

Result<std::size_t> CsvReader::need(std::string_view column) const {
  if (const auto at = find(column)) return *at;
  return fail("{}: the column {} is missing{}; found {}", lines_.path(), column, did_you_mean(column, columns_),
              listed(columns_));
}

Result<bool> CsvReader::next() {
  std::string_view line;
  do {
    MUSTER_TRY(const bool more, lines_.next(line));
    if (!more) {
      fields_.assign(columns_.size(), {});
      return false;
    }
  } while (trim_field(line).empty());
  MUSTER_TRY_VOID(split_line(line));
  if (fields_.size() != columns_.size())
    return fail("{}: {} fields found; {} are needed, as the header has {}", where(), fields_.size(), columns_.size(),
                listed(columns_));
  return true;
}

// Fields are views into the LineReader's buffer, or into unquoted_ where "" had to become ".
Result<void> CsvReader::split_line(std::string_view line) {
  fields_.clear();
  unquoted_.clear();
  if (line.find('"') == std::string_view::npos) {
    for (;;) {
      const std::size_t comma = line.find(',');
      fields_.push_back(trim_field(line.substr(0, comma)));
      if (comma == std::string_view::npos) return {};
      line.remove_prefix(comma + 1);
    }
  }
  std::vector<std::size_t> rewritten;  // fields whose text is the next of unquoted_
  for (;;) {
    const std::string_view rest = trim_front(line);
    if (!rest.starts_with('"')) {
      const std::size_t comma = line.find(',');
      fields_.push_back(trim_field(line.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
      continue;
    }
    std::size_t close = rest.find('"', 1);
    bool doubled = false;
    while (close != std::string_view::npos && close + 1 < rest.size() && rest[close + 1] == '"') {
      doubled = true;
      close = rest.find('"', close + 2);
    }
    if (close == std::string_view::npos)
      return fail("{}: the quote before {} is not closed on this line", where(), shown(rest.substr(1)));
    std::string_view content = rest.substr(1, close - 1);
    const std::string_view after = trim_front(rest.substr(close + 1));
    if (!after.empty() && after[0] != ',' && after != "\r")
      return fail("{}: text after a closing quote: {}", where(), shown(after));
    if (doubled) {
      std::string plain;
      for (std::size_t i = 0; i < content.size(); ++i) {
        plain += content[i];
        if (content[i] == '"') ++i;
      }
      rewritten.push_back(fields_.size());
      unquoted_.push_back(std::move(plain));
    }
    fields_.push_back(content);
    if (after.empty() || after[0] != ',') break;
    line = after.substr(1);
  }
  for (std::size_t i = 0; i < rewritten.size(); ++i) fields_[rewritten[i]] = unquoted_[i];
  return {};
}

Result<double> CsvReader::number(std::size_t column) const {
  if (const auto value = parse_number(fields_[column])) return *value;
  return fail("{}: column {}: found {}; a finite number is needed", where(), columns_[column], shown(fields_[column]));
}

Result<std::int64_t> CsvReader::integer(std::size_t column, std::int64_t min, std::int64_t max) const {
  const auto value = parse_integer(fields_[column]);
  if (value && *value >= min && *value <= max) return *value;
  return fail("{}: column {}: found {}; an integer from {} to {} is needed", where(), columns_[column],
              shown(fields_[column]), min, max);
}

}  // namespace muster::files
