// Prefix caching, one script per rule. Content blocks have 32 tokens, two KV blocks, unless a test says otherwise.
#include <gtest/gtest.h>

#include "testing/script.h"

namespace muster::sched {
namespace {

using testing::Script;

SchedulerLimits limits() {
  SchedulerLimits limits;
  limits.max_num_batched_tokens = 512;
  limits.max_num_seqs = 8;
  limits.kv_blocks = 1000;
  limits.prefix_caching = true;
  limits.content_block_tokens = 32;
  return limits;
}

SchedulerLimits with_blocks(std::int64_t kv_blocks) {
  SchedulerLimits l = limits();
  l.kv_blocks = kv_blocks;
  return l;
}

TEST(VllmPrefix, ASequenceStartsAfterWhatItSharesWithAnEarlierOne) {
  Script(limits())
      .arrive(1, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:70p*")
      .done("1")
      .holds(0)
      .found(0, 70)
      .arrive(2, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})
      .prompt_tokens_waiting(100)
      .schedules("2:36p*")
      .prompt_tokens_waiting(36)
      .holds(7)
      .found(64, 170);
}

TEST(VllmPrefix, WhatRunsIsSharedAndCountsOnce) {
  Script(limits())
      .arrive(1, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .schedules("1:70p*")
      .holds(5)
      .done()
      .arrive(2, {.prompt = 80, .max_tokens = 9, .content = {7, 8}})
      .schedules("1:1d 2:16p*")
      .holds(6)
      .abort(1)
      .holds(5);
}

TEST(VllmPrefix, OthersFindItInTheVeryStepThatComputesIt) {
  Script(limits())
      .arrive(1, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .arrive(2, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .schedules("1:70p* 2:6p*")
      .holds(6);
}

TEST(VllmPrefix, TheLastTokenIsAlwaysComputed) {
  Script(limits())
      .arrive(1, {.prompt = 64, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:64p*")
      .done("1")
      .arrive(2, {.prompt = 64, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:32p*");
}

TEST(VllmPrefix, EqualIdsAtOtherPlacesAreOtherContent) {
  Script(limits())
      .arrive(1, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:70p*")
      .done("1")
      .arrive(2, {.prompt = 70, .max_tokens = 1, .content = {8, 7}})
      .schedules("2:70p*")
      .done("2")
      .arrive(3, {.prompt = 70, .max_tokens = 1, .content = {7, 7}})
      .schedules("3:38p*");
}

TEST(VllmPrefix, AnAnswerIsFoundByTheNextTurn) {
  Script(limits())
      .arrive(1, {.prompt = 30, .max_tokens = 40, .content = {7, 8}})
      .schedules("1:30p*")
      .done()
      .schedules("1:1d")
      .jumps(39, "1")  // 69 tokens were computed: the last one sampled was not
      .arrive(2, {.prompt = 90, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:26p*");
}

TEST(VllmPrefix, LeastRecentlyUsedGoesFirstAndOfASequenceItsEnd) {
  Script(with_blocks(10))
      .arrive(1, {.prompt = 64, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:64p*")
      .done("1")
      .arrive(2, {.prompt = 64, .max_tokens = 1, .content = {5, 6}})
      .schedules("2:64p*")
      .done("2")
      .arrive(3, {.prompt = 33, .max_tokens = 1})  // three blocks: two unused ones, and one of content 8
      .schedules("3:33p*")
      .done("3")
      .arrive(4, {.prompt = 65, .max_tokens = 1, .content = {7, 8}})
      .schedules("4:33p*")  // three blocks: the other one of content 8, and content 6
      .done("4")
      .arrive(5, {.prompt = 65, .max_tokens = 1, .content = {5, 6}})
      .schedules("5:33p*")
      .found(64, 64 + 64 + 33 + 65 + 65);
}

TEST(VllmPrefix, APreemptedSequenceFindsItsOwnBlocks) {
  Script(with_blocks(6))
      .arrive(1, {.prompt = 40, .max_tokens = 40})
      .arrive(2, {.prompt = 40, .max_tokens = 20, .content = {7}})
      .schedules("1:40p* 2:40p*")
      .done()
      .repeats(8, "1:1d 2:1d")
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .schedules("1:1d -2")
      .done()
      .schedules("1:1d")  // 2 finds content 7, but needs its two free blocks and two more: no more are free
      .abort(1)
      .done()
      .schedules("2:17p* 3:10p*")
      .found(0, 90);  // only who starts for the first time counts
}

TEST(VllmPrefix, AHitNeedsItsFreeBlocksToo) {
  Script(with_blocks(8))
      .arrive(1, {.prompt = 64, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:64p*")
      .done("1")
      .arrive(2, {.prompt = 60, .max_tokens = 20})
      .schedules("2:60p*")
      .done()
      .arrive(3, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .schedules("2:1d")  // 3 finds four blocks, and all that are free are those
      .holds(4);
}

TEST(VllmPrefix, AJumpEndsBeforeTheFirstWaitingFindsLess) {
  SchedulerLimits small = with_blocks(9);
  small.max_num_batched_tokens = 64;
  Script(small)
      .arrive(1, {.prompt = 80, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:64p")
      .done()
      .schedules("1:16p*")
      .done("1")
      .arrive(2, {.prompt = 30, .max_tokens = 60})
      .schedules("2:30p*")
      .done()
      .schedules("2:1d")
      .arrive(3, {.prompt = 120, .max_tokens = 1, .content = {7, 8}})
      .steps_alike(50)  // 3 needs eight blocks of seven; the 81st token of 2 takes the first block of content 8
      .jumps(50)
      .schedules("2:1d")
      .steps_alike(9);
}

TEST(VllmPrefix, AJumpEndsBeforeTheFirstWaitingFindsMore) {
  Script(with_blocks(8))
      .arrive(1, {.prompt = 60, .max_tokens = 60, .content = {7, 8, 9}})
      .schedules("1:60p*")
      .done()
      .schedules("1:1d")
      .arrive(2, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})  // five blocks beside content 7, four are free
      .steps_alike(3)                                                     // the 64th token completes content 8
      .jumps(3)
      .schedules("1:1d 2:36p*");
}

TEST(VllmPrefix, WithoutCachingContentIsIgnored) {
  SchedulerLimits off = limits();
  off.prefix_caching = false;
  Script(off)
      .arrive(1, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:70p*")
      .done("1")
      .arrive(2, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:70p*")
      .found(0, 0);
}

TEST(VllmWatermark, StaysFreeWhenOneStartsBesideOthers) {
  SchedulerLimits tenth = with_blocks(10);
  tenth.admission_watermark = 0.25;  // two blocks
  Script(tenth)
      .arrive(1, {.prompt = 80, .max_tokens = 20})
      .arrive(2, {.prompt = 50, .max_tokens = 9})
      .schedules("1:80p*")  // 2 needs four of the five that are left
      .done()
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .schedules("1:1d")  // and 3 does not overtake it
      .steps_alike(19)
      .abort(1)
      .done()
      .schedules("2:50p* 3:10p*");
}

TEST(VllmWatermark, IsForThoseWhoStartBesideOthersOnly) {
  SchedulerLimits half = with_blocks(10);
  half.admission_watermark = 0.5;
  Script(half).arrive(1, {.prompt = 150, .max_tokens = 9}).schedules("1:150p*");
}

TEST(VllmWholePrompt, MustFitEvenIfItStartsInPieces) {
  SchedulerLimits whole = with_blocks(10);
  whole.max_num_batched_tokens = 64;
  const auto script = [](const SchedulerLimits& l) {
    Script s(l);
    s.arrive(1, {.prompt = 33, .max_tokens = 40}).schedules("1:33p*").done();
    s.arrive(2, {.prompt = 120, .max_tokens = 9});  // eight blocks of seven
    return s;
  };
  script(whole).schedules("1:1d 2:63p");
  whole.whole_prompt_must_fit = true;
  script(whole).schedules("1:1d").holds(3);
}

TEST(SglangPrefix, APromptIsFoundWhenItsStepIsBack) {
  Script(limits(), SchedulerKind::kSglang)
      .arrive(1, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .arrive(2, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .schedules("1:70p* 2:70p*")
      .holds(10)
      .done()
      .holds(6)  // the second copy is freed
      .arrive(3, {.prompt = 70, .max_tokens = 9, .content = {7, 8}})
      .schedules("3:6p*")
      .holds(7);
}

TEST(SglangPrefix, WhatNobodyCanFindIsTakenFirst) {
  SchedulerLimits ten = with_blocks(10);
  Script(ten, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 65, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:65p*")
      .done("1")
      .arrive(2, {.prompt = 80, .max_tokens = 1})
      .schedules("2:80p*")  // vLLM's queue would have the first block of content 7 and 8 before the one that 1 freed
      .done("2")
      .arrive(3, {.prompt = 65, .max_tokens = 1, .content = {7, 8}})
      .schedules("3:1p*");
}

TEST(SglangPrefix, AnAnswerIsFoundWhenItsRequestHasEnded) {
  Script(limits(), SchedulerKind::kSglang)
      .arrive(1, {.prompt = 30, .max_tokens = 70, .content = {7, 8, 9}})
      .schedules("1:30p*")
      .done()
      .schedules("1:1d")
      .jumps(40)
      .arrive(2, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:70p*")
      .done("2")
      .schedules("1:1d")
      .jumps(29, "1")
      .arrive(3, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})
      .schedules("3:4p*");
}

TEST(TensorrtLlmPrefix, APromptIsFoundWhenAllOfItIsComputed) {
  SchedulerLimits small = limits();
  small.max_num_batched_tokens = 64;
  Script(small, SchedulerKind::kTensorrtLlm)
      .arrive(1, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})
      .schedules("1:64p")
      .done()
      .arrive(2, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("1:36p* 2:16p")  // nothing of 1 is found yet
      .holds(12)
      .done("1")
      .arrive(3, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:54p* 3:6p*")
      .done("2 3");
}

TEST(LlamaCppPrefix, TheIdleSlotWithTheLongestCommonPrefixIsTaken) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script(two, SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 70, .max_tokens = 1, .content = {7, 8}})
      .arrive(2, {.prompt = 40, .max_tokens = 1, .content = {5}})
      .schedules("1:70p* 2:40p*")
      .done("1 2")
      .arrive(3, {.prompt = 70, .max_tokens = 1, .content = {5, 6}})
      .schedules("3:38p*")  // in the slot of 2
      .done("3")
      .arrive(4, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})
      .arrive(5, {.prompt = 100, .max_tokens = 1, .content = {7, 8, 9}})
      .schedules("4:36p* 5:100p*")  // the slot of 1 is taken by then
      .done("4 5")
      .found(32 + 64, 70 + 40 + 70 + 100 + 100);
}

TEST(LlamaCppPrefix, ASlotThatHasLittleInCommonIsTakenOnlyWhenItIsIdleForLongest) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script(two, SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 40, .max_tokens = 1, .content = {5}})
      .schedules("1:40p*")
      .done("1")
      .arrive(2, {.prompt = 400, .max_tokens = 1, .content = {5, 1}})
      .schedules("2:400p*")  // 32 of 400 tokens: the slot that was never used
      .done("2")
      .arrive(3, {.prompt = 400, .max_tokens = 1, .content = {5, 2}})
      .schedules("3:368p*");  // as little, but that slot is also idle for longest
}

TEST(LlamaCppPrefix, ASlotKeepsTheAnswerToo) {
  Script(limits(), SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 30, .max_tokens = 40, .content = {7, 8}})
      .schedules("1:30p*")
      .done()
      .schedules("1:1d")
      .jumps(39, "1")
      .arrive(2, {.prompt = 90, .max_tokens = 1, .content = {7, 8}})
      .schedules("2:26p*");
}

TEST(MusterPrefix, APreemptedSequenceFindsItsOwnBlocks) {
  Script(with_blocks(8), SchedulerKind::kMuster)
      .arrive(1, {.prompt = 70, .max_tokens = 9, .priority = 1, .content = {7, 8}})
      .schedules("1:70p*")
      .done()
      .arrive(2, {.prompt = 60, .max_tokens = 1})
      .schedules("2:60p* -1")  // takes the block that nobody can find, three that were never used
      .done("2")
      .schedules("1:7p*");
}

}  // namespace
}  // namespace muster::sched
