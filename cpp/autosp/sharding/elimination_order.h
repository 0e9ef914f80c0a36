// The order in which elimination takes the variables of a pairwise problem.
//
//   kMinFillHubLast  the variable whose neighbours lack the fewest edges among themselves; a
//   variable with
//                    more than kHubDegree neighbours (the cosines and sines that every layer reads)
//                    is not scored but left for last: scoring it again at each step would cost more
//                    than the solve
//   kMinDegree       the variable with the fewest neighbours: faster to find, larger tables
//
// Equal scores go to the variable with the smaller table, then to the lower id.
#pragma once

#include <utility>
#include <vector>

#include "autosp/sharding/elimination.h"

namespace autosp::sharding::elimination {

inline constexpr int kHubDegree = 24;

// A permutation of the variables 0..domain.size()-1, first eliminated first. domain: states per
// variable; edges: pairs of different variables, each pair once.
std::vector<int> eliminationOrder(const std::vector<int>& domain,
                                  const std::vector<std::pair<int, int>>& edges, OrderRule rule);

}  // namespace autosp::sharding::elimination
