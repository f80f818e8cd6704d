#include "muster/files/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "muster/core/rng.h"

namespace muster::files {
namespace {

using testing::HasSubstr;

class Lines : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "muster_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string put_gzip(const std::string& name, std::string_view text) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path(name);
  }
  static std::string bytes_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_;
};

// The lines up to the end or to an error, whose message is then in `error`.
std::vector<std::string> all_lines(const std::string& file, std::string* error = nullptr) {
  std::vector<std::string> lines;
  auto reader = LineReader::open(file);
  if (!reader) {
    if (error != nullptr) *error = reader.error().message;
    return lines;
  }
  std::string_view line;
  for (;;) {
    const auto more = reader->next(line);
    if (!more && error != nullptr) *error = more.error().message;
    if (!more || !*more) return lines;
    lines.emplace_back(line);
  }
}

TEST_F(Lines, EndsOfEveryKind) {
  EXPECT_THAT(all_lines(put("a", "one\ntwo\r\n\nfour")), testing::ElementsAre("one", "two", "", "four"));
  EXPECT_THAT(all_lines(put("b", "one\n")), testing::ElementsAre("one"));
  EXPECT_THAT(all_lines(put("c", "")), testing::IsEmpty());
  EXPECT_THAT(all_lines(put("d", std::string_view("a\0b\n\0", 5))),
              testing::ElementsAre(std::string("a\0b", 3), std::string("\0", 1)));
}

TEST_F(Lines, NumbersThem) {
  const std::string file = put("n", "one\ntwo\n");
  auto reader = LineReader::open(file);
  std::string_view line;
  ASSERT_TRUE(reader->next(line).value());
  ASSERT_TRUE(reader->next(line).value());
  EXPECT_EQ(reader->line_number(), 2u);
  EXPECT_EQ(reader->where(), file + ":2");
}

// The slow reference splits the whole text; lengths cross the reader's buffer in every way.
TEST_F(Lines, AgreeWithSplittingTheWholeTextPlainAndGzip) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "lines");
    std::string text;
    std::vector<std::string> expected;
    while (text.size() < 1'500'000) {
      const std::uint64_t length = rng.below(20) == 0 ? rng.below(700'000) : rng.below(100);
      expected.emplace_back(length, static_cast<char>('a' + rng.below(26)));
      text += expected.back() + (rng.below(2) == 0 ? "\n" : "\r\n");
    }
    EXPECT_EQ(all_lines(put("plain", text)), expected);
    EXPECT_EQ(all_lines(put_gzip("packed", text)), expected);
    EXPECT_EQ(read_file(path("packed")).value(), text);
  }
}

TEST_F(Lines, TruncatedGzipIsAnErrorThatSaysWhere) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string whole = bytes_of(put_gzip("t.gz", text));
  for (const std::size_t keep :
       {std::size_t{2}, std::size_t{5}, std::size_t{12}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    SCOPED_TRACE(keep);
    std::string error;
    all_lines(put("cut.gz", whole.substr(0, keep)), &error);
    EXPECT_THAT(error, HasSubstr("cut.gz: truncated gzip"));
    EXPECT_THAT(error, HasSubstr("after line "));
    EXPECT_THAT(read_file(path("cut.gz")).error().message, HasSubstr("truncated gzip"));
  }
}

TEST_F(Lines, DamagedGzipIsAnError) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + "\n";
  std::string bytes = bytes_of(put_gzip("d.gz", text));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  std::string error;
  all_lines(put("damaged.gz", bytes), &error);
  EXPECT_THAT(error, HasSubstr("damaged.gz: damaged gzip after line "));
}

TEST_F(Lines, RandomDamageNeverCrashes) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string whole = bytes_of(put_gzip("r.gz", text));
  Rng rng = Rng::stream(1, 0, "damage");
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    std::string bytes = whole;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    const std::string file = put("damaged.gz", bytes);
    all_lines(file);
    static_cast<void>(read_file(file));
  }
}

TEST_F(Lines, RefusesALineWithoutEnd) {
  const std::string file = put_gzip("long.gz", std::string((std::size_t{65} << 20), 'x'));
  std::string error;
  all_lines(file, &error);
  EXPECT_EQ(error, file + ":1: the line is longer than 64 MiB");
  EXPECT_THAT(read_file(file, 1000).error().message, HasSubstr("larger than 1000 bytes"));
}

TEST_F(Lines, NamesWhatCannotBeRead) {
  EXPECT_THAT(LineReader::open("/no/such/file").error().message, HasSubstr("/no/such/file: cannot be read: No such"));
  EXPECT_THAT(LineReader::open(folder_).error().message, HasSubstr("is a folder"));
}

TEST_F(Lines, WritesWholeFilesAndMakesFolders) {
  const std::string file = path("a/b/c.txt");
  ASSERT_TRUE(write_file(file, "first"));
  ASSERT_TRUE(write_file(file, "second"));
  EXPECT_EQ(read_file(file).value(), "second");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path("a/b"))) ++files;
  EXPECT_EQ(files, 1u);  // no temporary is left
}

TEST_F(Lines, WritesThroughALinkAndNotOverAFolder) {
  put("real", "old");
  std::filesystem::create_symlink("real", path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  EXPECT_EQ(bytes_of(path("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_THAT(write_file(folder_, "x").error().message, HasSubstr("it is a folder"));
  put("file", "x");
  EXPECT_THAT(write_file(path("file/below"), "x").error().message, HasSubstr("cannot"));
}

}  // namespace
}  // namespace muster::files
