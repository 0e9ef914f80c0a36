// Which ways to repeat key and value heads are folded, and which orders of heads are not.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "autosp/ir/parser.h"
#include "autosp/ir/verifier.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

// Attention of 8 query heads; %0 query, %1 keys and %2 values at two heads of their own
// ([2,2,6,4]). The body makes %10 and %20, [2,8,6,4].
ir::Graph attention(const std::string& body) {
  Result<ir::Graph> graph = ir::parse(
      "autosp.graph \"forward\" ranks=2 {\n"
      "input %0 : f32[2,8,6,4] user \"q\"\ninput %1 : f32[2,2,6,4] user \"k\"\n"
      "input %2 : f32[2,2,6,4] user \"v\"\ninput %3 : f32[2,4,6,4] user \"v4\"\n"
      "input %4 : f32[2,1,6,4] user \"one\"\n" +
      body +
      "%99 : f32[2,8,6,4] = aten.scaled_dot_product_attention.default(query=%0, key=%10, "
      "value=%20, "
      "attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)\n"
      "output %99 \"\"\n}\n");
  EXPECT_TRUE(graph.isOk()) << (graph.isOk() ? "" : graph.diagnostic().text());
  return std::move(graph).value();
}

// "%1, %2" when attention reads these after the pass with enable_gqa; "" when nothing changed.
std::string folded(const std::string& body) {
  ir::Graph graph = attention(body);
  Options options;
  Report report;
  PassContext context{options, report};
  EXPECT_TRUE(foldRepeatKv(graph, context).isOk());
  EXPECT_TRUE(ir::verify(graph).isOk());
  const ir::Op& op = graph.op(graph.order().back());
  const std::string reads = "%" + std::to_string(op.valueArg("key").index) + ", %" +
                            std::to_string(op.valueArg("value").index);
  const bool gqa = op.boolArg("enable_gqa", false);
  EXPECT_EQ(gqa, reads != "%10, %20");
  EXPECT_EQ(report.entries().size(), gqa ? 1U : 0U);
  return gqa ? reads : "";
}

std::string expanded(const std::string& from, const std::string& at) {
  return "%" + at + "1 : f32[2,2,1,6,4] = aten.unsqueeze.default(self=%" + from + ", dim=2)\n%" +
         at + "2 : f32[2,2,4,6,4] = aten.expand.default(self=%" + at +
         "1, size=[2, 2, 4, 6, 4])\n%" + at + "0 : f32[2,8,6,4] = aten.reshape.default(self=%" +
         at + "2, shape=[2, 8, 6, 4])\n";
}

TEST(FoldRepeatKv, ExpandAfterTheHeadDim) {
  EXPECT_EQ(folded(expanded("1", "1") + expanded("2", "2")), "%1, %2");
}

// x[:, :, None, :, :] with slices of everything around it, copies, and a view for the new dim.
TEST(FoldRepeatKv, OtherSpellings) {
  EXPECT_EQ(
      folded(
          "%11 : f32[2,2,6,4] = aten.slice.Tensor(self=%1, dim=0, start=0, "
          "end=9223372036854775807, step=1)\n"
          "%12 : f32[2,2,1,6,4] = aten.unsqueeze.default(self=%11, dim=2)\n"
          "%13 : f32[2,2,1,6,4] = aten.slice.Tensor(self=%12, dim=3, start=0, end=6, step=1)\n"
          "%14 : f32[2,2,4,6,4] = aten.expand.default(self=%13, size=[-1, -1, 4, -1, -1])\n"
          "%15 : f32[2,2,4,6,4] = aten.clone.default(self=%14, memory_format=none)\n"
          "%16 : f32[2,8,6,4] = aten.view.default(self=%15, size=[2, 8, 6, 4])\n"
          "%10 : f32[2,8,6,4] = aten.contiguous.default(self=%16)\n" +
          std::string(
              "%21 : f32[2,2,1,6,4] = aten.view.default(self=%2, size=[2, 2, 1, 6, 4])\n"
              "%22 : f32[2,2,4,6,4] = aten.expand.default(self=%21, size=[2, 2, 4, 6, 4])\n"
              "%20 : f32[2,8,6,4] = aten.flatten.using_ints(self=%22, start_dim=1, end_dim=2)\n")),
      "%1, %2");
  EXPECT_EQ(folded("%10 : f32[2,8,6,4] = aten.repeat_interleave.self_int(self=%1, repeats=4, "
                   "dim=1, output_size=none)\n" +
                   expanded("2", "2")),
            "%1, %2");
}

TEST(FoldRepeatKv, OneHeadForAll) {
  EXPECT_EQ(folded("%10 : f32[2,8,6,4] = aten.expand.default(self=%4, size=[2, 8, 6, 4])\n"
                   "%20 : f32[2,8,6,4] = aten.expand.default(self=%4, size=[2, 8, 6, 4])\n"),
            "%4, %4");
}

// [B, g, K, T, D] puts the heads in the order 0 1 0 1 ...: query head h would read h mod K.
TEST(FoldRepeatKv, RepeatBeforeTheHeadDimStays) {
  const auto before = [](const std::string& from, const std::string& at) {
    return "%" + at + "1 : f32[2,1,2,6,4] = aten.unsqueeze.default(self=%" + from + ", dim=1)\n%" +
           at + "2 : f32[2,4,2,6,4] = aten.expand.default(self=%" + at +
           "1, size=[2, 4, 2, 6, 4])\n%" + at + "0 : f32[2,8,6,4] = aten.reshape.default(self=%" +
           at + "2, shape=[2, 8, 6, 4])\n";
  };
  EXPECT_EQ(folded(before("1", "1") + before("2", "2")), "");
  EXPECT_EQ(folded(expanded("1", "1") + before("2", "2")), "");
  EXPECT_EQ(folded("%10 : f32[2,8,6,4] = aten.repeat.default(self=%1, repeats=[1, 4, 1, 1])\n" +
                   expanded("2", "2")),
            "");
}

// As many repeats as heads: sizes alone would not tell the order.
TEST(FoldRepeatKv, EqualSizesDoNotConfuse) {
  const std::string square = R"(autosp.graph "forward" ranks=2 {
    input %0 : f32[2,4,6,4] user "q"
    input %1 : f32[2,2,6,4] user "k"
    %2 : f32[2,1,2,6,4] = aten.unsqueeze.default(self=%1, dim=1)
    %3 : f32[2,2,2,6,4] = aten.expand.default(self=%2, size=[2, 2, 2, 6, 4])
    %4 : f32[2,4,6,4] = aten.reshape.default(self=%3, shape=[2, 4, 6, 4])
    %5 : f32[2,4,6,4] = aten.scaled_dot_product_attention.default(query=%0, key=%4, value=%4, attn_mask=none, dropout_p=0.0, is_causal=true, scale=none, enable_gqa=false)
    output %5 ""
  })";
  ir::Graph graph = ir::parse(square).value();
  Options options;
  Report report;
  PassContext context{options, report};
  EXPECT_TRUE(foldRepeatKv(graph, context).isOk());
  EXPECT_FALSE(graph.op(graph.order().back()).boolArg("enable_gqa", true));
}

TEST(FoldRepeatKv, KeysAndValuesFoldTogetherOrNotAtAll) {
  EXPECT_EQ(folded(expanded("1", "1") +
                   "%20 : f32[2,8,6,4] = aten.cat.default(tensors=[%3, %3], dim=1)\n"),
            "");
  EXPECT_EQ(
      folded(expanded("1", "1") + "%20 : f32[2,8,6,4] = aten.repeat_interleave.self_int(self=%3, "
                                  "repeats=2, dim=1, output_size=none)\n"),
      "");
  EXPECT_EQ(folded("%10 : f32[2,8,6,4] = aten.repeat_interleave.self_int(self=%1, repeats=4, "
                   "dim=2, output_size=none)\n" +
                   expanded("2", "2")),
            "");
}

TEST(FoldRepeatKv, ASourceThatIsWrittenInPlaceStays) {
  EXPECT_EQ(folded(expanded("1", "1") + expanded("2", "2") +
                   "%30 : f32[2,2,6,4] = aten.mul_.Tensor(self=%1, other=2.0) {mutates}\n"),
            "");
}

}  // namespace
}  // namespace autosp::passes
