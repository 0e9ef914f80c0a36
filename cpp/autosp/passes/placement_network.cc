#include "autosp/passes/placement_network.h"

#include <algorithm>
#include <set>

#include "autosp/sharding/attention.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Form;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;
using sharding::Cost;
using sharding::Lowering;
using sharding::Strategy;

// A value that needs no gradient has one whole form.
Form normal(const Graph& graph, ValueId value, const Form& form) {
  return form.kind == ir::FormKind::kWholePartialGrad && !graph.value(value).requires_grad
             ? Form::whole()
             : form;
}

void addDistinct(std::vector<Form>& list, const Form& form) {
  if (std::find(list.begin(), list.end(), form) == list.end()) {
    list.push_back(form);
  }
}

Strategy wholeStrategy(const Graph& graph, const Op& op, bool partial_grad) {
  Strategy out;
  auto form = [&](ValueId v) {
    return partial_grad && graph.value(v).requires_grad ? Form::wholePartialGrad() : Form::whole();
  };
  for (ValueId v : op.operands()) {
    out.operands.push_back(form(v));
  }
  for (ValueId v : op.results) {
    out.results.push_back(form(v));
  }
  return out;
}

bool isMeanCrossEntropy(const Op& op) {
  return op.name == "aten.cross_entropy_loss.default" && op.intArg("reduction", 1) == 1;
}

// Means that can be written as a sum and a division: a user's op with "mean n" is one whose sum is unknown.
bool isMean(const Op& op) {
  return op.name == "aten.mean.dim" || op.name == "aten.mean.default" ||
         (op.name.starts_with("aten.") && op.find("reduction") != nullptr);
}

}  // namespace

PlacementNetwork::PlacementNetwork(const Graph& graph, const sharding::RuleCache& rules,
                                   const sharding::SequenceFacts& sequence,
                                   PlacementSettings settings)
    : graph_(graph),
      rules_(rules),
      sequence_(sequence),
      settings_(settings),
      terms_(graph),
      input_kind_(graph.valueCount(), ir::InputKind::kUser),
      is_input_(graph.valueCount(), 0),
      strategies_(graph.opCount()),
      op_variable_(graph.opCount(), -1),
      readers_(graph.valueCount()) {
  for (const ir::Input& input : graph.inputs()) {
    input_kind_[input.value.at()] = input.kind;
    is_input_[input.value.at()] = 1;
  }
  collectCandidates();
  addOps();
  addOutputs();
  addReaders();
}

int PlacementNetwork::newVariable(std::vector<Cost> unary) {
  problem_.unary.push_back(std::move(unary));
  return static_cast<int>(problem_.unary.size()) - 1;
}

void PlacementNetwork::collectCandidates() {
  // The sequence's cuts everywhere, and the heads' cuts as far as strategies carry them.
  sharding::CutPropagation heads(graph_, rules_, sharding::CutPropagation::Through::kCutFactors);
  if (settings_.minimize_memory) {
    for (const ir::Input& input : graph_.inputs()) {
      if (input.kind == ir::InputKind::kParameter) {
        heads.forbid(input.value);
      }
    }
  }
  for (const sharding::AttentionSite& site : sharding::findAttention(graph_, rules_)) {
    if (site.written_out) {
      if (!site.head_dims.empty()) {
        ir::Cut cut;
        cut.dim = site.head_dims.back();
        cut.base = graph_.type(site.product).dim(static_cast<std::size_t>(cut.dim));
        if (cut.base > 1) {
          heads.seed(site.product, cut);
        }
      }
      continue;
    }
    const Op& op = graph_.op(site.op);
    const std::vector<ValueId> operands = op.operands();
    for (const Strategy& strategy : sharding::attentionStrategies(graph_, op)) {
      if (strategy.lowering != Lowering::kAttentionHeads) {
        continue;
      }
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (strategy.operands[i].isCut() && strategy.operands[i].cut.group == 1) {
          heads.seed(operands[i], strategy.operands[i].cut);
        }
      }
      heads.seed(op.results[0], strategy.results[0].cut);
    }
  }
  heads.run();
  candidates_ = sequence_.cuts;
  for (std::size_t v = 0; v < graph_.valueCount(); ++v) {
    for (const auto& reached : heads.reached(ValueId(v))) {
      if (std::find(candidates_[v].begin(), candidates_[v].end(), reached.cut) ==
          candidates_[v].end()) {
        candidates_[v].push_back(reached.cut);
      }
    }
  }
}

bool PlacementNetwork::weightsStayWhole(const Op& op, const Strategy& strategy) const {
  const std::vector<ValueId> operands = op.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ValueId v = operands[i];
    if (is_input_[v.at()] == 0 || input_kind_[v.at()] != ir::InputKind::kParameter ||
        !strategy.operands[i].isCut()) {
      continue;
    }
    const auto& along = sequence_.cuts[v.at()];
    if (std::find(along.begin(), along.end(), strategy.operands[i].cut) == along.end()) {
      return false;
    }
  }
  return true;
}

std::vector<Strategy> PlacementNetwork::enumerate(OpId id) const {
  const Op& op = graph_.op(id);
  const std::vector<ValueId> operands = op.operands();
  std::vector<Strategy> out;
  auto add = [&](Strategy strategy) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      strategy.operands[i] = normal(graph_, operands[i], strategy.operands[i]);
    }
    if (settings_.minimize_memory && !weightsStayWhole(op, strategy)) {
      return;
    }
    if (std::find(out.begin(), out.end(), strategy) == out.end()) {
      out.push_back(std::move(strategy));
    }
  };
  const bool writes = op.traits.mutates;
  if (!writes && sharding::isAttention(op)) {
    const bool masked = op.has("attn_mask");
    for (Strategy& strategy : sharding::attentionStrategies(graph_, op)) {
      // Memory objective: unmasked attention exchanges heads, so K and V are never held whole.
      if (settings_.minimize_memory && !masked &&
          strategy.lowering == Lowering::kAttentionQueries) {
        continue;
      }
      add(std::move(strategy));
    }
  }
  const std::optional<sharding::OpRule>& rule = rules_.rule(id);
  if (!writes && rule) {
    auto cutsOf = [&](const std::vector<sharding::TensorMap>& maps,
                      const std::vector<ValueId>& values) {
      for (std::size_t i = 0; i < values.size() && i < maps.size(); ++i) {
        for (const ir::Cut& cut : candidates_[values[i].at()]) {
          const auto dim = static_cast<std::size_t>(cut.dim);
          if (dim >= maps[i].size()) {
            continue;
          }
          auto factor = sharding::projectToFactor(*rule, maps[i][dim],
                                                  graph_.type(values[i]).dim(dim), cut,
                                                  graph_.ranks);
          if (!factor) {
            continue;
          }
          auto strategy = sharding::cutFactor(graph_, op, *rule, *factor);
          if (strategy && (strategy->lowering != Lowering::kSumThenDivide || isMean(op))) {
            if (isMeanCrossEntropy(op)) {
              strategy->lowering = Lowering::kCrossEntropy;
              strategy->results[0] = Form::whole();  // the lowered op reduces it
            }
            add(std::move(*strategy));
          }
        }
      }
    };
    cutsOf(rule->results, op.results);
    cutsOf(rule->operands, operands);
  }
  // Along the sequence first: ties go to the first state.
  auto alongSequence = [&](const Strategy& strategy) {
    auto is = [&](const Form& form, ValueId v) {
      const auto& along = sequence_.cuts[v.at()];
      return form.isCut() && std::find(along.begin(), along.end(), form.cut) != along.end();
    };
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (is(strategy.results[i], op.results[i])) {
        return true;
      }
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (is(strategy.operands[i], operands[i])) {
        return true;
      }
    }
    return false;
  };
  std::stable_partition(out.begin(), out.end(), alongSequence);
  out.push_back(wholeStrategy(graph_, op, false));
  const bool grad = std::any_of(op.results.begin(), op.results.end(), [&](ValueId v) {
    return graph_.value(v).requires_grad;
  });
  if (grad && !writes) {
    out.push_back(wholeStrategy(graph_, op, true));
  }
  return out;
}

Cost PlacementNetwork::opCost(const Op& op, const Strategy& strategy) const {
  Cost cost;
  cost.time = cost::opTime(settings_.machine, graph_, op, strategy);
  if (!settings_.minimize_memory || cost::isView(op)) {
    return cost;
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const ir::Value& value = graph_.value(op.results[i]);
    if (value.is_tensor && sequence_.carries(op.results[i]) && !strategy.results[i].isCut()) {
      cost.whole_bytes += value.type.bytes() * (ir::isFloating(value.type.dtype) ? 2 : 1);
    }
  }
  return cost;
}

void PlacementNetwork::addOps() {
  for (OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (op.traits.effect) {
      continue;
    }
    strategies_[id.at()] = enumerate(id);
    std::vector<Cost> unary;
    for (std::size_t k = 0; k < strategies_[id.at()].size(); ++k) {
      Cost cost = opCost(op, strategies_[id.at()][k]);
      cost.tie += static_cast<std::int64_t>(k);
      unary.push_back(cost);
    }
    op_variable_[id.at()] = newVariable(std::move(unary));
    // What this op requires of each value it reads.
    const std::vector<ValueId> operands = op.operands();
    std::set<ValueId> seen;
    for (ValueId v : operands) {
      if (!seen.insert(v).second) {
        continue;
      }
      Reader reader;
      reader.variable = op_variable_[id.at()];
      for (const Strategy& strategy : strategies_[id.at()]) {
        std::vector<Form> needs;
        for (std::size_t i = 0; i < operands.size(); ++i) {
          if (operands[i] == v) {
            addDistinct(needs, strategy.operands[i]);
          }
        }
        reader.needs.push_back(std::move(needs));
      }
      readers_[v.at()].push_back(std::move(reader));
    }
  }
}

void PlacementNetwork::addOutputs() {
  output_variable_.assign(graph_.outputs().size(), -1);
  output_forms_.resize(graph_.outputs().size());
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::Output& output = graph_.outputs()[i];
    if (!output.value || !graph_.value(*output.value).is_tensor) {
      continue;
    }
    const ValueId v = *output.value;
    std::vector<Form>& forms = output_forms_[i];
    if (output.may_stay_cut) {
      // A DTensor deals a dim as torch.chunk does; the two agree where the deal is even.
      for (const ir::Cut& cut : sequence_.cuts[v.at()]) {
        const std::int64_t size = graph_.type(v).dim(static_cast<std::size_t>(cut.dim));
        if (cut.outer == 1 && cut.inner == 1 && cut.shift == 0 && cut.group == 1 &&
            cut.base == size && size % graph_.ranks == 0) {
          forms.push_back(Form::cutAt(cut));
        }
      }
    }
    forms.push_back(Form::whole());
    std::vector<Cost> unary;
    Reader reader;
    for (std::size_t k = 0; k < forms.size(); ++k) {
      unary.push_back({0, 0, static_cast<std::int64_t>(k)});
      reader.needs.push_back({forms[k]});
    }
    output_variable_[i] = newVariable(std::move(unary));
    reader.variable = output_variable_[i];
    readers_[v.at()].push_back(std::move(reader));
  }
}

std::vector<Form> PlacementNetwork::ownForms(ValueId value) const {
  const ir::Value& v = graph_.value(value);
  if (!v.def.valid()) {
    return {Form::whole()};
  }
  std::vector<Form> out;
  for (const Strategy& strategy : strategies_[v.def.at()]) {
    addDistinct(out, normal(graph_, value, strategy.results[static_cast<std::size_t>(v.result)]));
  }
  return out;
}

Cost PlacementNetwork::copyCost(ValueId value, const Form& own,
                                const std::vector<Form>& needed) const {
  std::vector<Form> missing;
  for (const Form& form : needed) {
    if (form != own) {
      missing.push_back(form);
    }
  }
  const auto tree = conversionTree(settings_.machine, graph_.ranks, terms_.of(value),
                                   settings_.gradients_partial, own, missing);
  if (!tree) {
    return Cost::forbidden();
  }
  Cost cost;
  cost.time = tree->time;
  if (settings_.minimize_memory && own.isCut() && sequence_.carries(value)) {
    const bool whole = std::any_of(tree->steps.begin(), tree->steps.end(),
                                   [](const ConversionStep& step) { return step.to.isWhole(); });
    cost.whole_bytes = whole ? graph_.type(value).bytes() : 0;
  }
  return cost;
}

void PlacementNetwork::addReaders() {
  for (std::size_t index = 0; index < graph_.valueCount(); ++index) {
    const ValueId value(index);
    const std::vector<Reader>& readers = readers_[index];
    const ir::Value& v = graph_.value(value);
    if (readers.empty() || !v.is_tensor) {
      continue;
    }
    const std::vector<Form> own = ownForms(value);
    // By state of the producer: which own form it makes (an input has one state, no variable).
    std::vector<std::size_t> own_of_state;
    int producer = -1;
    if (v.def.valid()) {
      producer = op_variable_[v.def.at()];
      AUTOSP_CHECK(producer >= 0, "a tensor of an effect is read by an op");
      for (const Strategy& strategy : strategies_[v.def.at()]) {
        const Form form =
            normal(graph_, value, strategy.results[static_cast<std::size_t>(v.result)]);
        own_of_state.push_back(static_cast<std::size_t>(
            std::find(own.begin(), own.end(), form) - own.begin()));
      }
    }
    if (readers.size() == 1) {
      const Reader& reader = readers[0];
      std::vector<std::vector<Cost>> cost(own.size());
      for (std::size_t o = 0; o < own.size(); ++o) {
        for (const auto& needs : reader.needs) {
          cost[o].push_back(copyCost(value, own[o], needs));
        }
      }
      if (producer < 0) {
        auto& unary = problem_.unary[static_cast<std::size_t>(reader.variable)];
        for (std::size_t k = 0; k < unary.size(); ++k) {
          unary[k] += cost[0][k];
        }
      } else {
        sharding::PairTable table{producer, reader.variable, {}};
        for (std::size_t o : own_of_state) {
          table.cost.insert(table.cost.end(), cost[o].begin(), cost[o].end());
        }
        problem_.pairs.push_back(std::move(table));
      }
      continue;
    }
    // Sets of forms that exist: the own one and at most two copies.
    std::vector<Form> forms;
    for (const Reader& reader : readers) {
      for (const auto& needs : reader.needs) {
        for (const Form& form : needs) {
          addDistinct(forms, form);
        }
      }
    }
    std::vector<std::vector<Form>> sets;
    auto addSet = [&](std::vector<Form> set) {
      std::sort(set.begin(), set.end());
      if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
        sets.push_back(std::move(set));
      }
    };
    for (const Form& o : own) {
      addSet({o});
      for (std::size_t a = 0; a < forms.size(); ++a) {
        if (forms[a] == o) {
          continue;
        }
        addSet({o, forms[a]});
        for (std::size_t b = a + 1; b < forms.size(); ++b) {
          if (forms[b] != o) {
            addSet({o, forms[a], forms[b]});
          }
        }
      }
    }
    std::vector<Cost> unary(sets.size());
    std::vector<std::vector<Cost>> cost(own.size());
    for (std::size_t o = 0; o < own.size(); ++o) {
      for (const auto& set : sets) {
        const bool holds = std::find(set.begin(), set.end(), own[o]) != set.end();
        cost[o].push_back(holds ? copyCost(value, own[o], set) : Cost::forbidden());
      }
    }
    if (producer < 0) {
      unary = cost[0];
    }
    for (std::size_t s = 0; s < sets.size(); ++s) {
      unary[s].tie += unary[s].isForbidden() ? 0 : static_cast<std::int64_t>(sets[s].size());
    }
    const int copies = newVariable(std::move(unary));
    if (producer >= 0) {
      sharding::PairTable table{producer, copies, {}};
      for (std::size_t o : own_of_state) {
        table.cost.insert(table.cost.end(), cost[o].begin(), cost[o].end());
      }
      problem_.pairs.push_back(std::move(table));
    }
    for (const Reader& reader : readers) {
      sharding::PairTable table{copies, reader.variable, {}};
      for (const auto& set : sets) {
        for (const auto& needs : reader.needs) {
          const bool all = std::all_of(needs.begin(), needs.end(), [&](const Form& form) {
            return std::find(set.begin(), set.end(), form) != set.end();
          });
          table.cost.push_back(all ? Cost{} : Cost::forbidden());
        }
      }
      problem_.pairs.push_back(std::move(table));
    }
  }
}

const Strategy& PlacementNetwork::strategy(OpId op, const std::vector<int>& state) const {
  const int variable = op_variable_[op.at()];
  AUTOSP_CHECK(variable >= 0, "an effect has no strategy");
  return strategies_[op.at()][static_cast<std::size_t>(state[static_cast<std::size_t>(variable)])];
}

const Form& PlacementNetwork::outputForm(std::size_t output, const std::vector<int>& state) const {
  const int variable = output_variable_[output];
  AUTOSP_CHECK(variable >= 0, "an output without a tensor has no form");
  return output_forms_[output]
                      [static_cast<std::size_t>(state[static_cast<std::size_t>(variable)])];
}

Cost PlacementNetwork::reprice(const std::vector<int>& state) const {
  Cost total;
  std::vector<std::vector<Form>> needed(graph_.valueCount());
  std::vector<Form> own(graph_.valueCount(), Form::whole());
  for (OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (op.traits.effect) {
      continue;
    }
    const Strategy& chosen = strategy(id, state);
    total += opCost(op, chosen);
    const std::vector<ValueId> operands = op.operands();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      addDistinct(needed[operands[i].at()], chosen.operands[i]);
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      own[op.results[i].at()] = normal(graph_, op.results[i], chosen.results[i]);
    }
  }
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    if (output_variable_[i] >= 0) {
      addDistinct(needed[graph_.outputs()[i].value->at()], outputForm(i, state));
    }
  }
  for (std::size_t v = 0; v < graph_.valueCount(); ++v) {
    if (!needed[v].empty()) {
      total += copyCost(ValueId(v), own[v], needed[v]);
    }
  }
  return total;
}

}  // namespace autosp::passes
