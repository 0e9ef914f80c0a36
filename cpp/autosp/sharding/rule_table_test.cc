#include "autosp/sharding/rule_table.h"

#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

std::string errorOf(std::string_view spelling) {
  const auto rule = SpelledRule::parse(spelling);
  return rule.isOk() ? "ok" : rule.diagnostic().text();
}

// The rule that a spelling gives an op on these operands.
std::string bound(std::string_view spelling, const std::vector<OpCase::Sizes>& operands,
                  const std::vector<OpCase::Sizes>& results) {
  OpCase op("mylib.f.default");
  for (std::size_t k = 0; k < operands.size(); ++k) {
    op.tensor("x" + std::to_string(k), operands[k]);
  }
  for (const auto& sizes : results) {
    op.result(sizes);
  }
  RuleTable table;
  const Status status = table.add("mylib::f", spelling);
  return status.isOk() ? op.text(table) : status.diagnostic().text();
}

TEST(SpelledRule, Errors) {
  EXPECT_EQ(errorOf("b h s d, s d -> b h s d"), "ok");
  EXPECT_EQ(errorOf("b h s d, -> b"),
            "in rule 'b h s d, -> b': position 9: expected a factor name, '...' or '1', found '-'");
  EXPECT_EQ(errorOf("b s"),
            "in rule 'b s': position 3: expected a factor name, '...', '1', ',' or '->', found the end");
  EXPECT_EQ(errorOf("b $ -> b"),
            "in rule 'b $ -> b': position 2: expected a factor name, '...', '1', ',' or '->', found '$'");
  EXPECT_EQ(errorOf("b ->"),
            "in rule 'b ->': position 4: expected a factor name, '...' or '1', found the end");
  EXPECT_EQ(errorOf("(b, s -> b"),
            "in rule '(b, s -> b': position 6: expected a factor name, '...', '1', ',' or ')', found '-'");
  EXPECT_EQ(errorOf("b (s) -> b"),
            "in rule 'b (s) -> b': position 2: expected a factor name, '...', '1', ',' or '->', found '('");
  EXPECT_EQ(errorOf("s ... -> s"),
            "in rule 's ... -> s': position 2: '...' stands for leading dims and comes first");
  EXPECT_EQ(errorOf("s s -> s"), "in rule 's s -> s': position 2: factor 's' stands twice in one tensor");
  EXPECT_EQ(errorOf("s -> s n"), "in rule 's -> s n': position 7: factor 'n' stands in no operand. "
                                 "Write '1' for a dim that is never cut");
  EXPECT_EQ(errorOf("s -> ... s"), "in rule 's -> ... s': position 5: factor '...' stands in no operand. "
                                   "Write '1' for a dim that is never cut");
  EXPECT_EQ(errorOf("s sum -> s"),
            "in rule 's sum -> s': position 2: 'sum' begins a clause and names no factor");
  EXPECT_EQ(errorOf("s k -> s reduce k"), "in rule 's k -> s reduce k': position 9: factor 'reduce' stands "
                                          "in no operand. Write '1' for a dim that is never cut");
  EXPECT_EQ(errorOf("s k -> s, sum k"),
            "in rule 's k -> s, sum k': position 10: 'sum' begins a clause and names no factor");
  EXPECT_EQ(errorOf("s k -> s sum"), "in rule 's k -> s sum': position 12: expected a factor name, found the end");
  EXPECT_EQ(errorOf("s k -> s sum n"),
            "in rule 's k -> s sum n': position 13: factor 'n' stands in no operand");
  EXPECT_EQ(errorOf("s k -> s sum k ]"),
            "in rule 's k -> s sum k ]': position 15: expected 'sum', 'mean' or 'whole', found ']'");
}

TEST(SpelledRule, BindsToSizes) {
  EXPECT_EQ(bound("b h s d, s d -> b h s d", {{2, 3, 8, 4}, {8, 4}}, {{2, 3, 8, 4}}),
            "(b h s d, s d) -> b h s d");
  EXPECT_EQ(bound("b s k, n k -> b s n sum k", {{2, 8, 6}, {5, 6}}, {{2, 8, 5}}),
            "(b s k, n k) -> b s n   sum k");
  EXPECT_EQ(bound("(s k, k c) -> (s, ())   sum k, mean s, whole c", {{8, 6}, {6, 3}}, {{8}, {}}),
            "in rule '(s k, k c) -> (s, ())   sum k, mean s, whole c': position 15: expected ')': a dim "
            "is one factor, and '()' a tensor without dims, found 's'");
  EXPECT_EQ(bound("(s k, k c) -> s, ()   sum k, mean s, whole c", {{8, 6}, {6, 3}}, {{8}, {}}),
            "(s k, k c) -> (s, ())   sum k, mean s, whole c");
  EXPECT_EQ(bound("s k, () -> s 1 sum k", {{8, 6}, {}}, {{8, 7}}), "(s k, ()) -> s 1   sum k");
}

TEST(SpelledRule, LeadingDimsBroadcast) {
  EXPECT_EQ(bound("... k, n k -> ... n sum k", {{2, 8, 6}, {5, 6}}, {{2, 8, 5}}),
            "(..1 ..0 k, n k) -> ..1 ..0 n   sum k");
  EXPECT_EQ(bound("... d, ... d -> ... d whole ...", {{2, 8, 6}, {1, 6}}, {{2, 8, 6}}),
            "(..1 ..0 d, 1 d) -> ..1 ..0 d   whole ..1 ..0");
  EXPECT_EQ(bound("... d, ... d -> ... d", {{2, 8, 6}, {3, 6}}, {{2, 8, 6}}), "none");
}

TEST(SpelledRule, WhatDoesNotFitHasNoRule) {
  EXPECT_EQ(bound("b s, b s -> b s", {{2, 8}, {2, 7}}, {{2, 8}}), "none") << "sizes";
  EXPECT_EQ(bound("b s, b s -> b s", {{2, 8}, {1, 8}}, {{2, 8}}), "none") << "named dims do not broadcast";
  EXPECT_EQ(bound("b s -> b s", {{2, 8, 3}}, {{2, 8}}), "none") << "rank";
  EXPECT_EQ(bound("b s -> b s", {{2, 8}, {2, 8}}, {{2, 8}}), "none") << "operands";
  EXPECT_EQ(bound("b s -> b s", {{2, 8}}, {{2, 9}}), "none") << "result";
  EXPECT_EQ(bound("b s -> b s", {{1, 8}}, {{1, 8}}), "(1 s) -> 1 s");
}

TEST(RuleTable, NamesOfOps) {
  RuleTable table;
  EXPECT_TRUE(table.add("mylib::f.overload", "s -> s").isOk());
  EXPECT_EQ(table.add("rope", "s -> s").diagnostic().text(),
            "a rule is for an op, found the name 'rope'. Name it as torch does: \"mylib::rope\"");
  OpCase op("mylib.f.overload");
  EXPECT_EQ(op.tensor("x", {4}).result({4}).text(table), "(s) -> s");
  EXPECT_EQ(op.text(), "none");
}

TEST(RuleTable, AUsersRuleStandsBeforeTheBuiltInOneAndTheTag) {
  RuleTable table;
  OpCase relu("aten.relu.default");
  relu.pointwise().tensor("self", {4, 6}).result({4, 6});
  EXPECT_EQ(relu.text(table), "(a b) -> a b");
  OpCase flip("aten.flip.default");
  flip.tensor("self", {4, 6}).ints("dims", {0}).result({4, 6});
  EXPECT_EQ(flip.text(table), "(a b) -> a b   whole a");
  ASSERT_TRUE(table.add("aten::relu", "a b -> a b whole a b").isOk());
  ASSERT_TRUE(table.add("aten::flip", "a b -> a b").isOk());
  EXPECT_EQ(relu.text(table), "(a b) -> a b   whole a b");
  EXPECT_EQ(flip.text(table), "(a b) -> a b");
  // One that does not fit is not replaced by the tag.
  ASSERT_TRUE(table.add("aten::relu", "a -> a").isOk());
  EXPECT_EQ(relu.text(table), "none");
}

TEST(RuleTable, RandomOpsAreNotElementwise) {
  OpCase op("aten.rrelu.default");
  EXPECT_EQ(op.pointwise().random().tensor("self", {4}).result({4}).text(), "none");
}

TEST(RuleTable, RowsAreSortedAndSpelled) {
  const auto rows = RuleTable().rows();
  EXPECT_GT(rows.size(), 200u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_FALSE(rows[i].spelling.empty()) << rows[i].op;
    EXPECT_TRUE(i == 0 || rows[i - 1].op < rows[i].op) << rows[i].op;
    EXPECT_TRUE(rows[i].op.starts_with("aten.") || rows[i].op.starts_with("autosp.")) << rows[i].op;
  }
}

}  // namespace
}  // namespace autosp::sharding
