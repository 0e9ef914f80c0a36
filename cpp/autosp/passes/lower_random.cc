// lower-random: dropout becomes a pure function of a seed and the global element index; every other random op
// is refused, because each rank would draw its own numbers.
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::OpId;

Diagnostic refusal(const Graph& graph, OpId id, std::string message, std::string remedy) {
  return {Severity::kError, graph.describe(id), graph.op(id).location, std::move(message),
          std::move(remedy)};
}

}  // namespace

Status lowerRandom(Graph& graph, PassContext& /*context*/) {
  ir::ValueId seed;
  std::int64_t next_id = 0;
  for (OpId id : graph.order()) {
    const std::string name = graph.op(id).name;
    if (name == "aten.scaled_dot_product_attention.default") {
      if (graph.op(id).floatArg("dropout_p", 0.0) > 0.0 && graph.ranks > 1) {
        return refusal(graph, id, "attention dropout is not supported under sequence parallelism",
                       "Set the model's attention dropout to 0 (attention_dropout=0.0).");
      }
      continue;
    }
    if (name == "aten.dropout.default") {
      const Op old = graph.op(id);
      if (!old.boolArg("train", true) || old.floatArg("p", 0.0) == 0.0) {
        continue;
      }
      if (!seed.valid()) {
        seed = graph.addInput("autosp_seed", ir::InputKind::kSeed, {ir::DType::kI64, {}}, false);
      }
      Op& op = graph.op(id);
      op.name = "autosp.dropout";
      op.args = {{"input", old.arg("input")},
                 {"p", old.arg("p")},
                 {"seed", ir::Attr(seed)},
                 {"op_id", ir::Attr(next_id++)}};
      op.traits = {};
      op.traits.pointwise = true;
      continue;
    }
    if (graph.op(id).traits.random && graph.ranks > 1) {
      return refusal(graph, id, "a random op would draw other numbers on every rank",
                     "Draw them outside the model and pass them in; dropout is supported.");
    }
  }
  return Status::ok();
}

}  // namespace autosp::passes
