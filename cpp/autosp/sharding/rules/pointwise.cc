// Elementwise ops. Those that torch tags pointwise need no row; the rows are the overloads that act
// elementwise without the tag: casts, copies, comparisons under their second name, and a
// few that are elementwise but for one dim or one operand.
#include <algorithm>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/dims.h"

namespace autosp::sharding {
namespace {

// to.other, type_as: only the type of the second operand is read.
std::optional<OpRule> castLike(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  if (operands.size() != 2 || op.results.size() != 1) {
    return std::nullopt;
  }
  OpRule rule;
  const Sizes sizes = sizesOf(graph, op.results[0]);
  const TensorMap map = ownDims(rule, sizes);
  rule.operands = {map, likeDims(sizesOf(graph, operands[1]), map, sizes, Align::kRight)};
  rule.results = {map};
  return rule;
}

// glu halves one dim: element i meets element n/2 + i.
std::optional<OpRule> glu(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const auto dim = dimArg(op, "dim", -1, sizes.size());
  if (!dim) {
    return std::nullopt;
  }
  OpRule rule;
  TensorMap map = ownDims(rule, sizes, {static_cast<std::int64_t>(*dim)});
  rule.operands = {map};
  map[*dim] = {};
  rule.results = {map};
  return rule;
}

// The weight has one element, or one a channel, dim 1.
std::optional<OpRule> prelu(const ir::Graph& graph, const ir::Op& op) {
  const Sizes sizes = sizesOf(graph, op.valueArg("self"));
  const Sizes weight = sizesOf(graph, op.valueArg("weight"));
  OpRule rule;
  const TensorMap map = ownDims(rule, sizes);
  TensorMap weight_map(weight.size());
  if (weight.size() == 1 && weight[0] > 1) {
    if (sizes.size() < 2 || sizes[1] != weight[0]) {
      return std::nullopt;
    }
    weight_map[0] = map[1];
  }
  rule.operands = {map, weight_map};
  rule.results = {map};
  return rule;
}

// Each element of the first operand is looked up in the whole second one.
std::optional<OpRule> lookUp(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  if (operands.size() != 2) {
    return std::nullopt;
  }
  OpRule rule;
  const TensorMap map = ownDims(rule, sizesOf(graph, operands[0]));
  const Sizes table = sizesOf(graph, operands[1]);
  TensorMap table_map;
  for (std::int64_t size : table) {
    table_map.push_back(ownDim(rule, size, FactorKind::kWhole));
  }
  rule.operands = {map, table_map};
  rule.results = {map};
  return rule;
}

// Overloads without the tag. In-place ones are out of place by now (canonicalize).
constexpr std::string_view kElementwise[] = {
    // Casts and copies.
    "to.device", "to.dtype", "to.dtype_layout", "to.prim_Device", "to.prim_dtype",
    "_to_copy.default", "_autocast_to_full_precision.default",
    "_autocast_to_reduced_precision.default", "_cast_Byte.default", "_cast_Char.default",
    "_cast_Double.default", "_cast_Float.default", "_cast_Half.default", "_cast_Int.default",
    "_cast_Long.default", "_cast_Short.default", "contiguous.default", "alias.default",
    "alias_copy.default", "detach.default", "detach_copy.default", "lift.default",
    "lift_fresh.default", "lift_fresh_copy.default", "copy.default", "pin_memory.default",
    "_lazy_clone.default",
    // Random, turned into a draw by global position.
    "dropout.default",
    // Fills and selections.
    "fill.Scalar", "fill.Tensor", "zero.default", "masked_fill.Tensor", "where.Scalar",
    "where.ScalarOther", "where.ScalarSelf", "_masked_scale.default",
    // Arithmetic.
    "absolute.default", "negative.default", "multiply.Scalar", "multiply.Tensor", "subtract.Scalar",
    "subtract.Tensor", "divide.Scalar", "divide.Tensor", "divide.Scalar_mode", "divide.Tensor_mode",
    "true_divide.Scalar", "floor_divide.default", "floor_divide.Scalar", "rsub.Tensor",
    "fix.default", "_add_relu.Scalar", "_add_relu.Tensor", "arccos.default", "arccosh.default",
    "arcsin.default", "arcsinh.default", "arctan.default", "arctan2.default", "arctanh.default",
    // Comparisons and bits.
    "greater.Scalar", "greater.Tensor", "greater_equal.Scalar", "greater_equal.Tensor",
    "less.Scalar", "less.Tensor", "less_equal.Scalar", "less_equal.Tensor", "not_equal.Scalar",
    "not_equal.Tensor", "isclose.default", "isreal.default", "__and__.Scalar", "__and__.Tensor",
    "__or__.Scalar", "__or__.Tensor", "isin.Tensor_Scalar",
    // Activations.
    "hardswish.default", "log_sigmoid.default", "log_sigmoid_forward.default",
    "_prelu_kernel.default",
    // Complex numbers.
    "complex.default", "polar.default", "conj.default", "_conj.default", "real.default",
    "imag.default", "resolve_conj.default", "resolve_neg.default", "_neg_view.default",
};

constexpr std::string_view kSpelling = "(..., ...) -> ...";

std::vector<std::string> fullNames() {
  std::vector<std::string> out;
  for (std::string_view name : kElementwise) {
    out.push_back("aten." + std::string(name));
  }
  return out;
}

std::vector<RuleRow> makeRows() {
  static const std::vector<std::string> names = fullNames();
  std::vector<RuleRow> rows = {
      {"aten.to.other", "(..., any) -> ...", castLike},
      {"aten.type_as.default", "(..., any) -> ...", castLike},
      {"aten.glu.default", "(... d) -> ... 1   whole d", glu},
      {"aten.prelu.default", "(b c ..., c) -> b c ...", prelu},
      {"aten.isin.Tensor_Tensor", "(..., t) -> ...   whole t", lookUp},
  };
  for (const std::string& name : names) {
    rows.push_back({name, kSpelling, broadcastRule});
  }
  return rows;
}

}  // namespace

std::optional<OpRule> broadcastRule(const ir::Graph& graph, const ir::Op& op) {
  if (op.results.empty()) {
    return std::nullopt;
  }
  OpRule rule;
  const Sizes sizes = sizesOf(graph, op.results[0]);
  const TensorMap map = ownDims(rule, sizes);
  for (ir::ValueId result : op.results) {
    if (sizesOf(graph, result) != sizes) {
      return std::nullopt;
    }
    rule.results.push_back(map);
  }
  for (ir::ValueId operand : op.operands()) {
    auto operand_map = broadcastDims(sizesOf(graph, operand), map, sizes);
    if (!operand_map) {
      return std::nullopt;
    }
    rule.operands.push_back(std::move(*operand_map));
  }
  return rule;
}

const std::vector<RuleRow>& pointwiseRules() {
  static const std::vector<RuleRow> rows = makeRows();
  return rows;
}

}  // namespace autosp::sharding
