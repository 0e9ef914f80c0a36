// Literal rules of losses.
#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

using ir::DType;

std::string text(RuleCase& c) {
  return c.text(lossRules());
}

std::string classes(const char* op, const RuleCase::Sizes& self, const RuleCase::Sizes& target,
                    int reduction, const RuleCase::Sizes& out) {
  return text(RuleCase(op)
                  .in("self", self)
                  .in("target", target, DType::kI64)
                  .attr("weight", {})
                  .attr("reduction", reduction)
                  .attr("ignore_index", -100)
                  .out(out));
}

TEST(CrossEntropyRule, RowsPassOrAreReduced) {
  const char* op = "aten.cross_entropy_loss.default";
  EXPECT_EQ(classes(op, {6, 9}, {6}, 0, {6}), "(n c, n) -> n   whole c");
  EXPECT_EQ(classes(op, {6, 9}, {6}, 1, {}), "(n c, n) -> ()   mean n, whole c");
  EXPECT_EQ(classes(op, {6, 9}, {6}, 2, {}), "(n c, n) -> ()   sum n, whole c");
}

TEST(CrossEntropyRule, FurtherDimsAndProbabilities) {
  const char* op = "aten.cross_entropy_loss.default";
  EXPECT_EQ(classes(op, {2, 9, 5}, {2, 5}, 1, {}), "(n c d2, n d2) -> ()   mean n d2, whole c");
  EXPECT_EQ(classes(op, {2, 9, 5}, {2, 5}, 0, {2, 5}), "(n c d2, n d2) -> n d2   whole c");
  EXPECT_EQ(classes(op, {2, 9, 5}, {2, 9, 5}, 0, {2, 5}), "(n c d2, n c d2) -> n d2   whole c");
  EXPECT_EQ(classes(op, {9}, {}, 1, {}), "(c, ()) -> ()   whole c");
  EXPECT_EQ(classes(op, {9}, {9}, 1, {}), "(c, c) -> ()   whole c");
  EXPECT_EQ(classes(op, {1, 9}, {1}, 2, {}), "(1 c, 1) -> ()   whole c");
}

TEST(CrossEntropyRule, Weights) {
  EXPECT_EQ(text(RuleCase("aten.cross_entropy_loss.default")
                     .in("self", {6, 9})
                     .in("target", {6}, DType::kI64)
                     .in("weight", {9})
                     .attr("reduction", 2)
                     .out({})),
            "(n c, n, c) -> ()   sum n, whole c");
}

TEST(NllRule, AMeanNeedsItsRowsWhole) {
  EXPECT_EQ(classes("aten.nll_loss_nd.default", {6, 9}, {6}, 0, {6}), "(n c, n) -> n   whole c");
  EXPECT_EQ(classes("aten.nll_loss_nd.default", {6, 9}, {6}, 1, {}), "(n c, n) -> ()   whole n c");
  EXPECT_EQ(classes("aten.nll_loss2d.default", {2, 9, 4, 5}, {2, 4, 5}, 2, {}),
            "(n c d2 d3, n d2 d3) -> ()   sum n d2 d3, whole c");
}

RuleCase pairwise(const char* op, const RuleCase::Sizes& self, const RuleCase::Sizes& target,
                  int reduction, const RuleCase::Sizes& out) {
  return RuleCase(op).in("self", self).in("target", target).attr("reduction", reduction).out(out);
}

TEST(ElementwiseLossRule, AllDimsAreReduced) {
  RuleCase none = pairwise("aten.mse_loss.default", {2, 3}, {2, 3}, 0, {2, 3});
  EXPECT_EQ(text(none), "(d0 d1, d0 d1) -> d0 d1");
  RuleCase mean = pairwise("aten.mse_loss.default", {2, 1, 3}, {2, 1, 3}, 1, {});
  EXPECT_EQ(text(mean), "(d0 1 d2, d0 1 d2) -> ()   mean d0 d2");
  RuleCase sum = pairwise("aten.kl_div.default", {2, 3}, {2, 3}, 2, {});
  EXPECT_EQ(text(sum), "(d0 d1, d0 d1) -> ()   sum d0 d1");
  RuleCase scalar = pairwise("aten.l1_loss.default", {}, {}, 1, {});
  EXPECT_EQ(text(scalar), "((), ()) -> ()");
}

TEST(ElementwiseLossRule, ShapesThatBroadcastHaveNone) {
  RuleCase c = pairwise("aten.mse_loss.default", {2, 3}, {3}, 1, {});
  EXPECT_EQ(text(c), "none");
}

TEST(ElementwiseLossRule, TheSameValueTwice) {
  EXPECT_EQ(text(RuleCase("aten.mse_loss.default")
                     .in("self", {4})
                     .again("target", "self")
                     .attr("reduction", 2)
                     .out({})),
            "(d0, d0) -> ()   sum d0");
}

TEST(ElementwiseLossRule, WeightsBroadcast) {
  EXPECT_EQ(text(RuleCase("aten.binary_cross_entropy_with_logits.default")
                     .in("self", {2, 3})
                     .in("target", {2, 3})
                     .in("weight", {2, 1})
                     .in("pos_weight", {3})
                     .attr("reduction", 1)
                     .out({})),
            "(d0 d1, d0 d1, d0 1, d1) -> ()   mean d0 d1");
}

TEST(LossRule, AnUnknownReductionHasNone) {
  RuleCase c = pairwise("aten.mse_loss.default", {2}, {2}, 3, {});
  EXPECT_EQ(text(c), "none");
}

}  // namespace
}  // namespace autosp::sharding
