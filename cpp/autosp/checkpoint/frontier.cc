// The walk along the hull from fewest bytes to least time, and the search at one budget.
#include "autosp/checkpoint/frontier.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "autosp/checkpoint/budget_search.h"
#include "autosp/support/check.h"

namespace autosp::checkpoint {
namespace {

using cost::JointOp;
using cost::OpIndex;
using cost::ValueIndex;
using Sum = MaxFlow::Capacity;

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

Sum weigh(Weights weights, CheckpointCost cost) {
  return Sum{weights.bytes} * cost.bytes + Sum{weights.time} * cost.time;
}

// The weights under which two costs weigh the same; a has fewer bytes and more time.
Weights weightsThrough(CheckpointCost a, CheckpointCost b) {
  const std::int64_t bytes = b.bytes - a.bytes, time = a.time - b.time;
  const std::int64_t divisor = std::gcd(bytes, time);
  return {time / divisor, bytes / divisor};
}

// The cost of a decision that keeps ever more ops; all changes together cost one pass over the
// program.
class GrowingDecision {
 public:
  explicit GrowingDecision(const RecomputeChoices& choices)
      : choices_(choices),
        kept_(choices.program().ops.size(), 0),
        needed_results_(kept_.size(), 0),
        needs_(choices.program().values.size(), 0) {
    const auto& ops = choices.program().ops;
    for (OpIndex o = static_cast<OpIndex>(ops.size()) - 1; o >= 0; --o) {
      if (!choices.isUseful(o)) continue;
      for (ValueIndex v : ops[o].makes) {
        needs_[v] += choices.isReadByBackward(v) ? 1 : 0;
        needed_results_[o] += needs_[v] > 0 ? 1 : 0;
      }
      if (needed_results_[o] == 0) continue;
      cost_.time += ops[o].time;
      for (ValueIndex v : ops[o].reads) needs_[v] += choices.isMade(v) ? 1 : 0;
    }
  }

  CheckpointCost cost() const { return cost_; }
  bool isKept(OpIndex o) const { return kept_[o]; }

  void keep(OpIndex o) {
    kept_[o] = 1;
    if (needed_results_[o] == 0) return;
    for (ValueIndex v : choices_.program().ops[o].makes) {
      if (needs_[v] > 0) cost_.bytes += choices_.bytes(v);
    }
    stopRunning(o);
  }

 private:
  // Op o does not run again: what only it read is no longer needed.
  void stopRunning(OpIndex o) {
    std::vector<OpIndex> stopped{o};
    while (!stopped.empty()) {
      const JointOp& op = choices_.program().ops[stopped.back()];
      stopped.pop_back();
      cost_.time -= op.time;
      for (ValueIndex v : op.reads) {
        if (!choices_.isMade(v) || --needs_[v] > 0) continue;
        const OpIndex maker = choices_.program().values[v].maker;
        --needed_results_[maker];
        if (kept_[maker]) {
          cost_.bytes -= choices_.bytes(v);
        } else if (needed_results_[maker] == 0) {
          stopped.push_back(maker);
        }
      }
    }
  }

  const RecomputeChoices& choices_;
  std::vector<char> kept_;
  std::vector<int> needed_results_;  // by op: how many of its results are needed
  std::vector<int> needs_;           // by value: how many ops that run, or the backward, need it
  CheckpointCost cost_;
};

}  // namespace

Frontier::Frontier(const RecomputeChoices& choices)
    : choices_(&choices), kept_from_(choices.program().ops.size(), kNever) {
  RecomputeCut cut(choices);
  GrowingDecision decision(choices);
  auto keep = [&](OpIndex o, std::size_t point) {
    if (decision.isKept(o)) return;
    decision.keep(o);
    kept_from_[o] = point;
  };
  auto solve = [&](Weights weights) {
    ++solves_;
    return cut.solve(weights, Tie::kFewestBytes);
  };

  const std::vector<char> first = solve(cut.bytesFirst());
  for (std::size_t o = 0; o < first.size(); ++o) {
    if (first[o]) keep(static_cast<OpIndex>(o), 0);
  }
  points_.push_back(decision.cost());
  corners_.push_back(0);
  std::vector<CheckpointCost> ahead{choices.plan(solve(cut.timeFirst())).cost};
  while (!ahead.empty()) {
    const CheckpointCost from = points_.back(), to = ahead.back();
    if (from == to) {
      ahead.pop_back();
      continue;
    }
    const Weights weights = weightsThrough(from, to);
    const CheckpointCost between = choices.plan(solve(weights)).cost;
    if (weigh(weights, between) < weigh(weights, from)) {
      ahead.push_back(between);
      continue;
    }
    ++solves_;
    for (const std::vector<OpIndex>& group : cut.nestedChain(weights)) {
      for (OpIndex o : group) keep(o, points_.size());
      if (decision.cost() == points_.back()) continue;
      AUTOSP_CHECK(weigh(weights, decision.cost()) == weigh(weights, from),
                   "a cut of the chain is not minimal");
      points_.push_back(decision.cost());
    }
    AUTOSP_CHECK(points_.back() == to, "the chain does not lead to the next corner");
    corners_.push_back(points_.size() - 1);
    edges_.push_back(weights);
  }
}

std::vector<char> Frontier::kept(std::size_t point) const {
  std::vector<char> out(kept_from_.size(), 0);
  for (std::size_t o = 0; o < out.size(); ++o) out[o] = kept_from_[o] <= point;
  return out;
}

PricedPlan Frontier::plan(std::size_t point) const {
  PricedPlan out = choices_->plan(kept(point));
  AUTOSP_CHECK(out.cost == points_[point], "the plan of a point has another cost");
  return out;
}

std::vector<char> Frontier::fewestKept() const {
  std::vector<char> out(kept_from_.size(), 0);
  for (std::size_t o = 0; o < out.size(); ++o) out[o] = choices_->mustKeep(static_cast<OpIndex>(o));
  return out;
}

std::vector<char> Frontier::mostKept() const {
  std::vector<char> out(kept_from_.size(), 0);
  for (std::size_t o = 0; o < out.size(); ++o) {
    out[o] = !choices_->mustRecompute(static_cast<OpIndex>(o));
  }
  return out;
}

std::size_t Frontier::lastWithin(std::int64_t bytes) const {
  const auto after = std::upper_bound(
      points_.begin(), points_.end(), bytes,
      [](std::int64_t limit, const CheckpointCost& point) { return limit < point.bytes; });
  return after == points_.begin() ? points_.size()
                                  : static_cast<std::size_t>(after - points_.begin()) - 1;
}

std::size_t Frontier::edgeAfter(std::size_t point) const {
  const auto after = std::upper_bound(corners_.begin(), corners_.end(), point);
  return static_cast<std::size_t>(after - corners_.begin()) - 1;
}

std::optional<std::int64_t> Frontier::leastTimeWithin(std::int64_t bytes) const {
  const std::size_t point = lastWithin(bytes);
  if (point == points_.size()) return std::nullopt;
  if (point + 1 == points_.size()) return points_.back().time;
  const Weights weights = edges_[edgeAfter(point)];
  // weights.time * time >= sum of the edge - weights.bytes * bytes, rounded up to an integer
  const Sum rest = weigh(weights, points_[point]) - Sum{weights.bytes} * bytes;
  return static_cast<std::int64_t>((rest + weights.time - 1) / weights.time);
}

std::optional<BudgetedPlan> Frontier::fastestWithin(std::int64_t bytes,
                                                    std::int64_t most_work) const {
  const std::size_t point = lastWithin(bytes);
  if (point == points_.size()) return std::nullopt;
  std::vector<char> best = kept(point);
  BudgetQuestion question;
  question.budget = bytes;
  question.incumbent = points_[point];
  question.most_work = most_work;
  const std::int64_t bound = *leastTimeWithin(bytes);
  auto optimal = [&] { return question.incumbent.time == bound; };
  // Whether the search among the decisions between these two came to its end.
  auto search = [&](const std::vector<char>& low, const std::vector<char>& high) {
    BudgetAnswer answer = fastestBetween(*choices_, low, high, question);
    if (!answer.kept) return answer.complete;
    best = std::move(*answer.kept);
    question.incumbent = answer.cost;
    return true;
  };
  bool complete = most_work > 0, all = false;
  if (!optimal() && complete) {
    const std::size_t edge = edgeAfter(point), last = corners_.size() - 1;
    question.weights = edges_[edge];
    question.on_hull = points_[point];
    for (std::size_t wider = 0; complete && !optimal() && !all; ++wider) {
      const std::size_t low = edge - std::min(edge, wider);
      const std::size_t high = std::min(edge + 1 + wider, last);
      complete = search(kept(corners_[low]), kept(corners_[high]));
      all = low == 0 && high == last;
    }
    if (complete && !optimal()) complete = search(fewestKept(), mostKept());
  }
  BudgetedPlan out{choices_->plan(best), optimal() || (all && complete)};
  AUTOSP_CHECK(out.plan.cost == question.incumbent, "the plan within a budget has another cost");
  return out;
}

}  // namespace autosp::checkpoint
