#include "autosp/passes/inverse_views.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "autosp/passes/aliases.h"

namespace autosp::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::TensorType;
using ir::ValueId;

constexpr std::array kSwaps = std::to_array<std::string_view>({"t", "transpose"});
constexpr std::array kRegroups = std::to_array<std::string_view>(
    {"reshape", "squeeze", "unflatten", "unsqueeze", "view", "view_as"});
constexpr std::array kRanges = std::to_array<std::string_view>(
    {"chunk", "narrow", "select", "slice", "split", "split_with_sizes", "unbind"});

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Op make(std::string name, std::vector<std::pair<std::string, Attr>> args) {
  Op op;
  op.name = std::move(name);
  op.args = std::move(args);
  return op;
}

std::vector<std::int64_t> inversePermutation(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> inverse(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    inverse[static_cast<std::size_t>(ir::normalDim(dims[d], dims.size()))] =
        static_cast<std::int64_t>(d);
  }
  return inverse;
}

// Where result `result` of the view begins along its dim, of this size.
std::int64_t rangeStart(const Graph& graph, const Op& view, std::size_t result, std::size_t dim,
                        std::int64_t size) {
  const std::string_view name = atenBaseName(view);
  const auto fromEnd = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  if (name == "slice" || name == "narrow") {
    return fromEnd(view.intArg("start", 0));
  }
  if (name == "select") {
    return fromEnd(view.intArg("index", 0));
  }
  if (name == "unbind") {
    return static_cast<std::int64_t>(result);
  }
  std::int64_t start = 0;
  for (std::size_t i = 0; i < result; ++i) {
    start += graph.type(view.results[i]).dim(dim);
  }
  return start;
}

// Appends tensors that together are [lo, hi) of the dim.
void addPieces(OpEmitter& emitter, ValueId whole, std::size_t dim, std::int64_t lo, std::int64_t hi,
               std::vector<Attr>& pieces) {
  const Graph& graph = emitter.graph();
  if (lo >= hi) {
    return;
  }
  TensorType type = graph.type(whole);
  if (lo == 0 && hi == type.dim(dim)) {
    pieces.emplace_back(whole);
    return;
  }
  const auto axis = static_cast<std::int64_t>(dim);
  if (const OpId def = graph.value(whole).def; def.valid() && emitter.emitted(def)) {
    const Op cat = graph.op(def);
    if (cat.name == "aten.cat.default" && cat.intArg("dim", 0) == axis) {
      std::int64_t begin = 0;
      for (ValueId piece : cat.operands()) {
        const std::int64_t size = graph.type(piece).dim(dim);
        addPieces(emitter, piece, dim, std::max(lo - begin, std::int64_t{0}),
                  std::min(hi - begin, size), pieces);
        begin += size;
      }
      return;
    }
  }
  type.shape[dim] = hi - lo;
  pieces.emplace_back(emitter.emit(make("aten.slice.Tensor", {{"self", Attr(whole)},
                                                              {"dim", Attr(axis)},
                                                              {"start", Attr(lo)},
                                                              {"end", Attr(hi)},
                                                              {"step", Attr(1)}}),
                                   {{type, emitter.gradOf(whole), true}})[0]);
}

ValueId putBackRange(OpEmitter& emitter, const Op& view, std::size_t result, ValueId whole,
                     ValueId part) {
  const Graph& graph = emitter.graph();
  const std::string_view name = atenBaseName(view);
  const TensorType type = graph.type(whole);
  const std::int64_t axis = ir::normalDim(view.intArg("dim", 0), type.rank());
  const auto dim = static_cast<std::size_t>(axis);
  const bool grad = emitter.gradOf(whole) || emitter.gradOf(part);
  if (name == "select" || name == "unbind") {
    TensorType kept = type;
    kept.shape[dim] = 1;
    part = emitter.emit(make("aten.unsqueeze.default", {{"self", Attr(part)}, {"dim", Attr(axis)}}),
                        {{kept, emitter.gradOf(part), true}})[0];
  }
  if (name == "slice" && view.intArg("step", 1) != 1) {
    return emitter.emit(make("aten.slice_scatter.default", {{"self", Attr(whole)},
                                                            {"src", Attr(part)},
                                                            {"dim", Attr(axis)},
                                                            {"start", view.arg("start")},
                                                            {"end", view.arg("end")},
                                                            {"step", view.arg("step")}}),
                        {{type, grad, true}})[0];
  }
  const std::int64_t lo = rangeStart(graph, view, result, dim, type.dim(dim));
  std::vector<Attr> pieces;
  addPieces(emitter, whole, dim, 0, lo, pieces);
  pieces.emplace_back(part);
  addPieces(emitter, whole, dim, lo + graph.type(part).dim(dim), type.dim(dim), pieces);
  if (pieces.size() == 1) {
    return part;
  }
  return emitter.emit(
      make("aten.cat.default", {{"tensors", Attr(std::move(pieces))}, {"dim", Attr(axis)}}),
      {{type, grad, true}})[0];
}

}  // namespace

void OpEmitter::placeBefore(ir::OpId id) {
  before_ = id;
  after_ = {};
}

void OpEmitter::placeAfter(ir::OpId id) {
  after_ = id;
}

std::vector<ValueId> OpEmitter::emit(Op op, const std::vector<Graph::ResultType>& types) {
  op.traits = {};
  op.results.clear();
  if (op.location.empty()) {
    op.location = graph_.op(after_.valid() ? after_ : before_).location;
  }
  OpId id;
  if (after_.valid()) {
    id = graph_.insertAfter(after_, std::move(op), types);
    after_ = id;
  } else {
    id = graph_.insertBefore(before_, std::move(op), types);
  }
  born_.resize(std::max(born_.size(), id.at() + 1), 0);
  born_[id.at()] = 1;
  return graph_.op(id).results;
}

bool hasInverse(const Graph& graph, OpId view) {
  const Op& op = graph.op(view);
  const std::string_view name = atenBaseName(op);
  if (name != "permute" && !contains(kSwaps, name) && !contains(kRegroups, name) &&
      !contains(kRanges, name)) {
    return false;
  }
  const TensorType& whole = graph.type(op.operands().front());
  return graph.type(op.results.front()).dtype == whole.dtype &&
         std::all_of(whole.shape.begin(), whole.shape.end(),
                     [](const ir::Dim& dim) { return dim.isStatic(); });
}

ValueId putBack(OpEmitter& emitter, OpId view_id, std::size_t result, ValueId whole, ValueId part) {
  const Op view = emitter.graph().op(view_id);
  const std::string_view name = atenBaseName(view);
  if (contains(kRanges, name)) {
    return putBackRange(emitter, view, result, whole, part);
  }
  const TensorType type = emitter.graph().type(whole);
  const std::vector<Graph::ResultType> types = {
      {type, emitter.gradOf(whole) || emitter.gradOf(part), true}};
  if (contains(kSwaps, name)) {
    Op op = view;
    op.setOperand(0, part);
    return emitter.emit(std::move(op), types)[0];
  }
  if (name == "permute") {
    return emitter.emit(make("aten.permute.default",
                             {{"self", Attr(part)},
                              {"dims", Attr::ints(inversePermutation(view.arg("dims").asInts()))}}),
                        types)[0];
  }
  return emitter.emit(
      make("aten.reshape.default", {{"self", Attr(part)}, {"shape", Attr::ints(type.sizes())}}),
      types)[0];
}

}  // namespace autosp::passes
