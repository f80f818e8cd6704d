#include "muster/files/document.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/core/rng.h"

namespace muster::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Node parse(std::string_view text, const std::string& name = "f.yaml") {
  auto node = parse_document(text, name);
  EXPECT_TRUE(node) << node.error().message;
  return *node;
}
std::string error_of(std::string_view text, const std::string& name = "f.yaml") {
  const auto node = parse_document(text, name);
  return node ? "no error" : node.error().message;
}

constexpr std::string_view kFleet = R"(fleet: chat
pools:
  - name: a
    parallel: {tp: 4, pp: 1}
    rate: 200k
  - name: b
    empty:
zones: [x, y]
)";

TEST(Document, RemembersWhereThingsAre) {
  const Node root = parse(kFleet);
  const Node pool = root.find("pools")->items()[0];
  EXPECT_EQ(pool.find("parallel")->find("tp")->where(), "f.yaml:4: pools[0].parallel.tp");
  EXPECT_EQ(pool.find("parallel")->find("tp")->integer().value(), 4);
  EXPECT_EQ(pool.find("rate")->integer().value(), 200000);
  EXPECT_EQ(pool.find("name")->integer().error().message, "f.yaml:3: pools[0].name: found \"a\"; an integer is needed");
  EXPECT_EQ(root.find("zones")->text().error().message, "f.yaml:8: zones: found a list; a text is needed");
  EXPECT_FALSE(root.find("pools")->items()[1].find("empty"));
  EXPECT_FALSE(root.find("nothing"));
  EXPECT_EQ(root.entries()[2].first, "zones");
}

TEST(Document, Numbers) {
  const Node n = parse("[1.5G, 1M, 12.0, 1e3, 12.5, 9223372036854775807, 9223372036854775807k, .nan, k, '3', -2k]");
  const auto items = n.items();
  EXPECT_EQ(items[0].number().value(), 1.5e9);
  EXPECT_EQ(items[1].integer().value(), 1'000'000);
  EXPECT_EQ(items[2].integer().value(), 12);
  EXPECT_EQ(items[3].integer().value(), 1000);
  EXPECT_FALSE(items[4].integer());
  EXPECT_EQ(items[5].integer().value(), INT64_MAX);
  EXPECT_FALSE(items[6].integer());
  EXPECT_FALSE(items[7].number());
  EXPECT_FALSE(items[8].number());
  EXPECT_EQ(items[9].number().value(), 3);
  EXPECT_EQ(items[10].integer().value(), -2000);
}

TEST(Document, JsonIsTheSameWithItsLines) {
  const std::string_view text =
      "{\n\t\"a\": 1,\n\t\"b\":{\"c\":[true,\n null, 2.50,\n7\n],\"d\":\"\\ud83d\\ude00\\/x\"}\n}\n";
  const Node root = parse(text, "config.json");
  const auto items = root.find("b")->find("c")->items();
  ASSERT_EQ(items.size(), 4u);
  EXPECT_TRUE(items[0].boolean().value());
  EXPECT_TRUE(items[1].is_null());
  EXPECT_EQ(items[2].text().value(), "2.50");
  EXPECT_EQ(items[3].where(), "config.json:5: b.c[3]");  // a number that a line end follows
  EXPECT_EQ(root.find("a")->where(), "config.json:2: a");
  EXPECT_EQ(root.find("b")->find("d")->text().value(), "\xF0\x9F\x98\x80/x");
  EXPECT_EQ(parse("{a: 1, b: [x]}").find("a")->integer().value(), 1);  // YAML's flow style
  EXPECT_THAT(error_of("{\"a\": 1,\n \"b\" 2}", "c.json"), HasSubstr("c.json:2: "));
  EXPECT_THAT(error_of("{\"a\": 1,\n \"a\": 2}", "c.json"),
              HasSubstr("c.json:2: the key \"a\" was already given on line 1"));
}

TEST(Document, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(error_of("a: 1\nb: 2\na: 3\n"), HasSubstr("f.yaml:3: the key \"a\" was already given on line 1"));
  EXPECT_THAT(error_of("a: [1, 2\nb: 3"), HasSubstr("f.yaml:"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"), HasSubstr("a second document begins"));
  EXPECT_THAT(error_of("a: 1\n\x04\n"), HasSubstr("f.yaml:2: the control byte 0x04"));
  EXPECT_THAT(error_of("? [a, b]\n: 1\n"), HasSubstr("a key is needed"));
  EXPECT_THAT(error_of("a: *b\n"), HasSubstr("f.yaml:1"));
  EXPECT_THAT(error_of("a: &x [*x]\n"), HasSubstr("f.yaml:1"));
  EXPECT_TRUE(parse("").is_null());
}

TEST(Document, RefusesDeepNestingInEveryStyle) {
  const auto times = [](std::string_view piece, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += piece;
    return text;
  };
  EXPECT_EQ(error_of(times("[", 64) + times("]", 64)), "no error");
  for (const int n : {65, 1000, 100000}) {
    EXPECT_THAT(error_of(times("[", n)), HasSubstr("nested deeper than 64")) << n;
    EXPECT_THAT(error_of(times("- ", n) + "x"), HasSubstr("nested deeper than 64")) << n;
    EXPECT_THAT(error_of(times("{\"a\":", n)), HasSubstr("nested deeper than 64")) << n;
    EXPECT_THAT(error_of(times("{a: ", n) + "x" + times("}", n)), HasSubstr("nested deeper than 64")) << n;
  }
}

TEST(Document, AliasesAreCopiesButNotWithoutBound) {
  const Node root = parse("base: &b {x: 1}\nuse: *b\n");
  EXPECT_EQ(root.find("use")->find("x")->integer().value(), 1);
  EXPECT_EQ(root.find("use")->find("x")->where(), "f.yaml:1: use.x");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}", i, i - 1);
    for (int k = 0; k < 8; ++k) bomb += fmt::format(", *a{}", i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("the aliases unfold to over 1000000 values"));
}

TEST(Document, LargeFilesAreReadInReasonableTime) {
  std::string json = "{";
  std::string yaml;
  for (int i = 0; i < 50000; ++i) {
    const int key = i * 7919 % 50021;
    json += fmt::format("{}\"key{}\": {}", i == 0 ? "" : ",\n", key, i);
    if (i < 5000) yaml += fmt::format("key{}: {{a: {}}}\n", key, i);
  }
  EXPECT_EQ(parse(json + "}").find("key7919")->integer().value(), 1);
  EXPECT_EQ(parse(yaml).find("key7919")->find("a")->integer().value(), 1);
}

TEST(MapReader, ReadsEveryKindOfField) {
  MapReader read(parse("s: text\nd: 1.5\nb: yes\nu: 7\nl: [1, 2]\nw: [a, b]\nm: {x: 1}\nv: 0.19\n"));
  std::string s, v;
  double d = 0;
  bool b = false;
  std::uint16_t u = 0;
  std::vector<std::int32_t> l;
  std::vector<std::string> w;
  int absent = 5;
  read.required("s", s);
  read.required("v", v);
  read.required("d", d);
  read.required("b", b);
  read.required("u", u);
  read.required("l", l);
  read.required("w", w);
  read.optional("absent", absent);
  EXPECT_TRUE(read.required_child("m")->is_map());
  ASSERT_TRUE(read.finish());
  EXPECT_EQ(s, "text");
  EXPECT_EQ(v, "0.19");
  EXPECT_EQ(d, 1.5);
  EXPECT_TRUE(b);
  EXPECT_EQ(u, 7);
  EXPECT_THAT(l, ElementsAre(1, 2));
  EXPECT_THAT(w, ElementsAre("a", "b"));
  EXPECT_EQ(absent, 5);
}

TEST(MapReader, UnknownKeysAreErrorsWithAHint) {
  MapReader read(parse("replica: 3\nname: a\n"));
  std::string name;
  int replicas = 1;
  read.optional("replicas", replicas);
  read.required("name", name);
  EXPECT_EQ(read.finish().error().message, "f.yaml:1: replica: unknown key `replica` (did you mean replicas?)");
}

TEST(MapReader, TheFirstFailureSticks) {
  MapReader read(parse("pool:\n  replica: 3\n  small: 300\n").find("pool").value());
  int replicas = 0;
  std::uint8_t small = 0;
  read.required("replicas", replicas);
  read.required("small", small);
  EXPECT_FALSE(read.ok());
  EXPECT_EQ(read.finish().error().message, "f.yaml:2: pool: the key `replicas` is missing; found `replica`");

  MapReader again(parse("small: 300\n"));
  again.required("small", small);
  EXPECT_EQ(again.finish().error().message, "f.yaml:1: small: found 300; an integer from 0 to 255 is needed");

  MapReader list(parse("[1]"));
  EXPECT_EQ(list.finish().error().message, "f.yaml:1: found a list; a map is needed");
}

TEST(Document, RandomDamageNeverCrashes) {
  Rng rng = Rng::stream(4, 0, "document");
  const std::string json = R"({"a": [1, {"b": "x\u0041"}], "c": null, "d": -1.5e3})";
  const std::string_view special = "{}[]:,\"'&*!|>-?#%@` \n\t~<\\";
  for (int trial = 0; trial < 4000; ++trial) {
    SCOPED_TRACE(trial);
    std::string text = trial % 2 == 0 ? std::string(kFleet) : json;
    for (std::uint64_t n = 1 + rng.below(6); n > 0; --n)
      text[rng.below(text.size())] =
          rng.below(3) == 0 ? static_cast<char>(rng.below(256)) : special[rng.below(special.size())];
    static_cast<void>(parse_document(text, trial % 3 == 0 ? "f.json" : "f.yaml"));
  }
}

}  // namespace
}  // namespace muster::files
