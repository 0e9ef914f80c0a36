// Each rule of the verifier: a graph that breaks it, and the message.
#include "autosp/ir/verifier.h"

#include <gtest/gtest.h>

#include "autosp/ir/parser.h"

namespace autosp::ir {
namespace {

std::string fault(const Graph& graph) {
  const Status status = verify(graph);
  return status.isOk() ? "" : status.diagnostic().text();
}

Graph parsed(const std::string& body, int ranks = 2) {
  Result<Graph> graph =
      parse("autosp.graph \"g\" ranks=" + std::to_string(ranks) + " {\n" + body + "}\n");
  AUTOSP_CHECK(graph.isOk(), graph.diagnostic().text());
  return std::move(graph).value();
}

// Two ops in a row: %1 = relu(%0), %2 = exp(%1), which is returned.
Graph chain() {
  return parsed(R"(
    input %0 : f32[4,6] user "x"
    %1 : f32[4,6] = aten.relu.default(self=%0) at "m.py:1"
    %2 : f32[4,6] = aten.exp.default(self=%1) at "m.py:2"
    output %2 "y")");
}

TEST(Verifier, AcceptsALegalGraph) {
  EXPECT_EQ(fault(chain()), "");
  EXPECT_EQ(fault(Graph()), "");
  EXPECT_EQ(fault(parsed(R"(
    input %0 : f32[4,6] grad user "x" @S(1,outer=2,base=9,shift=2)
    %1 : token = torch.enter_autocast(device=#"cpu") {effect}
    %2 : f32[4,6] @P = aten.mm.default(self=%0) needs [S(0,base=4)]
    torch.exit_autocast(state=%1) {effect}
    output %2 "y" @R
    output none "z")")),
            "");
}

TEST(Verifier, WantsAnOwnerOfSharedMemory) {
  const std::string body = R"(
    input %0 : f32[4] user "x"
    %1 : f32[4] = aten.exp.default(self=%0)
    %2 : f32[4] of %1 = aten.view.default(self=%1) at "m.py:1"
    output %2 "y")";
  Graph graph = parsed(body);
  EXPECT_EQ(fault(graph), "");
  graph.value(ValueId(2)).saved = true;
  EXPECT_EQ(fault(graph),
            "aten.view.default on %2 (m.py:1): %2 is saved and has no memory of its own");
  graph = parsed(body);
  graph.value(ValueId(1)).base = ValueId(0);
  EXPECT_EQ(fault(graph),
            "aten.view.default on %2 (m.py:1): %2 shares the memory of %1, which has none of its "
            "own");
  graph = parsed(body);
  graph.value(ValueId(2)).base = ValueId(2);
  EXPECT_EQ(fault(graph), "aten.view.default on %2 (m.py:1): %2 shares the memory of itself");
  graph = parsed(body);
  graph.value(ValueId(2)).base = ValueId(9);
  EXPECT_EQ(fault(graph),
            "aten.view.default on %2 (m.py:1): %2 shares the memory of %9, which does not exist");
  graph = parsed(body);
  graph.outputs()[0].writes = ValueId(1);
  EXPECT_EQ(fault(graph), "output \"y\" writes %1, which is no input");
}

TEST(Verifier, WantsDefinitionBeforeUse) {
  Graph graph = chain();
  graph.op(graph.order()[0]).set("self", Attr(ValueId(2)));
  EXPECT_EQ(fault(graph),
            "aten.relu.default on %1 (m.py:1): it reads %2 before aten.exp.default "
            "defines it");
  graph.op(graph.order()[0]).set("self", Attr(ValueId(9)));
  EXPECT_EQ(fault(graph), "aten.relu.default on %1 (m.py:1): it reads %9, which does not exist");
  graph.op(graph.order()[0]).set("self", Attr(ValueId()));
  EXPECT_EQ(fault(graph), "aten.relu.default on %1 (m.py:1): it reads %-1, which does not exist");
}

TEST(Verifier, RefusesReadsOfRemovedOps) {
  Graph graph = chain();
  graph.removeOp(graph.order()[0]);
  EXPECT_EQ(fault(graph),
            "aten.exp.default on %2 (m.py:2): it reads %1, whose op "
            "aten.relu.default was removed");
  graph = chain();
  graph.removeOp(graph.order()[1]);
  EXPECT_EQ(fault(graph), "output \"y\" returns %2, whose op aten.exp.default was removed");
  graph = chain();
  graph.op(graph.order()[1]).removed = true;
  EXPECT_EQ(fault(graph),
            "aten.exp.default on %2 (m.py:2): the op was removed and still stands in "
            "the order");
}

TEST(Verifier, RefusesValuesThatNothingDefines) {
  Graph graph = chain();
  graph.renumberValues({ValueId(0), ValueId(1), ValueId(3)});
  EXPECT_EQ(fault(graph), "");
  graph.outputs()[0].value = ValueId(2);
  EXPECT_EQ(fault(graph), "output \"y\" returns %2, which nothing defines");
}

TEST(Verifier, ChecksTheOrder) {
  Graph graph = chain();
  graph.setOrder({graph.order()[0], graph.order()[0]});
  EXPECT_EQ(fault(graph), "aten.relu.default on %1 (m.py:1): the op stands twice in the order");
  graph.setOrder({OpId(7)});
  EXPECT_EQ(fault(graph), "the order names op 7, which does not exist");
}

TEST(Verifier, ChecksBackReferences) {
  Graph graph = chain();
  graph.value(ValueId(2)).def = graph.order()[0];
  EXPECT_EQ(fault(graph),
            "aten.exp.default on %2 (m.py:2): %2 is its result 0 and says it is "
            "result 0 of aten.relu.default");
  graph = chain();
  graph.op(graph.order()[1]).results = {ValueId(1)};
  EXPECT_EQ(fault(graph), "aten.exp.default on %1 (m.py:2): %1 is defined twice");
}

TEST(Verifier, ChecksInputs) {
  Graph graph = chain();
  graph.inputs().push_back(graph.inputs()[0]);
  EXPECT_EQ(fault(graph), "input \"x\" (%0): another input has the same value");
  graph = chain();
  graph.inputs().push_back({ValueId(1), InputKind::kUser, "z"});
  EXPECT_EQ(fault(graph), "input \"z\" (%1): its value is the result of an op");
  EXPECT_EQ(fault(parsed("input %0 : f32[] user \"x\" input %1 : f32[] user \"x\"")),
            "input \"x\" (%1): another input of its kind has the same name");
  EXPECT_EQ(fault(parsed("input %0 : f32[] user \"x\" input %1 : f32[] buffer \"x\"")), "");
  EXPECT_EQ(fault(parsed("input %0 : token user \"x\"")),
            "input \"x\" (%0): an input is a tensor, not a token");
}

TEST(Verifier, ChecksTokens) {
  const std::string token = "%0 : token = torch.enter_autocast() {effect} ";
  EXPECT_EQ(fault(parsed(token + "%1 : f32[] = aten.relu.default(self=%0)")),
            "aten.relu.default on %1: it reads the token %0; only ops with an effect take tokens");
  EXPECT_EQ(fault(parsed(token + "output %0 \"y\"")), "output \"y\" returns the token %0");
  EXPECT_EQ(fault(parsed("%0 : token @R = torch.enter_autocast() {effect}")),
            "torch.enter_autocast on %0: %0: a token has the form R");
}

TEST(Verifier, ChecksArguments) {
  EXPECT_EQ(fault(parsed("a.b(x=1, x=2)")), "a.b: argument 'x' is given twice");
  EXPECT_EQ(fault(parsed("a.b(\"\"=1)")), "a.b: an argument has no name");
  EXPECT_EQ(fault(parsed("\"\"(x=1)")), "the op has no name");
}

TEST(Verifier, ChecksTypesAndForms) {
  auto input = [](const std::string& type) { return fault(parsed("input %0 : " + type)); };
  const std::string x = " user \"x\" ";
  const std::string at = "input \"x\" (%0): ";
  EXPECT_EQ(input("f32[-1]" + x), at + "type f32[-1] has a negative dim");
  EXPECT_EQ(input("f32[4,6]" + x + "@S(2,base=4)"),
            at + "form S(2,base=4) of f32[4,6]: there is no dim 2");
  EXPECT_EQ(input("f32[4,s0]" + x + "@S(1,base=4)"),
            at + "form S(1,base=4) of f32[4,s0]: the size s0 of the dim is not known");
  EXPECT_EQ(input("f32[4,6]" + x + "@S(1,outer=2,inner=2,base=4)"),
            at + "form S(1,outer=2,inner=2,base=4) of f32[4,6]: 2 outer blocks of a multiple of 2 "
                 "do not divide 6");
  EXPECT_EQ(input("f32[4,6]" + x + "@S(1,outer=0,base=4)"),
            at + "form S(1,outer=0,base=4) of f32[4,6]: outer, inner and group must be positive");
  EXPECT_EQ(input("f32[4,6]" + x + "@S(1,base=0)"),
            at + "form S(1,base=0) of f32[4,6]: the base must be positive");
  Graph graph = chain();
  graph.value(ValueId(1)).type.shape = {Dim(1, {"s 0"})};
  EXPECT_EQ(fault(graph),
            "aten.relu.default on %1 (m.py:1): %1: type f32[s 0] has a symbol that is not a name");
  graph.ranks = 0;
  EXPECT_EQ(fault(graph), "the graph has 0 ranks; it needs one or more");
}

TEST(Verifier, ChecksWhatPlacementDecided) {
  const std::string x = "input %0 : f32[4] user \"x\" ";
  EXPECT_EQ(fault(parsed(x + "%1 : f32[4] = a.b(self=%0) needs [R, R]")),
            "a.b on %1: it needs 2 forms of its 1 operands");
  EXPECT_EQ(fault(parsed(x + "%1 : f32[4] = a.b(self=%0) needs [S(1,base=4)]")),
            "a.b on %1: needed of %0: form S(1,base=4) of f32[4]: there is no dim 1");
  EXPECT_EQ(fault(parsed(x + "output %0 \"y\" @S(1,base=4)")),
            "output \"y\": form S(1,base=4) of f32[4]: there is no dim 1");
  EXPECT_EQ(fault(parsed("output none \"y\" @R")), "output \"y\" is none and has the form R");
}

}  // namespace
}  // namespace autosp::ir
