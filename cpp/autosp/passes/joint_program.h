// From a joint graph to the plain program that the checkpointing algorithms and the simulator work
// on: classes and prices of ops, sizes and sharing of memory, what runs in the backward whatever
// the plan.
#pragma once

#include <vector>

#include "autosp/cost/joint_program.h"
#include "autosp/cost/machine.h"
#include "autosp/ir/graph.h"

namespace autosp::passes {

struct JointView {
  cost::JointProgram program;
  std::vector<ir::OpId> ops;        // by the program's op
  std::vector<ir::ValueId> values;  // by the program's value
};

// `fused`: a fusing compiler (Inductor) runs the programs: what it computes inside other kernels
// costs nothing to compute again.
JointView jointProgram(const ir::Graph& graph, const cost::Machine& machine, bool fused);

// The plan that hands over the values marked saved in the graph: the rest that the backward reads
// is computed again.
cost::CheckpointPlan markedPlan(const ir::Graph& graph, const JointView& view);

}  // namespace autosp::passes
