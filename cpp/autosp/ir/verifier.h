// What makes a graph legal. The pass manager verifies before the first pass, where a failure is the
// fault of the text or the importer, and after every pass, where it is the pass's. Passes rely on
// what is checked:
//
//   values     inputs and results are defined once, before they are read, by ops that are in the
//   order;
//              a value and the op that defines it name each other
//   tokens     only ops with an effect read them, and no output returns one
//   arguments  an op's argument names differ and are not empty
//   types      dims are not negative; symbols are names, as "s0"
//   forms      a cut names a static dim of the value, its blocks divide the dim, its base is
//   positive;
//              an op needs a form of each operand or of none
#pragma once

#include "autosp/ir/graph.h"
#include "autosp/support/status.h"

namespace autosp::ir {

// The first fault found, in the order inputs, ops, outputs; it names the op and the model's source
// line.
Status verify(const Graph& graph);

}  // namespace autosp::ir
