// JSON Lines: one object per line, of which only the top level matters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/core/result.h"

namespace muster::workload {

// Takes the scalars of chosen keys out of one line, as text; a list of whole numbers becomes them with blanks between.
class JsonRow {
 public:
  // The top-level keys of a line, in order. Fails with what is wrong with the line.
  static Result<std::vector<std::string>> keys(std::string_view line);

  explicit JsonRow(std::vector<std::string> wanted);

  // Reads a line; what is wrong with it, or empty.
  std::string read(std::string_view line);
  // After read(): of wanted[i]; empty with present() false if absent or null.
  std::string_view text(std::size_t i) const { return values_[i].text; }
  bool present(std::size_t i) const { return values_[i].present; }

  struct Value {
    std::string text;
    bool present = false;
  };

 private:
  std::vector<std::string> wanted_;
  std::vector<Value> values_;
};

}  // namespace muster::workload
