// Prices for placement, in integer picoseconds, so that every rank finds the same plan. An op costs the
// larger of its arithmetic and its memory traffic, three times over when a backward follows (3.5 for
// attention, whose backward recomputes the scores). A conversion costs its collectives, forward and
// backward (design.md section 2). Bytes sent: paper.md, "Bytes sent per rank per layer".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autosp/cost/machine.h"
#include "autosp/ir/graph.h"
#include "autosp/sharding/rule.h"

namespace autosp::cost {

// What the price of a conversion depends on, besides the forms.
struct ConversionTerms {
  std::int64_t bytes = 0;         // of the whole value
  std::int64_t dim_size = 0;      // of the dim that is cut on either side, for regrouped key heads
  bool requires_grad = false;
  bool parameter = false;         // whose gradient gradients="partial" leaves unreduced
};

// True for ops that only change how memory is read.
bool isView(const ir::Op& op);

// Floating-point operations of the op on whole operands; 0 for what only moves memory.
std::int64_t flops(const ir::Graph& graph, const ir::Op& op);

// Time of the op under a strategy, forward and, where a result requires grad, backward.
std::int64_t opTime(const Machine& machine, const ir::Graph& graph, const ir::Op& op,
                    const sharding::Strategy& strategy);

enum class Collective : std::uint8_t { kNone, kAllGather, kReduceScatter, kAllReduce, kAllToAll };

std::string_view collectiveName(Collective collective);  // "all-gather"; "none"

// What a conversion sends: one collective each way at most, and the bytes a rank sends in it (the mean over
// ranks where shards are uneven). Slices, pads and copies send nothing.
struct Traffic {
  Collective forward = Collective::kNone;
  Collective backward = Collective::kNone;
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
};

// design.md section 2, one row a pair of forms; nothing when there is no such conversion.
std::optional<Traffic> conversionTraffic(int ranks, const ConversionTerms& terms,
                                         const ir::Form& from, const ir::Form& to,
                                         bool gradients_partial);

// Time of one conversion, forward and backward; nothing when there is no such conversion.
std::optional<std::int64_t> conversionTime(const Machine& machine, int ranks,
                                           const ConversionTerms& terms, const ir::Form& from,
                                           const ir::Form& to, bool gradients_partial);

}  // namespace autosp::cost
