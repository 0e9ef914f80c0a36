// fold-repeat-kv: see passes.h.
//
// A value [B, K*g, T, D] is a repeat of a source [B, K, T, D] when its head h reads source head h /
// g. The walk goes from attention towards the source and looks at shapes only, in one of the ways
// to write it:
//
//   merge     [B, K, g, T, D] -> [B, K*g, T, D]        view, reshape, flatten
//   repeat    [B, K, 1, T, D] -> [B, K, g, T, D]       expand
//   new dim   [B, K, T, D]    -> [B, K, 1, T, D]       unsqueeze, view
// or
//   repeat    [B, K, T, D]    -> [B, K*g, T, D]        repeat_interleave along dim 1
//   repeat    [B, 1, T, D]    -> [B, g, T, D]          expand: one head for all
//
// A repeat on the other side of the head dim, [B, g, K, T, D], is another order of heads and is
// left alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autosp/passes/aliases.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::ValueId;
using Sizes = std::vector<std::int64_t>;

constexpr std::size_t kHead = 1;

constexpr std::array kCopies =
    std::to_array<std::string_view>({"alias", "clone", "contiguous", "to", "slice"});
constexpr std::array kReshapes = std::to_array<std::string_view>(
    {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze"});
constexpr std::array kExpands =
    std::to_array<std::string_view>({"expand", "expand_as", "broadcast_to"});

template <std::size_t N>
bool isOneOf(const std::array<std::string_view, N>& names, const Op& op) {
  const std::string_view name = atenBaseName(op);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<Sizes> staticSizes(const Graph& graph, ValueId value) {
  const ir::TensorType& type = graph.type(value);
  if (!std::all_of(type.shape.begin(), type.shape.end(),
                   [](const ir::Dim& dim) { return dim.isStatic(); })) {
    return std::nullopt;
  }
  return type.sizes();
}

// The op that defines the value and its first tensor operand, where that is all it reads.
struct Step {
  const Op* op = nullptr;
  ValueId source;
};

std::optional<Step> stepInto(const Graph& graph, ValueId value) {
  const ir::Value& v = graph.value(value);
  if (!v.def.valid()) {
    return std::nullopt;
  }
  const Op& op = graph.op(v.def);
  const ValueId source = op.valueArg("self");
  if (op.results.size() != 1 || op.traits.mutates || !source.valid()) {
    return std::nullopt;
  }
  return Step{&op, source};
}

// Past ops that hand on all elements as they are: copies, slices of everything.
ValueId skipCopies(const Graph& graph, ValueId value) {
  while (const auto step = stepInto(graph, value)) {
    if (!isOneOf(kCopies, *step->op) || graph.type(step->source) != graph.type(value)) {
      break;
    }
    if (atenBaseName(*step->op) == "slice" && step->op->intArg("step", 1) != 1) {
      break;
    }
    value = step->source;
  }
  return value;
}

// The value before ops that only regroup its elements, when it has these sizes on the way.
std::optional<ValueId> regroupedFrom(const Graph& graph, ValueId value, const Sizes& sizes) {
  for (value = skipCopies(graph, value);;) {
    if (staticSizes(graph, value) == sizes) {
      return value;
    }
    const auto step = stepInto(graph, value);
    if (!step || !isOneOf(kReshapes, *step->op)) {
      return std::nullopt;
    }
    value = skipCopies(graph, step->source);
  }
}

struct Repeat {
  ValueId source;
  std::int64_t times = 1;
};

// expand of the dim from 1, all others alike.
std::optional<Repeat> expandedAt(const Graph& graph, ValueId value, std::size_t dim) {
  const auto step = stepInto(graph, value);
  if (!step || !isOneOf(kExpands, *step->op)) {
    return std::nullopt;
  }
  auto from = staticSizes(graph, step->source);
  const auto to = staticSizes(graph, value);
  if (!from || !to || from->size() != to->size() || (*from)[dim] != 1 || (*to)[dim] <= 1) {
    return std::nullopt;
  }
  (*from)[dim] = (*to)[dim];
  return *from == *to ? std::optional(Repeat{step->source, (*to)[dim]}) : std::nullopt;
}

std::optional<Repeat> interleaved(const Graph& graph, ValueId value, const Sizes& sizes) {
  const auto step = stepInto(graph, value);
  if (!step || step->op->name != "aten.repeat_interleave.self_int" ||
      ir::normalDim(step->op->intArg("dim", -1), sizes.size()) != kHead || !step->op->has("dim")) {
    return std::nullopt;
  }
  const std::int64_t times = step->op->intArg("repeats", 1);
  return times > 1 ? std::optional(Repeat{step->source, times}) : std::nullopt;
}

// The shortest tensor of heads that a key or value operand of attention repeats.
std::optional<Repeat> repeatOf(const Graph& graph, ValueId operand) {
  const ValueId whole = skipCopies(graph, operand);
  const auto sizes = staticSizes(graph, whole);
  if (!sizes || sizes->size() != 4) {
    return std::nullopt;
  }
  if (const auto direct = interleaved(graph, whole, *sizes)) {
    return direct;
  }
  if (const auto direct = expandedAt(graph, whole, kHead)) {
    return direct;
  }
  // Through [B, K, g, T, D], where the expand says g.
  const auto step = stepInto(graph, whole);
  if (!step || !isOneOf(kReshapes, *step->op)) {
    return std::nullopt;
  }
  const ValueId grouped = skipCopies(graph, step->source);
  const auto group_sizes = staticSizes(graph, grouped);
  if (!group_sizes || group_sizes->size() != 5) {
    return std::nullopt;
  }
  const std::int64_t heads = (*group_sizes)[kHead];
  const std::int64_t times = (*group_sizes)[kHead + 1];
  Sizes source_sizes = *sizes;
  source_sizes[kHead] = heads;
  Sizes merged = source_sizes;
  merged.insert(merged.begin() + kHead + 1, times);
  if (*group_sizes != merged || heads * times != (*sizes)[kHead]) {
    return std::nullopt;
  }
  const auto repeat = expandedAt(graph, grouped, kHead + 1);
  if (!repeat) {
    return std::nullopt;
  }
  const auto source = regroupedFrom(graph, repeat->source, source_sizes);
  return source ? std::optional(Repeat{*source, times}) : std::nullopt;
}

}  // namespace

Status foldRepeatKv(ir::Graph& graph, PassContext& context) {
  std::vector<ValueId> storage;  // computed when the graph writes in place
  std::vector<char> written;
  for (ir::OpId id : graph.order()) {
    if (graph.op(id).traits.mutates) {
      written.resize(graph.valueCount(), 0);
      storage = storage.empty() ? storages(graph) : std::move(storage);
      for (ValueId v : graph.op(id).operands()) {
        written[storage[v.at()].at()] = 1;
      }
    }
  }
  for (ir::OpId id : graph.order()) {
    Op& op = graph.op(id);
    if (op.name != "aten.scaled_dot_product_attention.default") {
      continue;
    }
    const ValueId query = op.valueArg("query");
    const ValueId key = op.valueArg("key");
    const ValueId value = op.valueArg("value");
    if (!query.valid() || !key.valid() || !value.valid()) {
      continue;
    }
    const auto k = repeatOf(graph, key);
    const auto v = repeatOf(graph, value);
    const auto q_sizes = staticSizes(graph, query);
    if (!k || !v || k->times != v->times || !q_sizes || q_sizes->size() != 4) {
      continue;
    }
    const std::int64_t heads = graph.type(k->source).dim(kHead);
    if (heads != graph.type(v->source).dim(kHead) || (*q_sizes)[kHead] % heads != 0) {
      continue;
    }
    // Read later than it was, so it must not have changed in between.
    if (!written.empty() && (written[storage[k->source.at()].at()] != 0 ||
                             written[storage[v->source.at()].at()] != 0)) {
      continue;
    }
    op.set("key", k->source);
    op.set("value", v->source);
    op.set("enable_gqa", true);
    context.report.entry("repeated kv heads", graph.describe(id),
                         std::to_string((*q_sizes)[kHead]) + " query heads read " +
                             std::to_string(heads) + " kv heads, repeated " +
                             std::to_string(k->times) + " times no more");
  }
  return Status::ok();
}

}  // namespace autosp::passes
