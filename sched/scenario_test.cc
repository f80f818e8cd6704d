// The rules of vllm.cc, one script each.
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

TEST(Vllm, AnEmptySchedulerHasNothingToRun) {
  Script(limits()).at(0).schedules("").has(0, 0).holds(0).knows_no(7);
}

TEST(Vllm, ARequestRunsFromArrivalToItsLastToken) {
  Script(limits())
      .at(0)
      .arrive(1, {.prompt = 100, .max_tokens = 3})
      .has(0, 1)
      .prompt_tokens_waiting(100)
      .schedules("1:100p*")
      .has(1, 0)
      .prompt_tokens_waiting(100)  // not computed before the step is back
      .schedules("")               // its only sequence is in flight
      .at(30)
      .done()
      .prompt_tokens_waiting(0)
      .schedules("1:1d")
      .done()
      .schedules("1:1d")
      .done("1")
      .has(0, 0)
      .holds(0)
      .knows_no(1)
      .schedules("");
}

TEST(Vllm, OneTokenNeedsNoDecode) {
  Script(limits()).arrive(1, {.prompt = 100, .max_tokens = 1}).schedules("1:100p*").done("1").has(0, 0);
}

TEST(Vllm, RunningSequencesComeBeforeWaitingOnes) {
  Script(limits())
      .arrive(1, {.prompt = 100, .max_tokens = 9})
      .schedules("1:100p*")
      .at(5)
      .arrive(2, {.prompt = 511, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:511p*")
      .done()
      .schedules("1:1d 2:1d")
      .done();
}

TEST(Vllm, APromptIsCutAtTheBudget) {
  Script(limits())
      .arrive(1, {.prompt = 700, .max_tokens = 9})
      .arrive(2, {.prompt = 800, .max_tokens = 9})
      .schedules("1:512p")
      .done()
      .prompt_tokens_waiting(188 + 800)
      .schedules("1:188p* 2:324p")
      .done()
      .schedules("1:1d 2:476p*")
      .done()
      .schedules("1:1d 2:1d")
      .done();
}

TEST(Vllm, ALongPromptIsCappedAndLetsOthersIn) {
  SchedulerLimits capped = limits();
  capped.long_prefill_token_threshold = 128;
  Script(capped)
      .arrive(1, {.prompt = 300, .max_tokens = 9})
      .arrive(2, {.prompt = 128, .max_tokens = 9})
      .arrive(3, {.prompt = 129, .max_tokens = 9})
      .schedules("1:128p 2:128p* 3:128p")
      .done()
      .schedules("1:128p 2:1d 3:1p*")
      .done()
      .schedules("1:44p* 2:1d 3:1d")
      .done();
}

TEST(Vllm, NoMoreRunThanMaxNumSeqs) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script(two)
      .arrive(1, {.prompt = 10, .max_tokens = 2})
      .arrive(2, {.prompt = 10, .max_tokens = 3})
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .schedules("1:10p* 2:10p*")
      .has(2, 1)
      .done()
      .schedules("1:1d 2:1d")
      .done("1")
      .schedules("2:1d 3:10p*")
      .done("2");
}

TEST(Vllm, ABlockIsTakenForTheSeventeenthToken) {
  Script(limits())
      .arrive(1, {.prompt = 15, .max_tokens = 9})
      .holds(0)
      .schedules("1:15p*")
      .holds(1)
      .done()
      .schedules("1:1d")  // the 16th token's KV
      .holds(1)
      .done()
      .schedules("1:1d")  // the 17th
      .holds(2)
      .done();
  Script(limits()).arrive(1, {.prompt = 16, .max_tokens = 9}).schedules("1:16p*").holds(1);
  Script(limits()).arrive(1, {.prompt = 17, .max_tokens = 9}).schedules("1:17p*").holds(2);
}

TEST(Vllm, BlocksAreTakenAsThePromptIsComputed) {
  Script(limits())
      .arrive(1, {.prompt = 600, .max_tokens = 9})
      .schedules("1:512p")
      .holds(32)
      .done()
      .schedules("1:88p*")
      .holds(38);
}

TEST(Vllm, WhatCanNeverFitIsRefused) {
  SchedulerLimits small = limits();
  small.kv_blocks = 4;
  Script(small)
      .refuses(1, {.prompt = 60, .max_tokens = 5})
      .refuses(2, {.prompt = 1, .max_tokens = 1000000000000})
      .refuses(3, {.prompt = 1000000000000, .max_tokens = 1})
      .has(0, 0)
      .knows_no(1)
      .arrive(1, {.prompt = 60, .max_tokens = 4})
      .schedules("1:60p*");
}

TEST(Vllm, AFirstThatDoesNotFitHoldsTheOthersBack) {
  SchedulerLimits small = limits();
  small.kv_blocks = 4;
  Script(small)
      .arrive(1, {.prompt = 33, .max_tokens = 2})  // three blocks
      .arrive(2, {.prompt = 17, .max_tokens = 9})  // two
      .arrive(3, {.prompt = 1, .max_tokens = 9})   // one would be there
      .schedules("1:33p*")
      .done()
      .schedules("1:1d")
      .done("1")
      .schedules("2:17p* 3:1p*");
}

// Four blocks of 16: two sequences of 32 tokens fill them.
SchedulerLimits four_blocks() {
  SchedulerLimits small = limits();
  small.kv_blocks = 4;
  return small;
}

TEST(Vllm, OnAShortageTheLastIsPreemptedAndRecomputesWhatItEmitted) {
  Script(four_blocks())
      .arrive(1, {.prompt = 31, .max_tokens = 4})
      .arrive(2, {.prompt = 30, .max_tokens = 9})
      .schedules("1:31p* 2:30p*")
      .holds(4)
      .done()
      .schedules("1:1d 2:1d")
      .done()
      .schedules("1:1d -2")  // the 33rd token of 1 needs a third block
      .holds(3)
      .has(1, 1)
      .prompt_tokens_waiting(32)  // 30 of its prompt and 2 emitted
      .done()
      .schedules("1:1d")  // 2 needs two blocks for 32 tokens, one is free
      .done("1")
      .schedules("2:32p*")
      .holds(2)
      .done()
      .prompt_tokens_waiting(0)
      .repeats(5, "2:1d")
      .schedules("2:1d")  // 2 + 1 + 5 emitted before it: this is the ninth and last
      .done("2")
      .holds(0);
}

TEST(Vllm, APreemptedSequenceWaitsInFrontOfThoseThatNeverRan) {
  Script(four_blocks())
      .arrive(1, {.prompt = 32, .max_tokens = 2})
      .arrive(2, {.prompt = 32, .max_tokens = 9})
      .schedules("1:32p* 2:32p*")
      .arrive(3, {.prompt = 1, .max_tokens = 2})
      .done()
      .schedules("1:1d -2")
      .done("1")
      .schedules("2:33p* 3:1p*");
}

TEST(Vllm, AStepThatPreemptedAdmitsNobody) {
  Script(four_blocks())
      .arrive(1, {.prompt = 32, .max_tokens = 9})
      .arrive(2, {.prompt = 32, .max_tokens = 9})
      .schedules("1:32p* 2:32p*")
      .arrive(3, {.prompt = 1, .max_tokens = 9, .priority = -1})  // urgent, small, and a block is free: even so
      .done()
      .schedules("1:1d -2")
      .holds(3)
      .done()
      .schedules("1:1d 3:1p*");
}

// The step of vLLM's rule 4 in which the sequence that asks is itself the last.
TEST(Vllm, ASequenceMayPreemptItself) {
  Script(four_blocks())
      .arrive(1, {.prompt = 20, .max_tokens = 9})
      .arrive(2, {.prompt = 32, .max_tokens = 9})
      .schedules("1:20p* 2:32p*")
      .done()
      .schedules("1:1d -2")
      .done();
}

TEST(Vllm, APreemptedPromptStartsAgainFromItsFirstToken) {
  SchedulerLimits small = four_blocks();
  small.max_num_batched_tokens = 33;
  Script(small)
      .arrive(1, {.prompt = 16, .max_tokens = 40})
      .arrive(2, {.prompt = 60, .max_tokens = 4})
      .schedules("1:16p* 2:17p")
      .done()
      .schedules("1:1d -2")  // 1 takes its second block, 2 would need four for its next 32 tokens and has two of three
      .prompt_tokens_waiting(60)
      .done()
      .schedules("1:1d 2:32p")
      .done()
      .schedules("1:1d -2");
}

TEST(Vllm, TheVictimIsTheLastInPriorityThenArrival) {
  SchedulerLimits six = limits();
  six.kv_blocks = 6;
  Script(six)
      .arrive(1, {.prompt = 32, .max_tokens = 40, .priority = 1})
      .arrive(2, {.prompt = 32, .max_tokens = 40, .priority = 2})
      .arrive(3, {.prompt = 32, .max_tokens = 40, .priority = 1})
      .schedules("1:32p* 3:32p* 2:32p*")
      .done()
      .schedules("1:1d 3:1d -2")
      .done()
      .repeats(15, "1:1d 3:1d")  // up to 48 tokens each
      .schedules("1:1d -3")
      .done()
      .has(1, 2);
}

TEST(Vllm, APieceAlreadyInTheStepIsWithdrawnWhenItsSequenceIsPreempted) {
  SchedulerLimits five = limits();
  five.kv_blocks = 5;
  Script(five)
      .arrive(1, {.prompt = 20, .max_tokens = 30, .priority = 5})
      .schedules("1:20p*")
      .arrive(2, {.prompt = 47, .max_tokens = 9, .priority = 0})
      .done()
      .schedules("1:1d 2:47p*")
      .holds(5)
      .done()
      .schedules("1:1d 2:1d")
      .done()
      .schedules("2:1d -1")  // 1 was admitted first and had its token already
      .holds(4)
      .done()
      .schedules("2:1d")
      .prompt_tokens_waiting(23);
}

TEST(Vllm, TheFirstToRunPreemptsItselfAndTheOthersGoOn) {
  SchedulerLimits six = limits();
  six.kv_blocks = 6;
  Script(six)
      .arrive(1, {.prompt = 47, .max_tokens = 9, .priority = 5})
      .schedules("1:47p*")
      .arrive(2, {.prompt = 40, .max_tokens = 9})
      .done()
      .schedules("1:1d 2:40p*")
      .holds(6)
      .done()
      .schedules("2:1d -1")
      .holds(3);
}

TEST(Vllm, UrgentOnesStartFirst) {
  SchedulerLimits one = limits();
  one.max_num_seqs = 1;
  Script(one)
      .arrive(1, {.prompt = 10, .max_tokens = 1, .priority = 3})
      .arrive(2, {.prompt = 10, .max_tokens = 1, .priority = -1})
      .arrive(3, {.prompt = 10, .max_tokens = 1, .priority = 3})
      .arrive(4, {.prompt = 10, .max_tokens = 1, .priority = -1})
      .schedules("2:10p*")
      .done("2")
      .schedules("4:10p*")
      .done("4")
      .schedules("1:10p*")
      .done("1")
      .schedules("3:10p*")
      .done("3");
}

TEST(Vllm, AStopTokenEndsASequenceEarly) {
  Script(limits())
      .arrive(1, {.prompt = 10, .max_tokens = 100})
      .arrive(2, {.prompt = 10, .max_tokens = 100})
      .schedules("1:10p* 2:10p*")
      .done_with_stop({RequestId(1)}, "1")
      .holds(1)
      .schedules("2:1d")
      .done_with_stop({RequestId(2)}, "2")
      .holds(0);
}

TEST(Vllm, AbortsWhileWaitingRunningAndInFlight) {
  Script(limits())
      .arrive(1, {.prompt = 20, .max_tokens = 9})
      .arrive(2, {.prompt = 20, .max_tokens = 9})
      .arrive(3, {.prompt = 20, .max_tokens = 9})
      .abort(2)
      .has(0, 2)
      .schedules("1:20p* 3:20p*")
      .abort(1)  // in flight: gone at once, its piece comes to nothing
      .knows_no(1)
      .has(1, 0)
      .holds(2)
      .arrive(1, {.prompt = 30, .max_tokens = 9})  // the same id again, while the old step is out
      .done()
      .schedules("3:1d 1:30p*")
      .done()
      .abort(3)  // running, not in flight
      .has(1, 0)
      .schedules("1:1d")
      .done()
      .abort(1)
      .has(0, 0)
      .holds(0);
}

TEST(Vllm, ATokenThatStopsAnAbortedRequestIsIgnored) {
  Script(limits())
      .arrive(1, {.prompt = 20, .max_tokens = 9})
      .schedules("1:20p*")
      .abort(1)
      .done_with_stop({RequestId(1)}, "")
      .has(0, 0);
}

SchedulerLimits two_stages() {
  SchedulerLimits staged = limits();
  staged.steps_in_flight_max = 2;
  return staged;
}

TEST(VllmStages, TheChunksOfAPromptFollowEachOther) {
  SchedulerLimits three = limits();
  three.steps_in_flight_max = 3;
  Script(three)
      .arrive(1, {.prompt = 1100, .max_tokens = 9})
      .schedules("1:512p")
      .schedules("1:512p")
      .prompt_tokens_waiting(1100)  // none of it is back
      .arrive(2, {.prompt = 10, .max_tokens = 9})
      .schedules("1:76p* 2:10p*")
      .arrive(3, {.prompt = 10, .max_tokens = 9})
      .schedules("")  // three steps are out
      .done()
      .prompt_tokens_waiting(608)
      .schedules("3:10p*")  // 1 waits for its first token
      .done()
      .schedules("")
      .done()
      .schedules("1:1d 2:1d")
      .schedules("")  // a decode waits for the token before it
      .done()
      .schedules("3:1d");
}

TEST(VllmStages, AnAbortedPromptKeepsItsSlotUntilItsLastChunkIsBack) {
  Script(two_stages())
      .arrive(1, {.prompt = 1100, .max_tokens = 9})
      .schedules("1:512p")
      .schedules("1:512p")
      .abort(1)
      .holds(0)
      .arrive(1, {.prompt = 40, .max_tokens = 9})
      .done()
      .schedules("1:40p*")
      .done()
      .done()
      .schedules("1:1d");
}

TEST(VllmStages, APreemptedPromptWithSeveralChunksOutStartsAgainWhenAllAreBack) {
  SchedulerLimits three = limits();
  three.steps_in_flight_max = 3;
  three.kv_blocks = 4;
  three.max_num_batched_tokens = 16;
  Script(three)
      .arrive(1, {.prompt = 16, .max_tokens = 20})
      .schedules("1:16p*")
      .arrive(2, {.prompt = 40, .max_tokens = 9})
      .schedules("2:16p")
      .schedules("2:16p")
      .done()
      .schedules("1:1d -2")  // the 17th token of 1 takes the last block
      .holds(2)
      .done()
      .schedules("")  // a chunk of 2 is still out
      .done()
      .done()
      .schedules("1:1d 2:15p");
}

TEST(VllmStages, APreemptedSequenceInFlightKeepsTheTokenThatItsStepSamples) {
  SchedulerLimits staged = four_blocks();
  staged.steps_in_flight_max = 2;
  Script(staged)
      .arrive(1, {.prompt = 32, .max_tokens = 4})
      .schedules("1:32p*")
      .arrive(2, {.prompt = 20, .max_tokens = 9})
      .schedules("2:20p*")
      .done()
      .schedules("1:1d -2")  // 2 is in flight
      .prompt_tokens_waiting(20)
      .done()
      .prompt_tokens_waiting(21)
      .has(1, 1)
      .schedules("")  // 2 needs two blocks, one is free
      .done()
      .schedules("1:1d")
      .done()
      .schedules("1:1d")
      .done("1")
      .schedules("2:21p*");
}

TEST(VllmStages, APreemptedSequenceMayFinishWhileItWaits) {
  SchedulerLimits staged = four_blocks();
  staged.steps_in_flight_max = 2;
  Script(staged)
      .arrive(1, {.prompt = 32, .max_tokens = 4})
      .schedules("1:32p*")
      .arrive(2, {.prompt = 20, .max_tokens = 1})
      .schedules("2:20p*")
      .done()
      .schedules("1:1d -2")
      .done("2")
      .has(1, 0)
      .knows_no(2);
}

TEST(VllmStages, APreemptedSequenceIsNotAdmittedBeforeItsStepIsBack) {
  SchedulerLimits staged = four_blocks();
  staged.steps_in_flight_max = 3;
  Script(staged)
      .arrive(1, {.prompt = 32, .max_tokens = 4})
      .schedules("1:32p*")
      .arrive(2, {.prompt = 16, .max_tokens = 9})
      .schedules("2:16p*")
      .arrive(3, {.prompt = 16, .max_tokens = 9})
      .schedules("3:16p*")
      .done()
      .schedules("1:1d -3")
      .arrive(4, {.prompt = 1, .max_tokens = 9})
      .done()
      .abort(1)
      .schedules("2:1d")  // 3 is still out, and 4 does not overtake it
      .done()
      .done()
      .done()
      .schedules("2:1d 3:17p*");
}

TEST(VllmJump, EndsWithTheFirstLastToken) {
  Script(limits())
      .arrive(1, {.prompt = 10, .max_tokens = 30})
      .arrive(2, {.prompt = 10, .max_tokens = 20})
      .schedules("1:10p* 2:10p*")
      .steps_alike(1)  // prompts
      .done()
      .schedules("1:1d 2:1d")
      .steps_alike(19)
      .jumps(19, "2")
      .schedules("1:1d")
      .steps_alike(10)
      .jumps(4)
      .holds(3)  // 10 + 19 + 4 tokens are computed
      .schedules("1:1d")
      .steps_alike(6)
      .jumps(6, "1")
      .has(0, 0);
}

TEST(VllmJump, EndsBeforeAShortage) {
  Script(four_blocks())
      .arrive(1, {.prompt = 20, .max_tokens = 40})
      .arrive(2, {.prompt = 25, .max_tokens = 30})
      .schedules("1:20p* 2:25p*")
      .done()
      .schedules("1:1d 2:1d")
      .steps_alike(7)  // the eighth computes the 33rd token of 2
      .jumps(7)
      .holds(4)
      .schedules("1:1d -2")
      .done();
}

TEST(VllmJump, IsRefusedWhileSomebodyCouldStart) {
  SchedulerLimits two = limits();
  two.max_num_seqs = 2;
  Script(two)
      .arrive(1, {.prompt = 10, .max_tokens = 30})
      .schedules("1:10p*")
      .done()
      .schedules("1:1d")
      .steps_alike(29)
      .arrive(2, {.prompt = 10, .max_tokens = 10})
      .steps_alike(1)
      .done()
      .schedules("1:1d 2:10p*")
      .arrive(3, {.prompt = 10, .max_tokens = 20})
      .done()
      .schedules("1:1d 2:1d")
      .steps_alike(9)  // 3 waits, but no more than two may run
      .jumps(9, "2");
}

TEST(VllmJump, IsAllowedWhileTheFirstWaitingFindsNoBlocks) {
  Script(four_blocks())
      .arrive(1, {.prompt = 20, .max_tokens = 12})
      .arrive(2, {.prompt = 40, .max_tokens = 9})  // three blocks, two are free
      .schedules("1:20p*")
      .done()
      .schedules("1:1d")
      .steps_alike(11)
      .jumps(11, "1")
      .schedules("2:40p*");
}

TEST(VllmJump, KnowsThatTheBatchTakesItsBlocksFirst) {
  Script(four_blocks())
      .arrive(1, {.prompt = 31, .max_tokens = 12})
      .schedules("1:31p*")
      .done()
      .schedules("1:1d")
      .arrive(2, {.prompt = 20, .max_tokens = 9})  // two blocks, and two are free; but the next step of 1 takes one
      .steps_alike(11)
      .jumps(11, "1")
      .schedules("2:20p*");
}

TEST(VllmJump, WithStagesOnlyWhenEverythingThatRunsIsInTheOneStep) {
  Script(two_stages())
      .arrive(1, {.prompt = 10, .max_tokens = 30})
      .schedules("1:10p*")
      .done()
      .schedules("1:1d")
      .steps_alike(29)
      .arrive(2, {.prompt = 10, .max_tokens = 30})
      .steps_alike(1)  // a step beside this one is open to 2
      .schedules("2:10p*")
      .done()
      .done()
      .schedules("1:1d 2:1d")
      .steps_alike(28)
      .jumps(28, "1");
}

TEST(VllmJump, AnAbortedPieceIsNotASequenceThatRuns) {
  Script(two_stages())
      .arrive(3, {.prompt = 10, .max_tokens = 30})
      .schedules("3:10p*")
      .arrive(1, {.prompt = 10, .max_tokens = 30})
      .arrive(2, {.prompt = 10, .max_tokens = 30})
      .schedules("1:10p* 2:10p*")
      .done()
      .schedules("3:1d")
      .done()
      .schedules("1:1d 2:1d")
      .done()
      .steps_alike(1)  // 3 is ready
      .abort(2)        // two pieces are out and two sequences run, but not the same two
      .steps_alike(1)
      .done()
      .schedules("3:1d 1:1d")
      .steps_alike(28);
}

}  // namespace
}  // namespace muster::sched
