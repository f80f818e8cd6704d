#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/core/rng.h"
#include "muster/files/lines.h"
#include "muster/report/measures.h"
#include "sweep_run.h"

namespace muster::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kFleet = R"(fleet: f
pools:
  - {name: chat, model: llama-3.1-8b, engine: vllm@0.19, gpu: h100-sxm, replicas: {initial: 2}, zones: [a]}
classes: [{name: c, rank: 0, slo: {e2e_p95_ms: 60000}}]
)";

template <class T>
std::string complaint_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

std::string values(std::string_view text) {
  const Result<Axis> axis = parse_axis(text);
  return axis ? axis->path + ": " + fmt::format("{}", fmt::join(axis->values, " | ")) : axis.error().message;
}

TEST(SweepAxis, ReadsListsRangesAndBrackets) {
  EXPECT_EQ(values("a.b=4..7"), "a.b: 4 | 5 | 6 | 7");
  EXPECT_EQ(values("a=4..12:4,20"), "a: 4 | 8 | 12 | 20");
  EXPECT_EQ(values("a=0.1..0.5:0.1"), "a: 0.1 | 0.2 | 0.3 | 0.4 | 0.5") << "both ends, no crumbs of binary fractions";
  EXPECT_EQ(values("a=5..9:3"), "a: 5 | 8");
  EXPECT_EQ(values("routing.policy=least-work, round-robin"), "routing.policy: least-work | round-robin");
  EXPECT_EQ(values("pools.0.zones=[a,b],[a, b, c]"), "pools.0.zones: [a,b] | [a, b, c]");
  EXPECT_EQ(values("pools.0.model=../models/config.json"), "pools.0.model: ../models/config.json");
  EXPECT_THAT(values("a"), HasSubstr("PATH=VALUES is needed"));
  EXPECT_THAT(values("a=1,,2"), HasSubstr("a value is empty"));
  EXPECT_THAT(values("a=1,2,1"), HasSubstr("the value 1 is given twice"));
  EXPECT_THAT(values("a=7..4"), HasSubstr("not smaller"));
  EXPECT_THAT(values("a=1..4:0"), HasSubstr("a step above 0"));
  EXPECT_THAT(values("a=1..1000000"), HasSubstr("over 10000 values"));
}

TEST(SweepShard, ReadsIOfN) {
  EXPECT_EQ(parse_shard("2/8")->i, 2u);
  for (const char* wrong : {"0/8", "9/8", "2", "2/", "/8", "a/b", "-1/4"}) EXPECT_FALSE(parse_shard(wrong)) << wrong;
}

Result<FleetFile> with(const std::vector<Setting>& settings) {
  const Result<std::string> document = edited(kFleet, "fleet.yaml", settings);
  if (!document) return std::unexpected(document.error());
  return parse_fleet(*document, "fleet.yaml with " + text(settings));
}

TEST(FleetEdit, SetsWhatIsThereAndWhatIsNot) {
  const FleetFile same = with({}).value();
  EXPECT_EQ(to_yaml(same, ""), to_yaml(parse_fleet(kFleet, "fleet.yaml").value(), ""))
      << "untouched, it stays the same fleet";
  const FleetFile fleet = with({{"pools.0.replicas.initial", "5"},
                                {"pools.chat.replicas.standby_per_zone", "1"},
                                {"pools.chat.zones", "[a, \"b\"]"},
                                {"pools.0.max_num_seqs", "64"},
                                {"routing.policy", "round-robin"},
                                {"classes.c.slo.e2e_p95_ms", "30k"}})
                              .value();
  EXPECT_EQ(fleet.pools[0].replicas_initial, 5);
  EXPECT_EQ(fleet.pools[0].standby_per_zone, 1);
  EXPECT_THAT(fleet.pools[0].zones, ElementsAre("a", "b"));
  EXPECT_EQ(fleet.pools[0].max_num_seqs, 64);
  EXPECT_EQ(fleet.routing_policy, "round-robin");
  EXPECT_EQ(fleet.classes[0].slo.e2e_p95_ms, 30000);
  EXPECT_FALSE(with({{"classes.0.slo", "null"}})->classes[0].slo.any()) << "null takes a field away";
}

TEST(FleetEdit, SaysWhatAPathLacks) {
  const auto complaint = [](const std::string& path, const std::string& value) {
    return complaint_of(with({{path, value}}));
  };
  EXPECT_THAT(complaint("pools.0.replicas.inital", "4"), HasSubstr("did you mean initial?"));
  EXPECT_THAT(complaint("routng.policy", "least-work"), HasSubstr("did you mean routing?"));
  EXPECT_THAT(complaint("pools.chatt.gpu", "l4"), HasSubstr("did you mean chat?"));
  EXPECT_THAT(complaint("pools.1.gpu", "l4"), HasSubstr("no item '1'"));
  EXPECT_THAT(complaint("pools.0.gpu.x", "l4"), HasSubstr("below the plain value \"h100-sxm\""));
  EXPECT_THAT(complaint("pools..gpu", "l4"), HasSubstr("a step of the path is empty"));
  EXPECT_THAT(complaint("pools.0.replicas.initial", "four"), HasSubstr("an integer is needed"));
}

SweepPlan small_plan() {
  return {.fleet = "fleet.yaml",
          .traffic = "t",
          .axes = {{"pools.0.replicas.initial", {"1", "2"}}, {"routing.policy", {"least-work", "round-robin"}}},
          .scales = {0.02, 0.05},
          .seeds = {3, 4, 5},
          .inputs = "0011"};
}

TEST(SweepPlan, NumbersEveryCombinationOnceAndShardsShareThem) {
  const SweepPlan plan = small_plan();
  ASSERT_EQ(plan.size(), 24u);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    texts.insert(plan.text(plan.point(i)));
    int owners = 0;
    for (std::size_t s = 1; s <= 5; ++s) owners += Shard{s, 5}.has(i);
    EXPECT_EQ(owners, 1);
  }
  EXPECT_EQ(texts.size(), 24u);
  EXPECT_EQ(plan.text(plan.point(0)), "pools.0.replicas.initial=1 routing.policy=least-work scale=0.02 seed=3");
  EXPECT_EQ(plan.text(plan.point(23)), "pools.0.replicas.initial=2 routing.policy=round-robin scale=0.05 seed=5");
}

class SweepFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sweep_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

PointRecord random_record(std::size_t index, Rng& rng) {
  PointRecord r{.index = index, .digest = fmt::format("{:016x}", rng.next()), .targets_met = rng.below(2) == 1};
  for (std::size_t m = 0; m < report::measures().size(); ++m)
    r.values.push_back(rng.below(8) == 0 ? std::nullopt
                                         : std::optional(rng.exponential(1) * std::pow(10, rng.normal())));
  return r;
}

TEST_F(SweepFiles, PointsComeBackToTheLastBit) {
  Rng rng = Rng::stream(31, 0, "records");
  const SweepPlan plan = small_plan();
  std::map<std::size_t, PointRecord> written;
  {
    const auto writer = PointsWriter::open(file("points.jsonl"), plan, {}).value();
    for (std::size_t i = 0; i < 20; ++i) {
      PointRecord r = random_record(i, rng);
      if (i == 7) r = {.index = 7, .refused = "pool \"chat\": does not\nfit"};
      ASSERT_TRUE(writer->append(r));
      written[i] = r;
    }
    EXPECT_THAT(complaint_of(PointsWriter::open(file("points.jsonl"), plan, {})),
                HasSubstr("another sweep is writing"));
  }
  EXPECT_EQ(read_points(file("points.jsonl"))->points, written);
  EXPECT_EQ(PointsWriter::open(file("points.jsonl"), plan, {}).value()->found(), written);
}

TEST_F(SweepFiles, AKilledWritersHalfLineIsRunAgain) {
  Rng rng = Rng::stream(32, 0, "records");
  const SweepPlan plan = small_plan();
  const std::string whole = head_line(plan, {}) + "\n" + point_line(plan, random_record(4, rng)) + "\n";
  const std::string path = file("points.jsonl");
  const std::string next = point_line(plan, random_record(5, rng));
  for (std::size_t cut = 0; cut < next.size(); cut += 37) {
    ASSERT_TRUE(files::write_file(path, whole + next.substr(0, cut)));
    const auto writer = PointsWriter::open(path, plan, {}).value();
    EXPECT_EQ(writer->found().size(), 1u);
    ASSERT_TRUE(writer->append(random_record(6, rng)));
    EXPECT_EQ(read_points(path)->points.size(), 2u) << "the half line is gone, not glued to the next";
  }
  ASSERT_TRUE(files::write_file(path, head_line(plan, {}).substr(0, 20)));
  EXPECT_TRUE(PointsWriter::open(path, plan, {})) << "killed in the head";
  ASSERT_TRUE(files::write_file(path, head_line(plan, {}) + "\n{\"point\": 99}\n"));
  EXPECT_THAT(complaint_of(PointsWriter::open(path, plan, {})), HasSubstr("line 2"));
}

TEST_F(SweepFiles, OtherInputsAreRefused) {
  SweepPlan plan = small_plan();
  ASSERT_TRUE(PointsWriter::open(file("points.jsonl"), plan, {}));
  const auto complaint = [&] { return complaint_of(PointsWriter::open(file("points.jsonl"), plan, {})); };
  plan.inputs = "0012";
  EXPECT_THAT(complaint(), HasSubstr("has changed"));
  plan.seeds = {1};
  EXPECT_THAT(complaint(), HasSubstr("other seeds"));
  plan.axes.pop_back();
  EXPECT_THAT(complaint(), HasSubstr("--set pools.0.replicas.initial=1,2 routing.policy=least-work,round-robin there"));
}

class SweepRuns : public SweepFiles {
 protected:
  SweepBase base() const {
    EXPECT_TRUE(files::write_file(file("fleet.yaml"), kFleet));
    return read_sweep_base({.fleet_path = file("fleet.yaml"),
                            .profile = std::string(MUSTER_SOURCE_DIR) + "/examples/profiles/azure-conv.yaml"})
        .value();
  }
  static SweepPlan plan(const SweepBase& base) {
    SweepPlan plan = small_plan();
    plan.fleet = base.inputs.fleet_path;
    plan.traffic = base.traffic.name();
    EXPECT_TRUE(digest_inputs(base, plan));
    return plan;
  }
  static Result<void> run(const SweepBase& base, const SweepPlan& plan, const Shard& shard, int threads,
                          const std::string& path) {
    const auto writer = PointsWriter::open(path, plan, shard);
    if (!writer) return std::unexpected(writer.error());
    return run_sweep(base, plan, shard, threads, **writer, [](const SweepProgress&) {});
  }
};

TEST_F(SweepRuns, InterruptedOrShardedGiveTheSameTable) {
  const SweepBase b = base();
  const SweepPlan p = plan(b);
  ASSERT_TRUE(run(b, p, {}, 1, file("whole/points.jsonl")));
  EXPECT_EQ(read_points(file("whole/points.jsonl"))->points.at(0).refused, "");
  const std::string whole = report::to_csv(table_of(p, read_points(file("whole/points.jsonl"))->points));

  // Interrupted in the middle of its eighth line.
  const std::string lines = files::read_file(file("whole/points.jsonl")).value();
  std::size_t at = 0;
  for (int i = 0; i < 7; ++i) at = lines.find('\n', at) + 1;
  ASSERT_TRUE(files::write_file(file("cut/points.jsonl"), lines.substr(0, at + 50)));
  ASSERT_TRUE(run(b, p, {}, 2, file("cut/points.jsonl")));
  EXPECT_EQ(report::to_csv(table_of(p, read_points(file("cut/points.jsonl"))->points)), whole);

  for (std::size_t s : {3u, 1u}) ASSERT_TRUE(run(b, p, {s, 3}, 2, file(fmt::format("shards/points-{}-of-3.jsonl", s))));
  const Result<MergedSweep> early = merge({file("shards")});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind, Error::Kind::kNo);
  EXPECT_THAT(early.error().message, testing::AllOf(HasSubstr("8 of 24 points are missing of shard 2 of 3"),
                                                    HasSubstr("1 (pools.0.replicas.initial=1")));
  ASSERT_TRUE(run(b, p, {2, 3}, 1, file("elsewhere/points-2-of-3.jsonl")));
  const MergedSweep merged = merge({file("shards"), file("elsewhere")}).value();
  EXPECT_EQ(report::to_csv(table_of(merged.plan, merged.points)), whole);
}

TEST_F(SweepRuns, ChecksTheAxesBeforeItStarts) {
  const SweepBase b = base();
  SweepPlan p = plan(b);
  EXPECT_TRUE(check_axes(b, p));
  p.axes[0].path = "pools.0.replicas.inital";
  EXPECT_THAT(complaint_of(check_axes(b, p)), HasSubstr("did you mean initial?"));
  p.axes = {{"routing.policy", {"least-work", "least-wrok"}}};
  EXPECT_THAT(complaint_of(check_axes(b, p)), HasSubstr("did you mean least-work?"));
  p.axes = {{"routing.policy", {"least-work"}}, {"routing.policy", {"round-robin"}}};
  EXPECT_THAT(complaint_of(check_axes(b, p)), HasSubstr("given twice"));
}

TEST_F(SweepRuns, AVariantThatCannotRunIsARowWithItsReason) {
  const SweepBase b = base();
  SweepPlan p = plan(b);
  p.axes = {{"pools.0.model", {"llama-3.1-8b", "llama-3.1-70b"}}};
  p.scales = {0.02};
  p.seeds = {1};
  ASSERT_TRUE(run(b, p, {}, 1, file("points.jsonl")));
  const report::Sweep table = table_of(p, read_points(file("points.jsonl"))->points);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].refused, "");
  EXPECT_EQ(table.rows[0].targets_met, 1);
  EXPECT_THAT(table.rows[1].refused, HasSubstr("does not run"));
}

}  // namespace
}  // namespace muster::app
