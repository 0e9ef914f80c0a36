#include "autosp/ir/graph.h"

#include <algorithm>

#include "autosp/support/check.h"

namespace autosp::ir {
namespace {

void collectOperands(const Attr& attr, std::vector<ValueId>& out) {
  if (attr.isValue()) {
    out.push_back(attr.asValue());
  } else if (attr.isList()) {
    for (const Attr& item : attr.asList()) {
      collectOperands(item, out);
    }
  }
}

// Visits each operand slot in order; the visitor returns the value to put there.
template <typename Visit>
void rewriteOperands(Attr& attr, const Visit& visit) {
  if (attr.isValue()) {
    attr = Attr(visit(attr.asValue()));
  } else if (attr.isList()) {
    for (Attr& item : attr.asList()) {
      rewriteOperands(item, visit);
    }
  }
}

}  // namespace

const Attr* Op::find(std::string_view arg) const {
  for (const auto& [key, value] : args) {
    if (key == arg) {
      return &value;
    }
  }
  return nullptr;
}

Attr* Op::find(std::string_view arg) {
  return const_cast<Attr*>(static_cast<const Op*>(this)->find(arg));
}

const Attr& Op::arg(std::string_view arg) const {
  const Attr* found = find(arg);
  AUTOSP_CHECK(found != nullptr, name + " has no argument '" + std::string(arg) + "'");
  return *found;
}

void Op::set(std::string_view arg, Attr value) {
  if (Attr* found = find(arg)) {
    *found = std::move(value);
  } else {
    args.emplace_back(std::string(arg), std::move(value));
  }
}

bool Op::has(std::string_view arg) const {
  const Attr* found = find(arg);
  return found != nullptr && !found->isNone();
}

std::int64_t Op::intArg(std::string_view arg, std::int64_t absent) const {
  return has(arg) ? find(arg)->asInt() : absent;
}

bool Op::boolArg(std::string_view arg, bool absent) const {
  return has(arg) ? find(arg)->asBool() : absent;
}

double Op::floatArg(std::string_view arg, double absent) const {
  return has(arg) ? find(arg)->asFloat() : absent;
}

ValueId Op::valueArg(std::string_view arg) const {
  const Attr* found = find(arg);
  return found != nullptr && found->isValue() ? found->asValue() : ValueId();
}

std::vector<ValueId> Op::operands() const {
  std::vector<ValueId> out;
  for (const auto& [key, value] : args) {
    collectOperands(value, out);
  }
  return out;
}

int Op::replaceOperand(ValueId from, ValueId to) {
  int count = 0;
  for (auto& [key, value] : args) {
    rewriteOperands(value, [&](ValueId v) {
      count += v == from ? 1 : 0;
      return v == from ? to : v;
    });
  }
  return count;
}

void Op::setOperand(std::size_t k, ValueId to) {
  std::size_t i = 0;
  for (auto& [key, value] : args) {
    rewriteOperands(value, [&](ValueId v) { return i++ == k ? to : v; });
  }
  AUTOSP_CHECK(k < i, name + " has no operand " + std::to_string(k));
}

std::int64_t normalDim(std::int64_t dim, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  return dim < 0 ? dim + n : dim;
}

ValueId Graph::addInput(std::string name, InputKind kind, TensorType type, bool requires_grad) {
  const ValueId id(values_.size());
  Value value;
  value.type = std::move(type);
  value.requires_grad = requires_grad;
  values_.push_back(std::move(value));
  inputs_.push_back({id, kind, std::move(name)});
  return id;
}

OpId Graph::emplace(Op op, const std::vector<ResultType>& results) {
  const OpId id(ops_.size());
  op.results.clear();
  for (const ResultType& result : results) {
    op.results.push_back(ValueId(values_.size()));
    Value value;
    value.type = result.type;
    value.is_tensor = result.is_tensor;
    value.requires_grad = result.requires_grad;
    value.base = result.base;
    value.def = id;
    value.result = static_cast<std::int32_t>(op.results.size()) - 1;
    values_.push_back(std::move(value));
  }
  ops_.push_back(std::move(op));
  return id;
}

OpId Graph::addOp(Op op, const std::vector<ResultType>& results) {
  const OpId id = emplace(std::move(op), results);
  order_.push_back(id);
  return id;
}

OpId Graph::insertBefore(OpId place, Op op, const std::vector<ResultType>& results) {
  const OpId id = emplace(std::move(op), results);
  auto at = std::find(order_.begin(), order_.end(), place);
  AUTOSP_CHECK(at != order_.end(), "insertion before an op that is not in the order");
  order_.insert(at, id);
  return id;
}

OpId Graph::insertAfter(OpId place, Op op, const std::vector<ResultType>& results) {
  const OpId id = emplace(std::move(op), results);
  auto at = std::find(order_.begin(), order_.end(), place);
  AUTOSP_CHECK(at != order_.end(), "insertion after an op that is not in the order");
  order_.insert(at + 1, id);
  return id;
}

OpId Graph::insertFirst(Op op, const std::vector<ResultType>& results) {
  const OpId id = emplace(std::move(op), results);
  order_.insert(order_.begin(), id);
  return id;
}

void Graph::addOutput(std::optional<ValueId> value, std::string name, bool may_stay_cut) {
  Output output;
  output.value = value;
  output.name = std::move(name);
  output.may_stay_cut = may_stay_cut;
  outputs_.push_back(std::move(output));
}

std::vector<std::vector<OpId>> Graph::users() const {
  std::vector<std::vector<OpId>> out(values_.size());
  for (OpId id : order_) {
    for (ValueId v : ops_[id.at()].operands()) {
      if (out[v.at()].empty() || out[v.at()].back() != id) {
        out[v.at()].push_back(id);
      }
    }
  }
  return out;
}

void Graph::replaceAllUses(ValueId from, ValueId to) {
  for (OpId id : order_) {
    ops_[id.at()].replaceOperand(from, to);
  }
  for (Output& output : outputs_) {
    if (output.value == from) {
      output.value = to;
    }
  }
}

void Graph::replaceUsesAfter(OpId place, ValueId from, ValueId to) {
  auto at = std::find(order_.begin(), order_.end(), place);
  AUTOSP_CHECK(at != order_.end(), "the op is not in the order");
  for (++at; at != order_.end(); ++at) {
    ops_[at->at()].replaceOperand(from, to);
  }
  for (Output& output : outputs_) {
    if (output.value == from) {
      output.value = to;
    }
  }
}

void Graph::removeOp(OpId id) {
  auto at = std::find(order_.begin(), order_.end(), id);
  AUTOSP_CHECK(at != order_.end(), "removing an op that is not in the order");
  order_.erase(at);
  ops_[id.at()].removed = true;
}

int Graph::removeDeadOps() {
  std::vector<char> needed(values_.size(), 0);
  for (const Output& output : outputs_) {
    if (output.value) {
      needed[output.value->at()] = 1;
    }
  }
  std::vector<OpId> kept;
  int removed = 0;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Op& op = ops_[it->at()];
    const bool live = op.traits.effect || op.traits.mutates ||
                      std::any_of(op.results.begin(), op.results.end(),
                                  [&](ValueId v) { return needed[v.at()] != 0; });
    if (!live) {
      op.removed = true;
      ++removed;
      continue;
    }
    for (ValueId v : op.operands()) {
      needed[v.at()] = 1;
    }
    kept.push_back(*it);
  }
  std::reverse(kept.begin(), kept.end());
  order_ = std::move(kept);
  return removed;
}

void Graph::renumberValues(const std::vector<ValueId>& to) {
  AUTOSP_CHECK(to.size() == values_.size(), "a renumbering names each value once");
  std::vector<Value> moved;
  std::vector<char> taken;
  for (std::size_t i = 0; i < to.size(); ++i) {
    AUTOSP_CHECK(to[i].valid(), "a value is renumbered to no id");
    if (moved.size() <= to[i].at()) {
      moved.resize(to[i].at() + 1);
      taken.resize(to[i].at() + 1, 0);
    }
    AUTOSP_CHECK(!std::exchange(taken[to[i].at()], 1), "two values are renumbered to one id");
    moved[to[i].at()] = std::move(values_[i]);
  }
  values_ = std::move(moved);
  for (Value& value : values_) {
    if (value.base.valid()) {
      value.base = to[value.base.at()];
    }
  }
  for (Op& op : ops_) {
    for (auto& [key, attr] : op.args) {
      rewriteOperands(attr, [&](ValueId v) { return to[v.at()]; });
    }
    for (ValueId& result : op.results) {
      result = to[result.at()];
    }
  }
  for (Input& input : inputs_) {
    input.value = to[input.value.at()];
  }
  for (Output& output : outputs_) {
    if (output.value) {
      output.value = to[output.value->at()];
    }
    if (output.writes.valid()) {
      output.writes = to[output.writes.at()];
    }
  }
}

std::string Graph::describe(OpId id) const {
  const Op& op = ops_[id.at()];
  std::string out = op.name;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    out += (i == 0 ? " on %" : ", %") + std::to_string(op.results[i].index);
  }
  return out;
}

}  // namespace autosp::ir
