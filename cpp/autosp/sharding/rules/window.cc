// Ops that see a part of a dim, or more than it. A slice or a pad of one dim is a window of the operand's
// factor: the result dim begins at factor coordinate lo, so a cut keeps its boundaries. A repeated dim is a
// product (r a). Where elements of a dim move in another way the dim is kept whole.
#include <algorithm>
#include <limits>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/dims.h"

namespace autosp::sharding {
namespace {

// The rule of an op that takes one dim of its first operand apart or together: that dim whole in every
// operand, without factor in every result, the other dims alike everywhere. Operands and results without
// the dim (select, unbind, stack) lack it.
struct OneDim {
  OpRule rule;
  TensorMap map;  // of a tensor that has the dim; no factor there
  std::size_t dim = 0;

  OneDim(const Sizes& sizes, std::size_t at) : map(ownDimsBut(rule, sizes, at)), dim(at) {}

  static TensorMap ownDimsBut(OpRule& rule, const Sizes& sizes, std::size_t at) {
    TensorMap out;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      out.push_back(d == at ? DimMap{} : ownDim(rule, sizes[d]));
    }
    return out;
  }
  void addOperand(std::int64_t size) {
    TensorMap out = map;
    out[dim] = ownDim(rule, size, FactorKind::kWhole);
    rule.operands.push_back(std::move(out));
  }
};

bool sameBut(const Sizes& a, const Sizes& b, std::size_t dim) {
  for (std::size_t d = 0; d < a.size() && a.size() == b.size(); ++d) {
    if (d != dim && a[d] != b[d]) {
      return false;
    }
  }
  return a.size() == b.size();
}

// The result sees [start, start + length) of the operand's dim.
OpRule windowRule(const Sizes& sizes, std::size_t dim, std::int64_t start, std::int64_t length) {
  OpRule rule;
  rule.operands = {ownDims(rule, sizes)};
  rule.results = rule.operands;
  DimMap& window = rule.results[0][dim];
  if (length == 0) {
    window = {};
  } else if (!window.factors.empty()) {
    window.lo = start;
  }
  return rule;
}

// A bound as slice reads it: absent or beyond the end, negative from the end.
std::int64_t sliceBound(std::int64_t bound, std::int64_t size) {
  return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
}

std::optional<OpRule> slice(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, "dim", 0, sizes.size());
  const auto first = knownInt(op, "start", 0);
  const auto last = knownInt(op, "end", std::numeric_limits<std::int64_t>::max());
  const auto step = knownInt(op, "step", 1);
  if (!dim || !first || !last || !step || *step < 1) {
    return std::nullopt;
  }
  const std::int64_t start = sliceBound(*first, sizes[*dim]);
  const std::int64_t end = std::max(start, sliceBound(*last, sizes[*dim]));
  if (graph.type(op.results[0]).dim(*dim) != (end - start + *step - 1) / *step) {
    return std::nullopt;
  }
  if (*step == 1) {
    return windowRule(sizes, *dim, start, end - start);
  }
  OneDim out(sizes, *dim);
  out.addOperand(sizes[*dim]);
  out.rule.results = {out.map};
  return out.rule;
}

std::optional<OpRule> narrow(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, "dim", 0, sizes.size());
  const auto start = knownInt(op, "start", 0);
  if (!dim || !start) {
    return std::nullopt;
  }
  return windowRule(sizes, *dim, *start < 0 ? *start + sizes[*dim] : *start,
                    graph.type(op.results[0]).dim(*dim));
}

// Constant padding. `pad` holds (before, after) for the last dim, then for the one before it, ...; a
// negative pad is a slice. Other modes repeat elements: their dims are whole.
std::optional<OpRule> pad(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const ir::Attr* pads = op.find("pad");
  if (!pads || !pads->isInts() || pads->asInts().size() > 2 * sizes.size()) {
    return std::nullopt;
  }
  const ir::Attr* mode = op.find("mode");
  const bool constant = !mode || !mode->isString() || mode->asString() == "constant";
  const Sizes amounts = pads->asInts();
  OpRule rule;
  TensorMap operand(sizes.size());
  TensorMap result(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::size_t at = 2 * (sizes.size() - 1 - d);
    const std::int64_t before = at + 1 < amounts.size() ? amounts[at] : 0;
    const std::int64_t after = at + 1 < amounts.size() ? amounts[at + 1] : 0;
    const bool padded = before != 0 || after != 0;
    operand[d] = ownDim(rule, sizes[d],
                        padded && !constant ? FactorKind::kWhole : FactorKind::kPass);
    if (operand[d].factors.empty() || sizes[d] + before + after == 0 || (padded && !constant)) {
      continue;
    }
    result[d] = {operand[d].factors, -before};
  }
  rule.operands = {std::move(operand)};
  rule.results = {std::move(result)};
  return rule;
}

// select, unbind: results lack the dim.
std::optional<OpRule> takeOut(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, "dim", 0, sizes.size());
  if (!dim) {
    return std::nullopt;
  }
  OneDim out(sizes, *dim);
  out.addOperand(sizes[*dim]);
  out.rule.results.assign(op.results.size(), without(out.map, *dim));
  return out.rule;
}

// split, chunk, unfold: results see parts of the dim; unfold puts the windows' own dim last.
std::optional<OpRule> takeApart(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, op.find("dimension") ? "dimension" : "dim", 0, sizes.size());
  if (!dim) {
    return std::nullopt;
  }
  OneDim out(sizes, *dim);
  out.addOperand(sizes[*dim]);
  for (ir::ValueId result : op.results) {
    out.rule.results.push_back(out.map);
    out.rule.results.back().resize(graph.type(result).rank());
  }
  return out.rule;
}

// cat, diff: one dim put together. An empty 1-D tensor may stand in a cat of any rank.
std::optional<OpRule> putTogether(const ir::Graph& graph, const ir::Op& op) {
  const Sizes result = sizesOf(graph, op.results[0]);
  const auto dim = dimArg(op, "dim", op.find("n") ? -1 : 0, result.size());
  if (!dim) {
    return std::nullopt;
  }
  OneDim out(result, *dim);
  for (ir::ValueId operand : op.operands()) {
    const Sizes sizes = sizesOf(graph, operand);
    if (sameBut(sizes, result, *dim)) {
      out.addOperand(sizes[*dim]);
    } else if (sizes == Sizes{0}) {
      out.rule.operands.push_back(TensorMap(1));
    } else {
      return std::nullopt;
    }
  }
  out.rule.results = {out.map};
  return out.rule;
}

std::optional<OpRule> cat(const ir::Graph& graph, const ir::Op& op) {
  return op.operands().size() == 1 && op.results.size() == 1 ? broadcastRule(graph, op)
                                                             : putTogether(graph, op);
}

std::optional<OpRule> stack(const ir::Graph& graph, const ir::Op& op) {
  const Sizes result = sizesOf(graph, op.results[0]);
  const auto dim = dimArg(op, "dim", 0, result.size());
  if (!dim) {
    return std::nullopt;
  }
  OneDim out(result, *dim);
  out.rule.operands.assign(op.operands().size(), without(out.map, *dim));
  out.rule.results = {out.map};
  return out.rule;
}

// Result dim (r a): the whole dim r times over. Dims beyond the operand's rank come first.
std::optional<OpRule> repeat(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const Sizes result_sizes = sizesOf(graph, op.results[0]);
  OpRule rule;
  rule.operands = {ownDims(rule, sizes)};
  TensorMap result(result_sizes.size());
  for (std::size_t d = 0; d < result_sizes.size(); ++d) {
    const bool leading = d + sizes.size() < result_sizes.size();
    const std::size_t from = leading ? 0 : d + sizes.size() - result_sizes.size();
    const std::int64_t size = leading ? 1 : sizes[from];
    if (result_sizes[d] == 0) {
      continue;
    }
    result[d] = ownDim(rule, result_sizes[d] / size, FactorKind::kWhole);
    if (!leading) {
      const std::vector<int>& factors = rule.operands[0][from].factors;
      result[d].factors.insert(result[d].factors.end(), factors.begin(), factors.end());
    }
  }
  rule.results = {std::move(result)};
  return rule;
}

// Result dim (a r): each element r times. Without a dim the operand is flattened first.
std::optional<OpRule> repeatInterleave(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto repeats = knownInt(op, "repeats", 1);
  if (!repeats || *repeats < 1) {
    return std::nullopt;
  }
  OpRule rule;
  rule.operands = {ownDims(rule, sizes)};
  const DimMap times = ownDim(rule, *repeats, FactorKind::kWhole);
  auto append = [](DimMap& dim, const DimMap& more) {
    dim.factors.insert(dim.factors.end(), more.factors.begin(), more.factors.end());
  };
  if (!op.has("dim")) {
    if (std::count(sizes.begin(), sizes.end(), 0) > 0) {
      return std::nullopt;
    }
    TensorMap flat(1);
    for (const DimMap& dim : rule.operands[0]) {
      append(flat[0], dim);
    }
    append(flat[0], times);
    rule.results = {std::move(flat)};
    return rule;
  }
  const auto dim = dimArg(op, "dim", 0, sizes.size());
  if (!dim) {
    return std::nullopt;
  }
  rule.results = rule.operands;
  if (sizes[*dim] != 0) {
    append(rule.results[0][*dim], times);
  }
  return rule;
}

// Elements move within the dims listed, and only there.
std::optional<OpRule> moveWithin(const ir::Graph& graph, const ir::Op& op, const Sizes& dims) {
  OpRule rule;
  rule.operands = {ownDims(rule, sizesOf(graph, op.valueArg("self")), dims)};
  rule.results = rule.operands;
  return rule;
}

Sizes allDims(std::size_t rank) {
  Sizes out;
  for (std::size_t d = 0; d < rank; ++d) {
    out.push_back(static_cast<std::int64_t>(d));
  }
  return out;
}

// Without dims roll turns the flattened tensor and flip turns nothing.
std::optional<OpRule> roll(const ir::Graph& graph, const ir::Op& op) {
  const std::size_t rank = graph.type(op.valueArg("self")).rank();
  const auto dims = dimsArg(op, "dims", rank);
  if (!dims) {
    return std::nullopt;
  }
  return moveWithin(graph, op, dims->empty() ? allDims(rank) : *dims);
}

std::optional<OpRule> flip(const ir::Graph& graph, const ir::Op& op) {
  const auto dims = dimsArg(op, "dims", graph.type(op.valueArg("self")).rank());
  return dims ? moveWithin(graph, op, *dims) : std::nullopt;
}

// What is kept depends on the position in the last two dims.
std::optional<OpRule> triangle(const ir::Graph& graph, const ir::Op& op) {
  const auto rank = static_cast<std::int64_t>(graph.type(op.valueArg("self")).rank());
  return moveWithin(graph, op, {rank - 2, rank - 1});
}

// The source is written into a part of one dim; for select_scatter it lacks the dim.
std::optional<OpRule> writeInto(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, "dim", 0, sizes.size());
  const std::vector<ir::ValueId> operands = op.operands();
  if (!dim || operands.size() != 2) {
    return std::nullopt;
  }
  OneDim out(sizes, *dim);
  out.addOperand(sizes[*dim]);
  const Sizes source = sizesOf(graph, operands[1]);
  if (source.size() + 1 == sizes.size()) {
    out.rule.operands.push_back(without(out.map, *dim));
  } else if (sameBut(source, sizes, *dim)) {
    out.addOperand(source[*dim]);
  } else {
    return std::nullopt;
  }
  out.rule.results = {out.rule.operands[0]};
  return out.rule;
}

}  // namespace

const std::vector<RuleRow>& windowRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.slice.Tensor", "(a b) -> a b+start   (whole with a step)", slice},
      {"aten.narrow.default", "(a b) -> a b+start", narrow},
      {"aten.pad.default", "(a b) -> a b-before   (whole in other modes than constant)", pad},
      {"aten.constant_pad_nd.default", "(a b) -> a b-before", pad},
      {"aten.select.int", "(a d) -> a   whole d", takeOut},
      {"aten.unbind.int", "(a d) -> (a, a)   whole d", takeOut},
      {"aten.split.Tensor", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.split.sizes", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.split.default", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.split_with_sizes.default", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.unsafe_split.Tensor", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.unsafe_split_with_sizes.default", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.chunk.default", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.unsafe_chunk.default", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.tensor_split.sections", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.tensor_split.indices", "(a d) -> (a 1, a 1)   whole d", takeApart},
      {"aten.unfold.default", "(a d) -> a 1 1   whole d", takeApart},
      {"aten.cat.default", "(a c, a d) -> a 1   whole c d", cat},
      {"aten.concat.default", "(a c, a d) -> a 1   whole c d", cat},
      {"aten.concatenate.default", "(a c, a d) -> a 1   whole c d", cat},
      {"aten.diff.default", "(a d, a c?, a e?) -> a 1   whole d c e", putTogether},
      {"aten.stack.default", "(a b, a b) -> a 1 b", stack},
      {"aten.repeat.default", "(a b) -> r (s a) b   whole r s", repeat},
      {"aten.tile.default", "(a b) -> r (s a) b   whole r s", repeat},
      {"aten.repeat_interleave.self_int", "(a b) -> (a r) b   whole r", repeatInterleave},
      {"aten.roll.default", "(a d) -> a d   whole d", roll},
      {"aten.flip.default", "(a d) -> a d   whole d", flip},
      {"aten.tril.default", "(... c d) -> ... c d   whole c d", triangle},
      {"aten.triu.default", "(... c d) -> ... c d   whole c d", triangle},
      {"aten.slice_scatter.default", "(a d, a c) -> a d   whole d c", writeInto},
      {"aten.select_scatter.default", "(a d, a) -> a d   whole d", writeInto},
  };
  return rows;
}

}  // namespace autosp::sharding
