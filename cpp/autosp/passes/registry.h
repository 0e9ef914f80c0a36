// The table of passes. One row gives a pass its flag of autosp-opt, its line of help, its paragraph in
// docs/passes.md and its place in the order check: every fact it needs must come from an earlier pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/passes/context.h"
#include "autosp/support/status.h"

namespace autosp::passes {

using PassFunction = Status (*)(ir::Graph&, PassContext&);

struct Pass {
  std::string name;     // also the flag: "insert-conversions"
  std::string summary;  // what it does, in a sentence
  PassFunction function = nullptr;
  std::vector<std::string> needs;     // facts that must hold: "placement"
  std::vector<std::string> provides;  // facts that hold after it
};

// All passes, in the order of passes.h.
const std::vector<Pass>& registry();

// The rows of these names; the error for an unknown one says the nearest.
Result<std::vector<Pass>> findPasses(const std::vector<std::string>& names);

}  // namespace autosp::passes
