// The network of a joint program, and its minimum cuts read as decisions.
#include "autosp/checkpoint/recompute_cut.h"

#include <cstddef>

#include "autosp/support/check.h"

namespace autosp::checkpoint {
namespace {

using cost::JointOp;
using cost::JointProgram;
using cost::OpIndex;
using cost::ValueIndex;

constexpr int kSource = 0;
constexpr int kSink = 1;
constexpr int kNone = -1;
constexpr std::int64_t kLargestWeight = (std::int64_t{1} << 60) + 1;

}  // namespace

RecomputeCut::Nodes RecomputeCut::numberNodes(const RecomputeChoices& choices) {
  const JointProgram& program = choices.program();
  Nodes nodes{std::vector<int>(program.ops.size(), kNone),
              std::vector<int>(program.values.size(), kNone), 2};
  std::vector<char> read_again(program.values.size(), 0);
  for (OpIndex o = 0; o < static_cast<OpIndex>(program.ops.size()); ++o) {
    if (!choices.isUseful(o)) continue;
    for (ValueIndex v : program.ops[o].reads) read_again[v] = 1;
  }
  for (OpIndex o = 0; o < static_cast<OpIndex>(program.ops.size()); ++o) {
    if (!choices.isUseful(o)) continue;
    nodes.op[o] = choices.mustRecompute(o) ? kSink : choices.mustKeep(o) ? kSource : nodes.count++;
    for (ValueIndex v : program.ops[o].makes) {
      if (choices.mustNeed(v)) {
        nodes.value[v] = kSink;
      } else if (!choices.maySave(v)) {
        nodes.value[v] = nodes.op[o];
      } else if (read_again[v]) {
        nodes.value[v] = nodes.count++;
      }
    }
  }
  return nodes;
}

RecomputeCut::RecomputeCut(const RecomputeChoices& choices)
    : choices_(&choices), nodes_(numberNodes(choices)), flow_(nodes_.count, kSource, kSink) {
  const OpIndex ops = static_cast<OpIndex>(choices.program().ops.size());
  for (OpIndex o = 0; o < ops; ++o) {
    if (choices.isUseful(o)) addArcs(o);
  }
}

void RecomputeCut::addArcs(OpIndex o) {
  const JointOp& op = choices_->program().ops[o];
  const int node = nodes_.op[o];
  if (node == kSink) return;  // what it reads is needed in every plan
  if (node != kSource) priced_.push_back({flow_.addArc(kSource, node, 0), 0, op.time});
  std::int64_t bytes_to_sink = 0;
  for (ValueIndex v : op.makes) {
    if (nodes_.value[v] == kSink) {
      bytes_to_sink += choices_->bytes(v);
    } else if (nodes_.value[v] != kNone && nodes_.value[v] != node) {
      priced_.push_back({flow_.addArc(node, nodes_.value[v], 0), choices_->bytes(v), 0});
    }
  }
  if (node == kSource) return;  // saved in every plan; and it does not run again
  if (bytes_to_sink > 0) priced_.push_back({flow_.addArc(node, kSink, 0), bytes_to_sink, 0});
  for (ValueIndex v : op.reads) {
    const int read = nodes_.value[v];
    if (read != kNone && read != kSink) flow_.addArc(read, node, MaxFlow::kInfinite);
  }
}

Weights RecomputeCut::bytesFirst() const {
  return {choices_->total().time + 1, 1};
}

Weights RecomputeCut::timeFirst() const {
  return {1, choices_->total().bytes + 1};
}

void RecomputeCut::solveNetwork(Weights weights) {
  AUTOSP_CHECK(weights.bytes > 0 && weights.bytes <= kLargestWeight && weights.time > 0 &&
                   weights.time <= kLargestWeight,
               "a weight is out of range");
  for (const PricedArc& priced : priced_) {
    flow_.setCapacity(priced.arc, MaxFlow::Capacity{weights.bytes} * priced.bytes +
                                      MaxFlow::Capacity{weights.time} * priced.time);
  }
  AUTOSP_CHECK(flow_.solve() < MaxFlow::kInfinite, "no plan is legal");
}

std::vector<char> RecomputeCut::solve(Weights weights, Tie tie) {
  solveNetwork(weights);
  const std::vector<char> side =
      tie == Tie::kFewestBytes ? flow_.minimalSourceSide() : flow_.maximalSourceSide();
  std::vector<char> kept(nodes_.op.size(), 0);
  for (std::size_t o = 0; o < kept.size(); ++o) {
    if (nodes_.op[o] != kNone) kept[o] = side[nodes_.op[o]];
  }
  return kept;
}

std::vector<std::vector<OpIndex>> RecomputeCut::nestedChain(Weights weights) {
  solveNetwork(weights);
  std::vector<int> group_of_node(static_cast<std::size_t>(nodes_.count), kNone);
  const std::vector<std::vector<int>> groups = flow_.minimumCutChain();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (int node : groups[g]) group_of_node[node] = static_cast<int>(g);
  }
  std::vector<std::vector<OpIndex>> chain(groups.size());
  for (std::size_t o = 0; o < nodes_.op.size(); ++o) {
    if (nodes_.op[o] == kNone || group_of_node[nodes_.op[o]] == kNone) continue;
    chain[group_of_node[nodes_.op[o]]].push_back(static_cast<OpIndex>(o));
  }
  return chain;
}

}  // namespace autosp::checkpoint
