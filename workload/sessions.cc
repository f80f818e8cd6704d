#include "muster/workload/sessions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lengths.h"
#include "muster/core/rng.h"
#include "sort.h"

namespace muster::workload {
namespace {

constexpr double kNormalP95 = 1.6448536269514722;  // the standard normal's 95 % point

std::int64_t draw(const TokenLengths& lengths, Rng& rng) {
  const double sigma = std::log(lengths.p95 / lengths.median) / kNormalP95;
  return whole_tokens(lengths.median * std::exp(sigma * rng.normal()));
}

// Index i from 0 with probability ~ (i + 1)^-s.
class Zipf {
 public:
  Zipf(int n, double s) {
    for (int i = 1; i <= n; ++i) cumulative_.push_back(std::pow(i, -s) + (i == 1 ? 0 : cumulative_.back()));
  }
  std::size_t draw(Rng& rng) const {
    const double at = rng.uniform() * cumulative_.back();
    return static_cast<std::size_t>(std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, at) -
                                    cumulative_.begin());
  }

 private:
  std::vector<double> cumulative_;
};

class SessionMaker {
 public:
  SessionMaker(const SessionSettings& settings, Trace& trace)
      : settings_(settings),
        trace_(trace),
        system_prompts_(settings.system_prompts, settings.system_zipf),
        system_tokens_(settings.system_prompts > 0 ? settings.system_prompt_tokens : 0),
        system_blocks_(system_tokens_ / settings.block_tokens),
        next_id_(static_cast<std::uint64_t>(settings.system_prompts) * static_cast<std::uint64_t>(system_blocks_)),
        turns_(stream("session turns")),
        prompts_(stream("system prompts")),
        texts_(stream("session texts")),
        answers_(stream("session answers")),
        think_(stream("think times")) {
    if (settings.answer_profile != nullptr) profile_.emplace(*settings.answer_profile, stream("session answers"));
  }

  // Appends the turns of a session that begins at `arrival`; false where the trace has become too large.
  bool add(Duration arrival, std::uint32_t session) {
    const std::size_t prompt = settings_.system_prompts > 0 ? system_prompts_.draw(prompts_) : 0;
    const std::uint64_t turns = turn_count();
    const std::size_t first_request = trace_.requests.size();
    std::int64_t context = system_tokens_;  // tokens said so far
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      std::int64_t text = draw(turn == 0 ? settings_.first_text : settings_.next_text, texts_);
      std::int64_t answer = answer_tokens();
      if (turn == 0) {
        text = std::min(text, settings_.context_tokens_max - context - 1);
        answer = std::min(answer, settings_.context_tokens_max - context - text);
      }
      if (context + text + answer > settings_.context_tokens_max) break;
      if (trace_.requests.size() >= settings_.requests_max) return false;
      Request request;
      if (turn > 0) {
        request.think = from_seconds(think_.exponential(to_seconds(settings_.think_mean)));
        arrival += trace_.requests.back().output_tokens * settings_.answer_token_time + request.think;
      }
      request.arrival = arrival;
      request.session = session;
      request.input_tokens = static_cast<std::int32_t>(context + text);
      request.output_tokens = static_cast<std::int32_t>(answer);
      context += text + answer;
      request.block_count = static_cast<std::uint32_t>(blocks_of(context));
      trace_.requests.push_back(request);
    }
    return add_blocks(prompt, blocks_of(context), first_request);
  }

 private:
  Rng stream(std::string_view name) const { return Rng::stream(settings_.seed, settings_.run, name); }
  std::int64_t blocks_of(std::int64_t tokens) const {
    return (tokens + settings_.block_tokens - 1) / settings_.block_tokens;
  }

  // Geometric from 1 on, by inversion: one draw per session.
  std::uint64_t turn_count() {
    const double u = turns_.uniform_open();
    if (settings_.turns_mean <= 1) return 1;
    return 1 + static_cast<std::uint64_t>(std::log(u) / std::log1p(-1 / settings_.turns_mean));
  }

  std::int64_t answer_tokens() {
    if (!profile_) return draw(settings_.answer, answers_);
    Request lengths;
    profile_->draw(lengths);
    return lengths.output_tokens;
  }

  // One stretch of ids for the whole session: each turn's are its beginning.
  bool add_blocks(std::size_t prompt, std::int64_t count, std::size_t first_request) {
    const std::size_t first = trace_.block_ids.size();
    if (first + static_cast<std::size_t>(count) > std::numeric_limits<std::uint32_t>::max()) return false;
    for (std::int64_t i = 0; i < count; ++i)
      trace_.block_ids.push_back(i < system_blocks_ ? prompt * static_cast<std::uint64_t>(system_blocks_) +
                                                          static_cast<std::uint64_t>(i)
                                                    : next_id_++);
    for (std::size_t r = first_request; r < trace_.requests.size(); ++r)
      trace_.requests[r].first_block = static_cast<std::uint32_t>(first);
    return true;
  }

  const SessionSettings& settings_;
  Trace& trace_;
  Zipf system_prompts_;
  std::int64_t system_tokens_, system_blocks_;
  std::uint64_t next_id_;  // ids below are the system prompts'
  Rng turns_, prompts_, texts_, answers_, think_;
  std::optional<Lengths> profile_;
};

Result<void> check_lengths(std::string_view what, const TokenLengths& lengths) {
  if (!(lengths.median >= 1 && lengths.median <= static_cast<double>(kTokensMax)))
    return fail("the median of {} is {} tokens; 1 to {} is needed", what, lengths.median, kTokensMax);
  if (!(lengths.p95 >= lengths.median && lengths.p95 <= static_cast<double>(kTokensMax)))
    return fail("the p95 of {} is {} tokens; its median {} up to {} is needed", what, lengths.p95, lengths.median,
                kTokensMax);
  return {};
}

Result<void> check(const SessionSettings& s) {
  if (!(s.sessions_per_s > 0) || !std::isfinite(s.sessions_per_s))
    return fail("the rate of sessions is {} per second; a number over 0 is needed", s.sessions_per_s);
  if (!(s.turns_mean >= 1 && s.turns_mean <= 1e6))
    return fail("the mean number of turns is {}; 1 to 1e6 is needed", s.turns_mean);
  if (s.system_prompts < 0 || s.system_prompts > 1'000'000)
    return fail("there are {} system prompts; 0 to 1000000 are needed", s.system_prompts);
  if (!(s.system_zipf >= 0 && s.system_zipf <= 100))
    return fail("the Zipf exponent of the system prompts is {}; 0 to 100 is needed", s.system_zipf);
  if (s.context_tokens_max < 2 || s.context_tokens_max > kTokensMax)
    return fail("the context limit is {} tokens; 2 to {} is needed", s.context_tokens_max, kTokensMax);
  if (s.system_prompt_tokens < 0 || s.system_prompt_tokens > s.context_tokens_max - 2)
    return fail("the system prompts have {} tokens; 0 to {} is needed: the context limit less a text and an answer",
                s.system_prompt_tokens, s.context_tokens_max - 2);
  if (s.block_tokens < 1 || s.block_tokens > 65536 || !std::has_single_bit(static_cast<unsigned>(s.block_tokens)))
    return fail("a prefix block has {} tokens; a power of two from 1 to 65536 is needed", s.block_tokens);
  if (s.think_mean < Duration(0) || s.think_mean > 1'000'000s)
    return fail("the mean think time is {} s; 0 to 1e6 is needed", to_seconds(s.think_mean));
  if (s.answer_token_time < Duration(0) || s.answer_token_time > 60s)
    return fail("the time per answer token is {} s; 0 to 60 is needed", to_seconds(s.answer_token_time));
  MUSTER_TRY_VOID(check_lengths("the first texts", s.first_text));
  MUSTER_TRY_VOID(check_lengths("the next texts", s.next_text));
  if (s.answer_profile == nullptr) return check_lengths("the answers", s.answer);
  if (s.answer_profile->bins.empty()) return fail("the profile {} has no lengths", s.answer_profile->name);
  return {};
}

}  // namespace

Result<Trace> synthesise_sessions(const SessionSettings& settings) {
  MUSTER_TRY_VOID(check(settings));
  const double span_s = to_seconds(settings.span);
  MUSTER_TRY(
      const std::vector<Duration> begins,
      arrivals(settings.arrivals,
               {.rates_rps = {settings.sessions_per_s}, .window_s = std::max(span_s, 1e-9), .duration_s = span_s},
               {.seed = settings.seed, .run = settings.run, .arrivals_max = settings.requests_max}));
  if (begins.empty())
    return fail("no session begins within {} s at {} sessions/s; a longer span or a higher rate is needed", span_s,
                settings.sessions_per_s);
  Trace trace;
  trace.source = "sessions";
  trace.block_tokens = settings.block_tokens;
  SessionMaker maker(settings, trace);
  for (std::size_t i = 0; i < begins.size(); ++i)
    if (!maker.add(begins[i], static_cast<std::uint32_t>(i)))
      return fail("the sessions make more than {} requests or 2^32 block ids", settings.requests_max);
  sort_by_arrival(trace.requests);
  return trace;
}

}  // namespace muster::workload
