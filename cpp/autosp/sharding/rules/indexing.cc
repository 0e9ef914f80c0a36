// Rules of ops that read or write at positions held in a tensor. Positions are global, so a dim
// that is looked up stays whole; the dims of the positions themselves pass, and so do dims the op
// only carries along.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Graph;
using ir::Op;
using ir::TensorType;
using Rule = std::optional<OpRule>;

// The dim named by "dim" of a tensor; nothing when it has no dims.
std::optional<std::size_t> dimOf(const Op& op, std::size_t rank) {
  if (rank == 0 || !op.has("dim")) {
    return std::nullopt;
  }
  const auto dim = static_cast<std::size_t>(ir::normalDim(op.intArg("dim", 0), rank));
  return dim < rank ? std::optional(dim) : std::nullopt;
}

std::string dimName(std::size_t i) {
  return "d" + std::to_string(i);
}

// The gradient of a sparse table has no collective, and one scaled by frequency counts every index
// of the batch: neither is cut by rows.
Rule embedding(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* weight = build.type("weight");
  const TensorType* indices = build.type("indices");
  if (weight == nullptr || indices == nullptr || weight->rank() != 2 ||
      op.boolArg("sparse", false)) {
    return std::nullopt;
  }
  const bool counts_rows = op.boolArg("scale_grad_by_freq", false);
  DimFactors out =
      build.factors(*indices, counts_rows ? FactorKind::kWhole : FactorKind::kPass, "i");
  const int v = build.factor("v", weight->dim(0), FactorKind::kWhole);
  const int d = build.factor("d", weight->dim(1));
  build.operand("indices", out);
  build.operand("weight", {v, d});
  out.push_back(d);
  build.results(out);
  return std::move(build).build();
}

// What self[indices] relates: factors of self, of the indices broadcast together, and of the
// indexed elements. Index dims stand where the indexed dims were if those are adjacent, else in
// front, as in numpy.
struct Indexed {
  DimFactors self;
  DimFactors elements;
};

// Describes self and the indices; nothing for a mask, which selects a number of elements known only
// when it runs.
std::optional<Indexed> bindIndices(RuleBuilder& build, const Op& op, FactorKind index_kind) {
  const TensorType* self = build.type("self");
  if (self == nullptr || !op.arg("indices").isList()) {
    return std::nullopt;
  }
  const ir::AttrList& items = op.arg("indices").asList();
  if (items.size() > self->rank()) {
    return std::nullopt;
  }
  std::vector<std::size_t> indexed_dims;
  std::vector<std::int64_t> sizes;
  for (std::size_t dim = 0; dim < items.size(); ++dim) {
    if (items[dim].isNone()) {
      continue;
    }
    const TensorType* index = build.type("indices", indexed_dims.size());
    if (index == nullptr || index->dtype == ir::DType::kBool || index->dtype == ir::DType::kU8) {
      return std::nullopt;
    }
    const auto both = broadcastSizes(sizes, index->sizes());
    if (!both) {
      return std::nullopt;
    }
    sizes = *both;
    indexed_dims.push_back(dim);
  }
  if (indexed_dims.empty()) {
    return std::nullopt;
  }
  DimFactors index_factors;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    index_factors.push_back(build.factor("i" + std::to_string(i), sizes[i], index_kind));
  }
  for (std::size_t k = 0; k < indexed_dims.size(); ++k) {
    build.broadcastOperand("indices", index_factors, k);
  }
  const bool adjacent = indexed_dims.back() - indexed_dims.front() + 1 == indexed_dims.size();
  Indexed out;
  const auto putIndex = [&] {
    out.elements.insert(out.elements.end(), index_factors.begin(), index_factors.end());
  };
  if (!adjacent) {
    putIndex();
  }
  for (std::size_t i = 0; i < self->rank(); ++i) {
    const bool indexed = i < items.size() && !items[i].isNone();
    out.self.push_back(
        build.factor(dimName(i), self->dim(i), indexed ? FactorKind::kWhole : FactorKind::kPass));
    if (!indexed) {
      out.elements.push_back(out.self.back());
    } else if (adjacent && i == indexed_dims.front()) {
      putIndex();
    }
  }
  build.operand("self", out.self);
  return out;
}

Rule index(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const auto indexed = bindIndices(build, op, FactorKind::kPass);
  if (!indexed) {
    return std::nullopt;
  }
  build.results(indexed->elements);
  return std::move(build).build();
}

// Every write must reach every rank, so the positions are whole too.
Rule indexPut(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const auto indexed = bindIndices(build, op, FactorKind::kWhole);
  if (!indexed) {
    return std::nullopt;
  }
  build.broadcastOperand("values", indexed->elements);
  build.results(indexed->self);
  return std::move(build).build();
}

// gather and the scatters: self, index and src stand side by side in every dim but `dim`. Where
// their sizes differ there, index covers the first positions of self only, and the dim stays whole.
struct Aligned {
  DimFactors self;
  DimFactors index;
  DimFactors src;
};

std::optional<Aligned> alignDims(RuleBuilder& build, const Op& op, FactorKind index_kind) {
  const TensorType* self = build.type("self");
  const TensorType* index = build.type("index");
  const TensorType* src = build.type("src");
  if (self == nullptr || index == nullptr || index->rank() != self->rank() ||
      (src != nullptr && src->rank() != self->rank())) {
    return std::nullopt;
  }
  const auto dim = dimOf(op, self->rank());
  if (!dim) {
    return std::nullopt;
  }
  Aligned out;
  for (std::size_t i = 0; i < self->rank(); ++i) {
    const bool same =
        self->dim(i) == index->dim(i) && (src == nullptr || src->dim(i) == index->dim(i));
    if (i != *dim && same) {
      out.self.push_back(build.factor(dimName(i), self->dim(i)));
      out.index.push_back(out.self.back());
      out.src.push_back(out.self.back());
      continue;
    }
    // Apart: each its own factor. Only a gather may cut its index here, along `dim`.
    out.self.push_back(build.factor(dimName(i), self->dim(i), FactorKind::kWhole));
    out.index.push_back(build.factor("i" + std::to_string(i), index->dim(i),
                                     i == *dim ? index_kind : FactorKind::kWhole));
    out.src.push_back(kNoFactor);
  }
  return out;
}

Rule gather(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const auto dims = alignDims(build, op, FactorKind::kPass);
  if (!dims) {
    return std::nullopt;
  }
  build.operand("self", dims->self);
  build.operand("index", dims->index);
  build.results(dims->index);
  return std::move(build).build();
}

Rule scatter(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const auto dims = alignDims(build, op, FactorKind::kWhole);
  if (!dims) {
    return std::nullopt;
  }
  build.operand("self", dims->self);
  build.operand("index", dims->index);
  build.operand("src", dims->src);
  build.results(dims->self);
  return std::move(build).build();
}

// self and index broadcast in every dim but `dim`. Without a dim both are flattened: no rule.
Rule takeAlongDim(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* indices = build.type("indices");
  if (self == nullptr || indices == nullptr || self->rank() != indices->rank()) {
    return std::nullopt;
  }
  const auto dim = dimOf(op, self->rank());
  if (!dim) {
    return std::nullopt;
  }
  DimFactors self_dims;
  DimFactors index_dims;
  for (std::size_t i = 0; i < self->rank(); ++i) {
    if (i == *dim) {
      self_dims.push_back(build.factor(dimName(i), self->dim(i), FactorKind::kWhole));
      index_dims.push_back(build.factor("i" + std::to_string(i), indices->dim(i)));
      continue;
    }
    const std::int64_t size = self->dim(i) == 1 ? indices->dim(i) : self->dim(i);
    self_dims.push_back(build.factor(dimName(i), size));
    index_dims.push_back(self_dims.back());
  }
  build.operand("self", self_dims);
  build.operand("indices", index_dims);
  build.results(index_dims);
  return std::move(build).build();
}

// Elements of self as if it were flat.
Rule take(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* index = build.type("index");
  if (self == nullptr || index == nullptr) {
    return std::nullopt;
  }
  build.operand("self", build.factors(*self, FactorKind::kWhole));
  const DimFactors out = build.factors(*index, FactorKind::kPass, "i");
  build.operand("index", out);
  build.results(out);
  return std::move(build).build();
}

// index: [i], or one number without dims; picks along `dim`.
Rule indexSelect(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* index = build.type("index");
  if (self == nullptr || index == nullptr || index->rank() > 1) {
    return std::nullopt;
  }
  const auto dim = dimOf(op, self->rank());
  if (!dim) {
    return std::nullopt;
  }
  const DimFactors picked = build.factors(*index, FactorKind::kPass, "i");
  DimFactors self_dims;
  DimFactors out;
  for (std::size_t i = 0; i < self->rank(); ++i) {
    self_dims.push_back(
        build.factor(dimName(i), self->dim(i), i == *dim ? FactorKind::kWhole : FactorKind::kPass));
    out.push_back(i != *dim ? self_dims.back() : picked.empty() ? kNoFactor : picked[0]);
  }
  build.operand("self", self_dims);
  build.operand("index", picked);
  build.results(out);
  return std::move(build).build();
}

// index_add, index_copy, index_fill: writes slices of self along `dim`. `source` has self's dims
// but for the number of slices; `value` is one number.
Rule indexWrite(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* index = build.type("index");
  if (self == nullptr || index == nullptr || index->rank() > 1) {
    return std::nullopt;
  }
  const auto dim = dimOf(op, self->rank());
  if (!dim) {
    return std::nullopt;
  }
  const DimFactors written = build.factors(*index, FactorKind::kWhole, "i");
  DimFactors self_dims;
  DimFactors source_dims;
  for (std::size_t i = 0; i < self->rank(); ++i) {
    self_dims.push_back(
        build.factor(dimName(i), self->dim(i), i == *dim ? FactorKind::kWhole : FactorKind::kPass));
    source_dims.push_back(i != *dim ? self_dims.back() : written.empty() ? kNoFactor : written[0]);
  }
  build.operand("self", self_dims);
  build.operand("index", written);
  build.operand("source", source_dims);
  build.operand("value", {});
  build.results(self_dims);
  return std::move(build).build();
}

// Counts of a part add up to those of the whole where both have the same number of bins: every value lies
// below minlength, as the size of the result says.
Rule bincount(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* out = build.resultType(0);
  if (self->rank() != 1 || op.intArg("minlength", 0) < out->dim(0)) {
    return std::nullopt;
  }
  const int values = build.factor("n", self->dim(0), FactorKind::kSum);
  build.operand("self", {values});
  if (build.type("weights") != nullptr) {
    build.operand("weights", {values});
  }
  build.results({build.factor("k", out->dim(0), FactorKind::kWhole)});
  return std::move(build).build();
}

// The same, with bins between two given ends; min = max takes the ends from the values.
Rule histc(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  if (op.floatArg("min", 0.0) >= op.floatArg("max", 0.0)) {
    return std::nullopt;
  }
  build.operand("self", build.factors(*build.type("self"), FactorKind::kSum));
  build.results({build.factor("k", build.resultType(0)->dim(0), FactorKind::kWhole)});
  return std::move(build).build();
}

// A number of classes found in the data is that of one rank's data only: no rule.
Rule oneHot(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  if (self == nullptr || op.intArg("num_classes", -1) < 0) {
    return std::nullopt;
  }
  DimFactors out = build.factors(*self);
  build.operand("self", out);
  out.push_back(kNoFactor);
  build.results(out);
  return std::move(build).build();
}

// Looks values up in the last dim of a sorted sequence; its other dims, if any, are those of the
// values.
Rule search(const Graph& graph, const Op& op, std::string_view sorted_arg) {
  RuleBuilder build(graph, op);
  const TensorType* sorted = build.type(sorted_arg);
  if (sorted == nullptr || sorted->rank() == 0) {
    return std::nullopt;
  }
  const TensorType* self = build.type("self");  // absent: one number
  const DimFactors values = self != nullptr ? build.factors(*self) : DimFactors{};
  if (sorted->rank() > 1 && sorted->rank() != values.size()) {
    return std::nullopt;
  }
  DimFactors sequence(values.begin(),
                      values.begin() + static_cast<std::ptrdiff_t>(sorted->rank()) - 1);
  sequence.push_back(build.factor("t", sorted->dim(sorted->rank() - 1), FactorKind::kWhole));
  build.operand("self", values);
  build.operand(sorted_arg, sequence);
  build.operand("sorter", sequence);
  build.results(values);
  return std::move(build).build();
}

Rule searchsorted(const Graph& graph, const Op& op) {
  return search(graph, op, "sorted_sequence");
}
Rule bucketize(const Graph& graph, const Op& op) {
  return search(graph, op, "boundaries");
}

constexpr std::string_view kIndexText = "self[indices]   whole the indexed dims";
constexpr std::string_view kIndexPutText =
    "self[indices] = values   whole the indexed dims, indices";
constexpr std::string_view kScatterText = "(... d, ... i, ... i) -> ... d   whole d, whole i";
constexpr std::string_view kWriteText = "(... d, i, ... i) -> ... d   whole d, whole i";

}  // namespace

const std::vector<RuleRow>& indexingRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.embedding.default", "(v d, ...) -> ... d   whole v", embedding},
      {"aten.index.Tensor", kIndexText, index},
      {"aten._unsafe_index.Tensor", kIndexText, index},
      {"aten.index_put.default", kIndexPutText, indexPut},
      {"aten.gather.default", "(... d, ... i) -> ... i   whole d", gather},
      {"aten.take_along_dim.default", "(... d, ... i) -> ... i   whole d", takeAlongDim},
      {"aten.take.default", "(d ..., i ...) -> i ...   whole d, whole ...", take},
      {"aten.scatter.src", kScatterText, scatter},
      {"aten.scatter.value", kScatterText, scatter},
      {"aten.scatter.reduce", kScatterText, scatter},
      {"aten.scatter.value_reduce", kScatterText, scatter},
      {"aten.scatter_add.default", kScatterText, scatter},
      {"aten.scatter_reduce.two", kScatterText, scatter},
      {"aten.index_select.default", "(... d, i) -> ... i   whole d", indexSelect},
      {"aten.index_add.default", kWriteText, indexWrite},
      {"aten.index_copy.default", kWriteText, indexWrite},
      {"aten.index_fill.int_Scalar", kWriteText, indexWrite},
      {"aten.index_fill.int_Tensor", kWriteText, indexWrite},
      {"aten.one_hot.default", "(...) -> ... 1", oneHot},
      {"aten.bincount.default", "(n, n?) -> k   sum n, whole k (values below minlength)", bincount},
      {"aten.histc.default", "(...) -> k   sum ..., whole k (min < max)", histc},
      {"aten.searchsorted.Tensor", "(... t, ... q, ... t?) -> ... q   whole t", searchsorted},
      {"aten.searchsorted.Scalar", "(t, t?) ->   whole t", searchsorted},
      {"aten.bucketize.Tensor", "(..., t) -> ...   whole t", bucketize},
      {"aten.bucketize.Scalar", "(t) ->   whole t", bucketize},
  };
  return rows;
}

}  // namespace autosp::sharding
