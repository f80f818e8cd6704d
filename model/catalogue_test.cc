#include "muster/model/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "muster/model/tensors.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

class ModelCatalogue : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("muster_model_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path folder_;
  Catalogue catalogue_ = Catalogue::built_in().value();
};

constexpr const char* kTiny = R"(key: tiny
name: Tiny
layers: 2
hidden_size: 64
intermediate_size: 128
attention_heads: 4
head_dim: 16
vocab_size: 256
max_position_embeddings: 512
sources: [me]
)";

TEST_F(ModelCatalogue, EveryFileIsNamedByItsKeyAndSaysItsSources) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SOURCE_DIR "/data/models")) {
    Catalogue one;
    const auto added = one.add_file(entry.path().string());
    ASSERT_TRUE(added) << added.error().message;
    ASSERT_EQ(one.keys().size(), 1U);
    EXPECT_EQ(one.keys()[0], entry.path().stem().string());
    const ModelSpec spec = one.find(one.keys()[0]).value();
    EXPECT_FALSE(spec.sources.empty()) << spec.key;
    EXPECT_FALSE(spec.family.empty()) << spec.key;
    EXPECT_EQ(spec.other_parameters > 0, !spec.other_source.empty()) << spec.key;
    EXPECT_TRUE(validate(spec)) << spec.key;
    ++files;
  }
  EXPECT_EQ(catalogue_.keys().size(), files);
  EXPECT_TRUE(std::ranges::is_sorted(catalogue_.keys()));
}

TEST_F(ModelCatalogue, SuggestsTheNearestKey) {
  EXPECT_THAT(catalogue_.find("lama-3.1-70b").error().message, HasSubstr("did you mean llama-3.1-70b?"));
  EXPECT_THAT(catalogue_.find("Qwen/Qwen3-32B").error().message, HasSubstr("did you mean qwen3-32b?"));
  EXPECT_THAT(catalogue_.find("nowhere/config.json").error().message, HasSubstr("no such file"));
  EXPECT_THAT(catalogue_.find("x.gguf").error().message, HasSubstr("x.gguf"));
}

TEST_F(ModelCatalogue, TakesFilesOfTheUser) {
  const std::string path = write("tiny.yaml", kTiny);
  EXPECT_EQ(catalogue_.find(path).value().key, "tiny");
  ASSERT_TRUE(catalogue_.add_file(path));
  EXPECT_EQ(catalogue_.find("tiny").value().kv_heads, 4);
  const std::size_t models = catalogue_.keys().size();
  ASSERT_TRUE(catalogue_.add_file(write("again.yaml", std::string(kTiny) + "kv_heads: 2\n")));  // replaces
  EXPECT_EQ(catalogue_.keys().size(), models);
  EXPECT_EQ(catalogue_.find("tiny").value().kv_heads, 2);
}

TEST_F(ModelCatalogue, TakesAHuggingFaceFolder) {
  write("config.json", R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512})");
  const ModelSpec spec = catalogue_.find(folder_.string()).value();
  EXPECT_EQ(spec.layers, 2);
  EXPECT_EQ(spec.key, (folder_ / "config.json").string());
}

TEST_F(ModelCatalogue, NamesFileLineAndField) {
  EXPECT_THAT(catalogue_.add_file(write("a.yaml", std::string(kTiny) + "hiden_size: 3\n")).error().message,
              HasSubstr("hidden_size"));
  EXPECT_THAT(catalogue_.add_file(write("b.yaml", std::string(kTiny) + "kv_heads: 3\n")).error().message,
              HasSubstr("attention_heads 4 is not a multiple of kv_heads 3"));
  EXPECT_THAT(catalogue_.add_file(write("c.yaml", std::string(kTiny) + "default_dtype: fp7\n")).error().message,
              HasSubstr("c.yaml:11"));
  EXPECT_THAT(catalogue_.add_file(write("d.yaml", std::string(kTiny) + "moe: {experts: 4}\n")).error().message,
              HasSubstr("experts_per_token"));
}

}  // namespace
}  // namespace muster::model
