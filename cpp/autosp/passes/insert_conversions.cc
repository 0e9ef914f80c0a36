// insert-conversions: makes every form that choose-placement's annotations ask for, lowers the ops whose
// strategy needs more than local shapes, and clears the annotations on ops. Afterwards each operand has
// exactly the form its op needs, and each value's form says how it lies on the ranks.
#include <algorithm>
#include <map>
#include <set>

#include "autosp/passes/conversions.h"
#include "autosp/passes/passes.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Form;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::ValueId;

class Inserter {
 public:
  Inserter(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), terms_(graph) {}

  void run() {
    original_ = graph_.order();
    collect();
    for (std::size_t v = 0; v < needed_.size(); ++v) {
      makeCopies(ValueId(v));
    }
    rebuildOrder();
    rewriteReaders();
    for (OpId id : original_) {
      lower(id);
    }
    flushLowered();
  }

 private:
  // A form of a value, wanted from this position of the original order on.
  struct Need {
    Form form;
    std::size_t position = 0;
  };

  void collect() {
    needed_.resize(graph_.valueCount());
    definition_.assign(graph_.valueCount(), 0);
    grad_mode_.resize(original_.size() + 1, true);
    bool enabled = true;
    for (std::size_t p = 0; p < original_.size(); ++p) {
      const Op& op = graph_.op(original_[p]);
      if (op.name == "torch.set_grad_enabled") {
        enabled = op.arg("mode").asBool();
      }
      grad_mode_[p] = enabled;
      for (ValueId v : op.results) {
        definition_[v.at()] = p + 1;
      }
      if (op.traits.effect) {
        continue;
      }
      const std::vector<ValueId> operands = op.operands();
      AUTOSP_CHECK(op.needs.size() == operands.size(),
                   graph_.describe(original_[p]) + " has no placement");
      for (std::size_t i = 0; i < operands.size(); ++i) {
        need(operands[i], op.needs[i], p);
      }
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value && output.form) {
        need(*output.value, *output.form, original_.size());
      }
    }
  }

  void need(ValueId value, const Form& form, std::size_t position) {
    if (form == *graph_.value(value).form) {
      return;
    }
    auto& list = needed_[value.at()];
    if (std::none_of(list.begin(), list.end(), [&](const Need& n) { return n.form == form; })) {
      list.push_back({form, position});
    }
  }

  void makeCopies(ValueId value) {
    const std::vector<Need> needs = needed_[value.at()];
    if (needs.empty()) {
      return;
    }
    const Form own = *graph_.value(value).form;
    std::vector<Form> forms;
    for (const Need& need : needs) {
      forms.push_back(need.form);
    }
    const auto tree = conversionTree(context_.options.machine, graph_.ranks, terms_.of(value),
                                     context_.options.gradients_partial, own, forms);
    AUTOSP_CHECK(tree.has_value(), "a planned conversion does not exist");
    for (const ConversionStep& step : tree->steps) {
      // Wanted where its first reader stands, itself or through a copy made from it.
      std::size_t position = original_.size();
      for (const Need& need : needs) {
        const bool through = std::any_of(
            tree->steps.begin(), tree->steps.end(), [&](const ConversionStep& other) {
              return other.to == need.form && other.from == step.to;
            });
        if (need.form == step.to || through) {
          position = std::min(position, need.position);
        }
      }
      const ir::Value& whole = graph_.value(value);
      if (whole.requires_grad && !grad_mode_[std::min(position, original_.size())]) {
        position = definition_[value.at()];  // inside a no-grad region its gradient would be lost
      }
      ValueId source = value;
      if (step.from != own) {
        source = copies_.at({value, step.from});
      }
      if (sameRanges(value, step)) {
        copies_[{value, step.to}] = source;  // two spellings of one deal
        continue;
      }
      Op op;
      op.name = "autosp.convert";
      op.args = {{"inputs", ir::AttrList{ir::Attr(source)}}};
      op.location = position < original_.size() ? graph_.op(original_[position]).location
                    : whole.def.valid()         ? graph_.op(whole.def).location
                                                : "";
      const Graph::ResultType type{whole.type, whole.requires_grad, true};
      const OpId id = graph_.addDetached(std::move(op), {type});
      const ValueId copy = graph_.op(id).results[0];
      graph_.value(copy).form = step.to;
      copies_[{value, step.to}] = copy;
      before_[position].push_back(id);
    }
  }

  bool sameRanges(ValueId value, const ConversionStep& step) const {
    const ir::Cut& a = step.from.cut;
    const ir::Cut& b = step.to.cut;
    if (!step.from.isCut() || !step.to.isCut() || a.dim != b.dim || a.outer != b.outer ||
        a.inner != b.inner) {
      return false;
    }
    const std::int64_t size = graph_.type(value).dim(static_cast<std::size_t>(a.dim));
    return a.ranges(size, graph_.ranks) == b.ranges(size, graph_.ranks);
  }

  void rebuildOrder() {
    std::vector<OpId> order;
    order.reserve(original_.size() + copies_.size());
    for (std::size_t p = 0; p <= original_.size(); ++p) {
      if (auto found = before_.find(p); found != before_.end()) {
        order.insert(order.end(), found->second.begin(), found->second.end());
      }
      if (p < original_.size()) {
        order.push_back(original_[p]);
      }
    }
    graph_.setOrder(std::move(order));
  }

  ValueId inForm(ValueId value, const Form& form) const {
    return form == *graph_.value(value).form ? value : copies_.at({value, form});
  }

  void rewriteReaders() {
    for (OpId id : original_) {
      Op& op = graph_.op(id);
      if (op.traits.effect) {
        continue;
      }
      const std::vector<ValueId> operands = op.operands();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        op.setOperand(i, inForm(operands[i], op.needs[i]));
      }
      op.needs.clear();
    }
    for (ir::Output& output : graph_.outputs()) {
      if (output.value && output.form) {
        output.value = inForm(*output.value, *output.form);
        output.form.reset();
      }
    }
  }

  // Lowering of the strategies that need more than local shapes.
  void lower(OpId id) {
    Op& op = graph_.op(id);
    const std::string how = std::move(op.lowering);
    op.lowering.clear();
    if (how == "attention-heads" || how == "attention-queries") {
      op.name = "autosp.attention";
      op.traits = {};
    } else if (how == "cross-entropy") {
      op.name = "autosp.cross_entropy";
    } else if (how == "sum-then-divide") {
      sumThenDivide(id);
    }
  }

  void sumThenDivide(OpId id) {
    const Op& mean = graph_.op(id);
    const ValueId result = mean.results[0];
    const ir::Value& before = graph_.value(result);
    const std::int64_t count =
        graph_.type(mean.operands()[0]).elements() / std::max<std::int64_t>(1, before.type.elements());
    Op sum = mean;
    if (mean.name == "aten.mean.dim") {
      sum.name = "aten.sum.dim_IntList";
    } else if (mean.name == "aten.mean.default") {
      sum.name = "aten.sum.default";
    } else {
      AUTOSP_CHECK(mean.find("reduction") != nullptr, mean.name + " is no mean");
      sum.set("reduction", std::int64_t{2});
    }
    sum.results.clear();
    const Form form = *before.form;
    const Graph::ResultType type{before.type, before.requires_grad, true};
    const OpId sum_id = graph_.addDetached(std::move(sum), {type});
    const ValueId total = graph_.op(sum_id).results[0];
    graph_.value(total).form = form;
    Op& divide = graph_.op(id);
    divide.name = "aten.div.Scalar";
    divide.args = {{"self", ir::Attr(total)}, {"other", ir::Attr(count)}};
    divide.traits = {};
    divide.traits.pointwise = true;
    divide.origin = -1;
    lowered_before_[id] = sum_id;
  }

  void flushLowered() {
    if (lowered_before_.empty()) {
      return;
    }
    std::vector<OpId> order;
    for (OpId id : graph_.order()) {
      if (auto found = lowered_before_.find(id); found != lowered_before_.end()) {
        order.push_back(found->second);
      }
      order.push_back(id);
    }
    graph_.setOrder(std::move(order));
  }

  Graph& graph_;
  PassContext& context_;
  ValueTerms terms_;
  std::vector<OpId> original_;
  std::vector<std::vector<Need>> needed_;
  std::vector<std::size_t> definition_;  // by value: first position where it can be read
  std::vector<char> grad_mode_;          // by position
  std::map<std::pair<ValueId, Form>, ValueId> copies_;
  std::map<std::size_t, std::vector<OpId>> before_;
  std::map<OpId, OpId> lowered_before_;
};

}  // namespace

Status insertConversions(Graph& graph, PassContext& context) {
  Inserter(graph, context).run();
  return Status::ok();
}

}  // namespace autosp::passes
