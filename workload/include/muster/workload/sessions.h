// Multi-turn conversations: sessions whose turns repeat all that was said before, behind shared system prompts.
#pragma once

#include <cstdint>

#include "muster/core/result.h"
#include "muster/core/time.h"
#include "muster/workload/arrivals.h"
#include "muster/workload/profile.h"
#include "muster/workload/trace.h"

namespace muster::workload {

// Log-normal lengths, rounded to whole tokens, at least 1. p95 = median: all of one length.
struct TokenLengths {
  double median = 1;
  double p95 = 1;
};

struct SessionSettings {
  double sessions_per_s = 0.1;
  ArrivalProcess arrivals;  // of sessions
  Duration span{3'600s};    // sessions begin within it; their later turns may come after it
  double turns_mean = 4;    // geometric: after each turn the session ends with probability 1 / turns_mean
  int system_prompts = 8;   // so many different ones; 0: none
  double system_zipf = 1;   // the i-th is chosen with probability ~ i^-zipf; 0: all alike
  int system_prompt_tokens = 1024;
  TokenLengths first_text = {.median = 200, .p95 = 2000};  // what the user writes in the first turn
  TokenLengths next_text = {.median = 60, .p95 = 400};     // and in each later one
  TokenLengths answer = {.median = 250, .p95 = 900};
  const Profile* answer_profile = nullptr;  // if given: answers are as long as this profile's outputs instead
  Duration think_mean{30s};                 // exponential; from the end of an answer to the next turn
  Duration answer_token_time{30ms};         // for the arrivals of later turns, which are estimates
  std::int64_t context_tokens_max = 131'072;
  int block_tokens = 16;  // a power of two up to 65536
  std::uint64_t seed = 1;
  std::uint64_t run = 0;  // replication
  std::uint64_t requests_max = 100'000'000;
};

// A trace with session, think and block ids that cover prompt and answer. A first prompt is the system prompt and the
// user's text; each later one is the prompt and the answer before it and new text, so that its first whole blocks are
// the turn's before. Sessions share the whole blocks of their system prompt and nothing else. A session ends early
// where prompt and answer would pass context_tokens_max (a first turn is cut to fit it), so that turns_mean is the mean
// where that does not happen. Arrivals, for an open loop: the turn before + its answer's tokens x answer_token_time +
// think. Sessions are numbered by their first arrival. Deterministic by (seed, run); arrivals, turns, system prompts,
// lengths and think times have random streams of their own. Fails on settings out of range, over requests_max requests,
// or over 2^32 block ids.
Result<Trace> synthesise_sessions(const SessionSettings& settings);

}  // namespace muster::workload
