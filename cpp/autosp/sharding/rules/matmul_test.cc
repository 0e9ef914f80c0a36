// Literal rules of products.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

std::string text(RuleCase& c) {
  return c.text(matmulRules());
}
std::string text(RuleCase&& c) {
  return c.text(matmulRules());
}

RuleCase linear(const RuleCase::Sizes& input, const RuleCase::Sizes& weight,
                const RuleCase::Sizes& out) {
  return RuleCase("aten.linear.default").in("input", input).in("weight", weight).out(out);
}

TEST(LinearRule, ContractionIsASumWithoutABias) {
  EXPECT_EQ(text(linear({2, 6, 8}, {5, 8}, {2, 6, 5}).attr("bias", {})),
            "(d0 d1 k, n k) -> d0 d1 n   sum k");
}

TEST(LinearRule, ContractionIsWholeWithABias) {
  EXPECT_EQ(text(linear({6, 8}, {5, 8}, {6, 5}).in("bias", {5})),
            "(d0 k, n k, n) -> d0 n   whole k");
}

TEST(LinearRule, DegenerateShapes) {
  EXPECT_EQ(text(linear({8}, {5, 8}, {5})), "(k, n k) -> n   sum k");
  EXPECT_EQ(text(linear({6, 8}, {8}, {6})), "(d0 k, k) -> d0   sum k");
  EXPECT_EQ(text(linear({1, 6, 8}, {1, 8}, {1, 6, 1}).in("bias", {1})),
            "(1 d1 k, 1 k, 1) -> 1 d1 1   whole k");
  EXPECT_EQ(text(linear({6, 1}, {5, 1}, {6, 5})), "(d0 1, n 1) -> d0 n");
  EXPECT_EQ(text(linear({0, 8}, {5, 8}, {0, 5})), "(1 k, n k) -> 1 n   sum k");
  // A bias of one element is added to every column.
  EXPECT_EQ(text(linear({6, 8}, {5, 8}, {6, 5}).in("bias", {1})),
            "(d0 k, n k, 1) -> d0 n   whole k");
}

TEST(LinearRule, SizesThatDoNotFitHaveNoRule) {
  EXPECT_EQ(text(linear({6, 8}, {5, 7}, {6, 5})), "none");
  EXPECT_EQ(text(linear({6, 8}, {5, 8}, {6, 4})), "none");
  EXPECT_EQ(text(linear({6, 8}, {5, 8}, {6, 1})), "none");
  EXPECT_EQ(text(RuleCase("aten.linear.default").in("input", {6, 8}).out({6, 5})), "none");
}

TEST(MatmulRule, MmAndBmm) {
  EXPECT_EQ(text(RuleCase("aten.mm.default").in("self", {4, 8}).in("mat2", {8, 6}).out({4, 6})),
            "(i k, k j) -> i j   sum k");
  EXPECT_EQ(
      text(RuleCase("aten.bmm.default").in("self", {3, 4, 8}).in("mat2", {3, 8, 6}).out({3, 4, 6})),
      "(b0 i k, b0 k j) -> b0 i j   sum k");
}

TEST(MatmulRule, TheSameValueTwiceIsTwoOperands) {
  EXPECT_EQ(text(RuleCase("aten.mm.default").in("self", {4, 4}).again("mat2", "self").out({4, 4})),
            "(i k, k j) -> i j   sum k");
}

TEST(MatmulRule, EveryCombinationOfRanks) {
  const auto matmul = [](const RuleCase::Sizes& a, const RuleCase::Sizes& b,
                         const RuleCase::Sizes& out) {
    return text(RuleCase("aten.matmul.default").in("self", a).in("other", b).out(out));
  };
  EXPECT_EQ(matmul({8}, {8}, {}), "(k, k) -> ()   sum k");
  EXPECT_EQ(matmul({8}, {8, 6}, {6}), "(k, k j) -> j   sum k");
  EXPECT_EQ(matmul({4, 8}, {8}, {4}), "(i k, k) -> i   sum k");
  EXPECT_EQ(matmul({4, 8}, {8, 6}, {4, 6}), "(i k, k j) -> i j   sum k");
  EXPECT_EQ(matmul({8}, {3, 8, 6}, {3, 6}), "(k, b0 k j) -> b0 j   sum k");
  EXPECT_EQ(matmul({3, 4, 8}, {8}, {3, 4}), "(b0 i k, k) -> b0 i   sum k");
  EXPECT_EQ(matmul({2, 3, 4, 8}, {3, 8, 6}, {2, 3, 4, 6}),
            "(b0 b1 i k, b1 k j) -> b0 b1 i j   sum k");
  EXPECT_EQ(matmul({2, 1, 4, 8}, {1, 3, 8, 6}, {2, 3, 4, 6}),
            "(b0 1 i k, 1 b1 k j) -> b0 b1 i j   sum k");
  EXPECT_EQ(matmul({2, 4, 8}, {3, 8, 6}, {2, 4, 6}), "none");
}

TEST(MatmulRule, SomethingAddedKeepsTheContractionWhole) {
  EXPECT_EQ(text(RuleCase("aten.addmm.default")
                     .in("self", {6})
                     .in("mat1", {4, 8})
                     .in("mat2", {8, 6})
                     .out({4, 6})),
            "(j, i k, k j) -> i j   whole k");
  EXPECT_EQ(text(RuleCase("aten.addmm.default")
                     .in("self", {4, 1})
                     .in("mat1", {4, 8})
                     .in("mat2", {8, 6})
                     .out({4, 6})),
            "(i 1, i k, k j) -> i j   whole k");
  EXPECT_EQ(text(RuleCase("aten.baddbmm.default")
                     .in("self", {1, 4, 6})
                     .in("batch1", {3, 4, 8})
                     .in("batch2", {3, 8, 6})
                     .out({3, 4, 6})),
            "(1 i j, b0 i k, b0 k j) -> b0 i j   whole k");
  EXPECT_EQ(text(RuleCase("aten.addbmm.default")
                     .in("self", {4, 6})
                     .in("batch1", {3, 4, 8})
                     .in("batch2", {3, 8, 6})
                     .out({4, 6})),
            "(i j, b i k, b k j) -> i j   whole b k");
  EXPECT_EQ(
      text(RuleCase("aten.addmv.default").in("self", {}).in("mat", {4, 8}).in("vec", {8}).out({4})),
      "((), i k, k) -> i   whole k");
}

TEST(MatmulRule, Vectors) {
  EXPECT_EQ(text(RuleCase("aten.mv.default").in("self", {4, 8}).in("vec", {8}).out({4})),
            "(i k, k) -> i   sum k");
  EXPECT_EQ(text(RuleCase("aten.dot.default").in("self", {8}).in("tensor", {8}).out({})),
            "(k, k) -> ()   sum k");
  EXPECT_EQ(text(RuleCase("aten.outer.default").in("self", {4}).in("vec2", {6}).out({4, 6})),
            "(i, j) -> i j");
  EXPECT_EQ(text(RuleCase("aten.addr.default")
                     .in("self", {6})
                     .in("vec1", {4})
                     .in("vec2", {6})
                     .out({4, 6})),
            "(j, i, j) -> i j");
}

TEST(MatmulRule, InnerAndTensordot) {
  EXPECT_EQ(text(RuleCase("aten.inner.default").in("self", {2, 8}).in("other", {3, 8}).out({2, 3})),
            "(d0 k, n0 k) -> d0 n0   sum k");
  EXPECT_EQ(text(RuleCase("aten.tensordot.default")
                     .in("self", {3, 4, 5})
                     .in("other", {5, 6, 4})
                     .ints("dims_self", {1, -1})
                     .ints("dims_other", {2, 0})
                     .out({3, 6})),
            "(i0 k0 k1, k1 j1 k0) -> i0 j1   sum k0 k1");
}

std::string einsum(const char* equation, const std::vector<std::optional<RuleCase::Sizes>>& tensors,
                   const RuleCase::Sizes& out) {
  return text(
      RuleCase("aten.einsum.default").attr("equation", equation).list("tensors", tensors).out(out));
}

TEST(EinsumRule, LettersTheResultLacksAreSummed) {
  EXPECT_EQ(einsum("bhsd, bhtd -> bhst", {{{2, 3, 4, 8}}, {{2, 3, 5, 8}}}, {2, 3, 4, 5}),
            "(b h s d, b h t d) -> b h s t   sum d");
  EXPECT_EQ(einsum("ij->j", {{{3, 4}}}, {4}), "(i j) -> j   sum i");
  EXPECT_EQ(einsum("i,j,k->ijk", {{{3}}, {{4}}, {{5}}}, {3, 4, 5}), "(i, j, k) -> i j k");
}

TEST(EinsumRule, WithoutAResult) {
  EXPECT_EQ(einsum("ba,ac", {{{3, 4}}, {{4, 5}}}, {3, 5}), "(b a, a c) -> b c   sum a");
  EXPECT_EQ(einsum("ba", {{{3, 4}}}, {4, 3}), "(b a) -> a b");
}

TEST(EinsumRule, DimsOfSizeOneBroadcast) {
  EXPECT_EQ(einsum("ij,ij->ij", {{{1, 4}}, {{3, 4}}}, {3, 4}), "(1 j, i j) -> i j");
}

TEST(EinsumRule, EllipsisIsAlignedAtTheRight) {
  EXPECT_EQ(einsum("...ij,...jk->...ik", {{{2, 3, 4, 5}}, {{3, 5, 6}}}, {2, 3, 4, 6}),
            "(d1 d0 i j, d0 j k) -> d1 d0 i k   sum j");
  EXPECT_EQ(einsum("...i->...", {{{3, 4}}}, {3}), "(d0 i) -> d0   sum i");
}

TEST(EinsumRule, DiagonalsAndDroppedEllipsesHaveNone) {
  EXPECT_EQ(einsum("ii->i", {{{3, 3}}}, {3}), "none");
  EXPECT_EQ(einsum("...i->i", {{{3, 4}}}, {4}), "none");
  EXPECT_EQ(einsum("ij->ik", {{{3, 4}}}, {3, 4}), "none");
  EXPECT_EQ(einsum("ij,jk->ik", {{{3, 4}}}, {3, 4}), "none");
  EXPECT_EQ(einsum("ijk->i", {{{3, 4}}}, {3}), "none");
}

}  // namespace
}  // namespace autosp::sharding
