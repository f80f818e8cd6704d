#include "muster/cost/fit_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "fixtures.h"
#include "muster/files/lines.h"
#include "muster/hardware/catalogue.h"
#include "operator_table.h"

namespace muster::cost {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class FitOperators : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("muster_fit_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(files::write_file((folder_ / name).string(), content));
  }
  Result<std::vector<FittedTable>> fit() {
    const std::vector<hardware::Gpu> gpus{fixtures::h100()};
    return fit_operators(folder_.string(), gpus, [](const std::string&) {});
  }
  fs::path folder_;
};

// A device that takes twice its roofline, and a launch of 3 us.
std::string twice_the_roofline() {
  const DeviceRates rates = device_rates(fixtures::h100());
  std::string csv = "gemm_dtype,m,n,k,latency_us\n";
  for (const double m : {1, 8, 64, 128, 512, 2048, 8192})
    for (const double n : {256, 1024, 4096, 16384})
      for (const double k : {256, 1024, 4096, 16384}) {
        const double us = 2e6 * (3e-6 + ideal_gemm(rates, weight_format("bf16"), {.n = n, .k = k}, m).bound_s());
        csv += fmt::format("bfloat16,{},{},{},{:.6f}\n", m, n, k, us);
      }
  return csv;
}

TEST_F(FitOperators, ReadsTheFolderAndNamesTheSource) {
  write("h100_sxm__vllm_9.9__gemm_perf.csv", twice_the_roofline());
  write("index.json", R"({"repo": "a/b", "commit": "0123456789abcdef",
                          "tables": [{"file": "h100_sxm__vllm_9.9__gemm_perf.csv", "source_path": "x.parquet"}]})");
  write("notes.txt", "not a table");
  const auto fitted = fit();
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_EQ(fitted->size(), 1U);
  EXPECT_EQ(fitted->front().file_name, "h100-sxm__vllm.table");
  const auto table = parse_operator_table(fitted->front().content, "x");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->engine_version, "9.9");
  const Grid* grid = table->find("gemm", "bf16");
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->source, "a/b@0123456789ab x.parquet");
  EXPECT_LT(grid->median_error, 0.001);
  for (const double factor : grid->factors) EXPECT_NEAR(factor, 2, 0.02);
}

TEST_F(FitOperators, KernelsThatWaitForTheHostAreLeftOut) {
  std::string csv = "kernel_source,gemm_dtype,m,n,k,latency_us\n";
  for (const char* m : {"1", "64", "4096"})
    csv += fmt::format("A,bfloat16,{0},1024,1024,5\nB,fp8_block,{0},1024,1024,180\n", m);
  write("h100_sxm__vllm_9.9__gemm_perf.csv", csv);
  const auto fitted = fit();
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_EQ(fitted->front().grids.size(), 1U);
  EXPECT_EQ(fitted->front().grids[0].key, "bf16");
}

TEST_F(FitOperators, ComplaintsNameFileAndLine) {
  EXPECT_THAT(fit().error().message, HasSubstr("no table named"));
  write("h100_sxm__vllm_9.9__gemm_perf.csv", "gemm_dtype,m,n,latency_us\nbfloat16,1,2,3\n");
  EXPECT_THAT(fit().error().message, HasSubstr("k"));
  write("h100_sxm__vllm_9.9__gemm_perf.csv", "gemm_dtype,m,n,k,latency_us\nbfloat16,1,2,3,nan\n");
  EXPECT_THAT(fit().error().message, HasSubstr(":2"));
  write("h100_sxm__vllm_9.9__gemm_perf.csv", "gemm_dtype,m,n,k,latency_us\nbfloat16,1,2,3,-4\n");
  EXPECT_THAT(fit().error().message, HasSubstr("must be positive"));
  fs::remove(folder_ / "h100_sxm__vllm_9.9__gemm_perf.csv");
  write("z9000__vllm_9.9__gemm_perf.csv", "gemm_dtype,m,n,k,latency_us\nbfloat16,1,2,3,4\n");
  EXPECT_THAT(fit().error().message, HasSubstr("z9000"));
}

// The tables in the repository are what the fitter makes of the measured rows: checked on the two smallest.
TEST_F(FitOperators, ReproducesTheBuiltInTables) {
  const fs::path measured = fs::path(MUSTER_SHARED_DATA) / "efficiency";
  if (!fs::exists(measured)) GTEST_SKIP() << measured << " is not here";
  for (const auto& entry : fs::directory_iterator(measured)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("a100_sxm__vllm") || name.starts_with("a100_sxm__nccl") || name == "index.json")
      fs::create_symlink(fs::absolute(entry.path()), folder_ / name);
  }
  const auto catalogue = hardware::Catalogue::built_in();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const auto fitted = fit_operators(folder_.string(), catalogue->gpus(), [](const std::string&) {});
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_EQ(fitted->size(), 1U);
  const auto shipped =
      files::read_file(std::string(MUSTER_SOURCE_DIR) + "/data/operators/" + fitted->front().file_name);
  ASSERT_TRUE(shipped) << shipped.error().message;
  const auto now = parse_operator_table(fitted->front().content, "now");
  const auto then = parse_operator_table(*shipped, "then");
  ASSERT_TRUE(now && then);
  ASSERT_EQ(now->grids.size(), then->grids.size());
  for (std::size_t g = 0; g < now->grids.size(); ++g)
    for (std::size_t i = 0; i < now->grids[g].factors.size(); ++i)
      EXPECT_NEAR(now->grids[g].factors[i] / then->grids[g].factors[i], 1, 0.02) << now->grids[g].op << " " << i;
}

}  // namespace
}  // namespace muster::cost
