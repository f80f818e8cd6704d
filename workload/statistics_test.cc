#include "muster/workload/statistics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "muster/core/rng.h"
#include "muster/core/text.h"
#include "muster/files/lines.h"
#include "muster/workload/read.h"
#include "quantile.h"
#include "test_files.h"

namespace muster::workload {
namespace {

Request at(double t_s, std::int32_t input, std::int32_t output) {
  Request r;
  r.arrival = from_seconds(t_s);
  r.input_tokens = input;
  r.output_tokens = output;
  return r;
}

TEST(Statistics, OfASmallTraceByHand) {
  Trace trace;
  trace.requests = {at(10, 100, 1), at(11, 200, 4), at(11, 300, 3), at(20, 400, 2)};
  const TraceStatistics s = statistics(trace, 300s);
  EXPECT_EQ(s.requests, 4u);
  EXPECT_EQ(s.span_s, 10);
  EXPECT_DOUBLE_EQ(s.rate_rps, 0.4);
  // Gaps 1, 0, 9: mean 10/3, variance (49 + 100 + 289) / 27.
  EXPECT_NEAR(s.interarrival_cv, std::sqrt(438.0 / 27) / (10.0 / 3), 1e-12);
  EXPECT_DOUBLE_EQ(s.input.p50, 250);
  EXPECT_DOUBLE_EQ(s.input.p90, 370);
  EXPECT_DOUBLE_EQ(s.context.max, 402);
  EXPECT_NEAR(s.length_correlation, 0.2, 1e-12);  // ranks 1 2 3 4 and 1 4 3 2: 1 - 6 * 8 / 60
  EXPECT_DOUBLE_EQ(s.peak_window_s, 1);
  EXPECT_DOUBLE_EQ(s.peak_rate_rps, 2);  // the two at 11 s: the window is half open
  EXPECT_DOUBLE_EQ(s.peak_begin_s, 11);
  EXPECT_THAT(s.rate_curve_rps, testing::ElementsAre(1, 2, 0, 0, 0, 0, 0, 0, 0, 1));
}

TEST(Statistics, OfNothingAndOfOne) {
  EXPECT_EQ(statistics(Trace(), 300s).rate_rps, 0);
  Trace one;
  one.requests = {at(5, 10, 20)};
  const TraceStatistics s = statistics(one, 300s);
  EXPECT_EQ(s.requests, 1u);
  EXPECT_EQ(s.rate_rps, 0);
  EXPECT_EQ(s.input.p99, 10);
  EXPECT_EQ(s.peak_rate_rps, 0);
}

TEST(Statistics, CountsReusedPrefixBlocks) {
  Trace trace;
  trace.requests = {at(0, 1024, 1), at(1, 1024, 1)};
  trace.block_ids = {1, 2, 1, 3};
  trace.requests[0].block_count = trace.requests[1].block_count = 2;
  trace.requests[1].first_block = 2;
  EXPECT_DOUBLE_EQ(statistics(trace, 300s).prefix_reuse, 0.25);
  EXPECT_EQ(statistics(trace, 300s).sessions, 0u);
}

// Blocks of 10 tokens. The first turn says 25 + 10 tokens: 4 ids, the last part-filled. The second's prompt of 45
// tokens has 5 blocks, of which the first turn left 3 whole ones.
TEST(Statistics, PrefixReuseOfSessionsCountsPromptsAndWholeBlocksOnly) {
  Trace trace;
  trace.block_tokens = 10;
  trace.block_ids = {0, 1, 2, 3, 4, 5};
  trace.requests.resize(3);
  trace.requests[0] = {.input_tokens = 25, .output_tokens = 10, .block_count = 4, .session = 0};
  trace.requests[1] = {.arrival = 1s, .input_tokens = 45, .output_tokens = 10, .block_count = 6, .session = 0};
  trace.requests[2] = {.arrival = 2s, .input_tokens = 5, .output_tokens = 1};
  const TraceStatistics s = statistics(trace, 300s);
  EXPECT_DOUBLE_EQ(s.prefix_reuse, 3.0 / 8);  // 3 blocks of the first prompt, 5 of the second
  EXPECT_EQ(s.sessions, 1u);
  EXPECT_DOUBLE_EQ(s.turns_per_session, 2);
}

// The sliding peak against trying every arrival with its own count.
TEST(Statistics, PeakAgreesWithTheSlowWay) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "peak");
    Trace trace;
    double t = 0;
    for (int i = 0; i < 300; ++i) trace.requests.push_back(at(t += rng.below(4) == 0 ? 0 : rng.exponential(1), 1, 1));
    const TraceStatistics s = statistics(trace, 10s);
    std::size_t most = 0;
    for (const Request& a : trace.requests)
      most = std::max(
          most,
          static_cast<std::size_t>(std::count_if(trace.requests.begin(), trace.requests.end(), [&](const Request& b) {
            return b.arrival >= a.arrival && b.arrival < a.arrival + from_seconds(s.peak_window_s);
          })));
    EXPECT_DOUBLE_EQ(s.peak_rate_rps, static_cast<double>(most) / s.peak_window_s);
  }
}

TEST(Quantile, InterpolatesBetweenRanks) {
  const std::vector<int> values = {1, 2, 4, 8};
  const std::span<const int> span(values);
  EXPECT_EQ(interpolated_quantile(span, 0), 1);
  EXPECT_EQ(interpolated_quantile(span, 0.5), 3);
  EXPECT_DOUBLE_EQ(interpolated_quantile(span, 0.9), 6.8);
  EXPECT_EQ(interpolated_quantile(span, 1), 8);
  EXPECT_EQ(interpolated_quantile(span.first(1), 0.3), 1);
}

double number(std::string_view text) {
  return std::stod(std::string(trim(text)));
}

void expect_percentiles(const LengthStatistics& s, std::string_view published) {
  const auto values = split(trim(published), '/');
  ASSERT_EQ(values.size(), 5u);
  const double own[] = {s.p10, s.p50, s.p90, s.p99, s.max};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(own[i], number(values[i]), 0.0501) << i;  // printed with one decimal
}

// The table that came with the traces: rows, span, rate, CV, mean and p10/p50/p90/p99/max of both lengths, each to its
// last printed digit.
TEST(SharedTraces, StatisticsReproduceThePublishedTable) {
  const std::string table = shared_trace("PROVENANCE.md");
  MUSTER_NEEDS_SHARED_DATA(table);
  int checked = 0;
  const std::string text = files::read_file(table).value();
  for (const std::string_view line : split(text, '\n')) {
    const auto cells = split(line, '|');
    if (cells.size() != 12 || cells[1].find("csv.gz") == std::string_view::npos || trim(cells[4]) == "-") continue;
    const std::string name(trim(cells[1]).substr(1, trim(cells[1]).size() - 2));  // without the back quotes
    SCOPED_TRACE(name);
    const auto trace = read_trace(shared_trace(name));
    ASSERT_TRUE(trace) << trace.error().message;
    const TraceStatistics s = statistics(*trace, 300s);
    EXPECT_EQ(static_cast<double>(s.requests), number(cells[3]));
    EXPECT_NEAR(s.span_s, number(cells[4]), 0.000501);
    EXPECT_NEAR(s.rate_rps, number(cells[5]), 0.0000501);
    EXPECT_NEAR(s.interarrival_cv, number(cells[6]), 0.000501);
    EXPECT_NEAR(s.input.mean, number(cells[7]), 0.0501);
    expect_percentiles(s.input, cells[8]);
    EXPECT_NEAR(s.output.mean, number(cells[9]), 0.0501);
    expect_percentiles(s.output, cells[10]);
    ++checked;
  }
  EXPECT_EQ(checked, 13);
}

TEST(SharedTraces, PrefixReuseOfMooncakeIsAsPublished) {
  const std::string conversation = shared_trace("mooncake_conversation.csv.gz");
  MUSTER_NEEDS_SHARED_DATA(conversation);
  const Trace trace = read_trace(conversation).value();
  EXPECT_EQ(trace.block_tokens, 512);
  EXPECT_NEAR(statistics(trace, 300s).prefix_reuse, 0.366, 0.0005);
  EXPECT_NEAR(statistics(read_trace(shared_trace("mooncake_synthetic.csv.gz")).value(), 300s).prefix_reuse, 0.640,
              0.0005);
}

}  // namespace
}  // namespace muster::workload
