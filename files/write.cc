#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "muster/files/lines.h"
#include "muster/files/writer.h"

namespace muster::files {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

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

// Creates a file beside `target` that nobody else uses. Returns its descriptor and sets `name`.
int create_beside(const fs::path& target, std::string& name) {
  for (int attempt = 0;; ++attempt) {
    name = fmt::format("{}.partial-{}-{}", target.string(), ::getpid(), attempt);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST || attempt == 1000) return file;
  }
}

}  // namespace

struct FileWriter::State {
  std::string path;     // as the caller named it
  std::string target;   // what the rename replaces; empty: written in place
  std::string partial;  // the temporary file, until it is renamed
  int file = -1;
  int error = 0;  // the first one of the system
  std::string buffer;
  bool compress = false;
  z_stream stream{};

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (compress) deflateEnd(&stream);
    if (file >= 0) ::close(file);
    if (!partial.empty()) ::unlink(partial.c_str());
  }

  void put(std::string_view bytes) {
    if (error == 0) error = write_all(file, bytes);
  }

  void flush(bool last) {
    if (!compress) {
      put(buffer);
      buffer.clear();
      return;
    }
    // zlib takes the input as non-const but does not write to it.
    stream.next_in = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_in = static_cast<uInt>(buffer.size());
    char out[kBufferBytes];
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out);
      stream.avail_out = sizeof out;
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);  // cannot fail: the stream is consistent and has room
      put({out, sizeof out - stream.avail_out});
    } while (stream.avail_out == 0);
    buffer.clear();
  }

  Result<void> failed() const { return fail("{}: cannot be written: {}", path, std::strerror(error)); }
};

FileWriter::FileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
FileWriter::FileWriter(FileWriter&&) noexcept = default;
FileWriter& FileWriter::operator=(FileWriter&&) noexcept = default;
FileWriter::~FileWriter() = default;

Result<FileWriter> FileWriter::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  std::error_code code;
  fs::path target = path;
  const fs::file_status status = fs::status(target, code);
  if (fs::is_directory(status)) return fail("{}: cannot be written: it is a folder", path);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    state->file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    if (fs::exists(status)) {  // write through a symbolic link, not over it
      const fs::path resolved = fs::canonical(target, code);
      if (!code) target = resolved;
    }
    if (target.has_parent_path()) {
      fs::create_directories(target.parent_path(), code);
      if (code) return fail("{}: cannot make the folder {}: {}", path, target.parent_path().string(), code.message());
    }
    std::string partial;
    state->file = create_beside(target, partial);
    if (state->file >= 0) state->partial = partial;
    state->target = target.string();
  }
  if (state->file < 0) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  if (path.ends_with(".gz")) {
    constexpr int kGzip = 16 + MAX_WBITS, kMemory = 8;
    if (deflateInit2(&state->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      return fail("{}: no memory to compress it", path);
    state->compress = true;
  }
  state->buffer.reserve(kBufferBytes);
  return FileWriter(std::move(state));
}

void FileWriter::write(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kBufferBytes - state_->buffer.size());
    state_->buffer += part;
    text.remove_prefix(part.size());
    if (state_->buffer.size() == kBufferBytes) state_->flush(false);
  }
}

Result<void> FileWriter::finish() {
  State& s = *state_;
  s.flush(true);
  if (::close(s.file) != 0 && s.error == 0) s.error = errno;
  s.file = -1;
  if (s.error == 0 && !s.target.empty() && ::rename(s.partial.c_str(), s.target.c_str()) != 0) s.error = errno;
  if (s.error != 0) return s.failed();
  s.partial.clear();
  return {};
}

const std::string& FileWriter::path() const {
  return state_->path;
}

Result<void> write_file(const std::string& path, std::string_view content) {
  MUSTER_TRY(FileWriter writer, FileWriter::create(path));
  writer.write(content);
  return writer.finish();
}

}  // namespace muster::files
