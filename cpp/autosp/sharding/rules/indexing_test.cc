// Literal rules of lookups and writes by position.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

using ir::DType;
using Items = std::vector<std::optional<RuleCase::Sizes>>;

std::string text(RuleCase& c) {
  return c.text(indexingRules());
}

RuleCase embedding(const RuleCase::Sizes& indices, const RuleCase::Sizes& out) {
  return RuleCase("aten.embedding.default")
      .in("weight", {50, 8})
      .in("indices", indices, DType::kI64)
      .out(out);
}

TEST(EmbeddingRule, TheTableIsWholeByRows) {
  EXPECT_EQ(
      text(embedding({2, 6}, {2, 6, 8}).attr("scale_grad_by_freq", false).attr("sparse", false)),
      "(v d, i0 i1) -> i0 i1 d   whole v");
  EXPECT_EQ(text(embedding({}, {8}).attr("sparse", false)), "(v d, ()) -> d   whole v");
  EXPECT_EQ(text(embedding({1, 6}, {1, 6, 8}).attr("sparse", false)),
            "(v d, 1 i1) -> 1 i1 d   whole v");
}

TEST(EmbeddingRule, FrequencyCountsTheWholeBatch) {
  EXPECT_EQ(text(embedding({6}, {6, 8}).attr("scale_grad_by_freq", true)),
            "(v d, i0) -> i0 d   whole i0 v");
  EXPECT_EQ(text(embedding({6}, {6, 8}).attr("sparse", true)), "none");
}

std::string index(const RuleCase::Sizes& self, const Items& items, const RuleCase::Sizes& out,
                  DType dtype = DType::kI64) {
  return text(
      RuleCase("aten.index.Tensor").in("self", self).list("indices", items, dtype).out(out));
}

TEST(IndexRule, AdjacentIndicesStayInPlace) {
  EXPECT_EQ(index({2, 3, 4}, {{{6}}}, {6, 3, 4}), "(d0 d1 d2, i0) -> i0 d1 d2   whole d0");
  EXPECT_EQ(index({2, 3, 4}, {{}, {{6, 7}}}, {2, 6, 7, 4}),
            "(d0 d1 d2, i0 i1) -> d0 i0 i1 d2   whole d1");
  EXPECT_EQ(index({2, 3, 4, 5}, {{}, {{6, 1}}, {{7}}, {}}, {2, 6, 7, 5}),
            "(d0 d1 d2 d3, i0 1, i1) -> d0 i0 i1 d3   whole d1 d2");
}

TEST(IndexRule, SeparatedIndicesGoFirst) {
  EXPECT_EQ(index({2, 3, 4, 5}, {{}, {{6}}, {}, {{6}}}, {6, 2, 4}),
            "(d0 d1 d2 d3, i0, i0) -> i0 d0 d2   whole d1 d3");
  EXPECT_EQ(index({2, 3, 4, 5}, {{}, {RuleCase::Sizes{}}, {}, {{6}}}, {6, 2, 4}),
            "(d0 d1 d2 d3, (), i0) -> i0 d0 d2   whole d1 d3");
}

TEST(IndexRule, OneNumberTakesTheDimAway) {
  EXPECT_EQ(index({2, 3}, {{}, {RuleCase::Sizes{}}}, {2}), "(d0 d1, ()) -> d0   whole d1");
}

TEST(IndexRule, MasksHaveNone) {
  EXPECT_EQ(index({2, 3}, {{{2}}}, {1, 3}, DType::kBool), "none");
  EXPECT_EQ(index({2, 3}, {{{2, 3}}}, {4}, DType::kBool), "none");
  EXPECT_EQ(index({2, 3}, {{{4}}, {{5}}}, {4}), "none");
}

TEST(IndexRule, TheSameValueTwice) {
  EXPECT_EQ(text(RuleCase("aten.index_select.default")
                     .in("self", {4}, DType::kI64)
                     .attr("dim", 0)
                     .again("index", "self")
                     .out({4}, DType::kI64)),
            "(d0, i0) -> i0   whole d0");
}

TEST(IndexPutRule, IndicesAreWholeToo) {
  EXPECT_EQ(text(RuleCase("aten.index_put.default")
                     .in("self", {2, 3, 4})
                     .list("indices", {{}, {{6}}}, DType::kI64)
                     .in("values", {6, 4})
                     .attr("accumulate", true)
                     .out({2, 3, 4})),
            "(d0 d1 d2, i0, i0 d2) -> d0 d1 d2   whole i0 d1");
}

RuleCase gather(const RuleCase::Sizes& self, std::int64_t dim, const RuleCase::Sizes& index) {
  return RuleCase("aten.gather.default")
      .in("self", self)
      .attr("dim", dim)
      .in("index", index, DType::kI64)
      .out(index);
}

TEST(GatherRule, TheIndexPassesAlongTheDim) {
  RuleCase last = gather({2, 6, 8}, -1, {2, 6, 3});
  EXPECT_EQ(text(last), "(d0 d1 d2, d0 d1 i2) -> d0 d1 i2   whole d2");
  RuleCase equal = gather({2, 8}, 1, {2, 8});
  EXPECT_EQ(text(equal), "(d0 d1, d0 i1) -> d0 i1   whole d1");
}

TEST(GatherRule, APartOfSelfIsWhole) {
  RuleCase part = gather({5, 6, 8}, 2, {3, 6, 1});
  EXPECT_EQ(text(part), "(d0 d1 d2, i0 d1 1) -> i0 d1 1   whole d0 i0 d2");
}

TEST(GatherRule, OfAScalarHasNone) {
  RuleCase scalar = gather({}, 0, {});
  EXPECT_EQ(text(scalar), "none");
}

TEST(ScatterRule, TheDimIsWholeOnBothSides) {
  EXPECT_EQ(text(RuleCase("aten.scatter_add.default")
                     .in("self", {2, 8})
                     .attr("dim", 1)
                     .in("index", {2, 3}, DType::kI64)
                     .in("src", {2, 3})
                     .out({2, 8})),
            "(d0 d1, d0 i1, d0 1) -> d0 d1   whole d1 i1");
  EXPECT_EQ(text(RuleCase("aten.scatter.value")
                     .in("self", {2, 8})
                     .attr("dim", -2)
                     .in("index", {1, 8}, DType::kI64)
                     .attr("value", 1.0)
                     .out({2, 8})),
            "(d0 d1, 1 d1) -> d0 d1   whole d0");
  // src is larger than index in dim 0.
  EXPECT_EQ(text(RuleCase("aten.scatter.src")
                     .in("self", {2, 8})
                     .attr("dim", 1)
                     .in("index", {2, 3}, DType::kI64)
                     .in("src", {5, 3})
                     .out({2, 8})),
            "(d0 d1, i0 i1, 1 1) -> d0 d1   whole d0 i0 d1 i1");
}

TEST(TakeAlongDimRule, BroadcastsTheOtherDims) {
  EXPECT_EQ(text(RuleCase("aten.take_along_dim.default")
                     .in("self", {1, 6, 8})
                     .in("indices", {2, 6, 3}, DType::kI64)
                     .attr("dim", 2)
                     .out({2, 6, 3})),
            "(1 d1 d2, d0 d1 i2) -> d0 d1 i2   whole d2");
  EXPECT_EQ(text(RuleCase("aten.take_along_dim.default")
                     .in("self", {6})
                     .in("indices", {3}, DType::kI64)
                     .attr("dim", {})
                     .out({3})),
            "none");
}

TEST(TakeRule, SelfIsWhole) {
  EXPECT_EQ(
      text(RuleCase("aten.take.default").in("self", {4, 5}).in("index", {3}, DType::kI64).out({3})),
      "(d0 d1, i0) -> i0   whole d0 d1");
}

TEST(IndexSelectRule, PicksPass) {
  EXPECT_EQ(text(RuleCase("aten.index_select.default")
                     .in("self", {2, 8})
                     .attr("dim", -1)
                     .in("index", {5}, DType::kI64)
                     .out({2, 5})),
            "(d0 d1, i0) -> d0 i0   whole d1");
  EXPECT_EQ(text(RuleCase("aten.index_select.default")
                     .in("self", {2, 8})
                     .attr("dim", 0)
                     .in("index", {}, DType::kI64)
                     .out({1, 8})),
            "(d0 d1, ()) -> 1 d1   whole d0");
}

TEST(IndexWriteRule, SlicesAreWhole) {
  EXPECT_EQ(text(RuleCase("aten.index_add.default")
                     .in("self", {4, 8})
                     .attr("dim", 0)
                     .in("index", {3}, DType::kI64)
                     .in("source", {3, 8})
                     .attr("alpha", 1)
                     .out({4, 8})),
            "(d0 d1, i0, i0 d1) -> d0 d1   whole i0 d0");
  EXPECT_EQ(text(RuleCase("aten.index_fill.int_Tensor")
                     .in("self", {4, 8})
                     .attr("dim", 0)
                     .in("index", {3}, DType::kI64)
                     .in("value", {})
                     .out({4, 8})),
            "(d0 d1, i0, ()) -> d0 d1   whole i0 d0");
}

TEST(OneHotRule, ClassesAreNoFactor) {
  EXPECT_EQ(text(RuleCase("aten.one_hot.default")
                     .in("self", {2, 6}, DType::kI64)
                     .attr("num_classes", 5)
                     .out({2, 6, 5}, DType::kI64)),
            "(d0 d1) -> d0 d1 1");
  EXPECT_EQ(text(RuleCase("aten.one_hot.default")
                     .in("self", {2, 6}, DType::kI64)
                     .attr("num_classes", -1)
                     .out({2, 6, 5}, DType::kI64)),
            "none");
}

TEST(CountingRules, PartsAddUpWhereTheBinsAreGiven) {
  const auto bincount = [](std::int64_t minlength) {
    return text(RuleCase("aten.bincount.default")
                    .in("self", {6}, DType::kI64)
                    .attr("minlength", minlength)
                    .out({4}, DType::kI64));
  };
  EXPECT_EQ(bincount(4), "(n) -> k   sum n, whole k");
  EXPECT_EQ(bincount(0), "none");
  const auto histc = [](double max) {
    return text(RuleCase("aten.histc.default")
                    .in("self", {2, 6}, DType::kF32, false)
                    .attr("bins", 4)
                    .attr("min", 0.0)
                    .attr("max", max)
                    .out({4}, DType::kF32));
  };
  EXPECT_EQ(histc(3.0), "(d0 d1) -> k   sum d0 d1, whole k");
  EXPECT_EQ(histc(0.0), "none");
}

TEST(SearchRule, TheSequenceIsWhole) {
  EXPECT_EQ(text(RuleCase("aten.searchsorted.Tensor")
                     .in("sorted_sequence", {9})
                     .in("self", {2, 3})
                     .out({2, 3}, DType::kI64)),
            "(t, d0 d1) -> d0 d1   whole t");
  EXPECT_EQ(text(RuleCase("aten.searchsorted.Tensor")
                     .in("sorted_sequence", {2, 9})
                     .in("self", {2, 3})
                     .in("sorter", {2, 9}, DType::kI64)
                     .out({2, 3}, DType::kI64)),
            "(d0 t, d0 d1, d0 t) -> d0 d1   whole t");
  EXPECT_EQ(text(RuleCase("aten.searchsorted.Scalar")
                     .in("sorted_sequence", {9})
                     .attr("self", 0.5)
                     .out({}, DType::kI64)),
            "(t) -> ()   whole t");
  EXPECT_EQ(text(RuleCase("aten.bucketize.Tensor")
                     .in("self", {4, 1})
                     .in("boundaries", {9})
                     .out({4, 1}, DType::kI64)),
            "(d0 1, t) -> d0 1   whole t");
}

}  // namespace
}  // namespace autosp::sharding
