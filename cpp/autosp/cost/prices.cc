#include "autosp/cost/prices.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "autosp/support/check.h"

namespace autosp::cost {
namespace {

using ir::Form;
using ir::FormKind;

constexpr double kPicoseconds = 1e12;

std::int64_t picoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * kPicoseconds + 0.5);
}

constexpr std::array<std::string_view, 31> kViews = {
    "aten.view.default",        "aten.reshape.default",    "aten._unsafe_view.default",
    "aten.flatten.using_ints",  "aten.unflatten.int",      "aten.unsqueeze.default",
    "aten.squeeze.default",     "aten.squeeze.dim",        "aten.squeeze.dims",
    "aten.transpose.int",       "aten.permute.default",    "aten.expand.default",
    "aten.expand_as.default",   "aten.broadcast_to.default", "aten.slice.Tensor",
    "aten.select.int",          "aten.narrow.default",     "aten.alias.default",
    "aten.detach.default",      "aten.t.default",          "aten.movedim.int",
    "aten.movedim.intlist",     "aten.split.Tensor",       "aten.split_with_sizes.default",
    "aten.chunk.default",       "aten.unbind.int",         "aten.view_as.default",
    "aten.swapaxes.default",    "aten.numpy_T.default",    "aten.reshape_as.default",
    "aten.diagonal.default"};

constexpr std::array<std::string_view, 8> kContractions = {
    "aten.linear.default", "aten.mm.default",      "aten.bmm.default",   "aten.matmul.default",
    "aten.addmm.default",  "aten.baddbmm.default", "aten.einsum.default", "aten.mv.default"};

bool contains(auto const& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool isAttention(const ir::Op& op) {
  return op.name == "aten.scaled_dot_product_attention.default";
}

}  // namespace

bool isView(const ir::Op& op) { return contains(kViews, op.name); }

std::int64_t flops(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  if (isAttention(op)) {
    const ir::TensorType& q = graph.type(operands[0]);
    const ir::TensorType& k = graph.type(operands[1]);
    const std::int64_t t = k.dim(k.rank() - 2);
    const std::int64_t whole = 4 * q.elements() * t;
    return op.boolArg("is_causal", false) ? whole / 2 : whole;
  }
  if (contains(kContractions, op.name) && !op.results.empty() && operands.size() >= 2) {
    // The contracted dim is the last of the operand that is multiplied from the left.
    const bool added = op.name == "aten.addmm.default" || op.name == "aten.baddbmm.default";
    const ir::TensorType& left = graph.type(operands[added ? 1 : 0]);
    const std::int64_t k = left.rank() == 0 ? 1 : left.dim(left.rank() - 1);
    return 2 * graph.type(op.results[0]).elements() * k;
  }
  return 0;
}

std::int64_t opTime(const Machine& machine, const ir::Graph& graph, const ir::Op& op,
                    const sharding::Strategy& strategy) {
  if (isView(op)) {
    return 0;
  }
  double moved = 0;
  bool grad = false;
  bool cut = false;
  const std::vector<ir::ValueId> operands = op.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool part = strategy.operands[i].isCut();
    cut |= part;
    moved += static_cast<double>(graph.type(operands[i]).bytes()) / (part ? graph.ranks : 1);
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const ir::Value& value = graph.value(op.results[i]);
    if (!value.is_tensor) {
      continue;
    }
    const bool part = strategy.results[i].isCut();
    cut |= part;
    grad |= value.requires_grad;
    moved += static_cast<double>(value.type.bytes()) / (part ? graph.ranks : 1);
  }
  const double share = cut ? 1.0 / graph.ranks : 1.0;
  const double arithmetic = static_cast<double>(flops(graph, op)) * share / machine.flops;
  const double backward = !grad ? 1.0 : isAttention(op) ? 3.5 : 3.0;
  return picoseconds(std::max(arithmetic, moved / machine.memory) * backward);
}

std::optional<std::int64_t> conversionTime(const Machine& machine, int ranks,
                                           const ConversionTerms& terms, const Form& from,
                                           const Form& to, bool gradients_partial) {
  if (from == to) {
    return 0;
  }
  const double bytes = static_cast<double>(terms.bytes);
  const double others = static_cast<double>(ranks - 1) / ranks;
  const double gather = bytes * others / machine.link + machine.latency;
  const double reduce = 2 * bytes * others / machine.link + machine.latency;
  const bool grad = terms.requires_grad;
  const bool regroups = to.isCut() && to.cut.group > 1;
  if (from.isCut() && from.cut.group > 1) {
    return std::nullopt;  // key heads as attention reads them are read by nothing else
  }
  // How many times over the ranks together hold the value after a cut to it.
  double copies = 1;
  if (regroups) {
    std::int64_t held = 0;
    for (const ir::Range& range : to.cut.ranges(terms.dim_size, ranks)) {
      held += range.size();
    }
    copies = static_cast<double>(held) / static_cast<double>(to.cut.units(terms.dim_size));
  }
  const double exchange = copies * bytes * others / ranks / machine.link + machine.latency;
  double seconds = 0;
  switch (from.kind) {
    case FormKind::kWhole:
      if (to.kind == FormKind::kWholePartialGrad) {
        seconds = !grad || (gradients_partial && terms.parameter) ? 0 : reduce;
      } else if (to.isCut()) {
        seconds = !grad ? 0 : regroups ? reduce : gather;
      } else {
        return std::nullopt;
      }
      break;
    case FormKind::kWholePartialGrad:
      if (to.kind == FormKind::kPartial) {
        return std::nullopt;
      }
      break;  // to R or a cut: free both ways
    case FormKind::kPartial:
      if (to.isCut()) {
        if (regroups) {
          return std::nullopt;
        }
        seconds = gather * (grad ? 2 : 1);
      } else {
        seconds = reduce * (grad && to.kind == FormKind::kWholePartialGrad ? 2 : 1);
      }
      break;
    case FormKind::kCut:
      if (to.kind == FormKind::kWhole) {
        seconds = gather;
      } else if (to.kind == FormKind::kWholePartialGrad) {
        seconds = gather * (grad ? 2 : 1);
      } else if (to.isCut()) {
        seconds = exchange * (grad ? 2 : 1);
      } else {
        return std::nullopt;
      }
      break;
  }
  return picoseconds(seconds);
}

}  // namespace autosp::cost
