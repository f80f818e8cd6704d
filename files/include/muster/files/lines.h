// Lines of a plain or gzip file, streamed: memory does not grow with the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/core/result.h"

namespace muster::files {

class LineReader {
 public:
  // Opens `path`; gzip is recognised by its first bytes, not by the name. Fails, naming the path, if it cannot be read.
  static Result<LineReader> open(const std::string& path);

  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  // The next line without its end ("\n" or "\r\n"); false at the end of the file. The view lives until the next call.
  // Fails on a read error, on damaged or truncated gzip, and on a line of over 64 MiB.
  Result<bool> next(std::string_view& line);

  std::uint64_t line_number() const;  // of the line last returned; the first is 1
  const std::string& path() const;
  std::string where() const;  // "path:line"

 private:
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A whole file (plain or gzip) as text. Fails as LineReader does, and over `bytes_max`.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = std::size_t{256} << 20);

// Writes by a temporary file in the same folder and a rename: the file is either whole or absent.
// Missing parent folders are made. Fails naming the path and the system's reason.
Result<void> write_file(const std::string& path, std::string_view content);

}  // namespace muster::files
