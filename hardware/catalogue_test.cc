#include "muster/hardware/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace muster::hardware {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HardwareCatalogue : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("muster_hardware_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  std::string refusal(const std::string& text) {
    const auto added = catalogue_.add_file(write("refused.yaml", text));
    return added ? std::string("accepted") : added.error().message;
  }

  std::filesystem::path folder_;
  Catalogue catalogue_ = Catalogue::built_in().value();
};

constexpr const char* kTiny = R"(key: tiny
name: Tiny
vendor: me
memory_bytes: 8589934592
memory_gb_per_s: 100
dense_tflops: {fp32: 1}
scale_up: {technology: none, gb_per_s_each_way: 0, domain_gpus: 1}
sources: [me]
)";

TEST_F(HardwareCatalogue, EveryFileIsNamedByItsKey) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SOURCE_DIR "/data/gpus")) {
    Catalogue one;
    const auto added = one.add_file(entry.path().string());
    ASSERT_TRUE(added) << added.error().message;
    ASSERT_EQ(one.gpus().size(), 1U);
    EXPECT_EQ(one.gpus()[0].key, entry.path().stem().string());
    ++files;
  }
  EXPECT_EQ(catalogue_.gpus().size(), files);
  EXPECT_GE(files, 41U);
}

TEST_F(HardwareCatalogue, EveryDeviceHasWhatPlanningNeeds) {
  for (const Gpu& gpu : catalogue_.gpus()) {
    SCOPED_TRACE(gpu.key);
    EXPECT_GT(gpu.memory.value, Bytes(1 << 30).value);
    EXPECT_FALSE(gpu.memory_basis.empty());
    EXPECT_GT(gpu.memory_bytes_per_s, 1e10);
    EXPECT_TRUE(gpu.flops(Format::kFp16) || gpu.flops(Format::kBf16));
    EXPECT_FALSE(gpu.sources.empty());
    EXPECT_GE(gpu.scale_up.domain_gpus, 1);
    EXPECT_FALSE(gpu.is_slice);
    // Narrower formats are never slower, except where a maker has cut int8 (Blackwell Ultra) or not built it.
    if (gpu.flops(Format::kFp8) && gpu.flops(Format::kBf16)) {
      EXPECT_GE(*gpu.flops(Format::kFp8), *gpu.flops(Format::kBf16));
    }
    if (gpu.flops(Format::kFp4)) {
      EXPECT_GE(*gpu.flops(Format::kFp4), *gpu.flops(Format::kFp8));
    }
  }
}

TEST_F(HardwareCatalogue, PricesHaveTheirSource) {
  int priced = 0;
  for (const Gpu& gpu : catalogue_.gpus()) {
    for (const Price& price : gpu.prices) {
      EXPECT_FALSE(price.provider.empty() || price.source.empty() || price.date.empty()) << gpu.key;
      EXPECT_GT(price.usd_per_gpu_hour, 0) << gpu.key;
    }
    if (!gpu.price) continue;
    ++priced;
    EXPECT_THAT(gpu.price->provider, Not(HasSubstr("planner table"))) << gpu.key;
    // Where the AWS list has the device, that is the price quoted.
    const bool on_aws = std::ranges::any_of(gpu.prices, [](const Price& price) { return price.date == "2026-01-21"; });
    EXPECT_EQ(on_aws, gpu.price->date == "2026-01-21") << gpu.key;
  }
  EXPECT_GE(priced, 20);
  EXPECT_EQ(catalogue_.find("h100-sxm")->price->usd_per_gpu_hour, 6.88);
  EXPECT_FALSE(catalogue_.find("gb200")->price);
}

TEST_F(HardwareCatalogue, H100AsPublished) {
  const Gpu gpu = catalogue_.find("h100-sxm").value();
  EXPECT_EQ(gpu.memory.value, std::int64_t{81559} << 20);
  EXPECT_EQ(gpu.memory_bytes_per_s, 3.35e12);
  EXPECT_EQ(gpu.flops(Format::kBf16), 989e12);
  EXPECT_EQ(gpu.flops(Format::kFp8), 1979e12);
  EXPECT_FALSE(gpu.flops(Format::kFp4));
  EXPECT_EQ(gpu.scale_up.bytes_per_s, 450e9);
  EXPECT_EQ(gpu.scale_up.domain_gpus, 8);
  EXPECT_TRUE(gpu.scale_up.all_to_all);
  EXPECT_EQ(catalogue_.find("gb200")->scale_up.domain_gpus, 72);
  EXPECT_FALSE(catalogue_.find("mi300x")->scale_up.all_to_all);
  EXPECT_EQ(catalogue_.find("l40s")->scale_up.technology, "PCIe 4 x16");
}

TEST_F(HardwareCatalogue, SlicesTakeTheirShare) {
  const Gpu whole = catalogue_.find("h100-sxm").value();
  const Gpu slice = catalogue_.find("h100-sxm/1g.10gb").value();
  EXPECT_EQ(slice.key, "h100-sxm/1g.10gb");
  EXPECT_TRUE(slice.is_slice);
  EXPECT_EQ(slice.memory.value, std::int64_t{9984} << 20);
  EXPECT_DOUBLE_EQ(slice.compute_share, 1.0 / 7);
  EXPECT_DOUBLE_EQ(slice.memory_share, 1.0 / 8);
  EXPECT_DOUBLE_EQ(slice.memory_bytes_per_s, whole.memory_bytes_per_s / 8);
  EXPECT_DOUBLE_EQ(*slice.flops(Format::kBf16), 989e12 / 7);
  EXPECT_DOUBLE_EQ(slice.price->usd_per_gpu_hour, 6.88 / 8);
  EXPECT_EQ(slice.scale_up.domain_gpus, 1);
  EXPECT_EQ(slice.scale_up.bytes_per_s, 0);
  EXPECT_EQ(slice.multiprocessors, 16);
  // No listing for H200: an estimate that says so, a little under an eighth, and close to what the name promises.
  const Gpu estimated = catalogue_.find("h200-sxm/1g.18gb").value();
  EXPECT_THAT(estimated.memory_basis, HasSubstr("estimated"));
  EXPECT_NEAR(to_gib(estimated.memory), 17.25, 0.5);
}

TEST_F(HardwareCatalogue, SlicesOfADeviceLeaveOutTheMediaVariants) {
  std::vector<std::string> keys;
  for (const Gpu& slice : catalogue_.slices_of(catalogue_.find("a30").value())) keys.push_back(slice.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"a30/1g.6gb", "a30/2g.12gb", "a30/4g.24gb"}));
  EXPECT_TRUE(catalogue_.slices_of(catalogue_.find("l4").value()).empty());
  EXPECT_TRUE(catalogue_.slices_of(catalogue_.find("a30/1g.6gb").value()).empty());
}

// As many instances as a profile claims, at its own placements, must fit on the grid without sharing a memory slice and
// within the compute slices: tried over every choice of placements.
TEST_F(HardwareCatalogue, MigInstancesFitBesideEachOther) {
  std::size_t profiles = 0;
  for (const MigConfig& config : catalogue_.mig()) {
    for (const std::string& gpu : config.gpus) EXPECT_TRUE(catalogue_.find(gpu)) << gpu;
    for (const MigProfile& profile : config.profiles) {
      SCOPED_TRACE(config.name + " " + profile.name);
      ++profiles;
      int most = 0;
      const std::size_t starts = profile.placement_starts.size();
      for (unsigned chosen = 0; chosen < (1U << starts); ++chosen) {
        unsigned used = 0;
        bool apart = true;
        for (std::size_t i = 0; i < starts; ++i)
          if (chosen >> i & 1U) {
            const unsigned mask = ((1U << profile.placement_size) - 1) << profile.placement_starts[i];
            apart = apart && (used & mask) == 0;
            used |= mask;
          }
        const int count = std::popcount(chosen);
        if (apart && count * profile.compute_slices <= config.compute_slices_total) most = std::max(most, count);
      }
      EXPECT_EQ(profile.media_engines ? 1 : most, profile.max_instances);
      // "3g.40gb": three compute slices.
      EXPECT_EQ(std::stoi(profile.name), profile.compute_slices);
      EXPECT_GE(profile.placement_size, profile.memory_slices);
      if (profile.memory.value > 0) {
        const Gpu whole = catalogue_.find(config.gpus[0]).value();
        const double share = static_cast<double>(profile.memory_slices) / config.memory_slices_total;
        EXPECT_NEAR(static_cast<double>(profile.memory.value) / static_cast<double>(whole.memory.value) / share, 0.97,
                    0.07);
      }
    }
  }
  EXPECT_EQ(catalogue_.mig().size(), 13U);
  EXPECT_EQ(profiles, 85U);
}

TEST_F(HardwareCatalogue, NodesFitTheirDevices) {
  EXPECT_GE(catalogue_.nodes().size(), 54U);
  EXPECT_TRUE(std::ranges::is_sorted(catalogue_.nodes(), {}, &Node::key));
  for (const Node& node : catalogue_.nodes()) {
    SCOPED_TRACE(node.key);
    const auto gpu = catalogue_.find(node.gpu);
    ASSERT_TRUE(gpu) << gpu.error().message;
    EXPECT_FALSE(node.sources.empty());
    if (node.scale_up_gpus > 1) {
      EXPECT_EQ(node.scale_up_gpus, gpu->scale_up.domain_gpus);
    }
  }
}

TEST_F(HardwareCatalogue, UsualNode) {
  EXPECT_EQ(catalogue_.usual_node("h100-sxm")->scale_up_gpus, 8);
  EXPECT_EQ(catalogue_.usual_node("gb200")->scale_up_gpus, 72);
  EXPECT_EQ(catalogue_.usual_node("h100-sxm/1g.10gb")->gpu, "h100-sxm");
  EXPECT_EQ(catalogue_.usual_node("rtx4090"), std::nullopt);
  EXPECT_EQ(catalogue_.find_node("dgx-h100")->gpus, 8);
  EXPECT_THAT(catalogue_.find_node("dgx-h1000").error().message, HasSubstr("did you mean dgx-h100?"));
}

TEST_F(HardwareCatalogue, RefusalsName) {
  EXPECT_THAT(catalogue_.find("h100sxm").error().message, HasSubstr("did you mean h100-sxm?"));
  EXPECT_THAT(
      catalogue_.find("h100-sxm/1g.5gb").error().message,
      HasSubstr("no MIG profile 1g.5gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"));
  EXPECT_THAT(catalogue_.find("l4/1g.5gb").error().message, HasSubstr("no MIG profiles"));
}

TEST_F(HardwareCatalogue, TakesFilesOfTheUser) {
  ASSERT_TRUE(catalogue_.add_file(write("tiny.yaml", kTiny)));
  EXPECT_EQ(catalogue_.find("tiny")->memory_bytes_per_s, 100e9);
  ASSERT_TRUE(
      catalogue_.add_file(write("node.yaml", "nodes: [{key: box, name: Box, gpu: tiny, gpus: 2, sources: [me]}]")));
  EXPECT_EQ(catalogue_.usual_node("tiny")->key, "box");
  EXPECT_EQ(catalogue_.find_node("box")->scale_up_gpus, 1);
  ASSERT_TRUE(catalogue_.add_file(write("mig.yaml", R"(configs:
  - name: mine
    gpus: [tiny]
    compute_slices_total: 2
    memory_slices_total: 2
    evidence: mine
    profiles:
      - {name: 1g.4gb, compute_slices: 1, memory_slices: 1, max_instances: 2, placement_starts: [0, 1], placement_size: 1}
)")));
  EXPECT_DOUBLE_EQ(catalogue_.find("tiny/1g.4gb")->compute_share, 0.5);
}

TEST_F(HardwareCatalogue, BadFilesAreRefusedWithLineAndField) {
  EXPECT_THAT(refusal(std::string(kTiny) + "memory_gbs: 3\n"), HasSubstr("refused.yaml:9"));
  EXPECT_THAT(refusal("key: x\n"), HasSubstr("refused.yaml"));
  std::string slow = kTiny;
  slow.replace(slow.find("memory_gb_per_s: 100"), 20, "memory_gb_per_s: -10");
  EXPECT_THAT(refusal(slow), HasSubstr("-10 found; needed"));
  EXPECT_THAT(refusal("nodes: [{key: box, name: Box, gpu: h100-sxn, gpus: 2, sources: [me]}]"),
              HasSubstr("did you mean h100-sxm?"));
  EXPECT_THAT(
      refusal(
          "configs: [{name: m, gpus: [a30], compute_slices_total: 4, memory_slices_total: 4, evidence: e, profiles: "
          "[{name: 1g.6gb, compute_slices: 1, memory_slices: 1, max_instances: 1, placement_starts: [4], "
          "placement_size: 1}]}]"),
      HasSubstr("placement 4+1 is outside the 4 memory slices"));
  EXPECT_THAT(
      refusal(std::string(kTiny) + "prices: [{provider: p, usd_per_gpu_hour: 1, quoted: true, source: s, date: d}, "
                                   "{provider: q, usd_per_gpu_hour: 1, quoted: true, source: s, date: d}]\n"),
      HasSubstr("second price"));
}

}  // namespace
}  // namespace muster::hardware
