// Literal rules of convolutions and pooling.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

std::string text(RuleCase& c) {
  return c.text(convolutionRules());
}

RuleCase conv(const char* op, const RuleCase::Sizes& input, const RuleCase::Sizes& weight,
              std::int64_t groups, const RuleCase::Sizes& out, int ranks = 2) {
  return RuleCase(op, ranks)
      .in("input", input)
      .in("weight", weight)
      .attr("groups", groups)
      .out(out);
}

TEST(ConvolutionRule, InChannelsAreSummedWithoutABias) {
  RuleCase c = conv("aten.conv1d.default", {2, 4, 8}, {6, 4, 3}, 1, {2, 6, 6});
  EXPECT_EQ(text(c), "(n c x0, o c k0) -> n o 1   sum c, whole x0 k0");
}

TEST(ConvolutionRule, ABiasKeepsThemWhole) {
  EXPECT_EQ(text(RuleCase("aten.conv2d.default")
                     .in("input", {2, 4, 8, 8})
                     .in("weight", {6, 4, 1, 3})
                     .in("bias", {6})
                     .attr("groups", 1)
                     .out({2, 6, 8, 6})),
            "(n c x0 x1, o c 1 k1, o) -> n o 1 1   whole c x0 x1 k1");
}

TEST(ConvolutionRule, WithoutABatch) {
  RuleCase c = conv("aten.conv1d.default", {4, 8}, {6, 4, 3}, 1, {6, 6});
  EXPECT_EQ(text(c), "(c x0, o c k0) -> o 1   sum c, whole x0 k0");
}

TEST(ConvolutionRule, DepthwiseChannelsPass) {
  RuleCase c = conv("aten.conv1d.default", {2, 4, 8}, {4, 1, 3}, 4, {2, 4, 6});
  EXPECT_EQ(text(c), "(n c x0, c 1 k0) -> n c 1   whole x0 k0");
}

TEST(ConvolutionRule, OtherGroupsAreWhole) {
  RuleCase c = conv("aten.conv1d.default", {2, 4, 8}, {6, 2, 3}, 2, {2, 6, 6});
  EXPECT_EQ(text(c), "(n c x0, o 1 k0) -> n o 1   whole o c x0 k0");
}

TEST(ConvolutionRule, TransposedSwapsTheWeightsChannels) {
  RuleCase c = conv("aten.conv_transpose1d.default", {2, 4, 8}, {4, 6, 3}, 1, {2, 6, 10});
  EXPECT_EQ(text(c), "(n c x0, c o k0) -> n o 1   sum c, whole x0 k0");
  EXPECT_EQ(text(RuleCase("aten.convolution.default")
                     .in("input", {2, 4, 8})
                     .in("weight", {4, 6, 3})
                     .attr("bias", {})
                     .attr("transposed", true)
                     .attr("groups", 1)
                     .out({2, 6, 10})),
            "(n c x0, c o k0) -> n o 1   sum c, whole x0 k0");
}

TEST(ConvolutionRule, FewerChannelsThanRanksAreWhole) {
  RuleCase c = conv("aten.conv1d.default", {2, 4, 8}, {6, 4, 3}, 1, {2, 6, 6}, 8);
  EXPECT_EQ(text(c), "(n c x0, o c k0) -> n o 1   whole c o x0 k0");
}

TEST(PlaneRule, SpatialDimsAreWhole) {
  EXPECT_EQ(text(RuleCase("aten.avg_pool2d.default")
                     .in("self", {2, 4, 8, 8})
                     .ints("kernel_size", {2, 2})
                     .out({2, 4, 4, 4})),
            "(n c x0 x1) -> n c 1 1   whole x0 x1");
  EXPECT_EQ(text(RuleCase("aten.max_pool2d_with_indices.default")
                     .in("self", {4, 8, 8})
                     .ints("kernel_size", {2, 2})
                     .out({4, 4, 4})
                     .out({4, 4, 4})),
            "(c x0 x1) -> (c 1 1, c 1 1)   whole x0 x1");
  EXPECT_EQ(text(RuleCase("aten.upsample_nearest1d.vec", 8).in("input", {2, 4, 8}).out({2, 4, 16})),
            "(n c x0) -> n c 1   whole c x0");
  EXPECT_EQ(text(RuleCase("aten.avg_pool2d.default").in("self", {2, 4}).out({2, 4})), "none");
}

}  // namespace
}  // namespace autosp::sharding
