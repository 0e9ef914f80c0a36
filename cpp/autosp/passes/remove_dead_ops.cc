// remove-dead-ops: see passes.h.
#include "autosp/passes/passes.h"

namespace autosp::passes {

Status removeDeadOps(ir::Graph& graph, PassContext& /*context*/) {
  graph.removeDeadOps();
  return Status::ok();
}

}  // namespace autosp::passes
