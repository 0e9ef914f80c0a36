// Rules of ops that look along dims: reductions, and ops that keep the shape but mix along one dim
// (softmax, cumsum, sort). A sum over a cut dim is a partial sum, a mean is that sum divided by the
// global count; everything else needs the dims it looks along whole, and passes the others.
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

// Factors of self with `kind` where the dim is reduced.
DimFactors selfFactors(RuleBuilder& build, const TensorType& self, const std::vector<bool>& reduced,
                       FactorKind kind) {
  DimFactors out;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    out.push_back(
        build.factor("d" + std::to_string(i), self.dim(i), reduced[i] ? kind : FactorKind::kPass));
  }
  return out;
}

// Reduces the dims named by "dim": all when the op has no such argument, or none or an empty list
// there.
template <FactorKind kKind>
Rule reduce(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  const TensorType* out = build.resultType(0);
  if (self == nullptr || out == nullptr) {
    return std::nullopt;
  }
  std::vector<bool> reduced = dimSet(op, "dim", self->rank());
  const bool named = op.has("dim") && op.arg("dim").isList() && op.arg("dim").asList().empty();
  if (named && out->shape == self->shape) {
    reduced.assign(self->rank(), false);  // any.dims and a few more take [] at its word
  }
  const bool keepdim = op.boolArg("keepdim", false);
  const DimFactors dims = selfFactors(build, *self, reduced, kKind);
  DimFactors kept;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i]) {
      kept.push_back(dims[i]);
    } else if (keepdim) {
      kept.push_back(kNoFactor);
    }
  }
  build.operand("self", dims);
  build.results(kept);
  return std::move(build).build();
}

// Results have the shape of self; mixes along the dim named by "dim".
Rule along(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  if (self == nullptr) {
    return std::nullopt;
  }
  const DimFactors dims =
      selfFactors(build, *self, dimSet(op, "dim", self->rank()), FactorKind::kWhole);
  build.operand("self", dims);
  build.results(dims);
  return std::move(build).build();
}

// Sorts along dim 0.
Rule msort(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  if (self == nullptr) {
    return std::nullopt;
  }
  std::vector<bool> first(self->rank(), false);
  if (!first.empty()) {
    first[0] = true;
  }
  const DimFactors dims = selfFactors(build, *self, first, FactorKind::kWhole);
  build.operand("self", dims);
  build.results(dims);
  return std::move(build).build();
}

// Results have k places where self has its dim.
Rule topk(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* self = build.type("self");
  if (self == nullptr) {
    return std::nullopt;
  }
  const std::vector<bool> looked = dimSet(op, "dim", self->rank());
  const DimFactors dims = selfFactors(build, *self, looked, FactorKind::kWhole);
  DimFactors out = dims;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = looked[i] ? kNoFactor : out[i];
  }
  build.operand("self", dims);
  build.results(out);
  return std::move(build).build();
}

constexpr auto kSumOver = reduce<FactorKind::kSum>;
constexpr auto kMeanOver = reduce<FactorKind::kMean>;
constexpr auto kWholeOver = reduce<FactorKind::kWhole>;

constexpr std::string_view kSumText = "(... d) -> ...   sum d, the dims reduced";
constexpr std::string_view kMeanText = "(... d) -> ...   mean d, the dims reduced";
constexpr std::string_view kWholeText = "(... d) -> ...   whole d, the dims reduced";
constexpr std::string_view kAlongText = "(... d) -> ... d   whole d, its dim";
constexpr std::string_view kTopkText = "(... d) -> ... 1, ... 1   whole d, its dim";

}  // namespace

const std::vector<RuleRow>& reductionRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.sum.default", kSumText, kSumOver},
      {"aten.sum.dim_IntList", kSumText, kSumOver},
      {"aten.nansum.default", kSumText, kSumOver},
      {"aten.count_nonzero.default", kSumText, kSumOver},
      {"aten.count_nonzero.dim_IntList", kSumText, kSumOver},
      {"aten.mean.default", kMeanText, kMeanOver},
      {"aten.mean.dim", kMeanText, kMeanOver},
      {"aten.nanmean.default", kWholeText, kWholeOver},
      {"aten.amax.default", kWholeText, kWholeOver},
      {"aten.amin.default", kWholeText, kWholeOver},
      {"aten.aminmax.default", kWholeText, kWholeOver},
      {"aten.max.default", kWholeText, kWholeOver},
      {"aten.max.dim", kWholeText, kWholeOver},
      {"aten.min.default", kWholeText, kWholeOver},
      {"aten.min.dim", kWholeText, kWholeOver},
      {"aten.argmax.default", kWholeText, kWholeOver},
      {"aten.argmin.default", kWholeText, kWholeOver},
      {"aten.prod.default", kWholeText, kWholeOver},
      {"aten.prod.dim_int", kWholeText, kWholeOver},
      {"aten.any.default", kWholeText, kWholeOver},
      {"aten.any.dim", kWholeText, kWholeOver},
      {"aten.any.dims", kWholeText, kWholeOver},
      {"aten.all.default", kWholeText, kWholeOver},
      {"aten.all.dim", kWholeText, kWholeOver},
      {"aten.all.dims", kWholeText, kWholeOver},
      {"aten.median.default", kWholeText, kWholeOver},
      {"aten.median.dim", kWholeText, kWholeOver},
      {"aten.nanmedian.default", kWholeText, kWholeOver},
      {"aten.nanmedian.dim", kWholeText, kWholeOver},
      {"aten.mode.default", kWholeText, kWholeOver},
      {"aten.kthvalue.default", kWholeText, kWholeOver},
      {"aten.std.default", kWholeText, kWholeOver},
      {"aten.std.dim", kWholeText, kWholeOver},
      {"aten.std.correction", kWholeText, kWholeOver},
      {"aten.var.default", kWholeText, kWholeOver},
      {"aten.var.dim", kWholeText, kWholeOver},
      {"aten.var.correction", kWholeText, kWholeOver},
      {"aten.var_mean.default", kWholeText, kWholeOver},
      {"aten.var_mean.dim", kWholeText, kWholeOver},
      {"aten.var_mean.correction", kWholeText, kWholeOver},
      {"aten.std_mean.default", kWholeText, kWholeOver},
      {"aten.std_mean.dim", kWholeText, kWholeOver},
      {"aten.std_mean.correction", kWholeText, kWholeOver},
      {"aten.linalg_vector_norm.default", kWholeText, kWholeOver},
      {"aten.norm.Scalar", kWholeText, kWholeOver},
      {"aten.norm.ScalarOpt_dtype", kWholeText, kWholeOver},
      {"aten.norm.ScalarOpt_dim", kWholeText, kWholeOver},
      {"aten.norm.ScalarOpt_dim_dtype", kWholeText, kWholeOver},
      {"aten.frobenius_norm.dim", kWholeText, kWholeOver},
      {"aten.logsumexp.default", kWholeText, kWholeOver},
      {"aten.special_logsumexp.default", kWholeText, kWholeOver},
      {"aten.softmax.int", kAlongText, along},
      {"aten._softmax.default", kAlongText, along},
      {"aten._safe_softmax.default", kAlongText, along},
      {"aten.special_softmax.default", kAlongText, along},
      {"aten.log_softmax.int", kAlongText, along},
      {"aten._log_softmax.default", kAlongText, along},
      {"aten.special_log_softmax.default", kAlongText, along},
      {"aten.cumsum.default", kAlongText, along},
      {"aten.cumprod.default", kAlongText, along},
      {"aten.cummax.default", kAlongText, along},
      {"aten.cummin.default", kAlongText, along},
      {"aten.logcumsumexp.default", kAlongText, along},
      {"aten.sort.default", kAlongText, along},
      {"aten.sort.stable", kAlongText, along},
      {"aten.argsort.default", kAlongText, along},
      {"aten.argsort.stable", kAlongText, along},
      {"aten.msort.default", "(d ...) -> d ...   whole d", msort},
      {"aten.topk.default", kTopkText, topk},
  };
  return rows;
}

}  // namespace autosp::sharding
