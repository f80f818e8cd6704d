#include "muster/core/check.h"

#include <cstdio>
#include <cstdlib>

namespace muster {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "muster: internal error at %s:%d: %s is false: %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  std::_Exit(3);  // DESIGN's exit code for an internal error; nothing is half-written, as files appear by rename
}

}  // namespace muster
