#include "muster/workload/read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "muster/core/rng.h"
#include "muster/workload/sessions.h"
#include "test_files.h"
#include "time_text.h"

namespace muster::workload {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ReadTrace : public TestFiles {
 protected:
  Trace read(std::string_view text) {
    auto trace = read_trace(put("t", text));
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? *trace : Trace();
  }
  std::string error(std::string_view text) {
    const auto trace = read_trace(put("t", text));
    return trace ? "no error" : trace.error().message;
  }
  // "arrival in ms/input/output" of each request.
  static std::vector<std::string> rows(const Trace& trace) {
    std::vector<std::string> texts;
    for (const Request& r : trace.requests)
      texts.push_back(fmt::format("{}/{}/{}", to_ms(r.arrival), r.input_tokens, r.output_tokens));
    return texts;
  }
};

TEST_F(ReadTrace, AzureAsPublished) {
  const std::string_view text =
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:15:46.6805900,374,44\r\n"
      "2023-11-16 18:15:50.9951690,396,109\r\n"
      "2023-11-17 18:15:46.6805900,879,55\r\n";
  EXPECT_EQ(recognise(put("azure", text)).value(), Format::kAzure);
  EXPECT_THAT(rows(read(text)), ElementsAre("0/374/44", "4314.579/396/109", "86400000/879/55"));
}

TEST_F(ReadTrace, AzureOf2024HasZones) {
  EXPECT_THAT(rows(read("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
                        "2024-05-10T02:00:01.009930+02:00,2399,6\n")),
              ElementsAre("0/2162/5", "1000/2399/6"));
}

TEST_F(ReadTrace, MooncakeJsonLines) {
  const std::string_view text =
      "{\"timestamp\": 0, \"input_length\": 1300, \"output_length\": 500, \"hash_ids\": [0, 1, 2]}\n"
      "\n"
      "{\"timestamp\": 27482, \"input_length\": 700, \"output_length\": 490, \"hash_ids\": [0, "
      "18446744073709551615]}\n";
  EXPECT_EQ(recognise(put("mooncake", text)).value(), Format::kMooncake);
  const Trace trace = read(text);
  EXPECT_THAT(rows(trace), ElementsAre("0/1300/500", "27482/700/490"));
  EXPECT_THAT(trace.block_ids, ElementsAre(0u, 1u, 2u, 0u, UINT64_MAX));
  EXPECT_EQ(trace.requests[1].first_block, 3u);
  EXPECT_EQ(trace.requests[1].block_count, 2u);
  EXPECT_EQ(trace.block_tokens, 512);
}

TEST_F(ReadTrace, BailianJsonLinesAreSecondsWithBlocksOf16) {
  const Trace trace = read(
      "{\"chat_id\": 1, \"timestamp\": 61.114, \"input_length\": 40, \"output_length\": 3, \"hash_ids\": [7, 8, 9]}\n"
      "{\"chat_id\": 2, \"timestamp\": 61.214, \"input_length\": 17, \"output_length\": 3, \"hash_ids\": [7, 8]}\n");
  EXPECT_THAT(rows(trace), ElementsAre("61114/40/3", "61214/17/3"));
  EXPECT_EQ(trace.block_tokens, 16);
}

TEST_F(ReadTrace, BurstGptSkipsFailures) {
  const std::string_view text =
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n"
      "45,ChatGPT,1087,0,1087,Conversation log\n"
      "118,GPT-4,417,276,693,\"Conversation, API log\"\n";
  EXPECT_EQ(recognise(put("burst", text)).value(), Format::kBurstGpt);
  const Trace trace = read(text);
  EXPECT_THAT(rows(trace), ElementsAre("5000/472/18", "118000/417/276"));
  EXPECT_EQ(trace.skipped_failures, 1u);
  EXPECT_THAT(rows(read("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                        "0.5,abc,1.2,GPT-4,10,20,30,API log\n")),
              ElementsAre("500/10/20"));
}

TEST_F(ReadTrace, PlainColumnsUnderTheirUsualNames) {
  EXPECT_THAT(rows(read("arrival_ms,input_tokens,output_tokens\n21,909,22\n")), ElementsAre("21/909/22"));
  EXPECT_THAT(rows(read("isl,osl,arrival_s\n1,2,0.5\n")), ElementsAre("500/1/2"));
  EXPECT_THAT(rows(read("timestamp,prompt_tokens,completion_tokens\n1.5,3,4\n")), ElementsAre("1500/3/4"));
  EXPECT_THAT(rows(read("timestamp,prompt_tokens,completion_tokens\n1700000000123,3,4\n1700000001123,5,6\n")),
              ElementsAre("0/3/4", "1000/5/6"));
  EXPECT_THAT(rows(read("arrived_at,num_prefill_tokens,num_decode_tokens\n2,3,4\n")), ElementsAre("2000/3/4"));
  EXPECT_THAT(rows(read("{\"arrival_time_ns\": 46927000, \"input_toks\": 5, \"output_toks\": 6}")),
              ElementsAre("46.927/5/6"));
  EXPECT_THAT(rows(read("{\"timestamp\": \"2024-01-01T00:00:00Z\", \"prompt_tokens\": 5.0, \"completion_tokens\": 6}\n"
                        "{\"prompt_tokens\": 7, \"x\": {\"timestamp\": [1]}, \"completion_tokens\": 8, "
                        "\"timestamp\": \"2024-01-01T00:00:02Z\"}\n")),
              ElementsAre("0/5/6", "2000/7/8"));
}

TEST_F(ReadTrace, TenantsAreNumberedAsTheyAppear) {
  const Trace csv = read("arrival_s,input_tokens,output_tokens,tenant\n0,1,1,b\n1,1,1,a\n2,1,1,b\n3,1,1,\n");
  EXPECT_THAT(csv.tenants, ElementsAre("b", "a", ""));
  EXPECT_EQ(csv.requests[2].tenant, 0);
  EXPECT_EQ(csv.requests[3].tenant, 2);
  const Trace json = read(
      "{\"arrival_s\": 0, \"isl\": 1, \"osl\": 1}\n{\"arrival_s\": 1, \"isl\": 1, \"osl\": 1, \"tenant\": \"x\"}\n"
      "{\"arrival_s\": 2, \"isl\": 1, \"osl\": 1}\n");
  EXPECT_THAT(json.tenants, ElementsAre("", "x"));
  EXPECT_EQ(json.requests[1].tenant, 1);
  EXPECT_EQ(json.requests[2].tenant, 0);
}

TEST_F(ReadTrace, UnsortedTimesAreSortedStablyAndCounted) {
  const Trace trace = read("arrival_s,input_tokens,output_tokens\n3,1,1\n1,2,1\n2,3,1\n1,4,1\n4,5,1\n");
  EXPECT_THAT(rows(trace), ElementsAre("1000/2/1", "1000/4/1", "2000/3/1", "3000/1/1", "4000/5/1"));
  EXPECT_EQ(trace.repaired_order, 3u);
}

TEST_F(ReadTrace, ZeroLengthsAreReadAsOneAndCounted) {
  const Trace trace = read("arrival_s,input_tokens,output_tokens\n0,5,0\n1,0,5\n");
  EXPECT_THAT(rows(trace), ElementsAre("0/5/1", "1000/1/5"));
  EXPECT_EQ(trace.repaired_lengths, 2u);
}

TEST_F(ReadTrace, GzipIsRecognisedByItsContent) {
  const auto trace = read_trace(put_gzip("named.csv", "arrival_s,input_tokens,output_tokens\n0,5,6\n"));
  ASSERT_TRUE(trace);
  EXPECT_THAT(rows(*trace), ElementsAre("0/5/6"));
}

TEST_F(ReadTrace, SaysWhereAndWhatIsWrongInCsv) {
  const std::string header = "arrival_s,input_tokens,output_tokens\n0,1,1\n";
  EXPECT_THAT(error(header + "1,-5,1\n"), HasSubstr(":3: column input_tokens: found \"-5\"; an integer from 0 to"));
  EXPECT_THAT(error(header + "1,5,99999999\n"), HasSubstr(":3: column output_tokens: found \"99999999\""));
  EXPECT_THAT(error(header + "nan,5,1\n"),
              HasSubstr(":3: column arrival_s: found \"nan\"; a finite time of 0 or more"));
  EXPECT_THAT(error(header + "-1,5,1\n"), HasSubstr(":3: column arrival_s: found \"-1\""));
  EXPECT_THAT(error(header + "1e300,5,1\n"), HasSubstr(":3: column arrival_s: found \"1e300\""));
  EXPECT_THAT(error(header + "1,5.5,1\n"), HasSubstr(":3: column input_tokens: found \"5.5\""));
  EXPECT_THAT(error(header + "1,,1\n"), HasSubstr(":3: column input_tokens: found \"\""));
  EXPECT_THAT(error(header + "1,1\n"), HasSubstr(":3: 2 fields found; 3 are needed"));
  EXPECT_THAT(error("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n2023-13-16 18:15:46,1,1\n"),
              HasSubstr(":3: column TIMESTAMP: found \"2023-13-16 18:15:46\"; a date or time like the first row's"));
  EXPECT_THAT(error("arrival_s,input_tokens,output_tokens,hash_ids\n0,1,1,4 x\n"), HasSubstr("column hash_ids: found"));
}

TEST_F(ReadTrace, SaysWhereAndWhatIsWrongInJsonLines) {
  const std::string good = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n";
  EXPECT_THAT(error(good + "{\"timestamp\": 0, \"input_length\": 1}\n"),
              HasSubstr(":2: the key `output_length` is missing"));
  EXPECT_THAT(error(good + "{\"timestamp\": 0, \"input_length\": null, \"output_length\": 1}\n"),
              HasSubstr(":2: the key `input_length` is missing"));
  EXPECT_THAT(error(good + "{\"timestamp\": 0, \"input_length\": -1, \"output_length\": 1}\n"),
              HasSubstr(":2: key input_length: found \"-1\""));
  EXPECT_THAT(error(good + "{\"timestamp\": 0, \"input_length\": [1], \"input_length\": 1, \"output_length\": 1}\n"),
              HasSubstr(":2: the key \"input_length\" is given twice"));
  EXPECT_THAT(error(good + "{\"timestamp\": NaN, \"input_length\": 1, \"output_length\": 1}\n"),
              HasSubstr(":2: not a JSON object: "));
  EXPECT_THAT(error(good + "7\n"), HasSubstr(":2: one JSON object per line is needed"));
  EXPECT_THAT(error("{\"a\": 1}\n"),
              AllOf(HasSubstr(":1: not a trace of requests"), HasSubstr("The keys found: \"a\"")));
  EXPECT_THAT(error("[{\"timestamp\": 0}]"), HasSubstr("JSON Lines (one object per line) or CSV is needed"));
}

TEST_F(ReadTrace, WrongHeadersNameWhatIsFoundAndWhatIsNeeded) {
  EXPECT_THAT(error("time_of_day,input_tokens,output_tokens\n1,2,3\n"),
              AllOf(HasSubstr("these are lengths without arrivals"), HasSubstr("arrival_s, arrival_ms, timestamp"),
                    HasSubstr("The columns found: \"time_of_day\", \"input_tokens\", \"output_tokens\"")));
  EXPECT_THAT(error("window_start_s,rate_rps,active_clients\n0,1,2\n"), HasSubstr("a table of rates per window"));
  EXPECT_THAT(error(""), HasSubstr("the file is empty"));
  EXPECT_THAT(error("\n\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(error("arrival_s,input_tokens,output_tokens\n"), HasSubstr("no requests; at least one row is needed"));
  EXPECT_THAT(read_trace("/no/such/trace.csv").error().message, HasSubstr("/no/such/trace.csv: cannot be read"));
}

TEST_F(ReadTrace, WritingAndReadingGivesTheSameTrace) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng = Rng::stream(seed, 0, "round-trip");
    Trace trace;
    const bool blocks = rng.below(2) == 0;
    const bool sessions = rng.below(2) == 0;
    const std::string file = path(seed % 2 == 0 ? "out.csv" : "out.jsonl");
    if (rng.below(2) == 0) trace.tenants = {"a", "b, \"c\"", "", " d "};
    Duration at(0);
    for (std::uint64_t i = 0; i < 200; ++i) {
      Request r;
      at += Duration(static_cast<std::int64_t>(rng.below(3) == 0 ? 0 : rng.below(5'000'000'000)));
      r.arrival = at;
      r.input_tokens = static_cast<std::int32_t>(1 + rng.below(5000));
      r.output_tokens = static_cast<std::int32_t>(1 + rng.below(kTokensMax));
      // All tenants appear, in order, so that reading numbers them alike.
      if (!trace.tenants.empty()) r.tenant = static_cast<std::uint16_t>(i < 4 ? i : rng.below(4));
      // Sessions are numbered as they appear.
      if (sessions && (i < 4 || rng.below(3) > 0)) {
        r.session = static_cast<std::uint32_t>(i < 4 ? i : rng.below(4));
        r.think = Duration(static_cast<std::int64_t>(rng.below(2) * rng.below(90'000'000'000)));
      }
      r.first_block = static_cast<std::uint32_t>(trace.block_ids.size());
      if (blocks) r.block_count = static_cast<std::uint32_t>((r.input_tokens + 511) / 512);
      for (std::uint32_t b = 0; b < r.block_count; ++b) trace.block_ids.push_back(rng.next());
      trace.requests.push_back(r);
    }
    ASSERT_TRUE(write_trace(trace, file));
    const auto again = read_trace(file);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->block_ids, trace.block_ids);
    EXPECT_EQ(again->block_tokens, blocks ? 512 : 0);
    EXPECT_EQ(again->tenants, trace.tenants);
    ASSERT_EQ(again->requests.size(), trace.requests.size());
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const Request& a = trace.requests[i];
      const Request& b = again->requests[i];
      EXPECT_EQ(a.arrival, b.arrival);
      EXPECT_EQ(a.input_tokens, b.input_tokens);
      EXPECT_EQ(a.output_tokens, b.output_tokens);
      EXPECT_EQ(a.tenant, b.tenant);
      EXPECT_EQ(a.session, b.session);
      EXPECT_EQ(a.think, b.think);
      EXPECT_EQ(a.block_count, b.block_count);
    }
  }
}

TEST_F(ReadTrace, SessionsSurviveWritingAndReading) {
  const Trace trace = synthesise_sessions({.span = 300s, .block_tokens = 32}).value();
  for (const std::string name : {"sessions.csv", "sessions.jsonl"}) {
    ASSERT_TRUE(write_trace(trace, path(name)));
    const Trace again = read_trace(path(name)).value();
    EXPECT_EQ(again.block_tokens, 32);
    ASSERT_EQ(again.requests.size(), trace.requests.size());
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const Request& a = trace.requests[i];
      const Request& b = again.requests[i];
      EXPECT_EQ(a.arrival, b.arrival);
      EXPECT_EQ(a.session, b.session);
      EXPECT_EQ(a.think, b.think);
      EXPECT_TRUE(std::ranges::equal(content_blocks(trace, a), content_blocks(again, b)));
    }
  }
}

TEST_F(ReadTrace, SessionsMayHaveAnyNamesAndNeedNoThinkTime) {
  const std::string text =
      "arrival_s,input_tokens,output_tokens,session_id\n0,5,5,abc\n1,5,5,\n2,5,5,\"x,y\"\n3,15,5,abc\n";
  const Trace trace = read_trace(put("named.csv", text)).value();
  EXPECT_EQ(trace.requests[0].session, 0u);
  EXPECT_EQ(trace.requests[1].session, kNoSession);
  EXPECT_EQ(trace.requests[2].session, 1u);
  EXPECT_EQ(trace.requests[3].session, 0u);
  EXPECT_EQ(trace.requests[3].think, Duration(0));
  EXPECT_THAT(error("arrival_s,input_tokens,output_tokens,session,think_s\n0,1,1,4,-2\n"),
              HasSubstr(":2: column think_s: found \"-2\"; seconds of 0 or more are needed"));
}

TEST(TimeText, DecimalsAreExact) {
  EXPECT_EQ(parse_decimal_ns("0.1", 9), 100'000'000);
  EXPECT_EQ(parse_decimal_ns("1700000000.123456789", 9), 1'700'000'000'123'456'789);  // a double would lose 100 ns
  EXPECT_EQ(parse_decimal_ns("0.0000000015", 9), 2);
  EXPECT_EQ(parse_decimal_ns("1.5", 0), 2);
  EXPECT_EQ(parse_decimal_ns("-2.25", 6), -2'250'000);
  EXPECT_EQ(parse_decimal_ns("12.", 3), 12'000);
  EXPECT_EQ(parse_decimal_ns(".5", 9), 500'000'000);
  EXPECT_EQ(parse_decimal_ns("1.5e3", 6), 1'500'000'000);
  for (const std::string_view bad : {"", "-", ".", "nan", "inf", "1 2", "1.2.3", "0x1", "9999999999", "1e40"})
    EXPECT_FALSE(parse_decimal_ns(bad, 9)) << bad;
}

TEST(TimeText, Dates) {
  EXPECT_EQ(parse_date_ns("1970-01-02 00:00:00.5"), 86'400'500'000'000);
  EXPECT_EQ(parse_date_ns("1970-01-01T01:00:00+01:00"), 0);
  EXPECT_EQ(parse_date_ns("2024-02-29 00:00:00Z"), 1'709'164'800'000'000'000);
  for (const std::string_view bad : {"2023-02-29 00:00:00", "2023-01-01", "2023-01-01 24:00:00", "2023-01-01 00:00:00.",
                                     "2023-01-01 00:00:00x", "1969-01-01 00:00:00", "2023-1-01 00:00:00"})
    EXPECT_FALSE(parse_date_ns(bad)) << bad;
}

TEST(SharedTraces, TablesWithoutRequestsAreRefusedWithTheReason) {
  const std::string lengths = shared_trace("vidur_arxiv_summarization_lengths.csv.gz");
  MUSTER_NEEDS_SHARED_DATA(lengths);
  EXPECT_THAT(read_trace(lengths).error().message, HasSubstr("these are lengths without arrivals"));
  for (const char* model : {"m-large", "m-mid", "m-small", "deepseek-r1", "mm-image"})
    for (const char* kind : {"clients", "lengths", "rate"}) {
      const auto trace = read_trace(shared_trace(fmt::format("servegen_{}_{}.csv.gz", model, kind)));
      ASSERT_FALSE(trace);
      EXPECT_THAT(trace.error().message, HasSubstr("not a trace of requests, this is a table of "));
    }
}

}  // namespace
}  // namespace muster::workload
