#include "script.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

namespace muster::sched::testing {
namespace {

// Points failures at the line of the script.
struct At : ::testing::ScopedTrace {
  explicit At(const Script::Where& where) : ScopedTrace(where.file_name(), static_cast<int>(where.line()), "script") {}
};

}  // namespace

std::string to_text(const StepPlan& plan) {
  std::string text;
  for (const Piece& piece : plan.pieces) {
    text += fmt::format("{}{}:{}{}{}", text.empty() ? "" : " ", piece.id.value, piece.tokens, piece.decode ? "d" : "p",
                        piece.samples && !piece.decode ? "*" : "");
  }
  for (RequestId id : plan.preempted) text += fmt::format("{}-{}", text.empty() ? "" : " ", id.value);
  return text;
}

std::string to_text(const std::vector<RequestId>& ids) {
  std::string text;
  for (RequestId id : ids) text += fmt::format("{}{}", text.empty() ? "" : " ", id.value);
  return text;
}

Script& Script::at(std::int64_t ms) {
  now_ = Instant(std::chrono::milliseconds(ms));
  return *this;
}

bool Script::add(std::uint32_t id, const Lengths& lengths) {
  contents_.push_back(lengths.content);
  const bool added = scheduler_->add(now_, {.id = RequestId(id),
                                            .prompt_tokens = lengths.prompt,
                                            .max_tokens = lengths.max_tokens,
                                            .priority = lengths.priority,
                                            .content_blocks = contents_.back()});
  scheduler_->check();
  return added;
}

Script& Script::arrive(std::uint32_t id, Lengths lengths, Where where) {
  const At at(where);
  EXPECT_TRUE(add(id, lengths));
  return *this;
}

Script& Script::refuses(std::uint32_t id, Lengths lengths, Where where) {
  const At at(where);
  EXPECT_FALSE(add(id, lengths));
  return *this;
}

Script& Script::abort(std::uint32_t id, Where where) {
  const At at(where);
  EXPECT_TRUE(scheduler_->abort(RequestId(id)));
  scheduler_->check();
  return *this;
}

Script& Script::knows_no(std::uint32_t id, Where where) {
  const At at(where);
  EXPECT_FALSE(scheduler_->abort(RequestId(id)));
  return *this;
}

Script& Script::schedules(std::string_view step, Where where) {
  const At at(where);
  StepPlan plan;
  const bool made = scheduler_->schedule(now_, plan);
  scheduler_->check();
  EXPECT_EQ(to_text(plan), step);
  EXPECT_EQ(made, !plan.pieces.empty());
  if (made) out_.push_back(plan);
  return *this;
}

Script& Script::done(std::string_view finished, Where where) {
  return done_with_stop({}, finished, where);
}

Script& Script::done_with_stop(const std::vector<RequestId>& stopped, std::string_view finished, Where where) {
  const At at(where);
  EXPECT_FALSE(out_.empty()) << "no step is out";
  if (out_.empty()) return *this;
  std::vector<RequestId> ids;
  scheduler_->finish_step(now_, out_.front(), stopped, ids);
  scheduler_->check();
  out_.pop_front();
  EXPECT_EQ(to_text(ids), finished);
  return *this;
}

Script& Script::repeats(int times, std::string_view step, Where where) {
  for (int i = 0; i < times; ++i) schedules(step, where).done("", where);
  return *this;
}

Script& Script::steps_alike(std::int64_t steps, Where where) {
  const At at(where);
  EXPECT_EQ(out_.size(), 1u);
  EXPECT_EQ(scheduler_->steps_alike(out_.front()), steps);
  return *this;
}

Script& Script::jumps(std::int64_t steps, std::string_view finished, Where where) {
  const At at(where);
  std::vector<RequestId> ids;
  scheduler_->finish_steps(now_, out_.front(), steps, ids);
  scheduler_->check();
  out_.pop_front();
  EXPECT_EQ(to_text(ids), finished);
  return *this;
}

Script& Script::holds(std::int64_t kv_blocks, Where where) {
  const At at(where);
  EXPECT_EQ(scheduler_->state().kv_blocks_used, kv_blocks);
  return *this;
}

Script& Script::has(std::int64_t running, std::int64_t waiting, Where where) {
  const At at(where);
  EXPECT_EQ(scheduler_->state().running, running);
  EXPECT_EQ(scheduler_->state().waiting, waiting);
  return *this;
}

Script& Script::found(std::int64_t hit, std::int64_t queried, Where where) {
  const At at(where);
  EXPECT_EQ(scheduler_->state().prefix_tokens_hit, hit);
  EXPECT_EQ(scheduler_->state().prefix_tokens_queried, queried);
  return *this;
}

Script& Script::prompt_tokens_waiting(std::int64_t tokens, Where where) {
  const At at(where);
  EXPECT_EQ(scheduler_->state().prompt_tokens_waiting, tokens);
  return *this;
}

}  // namespace muster::sched::testing
