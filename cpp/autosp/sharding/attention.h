// Strategies of scaled dot product attention that no single factor gives. Cutting heads needs keys
// and values by groups: a rank holds the key heads its query heads read. Cutting queries leaves
// keys and values whole. Cutting the batch is an ordinary rule, and so is leaving everything whole.
//
//   query [b, h, s, e], key [b, k, t, e], value [b, k, t, v] -> [b, h, s, v]
//   mask broadcast to [b, h, s, t]
//
// k < h only with enable_gqa, where k divides h. Arguments are read by name (query, key, value,
// attn_mask, enable_gqa), so an op born in the core with the same names is read alike.
#pragma once

#include <optional>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/sharding/rule.h"

namespace autosp::sharding {

// In this order, where they exist:
//   heads    (Lowering::kAttentionHeads)    4-D only; ranks beyond the last head own none
//   queries  (Lowering::kAttentionQueries)  the dim before the last, at any rank, unless of size 1
std::vector<Strategy> attentionStrategies(const ir::Graph& graph, const ir::Op& op);

// The batch passes; heads, queries, keys and features are whole. Read to carry marks through
// attention and to cut the batch; the batch is whole when it has fewer rows than there are ranks,
// since attention must not meet an empty tensor.
std::optional<OpRule> attentionRule(const ir::Graph& graph, const ir::Op& op);

}  // namespace autosp::sharding
