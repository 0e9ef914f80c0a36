#include "autosp/cost/prices.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "autosp/cost/op_class.h"
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
    "aten.view.default",         "aten.reshape.default",
    "aten._unsafe_view.default", "aten.flatten.using_ints",
    "aten.unflatten.int",        "aten.unsqueeze.default",
    "aten.squeeze.default",      "aten.squeeze.dim",
    "aten.squeeze.dims",         "aten.transpose.int",
    "aten.permute.default",      "aten.expand.default",
    "aten.expand_as.default",    "aten.broadcast_to.default",
    "aten.slice.Tensor",         "aten.select.int",
    "aten.narrow.default",       "aten.alias.default",
    "aten.detach.default",       "aten.t.default",
    "aten.movedim.int",          "aten.movedim.intlist",
    "aten.split.Tensor",         "aten.split_with_sizes.default",
    "aten.chunk.default",        "aten.unbind.int",
    "aten.view_as.default",      "aten.swapaxes.default",
    "aten.numpy_T.default",      "aten.reshape_as.default",
    "aten.diagonal.default"};

constexpr std::array<std::string_view, 8> kContractions = {
    "aten.linear.default", "aten.mm.default",      "aten.bmm.default",    "aten.matmul.default",
    "aten.addmm.default",  "aten.baddbmm.default", "aten.einsum.default", "aten.mv.default"};

bool contains(auto const& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool isView(const ir::Op& op) {
  return contains(kViews, op.name);
}

std::int64_t flops(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  if (isAttentionKernel(op) && operands.size() >= 3) {
    // Backward kernels read the gradient of their result first, and do 2.5 times the work.
    const bool backward = isAttentionBackward(op);
    const ir::TensorType& q = graph.type(operands[backward ? 1 : 0]);
    const ir::TensorType& k = graph.type(operands[backward ? 2 : 1]);
    const std::int64_t t = k.dim(k.rank() - 2);
    const std::int64_t whole = 4 * q.elements() * t;
    const std::int64_t once = op.boolArg("is_causal", false) ? whole / 2 : whole;
    return backward ? once * 5 / 2 : once;
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
  const double backward = !grad ? 1.0 : isAttentionKernel(op) ? 3.5 : 3.0;
  return picoseconds(std::max(arithmetic, moved / machine.memory) * backward);
}

std::string_view collectiveName(Collective collective) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "all-gather", "reduce-scatter",
                                                      "all-reduce", "all-to-all"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::optional<Traffic> conversionTraffic(int ranks, const ConversionTerms& terms, const Form& from,
                                         const Form& to, bool gradients_partial) {
  const bool regroups = to.isCut() && to.cut.group > 1;
  if (from.isCut() && from.cut.group > 1) {
    return std::nullopt;  // key heads as attention reads them are read by nothing else
  }
  Traffic out;
  const std::int64_t others = terms.bytes * (ranks - 1) / ranks;  // what a gather brings a rank
  auto forward = [&](Collective collective, std::int64_t bytes) {
    out.forward = collective;
    out.forward_bytes = bytes;
  };
  auto backward = [&](Collective collective, std::int64_t bytes) {
    if (terms.requires_grad) {
      out.backward = collective;
      out.backward_bytes = bytes;
    }
  };
  switch (from.kind) {
    case FormKind::kWhole:
      if (to.kind == FormKind::kWholePartialGrad) {
        if (!(gradients_partial && terms.parameter)) {
          backward(Collective::kAllReduce, 2 * others);
        }
      } else if (regroups) {
        backward(Collective::kAllReduce, 2 * others);
      } else if (to.isCut()) {
        backward(Collective::kAllGather, others);
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
      if (regroups) {
        return std::nullopt;
      }
      if (to.isCut()) {
        forward(Collective::kReduceScatter, others);
        backward(Collective::kAllGather, others);
      } else {
        forward(Collective::kAllReduce, 2 * others);
        if (to.kind == FormKind::kWholePartialGrad) {
          backward(Collective::kAllReduce, 2 * others);
        }
      }
      break;
    case FormKind::kCut:
      if (to.kind == FormKind::kPartial) {
        return std::nullopt;
      }
      if (to.isCut()) {
        // With overlapping ranges the ranks together hold the value more than once.
        std::int64_t bytes = others / ranks;
        if (regroups) {
          std::int64_t held = 0;
          for (const ir::Range& range : to.cut.ranges(terms.dim_size, ranks)) {
            held += range.size();
          }
          bytes = bytes * held / to.cut.units(terms.dim_size);
        }
        forward(Collective::kAllToAll, bytes);
        backward(Collective::kAllToAll, bytes);
      } else {
        forward(Collective::kAllGather, others);
        if (to.kind == FormKind::kWholePartialGrad) {
          backward(Collective::kReduceScatter, others);
        }
      }
      break;
  }
  return out;
}

std::optional<std::int64_t> conversionTime(const Machine& machine, int ranks,
                                           const ConversionTerms& terms, const Form& from,
                                           const Form& to, bool gradients_partial) {
  if (from == to) {
    return 0;
  }
  const auto traffic = conversionTraffic(ranks, terms, from, to, gradients_partial);
  if (!traffic) {
    return std::nullopt;
  }
  auto time = [&](Collective collective, std::int64_t bytes) {
    return collective == Collective::kNone
               ? 0.0
               : static_cast<double>(bytes) / machine.link + machine.latency;
  };
  return picoseconds(time(traffic->forward, traffic->forward_bytes) +
                     time(traffic->backward, traffic->backward_bytes));
}

}  // namespace autosp::cost
