// The rules of single ops: what each ATen op of mask and position code does to the expression of
// its operands. A rule returns an invalid id for arguments it does not cover.
#include <algorithm>

#include "autosp/passes/aliases.h"
#include "autosp/passes/lift_expr.h"

namespace autosp::passes {
namespace {

using ir::DType;

bool isBool(DType dtype) {
  return dtype == DType::kBool;
}
bool isInteger(DType dtype) {
  return dtype >= DType::kU8 && dtype <= DType::kI64;
}

std::int64_t asDim(std::size_t d) {
  return static_cast<std::int64_t>(d);
}

// A dim argument as an index into the shape; nothing when absent or out of range.
std::optional<std::size_t> dimArg(const ir::Op& op, std::string_view arg, std::size_t rank) {
  const ir::Attr* attr = op.find(arg);
  if (attr == nullptr || !attr->isInt()) {
    return std::nullopt;
  }
  const std::int64_t dim = ir::normalDim(attr->asInt(), rank);
  return dim >= 0 && dim < asDim(rank) ? std::optional(static_cast<std::size_t>(dim))
                                       : std::nullopt;
}

// An integer argument where none means `absent`; nothing when it is not an integer.
std::optional<std::int64_t> integerArg(const ir::Op& op, std::string_view arg,
                                       std::int64_t absent) {
  if (!op.has(arg)) {
    return absent;
  }
  return op.arg(arg).isInt() ? std::optional(op.arg(arg).asInt()) : std::nullopt;
}

}  // namespace

const std::vector<ExprLift::Row>& ExprLift::rules() {
  static const std::vector<Row> rows = {
      {"arange", &ExprLift::arange},
      {"full", &ExprLift::filled},
      {"new_full", &ExprLift::filled},
      {"full_like", &ExprLift::filled},
      {"zeros", &ExprLift::zeros},
      {"new_zeros", &ExprLift::zeros},
      {"zeros_like", &ExprLift::zeros},
      {"ones", &ExprLift::ones},
      {"new_ones", &ExprLift::ones},
      {"ones_like", &ExprLift::ones},
      {"alias", &ExprLift::same},
      {"clone", &ExprLift::same},
      {"contiguous", &ExprLift::same},
      {"detach", &ExprLift::same},
      {"lift_fresh", &ExprLift::same},
      {"lift_fresh_copy", &ExprLift::same},
      {"unsqueeze", &ExprLift::reshape},
      {"squeeze", &ExprLift::reshape},
      {"view", &ExprLift::reshape},
      {"reshape", &ExprLift::reshape},
      {"_unsafe_view", &ExprLift::reshape},
      {"flatten", &ExprLift::reshape},
      {"unflatten", &ExprLift::reshape},
      {"expand", &ExprLift::expand},
      {"expand_as", &ExprLift::expand},
      {"broadcast_to", &ExprLift::expand},
      {"permute", &ExprLift::permute},
      {"transpose", &ExprLift::transpose},
      {"t", &ExprLift::transpose},
      {"slice", &ExprLift::slice},
      {"select", &ExprLift::selectDim},
      {"index", &ExprLift::indexTensor},
      {"tril", &ExprLift::triangle},
      {"triu", &ExprLift::triangle},
      {"to", &ExprLift::to},
      {"_to_copy", &ExprLift::to},
      {"where", &ExprLift::where},
      {"masked_fill", &ExprLift::maskedFill},
      {"__and__", &ExprLift::both},
      {"bitwise_and", &ExprLift::both},
      {"logical_and", &ExprLift::both},
      {"__or__", &ExprLift::either},
      {"bitwise_or", &ExprLift::either},
      {"logical_or", &ExprLift::either},
      {"bitwise_not", &ExprLift::negated},
      {"logical_not", &ExprLift::negated},
      {"le", &ExprLift::compare},
      {"lt", &ExprLift::compare},
      {"ge", &ExprLift::compare},
      {"gt", &ExprLift::compare},
      {"eq", &ExprLift::compare},
      {"ne", &ExprLift::compare},
      {"add", &ExprLift::addition},
      {"sub", &ExprLift::addition},
      {"rsub", &ExprLift::addition},
      {"mul", &ExprLift::multiplication},
      {"neg", &ExprLift::unary},
      {"abs", &ExprLift::unary},
      {"floor_divide", &ExprLift::division},
      {"div", &ExprLift::division},
      {"remainder", &ExprLift::division},
      {"cumsum", &ExprLift::cumsum},
      {"diff", &ExprLift::diff},
  };
  return rows;
}

ExprId ExprLift::arange(const ir::Op& op, const ir::TensorType& type) {
  const auto start = integerArg(op, "start", 0);
  const auto step = integerArg(op, "step", 1);
  if (!isInteger(type.dtype) || !start || !step || !op.has("end") || !op.arg("end").isInt()) {
    return {};
  }
  return checked(exprs_.add(exprs_.integer(*start), exprs_.index(0, type.dim(0)), *step),
                 type.dtype);
}

ExprId ExprLift::filled(const ir::Op& op, const ir::TensorType& type) {
  const ir::Attr* value = op.find("fill_value");
  return value == nullptr ? ExprId() : constant(*value, type.dtype);
}
ExprId ExprLift::zeros(const ir::Op&, const ir::TensorType& type) {
  return constant(ir::Attr(0), type.dtype);
}
ExprId ExprLift::ones(const ir::Op&, const ir::TensorType& type) {
  return constant(ir::Attr(1), type.dtype);
}

ExprId ExprLift::same(const ir::Op& op, const ir::TensorType& type) {
  return usable(op, "self") && typeOf(op, "self") == type ? lift(op.valueArg("self")) : ExprId();
}

// Only dims of size 1 come or go, so the others keep their order.
ExprId ExprLift::reshape(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "self") || typeOf(op, "self").dtype != type.dtype) {
    return {};
  }
  const ir::TensorType& from = typeOf(op, "self");
  std::vector<ExprId> by_dim(from.rank());
  std::size_t to = 0;
  for (std::size_t d = 0; d < from.rank(); ++d) {
    if (from.dim(d) == 1) {
      continue;
    }
    while (to < type.rank() && type.dim(to) == 1) {
      ++to;
    }
    if (to == type.rank() || type.dim(to) != from.dim(d)) {
      return {};
    }
    by_dim[d] = exprs_.index(asDim(to++), from.dim(d));
  }
  while (to < type.rank() && type.dim(to) == 1) {
    ++to;
  }
  return to == type.rank() ? exprs_.substitute(lift(op.valueArg("self")), by_dim) : ExprId();
}

ExprId ExprLift::expand(const ir::Op& op, const ir::TensorType& type) {
  return usable(op, "self") ? broadcast(lift(op.valueArg("self")), typeOf(op, "self"), type)
                            : ExprId();
}

ExprId ExprLift::permute(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "self") || !op.has("dims") || !op.arg("dims").isInts()) {
    return {};
  }
  const std::vector<std::int64_t> dims = op.arg("dims").asInts();
  if (dims.size() != type.rank()) {
    return {};
  }
  std::vector<ExprId> by_dim(type.rank());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t from = ir::normalDim(dims[d], type.rank());
    if (from < 0 || from >= asDim(type.rank())) {
      return {};
    }
    by_dim[static_cast<std::size_t>(from)] = exprs_.index(asDim(d), type.dim(d));
  }
  return exprs_.substitute(lift(op.valueArg("self")), by_dim);
}

ExprId ExprLift::transpose(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "self")) {
    return {};
  }
  std::optional<std::size_t> a = 0;
  std::optional<std::size_t> b = 1;
  if (atenBaseName(op) == "t") {
    if (type.rank() != 2) {
      return {};
    }
  } else {
    a = dimArg(op, "dim0", type.rank());
    b = dimArg(op, "dim1", type.rank());
  }
  if (!a || !b) {
    return {};
  }
  std::vector<ExprId> by_dim(type.rank());
  by_dim[*a] = exprs_.index(asDim(*b), type.dim(*b));
  by_dim[*b] = exprs_.index(asDim(*a), type.dim(*a));
  return exprs_.substitute(lift(op.valueArg("self")), by_dim);
}

ExprId ExprLift::slice(const ir::Op& op, const ir::TensorType& type) {
  const auto dim = dimArg(op, "dim", type.rank());
  const auto start = integerArg(op, "start", 0);
  const auto step = integerArg(op, "step", 1);
  if (!usable(op, "self") || !dim || !start || !step) {
    return {};
  }
  const std::int64_t size = typeOf(op, "self").dim(*dim);
  const std::int64_t first = std::clamp<std::int64_t>(*start < 0 ? *start + size : *start, 0, size);
  std::vector<ExprId> by_dim(type.rank());
  by_dim[*dim] =
      exprs_.add(exprs_.integer(first), exprs_.index(asDim(*dim), type.dim(*dim)), *step);
  return exprs_.substitute(lift(op.valueArg("self")), by_dim);
}

ExprId ExprLift::selectDim(const ir::Op& op, const ir::TensorType&) {
  if (!usable(op, "self")) {
    return {};
  }
  const ir::TensorType& from = typeOf(op, "self");
  const auto dim = dimArg(op, "dim", from.rank());
  const auto index = integerArg(op, "index", 0);
  if (!dim || !index) {
    return {};
  }
  std::vector<ExprId> by_dim(from.rank());
  for (std::size_t d = *dim + 1; d < from.rank(); ++d) {
    by_dim[d] = exprs_.index(asDim(d) - 1, from.dim(d));
  }
  by_dim[*dim] = exprs_.integer(*index < 0 ? *index + from.dim(*dim) : *index);
  return exprs_.substitute(lift(op.valueArg("self")), by_dim);
}

// Every leading dim is indexed by an integer tensor whose values are proved to be in range: a
// negative one would wrap around.
ExprId ExprLift::indexTensor(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "self") || !op.has("indices") || !op.arg("indices").isList()) {
    return {};
  }
  const ir::TensorType& from = typeOf(op, "self");
  const ir::AttrList& indices = op.arg("indices").asList();
  if (indices.empty() || indices.size() > from.rank() ||
      type.rank() + indices.size() < from.rank()) {
    return {};
  }
  const std::size_t rank = type.rank() + indices.size() - from.rank();  // of the indices, broadcast
  ir::TensorType shape{DType::kI64, {type.shape.begin(), type.shape.begin() + asDim(rank)}};
  std::vector<ExprId> by_dim(from.rank());
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].isValue()) {
      return {};
    }
    ir::Op index;
    index.set("index", indices[d]);
    if (!usable(index, "index") || !isInteger(typeOf(index, "index").dtype)) {
      return {};
    }
    by_dim[d] = broadcast(lift(indices[d].asValue()), typeOf(index, "index"), shape);
    if (!by_dim[d].valid() || !exprs_.range(by_dim[d]).within(0, from.dim(d) - 1)) {
      return {};
    }
  }
  for (std::size_t d = indices.size(); d < from.rank(); ++d) {
    by_dim[d] = exprs_.index(asDim(d - indices.size() + rank), from.dim(d));
  }
  return exprs_.substitute(lift(op.valueArg("self")), by_dim);
}

// tril keeps k - q <= diagonal, triu the elements at or above it.
ExprId ExprLift::triangle(const ir::Op& op, const ir::TensorType& type) {
  const auto diagonal = integerArg(op, "diagonal", 0);
  if (!usable(op, "self") || type.rank() < 2 || !diagonal) {
    return {};
  }
  const std::size_t q = type.rank() - 2;
  const ExprId row = exprs_.index(asDim(q), type.dim(q));
  const ExprId column = exprs_.index(asDim(q + 1), type.dim(q + 1));
  const ExprId above =  // k - q - diagonal
      exprs_.add(exprs_.add(column, row, -1), exprs_.integer(1), -*diagonal);
  const ExprId kept = atenBaseName(op) == "tril" ? exprs_.lessEqualZero(above)
                                                 : exprs_.lessEqualZero(exprs_.scale(above, -1));
  return exprs_.select(kept, lift(op.valueArg("self")), constant(ir::Attr(0), type.dtype));
}

ExprId ExprLift::to(const ir::Op& op, const ir::TensorType& type) {
  return operand(op, "self", type, type.dtype);
}

ExprId ExprLift::where(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "condition") || !isBool(typeOf(op, "condition").dtype)) {
    return {};
  }
  return exprs_.select(operand(op, "condition", type, DType::kBool),
                       operand(op, "self", type, type.dtype),
                       operand(op, "other", type, type.dtype));
}

ExprId ExprLift::maskedFill(const ir::Op& op, const ir::TensorType& type) {
  if (!usable(op, "mask") || !isBool(typeOf(op, "mask").dtype)) {
    return {};
  }
  return exprs_.select(operand(op, "mask", type, DType::kBool),
                       operand(op, "value", type, type.dtype),
                       operand(op, "self", type, type.dtype));
}

ExprId ExprLift::both(const ir::Op& op, const ir::TensorType& type) {
  if (!isBool(type.dtype)) {
    return {};
  }
  return exprs_.conjunction(
      {operand(op, "self", type, DType::kBool), operand(op, "other", type, DType::kBool)});
}

ExprId ExprLift::either(const ir::Op& op, const ir::TensorType& type) {
  if (!isBool(type.dtype)) {
    return {};
  }
  return exprs_.disjunction(
      {operand(op, "self", type, DType::kBool), operand(op, "other", type, DType::kBool)});
}

ExprId ExprLift::negated(const ir::Op& op, const ir::TensorType& type) {
  return isBool(type.dtype) ? exprs_.negation(operand(op, "self", type, DType::kBool)) : ExprId();
}

// Torch converts both sides to one type first. Sides of different integer types, and scalars, must
// therefore fit the type of the other side.
ExprId ExprLift::compare(const ir::Op& op, const ir::TensorType& type) {
  const ExprId x = integerOperand(op, "self", type);
  const ExprId y = integerOperand(op, "other", type);
  if (!x.valid() || !y.valid()) {
    return {};
  }
  const auto typeOfSide = [&](std::string_view arg) {
    return op.arg(arg).isValue() ? std::optional(typeOf(op, arg).dtype) : std::nullopt;
  };
  const auto left = typeOfSide("self");
  const auto right = typeOfSide("other");
  if (left != right && ((left && isInteger(*left) && !checked(y, *left).valid()) ||
                        (right && isInteger(*right) && !checked(x, *right).valid()))) {
    return {};
  }
  const ExprId d = exprs_.add(x, y, -1);
  const std::string_view name = atenBaseName(op);
  if (name == "eq" || name == "ne") {
    const ExprId equal = exprs_.equalZero(d);
    return name == "eq" ? equal : exprs_.negation(equal);
  }
  if (name == "le" || name == "gt") {
    const ExprId at_most = exprs_.lessEqualZero(d);
    return name == "le" ? at_most : exprs_.negation(at_most);
  }
  const ExprId at_least = exprs_.lessEqualZero(exprs_.scale(d, -1));
  return name == "ge" ? at_least : exprs_.negation(at_least);
}

ExprId ExprLift::addition(const ir::Op& op, const ir::TensorType& type) {
  const std::string_view name = atenBaseName(op);
  const auto alpha = integerArg(op, "alpha", 1);
  if (!alpha) {
    return {};
  }
  if (isBool(type.dtype)) {
    return name == "add" && *alpha == 1 ? either(op, type) : ExprId();
  }
  if (!isInteger(type.dtype)) {
    return {};
  }
  ExprId x = integerOperand(op, "self", type);
  ExprId y = integerOperand(op, "other", type);
  if (name == "rsub") {
    std::swap(x, y);
    return checked(exprs_.add(x, exprs_.scale(y, *alpha), -1), type.dtype);
  }
  return checked(exprs_.add(x, exprs_.scale(y, *alpha), name == "add" ? 1 : -1), type.dtype);
}

ExprId ExprLift::multiplication(const ir::Op& op, const ir::TensorType& type) {
  if (isBool(type.dtype)) {
    return both(op, type);
  }
  if (!isInteger(type.dtype)) {
    return {};
  }
  const ExprId x = integerOperand(op, "self", type);
  const ExprId y = integerOperand(op, "other", type);
  if (const auto by = exprs_.constantInteger(y); by && x.valid()) {
    return checked(exprs_.scale(x, *by), type.dtype);
  }
  if (const auto by = exprs_.constantInteger(x); by && y.valid()) {
    return checked(exprs_.scale(y, *by), type.dtype);
  }
  return {};
}

ExprId ExprLift::unary(const ir::Op& op, const ir::TensorType& type) {
  if (!isInteger(type.dtype)) {
    return {};
  }
  const ExprId x = integerOperand(op, "self", type);
  if (!x.valid()) {
    return {};
  }
  return checked(atenBaseName(op) == "neg" ? exprs_.scale(x, -1) : exprs_.absolute(x), type.dtype);
}

// By a positive constant, rounded down. Not modular, so the operands must fit the type too.
ExprId ExprLift::division(const ir::Op& op, const ir::TensorType& type) {
  const std::string_view name = atenBaseName(op);
  if (!isInteger(type.dtype) ||
      (name == "div" && !(op.has("rounding_mode") && op.arg("rounding_mode").isString() &&
                          op.arg("rounding_mode").asString() == "floor"))) {
    return {};
  }
  const ExprId x = checked(integerOperand(op, "self", type), type.dtype);
  const auto by = exprs_.constantInteger(checked(integerOperand(op, "other", type), type.dtype));
  if (!x.valid() || !by || *by <= 0) {
    return {};
  }
  return name == "remainder" ? exprs_.mod(x, *by) : exprs_.floorDiv(x, *by);
}

ExprId ExprLift::cumsum(const ir::Op& op, const ir::TensorType& type) {
  const auto dim = dimArg(op, "dim", type.rank());
  const auto each = exprs_.constantInteger(integerOperand(op, "self", type));
  if (!isInteger(type.dtype) || !dim || !each) {
    return {};
  }
  const ExprId count = exprs_.add(exprs_.index(asDim(*dim), type.dim(*dim)), exprs_.integer(1));
  return checked(exprs_.scale(count, *each), type.dtype);
}

// First differences along a dim, optionally with one element put in front.
ExprId ExprLift::diff(const ir::Op& op, const ir::TensorType& type) {
  const auto dim = dimArg(op, "dim", type.rank());
  if (!usable(op, "self") || !isInteger(type.dtype) || typeOf(op, "self").dtype != type.dtype ||
      !dim || integerArg(op, "n", 1) != 1 || op.has("append")) {
    return {};
  }
  const ExprId x = lift(op.valueArg("self"));
  const ExprId i = exprs_.index(asDim(*dim), type.dim(*dim));
  auto shifted = [&](std::int64_t by) {
    std::vector<ExprId> by_dim(type.rank());
    by_dim[*dim] = exprs_.add(i, exprs_.integer(by));
    return exprs_.substitute(x, by_dim);
  };
  if (!op.has("prepend")) {
    return checked(exprs_.add(shifted(1), shifted(0), -1), type.dtype);
  }
  if (!usable(op, "prepend") || typeOf(op, "prepend").dtype != type.dtype ||
      typeOf(op, "prepend").rank() != type.rank() || typeOf(op, "prepend").dim(*dim) != 1) {
    return {};
  }
  const ExprId front = lift(op.valueArg("prepend"));
  return checked(exprs_.select(exprs_.lessEqualZero(i), exprs_.add(x, front, -1),
                               exprs_.add(x, shifted(-1), -1)),
                 type.dtype);
}

}  // namespace autosp::passes
