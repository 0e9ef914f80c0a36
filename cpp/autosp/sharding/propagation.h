// Where a cut can travel. From seeds (a dim of some value), a cut is carried through the rules of the ops
// that define and read the value, forward and backward, to a fixpoint: every dim it reaches can be dealt out
// with boundaries that agree. Seeds whose cuts meet on one value are one class: the same sequence. Sizes
// decide nothing, only dims and factors, so B = S = H is no trouble.
//
// A value keeps few boundaries per coordinate, those least moved from the seed's: one where it carries a gradient,
// two elsewhere (tokens that are inputs and, moved by one, labels). More would not end: such tokens would pass on a
// window moved by two, by three, and so on. Other boundaries are not lost: an op's strategies come from the cuts
// of any value it touches, and a reader may ask for boundaries of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/sharding/rule.h"
#include "autosp/sharding/rule_table.h"

namespace autosp::sharding {

// The rule of every live op, computed once; attention has its mark rule here (heads are not a factor of it).
class RuleCache {
 public:
  RuleCache(const ir::Graph& graph, const RuleTable& table);
  const std::optional<OpRule>& rule(ir::OpId op) const { return rules_[op.at()]; }

 private:
  std::vector<std::optional<OpRule>> rules_;
};

bool isAttention(const ir::Op& op);

class CutPropagation {
 public:
  enum class Through {
    kAnyFactor,   // also factors that may not be cut: what carries the sequence
    kCutFactors,  // only through strategies that exist: what can be cut
  };
  CutPropagation(const ir::Graph& graph, const RuleCache& rules, Through through);

  // Parameters a cut may not enter; a step that would cut one is not taken.
  void forbid(ir::ValueId value);
  // Starts a cut; returns the id of its class (before merging).
  int seed(ir::ValueId value, const ir::Cut& cut);
  void run();

  struct Reached {
    ir::Cut cut;
    int seed = 0;
  };
  const std::vector<Reached>& reached(ir::ValueId value) const { return reached_[value.at()]; }
  bool has(ir::ValueId value, const ir::Cut& cut) const;
  // Representative of the merged class.
  int classOf(int seed) const;

 private:
  void add(ir::ValueId value, const ir::Cut& cut, int seed);
  void step(ir::OpId op, ir::ValueId value, const ir::Cut& cut, int seed);
  int find(int seed);

  const ir::Graph& graph_;
  const RuleCache& rules_;
  Through through_;
  std::vector<std::vector<Reached>> reached_;
  std::vector<std::vector<ir::OpId>> neighbours_;  // by value: its definition and its readers
  std::vector<char> forbidden_;
  std::vector<int> parent_;  // union-find over seeds
  struct Work {
    ir::ValueId value;
    ir::Cut cut;
    int seed;
  };
  std::map<std::int64_t, std::deque<Work>> work_;  // by how far the window has moved
};

}  // namespace autosp::sharding
