// Text and graphs: the printer and the parser are inverse on every construct, on random graphs and
// after edits; malformed texts are refused with the place and what was expected there.
#include "autosp/ir/parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "autosp/ir/printer.h"

namespace autosp::ir {
namespace {

// Parses, and checks that printing gives the text again.
Graph roundTrip(const std::string& text) {
  Result<Graph> graph = parse(text);
  EXPECT_TRUE(graph.isOk()) << graph.status().diagnostic().text() << "\n" << text;
  if (!graph.isOk()) {
    return {};
  }
  EXPECT_EQ(print(graph.value()), text);
  return std::move(graph).value();
}

constexpr std::string_view kExample = R"(autosp.graph "forward" ranks=2 {
  input %0 : i64[2,32] user "input_ids"
  input %1 : f32[97,32] grad parameter "model.embed_tokens.weight" @Q
  input %2 : i64[] buffer "steps"
  input %3 : b8[s0,2*s0*s1] constant "mask" @R
  input %4 : i64[1] seed ""
  %5 : f32[2,32,32] grad @S(1,base=32) = aten.embedding.default(weight=%1, indices=%0, padding_idx=-1) {pointwise, random} from 5 at "modeling_llama.py:88"
  %6 : f32[2,32], %7 : i64[2,32] @P = aten.max.dim(self=%5, dim=1, keepdim=false)
  %8 : token = torch.enter_autocast(device=#"cpu", dtype=#"torch.bfloat16") {effect}
  %9 : bf16[2,32,32] @S(2,outer=2,inner=4,base=3,shift=-1,group=4) = aten.add_.Tensor(self=%5, other=none, list=[], deep=[[1, [true, %0]], 2.0, "x"]) {mutates}
  torch.exit_autocast(state=%8) {effect} at "a \"b\".py:1"
  %10 : other[] = mylib.op() from 0
  %11 : f32[2,32,32] @P = aten.exp.default(self=%5) needs [S(1,base=32)] lowering "sum-then-divide" from 7
  output %5 "logits" may_stay_cut @S(1,base=32)
  output %6 "loss"
  output none ""
}
)";

TEST(Parser, ReadsEveryConstruct) {
  const Graph graph = roundTrip(std::string(kExample));
  EXPECT_EQ(graph.ranks, 2);
  ASSERT_EQ(graph.inputs().size(), 5U);
  EXPECT_EQ(graph.inputs()[1].kind, InputKind::kParameter);
  EXPECT_TRUE(graph.value(ValueId(1)).requires_grad);
  EXPECT_EQ(graph.value(ValueId(1)).form, Form::wholePartialGrad());
  EXPECT_EQ(graph.type(ValueId(3)).shape[1], Dim(2, {"s1", "s0"}));
  ASSERT_EQ(graph.order().size(), 7U);
  const Op& embedding = graph.op(graph.order()[0]);
  EXPECT_EQ(embedding.origin, 5);
  EXPECT_EQ(embedding.location, "modeling_llama.py:88");
  EXPECT_EQ(embedding.arg("padding_idx"), Attr(-1));
  EXPECT_EQ(embedding.traits, (Traits{true, true, false, false}));
  EXPECT_EQ(graph.op(graph.order()[1]).results.size(), 2U);
  EXPECT_EQ(graph.value(ValueId(7)).result, 1);
  EXPECT_FALSE(graph.value(ValueId(8)).is_tensor);
  EXPECT_EQ(graph.value(ValueId(9)).form, Form::cutAt({2, 2, 4, 3, -1, 4}));
  const Op& exp = graph.op(graph.order()[6]);
  EXPECT_EQ(exp.needs, std::vector<Form>{Form::cutAt({1, 1, 1, 32, 0, 1})});
  EXPECT_EQ(exp.lowering, "sum-then-divide");
  EXPECT_TRUE(graph.outputs()[0].may_stay_cut);
  EXPECT_TRUE(graph.outputs()[0].form.has_value());
  EXPECT_FALSE(graph.outputs()[2].value.has_value());
}

TEST(Parser, ReadsAJointGraph) {
  const Graph graph = roundTrip(R"(autosp.graph "joint" ranks=2 {
  input %0 : f32[4,6] grad parameter "w"
  input %1 : f32[6] buffer "mean"
  input %2 : f32[4,6] tangent "tangents_1"
  %3 : f32[4,6] saved = aten.exp.default(self=%0) {pointwise, keep}
  %4 : f32[6,4] of %3 = aten.t.default(self=%3) {recompute}
  %5 : f32[6] = aten.sum.dim_IntList(self=%3)
  %6 : f32[4,6] = aten.mul.Tensor(self=%2, other=%3) {pointwise}
  output %3 "y"
  output %5 "new mean" writes %1
  output %6 "gradient0" gradient
}
)");
  EXPECT_EQ(graph.inputs()[2].kind, InputKind::kTangent);
  EXPECT_TRUE(graph.value(ValueId(3)).saved);
  EXPECT_EQ(graph.value(ValueId(4)).base, ValueId(3));
  EXPECT_FALSE(graph.value(ValueId(3)).base.valid());
  EXPECT_TRUE(graph.op(graph.order()[0]).traits.keep);
  EXPECT_TRUE(graph.op(graph.order()[1]).traits.recompute);
  EXPECT_EQ(graph.outputs()[1].writes, ValueId(1));
  EXPECT_TRUE(graph.outputs()[2].gradient);
}

TEST(Parser, KeepsWhatIsSharedWhenIdsHaveGaps) {
  const Graph graph = roundTrip(R"(autosp.graph "joint" ranks=1 {
  input %7 : f32[4] buffer "b"
  %3 : f32[4] of %7 = aten.view.default(self=%7)
  output %3 "y" writes %7
}
)");
  EXPECT_EQ(graph.value(ValueId(3)).base, ValueId(7));
  EXPECT_EQ(graph.outputs()[0].writes, ValueId(7));
}

TEST(Parser, KeepsEveryKindOfAttribute) {
  Graph graph;
  const ValueId x = graph.addInput("x", InputKind::kUser, {DType::kF32, {4}}, false);
  const AttrList attrs = {Attr(),
                          Attr(true),
                          Attr(false),
                          Attr(0),
                          Attr(std::numeric_limits<std::int64_t>::min()),
                          Attr(1.0),
                          Attr(-0.1),
                          Attr(1e300),
                          Attr(std::numeric_limits<double>::infinity()),
                          Attr("true"),
                          Attr("a \"quote\" \\ \n\t\r // \x7f \xc3\xa9"),
                          Attr(x),
                          Attr(Opaque{"torch.channels_last \"x\""}),
                          Attr::ints({1, -2}),
                          Attr(AttrList{}),
                          Attr(AttrList{Attr(AttrList{Attr(x), Attr()}), Attr(2)})};
  Op op;
  op.name = "aten.test.default";
  for (std::size_t i = 0; i < attrs.size(); ++i) {
    op.args.emplace_back("a" + std::to_string(i), attrs[i]);
  }
  op.args.emplace_back("weird name", 1);
  graph.addOp(op, {});
  Op weird;
  weird.name = "<built-in function add>";
  graph.addOp(weird, {});
  const Graph read = roundTrip(print(graph));
  const Op& back = read.op(read.order()[0]);
  for (std::size_t i = 0; i < attrs.size(); ++i) {
    EXPECT_EQ(back.args[i].second, attrs[i]) << attrText(attrs[i]);
  }
  EXPECT_EQ(back.args.back().first, "weird name");
  EXPECT_EQ(read.op(read.order()[1]).name, weird.name);
}

TEST(Parser, KeepsIdsWhereOpsWereRemovedAndInserted) {
  Graph graph = roundTrip(std::string(kExample));
  graph.removeOp(graph.order()[5]);
  Op op;
  op.name = "autosp.convert";
  op.set("inputs", Attr(AttrList{Attr(ValueId(5))}));
  const OpId made =
      graph.insertBefore(graph.order()[1], op, {{graph.type(ValueId(5)), false, true}});
  graph.op(graph.order()[2]).replaceOperand(ValueId(5), graph.op(made).results[0]);
  const std::string text = print(graph);
  EXPECT_NE(text.find("%12 : f32[2,32,32] = autosp.convert(inputs=[%5])\n  %6 : f32[2,32]"),
            std::string::npos);
  EXPECT_EQ(text.find("%10"), std::string::npos);
  const Graph read = roundTrip(text);
  EXPECT_EQ(read.value(ValueId(12)).def, read.order()[1]);
  EXPECT_FALSE(read.value(ValueId(10)).def.valid());
}

TEST(Parser, TakesAnyLayoutAndComments) {
  const Result<Graph> graph = parse(
      "// a dump\nautosp.graph\"g\"ranks = 1{input %7:f32 [ 4 ]user \"x\" // the input\n"
      "output %7\n\"y\"}  // end");
  ASSERT_TRUE(graph.isOk()) << graph.status().diagnostic().text();
  EXPECT_EQ(print(graph.value()),
            "autosp.graph \"g\" ranks=1 {\n  input %7 : f32[4] user \"x\"\n  output %7 \"y\"\n}\n");
}

TEST(Parser, TakesTheFieldsOfACutInAnyOrder) {
  TextCursor cursor("S(1, shift=2, base=8)");
  EXPECT_EQ(parseForm(cursor).value(), Form::cutAt({1, 1, 1, 8, 2, 1}));
}

// A malformed text: a graph of two ranks with this body, and the message it gives.
struct BadText {
  std::string_view body;
  std::string_view message;
};

void PrintTo(const BadText& bad, std::ostream* out) {
  *out << bad.body;
}

class MalformedBody : public testing::TestWithParam<BadText> {};

TEST_P(MalformedBody, IsRefused) {
  const std::string text = "autosp.graph \"g\" ranks=2 {\n  input %0 : f32[4,6] user \"x\"\n" +
                           std::string(GetParam().body) + "\n}\n";
  const Result<Graph> graph = parse(text);
  ASSERT_FALSE(graph.isOk());
  EXPECT_EQ(graph.diagnostic().text(), GetParam().message);
}

constexpr std::string_view kDTypes =
    "line 3, column 8: expected an element type (b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, "
    "c64, c128 or other), found 'f31'";

INSTANTIATE_TEST_SUITE_P(
    Parser, MalformedBody,
    testing::Values(
        BadText{"  %1 : f32[4] = a.b(x=%0}",
                "line 3, column 25: expected ')' after the arguments, found '}'"},
        BadText{"  %1 f32[4] = a.b()", "line 3, column 6: expected ':' after %1, found 'f32'"},
        BadText{"  %1 : f31[4] = a.b()", kDTypes},
        BadText{"  %1 : f32 = a.b()",
                "line 3, column 12: expected '[' after the element type, found '='"},
        BadText{"  %1 : f32[4,] = a.b()",
                "line 3, column 14: expected a dim, an integer or a symbol, found ']'"},
        BadText{"  %1 : f32[2*] = a.b()",
                "line 3, column 14: expected a dim, an integer or a symbol, found ']'"},
        BadText{"  %1 : f32[1.5] = a.b()", "line 3, column 12: expected a dim, found '1.5'"},
        BadText{"  %1 : f32[4 = a.b()",
                "line 3, column 14: expected ']' after the dims, found '='"},
        BadText{"  %1 : f32[4] a.b()",
                "line 3, column 15: expected '=' after the results, found 'a.b'"},
        BadText{"  %1 : f32[4] = (x=1)",
                "line 3, column 17: expected an op's name after '=', found '('"},
        BadText{"  %1 : f32[4] = a.b",
                "line 4, column 1: expected '(' after the op's name, found '}'"},
        BadText{"  %1 : f32[4] = a.b(%0)",
                "line 3, column 21: expected an argument's name, found '%0'"},
        BadText{"  %1 : f32[4] = a.b(x %0)",
                "line 3, column 23: expected '=' after the argument's name, found '%0'"},
        BadText{"  %1 : f32[4] = a.b(x=maybe)",
                "line 3, column 23: expected an attribute (none, true, false, a number, \"text\", "
                "%value, #\"opaque\" or [list]), found 'maybe'"},
        BadText{"  %1 : f32[4] = a.b(x=[1 2])",
                "line 3, column 26: expected ']' after the list, found '2'"},
        BadText{"  %1 : f32[4] = a.b(x=#cpu)",
                "line 3, column 24: expected a string after '#', found 'cpu'"},
        BadText{"  %1 : f32[4] = a.b(x=%2)",
                "line 3, column 23: %2 is not defined before it is read"},
        BadText{"  %1 : f32[4] = a.b(x=%1)",
                "line 3, column 23: %1 is not defined before it is read"},
        BadText{"  %0 : f32[4] = a.b()", "line 3, column 3: %0 is defined twice"},
        BadText{"  %1 : f32[4], %1 : f32[4] = a.b()", "line 3, column 16: %1 is defined twice"},
        BadText{"  %x : f32[4] = a.b()", "line 3, column 4: expected an id after '%', found 'x'"},
        BadText{"  %2000000 : f32[4] = a.b()", "line 3, column 3: ids go from %0 to %1048575"},
        BadText{"  %1 : f32[4] @T = a.b()",
                "line 3, column 16: expected a form (R, Q, P or S(...)), found 'T'"},
        BadText{"  %1 : f32[4] @S = a.b()", "line 3, column 18: expected '(' after 'S', found '='"},
        BadText{"  %1 : f32[4] @S(0) = a.b()",
                "line 3, column 16: a cut says its base, as S(0,base=32)"},
        BadText{"  %1 : f32[4] @S(-1,base=4) = a.b()",
                "line 3, column 18: the dim of a cut is not negative"},
        BadText{"  %1 : f32[4] @S(0,size=4) = a.b()",
                "line 3, column 20: expected a field of the cut (outer, inner, base, shift or "
                "group), found 'size'"},
        BadText{"  %1 : f32[4] @S(0,base=4,base=4) = a.b()",
                "line 3, column 27: 'base' is given twice"},
        BadText{"  %1 : f32[4] = a.b() {fast}",
                "line 3, column 24: expected a trait (pointwise, random, mutates, effect, keep or "
                "recompute), found 'fast'"},
        BadText{"  %1 : f32[4] = a.b() needs Q",
                "line 3, column 29: expected '[' after 'needs', found 'Q'"},
        BadText{"  %1 : f32[4] = a.b() lowering x",
                "line 3, column 32: expected the lowering's name in quotes, found 'x'"},
        BadText{"  %1 : f32[4] = a.b() from \"x\"",
                "line 3, column 28: expected the origin's number after 'from', found a string"},
        BadText{"  %1 : f32[4] = a.b() from -1", "line 3, column 28: an origin is not negative"},
        BadText{"  %1 : f32[4] = a.b() at model.py",
                "line 3, column 26: expected the location in quotes after 'at', found 'model.py'"},
        BadText{"  input %1 : f32[4] weight \"w\"",
                "line 3, column 21: expected the input's kind (user, parameter, buffer, constant, "
                "seed or tangent), found 'weight'"},
        BadText{"  input %1 : f32[4] user w",
                "line 3, column 26: expected the input's name in quotes, found 'w'"},
        BadText{"  a.b()\n  input %1 : f32[4] user \"w\"",
                "line 4, column 3: inputs stand before all ops and outputs"},
        BadText{"  output %0 \"y\"\n  a.b()",
                "line 4, column 3: expected 'output' or '}', found 'a.b'"},
        BadText{"  output 0 \"y\"",
                "line 3, column 10: expected a value or 'none' after 'output', found '0'"},
        BadText{"  output %3 \"y\"", "line 3, column 10: %3 is not defined before it is read"},
        BadText{"  = a.b()", "line 3, column 3: expected an op, 'output' or '}', found '='"},
        BadText{"} {",
                "line 3, column 3: expected the end of the text after the graph, found '{'"}));

TEST(Parser, RefusesMalformedHeads) {
  auto message = [](std::string_view text) { return parse(text, "a.sp").diagnostic().text(); };
  EXPECT_EQ(message(""),
            "a.sp:1:1: expected 'autosp.graph' at the start, found the end of the text");
  EXPECT_EQ(message("graph"), "a.sp:1:1: expected 'autosp.graph' at the start, found 'graph'");
  EXPECT_EQ(message("autosp.graph g"), "a.sp:1:14: expected the graph's name in quotes, found 'g'");
  EXPECT_EQ(message("autosp.graph \"g\" {"),
            "a.sp:1:18: expected 'ranks' after the graph's name, found '{'");
  EXPECT_EQ(message("autosp.graph \"g\" ranks=0 {"),
            "a.sp:1:24: the number of ranks must be positive");
  EXPECT_EQ(message("autosp.graph \"g\" ranks=1 {"),
            "a.sp:1:27: expected an op, 'output' or '}', found the end of the text");
}

TEST(Parser, RefusesDeepLists) {
  const std::string text = "autosp.graph \"g\" ranks=1 {\n  a.b(x=" + std::string(100000, '[');
  EXPECT_EQ(parse(text).diagnostic().text(), "line 2, column 73: lists nest deeper than 64 levels");
}

// Random graphs: legal enough to print, with every construct.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph make() {
    graph_.name = text();
    graph_.ranks = 1 + below(8);
    for (int i = 1 + below(3); i > 0; --i) {
      values_.push_back(graph_.addInput(text(), static_cast<InputKind>(below(5)), type(), coin()));
      graph_.value(values_.back()).form = form();
    }
    for (int i = below(12); i > 0; --i) {
      addOp();
    }
    for (int i = below(3); i > 0; --i) {
      const OpId id = pick(graph_.order());
      if (id.valid() && std::ranges::none_of(graph_.op(id).results, [&](ValueId v) {
            return !graph_.users()[v.at()].empty();
          })) {
        graph_.removeOp(id);
        std::erase_if(values_, [&](ValueId v) { return graph_.value(v).def == id; });
      }
    }
    for (int i = below(3); i > 0; --i) {
      graph_.addOutput(coin() ? std::optional(pick(values_)) : std::nullopt, text(), coin());
      graph_.outputs().back().form = form();
    }
    return std::move(graph_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool coin() { return below(2) == 0; }

  template <typename T>
  T pick(const std::vector<T>& from) {
    return from.empty() ? T()
                        : from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }

  std::string text() {
    std::string out;
    for (int i = below(6); i > 0; --i) {
      out += "ab.%\"\\\n/ \x01\xc3"[below(12)];
    }
    return out;
  }

  TensorType type() {
    TensorType out{static_cast<DType>(below(13)), {}};
    for (int i = below(4); i > 0; --i) {
      out.shape.push_back(coin() ? Dim(below(100))
                                 : Dim(1 + below(3), {"s" + std::to_string(below(3))}));
    }
    return out;
  }

  std::optional<Form> form() {
    switch (below(5)) {
      case 0:
        return Form::whole();
      case 1:
        return Form::wholePartialGrad();
      case 2:
        return Form::partial();
      case 3:
        return Form::cutAt(
            {below(4), 1 + below(2), 1 + below(2), 1 + below(9), below(3) - 1, 1 + below(2)});
      default:
        return std::nullopt;
    }
  }

  Attr attr(int depth) {
    switch (below(depth > 2 ? 7 : 8)) {
      case 0:
        return {};
      case 1:
        return coin();
      case 2:
        return static_cast<std::int64_t>(random_());
      case 3:
        return std::ldexp(static_cast<double>(below(1000)), below(200) - 100);
      case 4:
        return text();
      case 5:
        return pick(values_);
      case 6:
        return Opaque{text()};
      default: {
        AttrList list;
        for (int i = below(4); i > 0; --i) {
          list.push_back(attr(depth + 1));
        }
        return list;
      }
    }
  }

  void addOp() {
    Op op;
    op.name = coin() ? "aten.op.default" : text();
    for (int i = below(4); i > 0; --i) {
      op.args.emplace_back("a" + text(), attr(0));
    }
    op.traits = {coin(), coin(), coin(), coin()};
    op.origin = below(5) - 1;
    op.location = text();
    for (int i = below(3); i > 0; --i) {
      op.needs.push_back(form().value_or(Form()));
    }
    op.lowering = text();
    std::vector<Graph::ResultType> results;
    for (int i = below(3); i > 0; --i) {
      results.push_back({type(), coin(), true});
    }
    const OpId id = graph_.addOp(std::move(op), results);
    for (ValueId v : graph_.op(id).results) {
      graph_.value(v).form = form();
      values_.push_back(v);
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> values_;
};

TEST(Parser, RandomGraphsComeBack) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    roundTrip(print(RandomGraph(seed).make()));
  }
}

TEST(Parser, RandomDamageIsRefusedOrRead) {
  std::mt19937_64 random(7);
  const std::string bytes = "%@#\"\\[](){}=,:-.0129azRS/ \n";
  for (int i = 0; i < 3000; ++i) {
    std::string text(kExample);
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const std::size_t length = random() % 4;
      text.replace(at, length, random() % 2, bytes[random() % bytes.size()]);
    }
    if (const Result<Graph> graph = parse(text); graph.isOk()) {
      roundTrip(print(graph.value()));
    } else {
      EXPECT_TRUE(graph.diagnostic().text().starts_with("line "));
    }
  }
}

}  // namespace
}  // namespace autosp::ir
