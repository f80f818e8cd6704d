#include "muster/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/core/rng.h"

namespace muster::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Csv : public testing::Test {
 protected:
  Csv() : path_(testing::TempDir() + "muster_csv_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~Csv() override { std::filesystem::remove(path_); }

  Result<CsvReader> open(std::string_view text) {
    EXPECT_TRUE(write_file(path_, text));
    return CsvReader::open(path_);
  }
  // The rows up to the end or the first error, which is then the last "row".
  std::vector<std::vector<std::string>> rows(std::string_view text) {
    std::vector<std::vector<std::string>> all;
    auto reader = open(text);
    if (!reader) return {{reader.error().message}};
    for (;;) {
      const auto more = reader->next();
      if (!more) all.push_back({more.error().message});
      if (!more || !*more) return all;
      all.emplace_back();
      for (std::size_t i = 0; i < reader->columns().size(); ++i) all.back().emplace_back(reader->field(i));
    }
  }

  std::string path_;
};

TEST_F(Csv, HeaderAndRows) {
  const auto reader = open("\xef\xbb\xbf\n a , b\t,\"c d\"\r\n1,2,3\n");
  ASSERT_TRUE(reader);
  EXPECT_THAT(reader->columns(), ElementsAre("a", "b", "c d"));
  EXPECT_EQ(reader->find("b"), 1u);
  EXPECT_FALSE(reader->find("x"));
  EXPECT_THAT(rows("a,b\n1, 2 \r\n\n  \n3,\n"), ElementsAre(ElementsAre("1", "2"), ElementsAre("3", "")));
}

TEST_F(Csv, Quotes) {
  EXPECT_THAT(rows("a,b,c\n\"x,y\",\"say \"\"hi\"\"\",\"\"\n \" x \" ,2,\"\"\"\"\n"),
              ElementsAre(ElementsAre("x,y", "say \"hi\"", ""), ElementsAre(" x ", "2", "\"")));
  EXPECT_THAT(rows("a,b\n\"x,2\n")[0][0], HasSubstr(":2: the quote before \"x,2\" is not closed on this line"));
  EXPECT_THAT(rows("a,b\n\"x\"y,2\n")[0][0], HasSubstr(":2: text after a closing quote: \"y,2\""));
}

TEST_F(Csv, ComplainsAboutHeadersAndFieldCounts) {
  EXPECT_THAT(open("").error().message, HasSubstr("the file is empty; a header line is needed"));
  EXPECT_THAT(open("a,b,a\n").error().message, HasSubstr(":1: two columns are named \"a\""));
  EXPECT_THAT(rows("a,b\n1,2\n1\n")[1][0],
              HasSubstr(":3: 1 fields found; 2 are needed, as the header has \"a\", \"b\""));
  EXPECT_THAT(open("arival_s,b\n")->need("arrival_s").error().message,
              HasSubstr("the column arrival_s is missing (did you mean arival_s?); found \"arival_s\", \"b\""));
}

TEST_F(Csv, Numbers) {
  auto reader = open("a,b,c,d,e,f,g\n1.5,+2,nan,inf,,1e999,0x10\n");
  ASSERT_TRUE(reader->next().value());
  EXPECT_EQ(reader->number(0).value(), 1.5);
  EXPECT_EQ(reader->number(1).value(), 2);
  EXPECT_EQ(reader->number(2).error().message, path_ + ":2: column c: found \"nan\"; a finite number is needed");
  for (std::size_t i = 2; i < 7; ++i) EXPECT_FALSE(reader->number(i)) << i;
}

TEST_F(Csv, Integers) {
  auto reader = open("a,b,c,d,e,f\n12,12.0,12.5,-3,1e3,99999999999999999999\n");
  ASSERT_TRUE(reader->next().value());
  EXPECT_EQ(reader->integer(0, 0, 100).value(), 12);
  EXPECT_EQ(reader->integer(1, 0, 100).value(), 12);
  EXPECT_EQ(reader->integer(4, 0, 1000).value(), 1000);
  EXPECT_FALSE(reader->integer(2, 0, 100));
  EXPECT_FALSE(reader->integer(5, 0, INT64_MAX));
  EXPECT_EQ(reader->integer(3, 1, 9).error().message,
            path_ + ":2: column d: found \"-3\"; an integer from 1 to 9 is needed");
}

TEST_F(Csv, DamagedTextIsShownSafely) {
  auto reader = open(std::string_view("a,b\n\0\x1b[31m,2\n", 14));
  ASSERT_TRUE(reader->next().value());
  EXPECT_THAT(reader->number(0).error().message, HasSubstr("found \"\\x00\\x1b[31m\""));
}

// Any table survives quoting and reading back.
TEST_F(Csv, RoundTripsRandomFields) {
  Rng rng = Rng::stream(2, 0, "csv");
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t width = 1 + rng.below(5);
    std::string text;
    for (std::size_t i = 0; i < width; ++i) text += (i == 0 ? "c" : ",c") + std::to_string(i);
    std::vector<std::vector<std::string>> expected;
    for (std::uint64_t row = rng.below(20); row > 0; --row) {
      expected.emplace_back();
      text += '\n';
      for (std::size_t i = 0; i < width; ++i) {
        std::string field;
        for (std::uint64_t n = rng.below(6); n > 0; --n) field += "ab,\" 1"[rng.below(6)];
        std::string quoted = "\"";
        for (const char c : field) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
        text += (i == 0 ? "" : ",") + quoted + "\"";
        expected.back().push_back(std::move(field));
      }
    }
    EXPECT_EQ(rows(text + "\n"), expected);
  }
}

TEST_F(Csv, RandomBytesNeverCrash) {
  Rng rng = Rng::stream(3, 0, "csv");
  const std::string valid = "a,b,\"c\"\n1,2,3\n\"x\"\"y\",5,6\n7,8,9\n";
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    std::string text = valid;
    for (std::uint64_t n = 1 + rng.below(6); n > 0; --n)
      text[rng.below(text.size())] = rng.below(2) == 0 ? static_cast<char>(rng.below(256)) : "\",\n\r "[rng.below(5)];
    auto reader = open(text);
    if (!reader) continue;
    for (auto more = reader->next(); more && *more; more = reader->next())
      for (std::size_t i = 0; i < reader->columns().size(); ++i) static_cast<void>(reader->number(i));
  }
}

}  // namespace
}  // namespace muster::files
