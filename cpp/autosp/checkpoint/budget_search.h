// The fastest plan within a number of bytes, among the decisions between two nested ones.
//
//   objective    minimise  the time run again
//   constraints  saved bytes <= budget; ops that `low` keeps are kept, and ops that `high` does not
//                keep are not; the plan is legal
//
// Minimum cuts (recompute_cut.h) find only plans on the lower hull of (bytes, time); with n equal
// layers a budget between two of them wastes up to an n-th of what a whole edge of the hull saves.
// This closes the gap: a dynamic program over the ops from the last to the first. Its state is the
// set of values needed by the ops passed so far whose makers are still to come; each state has the
// list of its undominated (bytes, time). The state stays small because few ops differ between low
// and high, and what they read is made nearby.
//
// Exact, by Lagrange's bound: among partial decisions with the same state, one whose weighted sum
// exceeds the least by `gap` or more cannot end below `incumbent` in time, and is dropped (every
// completion is open to both, and none makes the least sum smaller than the hull's).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/checkpoint/recompute_cut.h"

namespace autosp::checkpoint {

struct BudgetQuestion {
  std::int64_t budget = 0;     // bytes
  CheckpointCost incumbent;    // a known plan within the budget; wanted is less time
  Weights weights;             // of the hull's edge over the budget
  CheckpointCost on_hull;      // a point on that edge: its weighted sum is the least of all plans
  std::int64_t most_work = 0;  // partial decisions looked at before giving up
};

struct BudgetAnswer {
  bool complete = false;  // false: given up, and `kept` is empty
  // By op; the decision of least time, and then of fewest bytes, that beats the incumbent.
  std::optional<std::vector<char>> kept;
  CheckpointCost cost;  // of it
};

// `low` and `high` by op; high keeps all that low keeps, and neither need be legal.
BudgetAnswer fastestBetween(const RecomputeChoices& choices, const std::vector<char>& low,
                            const std::vector<char>& high, const BudgetQuestion& question);

}  // namespace autosp::checkpoint
