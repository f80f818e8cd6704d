#include "size_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/files/lines.h"

namespace muster::app {
namespace {

using testing::HasSubstr;

Result<SizeFile> read(const std::string& text) {
  const std::string path = testing::TempDir() + "/size_file_test.yaml";
  EXPECT_TRUE(files::write_file(path, text));
  return read_size(path);
}

const std::string kGood =
    "fleet: chat\nmodel: llama-3.1-70b\ngpu: h100-sxm\nzones: [a, b]\n"
    "traffic: {profile: p.yaml, scale: 2}\nslo: {e2e_p95_ms: 20000}\n";

TEST(SizeFile, ReadsWithDefaultsAndPathsBesideTheFile) {
  const Result<SizeFile> size = read(kGood);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(size->gpus, std::vector<std::string>{"h100-sxm"});
  EXPECT_EQ(size->headroom, 0.35);
  EXPECT_EQ(size->standby_per_zone, 1);
  EXPECT_EQ(std::filesystem::path(size->traffic.profile).parent_path(),
            std::filesystem::path(testing::TempDir() + "/x").parent_path());
}

TEST(SizeFile, AListOfDevicesIsAList) {
  const Result<SizeFile> size = read(kGood + "precision: [bf16, fp8]\n");
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(size->precisions, (std::vector<std::string>{"bf16", "fp8"}));
}

TEST(SizeFile, SaysWhatIsMissingOrWrong) {
  EXPECT_THAT(read("fleet: x\nmodel: y\ngpu: z\nslo: {e2e_p95_ms: 1}\n").error().message, HasSubstr("traffic"));
  EXPECT_THAT(read(kGood + "headrom: 0.3\n").error().message, HasSubstr("did you mean headroom?"));
  EXPECT_THAT(read(kGood + "headroom: -1\n").error().message, HasSubstr("headroom -1"));
  EXPECT_THAT(read("fleet: x\nmodel: y\ngpu: z\ntraffic: {profile: p}\n").error().message, HasSubstr("slo is missing"));
  EXPECT_THAT(
      read("fleet: x\nmodel: y\ngpu: z\ntraffic: {profile: p, trace: q}\nslo: {e2e_p95_ms: 1}\n").error().message,
      HasSubstr("one of them"));
}

}  // namespace
}  // namespace muster::app
