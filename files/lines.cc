#include "muster/files/lines.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace muster::files {
namespace {

constexpr std::size_t kLineMax = std::size_t{64} << 20;
constexpr std::size_t kChunk = std::size_t{256} << 10;

// A file read through zlib, which passes plain files on unchanged and recognises gzip by its first two bytes.
class Source {
 public:
  static Result<Source> open(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return fail("{}: cannot be read: {}", path, std::strerror(errno));
    if (S_ISDIR(status.st_mode)) return fail("{}: is a folder; a file is needed", path);
    errno = 0;
    const gzFile file = ::gzopen(path.c_str(), "rbe");  // e: not inherited by child processes
    if (file == nullptr)
      return fail("{}: cannot be read: {}", path, errno != 0 ? std::strerror(errno) : "out of memory");
    ::gzbuffer(file, kChunk);
    return Source(path, file);
  }

  // Reads up to `size` bytes; 0 at the end. `line`: the last complete line so far, for messages.
  Result<std::size_t> read(char* to, std::size_t size, std::uint64_t line) {
    const int count = ::gzread(file_.get(), to, static_cast<unsigned>(size));
    if (count > 0) return static_cast<std::size_t>(count);
    int code = Z_OK;
    const char* message = ::gzerror(file_.get(), &code);
    if (count == 0 && code != Z_BUF_ERROR) return std::size_t{0};
    const auto offset = static_cast<std::int64_t>(::gzoffset(file_.get()));
    if (code == Z_ERRNO) return fail("{}: read error after line {}: {}", path_, line, std::strerror(errno));
    if (code == Z_BUF_ERROR)
      return fail("{}: truncated gzip: the data end after line {} (compressed byte {}) before the stream does", path_,
                  line, offset);
    return fail("{}: damaged gzip after line {} (near compressed byte {}): {}", path_, line, offset, message);
  }

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { ::gzclose(file); }
  };
  Source(std::string path, gzFile file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace

// The unread bytes are buffer[begin, end).
struct LineReader::State {
  Source source;
  std::vector<char> buffer = std::vector<char>(kChunk);
  std::size_t begin = 0;
  std::size_t end = 0;
  bool at_end = false;
  std::uint64_t line = 0;
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::string& path) {
  MUSTER_TRY(Source source, Source::open(path));
  return LineReader(std::make_unique<State>(State{.source = std::move(source)}));
}

Result<bool> LineReader::next(std::string_view& line) {
  State& s = *state_;
  std::size_t searched = 0;  // bytes from begin known to hold no line end
  for (;;) {
    const char* const from = s.buffer.data() + s.begin;
    const std::size_t have = s.end - s.begin;
    const void* const found = have > searched ? std::memchr(from + searched, '\n', have - searched) : nullptr;
    if (found != nullptr || (s.at_end && have > 0)) {
      std::size_t length = found != nullptr ? static_cast<std::size_t>(static_cast<const char*>(found) - from) : have;
      s.begin += length + (found != nullptr ? 1 : 0);
      if (length > 0 && from[length - 1] == '\r') --length;
      ++s.line;
      line = {from, length};
      return true;
    }
    if (s.at_end) return false;
    searched = have;
    if (have > kLineMax) return fail("{}:{}: the line is longer than 64 MiB", s.source.path(), s.line + 1);
    if (s.begin > 0) {
      std::memmove(s.buffer.data(), from, have);
      s.begin = 0;
      s.end = have;
    }
    if (s.end == s.buffer.size()) s.buffer.resize(s.buffer.size() * 2);
    MUSTER_TRY(const std::size_t count, s.source.read(s.buffer.data() + s.end, s.buffer.size() - s.end, s.line));
    s.end += count;
    s.at_end = count == 0;
  }
}

std::uint64_t LineReader::line_number() const {
  return state_->line;
}
const std::string& LineReader::path() const {
  return state_->source.path();
}
std::string LineReader::where() const {
  return fmt::format("{}:{}", path(), line_number());
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  MUSTER_TRY(Source source, Source::open(path));
  std::string text;
  std::vector<char> chunk(kChunk);
  for (;;) {
    const auto lines = [&] { return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')); };
    auto count = source.read(chunk.data(), chunk.size(), 0);
    if (!count) {  // counting lines is only worth it now; zlib keeps its error
      return std::unexpected(source.read(chunk.data(), chunk.size(), lines()).error());
    }
    if (*count == 0) return text;
    if (text.size() + *count > bytes_max) return fail("{}: larger than {} bytes", path, bytes_max);
    text.append(chunk.data(), *count);
  }
}

}  // namespace muster::files
