// Strategies and the rule of attention, on shapes of each kind: as many key heads as query heads,
// fewer, one, masks of each rank, ranks other than four.
#include "autosp/sharding/attention.h"

#include <gtest/gtest.h>

#include "autosp/sharding/rules/rule_case.h"

namespace autosp::sharding {
namespace {

using ir::Range;
using Sizes = RuleCase::Sizes;

constexpr auto kF32 = ir::DType::kF32;

RuleCase attention(const Sizes& query, const Sizes& key, const Sizes& value, const Sizes& out,
                   int ranks) {
  return RuleCase("aten.scaled_dot_product_attention.default", ranks)
      .in("query", query, kF32, true)
      .in("key", key, kF32, true)
      .in("value", value, kF32, true)
      .attr("dropout_p", 0.0)
      .attr("is_causal", true)
      .attr("scale", {})
      .out(out);
}

// "S(1,base=8), Q, Q -> S(1,base=8)"
std::string text(const Strategy& strategy) {
  std::string out;
  for (const ir::Form& form : strategy.operands) {
    out += (out.empty() ? "" : ", ") + form.text();
  }
  return out + " -> " + strategy.results.at(0).text();
}

std::vector<std::string> texts(RuleCase& c) {
  std::vector<std::string> out;
  const ir::Op& op = c.op();
  for (const Strategy& strategy : attentionStrategies(c.graph(), op)) {
    out.push_back((strategy.lowering == Lowering::kAttentionHeads     ? "heads: "
                   : strategy.lowering == Lowering::kAttentionQueries ? "queries: "
                                                                      : "?: ") +
                  text(strategy));
  }
  return out;
}

std::string rule(RuleCase& c) {
  const ir::Op& op = c.op();
  const auto found = attentionRule(c.graph(), op);
  return found ? found->text() : "none";
}

using Texts = std::vector<std::string>;

TEST(AttentionStrategies, AsManyKeyHeadsAsQueryHeads) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 8, 7, 4}, {2, 8, 7, 5}, {2, 8, 6, 5}, 4);
  EXPECT_EQ(texts(c), (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8) -> S(1,base=8)",
                             "queries: S(2,base=6), Q, Q -> S(2,base=6)"}));
}

TEST(AttentionStrategies, KeyHeadsOfGroupsDealtEvenlyAreAPlainCut) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 4, 6, 4}, {2, 4, 6, 4}, {2, 8, 6, 4}, 4);
  c.attr("enable_gqa", true);
  EXPECT_EQ(texts(c).at(0), "heads: S(1,base=8), S(1,base=4), S(1,base=4) -> S(1,base=8)");
}

TEST(AttentionStrategies, SharedKeyHeadsAreHeldByEveryReader) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 2, 6, 4}, {2, 2, 6, 4}, {2, 8, 6, 4}, 4);
  c.attr("enable_gqa", true);
  EXPECT_EQ(texts(c).at(0),
            "heads: S(1,base=8), S(1,base=8,group=4), S(1,base=8,group=4) -> S(1,base=8)");
  const ir::Op& op = c.op();
  EXPECT_EQ(attentionStrategies(c.graph(), op).at(0).operands.at(1).cut.ranges(2, 4),
            (std::vector<Range>{{0, 1}, {0, 1}, {1, 2}, {1, 2}}));
}

TEST(AttentionStrategies, OneKeyHead) {
  RuleCase c = attention({2, 6, 6, 4}, {2, 1, 6, 4}, {2, 1, 6, 4}, {2, 6, 6, 4}, 4);
  c.attr("enable_gqa", true);
  const ir::Op& op = c.op();
  EXPECT_EQ(attentionStrategies(c.graph(), op).at(0).operands.at(1).cut.ranges(1, 4),
            (std::vector<Range>{{0, 1}, {0, 1}, {0, 1}, {0, 1}}));
}

TEST(AttentionStrategies, HeadsThatDoNotDivideOrDoNotReachEveryRank) {
  RuleCase uneven = attention({2, 6, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 6, 6, 4}, 4);
  uneven.attr("enable_gqa", true);
  // Query heads 2, 2, 1, 1.
  const ir::Op& op = uneven.op();
  EXPECT_EQ(attentionStrategies(uneven.graph(), op).at(0).operands.at(1).cut.ranges(3, 4),
            (std::vector<Range>{{0, 1}, {1, 2}, {2, 3}, {2, 3}}));
  RuleCase few = attention({2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, 4);
  EXPECT_EQ(texts(few).at(0), "heads: S(1,base=3), S(1,base=3), S(1,base=3) -> S(1,base=3)");
}

TEST(AttentionStrategies, FewerKeyHeadsNeedTheFlag) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 1, 6, 4}, {2, 1, 6, 4}, {2, 8, 6, 4}, 2);
  c.attr("enable_gqa", false);
  EXPECT_EQ(texts(c), (Texts{"queries: S(2,base=6), Q, Q -> S(2,base=6)"}));
  RuleCase odd = attention({2, 8, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 8, 6, 4}, 2);
  odd.attr("enable_gqa", true);
  EXPECT_EQ(texts(odd), (Texts{"queries: S(2,base=6), Q, Q -> S(2,base=6)"}));
}

RuleCase masked(const Sizes& mask, bool requires_grad = false) {
  RuleCase c("aten.scaled_dot_product_attention.default", 2);
  return c.in("query", {2, 8, 6, 4})
      .in("key", {2, 8, 7, 4})
      .in("value", {2, 8, 7, 4})
      .in("attn_mask", mask, kF32, requires_grad)
      .out({2, 8, 6, 4});
}

TEST(AttentionStrategies, MasksAreCutWhereTheyHaveTheDim) {
  RuleCase full = masked({2, 8, 6, 7});
  EXPECT_EQ(texts(full),
            (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8), S(1,base=8) -> S(1,base=8)",
                   "queries: S(2,base=6), R, R, S(2,base=6) -> S(2,base=6)"}));
  RuleCase one_head = masked({2, 1, 6, 7});
  EXPECT_EQ(texts(one_head),
            (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8), R -> S(1,base=8)",
                   "queries: S(2,base=6), R, R, S(2,base=6) -> S(2,base=6)"}));
  RuleCase keys_only = masked({2, 1, 1, 7}, true);
  EXPECT_EQ(texts(keys_only),
            (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8), Q -> S(1,base=8)",
                   "queries: S(2,base=6), R, R, Q -> S(2,base=6)"}));
}

TEST(AttentionStrategies, MasksOfLowerRankAreAlignedAtTheRight) {
  RuleCase two = masked({6, 7});
  EXPECT_EQ(texts(two), (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8), R -> S(1,base=8)",
                               "queries: S(2,base=6), R, R, S(0,base=6) -> S(2,base=6)"}));
  RuleCase three = masked({8, 1, 7});
  EXPECT_EQ(texts(three),
            (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8), S(0,base=8) -> S(1,base=8)",
                   "queries: S(2,base=6), R, R, R -> S(2,base=6)"}));
  RuleCase wrong = masked({5, 7});
  EXPECT_EQ(texts(wrong), Texts{});
  EXPECT_EQ(rule(wrong), "none");
}

TEST(AttentionStrategies, OtherRanksCutQueriesOnly) {
  RuleCase three = attention({2, 6, 4}, {2, 7, 4}, {2, 7, 4}, {2, 6, 4}, 2);
  EXPECT_EQ(texts(three), (Texts{"queries: S(1,base=6), Q, Q -> S(1,base=6)"}));
  RuleCase five = attention({2, 3, 8, 6, 4}, {2, 3, 8, 7, 4}, {2, 3, 8, 7, 4}, {2, 3, 8, 6, 4}, 2);
  EXPECT_EQ(texts(five), (Texts{"queries: S(3,base=6), Q, Q -> S(3,base=6)"}));
  RuleCase one = attention({4}, {4}, {4}, {4}, 2);
  EXPECT_EQ(texts(one), Texts{});
}

TEST(AttentionStrategies, OneQueryIsNotCut) {
  RuleCase c = attention({2, 8, 1, 4}, {2, 8, 7, 4}, {2, 8, 7, 4}, {2, 8, 1, 4}, 2);
  EXPECT_EQ(texts(c), (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8) -> S(1,base=8)"}));
}

TEST(AttentionStrategies, TheSameValueThrice) {
  RuleCase c("aten.scaled_dot_product_attention.default", 2);
  c.in("query", {2, 8, 6, 4}).again("key", "query").again("value", "query").out({2, 8, 6, 4});
  EXPECT_EQ(texts(c), (Texts{"heads: S(1,base=8), S(1,base=8), S(1,base=8) -> S(1,base=8)",
                             "queries: S(2,base=6), R, R -> S(2,base=6)"}));
}

TEST(AttentionRule, TheBatchPasses) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 8, 7, 4}, {2, 8, 7, 5}, {2, 8, 6, 5}, 2);
  EXPECT_EQ(rule(c), "(b h s e, b h t e, b h t v) -> b h s v   whole h s t e v");
  RuleCase gqa = attention({2, 8, 6, 4}, {2, 2, 7, 4}, {2, 2, 7, 4}, {2, 8, 6, 4}, 2);
  gqa.attr("enable_gqa", true);
  EXPECT_EQ(rule(gqa), "(b h s e, b g1 t e, b g1 t v) -> b h s v   whole h g1 s t e v");
  RuleCase mask = masked({2, 1, 6, 7});
  EXPECT_EQ(rule(mask), "(b h s e, b h t e, b h t v, b 1 s t) -> b h s v   whole h s t e v");
  RuleCase three = attention({2, 6, 4}, {2, 7, 4}, {2, 7, 4}, {2, 6, 4}, 2);
  EXPECT_EQ(rule(three), "(b0 s e, b0 t e, b0 t v) -> b0 s v   whole s t e v");
}

TEST(AttentionRule, ABatchThatWouldLeaveARankEmptyIsWhole) {
  RuleCase c = attention({2, 8, 6, 4}, {2, 8, 6, 4}, {2, 8, 6, 4}, {2, 8, 6, 4}, 4);
  EXPECT_EQ(rule(c), "(b h s e, b h t e, b h t v) -> b h s v   whole b h s t e v");
}

}  // namespace
}  // namespace autosp::sharding
