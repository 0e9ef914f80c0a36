// report-plan: the finished plan's conversions, in the order in which they run.
#include "autosp/passes/conversions.h"
#include "autosp/passes/passes.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::FormKind;

// How a conversion is done each way where it sends nothing.
std::string wayName(cost::Collective collective, std::string_view otherwise) {
  return std::string(collective == cost::Collective::kNone ? otherwise
                                                           : cost::collectiveName(collective));
}

}  // namespace

Status reportPlan(ir::Graph& graph, PassContext& context) {
  const ValueTerms terms(graph);
  const auto users = graph.users();
  for (ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.name != "autosp.convert") {
      continue;
    }
    const std::vector<ir::ValueId> inputs = op.operands();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ir::ValueId result = op.results[i];
      const ir::Form& from = *graph.value(inputs[i]).form;
      const ir::Form& to = *graph.value(result).form;
      const auto traffic = cost::conversionTraffic(graph.ranks, terms.of(inputs[i]), from, to,
                                                   context.options.gradients_partial);
      AUTOSP_CHECK(traffic.has_value(), "the plan has a conversion that does not exist");
      const bool grad = graph.value(inputs[i]).requires_grad;
      Conversion conversion;
      conversion.value = "%" + std::to_string(inputs[i].index);
      const auto& readers = users[result.at()];
      conversion.reader = readers.empty() ? "output" : graph.describe(readers[0]);
      conversion.location = readers.empty() ? op.location : graph.op(readers[0]).location;
      conversion.from = from;
      conversion.to = to;
      const bool slices = to.isCut() && from.isWhole();
      conversion.forward = wayName(traffic->forward, slices ? "slice" : "none");
      const bool gathered = from.isCut() && to.kind == FormKind::kWhole;
      const bool pads = slices && from.kind == FormKind::kWholePartialGrad;
      conversion.backward =
          wayName(traffic->backward, !grad ? "none" : gathered ? "slice" : pads ? "pad" : "none");
      conversion.bytes = traffic->forward_bytes + traffic->backward_bytes;
      context.report.conversion(std::move(conversion));
    }
  }
  return Status::ok();
}

}  // namespace autosp::passes
