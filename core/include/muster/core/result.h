// Errors of the outside world (files, peers, users, settings) as values.
#pragma once

#include <fmt/format.h>

#include <expected>
#include <string>
#include <utility>

namespace muster {

// The message names the thing, the value found and the value needed; for files also the line ("trace.csv:17: ...").
// kInput: the user can mend it (exit code 2). kNo: the question was understood and the answer is no (exit code 1).
struct Error {
  enum class Kind { kInput, kNo };
  std::string message;
  Kind kind = Kind::kInput;
};

template <class T>
using Result = std::expected<T, Error>;

template <class... Args>
std::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{fmt::format(format, std::forward<Args>(args)...), Error::Kind::kInput});
}

// MUSTER_TRY(auto x, f()): x = the value of f(), or return f()'s error from the calling function.
// MUSTER_TRY_VOID(f()): the same where f() returns Result<void>.
#define MUSTER_CONCAT_(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_(a, b)
#define MUSTER_TRY(declaration, ...) MUSTER_TRY_(MUSTER_CONCAT(muster_try_, __LINE__), declaration, __VA_ARGS__)
#define MUSTER_TRY_(temporary, declaration, ...)                        \
  auto temporary = (__VA_ARGS__);                                       \
  if (!temporary) return std::unexpected(std::move(temporary).error()); \
  declaration = *std::move(temporary)
#define MUSTER_TRY_VOID(...)                                      \
  do {                                                            \
    if (auto muster_try_void = (__VA_ARGS__); !muster_try_void)   \
      return std::unexpected(std::move(muster_try_void).error()); \
  } while (false)

}  // namespace muster
