// The frontier against all legal plans of random programs, and its speed on a large one.
#include "autosp/checkpoint/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "autosp/checkpoint/legal_plans.h"
#include "autosp/checkpoint/sample_programs.h"

namespace autosp::checkpoint {
namespace {

using namespace samples;

// Corners of the lower hull of all legal plans, from fewest bytes to least time.
std::vector<CheckpointCost> hullOf(const std::vector<LegalPlan>& plans) {
  std::set<std::pair<std::int64_t, std::int64_t>> sorted;
  for (const LegalPlan& plan : plans) sorted.insert({plan.cost.bytes, plan.cost.time});
  std::vector<CheckpointCost> hull;
  for (auto [bytes, time] : sorted) {
    if (!hull.empty() && time >= hull.back().time) continue;
    while (hull.size() > 1) {
      const CheckpointCost a = hull[hull.size() - 2], b = hull.back();
      const bool below =
          (b.bytes - a.bytes) * (a.time - time) < (bytes - a.bytes) * (a.time - b.time);
      if (below) break;
      hull.pop_back();
    }
    hull.push_back({bytes, time});
  }
  return hull;
}

TEST(Frontier, IsTheHullOfAllLegalPlansAndEveryBudgetGetsTheFastest) {
  std::mt19937 random(4);
  int edges = 0, off_hull = 0;
  for (int round = 0; round < 500; ++round) {
    const JointProgram program = randomProgram(random, round % 8 == 0 ? 12 : 8);
    if (!opsThatCannotRunAgain(program).empty()) continue;
    CheckpointRules rules;
    rules.results_kept = round % 5 == 0;
    if (round % 3 == 0) {
      for (std::size_t o = 0; o < program.ops.size(); ++o)
        rules.banned.push_back(random() % 6 == 0);
    }
    const std::vector<LegalPlan> legal = allLegalPlans(program, rules);
    const std::vector<CheckpointCost> hull = hullOf(legal);
    const RecomputeChoices choices(program, rules);
    const Frontier frontier(choices);

    std::vector<CheckpointCost> corners;
    for (std::size_t corner : frontier.corners()) corners.push_back(frontier.points()[corner]);
    ASSERT_EQ(corners, hull);
    edges += static_cast<int>(hull.size()) - 1;
    for (std::size_t i = 0; i < frontier.points().size(); ++i) {
      EXPECT_EQ(frontier.plan(i).cost, frontier.points()[i]);
      if (i == 0) continue;
      EXPECT_LT(frontier.points()[i - 1].bytes, frontier.points()[i].bytes);
      EXPECT_GT(frontier.points()[i - 1].time, frontier.points()[i].time);
    }

    EXPECT_FALSE(frontier.fastestWithin(hull.front().bytes - 1));
    EXPECT_FALSE(frontier.leastTimeWithin(hull.front().bytes - 1));
    for (std::int64_t budget = hull.front().bytes; budget <= hull.back().bytes + 1; ++budget) {
      CheckpointCost best{0, std::numeric_limits<std::int64_t>::max()};
      for (const LegalPlan& plan : legal) {
        if (plan.cost.bytes <= budget && plan.cost.time < best.time) best = plan.cost;
      }
      const auto found = frontier.fastestWithin(budget);
      ASSERT_TRUE(found);
      EXPECT_TRUE(found->optimal);
      EXPECT_EQ(found->plan.cost.time, best.time);
      EXPECT_LE(found->plan.cost.bytes, budget);
      LegalPlan same{found->plan.plan.recomputed, {}, {}};
      ASSERT_TRUE(completePlan(program, rules, same));
      EXPECT_EQ(found->plan.cost, same.cost);
      EXPECT_LE(*frontier.leastTimeWithin(budget), best.time);
      const auto point = frontier.fastestWithin(budget, 0);
      EXPECT_GE(point->plan.cost.time, best.time);
      off_hull += point->plan.cost.time > best.time ? 1 : 0;
    }
  }
  EXPECT_GT(edges, 300);
  EXPECT_GT(off_hull, 100);  // budgets where the search had something to do
}

TEST(Frontier, EqualIndependentLayersChangeOneByOne) {
  ProgramBuilder b;
  Reads reads;
  for (int layer = 0; layer < 20; ++layer) {
    reads.push_back(b.op(OpClass::kOther, {b.data()}, 3, 5));
  }
  b.backward(reads);
  const RecomputeChoices choices(b.program, {});
  const Frontier frontier(choices);
  ASSERT_EQ(frontier.points().size(), 21U);
  EXPECT_EQ(frontier.corners(), (std::vector<std::size_t>{0, 20}));
  for (std::int64_t k = 0; k <= 20; ++k) {
    EXPECT_EQ(frontier.points()[k], (CheckpointCost{3 * k, 100 - 5 * k}));
  }
}

TEST(Frontier, AProgramWithoutBackwardHasOneFreePlan) {
  ProgramBuilder b;
  b.op(OpClass::kOther, {b.data()}, 3, 5);
  const RecomputeChoices choices(b.program, {});
  const Frontier frontier(choices);
  EXPECT_EQ(frontier.points(), (std::vector<CheckpointCost>{{0, 0}}));
  EXPECT_TRUE(frontier.fastestWithin(0)->optimal);
}

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Within 2% of the bound that no plan passes, and its times for whoever reads the log.
TEST(Frontier, BudgetsOfA32LayerTransformerAreMetWithin2PercentOfTheBound) {
  for (bool separators : {false, true}) {
    TransformerShape shape;
    shape.separators = separators;
    shape.long_trace = true;
    const JointProgram program = transformer(shape);
    EXPECT_GT(program.ops.size(), 7000U);
    const RecomputeChoices choices(program, {});
    RecomputeCut cut(choices);
    auto start = std::chrono::steady_clock::now();
    cut.solve({1, 100}, Tie::kFewestBytes);
    const double solve = millisecondsSince(start);
    start = std::chrono::steady_clock::now();
    const Frontier frontier(choices);
    const double whole = millisecondsSince(start);
    start = std::chrono::steady_clock::now();
    const std::int64_t fewest = frontier.points().front().bytes;
    const std::int64_t most = frontier.points().back().bytes;
    constexpr int kBudgets = 12;
    int optimal = 0;
    for (int k = 1; k < kBudgets; ++k) {
      const std::int64_t budget = fewest + (most - fewest) / kBudgets * k;
      const auto found = frontier.fastestWithin(budget);
      ASSERT_TRUE(found);
      EXPECT_LE(found->plan.cost.bytes, budget);
      EXPECT_LE(static_cast<double>(found->plan.cost.time),
                1.02 * static_cast<double>(*frontier.leastTimeWithin(budget)));
      optimal += found->optimal ? 1 : 0;
    }
    std::printf(
        "%zu ops: one cut %.2f ms; frontier %.1f ms, %d cuts, %zu points, %zu corners; "
        "a budget %.1f ms, %d of %d proven optimal\n",
        program.ops.size(), solve, whole, frontier.solves(), frontier.points().size(),
        frontier.corners().size(), millisecondsSince(start) / (kBudgets - 1), optimal,
        kBudgets - 1);
  }
}

}  // namespace
}  // namespace autosp::checkpoint
