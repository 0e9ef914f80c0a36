#include "autosp/passes/masks.h"

#include <limits>
#include <optional>
#include <vector>

namespace autosp::passes {
namespace {

using ir::DType;

// A score plus half the least finite value is still so low that exp(score - max) is 0.
std::optional<double> highestFill(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return -65504.0 / 2;
    case DType::kBF16:
      return -3.3895313892515355e38 / 2;
    case DType::kF32:
      return -static_cast<double>(std::numeric_limits<float>::max()) / 2;
    case DType::kF64:
      return -std::numeric_limits<double>::max() / 2;
    default:
      return std::nullopt;
  }
}

// Where an additive mask is 0, if it is a fill everywhere else.
ExprId visibleWhere(IndexExprs& exprs, ExprId additive, double highest_fill) {
  if (const auto value = exprs.constantReal(additive)) {
    return *value == 0              ? exprs.boolean(true)
           : *value <= highest_fill ? exprs.boolean(false)
                                    : ExprId();
  }
  const Expr node = exprs.at(additive);
  if (node.kind != ExprKind::kSelect) {
    return {};
  }
  return exprs.select(node.args[0], visibleWhere(exprs, node.args[1], highest_fill),
                      visibleWhere(exprs, node.args[2], highest_fill));
}

}  // namespace

MaskFacts maskFacts(ExprLift& lift, const ir::Graph& graph, ir::ValueId mask, std::int64_t queries,
                    std::int64_t keys) {
  IndexExprs& exprs = lift.exprs();
  const ir::TensorType& type = graph.type(mask);
  ExprId predicate = lift.lift(mask);
  if (predicate.valid() && type.dtype != DType::kBool) {
    const auto fill = highestFill(type.dtype);
    predicate = fill ? visibleWhere(exprs, predicate, *fill) : ExprId();
  }
  std::vector<std::string> names;
  if (type.rank() >= 2) {
    for (std::size_t d = 0; d + 2 < type.rank(); ++d) {
      names.push_back(type.rank() - d == 3 ? "h" : type.rank() - d == 4 ? "b" : "x");
    }
    names.insert(names.end(), {"q", "k"});
  }
  MaskFacts facts{MaskKind::kOther, exprs.text(predicate, names)};
  if (!predicate.valid() || type.rank() < 2) {
    return facts;
  }
  if (exprs.constantBool(predicate) == true) {
    facts.kind = MaskKind::kAllVisible;
    return facts;
  }
  const auto q_dim = static_cast<std::int64_t>(type.rank()) - 2;
  const ExprId causal =
      exprs.lessEqualZero(exprs.add(exprs.index(q_dim + 1, keys), exprs.index(q_dim, queries), -1));
  if (queries == keys && predicate == causal) {
    facts.kind = MaskKind::kCausal;
  }
  return facts;
}

}  // namespace autosp::passes
