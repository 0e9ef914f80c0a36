// The walk, loads, types and conversions; the rules of single ops are in lift_rules.cc.
#include "autosp/passes/lift_expr.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autosp/passes/aliases.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::DType;

Sort sortOf(DType dtype) {
  if (dtype == DType::kBool) {
    return Sort::kBool;
  }
  return dtype >= DType::kU8 && dtype <= DType::kI64 ? Sort::kInt : Sort::kReal;
}

Interval boundsOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return {0, 255};
    case DType::kI8:
      return {-128, 127};
    case DType::kI16:
      return {-32768, 32767};
    case DType::kI32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    default:
      return {};
  }
}

// Significant bits, least normal exponent and the magnitude that rounds to infinity.
struct FloatFormat {
  int bits;
  int min_exponent;
  double infinity;
};

std::optional<FloatFormat> formatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return FloatFormat{11, -14, 65520.0};
    case DType::kBF16:
      return FloatFormat{8, -126, std::ldexp(2.0 - std::ldexp(1.0, -8), 127)};
    case DType::kF32:
      return FloatFormat{24, -126, std::ldexp(2.0 - std::ldexp(1.0, -24), 127)};
    default:
      return std::nullopt;
  }
}

bool isStatic(const ir::TensorType& type) {
  return std::all_of(type.shape.begin(), type.shape.end(),
                     [](const ir::Dim& dim) { return dim.isStatic(); });
}

}  // namespace

std::optional<double> exactReal(double value, ir::DType dtype) {
  if (value == 0 || std::isinf(value) || dtype == DType::kF64) {
    return value;
  }
  const auto format = formatOf(dtype);
  if (!format || std::isnan(value)) {
    return std::nullopt;
  }
  if (std::abs(value) >= format->infinity) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), format->bits);
  if (exponent - 1 < format->min_exponent || scaled != std::trunc(scaled)) {
    return std::nullopt;
  }
  return value;
}

ExprLift::ExprLift(const ir::Graph& graph)
    : graph_(graph), written_(graph.valueCount(), 0), known_(graph.valueCount()) {
  bool mutates = false;
  for (ir::OpId id : graph.order()) {
    mutates = mutates || graph.op(id).traits.mutates;
  }
  if (!mutates) {
    return;
  }
  const std::vector<ir::ValueId> storage = storages(graph);
  std::vector<char> dirty(graph.valueCount(), 0);
  for (ir::OpId id : graph.order()) {
    if (graph.op(id).traits.mutates) {  // which operand is written is not looked at
      for (ir::ValueId v : graph.op(id).operands()) {
        dirty[storage[v.at()].at()] = 1;
      }
      for (ir::ValueId v : graph.op(id).results) {
        dirty[storage[v.at()].at()] = 1;
      }
    }
  }
  for (std::size_t v = 0; v < written_.size(); ++v) {
    written_[v] = dirty[storage[v].at()];
  }
}

ExprId ExprLift::lift(ir::ValueId value) {
  if (known_[value.at()]) {
    return *known_[value.at()];
  }
  const ir::Value& v = graph_.value(value);
  ExprId out;
  if (v.is_tensor && isStatic(v.type) && written_[value.at()] == 0) {
    if (v.def.valid() && v.result == 0 && graph_.op(v.def).results.size() == 1) {
      const ir::Op& op = graph_.op(v.def);
      const std::string_view base = atenBaseName(op);
      for (const Row& row : rules()) {
        if (row.op == base) {
          out = (this->*row.rule)(op, v.type);
          break;
        }
      }
    }
    if (!out.valid()) {
      out = loadOf(value);
    }
    AUTOSP_CHECK(!out.valid() || exprs_.sort(out) == sortOf(v.type.dtype),
                 "a lifted expression of another sort than its tensor");
  }
  known_[value.at()] = out;
  return out;
}

ExprId ExprLift::loadOf(ir::ValueId value) {
  const ir::TensorType& type = graph_.type(value);
  std::vector<ExprId> indices;
  for (std::size_t d = 0; d < type.rank(); ++d) {
    indices.push_back(exprs_.index(static_cast<std::int64_t>(d), type.dim(d)));
  }
  return exprs_.load(value, std::move(indices), sortOf(type.dtype), boundsOf(type.dtype));
}

bool ExprLift::usable(const ir::Op& op, std::string_view arg) const {
  const ir::ValueId v = op.valueArg(arg);
  return v.valid() && graph_.value(v).is_tensor && isStatic(graph_.type(v)) &&
         written_[v.at()] == 0;
}

const ir::TensorType& ExprLift::typeOf(const ir::Op& op, std::string_view arg) const {
  return graph_.type(op.valueArg(arg));
}

ExprId ExprLift::broadcast(ExprId e, const ir::TensorType& from, const ir::TensorType& to) {
  if (from.rank() > to.rank() || !e.valid()) {
    return {};
  }
  const std::size_t shift = to.rank() - from.rank();
  std::vector<ExprId> by_dim(from.rank());
  for (std::size_t d = 0; d < from.rank(); ++d) {
    if (from.dim(d) != 1 && from.dim(d) != to.dim(d + shift)) {
      return {};
    }
    by_dim[d] = exprs_.index(static_cast<std::int64_t>(d + shift), from.dim(d));
  }
  return shift == 0 ? e : exprs_.substitute(e, by_dim);
}

ExprId ExprLift::checked(ExprId e, ir::DType dtype) {
  if (!e.valid()) {
    return {};
  }
  const Interval bounds = boundsOf(dtype);
  return exprs_.range(e).within(bounds.lo, bounds.hi) ? e : ExprId();
}

ExprId ExprLift::convert(ExprId e, ir::DType from, ir::DType to) {
  if (!e.valid() || from == to) {
    return e;
  }
  const Sort source = sortOf(from);
  const Sort target = sortOf(to);
  if (source == Sort::kBool) {
    if (target == Sort::kInt) {
      return exprs_.fromBool(e);
    }
    return exprs_.select(e, exprs_.real(1), exprs_.real(0));
  }
  if (source == Sort::kInt) {
    if (target == Sort::kBool) {
      return exprs_.negation(exprs_.equalZero(e));
    }
    if (target == Sort::kInt) {
      return checked(e, to);
    }
    const auto value = exprs_.constantInteger(e);
    return value && *value >= -256 && *value <= 256  // exact in every floating type
               ? exprs_.real(static_cast<double>(*value))
               : ExprId();
  }
  if (target == Sort::kInt) {
    return {};
  }
  // Reals: constants, and selects of constants.
  if (const auto value = exprs_.constantReal(e)) {
    if (target == Sort::kBool) {
      return exprs_.boolean(*value != 0);
    }
    const auto exact = exactReal(*value, to);
    return exact ? exprs_.real(*exact) : ExprId();
  }
  const Expr node = exprs_.at(e);
  if (node.kind == ExprKind::kSelect) {
    return exprs_.select(node.args[0], convert(node.args[1], from, to),
                         convert(node.args[2], from, to));
  }
  return {};
}

ExprId ExprLift::constant(const ir::Attr& value, ir::DType dtype) {
  switch (sortOf(dtype)) {
    case Sort::kBool:
      return value.isBool() || value.isInt() ? exprs_.boolean(value.asBool()) : ExprId();
    case Sort::kInt:
      return value.isBool() || value.isInt() ? checked(exprs_.integer(value.asInt()), dtype)
                                             : ExprId();
    case Sort::kReal:
      break;
  }
  if (!value.isBool() && !value.isInt() && !value.isFloat()) {
    return {};
  }
  const auto exact = exactReal(value.asFloat(), dtype);
  return exact ? exprs_.real(*exact) : ExprId();
}

ExprId ExprLift::operand(const ir::Op& op, std::string_view arg, const ir::TensorType& result,
                         ir::DType dtype) {
  const ir::Attr* attr = op.find(arg);
  if (attr == nullptr) {
    return {};
  }
  if (!attr->isValue()) {
    return constant(*attr, dtype);
  }
  if (!usable(op, arg)) {
    return {};
  }
  const ExprId e = broadcast(lift(attr->asValue()), typeOf(op, arg), result);
  return convert(e, typeOf(op, arg).dtype, dtype);
}

ExprId ExprLift::integerOperand(const ir::Op& op, std::string_view arg,
                                const ir::TensorType& result) {
  const ir::Attr* attr = op.find(arg);
  if (attr == nullptr) {
    return {};
  }
  if (!attr->isValue()) {
    return attr->isInt() || attr->isBool() ? exprs_.integer(attr->asInt()) : ExprId();
  }
  if (!usable(op, arg) || sortOf(typeOf(op, arg).dtype) == Sort::kReal) {
    return {};
  }
  const ExprId e = broadcast(lift(attr->asValue()), typeOf(op, arg), result);
  if (!e.valid()) {
    return {};
  }
  return exprs_.sort(e) == Sort::kBool ? exprs_.fromBool(e) : e;
}

}  // namespace autosp::passes
