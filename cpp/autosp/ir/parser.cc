#include "autosp/ir/parser.h"

#include <array>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "autosp/ir/printer.h"

namespace autosp::ir {
namespace {

// Ids are indices into a table, so a text must not make it huge; lists nest no deeper than the
// stack bears.
constexpr std::int64_t kMaxId = (std::int64_t{1} << 20) - 1;
constexpr int kMaxListDepth = 64;
constexpr std::string_view kTypeWanted =
    "an element type (b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128 or other)";

// "s0", "32", "2*s0*s1".
Result<Dim> parseDim(TextCursor& cursor) {
  std::int64_t coef = 1;
  std::vector<std::string> symbols;
  if (cursor.peekNumber()) {
    AUTOSP_ASSIGN_OR_RETURN(coef, cursor.integer("a dim"));
    if (!cursor.accept("*")) {
      return Dim(coef);
    }
  }
  do {
    AUTOSP_ASSIGN_OR_RETURN(std::string symbol, cursor.name("a dim, an integer or a symbol"));
    symbols.push_back(std::move(symbol));
  } while (cursor.accept("*"));
  return Dim(coef, std::move(symbols));
}

class GraphParser {
 public:
  GraphParser(std::string_view text, std::string source) : cursor_(text, std::move(source)) {}

  Result<Graph> run() {
    AUTOSP_RETURN_IF_ERROR(cursor_.expect("autosp.graph", "at the start"));
    AUTOSP_ASSIGN_OR_RETURN(graph_.name, cursor_.string("the graph's name in quotes"));
    AUTOSP_RETURN_IF_ERROR(cursor_.expect("ranks", "after the graph's name"));
    AUTOSP_RETURN_IF_ERROR(cursor_.expect("=", "after 'ranks'"));
    const std::size_t place = cursor_.offset();
    AUTOSP_ASSIGN_OR_RETURN(const std::int64_t ranks, cursor_.integer("the number of ranks"));
    if (ranks < 1 || ranks > std::numeric_limits<std::int32_t>::max()) {
      return cursor_.errorAt(place, "the number of ranks must be positive");
    }
    graph_.ranks = static_cast<int>(ranks);
    AUTOSP_RETURN_IF_ERROR(cursor_.expect("{", "to open the graph"));
    while (cursor_.accept("input")) {
      AUTOSP_RETURN_IF_ERROR(input());
    }
    while (!cursor_.peek("output") && !cursor_.peek("}")) {
      AUTOSP_RETURN_IF_ERROR(op());
    }
    while (cursor_.accept("output")) {
      AUTOSP_RETURN_IF_ERROR(output());
    }
    if (!cursor_.accept("}")) {
      return cursor_.expected("'output' or '}'");
    }
    if (!cursor_.atEnd()) {
      return cursor_.expected("the end of the text after the graph");
    }
    graph_.renumberValues(text_ids_);
    return std::move(graph_);
  }

 private:
  struct Declared {
    ValueId id;  // as in the text
    Graph::ResultType type;
    bool saved = false;
    std::optional<Form> form;
  };

  // "%3"
  Result<ValueId> id(std::string_view what) {
    const std::size_t place = cursor_.offset();
    if (!cursor_.accept("%")) {
      return cursor_.expected(what);
    }
    AUTOSP_ASSIGN_OR_RETURN(const std::int64_t index, cursor_.integer("an id after '%'"));
    if (index < 0 || index > kMaxId) {
      return cursor_.errorAt(place, "ids go from %0 to %" + std::to_string(kMaxId));
    }
    return ValueId(static_cast<std::size_t>(index));
  }

  Result<ValueId> definedId(std::string_view what) {
    const std::size_t place = cursor_.offset();
    AUTOSP_ASSIGN_OR_RETURN(const ValueId text_id, id(what));
    const auto at = ids_.find(text_id);
    if (at == ids_.end()) {
      return cursor_.errorAt(
          place, "%" + std::to_string(text_id.index) + " is not defined before it is read");
    }
    return at->second;
  }

  // "%2 : f32[2,32] grad", "%3 : f32[2,32] of %2", "%3 : f32[2,32] saved"
  Result<Declared> declaration(std::string_view what) {
    const std::size_t place = cursor_.offset();
    Declared out;
    AUTOSP_ASSIGN_OR_RETURN(out.id, id(what));
    const std::string shown = "%" + std::to_string(out.id.index);
    if (ids_.contains(out.id) || declared_.contains(out.id)) {
      return cursor_.errorAt(place, shown + " is defined twice");
    }
    declared_.insert(out.id);
    AUTOSP_RETURN_IF_ERROR(cursor_.expect(":", "after " + shown));
    if (cursor_.accept("token")) {
      out.type.is_tensor = false;
    } else {
      AUTOSP_ASSIGN_OR_RETURN(out.type.type, parseType(cursor_));
    }
    out.type.requires_grad = cursor_.accept("grad");
    if (cursor_.accept("of")) {
      AUTOSP_ASSIGN_OR_RETURN(out.type.base, definedId("the value whose memory it shares"));
    }
    out.saved = cursor_.accept("saved");
    return out;
  }

  // " @S(1,base=32)", or nothing.
  Status form(std::optional<Form>& out) {
    if (cursor_.accept("@")) {
      AUTOSP_ASSIGN_OR_RETURN(out, parseForm(cursor_));
    }
    return Status::ok();
  }

  // Enters a value that the graph just made.
  void define(ValueId made, const Declared& declared) {
    graph_.value(made).form = declared.form;
    graph_.value(made).is_tensor = declared.type.is_tensor;
    graph_.value(made).saved = declared.saved;
    AUTOSP_CHECK(made.at() == text_ids_.size(), "values are made in the order of the text");
    text_ids_.push_back(declared.id);
    ids_.emplace(declared.id, made);
  }

  Status input() {
    AUTOSP_ASSIGN_OR_RETURN(Declared declared, declaration("the input's value, as %0,"));
    AUTOSP_ASSIGN_OR_RETURN(const InputKind kind, inputKind());
    AUTOSP_ASSIGN_OR_RETURN(std::string name, cursor_.string("the input's name in quotes"));
    AUTOSP_RETURN_IF_ERROR(form(declared.form));
    define(graph_.addInput(std::move(name), kind, declared.type.type, declared.type.requires_grad),
           declared);
    declared_.clear();
    return Status::ok();
  }

  Result<InputKind> inputKind() {
    constexpr std::array<InputKind, 6> kKinds = {InputKind::kUser,   InputKind::kParameter,
                                                 InputKind::kBuffer, InputKind::kConstant,
                                                 InputKind::kSeed,   InputKind::kTangent};
    for (InputKind kind : kKinds) {
      if (cursor_.accept(inputKindName(kind))) {
        return kind;
      }
    }
    return cursor_.expected(
        "the input's kind (user, parameter, buffer, constant, seed or tangent)");
  }

  Status op() {
    if (cursor_.peek("input")) {
      return cursor_.errorAt(cursor_.offset(), "inputs stand before all ops and outputs");
    }
    std::vector<Declared> results;
    if (cursor_.peek("%")) {
      do {
        AUTOSP_ASSIGN_OR_RETURN(Declared declared, declaration("a result, as %3,"));
        AUTOSP_RETURN_IF_ERROR(form(declared.form));
        results.push_back(std::move(declared));
      } while (cursor_.accept(","));
      AUTOSP_RETURN_IF_ERROR(cursor_.expect("=", "after the results"));
    }
    Op op;
    const std::string_view wanted =
        results.empty() ? "an op, 'output' or '}'" : "an op's name after '='";
    AUTOSP_ASSIGN_OR_RETURN(op.name, nameOrString(wanted));
    AUTOSP_RETURN_IF_ERROR(cursor_.expect("(", "after the op's name"));
    if (!cursor_.accept(")")) {
      do {
        AUTOSP_ASSIGN_OR_RETURN(std::string key, nameOrString("an argument's name"));
        AUTOSP_RETURN_IF_ERROR(cursor_.expect("=", "after the argument's name"));
        AUTOSP_ASSIGN_OR_RETURN(Attr value, attr(0));
        op.args.emplace_back(std::move(key), std::move(value));
      } while (cursor_.accept(","));
      AUTOSP_RETURN_IF_ERROR(cursor_.expect(")", "after the arguments"));
    }
    AUTOSP_RETURN_IF_ERROR(traits(op.traits));
    AUTOSP_RETURN_IF_ERROR(strategy(op));
    if (cursor_.accept("from")) {
      const std::size_t place = cursor_.offset();
      AUTOSP_ASSIGN_OR_RETURN(op.origin, cursor_.integer("the origin's number after 'from'"));
      if (op.origin < 0) {
        return cursor_.errorAt(place, "an origin is not negative");
      }
    }
    if (cursor_.accept("at")) {
      AUTOSP_ASSIGN_OR_RETURN(op.location, cursor_.string("the location in quotes after 'at'"));
    }
    std::vector<Graph::ResultType> types;
    types.reserve(results.size());
    for (const Declared& result : results) {
      types.push_back(result.type);
    }
    const OpId made = graph_.addOp(std::move(op), types);
    for (std::size_t i = 0; i < results.size(); ++i) {
      define(graph_.op(made).results[i], results[i]);
    }
    declared_.clear();
    return Status::ok();
  }

  Result<std::string> nameOrString(std::string_view what) {
    return cursor_.peekString() ? cursor_.string(what) : cursor_.name(what);
  }

  Status traits(Traits& out) {
    if (!cursor_.accept("{")) {
      return Status::ok();
    }
    do {
      if (cursor_.accept("pointwise")) {
        out.pointwise = true;
      } else if (cursor_.accept("random")) {
        out.random = true;
      } else if (cursor_.accept("mutates")) {
        out.mutates = true;
      } else if (cursor_.accept("effect")) {
        out.effect = true;
      } else if (cursor_.accept("keep")) {
        out.keep = true;
      } else if (cursor_.accept("recompute")) {
        out.recompute = true;
      } else {
        return cursor_.expected("a trait (pointwise, random, mutates, effect, keep or recompute)");
      }
    } while (cursor_.accept(","));
    return cursor_.expect("}", "after the traits");
  }

  Status strategy(Op& op) {
    if (cursor_.accept("needs")) {
      AUTOSP_RETURN_IF_ERROR(cursor_.expect("[", "after 'needs'"));
      do {
        AUTOSP_ASSIGN_OR_RETURN(const Form need, parseForm(cursor_));
        op.needs.push_back(need);
      } while (cursor_.accept(","));
      AUTOSP_RETURN_IF_ERROR(cursor_.expect("]", "after the needed forms"));
    }
    if (cursor_.accept("lowering")) {
      AUTOSP_ASSIGN_OR_RETURN(op.lowering, cursor_.string("the lowering's name in quotes"));
    }
    return Status::ok();
  }

  Result<Attr> attr(int depth) {
    if (cursor_.accept("none")) {
      return Attr();
    }
    if (cursor_.accept("true")) {
      return Attr(true);
    }
    if (cursor_.accept("false")) {
      return Attr(false);
    }
    if (cursor_.peekString()) {
      AUTOSP_ASSIGN_OR_RETURN(std::string text, cursor_.string("a string"));
      return Attr(std::move(text));
    }
    if (cursor_.accept("#")) {
      AUTOSP_ASSIGN_OR_RETURN(std::string text, cursor_.string("a string after '#'"));
      return Attr(Opaque{std::move(text)});
    }
    if (cursor_.peek("%")) {
      AUTOSP_ASSIGN_OR_RETURN(const ValueId value, definedId("a value"));
      return Attr(value);
    }
    if (cursor_.peekNumber()) {
      AUTOSP_ASSIGN_OR_RETURN(const TextCursor::Number number, cursor_.number("a number"));
      return std::visit([](auto v) { return Attr(v); }, number);
    }
    const std::size_t place = cursor_.offset();
    if (!cursor_.accept("[")) {
      return cursor_.expected(
          "an attribute (none, true, false, a number, \"text\", %value, #\"opaque\" or [list])");
    }
    if (depth == kMaxListDepth) {
      return cursor_.errorAt(place,
                             "lists nest deeper than " + std::to_string(kMaxListDepth) + " levels");
    }
    AttrList list;
    if (!cursor_.accept("]")) {
      do {
        AUTOSP_ASSIGN_OR_RETURN(Attr item, attr(depth + 1));
        list.push_back(std::move(item));
      } while (cursor_.accept(","));
      AUTOSP_RETURN_IF_ERROR(cursor_.expect("]", "after the list"));
    }
    return Attr(std::move(list));
  }

  Status output() {
    std::optional<ValueId> value;
    if (!cursor_.accept("none")) {
      AUTOSP_ASSIGN_OR_RETURN(value, definedId("a value or 'none' after 'output'"));
    }
    AUTOSP_ASSIGN_OR_RETURN(std::string name, cursor_.string("the output's name in quotes"));
    graph_.addOutput(value, std::move(name), cursor_.accept("may_stay_cut"));
    graph_.outputs().back().gradient = cursor_.accept("gradient");
    if (cursor_.accept("writes")) {
      AUTOSP_ASSIGN_OR_RETURN(graph_.outputs().back().writes, definedId("the input it replaces"));
    }
    return form(graph_.outputs().back().form);
  }

  TextCursor cursor_;
  Graph graph_;
  std::vector<ValueId> text_ids_;             // by the ids of graph_
  std::unordered_map<ValueId, ValueId> ids_;  // from the ids of the text to those of graph_
  std::unordered_set<ValueId> declared_;      // ids that the op being read defines
};

}  // namespace

Result<TensorType> parseType(TextCursor& cursor) {
  const std::size_t place = cursor.offset();
  AUTOSP_ASSIGN_OR_RETURN(const std::string name, cursor.name(kTypeWanted));
  TensorType out;
  out.dtype = dtypeFromName(name);
  if (out.dtype == DType::kOther && name != dtypeName(DType::kOther)) {
    return cursor.errorAt(place, "expected " + std::string(kTypeWanted) + ", found '" + name + "'");
  }
  AUTOSP_RETURN_IF_ERROR(cursor.expect("[", "after the element type"));
  if (cursor.accept("]")) {
    return out;
  }
  do {
    AUTOSP_ASSIGN_OR_RETURN(Dim dim, parseDim(cursor));
    out.shape.push_back(std::move(dim));
  } while (cursor.accept(","));
  AUTOSP_RETURN_IF_ERROR(cursor.expect("]", "after the dims"));
  return out;
}

Result<Form> parseForm(TextCursor& cursor) {
  if (cursor.accept("R")) {
    return Form::whole();
  }
  if (cursor.accept("Q")) {
    return Form::wholePartialGrad();
  }
  if (cursor.accept("P")) {
    return Form::partial();
  }
  const std::size_t place = cursor.offset();
  if (!cursor.accept("S")) {
    return cursor.expected("a form (R, Q, P or S(...))");
  }
  Cut cut;
  AUTOSP_RETURN_IF_ERROR(cursor.expect("(", "after 'S'"));
  const std::size_t dim_place = cursor.offset();
  AUTOSP_ASSIGN_OR_RETURN(const std::int64_t dim, cursor.integer("the dim that is cut"));
  if (dim < 0 || dim > std::numeric_limits<std::int32_t>::max()) {
    return cursor.errorAt(dim_place, "the dim of a cut is not negative");
  }
  cut.dim = static_cast<std::int32_t>(dim);
  struct Field {
    std::string_view name;
    std::int64_t* value;
    bool given = false;
  };
  std::array<Field, 5> fields = {{{"outer", &cut.outer},
                                  {"inner", &cut.inner},
                                  {"base", &cut.base},
                                  {"shift", &cut.shift},
                                  {"group", &cut.group}}};
  while (cursor.accept(",")) {
    Field* given = nullptr;
    const std::size_t field_place = cursor.offset();
    for (Field& field : fields) {
      if (given == nullptr && cursor.accept(field.name)) {
        given = &field;
      }
    }
    if (given == nullptr) {
      return cursor.expected("a field of the cut (outer, inner, base, shift or group)");
    }
    const std::string name(given->name);
    if (std::exchange(given->given, true)) {
      return cursor.errorAt(field_place, "'" + name + "' is given twice");
    }
    AUTOSP_RETURN_IF_ERROR(cursor.expect("=", "after '" + name + "'"));
    AUTOSP_ASSIGN_OR_RETURN(*given->value, cursor.integer("an integer after '" + name + "='"));
  }
  AUTOSP_RETURN_IF_ERROR(cursor.expect(")", "after the cut"));
  if (!fields[2].given) {
    return cursor.errorAt(place, "a cut says its base, as S(" + std::to_string(dim) + ",base=32)");
  }
  return Form::cutAt(cut);
}

Result<Graph> parse(std::string_view text, std::string source) {
  return GraphParser(text, std::move(source)).run();
}

}  // namespace autosp::ir
