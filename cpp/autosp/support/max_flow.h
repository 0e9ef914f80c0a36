// Maximum flow, and all minimum cuts, of a directed network with integer capacities.
//
//   objective    minimise  the capacity of the arcs that lead from the source side to the sink side
//   constraints  the source is on the source side, the sink is not; no infinite arc is cut
//
// Dinic's algorithm (1970) with current arcs, iterative, so that a chain of thousands of nodes
// needs no stack. Exact: capacities are 128-bit integers, and the finite ones must add up to less
// than kLargestTotal.
//
// The source sides of the minimum cuts form a lattice (Picard and Queyranne 1980): they are the
// node sets that hold the smallest such side and are closed under the arcs of the residual network.
// Its strongly connected components in reverse topological order, each added to those before it,
// give a nested chain of minimum cuts from the smallest source side to the largest.
#pragma once

#include <vector>

namespace autosp {

class MaxFlow {
 public:
  __extension__ typedef __int128 Capacity;
  static constexpr Capacity kInfinite = Capacity{1} << 126;
  static constexpr Capacity kLargestTotal = Capacity{1} << 124;

  // Nodes are 0 .. nodes-1.
  MaxFlow(int nodes, int source, int sink);

  // Returns the number of the arc. Parallel arcs add up; an arc from a node to itself counts for
  // nothing. No arc is added after the first solve().
  int addArc(int from, int to, Capacity capacity);
  // Takes effect at the next solve().
  void setCapacity(int arc, Capacity capacity);

  // The capacity of a minimum cut; kInfinite when every cut has an infinite arc, and then the
  // questions below have no answer. Starts anew on each call.
  Capacity solve();

  // By node, of the last solve(): the smallest and the largest source side of a minimum cut.
  std::vector<char> minimalSourceSide() const;
  std::vector<char> maximalSourceSide() const;

  // The nodes of maximalSourceSide() in groups: the first is minimalSourceSide(), and the union of
  // the first k groups is the source side of a minimum cut, for each k >= 1. No group can be split:
  // every minimum cut has all of it on one side.
  std::vector<std::vector<int>> minimumCutChain() const;

 private:
  struct Arc {
    int to;
    Capacity residual;
  };

  void indexArcs();
  void checkSolved() const;
  bool layer();          // distances to the sink; whether the source has one
  bool augmentLayers();  // a blocking flow; false when it is unbounded

  int nodes_;
  int source_;
  int sink_;
  std::vector<Capacity> capacity_;  // by arc
  std::vector<Arc> arcs_;           // 2a is arc a, 2a+1 its reverse
  std::vector<int> first_;          // by node: where its part of out_ begins; one more at the end
  std::vector<int> out_;            // indices into arcs_, grouped by the node they leave
  Capacity value_ = 0;
  bool solved_ = false;
  std::vector<int> distance_, current_, queue_;  // scratch of solve()
};

}  // namespace autosp
