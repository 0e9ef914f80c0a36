#include "autosp/sharding/rule.h"

#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

// An op on x [4, 6] and w [6] with one result, for rules written by hand.
struct Hand {
  explicit Hand(const OpCase::Sizes& result, ir::DType dtype = ir::DType::kF32, int ranks = 2)
      : op("mylib.f.default", ranks) {
    op.tensor("x", {4, 6}).tensor("w", {6}).result(result, dtype);
    s = rule.addFactor("s", 4);
    k = rule.addFactor("k", 6);
    rule.operands = {{{{s}, 0}, {{k}, 0}}, {{{k}, 0}}};
  }
  std::string cut(int factor) {
    const std::int64_t size = rule.factors[static_cast<std::size_t>(factor)].size;
    const auto strategy = cutFactor(op.graph(), op.op(), rule, {factor, 1, 1, size, 0});
    if (!strategy) {
      return "none";
    }
    std::string out;
    for (const ir::Form& form : strategy->operands) {
      out += form.text() + " ";
    }
    out += "->";
    for (const ir::Form& form : strategy->results) {
      out += " " + form.text();
    }
    return out + (strategy->lowering == Lowering::kSumThenDivide ? " sum then divide" : "");
  }
  OpCase op;
  OpRule rule;
  int s = 0;
  int k = 0;
};

TEST(OpRule, Text) {
  OpRule rule;
  const int b = rule.addFactor("b", 2);
  const int s = rule.addFactor("s", 4);
  const int k = rule.addFactor("k", 3, FactorKind::kSum);
  const int d = rule.addFactor("d", 3, FactorKind::kWhole);
  EXPECT_EQ(b, 0);
  rule.operands = {{{{b, s}, 0}, {{k}, 0}, {{}, 0}}, {}};
  rule.results = {{{{b}, 0}, {{s}, 1}, {{d}, 0}}};
  EXPECT_EQ(rule.text(), "((b s) k 1, ()) -> b s+1 d   sum k, whole d");
  rule.operands = {};
  rule.results = {{}, {{{s}, -1}}};
  rule.factors[2].kind = FactorKind::kMean;
  EXPECT_EQ(rule.text(), "() -> ((), s-1)   mean k, whole d");
}

TEST(CutFactor, PassedFactorCutsWhereItStandsAndLeavesTheRestWhole) {
  Hand hand({4, 6});
  hand.rule.results = {hand.rule.operands[0]};
  EXPECT_EQ(hand.cut(hand.s), "S(0,base=4) Q -> S(0,base=4)");
  EXPECT_EQ(hand.cut(hand.k), "S(1,base=6) S(0,base=6) -> S(1,base=6)");
}

TEST(CutFactor, WithoutGradientThereIsNoPartialGradient) {
  OpCase op("mylib.f.default");
  op.tensor("x", {4, 6}).tensor("w", {6}, false).result({4, 6});
  OpRule rule;
  const int s = rule.addFactor("s", 4);
  rule.operands = {{{{s}, 0}, {}}, {{}}};
  rule.results = {{{{s}, 0}, {}}};
  const auto strategy = cutFactor(op.graph(), op.op(), rule, {s, 1, 1, 4, 0});
  ASSERT_TRUE(strategy);
  EXPECT_EQ(strategy->operands[1], ir::Form::whole());
}

TEST(CutFactor, SumAndMeanMakePartialResults) {
  Hand hand({4});
  hand.rule.results = {{{{hand.s}, 0}}};
  EXPECT_EQ(hand.cut(hand.k), "none") << "a result lacks a passed factor";
  hand.rule.factors[1].kind = FactorKind::kSum;
  EXPECT_EQ(hand.cut(hand.k), "S(1,base=6) S(0,base=6) -> P");
  EXPECT_EQ(hand.cut(hand.s), "S(0,base=4) Q -> S(0,base=4)");
  hand.rule.factors[1].kind = FactorKind::kMean;
  EXPECT_EQ(hand.cut(hand.k), "S(1,base=6) S(0,base=6) -> P sum then divide");
  EXPECT_EQ(hand.cut(hand.s), "S(0,base=4) Q -> S(0,base=4)") << "nothing is divided here";
}

TEST(CutFactor, PartialSumsOfIntegersButNotOfBooleans) {
  for (const auto& [dtype, expected] : std::vector<std::pair<ir::DType, std::string>>{
           {ir::DType::kI64, "S(1,base=6) S(0,base=6) -> P"}, {ir::DType::kBool, "none"}}) {
    Hand hand({4}, dtype);
    hand.rule.results = {{{{hand.s}, 0}}};
    hand.rule.factors[1].kind = FactorKind::kSum;
    EXPECT_EQ(hand.cut(hand.k), expected);
  }
}

TEST(CutFactor, WholeFactorsDiagonalsAndAbsentFactorsAreNotCut) {
  Hand hand({4, 6});
  hand.rule.results = {hand.rule.operands[0]};
  hand.rule.factors[0].kind = FactorKind::kWhole;
  EXPECT_EQ(hand.cut(hand.s), "none");
  const int absent = hand.rule.addFactor("z", 5, FactorKind::kSum);
  EXPECT_EQ(hand.cut(absent), "none");

  OpCase op("mylib.diagonal.default");
  op.tensor("x", {4, 4}).result({4});
  OpRule rule;
  const int s = rule.addFactor("s", 4);
  rule.operands = {{{{s}, 0}, {{s}, 0}}};
  rule.results = {{{{s}, 0}}};
  EXPECT_FALSE(cutFactor(op.graph(), op.op(), rule, {s, 1, 1, 4, 0}));
}

TEST(CutFactor, UnevenLengthsAndEmptyRanks) {
  Hand hand({4, 6}, ir::DType::kF32, 5);
  hand.rule.results = {hand.rule.operands[0]};
  EXPECT_EQ(hand.cut(hand.s), "S(0,base=4) Q -> S(0,base=4)");
}

TEST(CutFactor, AnOccupiedFactorIsCutOnlyWhereEveryRankHoldsAPart) {
  Hand hand({4, 6}, ir::DType::kF32, 3);
  hand.rule.results = {hand.rule.operands[0]};
  hand.rule.factors[static_cast<std::size_t>(hand.s)].occupied = true;
  const auto cut = [&](FactorCut at) {
    return cutFactor(hand.op.graph(), hand.op.op(), hand.rule, at).has_value();
  };
  EXPECT_TRUE(cut({hand.s, 1, 1, 4, 0}));
  EXPECT_FALSE(cut({hand.s, 2, 1, 2, 0}));   // two blocks of two elements
  EXPECT_FALSE(cut({hand.s, 1, 1, 12, 0}));  // the window lies on the first rank
}

TEST(CutFactor, ARuleForOtherOperandsIsAnInternalError) {
  Hand hand({4, 6});
  EXPECT_THROW(hand.cut(hand.s), InternalError);
  hand.rule.results = {{{{hand.s}, 0}}};
  EXPECT_THROW(hand.cut(hand.s), InternalError);
}

TEST(RuleFor, SymbolicDimsHaveNoRule) {
  ir::Graph graph;
  const ir::ValueId x = graph.addInput("x", ir::InputKind::kUser,
                                       {ir::DType::kF32, {ir::Dim(1, {"s0"}), 4}}, true);
  ir::Op op;
  op.name = "aten.relu.default";
  op.traits.pointwise = true;
  op.args = {{"self", ir::Attr(x)}};
  const ir::OpId id = graph.addOp(op, {{graph.type(x), true, true}});
  EXPECT_FALSE(ruleFor(graph, id, RuleTable()));
}

}  // namespace
}  // namespace autosp::sharding
