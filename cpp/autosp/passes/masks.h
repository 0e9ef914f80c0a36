// What an attention mask says, from its expression over batch, head, query and key: that every key
// is visible, that exactly the keys up to the query are, or neither. Additive masks count when each
// element is 0 or so low that its weight after softmax is 0.
#pragma once

#include <cstdint>
#include <string>

#include "autosp/ir/graph.h"
#include "autosp/passes/lift_expr.h"

namespace autosp::passes {

enum class MaskKind : std::uint8_t {
  kOther,       // stays a tensor
  kAllVisible,  // as no mask
  kCausal,      // visible where key <= query, of as many keys as queries
};

struct MaskFacts {
  MaskKind kind = MaskKind::kOther;
  std::string predicate;  // where a key is visible: "(-q + k <= 0)"; "?" for an unlifted mask
};

// Of a mask that broadcasts to [batch, heads, queries, keys].
MaskFacts maskFacts(ExprLift& lift, const ir::Graph& graph, ir::ValueId mask, std::int64_t queries,
                    std::int64_t keys);

}  // namespace autosp::passes
