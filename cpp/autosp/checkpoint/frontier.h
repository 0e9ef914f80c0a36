// The frontier of checkpointing: how little time is run again for how many bytes saved.
//
//   objective    minimise  (saved bytes, time run again), both: the lower hull of all legal plans,
//                and the plans on its edges
//   constraints  the rules of recompute_choices.h
//
// The corners of the hull are found by dichotomy: the minimum cut at the weights under which two
// known corners cost the same is either a new corner between them or the proof that there is none.
// All in integers, so it ends, with every corner. At the weights of an edge the minimum cuts form a
// lattice, and a nested chain of them (support/max_flow.h) gives points on the edge itself: each of
// these is optimal for its own number of bytes.
//
// Because the cuts are nested along the whole frontier, it is kept as one number an op: the first
// point at which the op is kept. Plans are made from it on demand.
//
// For a budget between two points fastestWithin() searches on (budget_search.h) among the plans
// between two corners around the budget, ever farther ones, and last among all plans, while its
// work allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/checkpoint/recompute_cut.h"

namespace autosp::checkpoint {

struct BudgetedPlan {
  PricedPlan plan;
  bool optimal = false;  // proven: no legal plan within the budget takes less time
};

class Frontier {
 public:
  // `choices` must outlive this.
  explicit Frontier(const RecomputeChoices& choices);

  // From fewest bytes to least time: bytes strictly ascend, times strictly descend, and all lie on
  // the lower hull. At least one.
  const std::vector<CheckpointCost>& points() const { return points_; }
  // Indices into points(), ascending: the corners of the hull, both ends among them.
  const std::vector<std::size_t>& corners() const { return corners_; }
  PricedPlan plan(std::size_t point) const;

  // The fastest plan found with at most that many saved bytes; nothing when no legal plan has so
  // few. At least as fast as the last of points() within the budget. `most_work` bounds the partial
  // plans that the search may look at; 0: points only.
  std::optional<BudgetedPlan> fastestWithin(std::int64_t bytes,
                                            std::int64_t most_work = kMostWork) const;
  // No legal plan within the budget takes less time than this; nothing when there is none.
  std::optional<std::int64_t> leastTimeWithin(std::int64_t bytes) const;

  // Minimum cuts that it took.
  int solves() const { return solves_; }

  static constexpr std::int64_t kMostWork = 2'000'000;

 private:
  std::vector<char> kept(std::size_t point) const;
  std::vector<char> fewestKept() const;  // of all decisions, legal or not
  std::vector<char> mostKept() const;
  // The last point with at most that many bytes; points().size() when there is none.
  std::size_t lastWithin(std::int64_t bytes) const;
  // The edge that leads from corner e, at or before the point, to corner e + 1 after it.
  std::size_t edgeAfter(std::size_t point) const;

  const RecomputeChoices* choices_;
  std::vector<CheckpointCost> points_;
  std::vector<std::size_t> corners_;
  std::vector<Weights> edges_;          // edge e joins corners e and e + 1, which weigh the same
  std::vector<std::size_t> kept_from_;  // by op: the first point at which it is kept
  int solves_ = 0;
};

}  // namespace autosp::checkpoint
