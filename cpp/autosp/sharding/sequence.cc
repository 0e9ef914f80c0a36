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
         op.name == "aten.baddbmm.default";
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

// True when the probabilities are the left factor of a matmul, through casts and dropout.
bool weighsValues(const Graph& graph, const std::vector<std::vector<OpId>>& users, ValueId probs) {
  std::vector<ValueId> work = {probs};
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    for (OpId id : users[v.at()]) {
      const Op& op = graph.op(id);
      if (isProduct(op) && op.operands()[0] == v) {
        return true;
      }
      if (!op.results.empty() && keepsShape(graph, op, v, op.results[0])) {
        work.push_back(op.results[0]);
      }
    }
  }
  return false;
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

std::vector<AttentionSite> findAttention(const Graph& graph) {
  std::vector<AttentionSite> out;
  const auto users = graph.users();
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (isAttention(op)) {
      out.push_back({id, false, {}, {}});
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
    if (product.valid() && weighsValues(graph, users, op.results[0])) {
      out.push_back({id, true, scores, product});
    }
  }
  return out;
}

Result<SequenceFacts> inferSequence(const Graph& graph, const RuleCache& rules,
                                    const std::map<std::string, std::int64_t>& sequence_dims) {
  CutPropagation marks(graph, rules, CutPropagation::Through::kAnyFactor);
  std::vector<int> seeds;
  for (const AttentionSite& site : findAttention(graph)) {
    auto seed = [&](ValueId value, int from_end) {
      const int dim = static_cast<int>(graph.type(value).rank()) - from_end;
      if (dim >= 0 && graph.type(value).dim(static_cast<std::size_t>(dim)) > 1) {
        seeds.push_back(marks.seed(value, plainCut(graph, value, dim)));
      }
    };
    if (site.written_out) {
      seed(site.scores, 2);
      seed(site.scores, 1);
    } else {
      const Op& op = graph.op(site.op);
      seed(op.valueArg("query"), 2);
      seed(op.valueArg("key"), 2);
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
