// A folder for the files of one test.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace muster::workload {

class TestFiles : public testing::Test {
 protected:
  TestFiles() {
    const testing::TestInfo* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "muster_" + info->test_suite_name() + "_" + info->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TestFiles() override { std::filesystem::remove_all(folder_); }

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

 private:
  std::string folder_;
};

// The measured traces that may lie beside the repository; empty if they do not.
inline std::string shared_trace(const std::string& name) {
  const std::string path = std::string(MUSTER_SHARED_DATA) + "/traces/" + name;
  return std::filesystem::exists(path) ? path : std::string();
}

#define MUSTER_NEEDS_SHARED_DATA(path) \
  if ((path).empty()) GTEST_SKIP() << "the measured traces are not present in " << MUSTER_SHARED_DATA << "/traces"

}  // namespace muster::workload
