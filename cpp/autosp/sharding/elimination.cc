// The exact solver's steps, and the evaluator that prices its plans independently.
#include "autosp/sharding/elimination.h"

#include <algorithm>
#include <string>
#include <utility>

#include "autosp/sharding/bucket_tree.h"
#include "autosp/sharding/elimination_order.h"
#include "autosp/sharding/elimination_reduction.h"
#include "autosp/sharding/optimum_set.h"
#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

constexpr std::size_t kMostStates = 65535;

void checkWellFormed(const PairwiseProblem& problem) {
  const int variables = static_cast<int>(problem.unary.size());
  for (int v = 0; v < variables; ++v) {
    AUTOSP_CHECK(problem.unary[v].size() <= kMostStates,
                 "variable " + std::to_string(v) + " has over 65535 states");
  }
  for (const PairTable& table : problem.pairs) {
    auto name = [&] {
      return "table on variables " + std::to_string(table.a) + " and " + std::to_string(table.b);
    };
    AUTOSP_CHECK(table.a >= 0 && table.a < variables && table.b >= 0 && table.b < variables,
                 name() + ": there are " + std::to_string(variables) + " variables");
    AUTOSP_CHECK(table.a != table.b, name() + ": a pair has two variables");
    AUTOSP_CHECK(
        table.cost.size() == problem.unary[table.a].size() * problem.unary[table.b].size(),
        name() + ": " + std::to_string(table.cost.size()) + " entries do not match the domains");
  }
}

// Whether sums of this problem's costs, and differences of such sums, may reach the limit of a
// component.
bool maySaturate(const PairwiseProblem& problem) {
  Cost reach;
  auto add = [&](const std::vector<Cost>& table) {
    Cost largest;
    for (const Cost& cost : table) {
      if (cost.isForbidden()) continue;
      auto widen = [](std::int64_t& most, std::int64_t value) {
        most = std::max(most, value < 0 ? -std::max(value, -Cost::kLargest) : value);
      };
      widen(largest.whole_bytes, cost.whole_bytes);
      widen(largest.time, cost.time);
      widen(largest.tie, cost.tie);
    }
    reach += largest;
  };
  for (const auto& table : problem.unary) add(table);
  for (const PairTable& table : problem.pairs) add(table.cost);
  return std::max({reach.whole_bytes, reach.time, reach.tie}) >= Cost::kLargest / 2;
}

}  // namespace

Solution minimize(const PairwiseProblem& problem, OrderRule rule) {
  checkWellFormed(problem);
  Solution solution;
  solution.cost = Cost::forbidden();
  const elimination::ReducedProblem reduced = elimination::reduce(problem);
  if (!reduced.feasible) return solution;

  std::vector<int> domain;
  for (const auto& costs : reduced.unary) domain.push_back(static_cast<int>(costs.size()));
  std::vector<std::pair<int, int>> edges;
  for (const auto& edge : reduced.edges) edges.emplace_back(edge.a, edge.b);
  const std::vector<int> order = elimination::eliminationOrder(domain, edges, rule);

  const elimination::BucketTree tree(reduced, order);
  solution.width = tree.width();
  solution.largest_table = tree.largestTable();
  solution.memo_hits = tree.memoHits();
  if (tree.cost().isForbidden()) return solution;

  const int free_count = static_cast<int>(order.size());
  std::vector<int> rank(free_count);
  for (int i = 0; i < free_count; ++i) rank[order[i]] = free_count - 1 - i;
  std::vector<int> by_rank = tree.decode(solution.unique);
  if (!solution.unique) by_rank = elimination::firstOptimum(tree, rank);

  for (const auto& states : reduced.live) solution.state.push_back(states.front());
  for (int f = 0; f < free_count; ++f) {
    const int v = reduced.free_variables[f];
    solution.state[v] = reduced.live[v][by_rank[rank[f]]];
  }
  solution.cost = evaluate(problem, solution.state);
  AUTOSP_CHECK(solution.cost == tree.cost() || maySaturate(problem),
               "the plan's price differs from the minimum found");
  return solution;
}

Cost evaluate(const PairwiseProblem& problem, const std::vector<int>& state) {
  AUTOSP_CHECK(state.size() == problem.unary.size(), "one state per variable");
  Cost total;
  for (std::size_t v = 0; v < state.size(); ++v) {
    const std::vector<Cost>& costs = problem.unary[v];
    AUTOSP_CHECK(state[v] >= 0 && static_cast<std::size_t>(state[v]) < costs.size(),
                 "variable " + std::to_string(v) + " has no state " + std::to_string(state[v]));
    total += costs[state[v]];
  }
  for (const PairTable& table : problem.pairs) {
    const std::size_t row = problem.unary[table.b].size();
    total += table.cost.at(static_cast<std::size_t>(state[table.a]) * row + state[table.b]);
  }
  return total;
}

}  // namespace autosp::sharding
