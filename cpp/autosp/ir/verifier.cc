#include "autosp/ir/verifier.h"

#include <algorithm>
#include <set>
#include <string>

#include "autosp/support/text_cursor.h"

namespace autosp::ir {
namespace {

std::string shown(ValueId id) {
  return "%" + std::to_string(id.index);
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.valueCount(), 0) {}

  Status run() {
    if (graph_.ranks < 1) {
      return Status::error("the graph has " + std::to_string(graph_.ranks) +
                           " ranks; it needs one or more");
    }
    AUTOSP_RETURN_IF_ERROR(inputs());
    std::vector<char> seen(graph_.opCount(), 0);
    for (OpId id : graph_.order()) {
      if (!id.valid() || id.at() >= graph_.opCount()) {
        return Status::error("the order names op " + std::to_string(id.index) +
                             ", which does not exist");
      }
      if (std::exchange(seen[id.at()], 1)) {
        return fault(id, "the op stands twice in the order");
      }
      AUTOSP_RETURN_IF_ERROR(op(id));
    }
    return outputs();
  }

 private:
  Status fault(OpId id, std::string message) const {
    return Diagnostic{Severity::kError, graph_.describe(id), graph_.op(id).location,
                      std::move(message), ""};
  }

  bool exists(ValueId id) const { return id.valid() && id.at() < graph_.valueCount(); }

  Status inputs() {
    std::set<std::pair<InputKind, std::string>> names;
    for (const Input& input : graph_.inputs()) {
      const std::string what = "input \"" + input.name + "\"";
      if (!exists(input.value)) {
        return Status::error(what + " is value " + shown(input.value) + ", which does not exist");
      }
      const std::string where = what + " (" + shown(input.value) + ")";
      const Value& value = graph_.value(input.value);
      if (std::exchange(defined_[input.value.at()], 1)) {
        return Status::error(where + ": another input has the same value");
      }
      if (value.def.valid()) {
        return Status::error(where + ": its value is the result of an op");
      }
      if (!value.is_tensor) {
        return Status::error(where + ": an input is a tensor, not a token");
      }
      if (!input.name.empty() && !names.emplace(input.kind, input.name).second) {
        return Status::error(where + ": another input of its kind has the same name");
      }
      if (std::string message = valueFault(value); !message.empty()) {
        return Status::error(where + ": " + message);
      }
    }
    return Status::ok();
  }

  Status op(OpId id) {
    const Op& op = graph_.op(id);
    if (op.removed) {
      return fault(id, "the op was removed and still stands in the order");
    }
    if (op.name.empty()) {
      return fault(id, "the op has no name");
    }
    std::set<std::string_view> names;
    for (const auto& [name, attr] : op.args) {
      if (name.empty()) {
        return fault(id, "an argument has no name");
      }
      if (!names.insert(name).second) {
        return fault(id, "argument '" + name + "' is given twice");
      }
    }
    const std::vector<ValueId> operands = op.operands();
    for (ValueId operand : operands) {
      if (std::string message = readFault(operand); !message.empty()) {
        return fault(id, "it reads " + message);
      }
      if (!graph_.value(operand).is_tensor && !op.traits.effect) {
        return fault(
            id, "it reads the token " + shown(operand) + "; only ops with an effect take tokens");
      }
    }
    if (!op.needs.empty() && op.needs.size() != operands.size()) {
      return fault(id, "it needs " + std::to_string(op.needs.size()) + " forms of its " +
                           std::to_string(operands.size()) + " operands");
    }
    for (std::size_t i = 0; i < op.needs.size(); ++i) {
      if (std::string message = formFault(op.needs[i], graph_.value(operands[i]));
          !message.empty()) {
        return fault(id, "needed of " + shown(operands[i]) + ": " + message);
      }
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      AUTOSP_RETURN_IF_ERROR(result(id, i));
    }
    return Status::ok();
  }

  Status result(OpId id, std::size_t index) {
    const ValueId result = graph_.op(id).results[index];
    if (!exists(result)) {
      return fault(id, "its result " + shown(result) + " does not exist");
    }
    const Value& value = graph_.value(result);
    if (std::exchange(defined_[result.at()], 1)) {
      return fault(id, shown(result) + " is defined twice");
    }
    if (value.def != id || value.result != static_cast<std::int32_t>(index)) {
      return fault(id, shown(result) + " is its result " + std::to_string(index) +
                           " and says it is result " + std::to_string(value.result) + " of " +
                           definer(value));
    }
    if (std::string message = valueFault(value); !message.empty()) {
      return fault(id, shown(result) + ": " + message);
    }
    if (value.base.valid()) {
      if (std::string message = readFault(value.base); !message.empty() || value.base == result) {
        return fault(
            id, shown(result) + " shares the memory of " + (message.empty() ? "itself" : message));
      }
      if (graph_.value(value.base).base.valid()) {
        return fault(id, shown(result) + " shares the memory of " + shown(value.base) +
                             ", which has none of its own");
      }
      if (value.saved) {
        return fault(id, shown(result) + " is saved and has no memory of its own");
      }
    }
    return Status::ok();
  }

  Status outputs() {
    for (const Output& output : graph_.outputs()) {
      const std::string what = "output \"" + output.name + "\"";
      if (!output.value) {
        if (output.form) {
          return Status::error(what + " is none and has the form " + output.form->text());
        }
        continue;
      }
      if (std::string message = readFault(*output.value); !message.empty()) {
        return Status::error(what + " returns " + message);
      }
      const Value& value = graph_.value(*output.value);
      if (!value.is_tensor) {
        return Status::error(what + " returns the token " + shown(*output.value));
      }
      if (output.writes.valid()) {
        const auto& inputs = graph_.inputs();
        const auto is_input = [&](const Input& input) { return input.value == output.writes; };
        if (std::none_of(inputs.begin(), inputs.end(), is_input)) {
          return Status::error(what + " writes " + shown(output.writes) + ", which is no input");
        }
      }
      if (output.form) {
        if (std::string message = formFault(*output.form, value); !message.empty()) {
          return Status::error(what + ": " + message);
        }
      }
    }
    return Status::ok();
  }

  std::string definer(const Value& value) const {
    if (!value.def.valid()) {
      return "no op";
    }
    return value.def.at() < graph_.opCount() ? graph_.op(value.def).name : "an op out of range";
  }

  // Why a value cannot be read here; empty when it can.
  std::string readFault(ValueId id) const {
    if (!exists(id)) {
      return shown(id) + ", which does not exist";
    }
    if (defined_[id.at()] != 0) {
      return "";
    }
    const OpId def = graph_.value(id).def;
    if (!def.valid() || def.at() >= graph_.opCount()) {
      return shown(id) + ", which nothing defines";
    }
    const Op& op = graph_.op(def);
    return shown(id) + (op.removed ? ", whose op " + op.name + " was removed"
                                   : " before " + op.name + " defines it");
  }

  // What is wrong with a value's type or form; empty when nothing is.
  static std::string valueFault(const Value& value) {
    const std::string type = value.type.text();
    for (const Dim& dim : value.type.shape) {
      if (dim.coef() < 0) {
        return "type " + type + " has a negative dim";
      }
      if (!std::all_of(dim.symbols().begin(), dim.symbols().end(), isName)) {
        return "type " + type + " has a symbol that is not a name";
      }
    }
    return value.form ? formFault(*value.form, value) : "";
  }

  static std::string formFault(const Form& form, const Value& value) {
    if (!value.is_tensor) {
      return "a token has the form " + form.text();
    }
    return form.isCut() ? cutFault(form, value.type) : "";
  }

  static std::string cutFault(const Form& form, const TensorType& type) {
    const Cut& cut = form.cut;
    const std::string at = "form " + form.text() + " of " + type.text();
    if (cut.dim < 0 || static_cast<std::size_t>(cut.dim) >= type.rank()) {
      return at + ": there is no dim " + std::to_string(cut.dim);
    }
    const Dim& dim = type.shape[static_cast<std::size_t>(cut.dim)];
    if (!dim.isStatic()) {
      return at + ": the size " + dim.text() + " of the dim is not known";
    }
    if (cut.outer < 1 || cut.inner < 1 || cut.group < 1) {
      return at + ": outer, inner and group must be positive";
    }
    // Divided one at a time, so that a huge block cannot overflow.
    if (dim.value() % cut.outer != 0 || (dim.value() / cut.outer) % cut.inner != 0) {
      return at + ": " + std::to_string(cut.outer) + " outer blocks of a multiple of " +
             std::to_string(cut.inner) + " do not divide " + std::to_string(dim.value());
    }
    if (cut.base < 1) {
      return at + ": the base must be positive";
    }
    return "";
  }

  const Graph& graph_;
  std::vector<char> defined_;  // by value: an input, or the result of an op met so far
};

}  // namespace

Status verify(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace autosp::ir
