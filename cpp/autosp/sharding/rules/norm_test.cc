// Literal rules of normalizations.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

std::string text(RuleCase& c) {
  return c.text(normRules());
}

TEST(LayerNormRule, TheNormalizedDimsAreWhole) {
  EXPECT_EQ(text(RuleCase("aten.layer_norm.default")
                     .in("input", {2, 6, 8})
                     .ints("normalized_shape", {8})
                     .in("weight", {8})
                     .in("bias", {8})
                     .out({2, 6, 8})),
            "(d0 d1 d2, d2, d2) -> d0 d1 d2   whole d2");
  EXPECT_EQ(text(RuleCase("aten.rms_norm.default")
                     .in("input", {2, 6, 8})
                     .ints("normalized_shape", {6, 8})
                     .in("weight", {6, 8})
                     .out({2, 6, 8})),
            "(d0 d1 d2, d1 d2) -> d0 d1 d2   whole d1 d2");
  EXPECT_EQ(text(RuleCase("aten.layer_norm.default")
                     .in("input", {8})
                     .ints("normalized_shape", {8})
                     .attr("weight", {})
                     .out({8})),
            "(d0) -> d0   whole d0");
}

TEST(LayerNormRule, StatisticsKeepTheRows) {
  EXPECT_EQ(text(RuleCase("aten.native_layer_norm.default")
                     .in("input", {2, 1, 8})
                     .ints("normalized_shape", {8})
                     .attr("weight", {})
                     .attr("bias", {})
                     .out({2, 1, 8})
                     .out({2, 1, 1})
                     .out({2, 1, 1})),
            "(d0 1 d2) -> (d0 1 d2, d0 1 1, d0 1 1)   whole d2");
  EXPECT_EQ(text(RuleCase("aten._fused_rms_norm.default")
                     .in("input", {6, 8})
                     .ints("normalized_shape", {8})
                     .in("weight", {8})
                     .out({6, 8})
                     .out({6, 1})),
            "(d0 d1, d1) -> (d0 d1, d0 1)   whole d1");
}

TEST(GroupNormRule, OnlyTheBatchPasses) {
  EXPECT_EQ(text(RuleCase("aten.group_norm.default")
                     .in("input", {2, 4, 5})
                     .attr("num_groups", 2)
                     .in("weight", {4})
                     .in("bias", {4})
                     .out({2, 4, 5})),
            "(n c d2, c, c) -> n c d2   whole c d2");
}

RuleCase batchNorm(bool training, bool running) {
  RuleCase c("aten.batch_norm.default");
  c.in("input", {2, 4, 5}).in("weight", {4}).in("bias", {4});
  if (running) {
    c.in("running_mean", {4}).in("running_var", {4});
  } else {
    c.attr("running_mean", {}).attr("running_var", {});
  }
  return c.attr("training", training).out({2, 4, 5});
}

TEST(BatchNormRule, EvaluationIsElementwise) {
  RuleCase c = batchNorm(false, true);
  EXPECT_EQ(text(c), "(n c d2, c, c, c, c) -> n c d2");
}

TEST(BatchNormRule, TrainingMixesTheBatch) {
  RuleCase c = batchNorm(true, false);
  EXPECT_EQ(text(c), "(n c d2, c, c) -> n c d2   whole n d2");
}

TEST(BatchNormRule, WrittenStatisticsHaveNone) {
  RuleCase c = batchNorm(true, true);
  EXPECT_EQ(text(c), "none");
}

TEST(InstanceNormRule, EachRowHasItsStatistics) {
  EXPECT_EQ(text(RuleCase("aten.instance_norm.default")
                     .in("input", {2, 4, 5})
                     .attr("weight", {})
                     .attr("bias", {})
                     .attr("use_input_stats", true)
                     .out({2, 4, 5})),
            "(n c d2) -> n c d2   whole d2");
  EXPECT_EQ(text(RuleCase("aten.instance_norm.default")
                     .in("input", {2, 4, 5})
                     .in("running_mean", {4})
                     .in("running_var", {4})
                     .attr("use_input_stats", false)
                     .out({2, 4, 5})),
            "none");
}

TEST(InstanceNormRule, FewerRowsOrChannelsThanRanksAreWhole) {
  EXPECT_EQ(text(RuleCase("aten.instance_norm.default", 4)
                     .in("input", {2, 3, 5})
                     .attr("use_input_stats", true)
                     .out({2, 3, 5})),
            "(n c d2) -> n c d2   whole n c d2");
}

}  // namespace
}  // namespace autosp::sharding
