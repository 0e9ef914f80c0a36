// canonicalize: see passes.h. In-place writes are functionalize.cc's; here are the ops that do
// nothing.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "autosp/passes/aliases.h"
#include "autosp/passes/functionalize.h"
#include "autosp/passes/passes.h"

namespace autosp::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;

// Views that, with a result of the operand's type, are the operand.
constexpr std::array kShapeOps = std::to_array<std::string_view>(
    {"_unsafe_view", "alias", "broadcast_to", "expand", "expand_as", "flatten", "narrow",
     "positive", "reshape", "slice", "squeeze", "unflatten", "view", "view_as"});

bool isInteger(ir::DType dtype) {
  return dtype >= ir::DType::kBool && dtype <= ir::DType::kI64;
}

bool isNumber(const Op& op, std::string_view arg, double number) {
  const ir::Attr* value = op.find(arg);
  return value != nullptr && (value->isInt() || value->isFloat()) && value->asFloat() == number;
}

enum class NoOp { kAlias, kCopy };  // of the operand

// What an op without effect does, given that result and operand have one type. x + 0 counts on
// integers only: on floats it turns -0 into 0.
std::optional<NoOp> noOp(const Graph& graph, const Op& op, ValueId source) {
  const std::string_view name = atenBaseName(op);
  if (std::find(kShapeOps.begin(), kShapeOps.end(), name) != kShapeOps.end()) {
    return NoOp::kAlias;
  }
  if (name == "to" || name == "dropout") {
    return aliasKind(graph, op) == AliasKind::kView ? std::optional(NoOp::kAlias) : std::nullopt;
  }
  if (name == "detach") {
    return graph.value(source).requires_grad ? std::nullopt : std::optional(NoOp::kAlias);
  }
  const bool zero = isInteger(graph.type(source).dtype) && isNumber(op, "other", 0);
  if ((name == "add" || name == "sub") && zero) {
    return NoOp::kCopy;
  }
  if ((name == "mul" || name == "div") && isNumber(op, "other", 1) && !op.has("rounding_mode")) {
    return NoOp::kCopy;
  }
  const auto is_constant = [&](const ir::Input& input) {
    return input.value == source && input.kind == ir::InputKind::kConstant;
  };
  if (name == "lift_fresh_copy" &&
      std::any_of(graph.inputs().begin(), graph.inputs().end(), is_constant)) {
    return NoOp::kCopy;
  }
  return std::nullopt;
}

// By value: it may share memory with an input that an op writes in place.
std::vector<char> writtenInputs(const Graph& graph) {
  std::vector<char> written(graph.valueCount(), 0);
  const auto& order = graph.order();
  if (std::none_of(order.begin(), order.end(),
                   [&](OpId id) { return graph.op(id).traits.mutates; })) {
    return written;
  }
  const std::vector<ValueId> storage = storages(graph);
  std::vector<char> dirty(graph.valueCount(), 0);
  for (OpId id : order) {
    for (ValueId v :
         graph.op(id).traits.mutates ? graph.op(id).operands() : std::vector<ValueId>()) {
      dirty[storage[v.at()].at()] = 1;
    }
  }
  for (std::size_t v = 0; v < written.size(); ++v) {
    written[v] = dirty[storage[v].at()];
  }
  return written;
}

void removeNoOps(Graph& graph) {
  const std::vector<char> written = writtenInputs(graph);
  std::vector<char> is_output(graph.valueCount(), 0);
  for (const ir::Output& output : graph.outputs()) {
    if (output.value) {
      is_output[output.value->at()] = 1;
    }
  }
  std::vector<ValueId> now(graph.valueCount());
  for (std::size_t v = 0; v < now.size(); ++v) {
    now[v] = ValueId(v);
  }
  const std::vector<OpId> order = graph.order();
  for (OpId id : order) {
    Op& op = graph.op(id);
    const std::vector<ValueId> operands = op.operands();
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (now[operands[k].at()] != operands[k]) {
        op.setOperand(k, now[operands[k].at()]);
      }
    }
    if (op.traits.mutates || op.traits.effect || op.results.size() != 1 || op.args.empty() ||
        !op.args.front().second.isValue()) {
      continue;
    }
    const ValueId source = op.args.front().second.asValue();
    const ValueId result = op.results[0];
    if (is_output[result.at()] != 0 || graph.type(source) != graph.type(result) ||
        graph.value(source).requires_grad != graph.value(result).requires_grad) {
      continue;
    }
    const auto kind = noOp(graph, op, source);
    if (kind && (*kind == NoOp::kAlias || written[source.at()] == 0)) {
      now[result.at()] = source;
      graph.removeOp(id);
    }
  }
}

}  // namespace

Status canonicalize(ir::Graph& graph, PassContext& /*context*/) {
  AUTOSP_RETURN_IF_ERROR(functionalize(graph));
  removeNoOps(graph);
  return Status::ok();
}

}  // namespace autosp::passes
