// Which masks are known for what they say, through the ops that models build them with; and which
// stay.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "autosp/ir/parser.h"
#include "autosp/ir/verifier.h"
#include "autosp/passes/masks.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

ir::Graph parsed(const std::string& text) {
  Result<ir::Graph> graph = ir::parse(text);
  EXPECT_TRUE(graph.isOk()) << (graph.isOk() ? "" : graph.diagnostic().text());
  return std::move(graph).value();
}

// Attention over 6 queries and `keys` keys whose mask is value %mask of the body; batch 2. Values
// %0 to %3 are the query [2,4,6,8], keys and values, and i64[2,6] data.
ir::Graph attention(const std::string& body, int mask, int keys = 6,
                    const std::string& extra = "") {
  const std::string k = std::to_string(keys);
  return parsed(
      "autosp.graph \"forward\" ranks=2 {\n"
      "input %0 : f32[2,4,6,8] grad user \"q\"\n"
      "input %1 : f32[2,4," +
      k +
      ",8] grad user \"k\"\n"
      "input %2 : f32[2,4," +
      k +
      ",8] grad user \"v\"\n"
      "input %3 : i64[2,6] user \"data\"\n" +
      extra + body +
      "%99 : f32[2,4,6,8] grad = aten.scaled_dot_product_attention.default(query=%0, key=%1, "
      "value=%2, "
      "attn_mask=%" +
      std::to_string(mask) +
      ", dropout_p=0.1, is_causal=false, scale=0.5, enable_gqa=false)\n"
      "output %99 \"\"\n}\n");
}

struct Outcome {
  std::string kind;  // "none", "causal" or "kept"
  std::string predicate;
};

Outcome analyzed(ir::Graph graph) {
  Options options;
  Report report;
  PassContext context{options, report};
  const Status status = analyzeMasks(graph, context);
  EXPECT_TRUE(status.isOk());
  EXPECT_TRUE(ir::verify(graph).isOk());
  const ir::Op& op = graph.op(graph.order().back());
  EXPECT_EQ(op.floatArg("dropout_p", 0), 0.1);
  EXPECT_EQ(op.floatArg("scale", 0), 0.5);
  const bool kept = op.has("attn_mask");
  EXPECT_EQ(report.diagnostics().size(), kept ? 1U : 0U);
  const std::string entry = report.entries().empty() ? "" : report.entries()[0].value;
  return {kept                             ? "kept"
          : op.boolArg("is_causal", false) ? "causal"
                                           : "none",
          entry.substr(entry.find(": ") + 2)};
}

// %10 : i64[6,1] and %11 : i64[1,6], the positions of queries and keys.
const char* const kPositions =
    "%8 : i64[6] = aten.arange.default(end=6, dtype=none)\n"
    "%10 : i64[6,1] = aten.unsqueeze.default(self=%8, dim=1)\n"
    "%11 : i64[1,6] = aten.unsqueeze.default(self=%8, dim=0)\n";

TEST(AnalyzeMasks, KeyAtMostQueryIsCausal) {
  const std::string body =
      kPositions + std::string("%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n");
  EXPECT_EQ(analyzed(attention(body, 12)).kind, "causal");
}

// transformers builds this when no mask is given: documents are looked for in positions that have
// none.
TEST(AnalyzeMasks, DocumentsFoundInPlainPositionsAreOne) {
  const std::string body =
      kPositions +
      std::string(
          "%20 : i64[2,6] = aten.expand.default(self=%11, size=[2, -1])\n"
          "%21 : i64[2,1] = aten.slice.Tensor(self=%20, dim=1, start=0, end=1, step=1)\n"
          "%22 : i64[2,1] = aten.sub.Tensor(self=%21, other=1, alpha=1)\n"
          "%23 : i64[2,6] = aten.diff.default(self=%20, n=1, dim=-1, prepend=%22, append=none)\n"
          "%24 : b8[2,6] = aten.ne.Scalar(self=%23, other=1)\n"
          "%25 : i64[2,6] = aten.cumsum.default(self=%24, dim=-1, dtype=none)\n"
          "%26 : i64[2] = aten.arange.default(end=2)\n"
          "%27 : i64[2,1,1,1] = aten.view.default(self=%26, size=[2, 1, 1, 1])\n"
          "%28 : i64[1,1,6,1] = aten.view.default(self=%10, size=[1, 1, 6, 1])\n"
          "%29 : i64[1,1,1,6] = aten.view.default(self=%11, size=[1, 1, 1, 6])\n"
          "%30 : i64[2,1,6,1] = aten.index.Tensor(self=%25, indices=[%27, %28])\n"
          "%31 : i64[2,1,1,6] = aten.index.Tensor(self=%25, indices=[%27, %29])\n"
          "%32 : b8[2,1,6,6] = aten.eq.Tensor(self=%30, other=%31)\n"
          "%33 : b8[1,1,6,6] = aten.le.Tensor(self=%29, other=%28)\n"
          "%34 : b8[] = aten.new_ones.default(self=%28, size=[])\n"
          "%35 : b8[1,1,6,6] = aten.__and__.Tensor(self=%34, other=%33)\n"
          "%36 : b8[2,1,6,6] = aten.__and__.Tensor(self=%35, other=%32)\n"
          "%37 : b8[2,1,6,6] = aten.expand.default(self=%36, size=[2, -1, 6, 6])\n");
  EXPECT_EQ(analyzed(attention(body, 37)).kind, "causal");
}

TEST(AnalyzeMasks, PackedPositionsStay) {
  const std::string body =
      kPositions +
      std::string(
          "%21 : i64[2,1] = aten.slice.Tensor(self=%3, dim=1, start=0, end=1, step=1)\n"
          "%23 : i64[2,6] = aten.diff.default(self=%3, n=1, dim=-1, prepend=%21, append=none)\n"
          "%24 : b8[2,6] = aten.ne.Scalar(self=%23, other=1)\n"
          "%25 : i64[2,6] = aten.cumsum.default(self=%24, dim=-1, dtype=none)\n"
          "%30 : i64[2,1,6,1] = aten.view.default(self=%25, size=[2, 1, 6, 1])\n"
          "%31 : i64[2,1,1,6] = aten.view.default(self=%25, size=[2, 1, 1, 6])\n"
          "%32 : b8[2,1,6,6] = aten.eq.Tensor(self=%30, other=%31)\n"
          "%33 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n"
          "%36 : b8[2,1,6,6] = aten.__and__.Tensor(self=%33, other=%32)\n");
  const Outcome outcome = analyzed(attention(body, 36));
  EXPECT_EQ(outcome.kind, "kept");
  EXPECT_EQ(outcome.predicate, "((-q + k <= 0) and (%25[b, q] - %25[b, k] == 0))");
}

TEST(AnalyzeMasks, PaddingStays) {
  const std::string body =
      kPositions + std::string(
                       "%20 : b8[2,6] = aten.to.dtype(self=%3, dtype=#\"torch.bool\")\n"
                       "%21 : b8[2,1,1,6] = aten.view.default(self=%20, size=[2, 1, 1, 6])\n"
                       "%33 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n"
                       "%36 : b8[2,1,6,6] = aten.__and__.Tensor(self=%33, other=%21)\n");
  const Outcome outcome = analyzed(attention(body, 36));
  EXPECT_EQ(outcome.kind, "kept");
  EXPECT_EQ(outcome.predicate, "((-q + k <= 0) and !(%3[b, k] == 0))");
}

TEST(AnalyzeMasks, WindowsStayUnlessTheyHoldEverything) {
  const auto window = [](int width) {
    return kPositions + std::string("%20 : i64[6,1] = aten.sub.Tensor(self=%10, other=") +
           std::to_string(width) +
           ", alpha=1)\n"
           "%21 : b8[6,6] = aten.gt.Tensor(self=%11, other=%20)\n"
           "%22 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n"
           "%23 : b8[6,6] = aten.bitwise_and.Tensor(self=%21, other=%22)\n";
  };
  EXPECT_EQ(analyzed(attention(window(6), 23)).kind, "causal");
  EXPECT_EQ(analyzed(attention(window(5), 23)).kind, "kept");
}

TEST(AnalyzeMasks, AlwaysTrueIsNoMask) {
  const std::string body =
      kPositions + std::string(
                       "%12 : b8[6,1] = aten.ge.Scalar(self=%10, other=0)\n"
                       "%13 : b8[2,1,6,6] = aten.expand.default(self=%12, size=[2, 1, 6, 6])\n");
  EXPECT_EQ(analyzed(attention(body, 13)).kind, "none");
  EXPECT_EQ(analyzed(attention("%12 : b8[6,6] = aten.ones.default(size=[6, 6])\n", 12)).kind,
            "none");
}

TEST(AnalyzeMasks, TrianglesOfOnes) {
  const auto triangle = [](const std::string& op, int diagonal) {
    return "%12 : b8[6,6] = aten.ones.default(size=[6, 6])\n%13 : b8[6,6] = " + op +
           "(self=%12, diagonal=" + std::to_string(diagonal) + ")\n";
  };
  EXPECT_EQ(analyzed(attention(triangle("aten.tril.default", 0), 13)).kind, "causal");
  EXPECT_EQ(analyzed(attention(triangle("aten.tril.default", 1), 13)).kind, "kept");
  EXPECT_EQ(analyzed(attention(triangle("aten.triu.default", 0), 13)).kind, "kept");
  EXPECT_EQ(analyzed(attention(triangle("aten.triu.default", 1) +
                                   "%14 : b8[6,6] = aten.logical_not.default(self=%13)\n",
                               14))
                .kind,
            "causal");
}

// is_causal aligns the first query with the first key: with more keys than queries it is another
// mask.
TEST(AnalyzeMasks, OtherLengthsAndOtherCornersStay) {
  const std::string keys =
      "%8 : i64[6] = aten.arange.default(end=6)\n%9 : i64[9] = aten.arange.default(end=9)\n"
      "%10 : i64[6,1] = aten.unsqueeze.default(self=%8, dim=1)\n";
  EXPECT_EQ(
      analyzed(attention(keys + "%12 : b8[6,9] = aten.le.Tensor(self=%9, other=%10)\n", 12, 9))
          .kind,
      "kept");
  const std::string transposed =
      kPositions + std::string(
                       "%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n"
                       "%13 : b8[6,6] = aten.transpose.int(self=%12, dim0=0, dim1=1)\n");
  EXPECT_EQ(analyzed(attention(transposed, 13)).kind, "kept");
}

TEST(AnalyzeMasks, AdditiveMasksByTheirFill) {
  const auto additive = [](const std::string& dtype, const std::string& fill) {
    return kPositions + std::string("%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n") +
           "%13 : " + dtype + "[6,6] = aten.zeros.default(size=[6, 6])\n%14 : " + dtype +
           "[6,6] = aten.where.ScalarOther(condition=%12, self=%13, other=" + fill + ")\n";
  };
  EXPECT_EQ(analyzed(attention(additive("f32", "-inf"), 14)).kind, "causal");
  EXPECT_EQ(analyzed(attention(additive("f32", "-3.4028234663852886e+38"), 14)).kind, "causal");
  EXPECT_EQ(analyzed(attention(additive("f32", "-1e9"), 14)).kind, "kept");
  EXPECT_EQ(analyzed(attention(additive("f32", "1.0"), 14)).kind, "kept");
  EXPECT_EQ(analyzed(attention(additive("f16", "-3.4028234663852886e+38"), 14)).kind, "causal");
  EXPECT_EQ(analyzed(attention(additive("bf16", "-3.3895313892515355e+38"), 14)).kind, "causal");
  EXPECT_EQ(analyzed(attention("%14 : f32[6,6] = aten.zeros.default(size=[6, 6])\n", 14)).kind,
            "none");
}

TEST(AnalyzeMasks, MaskedFillHasTheOtherPolarity) {
  const std::string body =
      kPositions +
      std::string(
          "%12 : b8[6,6] = aten.gt.Tensor(self=%11, other=%10)\n"
          "%13 : f32[6,6] = aten.zeros.default(size=[6, 6])\n"
          "%14 : f32[6,6] = aten.masked_fill.Scalar(self=%13, mask=%12, value=-inf)\n");
  EXPECT_EQ(analyzed(attention(body, 14)).kind, "causal");
}

// An 8-bit position wraps and a bfloat16 one rounds: such arithmetic is not looked into.
TEST(AnalyzeMasks, NarrowIntegersAndFloatsAreNotComputedWith) {
  const std::string narrow =
      "%8 : u8[6] = aten.arange.default(end=6)\n%10 : u8[6,1] = aten.unsqueeze.default(self=%8, "
      "dim=1)\n"
      "%11 : u8[1,6] = aten.unsqueeze.default(self=%8, dim=0)\n";
  EXPECT_EQ(
      analyzed(attention(narrow + "%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n", 12))
          .kind,
      "causal");
  EXPECT_EQ(
      analyzed(attention(narrow + "%12 : u8[6,1] = aten.sub.Tensor(self=%10, other=1, alpha=1)\n"
                                  "%13 : b8[6,6] = aten.gt.Tensor(self=%11, other=%12)\n",
                         13))
          .kind,
      "kept");
  // 0 >= 300 is decided in uint8, where 300 is 44.
  EXPECT_EQ(
      analyzed(attention(narrow + "%12 : b8[6,1] = aten.le.Scalar(self=%10, other=300)\n"
                                  "%13 : b8[6,6] = aten.expand.default(self=%12, size=[6, 6])\n",
                         13))
          .kind,
      "kept");
  const std::string floats =
      "%8 : bf16[6] = aten.arange.default(end=6)\n%10 : bf16[6,1] = "
      "aten.unsqueeze.default(self=%8, dim=1)\n"
      "%11 : bf16[1,6] = aten.unsqueeze.default(self=%8, dim=0)\n";
  EXPECT_EQ(
      analyzed(attention(floats + "%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n", 12))
          .kind,
      "kept");
}

TEST(AnalyzeMasks, NegativeIndicesWrap) {
  const auto indexed = [](int shift) {
    return kPositions + std::string("%12 : i64[6] = aten.sub.Tensor(self=%8, other=") +
           std::to_string(shift) +
           ", alpha=1)\n%13 : i64[6] = aten.index.Tensor(self=%8, indices=[%12])\n"
           "%14 : i64[6,1] = aten.unsqueeze.default(self=%13, dim=1)\n"
           "%15 : b8[6,6] = aten.le.Tensor(self=%11, other=%14)\n";
  };
  EXPECT_EQ(analyzed(attention(indexed(0), 15)).kind, "causal");
  EXPECT_EQ(analyzed(attention(indexed(1), 15)).kind, "kept");
}

// Batch, heads and length may have one size: index variables tell them apart.
TEST(AnalyzeMasks, SizesDecideNothing) {
  ir::Graph graph = parsed(R"(autosp.graph "forward" ranks=2 {
    input %0 : f32[3,3,3,8] user "q"
    %1 : i64[3] = aten.arange.default(end=3)
    %2 : i64[3,1,1,1] = aten.view.default(self=%1, size=[3, 1, 1, 1])
    %3 : i64[1,1,1,3] = aten.view.default(self=%1, size=[1, 1, 1, 3])
    %4 : b8[3,1,1,3] = aten.le.Tensor(self=%3, other=%2)
    %5 : b8[3,1,3,3] = aten.expand.default(self=%4, size=[3, 1, 3, 3])
    %6 : f32[3,3,3,8] = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=%5, dropout_p=0.1, is_causal=false, scale=0.5, enable_gqa=false)
    output %6 ""
  })");
  EXPECT_EQ(analyzed(std::move(graph)).kind, "kept");
}

TEST(AnalyzeMasks, WhatIsWrittenInPlaceHasNoExpression) {
  const std::string body =
      kPositions + std::string(
                       "%12 : b8[6,6] = aten.le.Tensor(self=%11, other=%10)\n"
                       "%13 : b8[6,6] = aten.logical_not_.default(self=%12) {mutates}\n");
  const Outcome outcome = analyzed(attention(body, 12));
  EXPECT_EQ(outcome.kind, "kept");
  EXPECT_EQ(outcome.predicate, "?");
}

TEST(AnalyzeMasks, ATrainedBiasStays) {
  EXPECT_EQ(analyzed(attention("", 4, 6, "input %4 : f32[6,6] grad parameter \"bias\"\n")).kind,
            "kept");
  EXPECT_EQ(analyzed(attention("", 4, 6, "input %4 : b8[6,6] user \"mask\"\n")).predicate,
            "%4[q, k]");
}

TEST(ExactReal, RoundsNothing) {
  EXPECT_EQ(exactReal(0.5, ir::DType::kBF16), 0.5);
  EXPECT_EQ(exactReal(0.1, ir::DType::kF32), std::nullopt);
  EXPECT_EQ(exactReal(0.1, ir::DType::kF64), 0.1);
  EXPECT_EQ(exactReal(-65504.0, ir::DType::kF16), -65504.0);
  EXPECT_EQ(exactReal(-1e9, ir::DType::kF16), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(exactReal(257.0, ir::DType::kBF16), std::nullopt);
}

}  // namespace
}  // namespace autosp::passes
