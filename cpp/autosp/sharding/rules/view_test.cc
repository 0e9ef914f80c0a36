#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

using Sizes = OpCase::Sizes;

std::string view(const Sizes& from, const Sizes& to, const char* name = "aten.view.default") {
  OpCase op(name);
  return op.tensor("self", from).ints("size", to).result(to).text();
}

TEST(ViewRules, Reshapes) {
  EXPECT_EQ(view({2, 8, 12}, {2, 8, 3, 4}), "(a b (c d)) -> a b c d");
  EXPECT_EQ(view({2, 8, 3, 4}, {2, 8, 12}), "(a b c d) -> a b (c d)");
  EXPECT_EQ(view({2, 8}, {16}), "(a b) -> (a b)");
  EXPECT_EQ(view({16, 5}, {2, 8, 5}), "((a b) c) -> a b c");
  EXPECT_EQ(view({2, 3, 4}, {6, 4}), "(a b c) -> (a b) c");
  EXPECT_EQ(view({2, 2, 3, 8, 4}, {2, 6, 8, 4}), "(a b c d e) -> a (b c) d e");
}

TEST(ViewRules, SharedPartsOfDims) {
  EXPECT_EQ(view({4, 6}, {8, 3}), "(a (b c)) -> (a b) c");
  // 6 and 8 share 2 from the left; 3 and 4 share nothing.
  EXPECT_EQ(view({6, 4}, {8, 3}), "((a b) c) -> (a d) e   whole b c d e");
  // 6 and 4 share 2 at both ends.
  EXPECT_EQ(view({6, 4}, {4, 6}), "((a c) (d b)) -> (a e) (f b)   whole c d e f");
}

TEST(ViewRules, DimsOfSizeOneCarryNothing) {
  EXPECT_EQ(view({1, 8, 12}, {8, 12}), "(1 a b) -> a b");
  EXPECT_EQ(view({8, 12}, {1, 8, 1, 12}), "(a b) -> 1 a 1 b");
  EXPECT_EQ(view({1, 1}, {1}), "(1 1) -> 1");
  EXPECT_EQ(view({}, {1, 1}), "(()) -> 1 1");
  EXPECT_EQ(view({1, 8}, {8, 1}), "(1 a) -> a 1");
}

TEST(ViewRules, EmptyTensorsHaveNoRule) { EXPECT_EQ(view({0, 4}, {4, 0}), "none"); }

TEST(ViewRules, OpsThatAreReshapes) {
  EXPECT_EQ(view({2, 8, 3}, {2, 24}, "aten.reshape.default"), "(a b c) -> a (b c)");
  EXPECT_EQ(view({2, 8, 3}, {2, 24}, "aten._unsafe_view.default"), "(a b c) -> a (b c)");
  EXPECT_EQ(view({2, 8, 3}, {2, 24}, "aten.flatten.using_ints"), "(a b c) -> a (b c)");
  EXPECT_EQ(view({2, 24}, {2, 8, 3}, "aten.unflatten.int"), "(a (b c)) -> a b c");
  EXPECT_EQ(view({2, 1, 3}, {2, 3}, "aten.squeeze.dim"), "(a 1 b) -> a b");
  EXPECT_EQ(view({1, 2, 1, 3}, {2, 3}, "aten.squeeze.default"), "(1 a 1 b) -> a b");
  EXPECT_EQ(view({2, 3}, {2, 3, 1}, "aten.unsqueeze.default"), "(a b) -> a b 1");
  OpCase as("aten.view_as.default");
  EXPECT_EQ(as.tensor("self", {2, 12}).tensor("other", {2, 3, 4}).result({2, 3, 4}).text(),
            "(a (b c), a b c) -> a b c");
}

TEST(ViewRules, Expansions) {
  EXPECT_EQ(view({2, 1, 6}, {2, 8, 6}, "aten.expand.default"), "(a 1 c) -> a b c");
  EXPECT_EQ(view({6}, {2, 6}, "aten.broadcast_to.default"), "(b) -> a b");
  OpCase as("aten.expand_as.default");
  EXPECT_EQ(as.tensor("self", {1, 6}).tensor("other", {8, 6}).result({8, 6}).text(),
            "(1 b, a b) -> a b");
  OpCase both("aten.broadcast_tensors.default");
  EXPECT_EQ(both.tensors("tensors", {{1, 6}, {8, 1}}).result({8, 6}).result({8, 6}).text(),
            "(1 b, a 1) -> (a b, a b)");
}

TEST(ViewRules, Permutations) {
  OpCase transpose("aten.transpose.int");
  transpose.tensor("self", {2, 8, 3, 4}).set("dim0", 1).set("dim1", -2).result({2, 3, 8, 4});
  EXPECT_EQ(transpose.text(), "(a b c d) -> a c b d");
  OpCase axes("aten.swapaxes.default");
  axes.tensor("self", {2, 8}).set("axis0", 0).set("axis1", 1).result({8, 2});
  EXPECT_EQ(axes.text(), "(a b) -> b a");
  OpCase permute("aten.permute.default");
  permute.tensor("self", {2, 8, 3}).ints("dims", {-1, 0, 1}).result({3, 2, 8});
  EXPECT_EQ(permute.text(), "(a b c) -> c a b");
  OpCase t("aten.t.default");
  EXPECT_EQ(t.tensor("self", {2, 8}).result({8, 2}).text(), "(a b) -> b a");
  OpCase vector("aten.t.default");
  EXPECT_EQ(vector.tensor("self", {8}).result({8}).text(), "(a) -> a");
  OpCase mt("aten.mT.default");
  EXPECT_EQ(mt.tensor("self", {2, 8, 3}).result({2, 3, 8}).text(), "(a b c) -> a c b");
  OpCase reversed("aten.numpy_T.default");
  EXPECT_EQ(reversed.tensor("self", {2, 8, 3}).result({3, 8, 2}).text(), "(a b c) -> c b a");
}

TEST(ViewRules, MovedDims) {
  OpCase one("aten.movedim.int");
  one.tensor("self", {2, 8, 3}).set("source", 0).set("destination", -1).result({8, 3, 2});
  EXPECT_EQ(one.text(), "(a b c) -> b c a");
  OpCase two("aten.movedim.intlist");
  two.tensor("self", {2, 8, 3, 4}).ints("source", {3, 0}).ints("destination", {0, 2});
  EXPECT_EQ(two.result({4, 8, 2, 3}).text(), "(a b c d) -> d b a c");
}

TEST(ViewRules, ComplexPairs) {
  OpCase real("aten.view_as_real.default");
  EXPECT_EQ(real.tensor("self", {8, 3}).result({8, 3, 2}).text(), "(a b) -> a b 1");
  OpCase complex("aten.view_as_complex.default");
  EXPECT_EQ(complex.tensor("self", {8, 3, 2}).result({8, 3}).text(), "(a b 1) -> a b");
}

}  // namespace
}  // namespace autosp::sharding
