// In-place writes made values, what is refused, and which ops do nothing.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "autosp/ir/parser.h"
#include "autosp/ir/printer.h"
#include "autosp/ir/verifier.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

// Inputs: %0 f32[4,6] with a gradient, %1 f32[4,6] buffer, %2 i64[4,6], %3 f32[] constant.
ir::Graph graphOf(const std::string& body) {
  Result<ir::Graph> graph = ir::parse(
      "autosp.graph \"forward\" ranks=2 {\n"
      "input %0 : f32[4,6] grad parameter \"w\"\ninput %1 : f32[4,6] buffer \"b\"\n"
      "input %2 : i64[4,6] user \"ids\"\ninput %3 : f32[] constant \"c\"\n" +
      body + "}\n");
  EXPECT_TRUE(graph.isOk()) << (graph.isOk() ? "" : graph.diagnostic().text());
  return std::move(graph).value();
}

// Ops and outputs after the pass and removal of dead ops, without the inputs; or the error.
std::string canonical(const std::string& body) {
  ir::Graph graph = graphOf(body);
  Options options;
  Report report;
  PassContext context{options, report};
  const Status status = canonicalize(graph, context);
  if (!status.isOk()) {
    return status.diagnostic().text();
  }
  EXPECT_TRUE(ir::verify(graph).isOk());
  graph.removeDeadOps();
  std::string out;
  for (ir::OpId id : graph.order()) {
    out += ir::opText(graph, id) + "\n";
  }
  for (const ir::Output& output : graph.outputs()) {
    out += "output %" + std::to_string(output.value->index) + "\n";
  }
  return out;
}

const char* const kFresh =
    "%10 : f32[4,6] grad = aten.mul.Tensor(self=%0, other=2.0) {pointwise}\n";

TEST(Canonicalize, InPlaceOnAFreshTensor) {
  EXPECT_EQ(
      canonical(std::string(kFresh) +
                "%11 : f32[4,6] grad = aten.add_.Tensor(self=%10, other=%1, alpha=1) {pointwise, "
                "mutates}\n"
                "%12 : f32[4,6] grad = aten.relu.default(self=%10) {pointwise}\noutput %12 \"\"\n"),
      std::string(kFresh) +
          "%11 : f32[4,6] grad = aten.add.Tensor(self=%10, other=%1, alpha=1) {pointwise}\n"
          "%12 : f32[4,6] grad = aten.relu.default(self=%11) {pointwise}\noutput %12\n");
}

// A buffer filled by two writes to slices of it is the cat of what was written.
TEST(Canonicalize, WritesThroughSlicesBecomeACat) {
  EXPECT_EQ(
      canonical("%10 : f32[4,12] = aten.empty.memory_format(size=[4, 12])\n"
                "%11 : f32[4,6] = aten.slice.Tensor(self=%10, dim=1, start=0, end=6, step=1)\n"
                "%12 : f32[4,6] grad = aten.copy_.default(self=%11, src=%0, non_blocking=false) "
                "{mutates}\n"
                "%13 : f32[4,6] = aten.slice.Tensor(self=%10, dim=1, start=6, "
                "end=9223372036854775807, step=1)\n"
                "%14 : f32[4,6] = aten.fill_.Scalar(self=%13, value=1.0) {mutates}\n"
                "%15 : f32[4,12] = aten.relu.default(self=%10)\noutput %15 \"\"\n"),
      "%10 : f32[4,12] = aten.empty.memory_format(size=[4, 12])\n"
      "%16 : f32[4,6] grad = aten.clone.default(self=%0, memory_format=none)\n"
      "%17 : f32[4,6] = aten.slice.Tensor(self=%10, dim=1, start=6, end=12, step=1)\n"
      "%18 : f32[4,12] grad = aten.cat.default(tensors=[%16, %17], dim=1)\n"
      "%13 : f32[4,6] grad = aten.slice.Tensor(self=%18, dim=1, start=6, end=9223372036854775807, "
      "step=1)\n"
      "%14 : f32[4,6] = aten.full_like.default(self=%13, fill_value=1.0, dtype=none, layout=none, "
      "device=none, "
      "pin_memory=none, memory_format=none)\n"
      "%19 : f32[4,12] grad = aten.cat.default(tensors=[%16, %14], dim=1)\n"
      "%15 : f32[4,12] grad = aten.relu.default(self=%19)\noutput %15\n");
}

// A view taken before the write shows the new contents after it, in rows and through the transpose.
TEST(Canonicalize, ViewsAreTakenAgain) {
  EXPECT_EQ(
      canonical(
          std::string(kFresh) +
          "%11 : f32[6,4] grad = aten.transpose.int(self=%10, dim0=0, dim1=1)\n"
          "%12 : f32[4] grad = aten.select.int(self=%11, dim=0, index=-1)\n"
          "%13 : f32[4] grad = aten.neg_.default(self=%12) {pointwise, mutates}\n"
          "%14 : f32[6,4] grad = aten.exp.default(self=%11)\noutput %14 \"\"\noutput %10 \"\"\n"),
      std::string(kFresh) +
          "%11 : f32[6,4] grad = aten.transpose.int(self=%10, dim0=0, dim1=1)\n"
          "%12 : f32[4] grad = aten.select.int(self=%11, dim=0, index=-1)\n"
          "%13 : f32[4] grad = aten.neg.default(self=%12) {pointwise}\n"
          "%15 : f32[1,4] grad = aten.unsqueeze.default(self=%13, dim=0)\n"
          "%16 : f32[5,4] grad = aten.slice.Tensor(self=%11, dim=0, start=0, end=5, step=1)\n"
          "%17 : f32[6,4] grad = aten.cat.default(tensors=[%16, %15], dim=0)\n"
          "%18 : f32[4,6] grad = aten.transpose.int(self=%17, dim0=0, dim1=1)\n"
          "%14 : f32[6,4] grad = aten.exp.default(self=%17)\noutput %14\noutput %18\n");
}

TEST(Canonicalize, TheResultIsCastToWhatIsWritten) {
  EXPECT_EQ(
      canonical(
          "%10 : f16[4,6] = aten.zeros.default(size=[4, 6])\n"
          "%11 : f16[4,6] = aten.add_.Tensor(self=%10, other=%1, alpha=1) {pointwise, mutates}\n"
          "output %11 \"\"\n"),
      "%10 : f16[4,6] = aten.zeros.default(size=[4, 6])\n"
      "%11 : f32[4,6] = aten.add.Tensor(self=%10, other=%1, alpha=1) {pointwise}\n"
      "%12 : f16[4,6] = aten.to.dtype(self=%11, dtype=#\"torch.float16\", non_blocking=false, "
      "copy=false, "
      "memory_format=none)\noutput %12\n");
}

TEST(Canonicalize, AViewOfRewrittenContentsMayNeedACopy) {
  const std::string out =
      canonical(std::string(kFresh) +
                "%11 : f32[4,6] grad = aten.mul_.Tensor(self=%10, other=3.0) {pointwise, mutates}\n"
                "%12 : f32[24] grad = aten.view.default(self=%10, size=[24])\noutput %12 \"\"\n");
  EXPECT_NE(out.find("%12 : f32[24] grad = aten.reshape.default(self=%11, shape=[24])"),
            std::string::npos)
      << out;
}

TEST(Canonicalize, WritesToInputsStay) {
  const std::string body =
      "%10 : f32[4,6] = aten.mul_.Tensor(self=%1, other=0.9) {pointwise, mutates}\n"
      "%11 : f32[4,6] = aten.relu.default(self=%1) {pointwise}\noutput %11 \"\"\n";
  EXPECT_EQ(canonical(body),
            "%10 : f32[4,6] = aten.mul_.Tensor(self=%1, other=0.9) {pointwise, mutates}\n"
            "%11 : f32[4,6] = aten.relu.default(self=%1) {pointwise}\noutput %11\n");
}

TEST(Canonicalize, Refused) {
  EXPECT_EQ(
      canonical("%10 : f32[6] = aten.select.int(self=%1, dim=0, index=0)\n"
                "%11 : f32[6] = aten.zero_.default(self=%10) {mutates} at \"model.py:7\"\noutput "
                "%11 \"\"\n"),
      "aten.zero_.default on %11 (model.py:7): it writes in place through a view of an input. "
      "Write it out of place");
  EXPECT_EQ(canonical("%10 : f32[4,6] = aten.contiguous.default(self=%1)\n"
                      "%11 : f32[4,6] = aten.zero_.default(self=%10) {mutates}\noutput %11 \"\"\n"),
            "aten.zero_.default on %11: it writes in place to what may be a view of an input. "
            "Write it out of place");
  EXPECT_EQ(canonical(std::string(kFresh) +
                      "%11 : f32[24] grad = aten.reshape.default(self=%10, shape=[24])\n"
                      "%12 : f32[24] grad = aten.neg_.default(self=%11) {mutates}\n"
                      "%13 : f32[4,6] grad = aten.relu.default(self=%10)\noutput %13 \"\"\n"),
            "aten.relu.default on %13: it reads %10, which may share memory with what "
            "aten.neg_.default on %12 "
            "wrote in place. Write it out of place, or clone it before");
  EXPECT_EQ(
      canonical(std::string(kFresh) +
                "%11 : f32[4,6] grad = mylib.f_.default(self=%10) {mutates}\noutput %11 \"\"\n"),
      "mylib.f_.default on %11: it writes in place and has no out-of-place form that is known "
      "here. "
      "Write it out of place");
  EXPECT_EQ(
      canonical(std::string(kFresh) +
                "%11 : f32[2,4,6] grad = aten.expand.default(self=%10, size=[2, 4, 6])\n"
                "%12 : f32[2,4,6] grad = aten.neg_.default(self=%11) {mutates}\noutput %12 \"\"\n"),
      "aten.neg_.default on %12: it writes in place through aten.expand.default on %11. Write it "
      "out of place");
}

// The write is not recorded, so the gradient passes it by: a new value would cut it instead.
TEST(Canonicalize, WritesWithoutGradientsAreRefused) {
  EXPECT_EQ(
      canonical(
          std::string(kFresh) +
          "%11 : token = torch.set_grad_enabled(mode=false) {effect}\n"
          "%12 : f32[4,6] = aten.clamp_.default(self=%10, min=0, max=none) {pointwise, mutates}\n"
          "%13 : token = torch.set_grad_enabled(mode=true) {effect}\noutput %10 \"\"\n"),
      "aten.clamp_.default on %12: it writes in place, without gradients, to a tensor that has "
      "one. "
      "Write it out of place");
}

TEST(Canonicalize, OpsThatDoNothing) {
  EXPECT_EQ(
      canonical("%10 : i64[4,6] = aten.add.Tensor(self=%2, other=0, alpha=1) {pointwise}\n"
                "%11 : i64[4,6] = aten.slice.Tensor(self=%10, dim=1, start=0, "
                "end=9223372036854775807, step=1)\n"
                "%12 : i64[4,6] = aten.to.dtype(self=%11, dtype=#\"torch.int64\", "
                "non_blocking=false, copy=false, "
                "memory_format=none)\n"
                "%13 : i64[4,6] = aten.expand.default(self=%12, size=[4, -1], implicit=false)\n"
                "%14 : i64[4,6] = aten.detach.default(self=%13)\n"
                "%15 : i64[4,6] = aten.abs.default(self=%14) {pointwise}\noutput %15 \"\"\n"),
      "%15 : i64[4,6] = aten.abs.default(self=%2) {pointwise}\noutput %15\n");
  EXPECT_EQ(
      canonical(
          "%10 : f32[4,6] grad = aten.dropout.default(\"input\"=%0, p=0.5, train=false) {random}\n"
          "%11 : f32[4,6] grad = aten.dropout.default(\"input\"=%10, p=0.0, train=true) {random}\n"
          "%12 : f32[4,6] grad = aten.mul.Tensor(self=%11, other=1.0) {pointwise}\n"
          "%13 : f32[4,6] grad = aten.relu.default(self=%12)\noutput %13 \"\"\n"),
      "%13 : f32[4,6] grad = aten.relu.default(self=%0)\noutput %13\n");
  EXPECT_EQ(
      canonical("%10 : f32[] = aten.lift_fresh_copy.default(self=%3)\n"
                "%11 : f32[] = aten.detach_.default(self=%10) {mutates}\n"
                "%12 : f32[4,6] = aten.sub.Tensor(self=%1, other=%11, alpha=1)\noutput %12 \"\"\n"),
      "%12 : f32[4,6] = aten.sub.Tensor(self=%1, other=%3, alpha=1)\noutput %12\n");
}

TEST(Canonicalize, OpsThatDoSomethingStay) {
  const char* const kKept[] = {
      "%10 : f32[4,6] = aten.add.Tensor(self=%1, other=0, alpha=1)\n",  // turns -0 into 0
      "%10 : f32[4,6] = aten.detach.default(self=%0)\n",                // cuts the gradient
      "%10 : f32[4,6] grad = aten.dropout.default(\"input\"=%0, p=0.5, train=true) {random}\n",
      "%10 : f32[4,6] = aten.clone.default(self=%1, memory_format=none)\n",
      "%10 : f32[4,6] = aten.contiguous.default(self=%1)\n",
      "%10 : f32[4,6] = aten.to.device(self=%1, device=#\"cuda\", dtype=#\"torch.float32\", "
      "copy=false)\n",
      "%10 : f32[4,6] = aten.mul.Tensor(self=%0, other=1.0)\n",  // without gradient, in a no-grad
                                                                 // region
  };
  for (const std::string op : kKept) {
    const std::string name = op.substr(op.find("= ") + 2, op.find('(') - op.find("= ") - 2);
    EXPECT_NE(canonical(op + "%11 : f32[4,6] = aten.relu.default(self=%10)\noutput %11 \"\"\n")
                  .find(name),
              std::string::npos)
        << op;
  }
}

TEST(Canonicalize, NoOutputBecomesAnInput) {
  EXPECT_EQ(
      canonical("%10 : f32[4,6] grad = aten.view.default(self=%0, size=[4, 6])\noutput %10 \"\"\n"),
      "%10 : f32[4,6] grad = aten.view.default(self=%0, size=[4, 6])\noutput %10\n");
}

// A copy made before an input changes does not change with it.
TEST(Canonicalize, CopiesOfWrittenInputsStay) {
  const std::string out = canonical(
      "%10 : f32[4,6] = aten.mul.Tensor(self=%1, other=1.0)\n"
      "%11 : f32[4,6] = aten.zero_.default(self=%1) {mutates}\n"
      "%12 : f32[4,6] = aten.relu.default(self=%10)\noutput %12 \"\"\n");
  EXPECT_NE(out.find("aten.relu.default(self=%10)"), std::string::npos) << out;
}

}  // namespace
}  // namespace autosp::passes
