// Classes of ops of the joint graph, and what a second run costs.
#include "autosp/cost/op_class.h"

#include <gtest/gtest.h>

#include "autosp/ir/parser.h"

namespace autosp::cost {
namespace {

struct Case {
  const char* op;  // one line of a graph, over %0 : f32[64,64]
  OpClass kind;
};

ir::Graph graphOf(const std::string& line) {
  Result<ir::Graph> graph = ir::parse(
      "autosp.graph \"joint\" ranks=1 {\n  input %0 : f32[64,64] user \"x\"\n  " + line + "\n}\n");
  EXPECT_TRUE(graph.isOk()) << line;
  return std::move(graph).value();
}

TEST(OpClass, IsReadOffTheOp) {
  const Case cases[] = {
      {"%1 : f32[64,64] = aten.mm.default(self=%0, mat2=%0)", OpClass::kMatmul},
      {"%1 : f32[64,64] of %0 = aten.t.default(self=%0)", OpClass::kView},
      {"%1 : f32[64,64] = aten.exp.default(self=%0) {pointwise}", OpClass::kPointwise},
      {"%1 : f32[64,64] = aten.clone.default(self=%0)", OpClass::kPointwise},
      {"%1 : f32[64] = aten.sum.dim_IntList(self=%0)", OpClass::kReduction},
      {"%1 : f32[64,64] = aten.bernoulli.p(self=%0, p=0.5) {random}", OpClass::kRandom},
      {"%1 : f32[64,64] = _c10d_functional.all_to_all_single.default(input=%0)",
       OpClass::kCollective},
      {"%1 : f32[64,64] = mylib.f.default(x=%0)", OpClass::kOther},
      {"%1 : f32[64,64] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%0, "
       "dropout_p=0.0) {random}",
       OpClass::kAttention},
      {"%1 : f32[64,64] = aten._scaled_dot_product_cudnn_attention.default(query=%0, "
       "dropout_p=0.0) {random}",
       OpClass::kAttention},
      {"%1 : f32[64,64] = aten._scaled_dot_product_fused_attention_overrideable.default(query=%0) "
       "{random}",
       OpClass::kAttention},
      {"%1 : f32[64,64] = "
       "aten._scaled_dot_product_efficient_attention_backward.default(grad_out=%0)",
       OpClass::kAttention},
      {"%1 : f32[64,64] = higher_order.flex_attention(inputs=[%0])", OpClass::kAttention},
  };
  for (const Case& c : cases) {
    const ir::Graph graph = graphOf(c.op);
    EXPECT_EQ(classOf(graph, graph.op(graph.order()[0])), c.kind) << c.op;
  }
}

TEST(OpClass, AttentionIsRandomOnlyWithDropout) {
  for (const char* p : {"0.0", "0.1"}) {
    const ir::Graph graph = graphOf(
        "%1 : f32[64,64] = aten._scaled_dot_product_flash_attention.default(query=%0, dropout_p=" +
        std::string(p) + ") {random}");
    EXPECT_EQ(drawsRandomNumbers(graph.op(graph.order()[0])), std::string(p) == "0.1");
  }
}

TEST(OpClass, ASecondRunCostsWorkAndALaunch) {
  const Machine machine{1e12, 1e9, 1e9, 1e-6, 1e-6};
  const auto time = [&](const std::string& line, bool away = false) {
    const ir::Graph graph = graphOf(line);
    const ir::Op& op = graph.op(graph.order()[0]);
    return rerunTime(machine, graph, op, classOf(graph, op), away);
  };
  // 16 KiB are read and written at 1 GB/s: 32.768 us; a copy of one operand is read once.
  EXPECT_EQ(time("%1 : f32[64,64] = aten.exp.default(self=%0) {pointwise}"), 33'768'000);
  EXPECT_EQ(time("%1 : f32[64,64] = aten.mul.Tensor(self=%0, other=%0) {pointwise}"), 33'768'000);
  EXPECT_EQ(time("%1 : f32[64,64] = aten.exp.default(self=%0) {pointwise}", true), 0);
  EXPECT_EQ(time("%1 : f32[64,64] of %0 = aten.t.default(self=%0)"), 0);
  // A collective: 16,384 bytes over the link, its latency, and the launch.
  EXPECT_EQ(time("%1 : f32[64,64] = _c10d_functional.all_to_all_single.default(input=%0)"),
            18'384'000);
}

}  // namespace
}  // namespace autosp::cost
