#include "autosp/passes/aliases.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

namespace autosp::passes {
namespace {

constexpr std::array kViews = std::to_array<std::string_view>({"adjoint",
                                                               "alias",
                                                               "as_strided",
                                                               "broadcast_tensors",
                                                               "broadcast_to",
                                                               "chunk",
                                                               "detach",
                                                               "diagonal",
                                                               "dsplit",
                                                               "expand",
                                                               "expand_as",
                                                               "hsplit",
                                                               "lift_fresh",
                                                               "mH",
                                                               "mT",
                                                               "meshgrid",
                                                               "moveaxis",
                                                               "movedim",
                                                               "narrow",
                                                               "numpy_T",
                                                               "permute",
                                                               "positive",
                                                               "select",
                                                               "slice",
                                                               "split",
                                                               "split_with_sizes",
                                                               "squeeze",
                                                               "swapaxes",
                                                               "swapdims",
                                                               "t",
                                                               "tensor_split",
                                                               "transpose",
                                                               "unbind",
                                                               "unflatten",
                                                               "unfold",
                                                               "unsqueeze",
                                                               "view",
                                                               "view_as",
                                                               "view_as_complex",
                                                               "view_as_real",
                                                               "vsplit"});

constexpr std::array kMaybeViews = std::to_array<std::string_view>(
    {"_conj",           "_reshape_alias", "alpha_dropout", "atleast_1d",  "atleast_2d",
     "atleast_3d",      "conj",           "contiguous",    "einsum",      "feature_alpha_dropout",
     "feature_dropout", "flatten",        "imag",          "ravel",       "real",
     "reshape",         "reshape_as",     "resolve_conj",  "resolve_neg", "type_as"});

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

AliasKind ofConversion(const ir::Graph& graph, const ir::Op& op) {
  const ir::ValueId self = op.valueArg("self");
  if (!self.valid() || op.results.empty() || op.boolArg("copy", false) ||
      graph.type(self).dtype != graph.type(op.results[0]).dtype) {
    return AliasKind::kFresh;
  }
  const bool plain = !op.has("device") && !op.has("memory_format") && !op.has("other");
  return plain ? AliasKind::kView : AliasKind::kMaybe;
}

}  // namespace

std::string_view atenBaseName(const ir::Op& op) {
  constexpr std::string_view kPrefix = "aten.";
  std::string_view name = op.name;
  if (name.substr(0, kPrefix.size()) != kPrefix) {
    return {};
  }
  name.remove_prefix(kPrefix.size());
  return name.substr(0, name.rfind('.'));
}

AliasKind aliasKind(const ir::Graph& graph, const ir::Op& op) {
  if (op.traits.mutates) {
    return AliasKind::kView;
  }
  const std::string_view name = atenBaseName(op);
  if (name == "to") {
    return ofConversion(graph, op);
  }
  if (name == "dropout") {
    return op.boolArg("train", true) && op.floatArg("p", 1.0) != 0 ? AliasKind::kFresh
                                                                   : AliasKind::kView;
  }
  if (contains(kViews, name)) {
    return AliasKind::kView;
  }
  return contains(kMaybeViews, name) ? AliasKind::kMaybe : AliasKind::kFresh;
}

std::vector<ir::ValueId> storages(const ir::Graph& graph) {
  std::vector<std::size_t> parent(graph.valueCount());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  auto root = [&](std::size_t v) {
    while (parent[v] != v) {
      parent[v] = parent[parent[v]];
      v = parent[v];
    }
    return v;
  };
  for (ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (aliasKind(graph, op) == AliasKind::kFresh || op.args.empty()) {
      continue;
    }
    ir::Op sources;  // the first argument is the tensor viewed, or the list of them
    const bool first = !op.traits.mutates;
    for (const auto& [key, value] : op.args) {
      if (first && key != op.args.front().first && key != "tensors") {
        continue;
      }
      sources.args.emplace_back(key, value);
    }
    for (ir::ValueId source : sources.operands()) {
      for (ir::ValueId result : op.results) {
        const std::size_t a = root(source.at());
        const std::size_t b = root(result.at());
        parent[std::max(a, b)] = std::min(a, b);
      }
    }
  }
  std::vector<ir::ValueId> out;
  for (std::size_t v = 0; v < parent.size(); ++v) {
    out.emplace_back(root(v));
  }
  return out;
}

}  // namespace autosp::passes
