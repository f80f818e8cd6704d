#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace muster::app {

void ProgressLine::show(std::string_view what) {
  if (!enabled_) return;
  fmt::print(stderr, "\r\033[K{} ...", what);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::show(std::string_view what, double share) {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth);
  fmt::print(stderr, "\r\033[K{} [{:#<{}}{:.<{}}] {:.0f} %", what, "", filled, "", kWidth - filled, 100 * share);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace muster::app
