// A pairwise problem made smaller, with the same optima, before it is eliminated:
//   1. states that no allowed assignment can use are dropped: forbidden themselves, or without an
//   allowed
//      partner in some table (arc consistency, to a fixpoint);
//   2. variables left with one state are absorbed into the costs of their neighbours;
//   3. several tables on one pair become one edge.
// What is left are the free variables, numbered anew in the order of their ids.
#pragma once

#include <vector>

#include "autosp/sharding/elimination.h"

namespace autosp::sharding::elimination {

struct ReducedProblem {
  struct Edge {
    int a = 0;  // free variables, a < b
    int b = 0;
    std::vector<int> tables;  // indices into the source's pairs
  };

  const PairwiseProblem* source = nullptr;
  bool feasible = false;               // false: some variable has no state left; the rest is unset
  std::vector<std::vector<int>> live;  // per source variable, the states left, ascending
  std::vector<int> free_variables;     // source variable of each free variable, ascending
  std::vector<std::vector<Cost>> unary;  // per free variable, per live state
  std::vector<Edge> edges;
  Cost constant;  // what the absorbed variables cost among themselves

  // The summed cost of an edge over live states, row-major with free variable `rows` outside.
  void fillTable(const Edge& edge, int rows, std::vector<Cost>& out) const;
};

// The problem must be well formed and outlive the result.
ReducedProblem reduce(const PairwiseProblem& problem);

}  // namespace autosp::sharding::elimination
