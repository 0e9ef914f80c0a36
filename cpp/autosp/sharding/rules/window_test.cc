#include <gtest/gtest.h>

#include <limits>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

using Sizes = OpCase::Sizes;

std::string slice(ir::Attr start, ir::Attr end, int step, std::int64_t length) {
  OpCase op("aten.slice.Tensor");
  op.tensor("self", {2, 9}).set("dim", 1).set("start", std::move(start)).set("end", std::move(end));
  return op.set("step", step).result({2, length}).text();
}

TEST(WindowRules, Slice) {
  EXPECT_EQ(slice({}, -1, 1, 8), "(a b) -> a b");
  EXPECT_EQ(slice(1, std::numeric_limits<std::int64_t>::max(), 1, 8), "(a b) -> a b+1");
  EXPECT_EQ(slice(-3, {}, 1, 3), "(a b) -> a b+6");
  EXPECT_EQ(slice(-20, 30, 1, 9), "(a b) -> a b");
  EXPECT_EQ(slice(2, 5, 1, 3), "(a b) -> a b+2");
  EXPECT_EQ(slice(5, 2, 1, 0), "(a b) -> a 1") << "empty";
  EXPECT_EQ(slice(0, 9, 2, 5), "(a b) -> a 1   whole b");
  EXPECT_EQ(slice(0, 5, 1, 4), "none") << "a result of another size";
}

TEST(WindowRules, SliceBoundsUnknownAtCompileTime) {
  OpCase op("aten.slice.Tensor");
  op.tensor("self", {9}).set("dim", 0).set("start", ir::Opaque{"u0"}).set("end", 9).set("step", 1);
  EXPECT_EQ(op.result({4}).text(), "none");
}

TEST(WindowRules, CutOfASliceKeepsItsBoundaries) {
  OpCase op("aten.slice.Tensor");
  op.tensor("self", {2, 9}).set("dim", 1).set("start", 1).set("end", 9).set("step", 1).result({2, 8});
  const auto rule = op.rule();
  ASSERT_TRUE(rule);
  const auto strategy = cutFactor(op.graph(), op.op(), *rule, {1, 1, 1, 9, 0});
  ASSERT_TRUE(strategy);
  EXPECT_EQ(strategy->operands[0].text(), "S(1,base=9)");
  // 9 over 2 ranks is 5 and 4; without the first position 4 and 4, still boundaries of the 9.
  EXPECT_EQ(strategy->results[0].text(), "S(1,base=9,shift=1)");
}

TEST(WindowRules, Narrow) {
  OpCase op("aten.narrow.default");
  op.tensor("self", {2, 9}).set("dim", -1).set("start", -4).set("length", 3).result({2, 3});
  EXPECT_EQ(op.text(), "(a b) -> a b+5");
}

std::string pad(const Sizes& from, const Sizes& amounts, const Sizes& to, const char* mode = "constant") {
  OpCase op("aten.pad.default");
  return op.tensor("self", from).ints("pad", amounts).set("mode", mode).result(to).text();
}

TEST(WindowRules, Pad) {
  EXPECT_EQ(pad({2, 8}, {0, 1}, {2, 9}), "(a b) -> a b");
  EXPECT_EQ(pad({2, 8}, {2, 1}, {2, 11}), "(a b) -> a b-2");
  EXPECT_EQ(pad({2, 8, 5}, {0, 0, 3, 0}, {2, 11, 5}), "(a b c) -> a b-3 c");
  EXPECT_EQ(pad({2, 8}, {-1, 0}, {2, 7}), "(a b) -> a b+1") << "a negative pad is a slice";
  EXPECT_EQ(pad({2, 1}, {0, 1}, {2, 2}), "(a 1) -> a 1");
  EXPECT_EQ(pad({2, 8, 5}, {2, 2}, {2, 8, 9}, "reflect"), "(a b c) -> a b 1   whole c");
  OpCase nd("aten.constant_pad_nd.default");
  EXPECT_EQ(nd.tensor("self", {8}).ints("pad", {1, 1}).set("value", 0).result({10}).text(), "(a) -> a-1");
}

TEST(WindowRules, SelectAndUnbindTakeTheDimOut) {
  OpCase select("aten.select.int");
  EXPECT_EQ(select.tensor("self", {2, 8, 6}).set("dim", 1).set("index", -1).result({2, 6}).text(),
            "(a c b) -> a b   whole c");
  OpCase unbind("aten.unbind.int");
  EXPECT_EQ(unbind.tensor("self", {2, 8}).set("dim", 0).result({8}).result({8}).text(),
            "(b a) -> (a, a)   whole b");
}

TEST(WindowRules, SplitsLeaveTheOtherDims) {
  for (const char* name : {"aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default"}) {
    OpCase op(name);
    EXPECT_EQ(op.tensor("self", {8, 6}).set("dim", -1).result({8, 4}).result({8, 2}).text(),
              "(a b) -> (a 1, a 1)   whole b")
        << name;
  }
  OpCase unfold("aten.unfold.default");
  unfold.tensor("self", {2, 8, 5}).set("dimension", 1).set("size", 3).set("step", 1);
  EXPECT_EQ(unfold.result({2, 6, 5, 3}).text(), "(a c b) -> a 1 b 1   whole c");
}

TEST(WindowRules, CatAndStack) {
  OpCase cat("aten.cat.default");
  EXPECT_EQ(cat.tensors("tensors", {{8, 3}, {8, 5}}).set("dim", -1).result({8, 8}).text(),
            "(a b, a c) -> a 1   whole b c");
  OpCase legacy("aten.cat.default");
  EXPECT_EQ(legacy.tensors("tensors", {{0}, {8, 5}}).set("dim", 0).result({8, 5}).text(),
            "(1, b a) -> 1 a   whole b");
  OpCase single("aten.cat.default");
  EXPECT_EQ(single.tensors("tensors", {{8, 5}}).set("dim", 0).result({8, 5}).text(), "(a b) -> a b");
  OpCase stack("aten.stack.default");
  EXPECT_EQ(stack.tensors("tensors", {{8, 3}, {8, 3}}).set("dim", -1).result({8, 3, 2}).text(),
            "(a b, a b) -> a b 1");
  OpCase diff("aten.diff.default");
  diff.tensor("self", {2, 8}).set("n", 1).set("dim", -1).tensor("prepend", {2, 1}).set("append", {});
  EXPECT_EQ(diff.result({2, 8}).text(), "(a b, a 1) -> a 1   whole b");
}

TEST(WindowRules, Repeats) {
  OpCase repeat("aten.repeat.default");
  EXPECT_EQ(repeat.tensor("self", {8, 1, 3}).ints("repeats", {2, 1, 4, 5}).result({2, 8, 4, 15}).text(),
            "(a 1 b) -> c a d (e b)   whole c d e");
  OpCase interleave("aten.repeat_interleave.self_int");
  interleave.tensor("self", {2, 3, 8}).set("repeats", 4).set("dim", 1).result({2, 12, 8});
  EXPECT_EQ(interleave.text(), "(a b c) -> a (b d) c   whole d");
  OpCase flat("aten.repeat_interleave.self_int");
  EXPECT_EQ(flat.tensor("self", {2, 3}).set("repeats", 4).set("dim", {}).result({24}).text(),
            "(a b) -> (a b c)   whole c");
}

TEST(WindowRules, MovesWithinADimKeepItWhole) {
  OpCase roll("aten.roll.default");
  roll.tensor("self", {2, 8}).ints("shifts", {1}).ints("dims", {-1}).result({2, 8});
  EXPECT_EQ(roll.text(), "(a b) -> a b   whole b");
  OpCase flat("aten.roll.default");
  flat.tensor("self", {2, 8}).ints("shifts", {1}).ints("dims", {}).result({2, 8});
  EXPECT_EQ(flat.text(), "(a b) -> a b   whole a b");
  OpCase triu("aten.triu.default");
  EXPECT_EQ(triu.tensor("self", {2, 8, 8}).set("diagonal", 1).result({2, 8, 8}).text(),
            "(a b c) -> a b c   whole b c");
}

TEST(WindowRules, Scatters) {
  OpCase slice("aten.slice_scatter.default");
  slice.tensor("self", {2, 8}).tensor("src", {2, 3}).set("dim", 1).result({2, 8});
  EXPECT_EQ(slice.text(), "(a b, a c) -> a b   whole b c");
  OpCase select("aten.select_scatter.default");
  select.tensor("self", {2, 8}).tensor("src", {2}).set("dim", 1).set("index", 0).result({2, 8});
  EXPECT_EQ(select.text(), "(a b, a) -> a b   whole b");
}

}  // namespace
}  // namespace autosp::sharding
