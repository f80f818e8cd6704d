// A file written piece by piece: memory does not grow with the file, and it appears whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "muster/core/result.h"

namespace muster::files {

// Writes to a temporary file in the same folder; finish() renames it. Destroyed without finish(), it leaves nothing
// behind. A name that ends in .gz is compressed. Something that a rename must not replace (a terminal, a pipe,
// /dev/stdout) is written in place. Movable, not copyable; one thread.
class FileWriter {
 public:
  // Makes missing parent folders. Fails naming the path and the system's reason.
  static Result<FileWriter> create(const std::string& path);

  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;
  ~FileWriter();

  // Buffered. A failure (disk full) is remembered, and finish() reports it.
  void write(std::string_view text);
  // Flushes, and gives the file its name. Fails as create() does; nothing may be written afterwards.
  Result<void> finish();

  const std::string& path() const;

 private:
  struct State;
  explicit FileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::files
