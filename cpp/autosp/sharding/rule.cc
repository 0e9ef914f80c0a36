#include "autosp/sharding/rule.h"

#include <algorithm>

#include "autosp/sharding/rule_table.h"
#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

std::string dimText(const OpRule& rule, const DimMap& dim) {
  auto name = [&](int factor) { return rule.factors[static_cast<std::size_t>(factor)].name; };
  if (dim.factors.empty()) {
    return "1";
  }
  if (dim.factors.size() == 1) {
    std::string out = name(dim.factors[0]);
    if (dim.lo != 0) {
      out += (dim.lo > 0 ? "+" : "") + std::to_string(dim.lo);
    }
    return out;
  }
  std::string out = "(";
  for (std::size_t i = 0; i < dim.factors.size(); ++i) {
    out += (i ? " " : "") + name(dim.factors[i]);
  }
  return out + ")";
}

std::string tensorText(const OpRule& rule, const TensorMap& map) {
  if (map.empty()) {
    return "()";
  }
  std::string out;
  for (std::size_t i = 0; i < map.size(); ++i) {
    out += (i ? " " : "") + dimText(rule, map[i]);
  }
  return out;
}

std::string listText(const OpRule& rule, const std::vector<TensorMap>& maps) {
  std::string out = "(";
  for (std::size_t i = 0; i < maps.size(); ++i) {
    out += (i ? ", " : "") + tensorText(rule, maps[i]);
  }
  return out + ")";
}

// Where a cut factor stands in one tensor.
struct Place {
  enum { kAbsent, kCut, kImpossible } kind = kAbsent;
  ir::Cut cut;
};

bool leavesRankEmpty(const Factor& factor, const FactorCut& cut, int ranks) {
  const ir::Cut whole{0, cut.outer, cut.inner, cut.base, cut.shift, 1};
  const std::vector<ir::Range> ranges = whole.ranges(factor.size, ranks);
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const ir::Range& range) { return range.size() <= 0; });
}

Place placeOf(const ir::Graph& graph, const OpRule& rule, const TensorMap& map, ir::ValueId value,
              const FactorCut& cut) {
  Place out;
  const ir::TensorType& type = graph.type(value);
  AUTOSP_CHECK(map.size() == type.rank(), "the rule " + rule.text() + " has another rank than " +
                                              type.text());
  for (std::size_t d = 0; d < map.size(); ++d) {
    const auto times = std::count(map[d].factors.begin(), map[d].factors.end(), cut.factor);
    if (times == 0) {
      continue;
    }
    // On a diagonal the factor stands in two dims: cutting one of them is no cut of the factor.
    if (times > 1 || out.kind != Place::kAbsent) {
      return {Place::kImpossible, {}};
    }
    const auto projected = projectToDim(rule, map, d, type.dim(d), cut, graph.ranks);
    if (!projected) {
      return {Place::kImpossible, {}};
    }
    out = {Place::kCut, *projected};
  }
  return out;
}

}  // namespace

int OpRule::addFactor(std::string name, std::int64_t size, FactorKind kind) {
  factors.push_back({std::move(name), size, kind});
  return static_cast<int>(factors.size()) - 1;
}

std::string OpRule::text() const {
  std::string out = listText(*this, operands) + " -> ";
  out += results.size() == 1 ? tensorText(*this, results[0]) : listText(*this, results);
  const std::pair<FactorKind, const char*> clauses[] = {
      {FactorKind::kSum, "sum"}, {FactorKind::kMean, "mean"}, {FactorKind::kWhole, "whole"}};
  bool first = true;
  for (const auto& [kind, word] : clauses) {
    std::string names;
    for (const Factor& factor : factors) {
      names += factor.kind == kind ? " " + factor.name : "";
    }
    if (!names.empty()) {
      out += (first ? "   " : ", ") + std::string(word) + names;
      first = false;
    }
  }
  return out;
}

std::optional<Strategy> cutFactor(const ir::Graph& graph, const ir::Op& op, const OpRule& rule,
                                  const FactorCut& cut) {
  const std::vector<ir::ValueId> operands = op.operands();
  AUTOSP_CHECK(operands.size() == rule.operands.size() && op.results.size() == rule.results.size(),
               "the rule " + rule.text() + " has other operands or results than " + op.name);
  const Factor& factor = rule.factors[static_cast<std::size_t>(cut.factor)];
  if (factor.kind == FactorKind::kWhole || factor.size == 1 ||
      (factor.one_block && (cut.outer != 1 || cut.inner != 1)) ||
      (factor.occupied && leavesRankEmpty(factor, cut, graph.ranks))) {
    return std::nullopt;
  }
  Strategy out;
  bool cut_somewhere = false;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Place place = placeOf(graph, rule, rule.operands[k], operands[k], cut);
    if (place.kind == Place::kImpossible) {
      return std::nullopt;
    }
    if (place.kind == Place::kCut) {
      out.operands.push_back(ir::Form::cutAt(place.cut));
      cut_somewhere = true;
    } else {
      out.operands.push_back(graph.value(operands[k]).requires_grad ? ir::Form::wholePartialGrad()
                                                                    : ir::Form::whole());
    }
  }
  for (std::size_t k = 0; k < op.results.size(); ++k) {
    const Place place = placeOf(graph, rule, rule.results[k], op.results[k], cut);
    if (place.kind == Place::kCut) {
      out.results.push_back(ir::Form::cutAt(place.cut));
      cut_somewhere = true;
      continue;
    }
    // A boolean has no partial sum.
    if (place.kind == Place::kImpossible || factor.kind == FactorKind::kPass ||
        graph.type(op.results[k]).dtype == ir::DType::kBool) {
      return std::nullopt;
    }
    out.results.push_back(ir::Form::partial());
    if (factor.kind == FactorKind::kMean) {
      out.lowering = Lowering::kSumThenDivide;
    }
  }
  return cut_somewhere ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<OpRule> ruleFor(const ir::Graph& graph, ir::OpId id, const RuleTable& table) {
  const ir::Op& op = graph.op(id);
  auto isStatic = [&](ir::ValueId value) {
    const auto& shape = graph.type(value).shape;
    return std::all_of(shape.begin(), shape.end(), [](const ir::Dim& d) { return d.isStatic(); });
  };
  const std::vector<ir::ValueId> operands = op.operands();
  if (!std::all_of(operands.begin(), operands.end(), isStatic) ||
      !std::all_of(op.results.begin(), op.results.end(), isStatic)) {
    return std::nullopt;
  }
  return table.find(graph, op);
}

}  // namespace autosp::sharding
