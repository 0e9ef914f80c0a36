// The set of all optima of an eliminated problem, and the canonical one among them.
//
// An assignment is optimal exactly when every variable takes a least-cost state of its bucket given
// its scope. The set is kept as, per bucket, the scope assignments that some optimum has and the
// states open there: a tree of relations, whose size is that of the ties, not of the tables.
//
//   objective  the state vector that comes first lexicographically, by variable id
//
// Found without search: variable by variable, the lowest open state is kept and whatever no longer
// belongs to an optimum is removed, from the bucket to its parent and its children. Each entry of
// the set is removed at most once.
#pragma once

#include <vector>

#include "autosp/sharding/bucket_tree.h"

namespace autosp::sharding::elimination {

// State per rank. ranks_by_id: the ranks in order of variable id. The tree's cost must be finite.
std::vector<int> firstOptimum(const BucketTree& tree, const std::vector<int>& ranks_by_id);

}  // namespace autosp::sharding::elimination
