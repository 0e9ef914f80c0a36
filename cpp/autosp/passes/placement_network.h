// The placement problem of a graph, as a pairwise cost network for sharding/elimination.h.
//
//   variables    one per op: which strategy it runs with (a form required of each operand, a form of each
//                result); one per value read more than once: which forms of it exist; one per output
//   objective    lexicographic: bytes of the sequence held whole (memory objective only), then time, then a
//                tie index that prefers sequence cuts, then other cuts, then whole
//   constraints  a reader's required forms are among those that exist; a conversion exists
//
// addOps, addReaders and addOutputs build the three groups. With the memory objective, bytes held whole are
// counted twice where a float value is computed whole (value and gradient) and once for a whole copy of a cut
// value, so whatever a rule can cut is cut, and copies are weighed against each other; weights are cut only
// along the sequence. A value exists in at most three forms (its own and two copies).
#pragma once

#include <string>
#include <vector>

#include "autosp/cost/machine.h"
#include "autosp/ir/graph.h"
#include "autosp/passes/conversions.h"
#include "autosp/sharding/elimination.h"
#include "autosp/sharding/propagation.h"
#include "autosp/sharding/sequence.h"

namespace autosp::passes {

struct PlacementSettings {
  bool minimize_memory = true;  // objective="memory"; else "time"
  bool gradients_partial = false;
  cost::Machine machine;
};

class PlacementNetwork {
 public:
  PlacementNetwork(const ir::Graph& graph, const sharding::RuleCache& rules,
                   const sharding::SequenceFacts& sequence, PlacementSettings settings);

  const sharding::PairwiseProblem& problem() const { return problem_; }
  // Strategy of an op in a solution; the op must have a variable (no effect op has one).
  const sharding::Strategy& strategy(ir::OpId op, const std::vector<int>& state) const;
  bool hasVariable(ir::OpId op) const { return op_variable_[op.at()] >= 0; }
  const std::vector<sharding::Strategy>& strategies(ir::OpId op) const {
    return strategies_[op.at()];
  }
  const ir::Form& outputForm(std::size_t output, const std::vector<int>& state) const;
  // Prices a solution afresh, conversions and all, from the forms alone: no table is read.
  sharding::Cost reprice(const std::vector<int>& state) const;

 private:
  struct Reader {
    int variable = 0;
    std::vector<std::vector<ir::Form>> needs;  // by state: distinct forms required of the value
  };
  void addOps();
  void addReaders();
  void addOutputs();
  void collectCandidates();
  std::vector<sharding::Strategy> enumerate(ir::OpId op) const;
  bool weightsStayWhole(const ir::Op& op, const sharding::Strategy& strategy) const;
  sharding::Cost opCost(const ir::Op& op, const sharding::Strategy& strategy) const;
  // Cost of making `needed` from `own`: whole copies and time.
  sharding::Cost copyCost(ir::ValueId value, const ir::Form& own,
                          const std::vector<ir::Form>& needed) const;
  std::vector<ir::Form> ownForms(ir::ValueId value) const;
  int newVariable(std::vector<sharding::Cost> unary);

  const ir::Graph& graph_;
  const sharding::RuleCache& rules_;
  const sharding::SequenceFacts& sequence_;
  PlacementSettings settings_;
  ValueTerms terms_;
  std::vector<ir::InputKind> input_kind_;      // by value; kUser for computed ones
  std::vector<char> is_input_;                 // by value
  std::vector<std::vector<ir::Cut>> candidates_;  // by value
  std::vector<std::vector<sharding::Strategy>> strategies_;  // by op
  std::vector<int> op_variable_;               // by op, -1 for none
  std::vector<int> output_variable_;           // by output
  std::vector<std::vector<ir::Form>> output_forms_;
  std::vector<std::vector<Reader>> readers_;   // by value
  sharding::PairwiseProblem problem_;
};

}  // namespace autosp::passes
