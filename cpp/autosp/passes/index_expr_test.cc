// Index expressions: one id for equal expressions, what intervals and selects decide, what
// overflows.
#include "autosp/passes/index_expr.h"

#include <gtest/gtest.h>

namespace autosp::passes {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

class IndexExprTest : public ::testing::Test {
 protected:
  ExprId plus(ExprId x, std::int64_t c) { return e.add(x, e.integer(c)); }
  ExprId atMost(ExprId x, ExprId y) { return e.lessEqualZero(e.add(x, y, -1)); }

  IndexExprs e;
  ExprId i = e.index(0, 8);
  ExprId j = e.index(1, 8);
  ExprId load = e.load(ir::ValueId(std::size_t{5}), {i}, Sort::kInt, {0, 255});
  ExprId flag = e.load(ir::ValueId(std::size_t{6}), {i}, Sort::kBool, {});
};

TEST_F(IndexExprTest, EqualExpressionsHaveOneId) {
  EXPECT_EQ(plus(e.add(i, j), 1), e.add(plus(j, 1), i));
  EXPECT_EQ(e.conjunction({flag, atMost(i, j)}), e.conjunction({atMost(i, j), flag, flag}));
  EXPECT_EQ(e.add(i, i, -1), e.integer(0));
  EXPECT_NE(i, j);
  EXPECT_NE(e.index(0, 8), e.index(0, 9));
}

TEST_F(IndexExprTest, IntervalsDecideComparisons) {
  EXPECT_EQ(e.constantBool(atMost(e.integer(0), i)), true);
  EXPECT_EQ(e.constantBool(atMost(plus(i, 8), j)), false);
  EXPECT_EQ(e.constantBool(e.equalZero(plus(i, 1))), false);
  EXPECT_EQ(e.constantBool(atMost(i, j)), std::nullopt);
  EXPECT_EQ(e.constantInteger(e.floorDiv(i, 8)), 0);
  EXPECT_EQ(e.mod(i, 8), i);
  EXPECT_EQ(e.constantInteger(e.index(3, 1)), 0);
}

TEST_F(IndexExprTest, ComparisonsHaveOneSpelling) {
  EXPECT_EQ(e.lessEqualZero(plus(e.scale(i, 2), -3)), e.lessEqualZero(plus(i, -1)));
  EXPECT_EQ(e.equalZero(e.add(i, j, -1)), e.equalZero(e.add(j, i, -1)));
  EXPECT_EQ(e.negation(atMost(i, j)), atMost(plus(j, 1), i));
  EXPECT_EQ(e.negation(e.negation(flag)), flag);
  EXPECT_EQ(e.constantBool(e.conjunction({flag, e.negation(flag)})), false);
  EXPECT_EQ(e.constantBool(e.disjunction({flag, e.negation(flag)})), true);
  EXPECT_EQ(e.negation(e.conjunction({flag, atMost(i, j)})),
            e.disjunction({e.negation(flag), e.negation(atMost(i, j))}));
}

TEST_F(IndexExprTest, AbsoluteValueAtMostIsTwoBounds) {
  const ExprId near = e.lessEqualZero(plus(e.absolute(e.add(i, j, -1)), -2));
  EXPECT_EQ(near, e.conjunction({e.lessEqualZero(plus(e.add(i, j, -1), -2)),
                                 e.lessEqualZero(plus(e.add(j, i, -1), -2))}));
}

TEST_F(IndexExprTest, SelectSimplifiesItsBranches) {
  const ExprId first = e.lessEqualZero(i);
  EXPECT_EQ(e.select(first, plus(i, 1), e.integer(1)), e.integer(1));  // i <= 0 pins i
  const ExprId last = e.lessEqualZero(plus(e.scale(i, -1), 7));
  EXPECT_EQ(e.select(last, i, e.integer(7)), e.integer(7));
  EXPECT_EQ(e.select(flag, e.select(flag, i, j), load), e.select(flag, i, load));
  EXPECT_EQ(e.select(flag, e.boolean(true), e.boolean(false)), flag);
  EXPECT_EQ(e.equalZero(plus(e.fromBool(flag), -1)), flag);
  EXPECT_EQ(e.lessEqualZero(e.select(flag, e.integer(0), e.integer(3))), flag);
}

TEST_F(IndexExprTest, SubstitutionIsSimultaneous) {
  EXPECT_EQ(e.substitute(atMost(i, j), {j, i}), atMost(j, i));
  EXPECT_EQ(e.substitute(load, {e.integer(3)}),
            e.load(ir::ValueId(std::size_t{5}), {e.integer(3)}, Sort::kInt, {0, 255}));
  EXPECT_EQ(e.constantBool(e.substitute(atMost(i, e.integer(4)), {e.integer(5)})), false);
}

TEST_F(IndexExprTest, OverflowIsNoExpression) {
  EXPECT_FALSE(plus(e.integer(kMax), 1).valid());
  EXPECT_FALSE(e.scale(e.scale(i, kMax), 2).valid());
  EXPECT_FALSE(e.conjunction({flag, ExprId()}).valid());
  EXPECT_FALSE(e.select(flag, i, ExprId()).valid());
  const ExprId unbounded = e.load(ir::ValueId(std::size_t{7}), {}, Sort::kInt, {});
  EXPECT_FALSE(e.range(plus(unbounded, 1)).within(-kMax, kMax));
}

TEST_F(IndexExprTest, Text) {
  EXPECT_EQ(e.text(atMost(j, i), {"q", "k"}), "(-q + k <= 0)");
  EXPECT_EQ(e.text(plus(e.scale(load, 2), -1)), "2*%5[i0] - 1");
  EXPECT_EQ(e.text(e.conjunction({flag, e.negation(e.equalZero(load))}), {"b"}),
            "(%6[b] and !(%5[b] == 0))");
}

}  // namespace
}  // namespace autosp::passes
