// Arc consistency, absorption and merging of a pairwise problem.
#include "autosp/sharding/elimination_reduction.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace autosp::sharding::elimination {
namespace {

class ArcConsistency {
 public:
  explicit ArcConsistency(const PairwiseProblem& problem)
      : problem_(problem),
        live_(problem.unary.size()),
        touching_(problem.unary.size()),
        queued_(problem.pairs.size(), true) {
    for (std::size_t v = 0; v < problem.unary.size(); ++v) {
      for (std::size_t s = 0; s < problem.unary[v].size(); ++s) {
        if (!problem.unary[v][s].isForbidden()) live_[v].push_back(static_cast<int>(s));
      }
    }
    for (int t = 0; t < static_cast<int>(problem.pairs.size()); ++t) {
      touching_[problem.pairs[t].a].push_back(t);
      touching_[problem.pairs[t].b].push_back(t);
      queue_.push_back(t);
    }
  }

  // States left per variable; a variable without any means that no assignment is allowed.
  std::vector<std::vector<int>> run() {
    while (!queue_.empty()) {
      const int t = queue_.front();
      queue_.pop_front();
      queued_[t] = false;
      const PairTable& table = problem_.pairs[t];
      const std::size_t row = problem_.unary[table.b].size();
      dropUnsupported(table.a, table.b, [&](int a, int b) { return table.cost[a * row + b]; });
      dropUnsupported(table.b, table.a, [&](int b, int a) { return table.cost[a * row + b]; });
    }
    return std::move(live_);
  }

 private:
  template <class CostOf>
  void dropUnsupported(int v, int partner, CostOf cost_of) {
    const std::size_t before = live_[v].size();
    std::erase_if(live_[v], [&](int s) {
      return std::none_of(live_[partner].begin(), live_[partner].end(),
                          [&](int p) { return !cost_of(s, p).isForbidden(); });
    });
    if (live_[v].size() == before) return;
    for (int t : touching_[v]) {
      if (queued_[t]) continue;
      queued_[t] = true;
      queue_.push_back(t);
    }
  }

  const PairwiseProblem& problem_;
  std::vector<std::vector<int>> live_;
  std::vector<std::vector<int>> touching_;  // tables on each variable
  std::vector<char> queued_;
  std::deque<int> queue_;  // tables to look at again
};

// Gives each variable with several live states a free variable, and adds up the tables of one with
// one.
class Absorption {
 public:
  explicit Absorption(ReducedProblem& reduced)
      : reduced_(reduced), free_of_(reduced.source->unary.size(), -1) {}

  void run() {
    numberFreeVariables();
    std::vector<std::pair<std::pair<int, int>, int>> joining;  // (a, b), table
    for (int t = 0; t < static_cast<int>(reduced_.source->pairs.size()); ++t) {
      const PairTable& table = reduced_.source->pairs[t];
      const int a = free_of_[table.a];
      const int b = free_of_[table.b];
      if (a >= 0 && b >= 0) {
        joining.push_back({std::minmax(a, b), t});
      } else {
        absorb(table);
      }
    }
    std::sort(joining.begin(), joining.end());
    for (const auto& [ends, t] : joining) {
      auto& edges = reduced_.edges;
      if (edges.empty() || std::pair(edges.back().a, edges.back().b) != ends) {
        edges.push_back({ends.first, ends.second, {}});
      }
      edges.back().tables.push_back(t);
    }
  }

 private:
  void numberFreeVariables() {
    for (std::size_t v = 0; v < free_of_.size(); ++v) {
      const auto& costs = reduced_.source->unary[v];
      if (reduced_.live[v].size() == 1) {
        reduced_.constant += costs[reduced_.live[v][0]];
        continue;
      }
      free_of_[v] = static_cast<int>(reduced_.free_variables.size());
      reduced_.free_variables.push_back(static_cast<int>(v));
      auto& kept = reduced_.unary.emplace_back();
      for (int s : reduced_.live[v]) kept.push_back(costs[s]);
    }
  }

  // Of the two variables of this table at most one is free.
  void absorb(const PairTable& table) {
    const std::size_t row = reduced_.source->unary[table.b].size();
    const auto& live_a = reduced_.live[table.a];
    const auto& live_b = reduced_.live[table.b];
    for (std::size_t i = 0; i < live_a.size(); ++i) {
      for (std::size_t j = 0; j < live_b.size(); ++j) {
        const Cost& cost = table.cost[live_a[i] * row + live_b[j]];
        if (free_of_[table.a] >= 0) {
          reduced_.unary[free_of_[table.a]][i] += cost;
        } else if (free_of_[table.b] >= 0) {
          reduced_.unary[free_of_[table.b]][j] += cost;
        } else {
          reduced_.constant += cost;
        }
      }
    }
  }

  ReducedProblem& reduced_;
  std::vector<int> free_of_;  // free variable of a source variable, or -1
};

}  // namespace

void ReducedProblem::fillTable(const Edge& edge, int rows, std::vector<Cost>& out) const {
  const int columns = edge.a == rows ? edge.b : edge.a;
  const int row_variable = free_variables[rows];
  const auto& row_states = live[row_variable];
  const auto& column_states = live[free_variables[columns]];
  out.assign(row_states.size() * column_states.size(), Cost{});
  for (int t : edge.tables) {
    const PairTable& table = source->pairs[t];
    const std::size_t pitch = source->unary[table.b].size();
    const bool along = table.a == row_variable;
    Cost* entry = out.data();
    for (int r : row_states) {
      for (int c : column_states) *entry++ += table.cost[along ? r * pitch + c : c * pitch + r];
    }
  }
}

ReducedProblem reduce(const PairwiseProblem& problem) {
  ReducedProblem reduced;
  reduced.source = &problem;
  reduced.live = ArcConsistency(problem).run();
  reduced.feasible = std::none_of(reduced.live.begin(), reduced.live.end(),
                                  [](const auto& states) { return states.empty(); });
  if (reduced.feasible) Absorption(reduced).run();
  return reduced;
}

}  // namespace autosp::sharding::elimination
