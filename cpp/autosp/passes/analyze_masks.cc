// analyze-masks: see passes.h. Also writes section "masks" of the report: a line an attention.
#include <cstdint>
#include <string>
#include <utility>

#include "autosp/passes/masks.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

bool isStatic(const ir::TensorType& type) {
  for (const ir::Dim& dim : type.shape) {
    if (!dim.isStatic()) {
      return false;
    }
  }
  return true;
}

void report(const ir::Graph& graph, ir::OpId id, ir::ValueId mask, const MaskFacts& facts,
            PassContext& context) {
  const ir::TensorType& type = graph.type(mask);
  const std::string key = graph.describe(id);
  switch (facts.kind) {
    case MaskKind::kAllVisible:
      context.report.entry("masks", key, "every key is visible: no mask");
      return;
    case MaskKind::kCausal:
      context.report.entry("masks", key, "k <= q: is_causal");
      return;
    case MaskKind::kOther:
      break;
  }
  context.report.entry("masks", key, "kept: " + facts.predicate);
  const std::string bytes = isStatic(type) ? std::to_string(type.bytes()) + " bytes" : type.text();
  context.report.remark({Severity::kRemark, key, graph.op(id).location,
                         "the mask %" + std::to_string(mask.index) +
                             " is neither causal nor always true; it is kept as a tensor (" +
                             bytes + ")",
                         ""});
}

}  // namespace

Status analyzeMasks(ir::Graph& graph, PassContext& context) {
  ExprLift lift(graph);  // the pass only drops masks, so lifted expressions stay valid
  for (ir::OpId id : graph.order()) {
    ir::Op& op = graph.op(id);
    if (op.name != "aten.scaled_dot_product_attention.default" || op.boolArg("is_causal", false)) {
      continue;
    }
    const ir::ValueId mask = op.valueArg("attn_mask");
    const ir::ValueId query = op.valueArg("query");
    const ir::ValueId key = op.valueArg("key");
    if (!mask.valid() || !query.valid() || !key.valid()) {
      continue;
    }
    MaskFacts facts;
    const ir::TensorType& q = graph.type(query);
    const ir::TensorType& k = graph.type(key);
    // A mask with a gradient is a trained bias; nested or symbolic shapes are not looked at.
    if (!graph.value(mask).requires_grad && q.rank() >= 2 && k.rank() >= 2 && isStatic(q) &&
        isStatic(k)) {
      facts = maskFacts(lift, graph, mask, q.dim(q.rank() - 2), k.dim(k.rank() - 2));
    }
    report(graph, id, mask, facts, context);
    if (facts.kind != MaskKind::kOther) {
      op.set("attn_mask", ir::Attr());
      op.set("is_causal", facts.kind == MaskKind::kCausal);
    }
  }
  return Status::ok();
}

}  // namespace autosp::passes
