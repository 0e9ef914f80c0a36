// Tensors of a graph as index expressions (index_expr.h): walks from a value towards what it is
// computed from, one rule an op, and stops with a load where there is no rule. A missing rule
// therefore costs precision and never soundness: what lift() returns equals the tensor on every
// element.
//
// Two things have no expression at all: a tensor whose storage some op writes in place (it has no
// single value), and a tensor with a symbolic dim. Arithmetic has a rule only where the interval of
// the result fits the tensor's type, so nothing wraps; arithmetic on floating types has none, so
// nothing rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/passes/index_expr.h"

namespace autosp::passes {

// The value as the type holds it, or nothing when it would be rounded. Out of range is an infinity.
std::optional<double> exactReal(double value, ir::DType dtype);

class ExprLift {
 public:
  explicit ExprLift(const ir::Graph& graph);

  IndexExprs& exprs() { return exprs_; }
  // The tensor as an expression in the index variables of its own dims; invalid when it has none.
  ExprId lift(ir::ValueId value);

 private:
  using Rule = ExprId (ExprLift::*)(const ir::Op&, const ir::TensorType&);
  struct Row {
    std::string_view op;  // without namespace and overload: "add"
    Rule rule;
  };
  static const std::vector<Row>& rules();

  ExprId loadOf(ir::ValueId value);
  // An operand as seen by a result of this type: broadcast, and converted to dtype.
  ExprId operand(const ir::Op& op, std::string_view arg, const ir::TensorType& result,
                 ir::DType dtype);
  // The same without conversion of integers and booleans to a width: for exact integer arithmetic.
  ExprId integerOperand(const ir::Op& op, std::string_view arg, const ir::TensorType& result);
  ExprId broadcast(ExprId e, const ir::TensorType& from, const ir::TensorType& to);
  ExprId convert(ExprId e, ir::DType from, ir::DType to);
  ExprId constant(const ir::Attr& value, ir::DType dtype);
  ExprId checked(ExprId e, ir::DType dtype);  // invalid unless the interval fits
  bool usable(const ir::Op& op, std::string_view arg) const;
  const ir::TensorType& typeOf(const ir::Op& op, std::string_view arg) const;

  // Creation.
  ExprId arange(const ir::Op& op, const ir::TensorType& type);
  ExprId filled(const ir::Op& op, const ir::TensorType& type);
  ExprId zeros(const ir::Op& op, const ir::TensorType& type);
  ExprId ones(const ir::Op& op, const ir::TensorType& type);
  // Same elements, other places.
  ExprId same(const ir::Op& op, const ir::TensorType& type);
  ExprId reshape(const ir::Op& op, const ir::TensorType& type);
  ExprId expand(const ir::Op& op, const ir::TensorType& type);
  ExprId permute(const ir::Op& op, const ir::TensorType& type);
  ExprId transpose(const ir::Op& op, const ir::TensorType& type);
  ExprId slice(const ir::Op& op, const ir::TensorType& type);
  ExprId selectDim(const ir::Op& op, const ir::TensorType& type);
  ExprId indexTensor(const ir::Op& op, const ir::TensorType& type);
  ExprId triangle(const ir::Op& op, const ir::TensorType& type);
  // Conversions and elementwise ops.
  ExprId to(const ir::Op& op, const ir::TensorType& type);
  ExprId where(const ir::Op& op, const ir::TensorType& type);
  ExprId maskedFill(const ir::Op& op, const ir::TensorType& type);
  ExprId both(const ir::Op& op, const ir::TensorType& type);
  ExprId either(const ir::Op& op, const ir::TensorType& type);
  ExprId negated(const ir::Op& op, const ir::TensorType& type);
  ExprId compare(const ir::Op& op, const ir::TensorType& type);
  ExprId addition(const ir::Op& op, const ir::TensorType& type);
  ExprId multiplication(const ir::Op& op, const ir::TensorType& type);
  ExprId unary(const ir::Op& op, const ir::TensorType& type);
  ExprId division(const ir::Op& op, const ir::TensorType& type);
  // Along a dim.
  ExprId cumsum(const ir::Op& op, const ir::TensorType& type);
  ExprId diff(const ir::Op& op, const ir::TensorType& type);

  const ir::Graph& graph_;
  IndexExprs exprs_;
  std::vector<char> written_;                 // by value: may share storage with what an op writes
  std::vector<std::optional<ExprId>> known_;  // by value
};

}  // namespace autosp::passes
