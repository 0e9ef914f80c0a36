#include "autosp/sharding/attention.h"

#include <string>
#include <utility>

#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Cut;
using ir::Form;
using ir::Graph;
using ir::Op;
using ir::TensorType;
using ir::ValueId;

// The operands of an attention op, checked against each other.
struct Attention {
  ValueId query;
  ValueId key;
  ValueId value;
  ValueId mask;  // invalid without one
  std::size_t rank = 0;
  std::size_t query_dim = 0;
};

std::optional<Attention> readAttention(const Graph& graph, const Op& op) {
  Attention out{op.valueArg("query"),
                op.valueArg("key"),
                op.valueArg("value"),
                op.valueArg("attn_mask"),
                0,
                0};
  if (!out.query.valid() || !out.key.valid() || !out.value.valid() || op.results.size() != 1) {
    return std::nullopt;
  }
  const TensorType& query = graph.type(out.query);
  const TensorType& key = graph.type(out.key);
  const TensorType& value = graph.type(out.value);
  out.rank = query.rank();
  if (out.rank < 2 || key.rank() != out.rank || value.rank() != out.rank) {
    return std::nullopt;
  }
  out.query_dim = out.rank - 2;
  const std::size_t last = out.rank - 1;
  if (key.dim(last) != query.dim(last) || key.dim(out.query_dim) != value.dim(out.query_dim) ||
      graph.type(op.results[0]).rank() != out.rank) {
    return std::nullopt;
  }
  if (out.mask.valid()) {
    std::vector<std::int64_t> scores = query.sizes();
    scores[last] = key.dim(out.query_dim);
    const auto both = broadcastSizes(scores, graph.type(out.mask).sizes());
    if (!both || *both != scores) {
      return std::nullopt;
    }
  }
  // A cut names each operand by its argument, so there must be no other tensor among them.
  if (op.operands().size() != (out.mask.valid() ? 4U : 3U)) {
    return std::nullopt;
  }
  return out;
}

Form wholeFor(const Graph& graph, ValueId value) {
  return graph.value(value).requires_grad ? Form::wholePartialGrad() : Form::whole();
}

// One strategy of an attention; each operand's form is written at its place among the operands.
class StrategyBuilder {
 public:
  StrategyBuilder(const Graph& graph, const Op& op, const Attention& attention, Lowering lowering)
      : graph_(graph), op_(op), attention_(attention) {
    strategy_.lowering = lowering;
  }

  // The same dim of query and result, dealt evenly.
  void cutRows(std::size_t dim) {
    query_ = evenCut(attention_.query, dim);
    strategy_.results = {evenCut(op_.results[0], dim)};
  }

  // Key and value as whole, or by the heads that the query heads read.
  void keepKeys() {
    key_ = wholeFor(graph_, attention_.key);
    value_ = wholeFor(graph_, attention_.value);
  }
  void groupHeads(std::int64_t heads) {
    key_ = headCut(attention_.key, heads);
    value_ = headCut(attention_.value, heads);
  }

  // The mask's dim that broadcasts to this dim of the scores, if it has one of its own.
  void cutMask(std::size_t dim) {
    if (!attention_.mask.valid()) {
      return;
    }
    mask_ = wholeFor(graph_, attention_.mask);
    const TensorType& mask = graph_.type(attention_.mask);
    if (mask.rank() + dim < attention_.rank) {
      return;
    }
    const std::size_t own = mask.rank() + dim - attention_.rank;
    if (mask.dim(own) > 1) {
      mask_ = evenCut(attention_.mask, own);
    }
  }

  // Operands in the op's own order of arguments.
  Strategy build() && {
    for (const auto& [name, attr] : op_.args) {
      if (attr.isValue()) {
        strategy_.operands.push_back(name == "query"   ? query_
                                     : name == "key"   ? key_
                                     : name == "value" ? value_
                                                       : mask_);
      }
    }
    return std::move(strategy_);
  }

 private:
  Form evenCut(ValueId value, std::size_t dim) const {
    const std::int64_t size = graph_.type(value).dim(dim);
    return Form::cutAt(
        Cut{static_cast<std::int32_t>(dim), 1, 1, size, 0, 1}.canonical(size, graph_.ranks));
  }
  Form headCut(ValueId value, std::int64_t heads) const {
    const std::int64_t own = graph_.type(value).dim(1);
    return Form::cutAt(Cut{1, 1, 1, heads, 0, heads / own}.canonical(own, graph_.ranks));
  }

  const Graph& graph_;
  const Op& op_;
  const Attention& attention_;
  Strategy strategy_;
  Form query_;
  Form key_;
  Form value_;
  Form mask_;
};

// Query heads that each key head serves; nothing when heads cannot be dealt by groups.
bool hasHeadGroups(const Graph& graph, const Op& op, const Attention& attention) {
  if (attention.rank != 4) {
    return false;
  }
  const std::int64_t heads = graph.type(attention.query).dim(1);
  const std::int64_t key_heads = graph.type(attention.key).dim(1);
  return key_heads == graph.type(attention.value).dim(1) && key_heads > 0 && heads > 0 &&
         heads % key_heads == 0 && (key_heads == heads || op.boolArg("enable_gqa", false));
}

}  // namespace

std::vector<Strategy> attentionStrategies(const Graph& graph, const Op& op) {
  const auto attention = readAttention(graph, op);
  std::vector<Strategy> out;
  if (!attention) {
    return out;
  }
  if (hasHeadGroups(graph, op, *attention)) {
    StrategyBuilder heads(graph, op, *attention, Lowering::kAttentionHeads);
    heads.cutRows(1);
    heads.groupHeads(graph.type(attention->query).dim(1));
    heads.cutMask(1);
    out.push_back(std::move(heads).build());
  }
  if (graph.type(attention->query).dim(attention->query_dim) > 1) {
    StrategyBuilder queries(graph, op, *attention, Lowering::kAttentionQueries);
    queries.cutRows(attention->query_dim);
    queries.keepKeys();
    queries.cutMask(attention->query_dim);
    out.push_back(std::move(queries).build());
  }
  return out;
}

std::optional<OpRule> attentionRule(const Graph& graph, const Op& op) {
  const auto attention = readAttention(graph, op);
  if (!attention) {
    return std::nullopt;
  }
  RuleBuilder build(graph, op);
  const TensorType& query = graph.type(attention->query);
  const TensorType& key = graph.type(attention->key);
  const TensorType& value = graph.type(attention->value);
  DimFactors query_dims;
  DimFactors key_dims;
  DimFactors value_dims;
  for (std::size_t i = 0; i < attention->query_dim; ++i) {
    const std::string name =
        attention->rank == 4 ? std::string(i == 0 ? "b" : "h") : "b" + std::to_string(i);
    const bool head = attention->rank == 4 && i == 1;
    const auto joins = [&](const TensorType& type) {
      return type.dim(i) == query.dim(i) || type.dim(i) == 1;
    };
    const bool whole = head || !joins(key) || !joins(value);
    query_dims.push_back(whole ? build.factor(name, query.dim(i), FactorKind::kWhole)
                               : build.occupiedFactor(name, query.dim(i)));
    // Key heads that each serve several query heads are a factor of their own.
    const auto ownOrShared = [&](const TensorType& type, const std::string& own_name) {
      return joins(type) ? query_dims.back()
                         : build.factor(own_name, type.dim(i), FactorKind::kWhole);
    };
    key_dims.push_back(ownOrShared(key, "g" + std::to_string(i)));
    value_dims.push_back(value.dim(i) == key.dim(i) ? key_dims.back()
                                                    : ownOrShared(value, "w" + std::to_string(i)));
  }
  const std::size_t last = attention->rank - 1;
  const int s = build.factor("s", query.dim(last - 1), FactorKind::kWhole);
  const int t = build.factor("t", key.dim(last - 1), FactorKind::kWhole);
  const int e = build.factor("e", query.dim(last), FactorKind::kWhole);
  const int v = build.factor("v", value.dim(last), FactorKind::kWhole);
  DimFactors scores = query_dims;
  DimFactors result = query_dims;
  scores.insert(scores.end(), {s, t});
  result.insert(result.end(), {s, v});
  query_dims.insert(query_dims.end(), {s, e});
  key_dims.insert(key_dims.end(), {t, e});
  value_dims.insert(value_dims.end(), {t, v});
  build.operand("query", query_dims);
  build.operand("key", key_dims);
  build.operand("value", value_dims);
  build.broadcastOperand("attn_mask", scores);
  build.results(result);
  return std::move(build).build();
}

}  // namespace autosp::sharding
