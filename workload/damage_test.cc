// Damaged files never crash a reader: each is either read as a valid trace or refused with a message that names it.
#include <gmock/gmock.h>

#include <algorithm>

#include "muster/core/rng.h"
#include "muster/workload/profile.h"
#include "muster/workload/read.h"
#include "muster/workload/statistics.h"
#include "test_files.h"

namespace muster::workload {
namespace {

constexpr std::string_view kValid[] = {
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 "
    "18:15:50.9951690,396,109\n",
    "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [0, 1]}\n"
    "{\"timestamp\": 9, \"input_length\": 70, \"output_length\": 50, \"hash_ids\": [0]}\n",
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT,472,18,490,\"a, "
    "\"\"b\"\"\"\n9,GPT,4,0,4,x\n",
    "arrival_s,input_tokens,output_tokens,hash_ids,tenant\n0.5,3,4,1 2 3,a\n1e-3,5,6,,b\n",
    "{\"arrival_s\": 1.5e0, \"isl\": 3, \"osl\": 4, \"tenant\": \"x\\u0041\"}\n{\"osl\": 4, \"isl\": 2, \"arrival_s\": "
    "2}\n"};

std::string mutate(std::string text, Rng& rng) {
  constexpr std::string_view kSpecial = ",\"\n\r{}[]:-+.eE0123456789 \t\\";
  for (std::uint64_t n = 1 + rng.below(5); n > 0 && !text.empty(); --n) {
    const std::size_t at = rng.below(text.size());
    const char c = rng.below(3) == 0 ? static_cast<char>(rng.below(256)) : kSpecial[rng.below(kSpecial.size())];
    switch (rng.below(5)) {
      case 0:
        text.erase(at, 1 + rng.below(8));
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      case 2:
        text.insert(at, text.substr(at, rng.below(30)));
        break;  // a stutter
      default:
        text[at] = c;
    }
  }
  return text;
}

void expect_valid(const Trace& trace) {
  ASSERT_FALSE(trace.requests.empty());
  Duration last(0);
  for (const Request& r : trace.requests) {
    EXPECT_GE(r.arrival, last);
    last = r.arrival;
    EXPECT_GE(r.input_tokens, 1);
    EXPECT_GE(r.output_tokens, 1);
    EXPECT_LE(std::max(r.input_tokens, r.output_tokens), kTokensMax);
    EXPECT_LE(std::size_t{r.first_block} + r.block_count, trace.block_ids.size());
    EXPECT_LT(r.tenant, std::max<std::size_t>(trace.tenants.size(), 1));
  }
}

class Damage : public TestFiles {};

TEST_F(Damage, OfTracesIsReadOrRefused) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "damage");
    const std::string text = mutate(std::string(kValid[seed % std::size(kValid)]), rng);
    const std::string file = rng.below(8) == 0 ? put_gzip("t", text) : put("t", text);
    const auto trace = read_trace(file);
    static_cast<void>(recognise(file));
    if (!trace) {
      EXPECT_THAT(trace.error().message, testing::StartsWith(file + ":"));
      continue;
    }
    expect_valid(*trace);
    static_cast<void>(statistics(*trace, 300s));
    if (trace->requests.size() >= 2) static_cast<void>(fit(*trace, "x"));
  }
}

// Whatever a damaged profile still says, it makes a valid trace or none.
TEST_F(Damage, OfProfilesIsReadOrRefused) {
  Profile profile;
  profile.name = "p";
  profile.rate_curve_rps = {1, 2};
  profile.interarrival_cv = 2;
  profile.probabilities = {0, 0.5, 1};
  profile.bins = {{{1, 5, 9}, {1, 2, 3}}, {{10, 20, 90}, {1, 20, 30}}};
  const std::string valid = to_yaml(profile);
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "damage-profile");
    const auto read = parse_profile(mutate(valid, rng), "p.yaml");
    if (!read) {
      EXPECT_THAT(read.error().message, testing::StartsWith("p.yaml:"));
      continue;
    }
    for (const Arrivals arrivals : {Arrivals::kPoisson, Arrivals::kGamma, Arrivals::kOnOff}) {
      const auto trace = synthesise(*read, {.arrivals = arrivals, .duration = 60s, .requests_max = 10000});
      if (trace && !trace->requests.empty()) expect_valid(*trace);
    }
  }
}

}  // namespace
}  // namespace muster::workload
