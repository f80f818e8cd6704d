// One line on stderr that says what is being done; only where a person watches.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace muster::app {

class ProgressLine {
 public:
  explicit ProgressLine(bool enabled) : enabled_(enabled) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::string_view what);                // replaces the line
  void show(std::string_view what, double share);  // with a bar; at most ten times a second
  void clear();

 private:
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

double wall_seconds();  // monotonic, for the wall time of phases

}  // namespace muster::app
