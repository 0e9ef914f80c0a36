// The rules of legal plans, one by one.
#include "autosp/checkpoint/recompute_choices.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "autosp/checkpoint/legal_plans.h"
#include "autosp/checkpoint/sample_programs.h"
#include "autosp/support/check.h"

namespace autosp::checkpoint {
namespace {

using namespace samples;

std::vector<char> keepAll(const JointProgram& program) {
  return std::vector<char>(program.ops.size(), 1);
}

TEST(RecomputeChoices, NothingIsSavedOrRunAgainInVain) {
  ProgramBuilder b;
  const ValueIndex x = b.data(), a = b.op(OpClass::kOther, {x}, 10, 1);
  const ValueIndex c = b.op(OpClass::kOther, {a}, 20, 2);
  b.op(OpClass::kOther, {c}, 40, 4);  // of no use to the backward
  b.backward({c, x});
  const RecomputeChoices choices(b.program, {});
  EXPECT_EQ(choices.total(), (CheckpointCost{30, 3}));
  const PricedPlan saved = choices.plan(keepAll(b.program));
  EXPECT_EQ(saved.cost, (CheckpointCost{20, 0}));
  EXPECT_EQ(saved.plan.saved, (std::vector<char>{0, 0, 1, 0, 0}));
  EXPECT_EQ(saved.plan.recomputed, (std::vector<char>{0, 0, 0, 0}));
  const PricedPlan again = choices.plan({0, 0, 0, 0});
  EXPECT_EQ(again.cost, (CheckpointCost{0, 3}));
  EXPECT_EQ(again.plan.recomputed, (std::vector<char>{1, 1, 0, 0}));
}

TEST(RecomputeChoices, AViewIsMadeAgainFromItsBase) {
  ProgramBuilder b;
  const ValueIndex a = b.op(OpClass::kOther, {b.data()}, 10, 5);
  b.backward({b.view(b.view(a))});
  const RecomputeChoices choices(b.program, {});
  EXPECT_FALSE(choices.mustRecompute(0));
  EXPECT_TRUE(choices.mustRecompute(1) && choices.mustRecompute(2));
  EXPECT_TRUE(choices.mustNeed(a));
  const PricedPlan plan = choices.plan({1, 0, 0, 0});
  EXPECT_EQ(plan.cost, (CheckpointCost{10, 0}));
  EXPECT_EQ(plan.plan.recomputed, (std::vector<char>{0, 1, 1, 0}));
  EXPECT_THROW(choices.plan(keepAll(b.program)), InternalError);
}

TEST(RecomputeChoices, ABanOnAViewBansTheMakerOfItsMemory) {
  ProgramBuilder b;
  const ValueIndex a = b.op(OpClass::kOther, {b.data()}, 10, 5);
  b.backward({b.view(a)});
  EXPECT_TRUE(RecomputeChoices(b.program, {{0, 1, 0}}).mustKeep(0));
  EXPECT_FALSE(RecomputeChoices(b.program, {{0, 1, 0}}).mustKeep(1));
  b.program.ops[1].demand = Demand::kSave;
  EXPECT_TRUE(RecomputeChoices(b.program, {}).mustKeep(0));
}

TEST(RecomputeChoices, ADemandToRecomputeWinsOverBansAndNotOverOnce) {
  ProgramBuilder b;
  const ValueIndex a = b.op(OpClass::kRandom, {b.data()}, 10, 5);
  b.lastOp().demand = Demand::kRecompute;
  const ValueIndex c = b.op(OpClass::kOther, {a}, 10, 5);
  b.backward({c});
  const RecomputeChoices choices(b.program, {{1, 0, 0}});
  EXPECT_FALSE(choices.mustKeep(0));
  EXPECT_EQ(choices.plan({0, 0, 0}).cost, (CheckpointCost{0, 10}));
  EXPECT_THROW(choices.plan({1, 0, 0}), InternalError);  // would save a

  b.program.ops[0].once = true;  // no conflict: c can be saved
  EXPECT_TRUE(opsThatCannotRunAgain(b.program).empty());
  EXPECT_TRUE(RecomputeChoices(b.program, {}).mustKeep(0));
  b.program.gradients = {a};  // now the backward reads a itself
  EXPECT_EQ(opsThatCannotRunAgain(b.program), std::vector<OpIndex>{0});
  EXPECT_THROW(RecomputeChoices(b.program, {}), InternalError);
}

TEST(RecomputeChoices, AViewOfAnOverwrittenInputThatTheBackwardReadsIsAConflict) {
  ProgramBuilder b;
  const ValueIndex state = b.data();
  b.program.values[state].overwritten = true;
  const ValueIndex shown = b.view(state);
  b.lastOp().once = true;
  b.backward({b.op(OpClass::kOther, {shown}, 3, 1)});
  EXPECT_TRUE(opsThatCannotRunAgain(b.program).empty());
  b.backward({shown});
  EXPECT_EQ(opsThatCannotRunAgain(b.program), std::vector<OpIndex>{0});
}

TEST(RecomputeChoices, ResultsThatTheCallerKeepsAreFreeToSave) {
  ProgramBuilder b;
  const ValueIndex a = b.op(OpClass::kOther, {b.data()}, 10, 5);
  b.program.results = {b.view(a)};
  b.backward({a});
  EXPECT_EQ(RecomputeChoices(b.program, {}).plan({1, 0, 0}).cost.bytes, 10);
  EXPECT_EQ(RecomputeChoices(b.program, {{}, true}).plan({1, 0, 0}).cost.bytes, 0);
}

TEST(RecomputeChoices, TotalsTooLargeForExactCostsAreRefused) {
  ProgramBuilder b;
  b.backward({b.op(OpClass::kOther, {b.data()}, (std::int64_t{1} << 60) + 1, 0)});
  EXPECT_THROW(RecomputeChoices(b.program, {}), InternalError);
}

TEST(RecomputeChoices, ConflictsAreExactlyTheProgramsWithoutALegalPlan) {
  std::mt19937 random(3);
  int conflicts = 0;
  for (int round = 0; round < 1000; ++round) {
    const JointProgram program = randomProgram(random, 8);
    const bool none = allLegalPlans(program, {}).empty();
    EXPECT_EQ(!opsThatCannotRunAgain(program).empty(), none);
    conflicts += none ? 1 : 0;
  }
  EXPECT_GT(conflicts, 20);
}

}  // namespace
}  // namespace autosp::checkpoint
