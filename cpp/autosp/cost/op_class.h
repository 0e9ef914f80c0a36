// What kind of work an op of the joint graph is (cost/joint_program.h, OpClass), by its name and
// traits, and what a second run of it costs. Names are those of ATen overloads after autograd's
// decomposition; an op that stands in no list is kOther: a kernel of its own.
#pragma once

#include <cstdint>

#include "autosp/cost/joint_program.h"
#include "autosp/cost/machine.h"
#include "autosp/ir/graph.h"

namespace autosp::cost {

// Attention kernels of every backend, forward and backward: the composite op, flash (CUDA, CPU),
// memory-efficient, cuDNN, the overrideable one, and FlexAttention. torch's own list of
// compute-intensive ops lacks some of them.
bool isAttentionKernel(const ir::Op& op);
bool isAttentionBackward(const ir::Op& op);

// True where a second run draws other numbers: the op is tagged nondeterministic_seeded, and if it
// is an attention kernel (all of which carry the tag) its dropout probability is not 0.
bool drawsRandomNumbers(const ir::Op& op);

// A view makes no memory of its own (every result has a base).
OpClass classOf(const ir::Graph& graph, const ir::Op& op);

// Whether the op computes an exponential, a logarithm, a sigmoid or a hyperbolic tangent:
// Inductor's C++ backend would rather store such a value than compute it in several readers.
bool isHeavy(const ir::Op& op);

// Whether the class may be computed inside the kernel of its reader.
inline bool isFusible(OpClass kind) {
  return kind == OpClass::kView || kind == OpClass::kPointwise || kind == OpClass::kReduction;
}

// Picoseconds of a second run of the op on this rank's shapes: arithmetic or memory traffic,
// whichever is longer; a collective's bytes over the link; and the launch of a kernel. 0 for a
// view. `fused_away`: the compiler computes it inside its readers: 0.
std::int64_t rerunTime(const Machine& machine, const ir::Graph& graph, const ir::Op& op,
                       OpClass kind, bool fused_away);

}  // namespace autosp::cost
