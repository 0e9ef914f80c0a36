// choose-placement: the exact optimum of passes/placement_network.h, written onto the graph as
// annotations.
#include <algorithm>

#include "autosp/passes/passes.h"
#include "autosp/passes/placement_network.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Form;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;

std::string_view loweringName(sharding::Lowering lowering) {
  switch (lowering) {
    case sharding::Lowering::kAsIs:
      return "";
    case sharding::Lowering::kSumThenDivide:
      return "sum-then-divide";
    case sharding::Lowering::kCrossEntropy:
      return "cross-entropy";
    case sharding::Lowering::kAttentionHeads:
      return "attention-heads";
    case sharding::Lowering::kAttentionQueries:
      return "attention-queries";
  }
  return "";
}

// One rank: everything is whole and nothing is converted.
void placeOnOneRank(Graph& graph) {
  for (std::size_t v = 0; v < graph.valueCount(); ++v) {
    if (graph.value(ValueId(v)).is_tensor) {
      graph.value(ValueId(v)).form = Form::whole();
    }
  }
  for (OpId id : graph.order()) {
    if (!graph.op(id).traits.effect) {  // a token has no form
      graph.op(id).needs.assign(graph.op(id).operands().size(), Form::whole());
    }
  }
}

// Bytes of what carries the sequence on either side of an op. Without a rule the marks do not pass
// through it: an op between the inputs and the first attention is seen by its results only.
std::int64_t sequenceBytes(const Graph& graph, const Op& op,
                           const sharding::SequenceFacts& sequence) {
  auto sum = [&](const std::vector<ValueId>& values) {
    std::int64_t bytes = 0;
    for (ValueId v : values) {
      bytes += graph.value(v).is_tensor && sequence.carries(v) ? graph.type(v).bytes() : 0;
    }
    return bytes;
  };
  const std::int64_t read = sum(op.operands());
  return read > 0 ? read : sum(op.results);
}

// Ops without a rule that read the sequence: a remark each, or a refusal.
Status reportMissingRules(const Graph& graph, const sharding::RuleCache& rules,
                          const sharding::SequenceFacts& sequence, PassContext& context) {
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.traits.effect || rules.rule(id) || sharding::isAttention(op)) {
      continue;
    }
    const std::int64_t bytes = sequenceBytes(graph, op, sequence);
    if (bytes == 0) {
      continue;
    }
    Diagnostic diagnostic{Severity::kRemark, graph.describe(id), op.location,
                          "there is no sharding rule for this op; its operands are made whole (" +
                              std::to_string(bytes) + " bytes)",
                          "Add one with autosp.register_rule(\"" + op.name + "\", \"...\")."};
    if (context.options.on_unsupported_error) {
      diagnostic.severity = Severity::kError;
      diagnostic.message = "there is no sharding rule for this op, and on_unsupported=\"error\"";
      diagnostic.remedy += " Or set on_unsupported=\"replicate\" to run it on whole operands.";
      return diagnostic;
    }
    ++context.report.summary.ops_made_whole;
    context.report.summary.bytes_made_whole += bytes;
    context.report.remark(std::move(diagnostic));
  }
  return Status::ok();
}

// Float activations that carry the sequence: how many bytes there are and how many are computed
// whole.
Status checkShare(const Graph& graph, const sharding::SequenceFacts& sequence,
                  PassContext& context) {
  std::int64_t total = 0;
  std::int64_t whole = 0;
  std::int64_t worst_bytes = 0;
  OpId worst;
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.traits.effect || cost::isView(op)) {
      continue;
    }
    for (ValueId v : op.results) {
      const ir::Value& value = graph.value(v);
      if (!value.is_tensor || !sequence.carries(v) || !ir::isFloating(value.type.dtype)) {
        continue;
      }
      const std::int64_t bytes = value.type.bytes();
      total += bytes;
      if (!value.form->isCut()) {
        whole += bytes;
        ++context.report.summary.values_whole;
        if (bytes > worst_bytes) {
          worst_bytes = bytes;
          worst = id;
        }
      } else {
        ++context.report.summary.values_cut;
      }
    }
  }
  context.report.summary.sequence_bytes = total;
  context.report.summary.whole_bytes = whole;
  if (2 * whole > total && total > 0) {
    Diagnostic found{Severity::kError, graph.describe(worst), graph.op(worst).location,
                     "more than half of the bytes that carry the sequence would be whole on every "
                     "rank (" +
                         std::to_string(whole) + " of " + std::to_string(total) +
                         " bytes; this op's are the most)",
                     "Add sharding rules for the ops listed by autosp.explain, or rewrite them."};
    if (context.options.objective == Objective::kMemory) {
      return found;
    }
    // The time objective may find that copying is faster: no fault of the program, but never
    // silent.
    found.remedy = "objective=\"memory\" cuts them.";
    context.report.warning(std::move(found));
  }
  return Status::ok();
}

}  // namespace

Status choosePlacement(Graph& graph, PassContext& context) {
  if (graph.ranks == 1) {
    placeOnOneRank(graph);
    return Status::ok();
  }
  sharding::RuleTable table;
  for (const auto& [op, spelling] : context.options.rules) {
    AUTOSP_RETURN_IF_ERROR(table.add(op, spelling));
  }
  const sharding::RuleCache rules(graph, table);
  auto found = sharding::inferSequence(
      graph, rules, {context.options.sequence_dims.begin(), context.options.sequence_dims.end()});
  if (!found.isOk()) {
    return found.status();
  }
  const sharding::SequenceFacts sequence = std::move(found).value();
  for (const auto& [name, dim] : sequence.inputs) {
    for (const ir::Input& input : graph.inputs()) {
      if (input.kind == ir::InputKind::kUser && input.name == name) {
        std::int64_t& length = context.report.summary.sequence_length;
        length = std::max(length, graph.type(input.value).dim(static_cast<std::size_t>(dim)));
      }
    }
  }
  AUTOSP_RETURN_IF_ERROR(reportMissingRules(graph, rules, sequence, context));

  PlacementSettings settings;
  settings.minimize_memory = context.options.objective == Objective::kMemory;
  settings.gradients_partial = context.options.gradients_partial;
  settings.machine = context.options.machine;
  const PlacementNetwork network(graph, rules, sequence, settings);
  const sharding::Solution solution = sharding::minimize(network.problem());
  if (solution.cost.isForbidden()) {
    return Status::error("no placement of this program exists");
  }
  const sharding::Cost priced = network.reprice(solution.state);
  AUTOSP_CHECK(priced.whole_bytes == solution.cost.whole_bytes && priced.time == solution.cost.time,
               "the plan's price differs from the solver's");
  for (const ir::Input& input : graph.inputs()) {
    graph.value(input.value).form = Form::whole();
  }
  for (OpId id : graph.order()) {
    Op& op = graph.op(id);
    if (op.traits.effect) {
      continue;
    }
    const sharding::Strategy& strategy = network.strategy(id, solution.state);
    op.needs = strategy.operands;
    op.lowering = std::string(loweringName(strategy.lowering));
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      ir::Value& value = graph.value(op.results[i]);
      if (value.is_tensor) {
        value.form = !value.requires_grad && strategy.results[i].isWhole() ? Form::whole()
                                                                           : strategy.results[i];
      }
    }
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    ir::Output& output = graph.outputs()[i];
    if (output.value && graph.value(*output.value).is_tensor) {
      output.form = network.outputForm(i, solution.state);
    }
  }
  context.report.summary.plan_time = priced.time;
  return checkShare(graph, sequence, context);
}

}  // namespace autosp::passes
