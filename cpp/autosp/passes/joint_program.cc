#include "autosp/passes/joint_program.h"

#include <algorithm>

#include "autosp/cost/op_class.h"
#include "autosp/cost/prices.h"

namespace autosp::passes {
namespace {

using cost::Demand;
using cost::JointOp;
using cost::JointProgram;
using cost::JointValue;
using cost::OpClass;
using cost::OpIndex;
using cost::ValueIndex;

class Builder {
 public:
  Builder(const ir::Graph& graph, const cost::Machine& machine, bool fused)
      : graph_(graph), machine_(machine), fused_(fused), index_(graph.valueCount(), -1) {}

  JointView run() {
    for (const ir::Input& input : graph_.inputs()) {
      addInput(input);
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.writes.valid()) {
        value(output.writes).overwritten = true;
      }
    }
    for (ir::OpId id : graph_.order()) {
      addOp(id);
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value) {
        auto& list = output.gradient ? view_.program.gradients : view_.program.results;
        list.push_back(index_[output.value->at()]);
      }
    }
    findBackward();
    price();
    return std::move(view_);
  }

 private:
  JointValue& value(ir::ValueId id) {
    return view_.program.values[static_cast<std::size_t>(index_[id.at()])];
  }

  ValueIndex addValue(ir::ValueId id, OpIndex maker) {
    const ir::Value& source = graph_.value(id);
    const auto index = static_cast<ValueIndex>(view_.values.size());
    index_[id.at()] = index;
    JointValue out;
    out.maker = maker;
    out.base = source.base.valid() ? index_[source.base.at()] : index;
    out.bytes = source.is_tensor && out.base == index ? source.type.bytes() : 0;
    out.elements = source.is_tensor ? source.type.elements() : 0;
    view_.program.values.push_back(out);
    view_.values.push_back(id);
    return index;
  }

  void addInput(const ir::Input& input) {
    addValue(input.value, -1);
    JointValue& out = value(input.value);
    using ir::InputKind;
    out.tangent = input.kind == InputKind::kTangent;
    out.parameter = input.kind == InputKind::kParameter || graph_.value(input.value).requires_grad;
    out.data = input.kind == InputKind::kUser;
  }

  void addOp(ir::OpId id) {
    const ir::Op& source = graph_.op(id);
    const auto index = static_cast<OpIndex>(view_.ops.size());
    JointOp out;
    out.kind = cost::classOf(graph_, source);
    out.demand = source.traits.recompute ? Demand::kRecompute
                 : source.traits.keep    ? Demand::kSave
                                         : Demand::kNone;
    for (ir::ValueId operand : source.operands()) {
      const ValueIndex read = index_[operand.at()];
      if (std::find(out.reads.begin(), out.reads.end(), read) == out.reads.end()) {
        out.reads.push_back(read);
      }
    }
    for (ir::ValueId result : source.results) {
      out.makes.push_back(addValue(result, index));
    }
    out.flops = cost::flops(graph_, source);
    out.heavy = cost::isHeavy(source);
    out.adds = source.name == "aten.add.Tensor";
    view_.program.ops.push_back(std::move(out));
    view_.ops.push_back(id);
  }

  // By op: whether a result of the forward depends on it.
  std::vector<char> neededByResults() const {
    const JointProgram& program = view_.program;
    std::vector<char> value(program.values.size(), 0);
    std::vector<char> op(program.ops.size(), 0);
    for (ValueIndex v : program.results) {
      value[static_cast<std::size_t>(v)] = 1;
    }
    for (std::size_t i = op.size(); i-- > 0;) {
      for (ValueIndex made : program.ops[i].makes) {
        op[i] |= value[static_cast<std::size_t>(made)];
      }
      if (op[i] != 0) {
        for (ValueIndex read : program.ops[i].reads) {
          value[static_cast<std::size_t>(read)] = 1;
        }
      }
    }
    return op;
  }

  // Which ops depend on a tangent, and which may never run twice.
  void findBackward() {
    JointProgram& program = view_.program;
    const std::vector<char> claimed = neededByResults();
    std::vector<char> tangent(program.values.size(), 0);
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      tangent[v] = program.values[v].tangent ? 1 : 0;
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      JointOp& op = program.ops[i];
      for (ValueIndex read : op.reads) {
        const auto r = static_cast<std::size_t>(read);
        op.backward = op.backward || tangent[r] != 0;
        const JointValue& base = program.values[static_cast<std::size_t>(program.base(read))];
        op.once = op.once || base.overwritten;  // a view of it too: it would show the new contents
      }
      for (ValueIndex made : op.makes) {
        tangent[static_cast<std::size_t>(made)] = op.backward ? 1 : 0;
      }
      if (!op.backward && !claimed[i]) {
        op.deferred = true;
        op.demand = Demand::kRecompute;
        op.once = false;
        continue;
      }
      // A user's policy may ask for a random op again: torch then keeps the generator's state for
      // it.
      const ir::Op& source = graph_.op(view_.ops[i]);
      const bool random = cost::drawsRandomNumbers(source) && op.demand != Demand::kRecompute;
      op.once = op.once || random || source.traits.mutates;
    }
  }

  // What no reader, seen through views, needs as a buffer is computed inside its readers.
  void price() {
    JointProgram& program = view_.program;
    std::vector<char> materialised(program.values.size(), 0);
    for (const auto* list : {&program.results, &program.gradients}) {
      for (ValueIndex v : *list) {
        materialised[static_cast<std::size_t>(program.base(v))] = 1;
      }
    }
    for (const JointOp& op : program.ops) {
      if (!cost::isFusible(op.kind)) {
        for (ValueIndex read : op.reads) {
          materialised[static_cast<std::size_t>(program.base(read))] = 1;
        }
      }
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      JointOp& op = program.ops[i];
      bool away = fused_ && op.kind == OpClass::kPointwise;
      for (ValueIndex made : op.makes) {
        away = away && materialised[static_cast<std::size_t>(program.base(made))] == 0;
      }
      op.time = op.deferred
                    ? 0
                    : cost::rerunTime(machine_, graph_, graph_.op(view_.ops[i]), op.kind, away);
    }
  }

  const ir::Graph& graph_;
  const cost::Machine& machine_;
  bool fused_;
  std::vector<ValueIndex> index_;  // by the graph's value
  JointView view_;
};

}  // namespace

JointView jointProgram(const ir::Graph& graph, const cost::Machine& machine, bool fused) {
  return Builder(graph, machine, fused).run();
}

cost::CheckpointPlan markedPlan(const ir::Graph& graph, const JointView& view) {
  const JointProgram& program = view.program;
  cost::CheckpointPlan plan;
  plan.saved.assign(program.values.size(), 0);
  plan.recomputed.assign(program.ops.size(), 0);
  std::vector<char> needed(program.values.size(), 0);
  for (ValueIndex v : program.gradients) {
    needed[static_cast<std::size_t>(v)] = 1;
  }
  for (const JointOp& op : program.ops) {
    for (ValueIndex read : op.reads) {
      needed[static_cast<std::size_t>(read)] |= op.backward ? 1 : 0;
    }
  }
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    const JointOp& op = program.ops[i];
    for (ValueIndex made : op.makes) {
      const auto m = static_cast<std::size_t>(made);
      if (op.backward || needed[m] == 0) {
        continue;
      }
      if (graph.value(view.values[m]).saved) {
        plan.saved[m] = 1;
        continue;
      }
      plan.recomputed[i] = 1;
      for (ValueIndex read : op.reads) {
        needed[static_cast<std::size_t>(read)] = 1;
      }
    }
  }
  return plan;
}

}  // namespace autosp::passes
