// The rules of the other engines' schedulers, one script each; those of vLLM are in scenario_test.cc.
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
  return limits;
}

SchedulerLimits with_blocks(std::int64_t blocks) {
  SchedulerLimits l = limits();
  l.kv_blocks = blocks;
  return l;
}

// ---- SGLang.

TEST(Sglang, PromptsRunBeforeDecodesGoOn) {
  Script(limits(), SchedulerKind::kSglang)
      .arrive(1, {.prompt = 100, .max_tokens = 9})
      .schedules("1:100p*")
      .arrive(2, {.prompt = 50, .max_tokens = 9})
      .done()
      .schedules("2:50p*")  // 1 pauses
      .done()
      .schedules("1:1d 2:1d")
      .done();
}

TEST(Sglang, DecodesPauseUntilACutPromptIsDone) {
  Script(limits(), SchedulerKind::kSglang)
      .arrive(1, {.prompt = 100, .max_tokens = 9})
      .schedules("1:100p*")
      .arrive(2, {.prompt = 1100, .max_tokens = 9})
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .done()
      .schedules("2:512p")  // cut, so nobody after it
      .done()
      .schedules("2:512p")
      .done()
      .schedules("2:76p* 3:10p*")
      .done()
      .schedules("1:1d 2:1d 3:1d")
      .done();
}

TEST(Sglang, TheChunksOfACutPromptFollowEachOther) {
  SchedulerLimits stages = limits();
  stages.steps_in_flight_max = 3;
  Script(stages, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 100, .max_tokens = 9})
      .schedules("1:100p*")
      .arrive(2, {.prompt = 600, .max_tokens = 9})
      .done()
      .schedules("2:512p")
      .schedules("2:88p*")
      .schedules("1:1d")  // 2 waits for its first token
      .done()
      .done()
      .schedules("2:1d");
}

TEST(Sglang, APromptIsCutToWholePages) {
  Script(limits(), SchedulerKind::kSglang)
      .arrive(1, {.prompt = 100, .max_tokens = 9})
      .arrive(2, {.prompt = 500, .max_tokens = 9})
      .schedules("1:100p* 2:400p")  // 412 are left: 25 pages of 16
      .done()
      .schedules("2:100p*");
}

TEST(Sglang, DecodesAreNotBoundByTheChunk) {
  SchedulerLimits narrow = limits();
  narrow.max_num_batched_tokens = 2;
  narrow.kv_block_tokens = 1;
  Script script(narrow, SchedulerKind::kSglang);
  for (std::uint32_t id = 1; id <= 3; ++id) script.arrive(id, {.prompt = 2, .max_tokens = 9});
  script.schedules("1:2p*").done().schedules("2:2p*").done().schedules("3:2p*").done().schedules("1:1d 2:1d 3:1d");
}

TEST(Sglang, AnAnswerIsExpectedToNeedTheNewTokenRatioOfItsRest) {
  SchedulerLimits pages_of_one = with_blocks(200);
  pages_of_one.kv_block_tokens = 1;
  // After 1 has started, 190 tokens are free and 0.7 * 99 = 69.3 of them expected to be needed: 120.7 are left.
  Script(pages_of_one, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 10, .max_tokens = 100})
      .schedules("1:10p*")
      .done()
      .arrive(2, {.prompt = 100, .max_tokens = 20})
      .schedules("2:100p*");
  Script(pages_of_one, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 10, .max_tokens = 100})
      .schedules("1:10p*")
      .done()
      .arrive(2, {.prompt = 100, .max_tokens = 21})
      .schedules("1:1d")
      .steps_alike(99);  // the KV of 1 grows faster than what it is expected to need falls
}

TEST(Sglang, OfThoseThatStartTogetherWholeAnswersCount) {
  SchedulerLimits pages_of_one = with_blocks(200);
  pages_of_one.kv_block_tokens = 1;
  Script(pages_of_one, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 10, .max_tokens = 100})
      .arrive(2, {.prompt = 60, .max_tokens = 30})  // 10 + 100 + 90 = 200: not less than all there is
      .schedules("1:10p*")
      .done()
      .schedules("2:60p*");
}

TEST(Sglang, TheFallingRatioLetsTheNextOneIn) {
  SchedulerLimits pages_of_one = with_blocks(1000);
  pages_of_one.kv_block_tokens = 1;
  // After n steps of decodes, 990 - n tokens are free, and 1 is expected to need (899 - n) * (0.7 - n * 0.602 / 600)
  // more: what is left grows from 360.7 and is more than 400 first after 75 of them.
  Script(pages_of_one, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 10, .max_tokens = 900})
      .schedules("1:10p*")
      .done()
      .arrive(2, {.prompt = 399, .max_tokens = 1})
      .schedules("1:1d")
      .steps_alike(75)
      .jumps(75)
      .schedules("2:399p*");
}

TEST(Sglang, OnAShortageThoseWithTheFewestEmittedTokensAreRetracted) {
  SchedulerLimits pages_of_one = with_blocks(100);
  pages_of_one.kv_block_tokens = 1;
  // Four answers of 30 do not fit, but 0.7 of those of the first three and the fourth do.
  Script(pages_of_one, SchedulerKind::kSglang)
      .arrive(1, {.prompt = 1, .max_tokens = 30})
      .arrive(2, {.prompt = 2, .max_tokens = 30})
      .arrive(3, {.prompt = 1, .max_tokens = 30, .priority = 5})  // no matter
      .schedules("1:1p* 2:2p* 3:1p*")
      .done()
      .arrive(4, {.prompt = 1, .max_tokens = 30, .priority = 5})
      .schedules("4:1p*")
      .done()
      .repeats(23, "1:1d 2:1d 3:1d 4:1d")
      .holds(97)
      .arrive(5, {.prompt = 1, .max_tokens = 30})
      // Of equals the longest prompt, then the latest; 20 tokens for each of the two that stay are free then.
      .schedules("1:1d 3:1d -2 -4")
      .holds(50)
      .done()
      // The ratio is (48 emitted + 40) / 60, at most 1: 50 free tokens less 2 * 5 are enough for 31, not for more. 2
      // and 4 wait behind 5 although they came before it.
      .schedules("5:1p*")
      .done()
      .schedules("1:1d 3:1d 5:1d")
      .has(3, 2);
}

TEST(Sglang, WhenNothingRunsWhoeverFitsStarts) {
  Script(with_blocks(4), SchedulerKind::kSglang).arrive(1, {.prompt = 32, .max_tokens = 32}).schedules("1:32p*").done();
}

// ---- TensorRT-LLM.

TEST(TensorrtLlm, AStartTakesTheBlocksOfPromptAndAnswer) {
  Script(with_blocks(4), SchedulerKind::kTensorrtLlm)
      .arrive(1, {.prompt = 16, .max_tokens = 17})  // three blocks
      .arrive(2, {.prompt = 16, .max_tokens = 9})   // two; one would do for its prompt
      .arrive(3, {.prompt = 8, .max_tokens = 8})    // one would be there
      .schedules("1:16p*")
      .holds(3)
      .done()
      .schedules("1:1d")
      .steps_alike(16)
      .jumps(16, "1")
      .schedules("2:16p* 3:8p*")
      .holds(3);
}

TEST(TensorrtLlm, GenerationComesBeforeContextAndBothShareTheBudget) {
  Script(limits(), SchedulerKind::kTensorrtLlm)
      .arrive(1, {.prompt = 600, .max_tokens = 9})
      .arrive(2, {.prompt = 20, .max_tokens = 9})
      .schedules("1:512p")
      .done()
      .schedules("1:88p* 2:20p*")
      .arrive(3, {.prompt = 1000, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:1d 3:496p")  // 510 are left: 31 blocks of 16
      .done()
      .schedules("1:1d 2:1d 3:504p*")
      .done();
}

TEST(TensorrtLlm, NoMoreRunThanMaxBatchSize) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script script(two, SchedulerKind::kTensorrtLlm);
  for (std::uint32_t id = 1; id <= 3; ++id) script.arrive(id, {.prompt = 2, .max_tokens = 2});
  script.schedules("1:2p* 2:2p*").done().schedules("1:1d 2:1d").done("1 2").schedules("3:2p*");
}

TEST(TensorrtLlmMaxUtilization, AStartTakesTheBlocksOfThePromptAndTheLastIsPaused) {
  Script(with_blocks(4), SchedulerKind::kTensorrtLlmMaxUtilization)
      .arrive(1, {.prompt = 31, .max_tokens = 4})
      .arrive(2, {.prompt = 30, .max_tokens = 9})
      .schedules("1:31p* 2:30p*")
      .holds(4)
      .arrive(3, {.prompt = 1, .max_tokens = 1})
      .done()
      .schedules("1:1d 2:1d")
      .done()
      .schedules("1:1d -2")  // and 3 does not start in that step
      .holds(3)
      .done()
      .schedules("1:1d")  // nor before 2
      .done("1")
      .schedules("2:32p* 3:1p*");
}

TEST(TensorrtLlmMaxUtilization, ACutPromptHasAllItsBlocks) {
  Script(limits(), SchedulerKind::kTensorrtLlmMaxUtilization)
      .arrive(1, {.prompt = 1000, .max_tokens = 9})
      .schedules("1:512p")
      .holds(63);
}

// ---- llama.cpp.

TEST(LlamaCpp, EverySlotHasAnEqualShareOfTheContext) {
  SchedulerLimits slots = with_blocks(11);
  slots.max_num_seqs = 2;  // five blocks each
  Script(slots, SchedulerKind::kLlamaCpp)
      .refuses(1, {.prompt = 80, .max_tokens = 1})
      .arrive(1, {.prompt = 70, .max_tokens = 10})
      .arrive(2, {.prompt = 1, .max_tokens = 2})
      .arrive(3, {.prompt = 1, .max_tokens = 2})
      .schedules("1:70p* 2:1p*")
      .holds(10)
      .has(2, 1)
      .done()
      .schedules("1:1d 2:1d")
      .done("2")
      .schedules("1:1d 3:1p*")
      .holds(10);
}

TEST(LlamaCpp, ALongPromptFillsTheBatchAfterTheDecodes) {
  Script(limits(), SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 10, .max_tokens = 9})
      .schedules("1:10p*")
      .arrive(2, {.prompt = 1000, .max_tokens = 9})
      .arrive(3, {.prompt = 100, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:511p")
      .done()
      .schedules("1:1d 2:489p* 3:22p")
      .done()
      .schedules("1:1d 2:1d 3:78p*")
      .done();
}

TEST(LlamaCpp, EverySlotDecodesWhateverTheBatchSize) {
  SchedulerLimits narrow = limits();
  narrow.max_num_batched_tokens = 2;
  Script(narrow, SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 1, .max_tokens = 9})
      .arrive(2, {.prompt = 1, .max_tokens = 9})
      .schedules("1:1p* 2:1p*")
      .arrive(3, {.prompt = 1, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:1d")  // no room for a prompt
      .steps_alike(8)
      .jumps(8, "1 2")
      .schedules("3:1p*");
  SchedulerLimits one = limits();
  one.max_num_batched_tokens = 1;
  one.steps_in_flight_max = 2;
  Script(one, SchedulerKind::kLlamaCpp)
      .arrive(1, {.prompt = 1, .max_tokens = 3})
      .arrive(2, {.prompt = 1, .max_tokens = 9})
      .schedules("1:1p*")
      .schedules("2:1p*")
      .done()
      .done()
      .schedules("1:1d 2:1d");
}

// ---- Static batching.

TEST(TensorrtLlm, ARequestIsInOneMicroBatchAtATime) {
  SchedulerLimits stages = limits();
  stages.steps_in_flight_max = 2;
  Script(stages, SchedulerKind::kTensorrtLlm)
      .arrive(1, {.prompt = 600, .max_tokens = 9})
      .schedules("1:512p")
      .schedules("")
      .done()
      .schedules("1:88p*");
}

TEST(Static, ABatchStartsWhenTheOneBeforeHasEnded) {
  Script(limits(), SchedulerKind::kStatic)
      .arrive(1, {.prompt = 10, .max_tokens = 2})
      .arrive(2, {.prompt = 10, .max_tokens = 4})
      .schedules("1:10p* 2:10p*")
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:1d")
      .done("1")
      .has(1, 1)
      .schedules("2:1d")  // the place of 1 stays empty
      .steps_alike(2)
      .jumps(2, "2")
      .schedules("3:10p*");
}

TEST(Static, AllPromptsOfABatchComeBeforeItsDecodes) {
  Script(limits(), SchedulerKind::kStatic)
      .arrive(1, {.prompt = 10, .max_tokens = 9})
      .arrive(2, {.prompt = 600, .max_tokens = 9})
      .schedules("1:10p* 2:502p")
      .has(2, 0)
      .done()
      .schedules("2:98p*")
      .done()
      .schedules("1:1d 2:1d");
}

TEST(Static, ABatchHoldsTheBlocksOfItsAnswers) {
  Script(with_blocks(4), SchedulerKind::kStatic)
      .arrive(1, {.prompt = 16, .max_tokens = 17})
      .arrive(2, {.prompt = 16, .max_tokens = 9})
      .schedules("1:16p*")
      .holds(3)
      .has(1, 1);
}

// ---- muster.

TEST(Muster, AStepThatDecodesHasFewPromptTokens) {
  SchedulerLimits capped = limits();
  capped.prefill_tokens_while_decoding = 64;
  Script(capped, SchedulerKind::kMuster)
      .arrive(1, {.prompt = 700, .max_tokens = 9})
      .schedules("1:512p")  // nobody decodes
      .done()
      .schedules("1:188p*")
      .arrive(2, {.prompt = 40, .max_tokens = 9})
      .arrive(3, {.prompt = 40, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:40p* 3:24p")
      .done()
      .schedules("1:1d 2:1d 3:16p*")
      .done();
}

TEST(Muster, APromptNeverGetsLessThanABlock) {
  SchedulerLimits capped = limits();
  capped.prefill_tokens_while_decoding = 1;
  Script(capped, SchedulerKind::kMuster)
      .arrive(1, {.prompt = 7, .max_tokens = 9})
      .schedules("1:7p*")
      .arrive(2, {.prompt = 40, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:16p");
}

TEST(Muster, TheUrgentPromptGoesOnFirst) {
  Script(limits(), SchedulerKind::kMuster)
      .arrive(1, {.prompt = 2000, .max_tokens = 9, .priority = 10})
      .schedules("1:512p")
      .arrive(2, {.prompt = 600, .max_tokens = 9, .priority = 0})
      .done()
      .schedules("2:512p")
      .done()
      .arrive(3, {.prompt = 20, .max_tokens = 9, .priority = 5})
      .schedules("2:88p* 3:20p* 1:404p")  // 1 keeps its place and its KV
      .has(3, 0)
      .done()
      .schedules("2:1d 3:1d 1:510p");
}

TEST(Muster, TheUrgentTakesThePlaceOfTheLessUrgent) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script(two, SchedulerKind::kMuster)
      .arrive(1, {.prompt = 10, .max_tokens = 9, .priority = 10})
      .arrive(2, {.prompt = 10, .max_tokens = 9, .priority = 10})
      .schedules("1:10p* 2:10p*")
      .done()
      .arrive(3, {.prompt = 10, .max_tokens = 2, .priority = 10})
      .schedules("1:1d 2:1d")  // not for an equal
      .steps_alike(8)
      .done()
      .arrive(4, {.prompt = 10, .max_tokens = 2, .priority = 0})
      .schedules("1:1d 4:10p* -2")  // the later of the two yields
      .done()
      .schedules("4:1d 1:1d")
      .done("4")
      .schedules("1:1d 2:12p*")  // before 3, which never ran
      .done();
}

TEST(Muster, NobodyIsPreemptedWhenThatWouldNotBeEnough) {
  Script(with_blocks(8), SchedulerKind::kMuster)
      .arrive(1, {.prompt = 60, .max_tokens = 4, .priority = 0})  // four blocks
      .arrive(2, {.prompt = 30, .max_tokens = 2, .priority = 10})
      .schedules("1:60p* 2:30p*")
      .done()
      .arrive(3, {.prompt = 70, .max_tokens = 2, .priority = 0})  // five
      .schedules("1:1d 2:1d")
      .done("2")
      .schedules("1:1d")
      .done()
      .schedules("1:1d")
      .done("1")
      .schedules("3:70p*");
}

TEST(Muster, OnAShortageBatchYieldsBeforeInteractive) {
  Script(with_blocks(4), SchedulerKind::kMuster)
      .arrive(1, {.prompt = 31, .max_tokens = 9, .priority = 10})
      .schedules("1:31p*")
      .arrive(2, {.prompt = 31, .max_tokens = 4, .priority = 0})
      .done()
      .schedules("1:1d 2:31p*")
      .holds(4)
      .done()
      .schedules("2:1d -1")  // 1 needs a third block
      .done();
}

}  // namespace
}  // namespace muster::sched
