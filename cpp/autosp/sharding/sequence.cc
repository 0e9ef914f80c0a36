#include "autosp/sharding/sequence.h"

#include <algorithm>
#include <set>

namespace autosp::sharding {
namespace {

using ir::Cut;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;

bool isSoftmax(const Op& op) {
  return op.name == "aten.softmax.int" || op.name == "aten._softmax.default";
}

bool isProduct(const Op& op) {
  return op.name == "aten.matmul.default" || op.name == "aten.bmm.default" ||
         op.name == "aten.baddbmm.default" || op.name == "aten.einsum.default";
}

bool holds(const DimMap& dim, int factor) {
  return std::find(dim.factors.begin(), dim.factors.end(), factor) != dim.factors.end();
}

bool holds(const TensorMap& map, int factor) {
  return std::any_of(map.begin(), map.end(), [&](const DimMap& dim) { return holds(dim, factor); });
}

bool contracts(const OpRule& rule, const TensorMap& map) {
  for (const DimMap& dim : map) {
    for (int factor : dim.factors) {
      if (rule.factors[static_cast<std::size_t>(factor)].kind == FactorKind::kSum) {
        return true;
      }
    }
  }
  return false;
}

bool keepsShape(const Graph& graph, const Op& op, ValueId from, ValueId to) {
  const auto& a = graph.type(from).shape;
  const auto& b = graph.type(to).shape;
  return (op.traits.pointwise || op.name.starts_with("aten.to.") || op.name == "aten.dropout.default" ||
          op.name.starts_with("aten.view.") || op.name.starts_with("aten.reshape.")) &&
         a.size() >= 2 && b.size() >= 2 && a[a.size() - 1] == b[b.size() - 1] &&
         a[a.size() - 2] == b[b.size() - 2];
}

// The matmul whose scores this value holds, through scaling, masking, casts: the first product met.
ValueId productBehind(const Graph& graph, ValueId scores) {
  std::vector<ValueId> work = {scores};
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    const OpId def = graph.value(v).def;
    if (!def.valid() || !seen.insert(v).second) {
      continue;
    }
    const Op& op = graph.op(def);
    if (isProduct(op)) {
      return v;
    }
    for (ValueId operand : op.operands()) {
      if (keepsShape(graph, op, operand, v)) {
        work.push_back(operand);
      }
    }
  }
  return {};
}

// Whether an op sums a value times another over the value's last dim.
bool sumsLastDim(const Op& op, const OpRule& rule, ValueId value) {
  const std::vector<ValueId> operands = op.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != value || rule.operands[i].empty() ||
        rule.operands[i].back().factors.size() != 1) {
      continue;
    }
    const int factor = rule.operands[i].back().factors[0];
    if (rule.factors[static_cast<std::size_t>(factor)].kind != FactorKind::kSum) {
      continue;
    }
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (k != i && holds(rule.operands[k], factor)) {
        return true;
      }
    }
  }
  return false;
}

// True when a product sums the probabilities over the keys, through casts and dropout.
bool weighsValues(const Graph& graph, const RuleCache& rules,
                  const std::vector<std::vector<OpId>>& users, ValueId probs) {
  std::vector<ValueId> work = {probs};
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    for (OpId id : users[v.at()]) {
      const Op& op = graph.op(id);
      if (isProduct(op) && rules.rule(id) && sumsLastDim(op, *rules.rule(id), v)) {
        return true;
      }
      if (!op.results.empty() && keepsShape(graph, op, v, op.results[0])) {
        work.push_back(op.results[0]);
      }
    }
  }
  return false;
}

// Sorts the product's dims, but the last, by which of its factors have them.
void readProduct(const Op& op, const OpRule& rule, AttentionSite& site) {
  const TensorMap& result = rule.results[0];
  if (result.empty() || result.back().factors.size() != 1) {
    return;
  }
  const int key = result.back().factors[0];
  for (std::size_t d = 0; d + 1 < result.size(); ++d) {
    if (result[d].factors.size() != 1) {
      continue;
    }
    bool with_keys = false;
    bool with_queries = false;
    for (std::size_t i = 0; i < op.operands().size(); ++i) {
      const TensorMap& map = rule.operands[i];
      if (contracts(rule, map) && holds(map, result[d].factors[0])) {
        (holds(map, key) ? with_keys : with_queries) = true;
      }
    }
    if (with_queries) {
      (with_keys ? site.head_dims : site.query_dims).push_back(static_cast<int>(d));
    }
  }
}

Cut plainCut(const Graph& graph, ValueId value, int dim) {
  Cut cut;
  cut.dim = dim;
  cut.base = graph.type(value).dim(static_cast<std::size_t>(dim));
  return cut;
}

std::string candidateText(const std::vector<std::pair<std::string, int>>& inputs) {
  std::string out;
  for (const auto& [name, dim] : inputs) {
    out += (out.empty() ? "" : ", ") + name + " dim " + std::to_string(dim);
  }
  return out;
}

std::string remedyText(const std::vector<std::pair<std::string, int>>& inputs) {
  std::string out = "sequence_dims={";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out += (i ? ", \"" : "\"") + inputs[i].first + "\": " + std::to_string(inputs[i].second);
  }
  return out + "}";
}

}  // namespace

std::vector<AttentionSite> findAttention(const Graph& graph, const RuleCache& rules) {
  std::vector<AttentionSite> out;
  const auto users = graph.users();
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (isAttention(op)) {
      out.push_back({id, false, {}, {}, {}});
      continue;
    }
    if (!isSoftmax(op)) {
      continue;
    }
    const ValueId scores = op.operands()[0];
    const std::size_t rank = graph.type(scores).rank();
    if (rank < 3 || ir::normalDim(op.intArg("dim", -1), rank) + 1 != static_cast<std::int64_t>(rank)) {
      continue;
    }
    const ValueId product = productBehind(graph, scores);
    if (!product.valid() || !weighsValues(graph, rules, users, op.results[0])) {
      continue;
    }
    AttentionSite site{id, true, product, {}, {}};
    const OpId made_by = graph.value(product).def;
    if (rules.rule(made_by)) {
      readProduct(graph.op(made_by), *rules.rule(made_by), site);
    }
    if (!site.query_dims.empty()) {
      out.push_back(std::move(site));
    }
  }
  return out;
}

Result<SequenceFacts> inferSequence(const Graph& graph, const RuleCache& rules,
                                    const std::map<std::string, std::int64_t>& sequence_dims) {
  CutPropagation marks(graph, rules, CutPropagation::Through::kAnyFactor);
  std::vector<int> seeds;
  // Dims of which one is the query dim: it is the one that meets the keys, if any does.
  struct Doubtful {
    int key;
    std::vector<int> queries;
  };
  std::vector<Doubtful> doubtful;
  auto seed = [&](ValueId value, int dim) {
    if (dim < 0 || graph.type(value).dim(static_cast<std::size_t>(dim)) <= 1) {
      return -1;
    }
    return marks.seed(value, plainCut(graph, value, dim));
  };
  auto keep = [&](int id) {
    if (id >= 0) {
      seeds.push_back(id);
    }
  };
  const std::vector<AttentionSite> sites = findAttention(graph, rules);
  for (const AttentionSite& site : sites) {
    if (!site.written_out) {
      const Op& op = graph.op(site.op);
      for (const char* name : {"query", "key"}) {
        const ValueId value = op.valueArg(name);
        keep(seed(value, static_cast<int>(graph.type(value).rank()) - 2));
      }
      continue;
    }
    const int key = seed(site.product, static_cast<int>(graph.type(site.product).rank()) - 1);
    keep(key);
    if (site.query_dims.size() == 1) {
      keep(seed(site.product, site.query_dims[0]));
      continue;
    }
    Doubtful& entry = doubtful.emplace_back(Doubtful{key, {}});
    for (int dim : site.query_dims) {
      if (const int id = seed(site.product, dim); id >= 0) {
        entry.queries.push_back(id);
      }
    }
  }
  std::map<std::string, ValueId> named;
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      named[input.name] = input.value;
    }
  }
  std::vector<int> chosen;
  for (const auto& [name, dim] : sequence_dims) {
    const auto found = named.find(name);
    if (found == named.end()) {
      std::string list;
      for (const auto& [other, value] : named) {
        list += (list.empty() ? "" : ", ") + other;
      }
      return Diagnostic{Severity::kError, "", "",
                        "sequence_dims names an input that the program does not have: '" + name + "'",
                        "Its tensor inputs are: " + list + "."};
    }
    const std::size_t rank = graph.type(found->second).rank();
    if (dim < -static_cast<std::int64_t>(rank) || dim >= static_cast<std::int64_t>(rank)) {
      return Diagnostic{Severity::kError, "", "",
                        "sequence_dims gives dim " + std::to_string(dim) + " for '" + name +
                            "', which has " + std::to_string(rank) + " dims",
                        "Give a dim of that tensor."};
    }
    chosen.push_back(marks.seed(found->second,
                                plainCut(graph, found->second,
                                         static_cast<int>(ir::normalDim(dim, rank)))));
    seeds.push_back(chosen.back());
  }
  marks.run();
  for (const Doubtful& entry : doubtful) {
    std::vector<int> self;
    for (int id : entry.queries) {
      if (entry.key >= 0 && marks.classOf(id) == marks.classOf(entry.key)) {
        self.push_back(id);
      }
    }
    const std::vector<int>& queries = self.empty() ? entry.queries : self;
    seeds.insert(seeds.end(), queries.begin(), queries.end());
  }

  // Classes that reach user inputs are the candidates.
  std::map<int, std::vector<std::pair<std::string, int>>> candidates;
  std::set<int> classes;
  for (int seed : seeds) {
    classes.insert(marks.classOf(seed));
  }
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind != ir::InputKind::kUser) {
      continue;
    }
    for (const auto& reached : marks.reached(input.value)) {
      if (classes.count(marks.classOf(reached.seed)) == 0) {
        continue;
      }
      auto& list = candidates[marks.classOf(reached.seed)];
      const std::pair<std::string, int> entry{input.name, reached.cut.dim};
      if (std::find(list.begin(), list.end(), entry) == list.end()) {
        list.push_back(entry);
      }
    }
  }
  std::set<int> kept;
  if (!chosen.empty()) {
    for (int seed : chosen) {
      kept.insert(marks.classOf(seed));
    }
  } else if (classes.empty() && !sites.empty()) {
    return Diagnostic{Severity::kError, graph.describe(sites[0].op), graph.op(sites[0].op).location,
                      "the sequence that attention runs over has length 1: there is nothing to cut",
                      "Pass longer inputs; generation one token at a time is not supported."};
  } else if (classes.empty()) {
    return Diagnostic{Severity::kError, "", "",
                      "no sequence dimension was found: the program has no attention "
                      "(scaled_dot_product_attention, or matmul, softmax, matmul)",
                      "Name it: sequence_dims={\"input\": dim}; nothing would be sharded otherwise."};
  } else if (candidates.size() > 1) {
    std::string list;
    for (const auto& [cls, inputs] : candidates) {
      list += (list.empty() ? "" : " | ") + candidateText(inputs);
    }
    return Diagnostic{Severity::kError, "", "",
                      "attention relates more than one sequence: " + list,
                      "Name the one to shard, e.g. " + remedyText(candidates.begin()->second) + "."};
  } else if (candidates.size() == 1) {
    kept.insert(candidates.begin()->first);
  } else if (classes.size() == 1) {
    kept.insert(*classes.begin());  // the sequence begins inside the program (patches of an image)
  } else {
    return Diagnostic{Severity::kError, "", "",
                      "no input holds the sequence that attention runs over, and the program has "
                      "more than one such sequence",
                      "Name it: sequence_dims={\"input\": dim}."};
  }
  SequenceFacts facts;
  facts.cuts.resize(graph.valueCount());
  for (std::size_t v = 0; v < graph.valueCount(); ++v) {
    for (const auto& reached : marks.reached(ValueId(v))) {
      if (kept.count(marks.classOf(reached.seed)) != 0) {
        facts.cuts[v].push_back(reached.cut);
      }
    }
  }
  for (int cls : kept) {
    const auto& list = candidates[cls];
    facts.inputs.insert(facts.inputs.end(), list.begin(), list.end());
  }
  return facts;
}

}  // namespace autosp::sharding
