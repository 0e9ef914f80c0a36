// What rule functions are written with: sizes of values, arguments that name dims, and factors given out
// one a dim. Factors are named a, b, c ... in the order they are made. A dim of size 0 or 1 carries no
// factor: there is nothing to cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autosp/sharding/rule.h"

namespace autosp::sharding {

using Sizes = std::vector<std::int64_t>;

Sizes sizesOf(const ir::Graph& graph, ir::ValueId value);

// A new factor, named by its place.
int newFactor(OpRule& rule, std::int64_t size, FactorKind kind = FactorKind::kPass);

// A dim with a new factor of its own.
DimMap ownDim(OpRule& rule, std::int64_t size, FactorKind kind = FactorKind::kPass);

// Each dim with a new factor of its own; those listed are kept whole.
TensorMap ownDims(OpRule& rule, const Sizes& sizes, const Sizes& whole_dims = {});

// The dims of a tensor broadcast against `against`, aligned from the right: its dims of size 1 carry
// nothing. Nothing when the shapes do not broadcast.
std::optional<TensorMap> broadcastDims(const Sizes& sizes, const TensorMap& against,
                                       const Sizes& against_sizes);

// The dims of a tensor of which only the type is read. Any assignment of factors is right for it; those of
// equal size at the same place are shared, so that a cut tensor is not gathered for its dtype.
enum class Align { kLeft, kRight };
TensorMap likeDims(const Sizes& sizes, const TensorMap& against, const Sizes& against_sizes,
                   Align align);

// The argument, an int or a list of ints, as dims counted from 0; empty when it is absent. Nothing when it
// is something else, or names a dim that the tensor does not have.
std::optional<Sizes> dimsArg(const ir::Op& op, std::string_view arg, std::size_t rank);

// One dim, with the schema's default.
std::optional<std::size_t> dimArg(const ir::Op& op, std::string_view arg, std::int64_t absent,
                                  std::size_t rank);

// An int that is known at compile time.
std::optional<std::int64_t> knownInt(const ir::Op& op, std::string_view arg, std::int64_t absent);

// The map without one dim.
TensorMap without(TensorMap map, std::size_t dim);

}  // namespace autosp::sharding
