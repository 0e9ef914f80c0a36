// Tensors made from nothing. Each element depends on its position alone, so every dim of the result may be
// cut; the lowering patches the sizes, and for arange the bounds. Random tensors and uninitialised ones
// have no rule.
#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/dims.h"

namespace autosp::sharding {
namespace {

std::optional<OpRule> create(const ir::Graph& graph, const ir::Op& op) {
  if (!op.operands().empty() || op.results.size() != 1) {
    return std::nullopt;
  }
  OpRule rule;
  rule.results = {ownDims(rule, sizesOf(graph, op.results[0]))};
  return rule;
}

// Between integers only: there a part begins at start + lo * step exactly, and the number of elements is
// that of the whole, cut. What a rank holds of several blocks is no arange.
std::optional<OpRule> arange(const ir::Graph& graph, const ir::Op& op) {
  for (const char* bound : {"start", "end", "step"}) {
    const ir::Attr* value = op.find(bound);
    if (value != nullptr && !value->isInt()) {
      return std::nullopt;
    }
  }
  std::optional<OpRule> rule = create(graph, op);
  if (rule) {
    for (Factor& factor : rule->factors) {
      factor.one_block = true;
    }
  }
  return rule;
}

// new_*: of the operand only the type is read.
std::optional<OpRule> createLike(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  if (operands.size() != 1 || op.results.size() != 1) {
    return std::nullopt;
  }
  OpRule rule;
  const Sizes sizes = sizesOf(graph, op.results[0]);
  rule.results = {ownDims(rule, sizes)};
  rule.operands = {likeDims(sizesOf(graph, operands[0]), rule.results[0], sizes, Align::kLeft)};
  return rule;
}

}  // namespace

const std::vector<RuleRow>& creationRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.arange.default", "() -> a   (whole between floats)", arange},
      {"aten.arange.start", "() -> a   (whole between floats)", arange},
      {"aten.arange.start_step", "() -> a   (whole between floats)", arange},
      {"aten.zeros.default", "() -> ...", create},
      {"aten.ones.default", "() -> ...", create},
      {"aten.full.default", "() -> ...", create},
      {"aten.scalar_tensor.default", "() -> ()", create},
      {"aten.new_zeros.default", "(any) -> ...", createLike},
      {"aten.new_ones.default", "(any) -> ...", createLike},
      {"aten.new_full.default", "(any) -> ...", createLike},
      {"aten.zeros_like.default", "(...) -> ...", broadcastRule},
      {"aten.ones_like.default", "(...) -> ...", broadcastRule},
      {"aten.full_like.default", "(...) -> ...", broadcastRule},
  };
  return rows;
}

}  // namespace autosp::sharding
