#include "autosp/sharding/rules/dims.h"

#include <algorithm>

namespace autosp::sharding {

Sizes sizesOf(const ir::Graph& graph, ir::ValueId value) { return graph.type(value).sizes(); }

int newFactor(OpRule& rule, std::int64_t size, FactorKind kind) {
  const std::size_t i = rule.factors.size();
  return rule.addFactor(i < 26 ? std::string(1, static_cast<char>('a' + i)) : "f" + std::to_string(i),
                        size, kind);
}

DimMap ownDim(OpRule& rule, std::int64_t size, FactorKind kind) {
  return size > 1 ? DimMap{{newFactor(rule, size, kind)}, 0} : DimMap{};
}

TensorMap ownDims(OpRule& rule, const Sizes& sizes, const Sizes& whole_dims) {
  TensorMap map;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool whole = std::count(whole_dims.begin(), whole_dims.end(),
                                  static_cast<std::int64_t>(d)) > 0;
    map.push_back(ownDim(rule, sizes[d], whole ? FactorKind::kWhole : FactorKind::kPass));
  }
  return map;
}

std::optional<TensorMap> broadcastDims(const Sizes& sizes, const TensorMap& against,
                                       const Sizes& against_sizes) {
  if (sizes.size() > against_sizes.size()) {
    return std::nullopt;
  }
  const std::size_t leading = against_sizes.size() - sizes.size();
  TensorMap map(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == against_sizes[leading + d]) {
      map[d] = against[leading + d];
    } else if (sizes[d] != 1) {
      return std::nullopt;
    }
  }
  return map;
}

TensorMap likeDims(const Sizes& sizes, const TensorMap& against, const Sizes& against_sizes,
                   Align align) {
  TensorMap map(sizes.size());
  const std::size_t common = std::min(sizes.size(), against_sizes.size());
  for (std::size_t i = 0; i < common; ++i) {
    const std::size_t d = align == Align::kLeft ? i : sizes.size() - 1 - i;
    const std::size_t e = align == Align::kLeft ? i : against_sizes.size() - 1 - i;
    if (sizes[d] == against_sizes[e]) {
      map[d] = against[e];
    }
  }
  return map;
}

std::optional<Sizes> dimsArg(const ir::Op& op, std::string_view arg, std::size_t rank) {
  Sizes out;
  const ir::Attr* found = op.find(arg);
  if (!found || found->isNone()) {
    return out;
  }
  if (found->isInt()) {
    out.push_back(found->asInt());
  } else if (found->isInts()) {
    out = found->asInts();
  } else {
    return std::nullopt;
  }
  for (std::int64_t& dim : out) {
    dim = ir::normalDim(dim, rank);
    if (dim < 0 || dim >= static_cast<std::int64_t>(std::max<std::size_t>(rank, 1))) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<std::size_t> dimArg(const ir::Op& op, std::string_view arg, std::int64_t absent,
                                  std::size_t rank) {
  const auto known = knownInt(op, arg, absent);
  if (!known) {
    return std::nullopt;
  }
  const std::int64_t dim = ir::normalDim(*known, rank);
  if (dim < 0 || dim >= static_cast<std::int64_t>(rank)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(dim);
}

std::optional<std::int64_t> knownInt(const ir::Op& op, std::string_view arg, std::int64_t absent) {
  const ir::Attr* found = op.find(arg);
  if (!found || found->isNone()) {
    return absent;
  }
  return found->isInt() ? std::optional(found->asInt()) : std::nullopt;
}

TensorMap without(TensorMap map, std::size_t dim) {
  map.erase(map.begin() + static_cast<std::ptrdiff_t>(dim));
  return map;
}

}  // namespace autosp::sharding
