// Literal rules of reductions and of ops that look along one dim.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

using ir::DType;

std::string text(RuleCase&& c) {
  return c.text(reductionRules());
}
std::string text(RuleCase& c) {
  return c.text(reductionRules());
}

RuleCase over(const char* op, const RuleCase::Sizes& self, const RuleCase::Sizes& dims,
              bool keepdim, const RuleCase::Sizes& out) {
  return RuleCase(op).in("self", self).ints("dim", dims).attr("keepdim", keepdim).out(out);
}

TEST(SumRule, NamedDims) {
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3, 4}, {-1}, false, {2, 3})),
            "(d0 d1 d2) -> d0 d1   sum d2");
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3, 4}, {0, -1}, true, {1, 3, 1})),
            "(d0 d1 d2) -> 1 d1 1   sum d0 d2");
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 1, 4}, {1}, false, {2, 4})),
            "(d0 1 d2) -> d0 d2");
}

TEST(SumRule, NoDimsAreAllDims) {
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3}, {}, false, {})), "(d0 d1) -> ()   sum d0 d1");
  EXPECT_EQ(text(RuleCase("aten.sum.dim_IntList").in("self", {2, 3}).attr("dim", {}).out({})),
            "(d0 d1) -> ()   sum d0 d1");
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3}, {}, true, {1, 1})),
            "(d0 d1) -> 1 1   sum d0 d1");
  EXPECT_EQ(
      text(RuleCase("aten.sum.default").in("self", {2, 3}, DType::kBool).out({}, DType::kI64)),
      "(d0 d1) -> ()   sum d0 d1");
}

TEST(SumRule, OfAScalar) {
  EXPECT_EQ(text(RuleCase("aten.sum.default").in("self", {}).out({})), "(()) -> ()");
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {}, {0}, false, {})), "(()) -> ()");
}

TEST(SumRule, Counts) {
  EXPECT_EQ(text(RuleCase("aten.count_nonzero.default")
                     .in("self", {2, 3})
                     .attr("dim", 1)
                     .out({2}, DType::kI64)),
            "(d0 d1) -> d0   sum d1");
}

TEST(MeanRule, AllDimsOrSome) {
  EXPECT_EQ(text(RuleCase("aten.mean.default").in("self", {2, 3}).out({})),
            "(d0 d1) -> ()   mean d0 d1");
  EXPECT_EQ(text(over("aten.mean.dim", {2, 3, 4}, {1}, true, {2, 1, 4})),
            "(d0 d1 d2) -> d0 1 d2   mean d1");
}

TEST(WholeReductionRule, ReducedDimsAreWhole) {
  EXPECT_EQ(text(over("aten.amax.default", {2, 3}, {-1}, true, {2, 1})),
            "(d0 d1) -> d0 1   whole d1");
  EXPECT_EQ(text(over("aten.amax.default", {2, 3}, {}, false, {})), "(d0 d1) -> ()   whole d0 d1");
  EXPECT_EQ(text(RuleCase("aten.max.dim")
                     .in("self", {2, 3})
                     .attr("dim", 0)
                     .attr("keepdim", false)
                     .out({3})
                     .out({3}, DType::kI64)),
            "(d0 d1) -> (d1, d1)   whole d0");
  EXPECT_EQ(text(RuleCase("aten.argmax.default").in("self", {2, 3}).attr("dim", {}).out({})),
            "(d0 d1) -> ()   whole d0 d1");
  EXPECT_EQ(text(RuleCase("aten.prod.dim_int").in("self", {2, 3}).attr("dim", -2).out({3})),
            "(d0 d1) -> d1   whole d0");
  EXPECT_EQ(text(RuleCase("aten.var_mean.correction")
                     .in("self", {2, 3})
                     .ints("dim", {1})
                     .attr("correction", 0)
                     .attr("keepdim", true)
                     .out({2, 1})
                     .out({2, 1})),
            "(d0 d1) -> (d0 1, d0 1)   whole d1");
  EXPECT_EQ(text(over("aten.logsumexp.default", {2, 3}, {1}, false, {2})),
            "(d0 d1) -> d0   whole d1");
  EXPECT_EQ(text(over("aten.linalg_vector_norm.default", {2, 3}, {1}, false, {2})),
            "(d0 d1) -> d0   whole d1");
}

TEST(WholeReductionRule, AnyOverNoDimsIsElementwise) {
  EXPECT_EQ(text(over("aten.any.dims", {2, 3}, {}, false, {2, 3})), "(d0 d1) -> d0 d1");
  EXPECT_EQ(text(RuleCase("aten.any.dims").in("self", {2, 3}).attr("dim", {}).out({})),
            "(d0 d1) -> ()   whole d0 d1");
}

TEST(AlongRule, TheDimIsWholeAndTheOthersPass) {
  EXPECT_EQ(text(RuleCase("aten.softmax.int").in("self", {2, 3, 4}).attr("dim", -1).out({2, 3, 4})),
            "(d0 d1 d2) -> d0 d1 d2   whole d2");
  EXPECT_EQ(text(RuleCase("aten.cumsum.default").in("self", {2, 3}).attr("dim", 0).out({2, 3})),
            "(d0 d1) -> d0 d1   whole d0");
  EXPECT_EQ(text(RuleCase("aten.sort.default")
                     .in("self", {2, 3})
                     .attr("dim", -1)
                     .attr("descending", true)
                     .out({2, 3})
                     .out({2, 3}, DType::kI64)),
            "(d0 d1) -> (d0 d1, d0 d1)   whole d1");
  EXPECT_EQ(text(RuleCase("aten.msort.default").in("self", {2, 3}).out({2, 3})),
            "(d0 d1) -> d0 d1   whole d0");
  EXPECT_EQ(text(RuleCase("aten.softmax.int").in("self", {}).attr("dim", -1).out({})),
            "(()) -> ()");
}

TEST(TopkRule, PlacesAreNoFactor) {
  EXPECT_EQ(text(RuleCase("aten.topk.default")
                     .in("self", {2, 8})
                     .attr("k", 3)
                     .attr("dim", -1)
                     .out({2, 3})
                     .out({2, 3}, DType::kI64)),
            "(d0 d1) -> (d0 1, d0 1)   whole d1");
  EXPECT_EQ(text(RuleCase("aten.kthvalue.default")
                     .in("self", {2, 8})
                     .attr("k", 3)
                     .attr("dim", 1)
                     .attr("keepdim", false)
                     .out({2})
                     .out({2}, DType::kI64)),
            "(d0 d1) -> (d0, d0)   whole d1");
}

TEST(ReductionRule, ResultsOfAnotherShapeHaveNone) {
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3}, {1}, false, {3})), "none");
  EXPECT_EQ(text(over("aten.sum.dim_IntList", {2, 3}, {1}, true, {2})), "none");
}

}  // namespace
}  // namespace autosp::sharding
