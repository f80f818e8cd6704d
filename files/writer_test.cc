#include "muster/files/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "muster/files/lines.h"

namespace muster::files {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class WriterTest : public testing::Test {
 protected:
  WriterTest() {
    std::string name = (fs::temp_directory_path() / "muster-writer-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~WriterTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

std::string numbered_lines(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += std::to_string(i * 7919) + ",line\n";
  return text;
}

TEST_F(WriterTest, PiecesBecomeOneFile) {
  const std::string all = numbered_lines(50'000);  // several buffers
  for (const std::string name : {"plain.csv", "packed.csv.gz"}) {
    SCOPED_TRACE(name);
    auto writer = FileWriter::create(path(name));
    ASSERT_TRUE(writer);
    for (std::size_t at = 0, piece = 1; at < all.size(); at += piece, piece = piece * 5 % 1013 + 1)
      writer->write(std::string_view(all).substr(at, piece));
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(read_file(path(name)), all);
  }
  EXPECT_LT(fs::file_size(path("packed.csv.gz")), all.size() / 3);
  EXPECT_EQ(fs::file_size(path("plain.csv")), all.size());
}

TEST_F(WriterTest, EmptyFilesAreFilesToo) {
  for (const std::string name : {"empty", "empty.gz"}) {
    auto writer = FileWriter::create(path(name));
    ASSERT_TRUE(writer && writer->finish());
    EXPECT_EQ(read_file(path(name)), "");
  }
}

TEST_F(WriterTest, IsNotThereBeforeItIsWhole) {
  ASSERT_TRUE(write_file(path("x"), "old"));
  {
    auto writer = FileWriter::create(path("x"));
    ASSERT_TRUE(writer);
    writer->write("new");
    EXPECT_EQ(read_file(path("x")), "old");
  }  // given up
  EXPECT_EQ(read_file(path("x")), "old");
  EXPECT_EQ(files_in_folder(), 1U);

  auto writer = FileWriter::create(path("x"));
  ASSERT_TRUE(writer);
  FileWriter moved = *std::move(writer);
  moved.write("new");
  ASSERT_TRUE(moved.finish());
  EXPECT_EQ(read_file(path("x")), "new");
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(WriterTest, SaysWhatWentWrong) {
  EXPECT_THAT(FileWriter::create(folder_.string()).error().message, HasSubstr("it is a folder"));
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    auto full = FileWriter::create("/dev/full");
    ASSERT_TRUE(full);
    full->write(std::string(bytes, 'x'));
    EXPECT_THAT(full->finish().error().message, HasSubstr("/dev/full: cannot be written: No space left"));
  }
}

}  // namespace
}  // namespace muster::files
