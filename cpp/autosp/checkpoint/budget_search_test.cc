// The search between two decisions: its limits. frontier_test.cc holds it against all legal plans.
#include "autosp/checkpoint/budget_search.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "autosp/checkpoint/sample_programs.h"

namespace autosp::checkpoint {
namespace {

using namespace samples;

// Three independent ops of (bytes, time) (6, 60), (5, 40), (4, 20), all of which the backward
// reads.
class BudgetSearch : public testing::Test {
 protected:
  BudgetSearch() {
    Reads reads;
    for (auto [bytes, time] : {std::pair{6, 60}, {5, 40}, {4, 20}}) {
      reads.push_back(b_.op(OpClass::kOther, {b_.data()}, bytes, time));
    }
    b_.backward(reads);
    question_.incumbent = {6, 60};  // saves the first
    question_.on_hull = {6, 60};
    question_.weights = {8, 1};  // of the edge from (6, 60) to (11, 20)
    question_.most_work = 100;
  }
  BudgetAnswer between(const std::vector<char>& low, const std::vector<char>& high) {
    const RecomputeChoices choices(b_.program, {});
    return fastestBetween(choices, low, high, question_);
  }

  ProgramBuilder b_;
  BudgetQuestion question_;
};

TEST_F(BudgetSearch, FindsThePlanThatNoCutFinds) {
  question_.budget = 10;
  const BudgetAnswer answer = between({0, 0, 0, 0}, {1, 1, 1, 0});
  EXPECT_TRUE(answer.complete);
  ASSERT_TRUE(answer.kept);
  EXPECT_EQ(*answer.kept, (std::vector<char>{1, 0, 1, 0}));
  EXPECT_EQ(answer.cost, (CheckpointCost{10, 40}));
}

TEST_F(BudgetSearch, FindsNothingWhereNothingBeatsTheIncumbent) {
  question_.budget = 9;
  const BudgetAnswer answer = between({0, 0, 0, 0}, {1, 1, 1, 0});
  EXPECT_TRUE(answer.complete);
  EXPECT_FALSE(answer.kept);
}

TEST_F(BudgetSearch, ChangesOnlyWhatTheTwoDecisionsDisagreeOn) {
  question_.budget = 10;
  EXPECT_FALSE(between({0, 0, 0, 0}, {1, 1, 0, 0}).kept);
  EXPECT_FALSE(between({0, 1, 0, 0}, {1, 1, 1, 0}).kept);
  EXPECT_TRUE(between({1, 0, 0, 0}, {1, 1, 1, 0}).kept);
}

TEST_F(BudgetSearch, GivesUpWhenItsWorkIsSpent) {
  question_.budget = 10;
  question_.most_work = 3;
  const BudgetAnswer answer = between({0, 0, 0, 0}, {1, 1, 1, 0});
  EXPECT_FALSE(answer.complete);
  EXPECT_FALSE(answer.kept);
}

TEST_F(BudgetSearch, HasNoAnswerWhenNoDecisionBetweenIsLegal) {
  b_.makerOf(b_.program.ops.back().reads[0]).demand = Demand::kRecompute;
  question_.budget = 10;
  const BudgetAnswer answer = between({1, 0, 0, 0}, {1, 1, 1, 0});
  EXPECT_TRUE(answer.complete);
  EXPECT_FALSE(answer.kept);
}

}  // namespace
}  // namespace autosp::checkpoint
