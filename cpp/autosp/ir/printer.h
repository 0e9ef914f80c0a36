// Graphs as text. The printer and the parser are inverse: parse(print(g)) prints the same text, and
// a text written by the printer comes back byte for byte, so every dump is a test case for
// autosp-opt.
//
// %n is the value's id in the graph, and the parser keeps it: an id in a message or a report is the
// same in every dump of a run. Where passes removed ops ids are missing, and the results of an
// inserted op have the largest ids. Ops are numbered afresh by the parser, so ties are broken by
// order or by value, never by op id. A number without '.', exponent, inf or nan is an integer.
#pragma once

#include <string>
#include <string_view>

#include "autosp/ir/graph.h"

namespace autosp::ir {

//   autosp.graph "forward" ranks=2 {
//     input %0 : i64[2,32] user "input_ids"
//     input %1 : f32[97,32] grad parameter "embed.weight" @Q
//     %2 : f32[2,32,32] grad @S(1,base=32) = aten.embedding.default(weight=%1, indices=%0)
//     %3 : f32[2,32], %4 : i64[2,32] = aten.max.dim(self=%2, dim=1) from 5 at "model.py:88"
//     %5 : f32[2,32,32] = aten.bernoulli.p(self=%2, p=1.0, generator=none) {pointwise, random}
//     %6 : token = torch.enter_autocast(device=#"cpu", sizes=[1, 2], name="x") {effect}
//     %7 : f32[2,32,32] @P = aten.exp.default(self=%2) needs [P] lowering "sum-then-divide"
//     output %2 "logits" may_stay_cut @S(1,base=32)
//     output none ""
//   }
std::string print(const Graph& graph);

// Parts of it, for messages and reports.
std::string attrText(const Attr& attr);
std::string opText(const Graph& graph, OpId id);  // the op's line, without indent or newline

// The words of the format: "user", "parameter", "buffer", "constant", "seed".
std::string_view inputKindName(InputKind kind);

}  // namespace autosp::ir
