// Rules of losses. By its argument `reduction` a loss keeps its rows (0: they pass), or takes their
// mean (1) or their sum (2). The classes of a classification loss are always whole.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Graph;
using ir::Op;
using ir::TensorType;
using Rule = std::optional<OpRule>;

constexpr std::int64_t kMeanReduction = 1;

// What becomes of the rows; nothing for a value that is no reduction.
std::optional<FactorKind> rowKind(const Op& op) {
  switch (op.intArg("reduction", kMeanReduction)) {
    case 0:
      return FactorKind::kPass;
    case 1:
      return FactorKind::kMean;
    case 2:
      return FactorKind::kSum;
    default:
      return std::nullopt;
  }
}

// self: [c], [n, c] or [n, c, ...]; target: class indices, of self's shape without c, or
// probabilities, of self's own shape; weight: [c].
Rule classification(const Graph& graph, const Op& op, FactorKind rows) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* target = build.type("target");
  if (self == nullptr || target == nullptr || self->rank() == 0) {
    return std::nullopt;
  }
  const std::size_t class_dim = self->rank() == 1 ? 0 : 1;
  DimFactors dims;
  DimFactors row_dims;
  for (std::size_t i = 0; i < self->rank(); ++i) {
    if (i == class_dim) {
      dims.push_back(build.factor("c", self->dim(i), FactorKind::kWhole));
      continue;
    }
    dims.push_back(build.factor(i == 0 ? "n" : "d" + std::to_string(i), self->dim(i), rows));
    row_dims.push_back(dims.back());
  }
  build.operand("self", dims);
  build.operand("target", target->rank() == self->rank() ? dims : row_dims);
  build.operand("weight", {dims[class_dim]});
  const bool kept = op.intArg("reduction", kMeanReduction) == 0;
  build.results(kept ? row_dims : DimFactors{});
  return std::move(build).build();
}

Rule crossEntropy(const Graph& graph, const Op& op) {
  const auto kind = rowKind(op);
  return kind ? classification(graph, op, *kind) : std::nullopt;
}

// Its mean divides by the summed weight of the targets that are not ignore_index. Which those are
// is known only when it runs, so no global count of the graph is the right divisor: the rows of a
// mean stay whole.
Rule nll(const Graph& graph, const Op& op) {
  const auto kind = rowKind(op);
  if (!kind) {
    return std::nullopt;
  }
  return classification(graph, op, *kind == FactorKind::kMean ? FactorKind::kWhole : *kind);
}

// Elementwise between tensors of one shape, then reduced over all dims. Weights broadcast to that
// shape.
Rule elementwise(const Graph& graph, const Op& op, std::string_view input) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type(input);
  const TensorType* target = build.type("target");
  const auto kind = rowKind(op);
  if (self == nullptr || target == nullptr || !kind || self->shape != target->shape) {
    return std::nullopt;
  }
  const DimFactors dims = build.factors(*self, *kind);
  build.operand(input, dims);
  build.operand("target", dims);
  build.broadcastOperand("weight", dims);
  build.broadcastOperand("pos_weight", dims);
  build.results(kind == FactorKind::kPass ? dims : DimFactors{});
  return std::move(build).build();
}

Rule elementwiseSelf(const Graph& graph, const Op& op) {
  return elementwise(graph, op, "self");
}
Rule elementwiseInput(const Graph& graph, const Op& op) {
  return elementwise(graph, op, "input");
}

constexpr std::string_view kElementwiseText = "(..., ...) -> ... | ()   mean or sum of all dims";

}  // namespace

const std::vector<RuleRow>& lossRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.cross_entropy_loss.default",
       "(n c ..., n ... | n c ..., c?) -> n ... | ()   whole c, mean or sum n", crossEntropy},
      {"aten.nll_loss.default", "(n c, n, c?) -> n | ()   whole c, sum n (whole in a mean)", nll},
      {"aten.nll_loss_nd.default", "(n c ..., n ..., c?) -> n ... | ()   whole c, sum n", nll},
      {"aten.nll_loss2d.default", "(n c h w, n h w, c?) -> n h w | ()   whole c, sum n", nll},
      {"aten.mse_loss.default", kElementwiseText, elementwiseSelf},
      {"aten.l1_loss.default", kElementwiseText, elementwiseSelf},
      {"aten.smooth_l1_loss.default", kElementwiseText, elementwiseSelf},
      {"aten.huber_loss.default", kElementwiseText, elementwiseSelf},
      {"aten.soft_margin_loss.default", kElementwiseText, elementwiseSelf},
      {"aten.kl_div.default", kElementwiseText, elementwiseSelf},
      {"aten.binary_cross_entropy.default", kElementwiseText, elementwiseSelf},
      {"aten.binary_cross_entropy_with_logits.default", kElementwiseText, elementwiseSelf},
      {"aten.poisson_nll_loss.default", kElementwiseText, elementwiseInput},
  };
  return rows;
}

}  // namespace autosp::sharding
