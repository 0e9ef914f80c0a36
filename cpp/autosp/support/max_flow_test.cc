// Maximum flow against brute force over all cuts, and the lattice of minimum cuts.
#include "autosp/support/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "autosp/support/check.h"

namespace autosp {
namespace {

using Capacity = MaxFlow::Capacity;

struct TestArc {
  int from, to;
  Capacity capacity;
};

struct TestNetwork {
  int nodes = 0;  // the source is node 0, the sink node 1
  std::vector<TestArc> arcs;

  MaxFlow flow() const {
    MaxFlow out(nodes, 0, 1);
    for (const TestArc& arc : arcs) out.addArc(arc.from, arc.to, arc.capacity);
    return out;
  }
  // Of the cut whose source side is a bit set; kInfinite when an infinite arc is cut.
  Capacity cut(unsigned side) const {
    Capacity total = 0;
    for (const TestArc& arc : arcs) {
      if (!(side >> arc.from & 1) || (side >> arc.to & 1)) continue;
      if (arc.capacity == MaxFlow::kInfinite) return MaxFlow::kInfinite;
      total += arc.capacity;
    }
    return total;
  }
};

TestNetwork randomNetwork(std::mt19937& random) {
  auto below = [&](int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random); };
  TestNetwork network{2 + below(8), {}};
  for (int arcs = below(4 * network.nodes); arcs > 0; --arcs) {
    const Capacity capacity = below(8) == 0 ? MaxFlow::kInfinite : Capacity{below(6)};
    network.arcs.push_back({below(network.nodes), below(network.nodes), capacity});
  }
  return network;
}

unsigned bitsOf(const std::vector<char>& side) {
  unsigned bits = 0;
  for (std::size_t v = 0; v < side.size(); ++v) bits |= static_cast<unsigned>(side[v]) << v;
  return bits;
}

// Everything the class promises, by looking at every cut.
void expectAllCutsKnown(const TestNetwork& network, MaxFlow& flow) {
  Capacity least = MaxFlow::kInfinite;
  for (unsigned side = 0; side < 1U << network.nodes; ++side) {
    if ((side & 3) == 1) least = std::min(least, network.cut(side));
  }
  ASSERT_TRUE(flow.solve() == least);
  if (least == MaxFlow::kInfinite) {
    EXPECT_THROW(flow.minimalSourceSide(), InternalError);
    return;
  }
  std::vector<unsigned> minimum;
  unsigned smallest = ~0U, largest = 0;
  for (unsigned side = 0; side < 1U << network.nodes; ++side) {
    if ((side & 3) != 1 || network.cut(side) != least) continue;
    minimum.push_back(side);
    smallest &= side;
    largest |= side;
  }
  EXPECT_EQ(bitsOf(flow.minimalSourceSide()), smallest);
  EXPECT_EQ(bitsOf(flow.maximalSourceSide()), largest);

  unsigned side = 0;
  for (const std::vector<int>& group : flow.minimumCutChain()) {
    unsigned bits = 0;
    for (int v : group) bits |= 1U << v;
    EXPECT_EQ(side & bits, 0U);
    side |= bits;
    EXPECT_TRUE(network.cut(side) == least);
    if (side == bits) continue;  // the first group: nodes on the source side of every minimum cut
    for (unsigned other : minimum) EXPECT_TRUE((other & bits) == 0 || (other & bits) == bits);
  }
  EXPECT_EQ(side, largest);
}

TEST(MaxFlow, FlowAndLatticeOfMinimumCutsAgreeWithAllCuts) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const TestNetwork network = randomNetwork(random);
    MaxFlow flow = network.flow();
    expectAllCutsKnown(network, flow);
  }
}

TEST(MaxFlow, ChangedCapacitiesAreSolvedAsANewNetwork) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    TestNetwork network = randomNetwork(random);
    MaxFlow flow = network.flow();
    for (int change = 0; change < 4; ++change) {
      for (std::size_t a = 0; a < network.arcs.size(); ++a) {
        if (network.arcs[a].from != 0) continue;
        network.arcs[a].capacity = std::uniform_int_distribution<int>(0, 9)(random);
        flow.setCapacity(static_cast<int>(a), network.arcs[a].capacity);
      }
      expectAllCutsKnown(network, flow);
    }
  }
}

TEST(MaxFlow, EveryArcOfAChainOfEqualArcsIsAMinimumCut) {
  constexpr int kNodes = 20000;  // no recursion: would overflow a stack
  MaxFlow flow(kNodes, 0, kNodes - 1);
  for (int v = 0; v + 1 < kNodes; ++v) flow.addArc(v, v + 1, 7);
  EXPECT_TRUE(flow.solve() == 7);
  const std::vector<std::vector<int>> chain = flow.minimumCutChain();
  ASSERT_EQ(chain.size(), static_cast<std::size_t>(kNodes - 1));
  for (int v = 0; v + 1 < kNodes; ++v) EXPECT_EQ(chain[v], std::vector<int>{v});
}

TEST(MaxFlow, CapacitiesBeyond64BitsAreExact) {
  const Capacity large = Capacity{1} << 100;
  MaxFlow flow(4, 0, 1);
  flow.addArc(0, 2, large);
  flow.addArc(2, 1, MaxFlow::kInfinite);
  flow.addArc(0, 3, MaxFlow::kInfinite);
  flow.addArc(3, 1, large + 1);
  EXPECT_TRUE(flow.solve() == 2 * large + 1);
}

TEST(MaxFlow, MalformedNetworksAreRefused) {
  EXPECT_THROW(MaxFlow(2, 0, 0), InternalError);
  MaxFlow flow(2, 0, 1);
  EXPECT_THROW(flow.addArc(0, 2, 1), InternalError);
  EXPECT_THROW(flow.addArc(0, 1, -1), InternalError);
  flow.addArc(0, 1, MaxFlow::kLargestTotal);
  EXPECT_THROW(flow.solve(), InternalError);
}

}  // namespace
}  // namespace autosp
