// CSV with a header line, streamed from a plain or gzip file (RFC 4180 quoting within one line).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/files/lines.h"

namespace muster::files {

class CsvReader {
 public:
  // Reads the header. Fails if the file is empty or two columns share a name.
  static Result<CsvReader> open(const std::string& path);

  const std::vector<std::string>& columns() const { return columns_; }
  std::optional<std::size_t> find(std::string_view column) const;  // exact name
  Result<std::size_t> need(std::string_view column) const;         // fails naming the columns found

  // Reads the next row; false at the end. Blank lines are skipped. Fails if the number of fields differs from the
  // header's.
  Result<bool> next();

  // Without quotes and the blanks around it; lives until next(). Requires column < columns().size().
  std::string_view field(std::size_t column) const { return fields_[column]; }
  // The field as a finite number. Fails with file, line, column, the text found ("nan", "", "x") and what is needed.
  Result<double> number(std::size_t column) const;
  // The field as an integer in [min, max]; "12" and "12.0" are integers, "12.5" is not.
  Result<std::int64_t> integer(std::size_t column, std::int64_t min, std::int64_t max) const;

  std::string where() const { return lines_.where(); }

 private:
  explicit CsvReader(LineReader lines) : lines_(std::move(lines)) {}
  Result<void> split_line(std::string_view line);

  LineReader lines_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> fields_;  // into the line reader's buffer or into unquoted_
  std::vector<std::string> unquoted_;
};

}  // namespace muster::files
