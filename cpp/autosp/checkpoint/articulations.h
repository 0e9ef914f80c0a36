// Where a forward can be cut in two: the values through which everything later depends on
// everything earlier. In a residual network these are the residual stream before and after each
// block.
//
// Saving them bounds what is alive at once in the backward: a plan that saves only what is cheapest
// in bytes may recompute the stream from the embedding, with all of it alive. The values are found
// by structure, not by name.
#pragma once

#include <vector>

#include "autosp/cost/joint_program.h"

namespace autosp::checkpoint {

// Definitions, on the ops of the forward with views contracted into the value that owns the memory:
//
//   activation    a made value that depends on a parameter and on data, and from which a final
//                 result can be reached. A final result is a result that depends on both and from
//                 which no other such value is computed
//   articulation  an activation, read by at least two ops that make activations (an elementwise op
//                 that reads nothing else, as a change of dtype, stands for its own readers), such
//                 that no earlier activation reaches a later one but through it (earlier and later:
//                 in the order of the program)
//
// In the order of the program. Linear in the program.
std::vector<cost::ValueIndex> allArticulations(const cost::JointProgram& program);

// Of the articulations between two consecutive attention ops, and before the first and after the
// last, those with the fewest bytes: neither logits nor the inside of a wide block are a boundary.
// Without attention ops, of all articulations.
std::vector<cost::ValueIndex> articulations(const cost::JointProgram& program);

// For each attention op of the forward, in order: the last of `boundaries` made before it, or -1.
std::vector<cost::ValueIndex> layerInputs(const cost::JointProgram& program,
                                          const std::vector<cost::ValueIndex>& boundaries);

}  // namespace autosp::checkpoint
