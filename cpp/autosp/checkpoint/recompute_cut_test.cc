// The cut against all legal plans of random programs.
#include "autosp/checkpoint/recompute_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "autosp/checkpoint/legal_plans.h"
#include "autosp/checkpoint/sample_programs.h"

namespace autosp::checkpoint {
namespace {

using namespace samples;

std::int64_t weigh(Weights weights, CheckpointCost cost) {
  return weights.bytes * cost.bytes + weights.time * cost.time;
}

CheckpointRules randomRules(const JointProgram& program, std::mt19937& random) {
  CheckpointRules rules;
  rules.results_kept = random() % 3 == 0;
  if (random() % 2 == 0) {
    for (std::size_t o = 0; o < program.ops.size(); ++o) rules.banned.push_back(random() % 5 == 0);
  }
  return rules;
}

// The plan is one of the legal ones, saves no more than it needs, and its price is right.
void expectLegal(const JointProgram& program, const CheckpointRules& rules,
                 const std::vector<LegalPlan>& legal, const PricedPlan& found) {
  LegalPlan same{found.plan.recomputed, {}, {}};
  ASSERT_TRUE(completePlan(program, rules, same));
  EXPECT_EQ(found.plan.saved, same.saved);
  EXPECT_EQ(found.cost, same.cost);
  EXPECT_TRUE(std::any_of(legal.begin(), legal.end(), [&](const LegalPlan& plan) {
    return plan.recomputed == found.plan.recomputed;
  }));
}

TEST(RecomputeCut, IsTheBestOfAllLegalPlansAtAnyPrice) {
  std::mt19937 random(1);
  int solved = 0;
  for (int round = 0; round < 400; ++round) {
    const JointProgram program = randomProgram(random, round % 8 == 0 ? 12 : 8);
    if (!opsThatCannotRunAgain(program).empty()) continue;
    ++solved;
    const CheckpointRules rules = randomRules(program, random);
    const std::vector<LegalPlan> legal = allLegalPlans(program, rules);
    ASSERT_FALSE(legal.empty());
    const RecomputeChoices choices(program, rules);
    RecomputeCut cut(choices);
    for (Weights weights :
         {Weights{1, 1}, {3, 1}, {1, 2}, {2, 7}, cut.bytesFirst(), cut.timeFirst()}) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const LegalPlan& plan : legal) least = std::min(least, weigh(weights, plan.cost));
      CheckpointCost ends[2] = {{least, 0}, {0, least}};
      for (const LegalPlan& plan : legal) {
        if (weigh(weights, plan.cost) != least) continue;
        if (plan.cost.bytes < ends[0].bytes) ends[0] = plan.cost;
        if (plan.cost.time < ends[1].time) ends[1] = plan.cost;
      }
      const PricedPlan few = choices.plan(cut.solve(weights, Tie::kFewestBytes));
      const PricedPlan fast = choices.plan(cut.solve(weights, Tie::kLeastTime));
      expectLegal(program, rules, legal, few);
      expectLegal(program, rules, legal, fast);
      EXPECT_EQ(few.cost, ends[0]);
      EXPECT_EQ(fast.cost, ends[1]);

      std::vector<char> kept(program.ops.size(), 0);
      CheckpointCost last;
      for (const std::vector<OpIndex>& group : cut.nestedChain(weights)) {
        for (OpIndex o : group) kept[o] = 1;
        const PricedPlan member = choices.plan(kept);
        expectLegal(program, rules, legal, member);
        EXPECT_EQ(weigh(weights, member.cost), least);
        last = member.cost;
      }
      EXPECT_EQ(last, fast.cost);
    }
  }
  EXPECT_GT(solved, 250);
}

TEST(RecomputeCut, SavesTheNarrowValueBeforeAChainOfCheapOps) {
  ProgramBuilder b;
  const ValueIndex narrow = b.op(OpClass::kMatmul, {b.data()}, 10, 100);
  const ValueIndex wide = b.op(OpClass::kPointwise, {narrow}, 40, 1);
  const ValueIndex widest = b.op(OpClass::kPointwise, {wide}, 80, 1);
  b.backward({wide, widest});
  const RecomputeChoices choices(b.program, {});
  RecomputeCut cut(choices);
  const PricedPlan plan = choices.plan(cut.solve({1, 1}, Tie::kFewestBytes));
  EXPECT_EQ(plan.cost, (CheckpointCost{10, 2}));
  EXPECT_TRUE(plan.plan.saved[narrow]);
  const CheckpointCost fewest = choices.plan(cut.solve(cut.bytesFirst(), Tie::kFewestBytes)).cost;
  EXPECT_EQ(fewest, (CheckpointCost{0, 102}));
}

TEST(RecomputeCut, AnOpWithSeveralResultsIsPaidOnce) {
  ProgramBuilder b;
  const auto results = b.ops(OpClass::kOther, {b.data()}, {6, 6, 6}, 10);
  b.backward({results[0], results[1], results[2]});
  const RecomputeChoices choices(b.program, {});
  RecomputeCut cut(choices);
  EXPECT_EQ(choices.plan(cut.solve({1, 1}, Tie::kLeastTime)).cost, (CheckpointCost{0, 10}));
  EXPECT_EQ(choices.plan(cut.solve({1, 2}, Tie::kLeastTime)).cost, (CheckpointCost{18, 0}));
}

}  // namespace
}  // namespace autosp::checkpoint
