#include "muster/workload/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "muster/core/statistics.h"

namespace muster::workload {
namespace {

using testing::HasSubstr;

std::map<std::uint32_t, std::vector<Request>> by_session(const Trace& trace) {
  std::map<std::uint32_t, std::vector<Request>> sessions;
  for (const Request& r : trace.requests) sessions[r.session].push_back(r);
  return sessions;
}

std::int64_t common_blocks(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// Turn by turn, for many settings: a prompt is what was said before and more, its first blocks are those of the turn
// before, and two sessions share their system prompt's whole blocks or nothing.
TEST(Sessions, EachTurnBeginsWithTheTurnBefore) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SessionSettings settings{.sessions_per_s = 0.5,
                                   .span = 400s,
                                   .turns_mean = 1 + static_cast<double>(seed % 6),
                                   .system_prompts = static_cast<int>(seed % 4),
                                   .system_prompt_tokens = static_cast<int>(37 * seed),
                                   .context_tokens_max = seed % 2 == 0 ? 131'072 : 2500,
                                   .block_tokens = 1 << (seed % 8),
                                   .seed = seed};
    const Trace trace = synthesise_sessions(settings).value();
    EXPECT_EQ(trace.block_tokens, settings.block_tokens);
    EXPECT_TRUE(std::ranges::is_sorted(trace.requests, {}, &Request::arrival));
    const std::int64_t system_tokens = settings.system_prompts > 0 ? settings.system_prompt_tokens : 0;
    std::vector<Request> firsts;
    for (const auto& [session, turns] : by_session(trace)) {
      firsts.push_back(turns[0]);
      EXPECT_EQ(turns[0].think, Duration(0));
      EXPECT_GT(turns[0].input_tokens, system_tokens);
      for (std::size_t k = 0; k < turns.size(); ++k) {
        const std::int64_t context = std::int64_t{turns[k].input_tokens} + turns[k].output_tokens;
        EXPECT_LE(context, settings.context_tokens_max);
        EXPECT_EQ(turns[k].block_count, (context + settings.block_tokens - 1) / settings.block_tokens);
        if (k + 1 == turns.size()) continue;
        const Request& next = turns[k + 1];
        EXPECT_GT(next.input_tokens, context);
        EXPECT_EQ(next.arrival, turns[k].arrival + turns[k].output_tokens * settings.answer_token_time + next.think);
        const auto before = content_blocks(trace, turns[k]);
        EXPECT_EQ(common_blocks(before, content_blocks(trace, next)), static_cast<std::int64_t>(before.size()));
      }
    }
    for (std::size_t i = 1; i < firsts.size(); ++i) {
      const std::int64_t common = common_blocks(content_blocks(trace, firsts[0]), content_blocks(trace, firsts[i]));
      EXPECT_TRUE(common == 0 || common == system_tokens / settings.block_tokens) << common;
    }
  }
}

TEST(Sessions, HaveTheDistributionsThatWereAskedFor) {
  const SessionSettings settings{.sessions_per_s = 2,
                                 .arrivals = {.kind = Arrivals::kGamma, .cv = 0.5},
                                 .span = 10000s,
                                 .turns_mean = 5,
                                 .system_prompts = 3,
                                 .system_prompt_tokens = 64,
                                 .first_text = {.median = 300, .p95 = 1500},
                                 .next_text = {.median = 50, .p95 = 200},
                                 .answer = {.median = 200, .p95 = 600},
                                 .think_mean = 20s,
                                 .context_tokens_max = kTokensMax};
  const Trace trace = synthesise_sessions(settings).value();
  const auto sessions = by_session(trace);
  const auto n = static_cast<double>(sessions.size());
  EXPECT_NEAR(n, 20000, 5 * 0.5 * std::sqrt(20000));
  EXPECT_NEAR(static_cast<double>(trace.requests.size()) / n, 5, 5 * std::sqrt(20 / n));  // variance m (m - 1)
  Moments think;
  QuantileSketch first, next, answer;
  std::map<std::uint64_t, double> prompts;
  double single = 0;
  for (const auto& [session, turns] : sessions) {
    ++prompts[trace.block_ids[turns[0].first_block]];
    single += turns.size() == 1 ? 1 : 0;
    first.add(turns[0].input_tokens - 64);
    for (std::size_t k = 0; k < turns.size(); ++k) {
      answer.add(turns[k].output_tokens);
      if (k == 0) continue;
      think.add(to_seconds(turns[k].think));
      next.add(turns[k].input_tokens - turns[k - 1].input_tokens - turns[k - 1].output_tokens);
    }
  }
  EXPECT_NEAR(single / n, 0.2, 5 * std::sqrt(0.2 * 0.8 / n));
  EXPECT_NEAR(think.mean(), 20, 0.5);
  EXPECT_NEAR(std::sqrt(think.variance()), 20, 0.7);
  const auto near = [](const QuantileSketch& sketch, const TokenLengths& lengths) {
    EXPECT_NEAR(sketch.quantile(0.5), lengths.median, 0.04 * lengths.median);
    EXPECT_NEAR(sketch.quantile(0.95), lengths.p95, 0.06 * lengths.p95);
  };
  near(first, settings.first_text);
  near(next, settings.next_text);
  near(answer, settings.answer);
  // Zipf of exponent 1 over 3: 6/11, 3/11, 2/11; ids of the prompts' first blocks are 0, 4, 8.
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_NEAR(prompts[0] / n, 6.0 / 11, 0.02);
  EXPECT_NEAR(prompts[4] / n, 3.0 / 11, 0.02);
  EXPECT_NEAR(prompts[8] / n, 2.0 / 11, 0.02);
}

TEST(Sessions, TakeAnswersFromAProfile) {
  Profile profile;
  profile.probabilities = {0, 1};
  profile.bins = {{{10, 20}, {100, 200}}};
  const Trace trace = synthesise_sessions({.span = 2000s, .answer_profile = &profile}).value();
  Moments answers;
  for (const Request& r : trace.requests) answers.add(r.output_tokens);
  EXPECT_GE(answers.min(), 100);
  EXPECT_LE(answers.max(), 200);
  EXPECT_NEAR(answers.mean(), 150, 5);
}

TEST(Sessions, RepeatBySeedAndRun) {
  const auto text = [](std::uint64_t seed, std::uint64_t run) {
    std::string all;
    const Trace trace = synthesise_sessions({.seed = seed, .run = run}).value();
    for (const Request& r : trace.requests)
      all += fmt::format("{} {} {} {} {}\n", r.arrival.count(), r.session, r.input_tokens, r.output_tokens,
                         r.think.count());
    return all;
  };
  EXPECT_EQ(text(1, 0), text(1, 0));
  EXPECT_NE(text(1, 0), text(2, 0));
  EXPECT_NE(text(1, 0), text(1, 1));
}

TEST(Sessions, RefuseSenselessSettings) {
  const auto error = [](const SessionSettings& settings) {
    const auto trace = synthesise_sessions(settings);
    return trace ? "no error" : trace.error().message;
  };
  EXPECT_THAT(error({.sessions_per_s = 0}), HasSubstr("the rate of sessions is 0 per second; a number over 0"));
  EXPECT_THAT(error({.span = 0s}), HasSubstr("the duration is 0 s"));
  EXPECT_THAT(error({.turns_mean = 0.5}), HasSubstr("turns is 0.5; 1 to 1e6"));
  EXPECT_THAT(error({.system_prompts = -1}), HasSubstr("-1 system prompts"));
  EXPECT_THAT(error({.system_prompt_tokens = 1000, .context_tokens_max = 1001}), HasSubstr("1000 tokens; 0 to 999"));
  EXPECT_THAT(error({.answer = {.median = 10, .p95 = 9}}), HasSubstr("the p95 of the answers is 9 tokens"));
  EXPECT_THAT(error({.next_text = {.median = 0.5, .p95 = 9}}), HasSubstr("median of the next texts is 0.5 tokens"));
  EXPECT_THAT(error({.think_mean = -1s}), HasSubstr("think time is -1 s"));
  EXPECT_THAT(error({.block_tokens = 48}), HasSubstr("48 tokens; a power of two"));
  EXPECT_THAT(error({.requests_max = 400}), HasSubstr("more than 400 requests"));
}

}  // namespace
}  // namespace muster::workload
