// The exact solver against brute force, and its promises: one plan whatever the order, a true count
// of optima, memo hits on repeated layers, defined results on infeasible, degenerate and saturating
// problems.
#include "autosp/sharding/elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/elimination_order.h"
#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

using Edges = std::vector<std::pair<int, int>>;
constexpr OrderRule kRules[] = {OrderRule::kMinFillHubLast, OrderRule::kMinDegree};

Cost timeOf(std::int64_t time) {
  return {0, time, 0};
}

struct BruteForce {
  Cost cost = Cost::forbidden();
  std::vector<int> state;  // the first optimum in lexicographic order
  std::int64_t optima = 0;
};

BruteForce solveByForce(const PairwiseProblem& problem) {
  BruteForce best;
  for (const auto& costs : problem.unary) {
    if (costs.empty()) return best;
  }
  std::vector<int> state(problem.unary.size(), 0);
  while (true) {
    const Cost cost = evaluate(problem, state);
    if (!cost.isForbidden() && cost == best.cost) ++best.optima;
    if (cost < best.cost) best = {cost, state, 1};
    std::size_t v = state.size();
    while (v > 0 && ++state[v - 1] == static_cast<int>(problem.unary[v - 1].size())) state[--v] = 0;
    if (v == 0) return best;
  }
}

void expectSolved(const PairwiseProblem& problem) {
  const BruteForce expected = solveByForce(problem);
  for (OrderRule rule : kRules) {
    const Solution found = minimize(problem, rule);
    EXPECT_EQ(found.cost, expected.cost);
    EXPECT_EQ(found.state, expected.state);
    EXPECT_EQ(found.unique, expected.optima == 1);
    if (!found.cost.isForbidden()) {
      EXPECT_EQ(evaluate(problem, found.state), found.cost);
    }
  }
}

// Random costs; a small range makes ties, the chance of forbidden entries is in percent.
class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  Cost cost(int range, int forbidden_percent) {
    if (below(100) < forbidden_percent) return Cost::forbidden();
    const int offset = below(4) == 0 ? range / 2 : 0;  // some negative
    return {below(2), below(range) - offset, below(range)};
  }

  PairwiseProblem on(int variables, const Edges& edges, int most_states, int range,
                     int forbidden_percent) {
    PairwiseProblem problem;
    problem.unary.resize(variables);
    for (auto& costs : problem.unary) {
      for (int s = below(most_states) + 1; s > 0; --s) {
        costs.push_back(cost(range, forbidden_percent));
      }
    }
    for (auto [a, b] : edges) {
      for (int copies = below(4) == 0 ? 2 : 1; copies > 0; --copies) {
        PairTable table{a, b, {}};
        if (below(2) == 0) std::swap(table.a, table.b);
        const std::size_t entries = problem.unary[a].size() * problem.unary[b].size();
        for (std::size_t i = 0; i < entries; ++i) {
          table.cost.push_back(cost(range, forbidden_percent));
        }
        problem.pairs.push_back(std::move(table));
      }
    }
    return problem;
  }

 private:
  std::mt19937 random_;
};

struct Shape {
  const char* name;
  int variables;
  Edges edges;
};

std::vector<Shape> smallShapes() {
  Edges clique;
  for (int a = 0; a < 6; ++a) {
    for (int b = a + 1; b < 6; ++b) clique.push_back({a, b});
  }
  return {
      {"isolated", 4, {}},
      {"tree", 8, {{0, 3}, {3, 1}, {3, 7}, {7, 2}, {7, 4}, {4, 5}, {5, 6}}},
      {"cycle", 7, {{0, 4}, {4, 1}, {1, 6}, {6, 2}, {2, 5}, {5, 3}, {3, 0}}},
      {"grid",
       9,
       {{0, 1},
        {1, 2},
        {3, 4},
        {4, 5},
        {6, 7},
        {7, 8},
        {0, 3},
        {3, 6},
        {1, 4},
        {4, 7},
        {2, 5},
        {5, 8}}},
      {"clique", 6, clique},
      {"hub", 8, {{5, 0}, {5, 1}, {5, 2}, {5, 3}, {5, 4}, {5, 6}, {5, 7}, {0, 1}, {2, 3}, {6, 7}}},
      {"two parts", 8, {{0, 2}, {2, 4}, {4, 0}, {1, 3}, {3, 5}}},
  };
}

TEST(EliminationCost, OrdersLexicographicallyAndSaturates) {
  EXPECT_LT((Cost{0, 9, 9}), (Cost{1, 0, 0}));
  EXPECT_LT((Cost{1, 2, 9}), (Cost{1, 3, 0}));
  EXPECT_LT((Cost{1, 2, 3}), (Cost{1, 2, 4}));
  EXPECT_EQ((Cost{1, 2, 3} + Cost{10, -20, 30}), (Cost{11, -18, 33}));
  EXPECT_EQ((Cost{1, 2, 3} - Cost{1, 5, 1}), (Cost{0, -3, 2}));
  const Cost most{Cost::kLargest, Cost::kLargest, Cost::kLargest};
  EXPECT_EQ(most + most, most);
  EXPECT_FALSE((most + most).isForbidden());
  EXPECT_LT(most, Cost::forbidden());
  const Cost least{-Cost::kLargest, -Cost::kLargest, -Cost::kLargest};
  EXPECT_EQ(least + least, least);
  EXPECT_EQ(least - most, least);
  EXPECT_EQ(timeOf(INT64_MAX) + timeOf(1), timeOf(Cost::kLargest));
  EXPECT_EQ(timeOf(INT64_MIN) + timeOf(-1), timeOf(-Cost::kLargest));
  EXPECT_EQ(timeOf(0) - timeOf(INT64_MIN), timeOf(Cost::kLargest));
}

TEST(EliminationCost, ForbiddenAbsorbs) {
  EXPECT_TRUE(Cost::forbidden().isForbidden());
  EXPECT_EQ(Cost::forbidden() + timeOf(-5), Cost::forbidden());
  EXPECT_EQ((Cost{-7, 1, 1} + Cost::forbidden()), Cost::forbidden());
  EXPECT_EQ(Cost::forbidden() + Cost::forbidden(), Cost::forbidden());
  EXPECT_EQ(Cost::forbidden() - timeOf(5), Cost::forbidden());
}

TEST(Elimination, EmptyProblemHasOnePlan) {
  const Solution solution = minimize({});
  EXPECT_EQ(solution.cost, Cost{});
  EXPECT_TRUE(solution.state.empty());
  EXPECT_TRUE(solution.unique);
  EXPECT_EQ(solution.width, 0);
}

TEST(Elimination, MatchesBruteForce) {
  RandomProblems random(1);
  for (const Shape& shape : smallShapes()) {
    for (int forbidden_percent : {0, 15, 45}) {
      for (int range : {1, 3, 100000}) {
        for (int trial = 0; trial < 8; ++trial) {
          SCOPED_TRACE(std::string(shape.name) + " forbidden " + std::to_string(forbidden_percent) +
                       "% range " + std::to_string(range) + " trial " + std::to_string(trial));
          expectSolved(random.on(shape.variables, shape.edges, 3, range, forbidden_percent));
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(Elimination, MatchesBruteForceOnRandomGraphs) {
  RandomProblems random(2);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const int variables = 2 + random.below(7);
    Edges edges;
    for (int a = 0; a < variables; ++a) {
      for (int b = a + 1; b < variables; ++b) {
        if (random.below(3) == 0) edges.push_back({a, b});
      }
    }
    expectSolved(random.on(variables, edges, 4, 2, 20));
    if (HasFailure()) return;
  }
}

// Too large for brute force: both orders find one cost, one plan, one answer on uniqueness.
TEST(Elimination, PlanDoesNotDependOnTheOrder) {
  RandomProblems random(3);
  int tied = 0;
  int feasible = 0;
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    Edges edges;
    for (int v = 1; v < 80; ++v) {
      for (int links = 1 + random.below(2); links > 0; --links) {
        edges.push_back({std::max(0, v - 1 - random.below(3)), v});
      }
      if (v > 2) edges.push_back({2, v});  // a hub
    }
    const PairwiseProblem problem = random.on(80, edges, 4, 2, 4);
    const Solution by_fill = minimize(problem, OrderRule::kMinFillHubLast);
    const Solution by_degree = minimize(problem, OrderRule::kMinDegree);
    EXPECT_EQ(by_fill.cost, by_degree.cost);
    EXPECT_EQ(by_fill.state, by_degree.state);
    EXPECT_EQ(by_fill.unique, by_degree.unique);
    feasible += !by_fill.cost.isForbidden();
    tied += !by_fill.cost.isForbidden() && !by_fill.unique;
  }
  EXPECT_GT(feasible, 5);
  EXPECT_GT(tied, 2);
}

TEST(Elimination, WholeBytesComeBeforeTimeAndTimeBeforeTie) {
  PairwiseProblem problem{{{{1, 0, 0}, {0, 900, 5}, {0, 900, 4}}, {{0, 10, 0}, {0, 0, 0}}}, {}};
  problem.pairs.push_back({0, 1, {{}, {}, {}, {1, 0, 0}, {}, {1, 0, 0}}});
  const Solution solution = minimize(problem);
  EXPECT_EQ(solution.cost, (Cost{0, 910, 4}));
  EXPECT_EQ(solution.state, (std::vector<int>{2, 0}));
  EXPECT_TRUE(solution.unique);
}

PairTable differ(int a, int b, int states) {
  PairTable table{a, b, std::vector<Cost>(states * states)};
  for (int s = 0; s < states; ++s) table.cost[s * states + s] = Cost::forbidden();
  return table;
}

TEST(Elimination, OfManyOptimaTheFirstIsTaken) {
  PairwiseProblem problem;
  for (int v = 0; v < 300; ++v) {
    problem.unary.push_back(std::vector<Cost>(3));
    if (v > 0) problem.pairs.push_back(differ(v - 1, v, 3));
  }
  std::vector<int> expected;
  for (int v = 0; v < 300; ++v) expected.push_back(v % 2);
  for (OrderRule rule : kRules) {
    const Solution solution = minimize(problem, rule);
    EXPECT_EQ(solution.cost, Cost{});
    EXPECT_FALSE(solution.unique);
    EXPECT_EQ(solution.state, expected);
  }
  problem.unary[150][0] = Cost::forbidden();
  expected[150] = 2;
  for (int v = 151; v < 300; ++v) expected[v] = (v + 1) % 2;
  EXPECT_EQ(minimize(problem).state, expected);
}

TEST(Elimination, InfeasibleProblemsAreForbidden) {
  auto expectInfeasible = [](const PairwiseProblem& problem) {
    for (OrderRule rule : kRules) {
      const Solution solution = minimize(problem, rule);
      EXPECT_TRUE(solution.cost.isForbidden());
      EXPECT_TRUE(solution.state.empty());
      EXPECT_FALSE(solution.unique);
    }
  };
  expectInfeasible({{{Cost::forbidden(), Cost::forbidden()}, {Cost{}}}, {}});
  expectInfeasible({{{}, {Cost{}}}, {}});
  expectInfeasible({{{Cost{}}, {Cost{}}}, {{0, 1, {Cost::forbidden()}}}});
  // Two colours on an odd cycle: every pair of neighbours has allowed states, the whole has none.
  PairwiseProblem cycle{std::vector<std::vector<Cost>>(5, std::vector<Cost>(2)), {}};
  for (int v = 0; v < 5; ++v) cycle.pairs.push_back(differ(v, (v + 1) % 5, 2));
  expectInfeasible(cycle);
  // Two tables that allow something each and nothing together.
  PairTable same{0, 1, {Cost{}, Cost::forbidden(), Cost::forbidden(), Cost{}}};
  expectInfeasible(
      {std::vector<std::vector<Cost>>(2, std::vector<Cost>(2)), {same, differ(1, 0, 2)}});
}

TEST(Elimination, MalformedProblemsAreInternalErrors) {
  const std::vector<std::vector<Cost>> two(2, std::vector<Cost>(2));
  const std::vector<Cost> four(4);
  EXPECT_THROW(minimize({two, {{0, 2, four}}}), InternalError);
  EXPECT_THROW(minimize({two, {{-1, 0, four}}}), InternalError);
  EXPECT_THROW(minimize({two, {{1, 1, four}}}), InternalError);
  EXPECT_THROW(minimize({two, {{0, 1, std::vector<Cost>(3)}}}), InternalError);
  EXPECT_THROW(evaluate({two, {}}, {0}), InternalError);
  EXPECT_THROW(evaluate({two, {}}, {0, 2}), InternalError);
  EXPECT_THROW(evaluate({two, {}}, {0, -1}), InternalError);
}

TEST(Elimination, RefusesTablesBeyondMemory) {
  PairwiseProblem problem{std::vector<std::vector<Cost>>(12, std::vector<Cost>(10)), {}};
  for (int a = 0; a < 12; ++a) {
    for (int b = a + 1; b < 12; ++b) problem.pairs.push_back({a, b, std::vector<Cost>(100)});
  }
  EXPECT_THROW(minimize(problem), InternalError);
}

TEST(Elimination, SaturatingCostsStillGiveAnAllowedPlan) {
  const Cost most{Cost::kLargest, Cost::kLargest, 0};
  PairwiseProblem problem;
  for (int v = 0; v < 6; ++v) {
    problem.unary.push_back({Cost::forbidden(), most, most});
    if (v > 0) problem.pairs.push_back({v - 1, v, std::vector<Cost>(9, most)});
  }
  for (OrderRule rule : kRules) {
    const Solution solution = minimize(problem, rule);
    EXPECT_EQ(solution.cost, most);
    EXPECT_EQ(solution.cost, evaluate(problem, solution.state));
  }
}

TEST(Elimination, LargeCostsWithinTheLimitAreExact) {
  const std::int64_t large = Cost::kLargest / 64;
  PairwiseProblem problem{{{{large, large, 0}, {large, large - 1, 0}}, {{}, {}}}, {}};
  problem.pairs.push_back({0, 1, {{large, 5, 0}, {large, 4, 0}, {large, 7, 0}, {large, 5, 0}}});
  const Solution solution = minimize(problem);
  EXPECT_EQ(solution.cost, (Cost{2 * large, large + 4, 0}));
  EXPECT_EQ(solution.state, (std::vector<int>{0, 1}));
}

// Layers of the shape of a transformer's: a residual chain, branches that split and join, rotated q
// and k that read two hubs (the cosines and sines). Costs are the same in every layer.
PairwiseProblem layersWithHubs(int layers, unsigned seed) {
  RandomProblems random(seed);
  PairwiseProblem problem;
  auto variable = [&](int states) {
    problem.unary.emplace_back();
    for (int s = 0; s < states; ++s) problem.unary.back().push_back(timeOf(0));
    return static_cast<int>(problem.unary.size()) - 1;
  };
  std::vector<std::vector<Cost>> unary_of;  // one layer's costs, in the order of use
  std::vector<std::vector<Cost>> pair_of;
  std::size_t unary_at = 0;
  std::size_t pair_at = 0;
  auto op = [&](int states, const std::vector<int>& inputs) {
    const int v = variable(states);
    if (unary_at == unary_of.size()) {
      unary_of.emplace_back();
      for (int s = 0; s < states; ++s) unary_of.back().push_back({0, random.below(1 << 20), s});
    }
    problem.unary[v] = unary_of[unary_at++];
    for (int input : inputs) {
      const std::size_t entries = problem.unary[input].size() * states;
      if (pair_at == pair_of.size()) {
        pair_of.emplace_back();
        for (std::size_t i = 0; i < entries; ++i) {
          pair_of.back().push_back(random.below(3) == 0 && i % (states + 1) != 0
                                       ? Cost::forbidden()
                                       : Cost{0, random.below(1 << 20), 0});
        }
      }
      problem.pairs.push_back({input, v, pair_of[pair_at++]});
    }
    return v;
  };
  const int cosines = variable(6);
  const int sines = variable(6);
  int residual = variable(5);
  for (int layer = 0; layer < layers; ++layer) {
    unary_at = 0;
    pair_at = 0;
    auto chain = [&](int from, int length) {
      for (int i = 0; i < length; ++i) from = op(4, {from});
      return from;
    };
    auto copies = [&](int from, int states) {
      return op(states, {from});
    };  // of a value read twice
    auto norm = [&](int from) {
      const int input = copies(from, 12);
      return copies(op(4, {input, chain(input, 5)}), 14);
    };
    auto rotate = [&](int from) {
      const int input = copies(chain(from, 4), 9);
      const int half = chain(op(5, {chain(input, 1), chain(input, 2)}), 1);
      return op(4, {op(4, {input, cosines}), op(4, {half, sines})});
    };
    const int input = copies(residual, 12);
    const int normed = norm(input);
    const int query = rotate(normed);
    const int key = rotate(normed);
    const int attended = op(7, {query, chain(key, 3), chain(normed, 6)});
    const int middle = copies(op(5, {chain(attended, 4), input}), 12);
    const int wide = norm(middle);
    residual = op(5, {chain(op(5, {chain(wide, 2), chain(wide, 1)}), 1), middle});
  }
  return problem;
}

TEST(Elimination, RepeatedLayersHitTheMemo) {
  const Solution few = minimize(layersWithHubs(4, 7));
  const Solution many = minimize(layersWithHubs(24, 7));
  EXPECT_EQ(few.width, many.width);
  EXPECT_EQ(few.largest_table, many.largest_table);
  // Past the first layers nearly all is repetition.
  const std::size_t variables_added =
      layersWithHubs(24, 7).unary.size() - layersWithHubs(4, 7).unary.size();
  EXPECT_GT(many.memo_hits - few.memo_hits, static_cast<std::int64_t>(variables_added * 9 / 10));
  for (OrderRule rule : kRules) {
    const PairwiseProblem problem = layersWithHubs(24, 7);
    const Solution solution = minimize(problem, rule);
    EXPECT_EQ(solution.cost, many.cost);
    EXPECT_EQ(solution.state, many.state);
    EXPECT_EQ(evaluate(problem, solution.state), solution.cost);
  }
}

TEST(Elimination, SameInputSameSolution) {
  const PairwiseProblem problem = layersWithHubs(3, 9);
  const Solution first = minimize(problem);
  const Solution second = minimize(problem);
  EXPECT_EQ(first.state, second.state);
  EXPECT_EQ(first.memo_hits, second.memo_hits);
}

TEST(EliminationOrder, TakesLeavesFirstAndIsAPermutation) {
  const Edges star{{0, 1}, {0, 2}, {0, 3}};
  for (OrderRule rule : kRules) {
    EXPECT_EQ(elimination::eliminationOrder({2, 2, 2, 2}, star, rule),
              (std::vector<int>{1, 2, 0, 3}));
  }
  EXPECT_TRUE(elimination::eliminationOrder({}, {}, OrderRule::kMinDegree).empty());
}

TEST(EliminationOrder, LeavesHubsForLast) {
  // A ring of 40 around a centre, which is left until the ring has shrunk.
  Edges wheel;
  for (int v = 1; v <= 40; ++v) {
    wheel.push_back({0, v});
    wheel.push_back(std::minmax(v, v % 40 + 1));
  }
  const std::vector<int> domain(41, 2);
  const auto order = elimination::eliminationOrder(domain, wheel, OrderRule::kMinFillHubLast);
  ASSERT_EQ(order.size(), 41u);
  const auto hub_at = std::find(order.begin(), order.end(), 0) - order.begin();
  EXPECT_GE(hub_at, 40 - elimination::kHubDegree);
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int v = 0; v <= 40; ++v) EXPECT_EQ(sorted[v], v);
}

// Printed, not asserted: machines differ.
TEST(Elimination, Timing) {
  for (int layers : {32, 128}) {
    const PairwiseProblem problem = layersWithHubs(layers, 5);
    Solution solution;
    double best_ms = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      solution = minimize(problem);
      const std::chrono::duration<double, std::milli> elapsed =
          std::chrono::steady_clock::now() - start;
      best_ms = std::min(best_ms, elapsed.count());
    }
    EXPECT_FALSE(solution.cost.isForbidden());
    std::printf("%d layers: %zu variables, width %d, largest table %lld, memo hits %lld: %.1f ms\n",
                layers, problem.unary.size(), solution.width,
                static_cast<long long>(solution.largest_table),
                static_cast<long long>(solution.memo_hits), best_ms);
  }
}

}  // namespace
}  // namespace autosp::sharding
