// The best plan at a given price of time in bytes, as a minimum cut. Exact.
//
//   objective    minimise  w.bytes * (bytes of the saved values)  +  w.time * (time run again)
//   constraints  a value that the backward needs is an input, saved, or made by an op that runs
//                again; an op that runs again needs all that it reads; the rules of
//                recompute_choices.h
//
// The network has a node for each op (on the sink side when it runs again) and for each value (on
// the sink side when the backward needs it). Its arcs charge or forbid:
//
//   source -> op    w.time * time     the op runs again; infinite: it must be kept
//   op -> value     w.bytes * bytes   the value is needed and its maker kept, so it is saved;
//                                     infinite: it may not be saved
//   value -> op     infinite          an op that runs again needs what it reads
//   value -> sink   infinite          the backward reads it
//
// Every legal plan is a cut of its own price, and the plan of a cut (RecomputeChoices::plan) costs
// no more than the cut: the minimum cut is the best plan, not an approximation. Nodes that an
// infinite arc ties to the source, the sink or each other are one node in the network.
//
// Only arcs that leave the source grow with w.time, so that the source sides of the minimum cuts
// are nested as time becomes dearer (Gallo, Grigoriadis and Tarjan 1989). At one price they form a
// lattice (support/max_flow.h), in which all have the same weighted sum: a larger source side has
// more bytes and less time. frontier.h walks both.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/cost/joint_program.h"
#include "autosp/support/max_flow.h"

namespace autosp::checkpoint {

// Prices of a byte and of a picosecond; both positive and at most 2^60 + 1.
struct Weights {
  std::int64_t bytes = 1;
  std::int64_t time = 1;
};

// Which of several best plans.
enum class Tie { kFewestBytes, kLeastTime };

class RecomputeCut {
 public:
  // `choices` must outlive this.
  explicit RecomputeCut(const RecomputeChoices& choices);

  // Weights under which the plan of fewest bytes is best, and of these the one of least time; and
  // the other way round.
  Weights bytesFirst() const;
  Weights timeFirst() const;

  // By op: whether it is kept. Useful ops only; the others are 0.
  std::vector<char> solve(Weights weights, Tie tie);

  // The nested best decisions at one price, from solve(kFewestBytes) to solve(kLeastTime): the ops
  // that are kept in the first of them, then those that each further one keeps in addition.
  std::vector<std::vector<cost::OpIndex>> nestedChain(Weights weights);

 private:
  void solveNetwork(Weights weights);

  struct Nodes {
    std::vector<int> op, value;  // the node of each; -1: not in the network
    int count = 0;
  };
  struct PricedArc {
    int arc;
    std::int64_t bytes, time;
  };

  static Nodes numberNodes(const RecomputeChoices& choices);
  void addArcs(cost::OpIndex o);

  const RecomputeChoices* choices_;
  Nodes nodes_;
  MaxFlow flow_;
  std::vector<PricedArc> priced_;
};

}  // namespace autosp::checkpoint
