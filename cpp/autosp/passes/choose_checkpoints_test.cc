// The pass on small joint graphs: what each option saves and runs again, whose tags are honoured,
// what is refused. Algorithms have their own tests (checkpoint/, cost/liveness_test.cc).
#include <gtest/gtest.h>

#include <string>

#include "autosp/ir/parser.h"
#include "autosp/passes/checkpoint_report.h"
#include "autosp/passes/joint_program.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

// Two blocks x -> x + mm(tanh(mm(x))) of [4096,256] (4 MiB a value) and attention between them;
// every result of the backward is written by hand. `traits` goes to the first tanh.
ir::Graph blocks(const std::string& traits = "{pointwise}") {
  Result<ir::Graph> graph = ir::parse(R"(autosp.graph "joint" ranks=2 {
  input %0 : f32[4096,256] user "x"
  input %1 : f32[256,256] grad parameter "w"
  input %2 : f32[1,8,4096,32] tangent "t"
  %3 : f32[4096,256] = aten.mm.default(self=%0, mat2=%1)
  %4 : f32[4096,256] = aten.tanh.default(self=%3) )" +
                                      traits + R"( at "m.py:4"
  %5 : f32[4096,256] = aten.mm.default(self=%4, mat2=%1)
  %6 : f32[4096,256] = aten.add.Tensor(self=%3, other=%5) {pointwise}
  %7 : f32[1,8,4096,32] of %6 = aten.view.default(self=%6)
  %8 : f32[1,8,4096,32], %9 : f32[1,8,4096] = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%7, key=%7, value=%7, dropout_p=0.0, is_causal=true) {random}
  %10 : f32[1,8,4096,32] = aten.add.Tensor(self=%7, other=%8) {pointwise}
  %11 : f32[1,8,4096,32] = aten.tanh.default(self=%10) {pointwise}
  %12 : f32[1,8,4096,32] = aten.mul.Tensor(self=%2, other=%11) {pointwise}
  %13 : f32[1,8,4096,32] = aten.mul.Tensor(self=%12, other=%10) {pointwise}
  %14 : f32[1,8,4096,32], %15 : f32[1,8,4096,32], %16 : f32[1,8,4096,32] = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(grad_out=%13, query=%7, key=%7, value=%7, out=%8, logsumexp=%9, dropout_p=0.0, is_causal=true)
  %17 : f32[4096,256] of %14 = aten.view.default(self=%14)
  %18 : f32[4096,256] = aten.mul.Tensor(self=%17, other=%4) {pointwise}
  %19 : f32[256,4096] of %18 = aten.t.default(self=%18)
  %20 : f32[256,256] = aten.mm.default(self=%19, mat2=%0)
  output %11 "y"
  output none "gradient0" gradient
  output %20 "gradient1" gradient
})");
  EXPECT_TRUE(graph.isOk()) << (graph.isOk() ? "" : graph.diagnostic().text());
  return std::move(graph).value();
}

struct Outcome {
  std::string saved;       // "%6 %8 "
  std::string recomputed;  // results of the ops that run again, views apart
  std::string error;
  Report report;
};

Outcome chosen(ir::Graph graph, const std::vector<std::pair<std::string, std::string>>& given) {
  Outcome out;
  Options options;
  EXPECT_TRUE(setOption(options, "fused", "false").isOk());
  for (const auto& [name, value] : given) {
    EXPECT_TRUE(setOption(options, name, value).isOk()) << name;
  }
  PassContext context{options, out.report};
  if (const Status status = chooseCheckpoints(graph, context); !status.isOk()) {
    out.error = status.diagnostic().text();
    return out;
  }
  for (std::size_t v = 0; v < graph.valueCount(); ++v) {
    out.saved += graph.value(ir::ValueId(v)).saved ? "%" + std::to_string(v) + " " : "";
  }
  for (ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.traits.recompute && !graph.value(op.results[0]).base.valid()) {
      out.recomputed += "%" + std::to_string(op.results[0].index) + " ";
    }
  }
  return out;
}

constexpr std::int64_t kValue = 4096 * 256 * 4;

TEST(ChooseCheckpoints, SequenceAwareKeepsAttentionAndRunsCheapOpsAgain) {
  // What attention reads and makes is saved; %10 and its tanh are cheap. %3 is a boundary, so it is
  // not made again: it or %4 is saved, the same bytes, and with %4 less is run again.
  const Outcome out = chosen(blocks(), {{"checkpoint", "sac"}});
  EXPECT_EQ(out.error, "");
  EXPECT_EQ(out.saved, "%4 %6 %8 %9 ");
  EXPECT_EQ(out.recomputed, "%10 %11 ");
  const CheckpointSummary& s = *out.report.checkpoints;
  EXPECT_EQ(s.saved, 3 * kValue + 4096 * 8 * 4);
  EXPECT_EQ(s.saved,
            s.saved_attention + s.saved_mlp + s.saved_residual + s.saved_loss + s.saved_other);
  EXPECT_EQ(s.recomputed_ops, 2);
  EXPECT_EQ(s.recomputed_matmuls, 0);
  EXPECT_EQ(s.recomputed_attention, 0);
  EXPECT_EQ(s.mode, "sac");
  EXPECT_EQ(s.stock_peak, -1);
}

TEST(ChooseCheckpoints, FullSavesTheInputOfTheLayer) {
  const Outcome out = chosen(blocks(), {{"checkpoint", "full"}});
  EXPECT_EQ(out.saved, "%6 ");
  EXPECT_EQ(out.recomputed, "%3 %4 %8 %10 %11 ");
  EXPECT_EQ(out.report.checkpoints->recomputed_attention, 1);
}

TEST(ChooseCheckpoints, AUsersPolicyIsHonoured) {
  const Outcome kept = chosen(blocks("{pointwise, keep}"), {{"checkpoint", "full"}});
  EXPECT_EQ(kept.saved, "%4 %6 ");
  EXPECT_EQ(kept.recomputed, "%8 %10 %11 ");
  // Nothing made by %4's op is saved: what it reads is, since that is a boundary.
  const Outcome again = chosen(blocks("{pointwise, recompute}"), {{"checkpoint", "sac"}});
  EXPECT_EQ(again.saved, "%3 %6 %8 %9 ");
  EXPECT_EQ(again.recomputed, "%4 %10 %11 ");
}

TEST(ChooseCheckpoints, StockIsWhatTheGraphMarks) {
  ir::Graph graph = blocks();
  for (int v : {4, 6, 8, 9, 10, 11}) {
    graph.value(ir::ValueId(static_cast<std::size_t>(v))).saved = true;
  }
  const Outcome out = chosen(graph, {{"checkpoint", "stock"}});
  EXPECT_EQ(out.saved, "%4 %6 %8 %9 %10 %11 ");
  EXPECT_EQ(out.recomputed, "");
  EXPECT_EQ(out.report.checkpoints->stock_peak, out.report.checkpoints->peak);
}

TEST(ChooseCheckpoints, ABudgetTakesTheFastestPlanThatFits) {
  const Outcome all = chosen(blocks(), {});
  const auto& frontier = all.report.checkpoints->frontier;
  ASSERT_GE(frontier.size(), 2U);
  for (std::size_t k = 1; k < frontier.size(); ++k) {
    EXPECT_LT(frontier[k - 1].first, frontier[k].first);
    EXPECT_GT(frontier[k - 1].second, frontier[k].second);
  }
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    for (std::int64_t slack : {0, 1}) {
      const Outcome out =
          chosen(blocks(), {{"memory_budget", std::to_string(frontier[k].first + slack)}});
      EXPECT_EQ(out.report.checkpoints->peak, frontier[k].first);
      EXPECT_EQ(out.report.checkpoints->recompute_time, frontier[k].second);
      EXPECT_EQ(out.report.checkpoints->mode, "budget");
    }
  }
}

TEST(ChooseCheckpoints, ABudgetThatNothingFitsIsRefused) {
  const std::int64_t least = chosen(blocks(), {}).report.checkpoints->frontier.front().first;
  const std::int64_t gradients = 256 * 256 * 4;
  const std::string smallest = "the smallest simulated peak is " + bytesText(least) + ", " +
                               bytesText(gradients) + " of it gradients. Raise memory_budget to " +
                               bytesText(least);
  // What is not gradients grows with the sequence.
  const std::int64_t length = 8192 * (1'000'000 - gradients) / (least - gradients);
  EXPECT_EQ(chosen(blocks(), {{"memory_budget", "1000000"}, {"sequence_length", "8192"}}).error,
            "no checkpointing plan fits memory_budget (976.6 KiB): " + smallest +
                ", or shorten the sequence from 8192 to about " + std::to_string(length) +
                ", or use more ranks");
  EXPECT_EQ(chosen(blocks(), {{"memory_budget", "1000"}, {"sequence_length", "8192"}}).error,
            "no checkpointing plan fits memory_budget (1000 bytes): " + smallest +
                "; no sequence is short enough, since the gradients alone take 256.0 KiB");
  EXPECT_EQ(chosen(blocks(), {{"memory_budget", std::to_string(least - 1)}}).error,
            "no checkpointing plan fits memory_budget (" + bytesText(least - 1) + "): " + smallest +
                ", or use more ranks");
}

TEST(ChooseCheckpoints, APolicyThatNoPlanCanFollowIsRefused) {
  // The op changes its operand in place: a second run would change it twice.
  const Outcome out = chosen(blocks("{mutates, recompute}"), {});
  EXPECT_EQ(
      out.error,
      "aten.tanh.default on %4 (m.py:4): the backward would have to run this op again, but it "
      "reads an input that the program overwrites, or changes its operands, so a second run "
      "would give other numbers. Take it out of the checkpointed region, or let the checkpoint "
      "policy save it");
}

TEST(ChooseCheckpoints, AnOpWithoutAPriceIsKeptAndNamed) {
  ir::Graph graph = blocks();
  graph.op(graph.order()[1]).name = "mylib.rope.default";
  graph.op(graph.order()[1]).traits.pointwise = false;
  const Outcome out = chosen(graph, {{"checkpoint", "full"}});
  EXPECT_NE(out.saved.find("%4 "), std::string::npos);
  ASSERT_EQ(out.report.diagnostics().size(), 1U);
  EXPECT_EQ(severityText(out.report.diagnostics()[0]),
            "remark: mylib.rope.default on %4 (m.py:4): ops without a price are never run again: "
            "mylib.rope.default");
}

TEST(JointProgram, SaysWhatRunsWhere) {
  const ir::Graph graph = blocks();
  const JointView view = jointProgram(graph, cost::Machine(), false);
  const cost::JointProgram& p = view.program;
  ASSERT_EQ(p.ops.size(), graph.order().size());
  std::string backward;
  for (std::size_t o = 0; o < p.ops.size(); ++o) {
    backward += p.ops[o].backward ? "b" : "f";
  }
  EXPECT_EQ(backward, "ffffffffbbbbbbb");
  EXPECT_EQ(p.values[7].base, 6);
  EXPECT_EQ(p.values[7].bytes, 0);
  EXPECT_EQ(p.values[6].bytes, kValue);
  EXPECT_EQ(p.ops[5].kind, cost::OpClass::kAttention);
  EXPECT_FALSE(p.ops[5].once);  // tagged random, without dropout
  EXPECT_EQ(p.ops[5].flops, 2LL * 8 * 4096 * 32 * 4096);
  EXPECT_EQ(p.ops[10].flops, 5LL * 8 * 4096 * 32 * 4096);
  EXPECT_EQ(p.ops[0].flops, 2LL * 4096 * 256 * 256);
  EXPECT_EQ(p.ops[4].time, 0);
  EXPECT_EQ(p.results, (std::vector<cost::ValueIndex>{11}));
  EXPECT_EQ(p.gradients, (std::vector<cost::ValueIndex>{20}));
}

TEST(JointProgram, ReadersOfOverwrittenInputsRunOnce) {
  Result<ir::Graph> graph = ir::parse(R"(autosp.graph "joint" ranks=1 {
  input %0 : f32[8] buffer "mean"
  input %1 : f32[8] grad parameter "w"
  input %2 : f32[8] tangent "t"
  %3 : f32[8] of %0 = aten.view.default(self=%0)
  %4 : f32[8] = aten.add.Tensor(self=%3, other=%1) {pointwise}
  %5 : f32[8] = aten.exp.default(self=%1) {pointwise}
  %6 : f32[8] = aten.cos.default(self=%1) {pointwise}
  %7 : f32[8] = aten.mul.Tensor(self=%2, other=%6) {pointwise}
  output %4 "y"
  output %5 "mean" writes %0
  output %7 "g" gradient
})");
  ASSERT_TRUE(graph.isOk());
  const JointView view = jointProgram(graph.value(), cost::Machine(), false);
  EXPECT_TRUE(view.program.values[0].overwritten);
  EXPECT_TRUE(view.program.ops[1].once);
  EXPECT_FALSE(view.program.ops[2].once);
  EXPECT_TRUE(view.program.ops[3].deferred);  // only the backward needs it: it runs there, once
  EXPECT_EQ(view.program.ops[3].time, 0);
}

TEST(CheckpointReport, BytesForAPerson) {
  EXPECT_EQ(bytesText(1023), "1023 bytes");
  EXPECT_EQ(bytesText(1024), "1.0 KiB");
  EXPECT_EQ(bytesText(12 << 20), "12.0 MiB");
  EXPECT_EQ(bytesText(40LL << 30), "40.00 GiB");
}

}  // namespace
}  // namespace autosp::passes
