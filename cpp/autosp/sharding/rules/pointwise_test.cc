#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

TEST(PointwiseRules, ATaggedOpBroadcasts) {
  OpCase add("aten.add.Tensor");
  add.pointwise().tensor("self", {2, 8, 6}).tensor("other", {8, 6}).set("alpha", 1).result({2, 8, 6});
  EXPECT_EQ(add.text(), "(a b c, b c) -> a b c");
  OpCase outer("aten.mul.Tensor");
  outer.pointwise().tensor("self", {8, 1}).tensor("other", {1, 6}).result({8, 6});
  EXPECT_EQ(outer.text(), "(a 1, 1 b) -> a b");
  OpCase scalar("aten.neg.default");
  EXPECT_EQ(scalar.pointwise().tensor("self", {}).result({}).text(), "(()) -> ()");
  OpCase select("aten.where.self");
  select.pointwise().tensor("condition", {8}).tensor("self", {}).tensor("other", {2, 1}).result({2, 8});
  EXPECT_EQ(select.text(), "(b, (), a 1) -> a b");
}

TEST(PointwiseRules, EveryResultHasTheBroadcastShape) {
  OpCase frexp("aten.frexp.Tensor");
  EXPECT_EQ(frexp.pointwise().tensor("self", {4}).result({4}).result({4}).text(), "(a) -> (a, a)");
  OpCase buffer("aten.log_sigmoid_forward.default");
  EXPECT_EQ(buffer.tensor("self", {4}).result({4}).result({0}).text(), "none");
  OpCase wrong("aten.add.Tensor");
  EXPECT_EQ(wrong.pointwise().tensor("self", {4}).tensor("other", {3}).result({4}).text(), "none");
}

TEST(PointwiseRules, UntaggedOpsAreListed) {
  for (const char* name :
       {"aten.to.dtype", "aten.to.device", "aten._to_copy.default", "aten.contiguous.default",
        "aten.detach.default", "aten.alias.default", "aten.lift_fresh_copy.default",
        "aten.dropout.default", "aten.hardswish.default", "aten.log_sigmoid.default",
        "aten.fill.Scalar", "aten.floor_divide.default", "aten.rsub.Tensor", "aten.where.ScalarOther",
        "aten._autocast_to_reduced_precision.default", "aten.__and__.Tensor", "aten.real.default"}) {
    OpCase op(name);
    EXPECT_EQ(op.tensor("self", {2, 8}).result({2, 8}).text(), "(a b) -> a b") << name;
  }
  // An untagged op that is not listed has no rule, whatever its shapes.
  OpCase unknown("aten.bernoulli.default");
  EXPECT_EQ(unknown.tensor("self", {2, 8}).result({2, 8}).text(), "none");
}

TEST(PointwiseRules, OfACastsModelOnlyTheTypeIsRead) {
  OpCase same("aten.type_as.default");
  EXPECT_EQ(same.tensor("self", {2, 8, 4}).tensor("other", {3, 8, 5}).result({2, 8, 4}).text(),
            "(a b c, 1 b 1) -> a b c");
  OpCase longer("aten.to.other");
  EXPECT_EQ(longer.tensor("self", {8}).tensor("other", {2, 3, 8}).result({8}).text(),
            "(a, 1 1 a) -> a");
}

TEST(PointwiseRules, Glu) {
  OpCase op("aten.glu.default");
  EXPECT_EQ(op.tensor("self", {2, 8, 12}).set("dim", -1).result({2, 8, 6}).text(),
            "(a b c) -> a b 1   whole c");
}

TEST(PointwiseRules, Prelu) {
  OpCase channels("aten.prelu.default");
  EXPECT_EQ(channels.tensor("self", {2, 8, 5}).tensor("weight", {8}).result({2, 8, 5}).text(),
            "(a b c, b) -> a b c");
  OpCase one("aten.prelu.default");
  EXPECT_EQ(one.tensor("self", {2, 8}).tensor("weight", {1}).result({2, 8}).text(), "(a b, 1) -> a b");
}

TEST(PointwiseRules, LookUpTablesAreWhole) {
  OpCase isin("aten.isin.Tensor_Tensor");
  isin.tensor("elements", {2, 8}, false, ir::DType::kI64);
  isin.tensor("test_elements", {3}, false, ir::DType::kI64).result({2, 8}, ir::DType::kBool);
  EXPECT_EQ(isin.text(), "(a b, c) -> a b   whole c");
}

}  // namespace
}  // namespace autosp::sharding
