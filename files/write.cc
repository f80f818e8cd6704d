#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "muster/files/lines.h"

namespace muster::files {
namespace {

namespace fs = std::filesystem;

// 0, or the system's error number.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

// Writes to something that a rename must not replace: a terminal, a pipe, /dev/stdout.
Result<void> write_in_place(const std::string& path, std::string_view content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  const int error = write_all(file, content);
  ::close(file);
  if (error != 0) return fail("{}: cannot be written: {}", path, std::strerror(error));
  return {};
}

// Creates a file beside `target` that nobody else uses. Returns its descriptor and sets `name`.
int create_beside(const fs::path& target, std::string& name) {
  for (int attempt = 0;; ++attempt) {
    name = fmt::format("{}.partial-{}-{}", target.string(), ::getpid(), attempt);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST || attempt == 1000) return file;
  }
}

}  // namespace

Result<void> write_file(const std::string& path, std::string_view content) {
  std::error_code code;
  fs::path target = path;
  const fs::file_status status = fs::status(target, code);
  if (fs::is_directory(status)) return fail("{}: cannot be written: it is a folder", path);
  if (fs::exists(status) && !fs::is_regular_file(status)) return write_in_place(path, content);
  if (fs::exists(status)) {  // write through a symbolic link, not over it
    const fs::path resolved = fs::canonical(target, code);
    if (!code) target = resolved;
  }
  if (target.has_parent_path()) {
    fs::create_directories(target.parent_path(), code);
    if (code) return fail("{}: cannot make the folder {}: {}", path, target.parent_path().string(), code.message());
  }

  std::string partial;
  const int file = create_beside(target, partial);
  if (file < 0) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  int error = write_all(file, content);
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(partial.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(partial.c_str());
    return fail("{}: cannot be written: {}", path, std::strerror(error));
  }
  return {};
}

}  // namespace muster::files
