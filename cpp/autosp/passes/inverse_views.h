// Writes through views, made values: the contents of a tensor when one of its views holds something
// else.
#pragma once

#include <cstddef>
#include <vector>

#include "autosp/ir/graph.h"

namespace autosp::passes {

// Adds ops at one place of the order, one after the other. It knows whether gradients are recorded
// there.
class OpEmitter {
 public:
  explicit OpEmitter(ir::Graph& graph) : graph_(graph) {}

  void placeBefore(ir::OpId id);
  void placeAfter(ir::OpId id);
  void setGradMode(bool enabled) { grad_mode_ = enabled; }
  bool gradMode() const { return grad_mode_; }

  ir::Graph& graph() { return graph_; }
  // The op's traits and results are set here; a copy of an op keeps its origin.
  std::vector<ir::ValueId> emit(ir::Op op, const std::vector<ir::Graph::ResultType>& types);
  bool emitted(ir::OpId id) const { return id.at() < born_.size() && born_[id.at()] != 0; }
  // Whether a tensor computed here from these has a gradient.
  bool gradOf(ir::ValueId a) const { return grad_mode_ && graph_.value(a).requires_grad; }

 private:
  ir::Graph& graph_;
  ir::OpId before_;
  ir::OpId after_;          // valid: new ops stand after it, and become it
  std::vector<char> born_;  // by op
  bool grad_mode_ = true;
};

// Whether putBack knows the inverse: slices and the like, transposes, regrouped dims; not expand or
// as_strided, whose elements share memory with each other.
bool hasInverse(const ir::Graph& graph, ir::OpId view);

// The contents of a view's operand, now `whole`, when result `result` of the view holds `part`. A
// slice becomes a cat with what stands before and after it; pieces of an earlier such cat are taken
// as they are.
ir::ValueId putBack(OpEmitter& emitter, ir::OpId view, std::size_t result, ir::ValueId whole,
                    ir::ValueId part);

}  // namespace autosp::passes
