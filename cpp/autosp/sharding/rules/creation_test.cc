#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

TEST(CreationRules, EveryDimMayBeCut) {
  EXPECT_EQ(OpCase("aten.arange.default").set("end", 8).result({8}).text(), "() -> a");
  EXPECT_EQ(OpCase("aten.arange.start_step").set("start", 1).result({8}).text(), "() -> a");
  EXPECT_EQ(OpCase("aten.zeros.default").result({2, 1, 8}).text(), "() -> a 1 b");
  EXPECT_EQ(OpCase("aten.full.default").result({2, 8}).text(), "() -> a b");
  EXPECT_EQ(OpCase("aten.scalar_tensor.default").set("s", 1).result({}).text(), "() -> ()");
}

TEST(CreationRules, OfAModelOnlyTheTypeIsRead) {
  OpCase ones("aten.new_ones.default");
  EXPECT_EQ(ones.tensor("self", {2, 8, 6}).result({2, 8}).text(), "(a b 1) -> a b");
  OpCase zeros("aten.new_zeros.default");
  EXPECT_EQ(zeros.tensor("self", {5}).result({2, 8}).text(), "(1) -> a b");
  OpCase like("aten.zeros_like.default");
  EXPECT_EQ(like.tensor("self", {2, 8}).result({2, 8}).text(), "(a b) -> a b");
}

TEST(CreationRules, RandomAndUninitialisedTensorsHaveNone) {
  for (const char* name : {"aten.empty.memory_format", "aten.rand.default", "aten.randn.default",
                           "aten.eye.default", "aten.linspace.default"}) {
    EXPECT_EQ(OpCase(name).result({8}).text(), "none") << name;
  }
}

TEST(CreationRules, ACutArangeHasNoOperands) {
  OpCase op("aten.arange.default", 3);
  op.set("end", 8).result({8});
  const auto rule = op.rule();
  ASSERT_TRUE(rule);
  const auto strategy = cutFactor(op.graph(), op.op(), *rule, {0, 1, 1, 8, 0});
  ASSERT_TRUE(strategy);
  EXPECT_TRUE(strategy->operands.empty());
  EXPECT_EQ(strategy->results[0].text(), "S(0,base=8)");
  // In blocks, as of arange(8).view(2, 4) cut along its last dim, a rank would hold no arange.
  EXPECT_FALSE(cutFactor(op.graph(), op.op(), *rule, {0, 2, 1, 4, 0}));
}

}  // namespace
}  // namespace autosp::sharding
