// Which values share storage. The table lists the ATen ops whose result is a view of their first
// tensor operand, always or for some strides and arguments; every other op is taken to allocate its
// results.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/ir/graph.h"

namespace autosp::passes {

enum class AliasKind : std::uint8_t {
  kFresh,  // allocates
  kView,   // shares the storage of its first tensor operand
  kMaybe,  // shares it or copies, which the graph does not tell
};

// Of an op's results towards its first tensor operand. An in-place op is a view of what it writes.
AliasKind aliasKind(const ir::Graph& graph, const ir::Op& op);

// "aten.add.Tensor" is "add"; empty for another namespace.
std::string_view atenBaseName(const ir::Op& op);

// By value: one representative (the earliest value) of all values that may share its storage.
std::vector<ir::ValueId> storages(const ir::Graph& graph);

}  // namespace autosp::passes
