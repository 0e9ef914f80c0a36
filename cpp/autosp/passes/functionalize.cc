#include "autosp/passes/functionalize.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autosp/passes/aliases.h"
#include "autosp/passes/inplace_ops.h"
#include "autosp/passes/inverse_views.h"
#include "autosp/passes/storage_versions.h"
#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::OpId;
using ir::TensorType;
using ir::ValueId;

constexpr std::string_view kRemedy = "Write it out of place";

// "torch.float32", as the importer spells a dtype argument.
std::string torchDtype(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBool:
      return "torch.bool";
    case ir::DType::kU8:
      return "torch.uint8";
    case ir::DType::kI8:
      return "torch.int8";
    case ir::DType::kI16:
      return "torch.int16";
    case ir::DType::kI32:
      return "torch.int32";
    case ir::DType::kI64:
      return "torch.int64";
    case ir::DType::kF16:
      return "torch.float16";
    case ir::DType::kBF16:
      return "torch.bfloat16";
    case ir::DType::kF32:
      return "torch.float32";
    case ir::DType::kF64:
      return "torch.float64";
    case ir::DType::kC64:
      return "torch.complex64";
    case ir::DType::kC128:
      return "torch.complex128";
    case ir::DType::kOther:
      break;
  }
  failCheck("torchDtype", "a cast to an unknown dtype", __FILE__, __LINE__);
}

bool isStatic(const TensorType& type) {
  return std::all_of(type.shape.begin(), type.shape.end(),
                     [](const ir::Dim& dim) { return dim.isStatic(); });
}

// Results that have no gradient whatever the operands have.
bool cutsGradient(const Op& op) {
  const std::string_view name = atenBaseName(op);
  return name == "detach" || name == "empty_like" || name == "full_like" || name == "new_empty" ||
         name == "new_full" || name == "new_ones" || name == "new_zeros" || name == "ones_like" ||
         name == "rand_like" || name == "randn_like" || name == "zeros_like";
}

class Functionalizer {
 public:
  explicit Functionalizer(Graph& graph)
      : graph_(graph),
        versions_(graph),
        restrided_(graph.valueCount(), 0),
        raised_(graph.valueCount(), 0),
        emitter_(graph) {}

  Status run() {
    const std::vector<OpId> original = graph_.order();
    for (OpId id : original) {
      emitter_.placeBefore(id);
      AUTOSP_RETURN_IF_ERROR(visit(id));
    }
    emitter_.placeAfter(graph_.order().back());
    for (ir::Output& output : graph_.outputs()) {
      if (output.value && graph_.value(*output.value).is_tensor) {
        ValueId now;
        AUTOSP_RETURN_IF_ERROR(read(*output.value, "the output " + output.name, "", now));
        output.value = now;
      }
    }
    return Status::ok();
  }

 private:
  Status visit(OpId id) {
    if (graph_.op(id).name == "torch.set_grad_enabled") {
      emitter_.setGradMode(graph_.op(id).arg("mode").asBool());
    }
    const std::vector<ValueId> operands = graph_.op(id).operands();  // originals
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (!graph_.value(operands[k]).is_tensor) {
        continue;
      }
      ValueId now;
      AUTOSP_RETURN_IF_ERROR(read(operands[k], graph_.describe(id), graph_.op(id).location, now));
      if (now != operands[k]) {
        graph_.op(id).setOperand(k, now);
      }
      raise(id, operands[k], now);
      restride(id, operands[k], now);
    }
    if (graph_.op(id).traits.mutates) {
      return visitWrite(id, operands);
    }
    addResults(id, operands);
    relaxView(id);
    return Status::ok();
  }

  void addResults(OpId id, const std::vector<ValueId>& operands) {
    const Op& op = graph_.op(id);
    const AliasKind kind = operands.empty() ? AliasKind::kFresh : aliasKind(graph_, op);
    const bool of_list = op.args.empty() || !op.args.front().second.isValue();
    for (ValueId result : op.results) {
      if (kind == AliasKind::kFresh) {
        versions_.addFresh(result);
      } else if (of_list) {
        versions_.addLinked(result, operands);
      } else if (kind == AliasKind::kMaybe ||
                 (atenBaseName(op) == "detach" && isFloating(graph_.type(result).dtype))) {
        versions_.addLinked(result, {operands[0]});  // detach: the memory without the gradient
      } else {
        const bool renames = op.results.size() == 1 && rename(op, result);
        versions_.addView(result, operands[0], renames ? OpId() : id, emitter_.gradMode());
      }
    }
  }

  // Views that hand on their operand as it is.
  bool rename(const Op& op, ValueId result) const {
    static constexpr std::string_view kNames[] = {"alias",      "detach",   "dropout", "to",
                                                  "lift_fresh", "positive", "expand",  "view"};
    return graph_.type(op.operands()[0]) == graph_.type(result) &&
           std::find(std::begin(kNames), std::end(kNames), atenBaseName(op)) != std::end(kNames);
  }

  // The value that holds the original's contents at this point; `reader` is for messages.
  Status read(ValueId original, const std::string& reader, const std::string& location,
              ValueId& now) {
    Slot& slot = versions_.slot(original);
    const Storage& storage = versions_.storage(original);
    if (!storage.clobbered_by.empty()) {
      return Diagnostic{Severity::kError, reader, location,
                        "it reads %" + std::to_string(original.index) +
                            ", which may share memory with what " + storage.clobbered_by +
                            " wrote in place",
                        "Write it out of place, or clone it before"};
    }
    if (!slot.renamed_by.empty()) {
      return Diagnostic{Severity::kError, reader, location,
                        "it reads %" + std::to_string(original.index) + ", changed in place by " +
                            slot.renamed_by,
                        "Use the result of the out-of-place op"};
    }
    if (slot.version == storage.version || !slot.parent.valid() ||
        (storage.is_input && versions_.isWhole(original))) {
      now = slot.current;
      return Status::ok();
    }
    if (storage.is_input) {
      return Diagnostic{Severity::kError, reader, location,
                        "it reads %" + std::to_string(original.index) +
                            ", a view of an input that was since written in place",
                        "Take the view after the write"};
    }
    ValueId parent;
    AUTOSP_RETURN_IF_ERROR(read(slot.parent, reader, location, parent));
    if (slot.view.valid()) {
      if (slot.grad_mode != emitter_.gradMode() && graph_.value(parent).requires_grad) {
        return Diagnostic{Severity::kError, reader, location,
                          "it reads %" + std::to_string(original.index) +
                              ", a view of a tensor written in place, in another grad mode",
                          std::string(kRemedy)};
      }
      retakeView(slot.view, parent);
    } else {
      slot.current = parent;
      slot.version = storage.version;
    }
    now = versions_.slot(original).current;
    return Status::ok();
  }

  // Takes the view again, of the parent's contents now, for all its results.
  void retakeView(OpId view, ValueId parent) {
    Op again = graph_.op(view);
    const std::vector<ValueId> originals = again.results;
    again.setOperand(0, parent);
    std::vector<Graph::ResultType> types;
    for (ValueId v : originals) {
      types.push_back(
          {graph_.type(v), graph_.value(parent).requires_grad && emitter_.gradMode(), true});
    }
    const std::vector<ValueId> results = emitter_.emit(std::move(again), types);
    for (std::size_t i = 0; i < originals.size(); ++i) {
      Slot& slot = versions_.slot(originals[i]);
      slot.current = results[i];
      slot.version = versions_.storage(originals[i]).version;
    }
  }

  Status visitWrite(OpId id, const std::vector<ValueId>& operands) {
    const std::string name = graph_.describe(id);
    const std::string location = graph_.op(id).location;
    auto refuse = [&](std::string message) {
      return Diagnostic{Severity::kError, name, location, std::move(message), std::string(kRemedy)};
    };
    const auto row = findInplaceOp(graph_.op(id).name);
    const std::string_view base = atenBaseName(graph_.op(id));
    const bool writes_first = row || (!base.empty() && base.back() == '_');
    // What is written is the first operand, or unknown.
    const std::size_t count =
        writes_first ? std::min<std::size_t>(1, operands.size()) : operands.size();
    bool inputs_only = count > 0;
    for (std::size_t k = 0; k < count; ++k) {
      inputs_only =
          inputs_only && versions_.storage(operands[k]).is_input && versions_.isWhole(operands[k]);
    }
    const bool keeps_contents = row && row->kind == InplaceKind::kReshape;
    if (inputs_only && !keeps_contents) {
      for (std::size_t k = count; emitter_.gradMode() && k < operands.size(); ++k) {
        if (graph_.value(graph_.op(id).operands()[k]).requires_grad) {
          return refuse("it writes a value with a gradient to an input");
        }
      }
      for (std::size_t k = 0; k < count; ++k) {
        ++versions_.storage(operands[k]).version;
        versions_.clobberLinked(operands[k], name);
      }
      for (ValueId result : graph_.op(id).results) {
        versions_.addView(result, operands[0], OpId(), emitter_.gradMode());
      }
      return Status::ok();
    }
    if (!row) {
      return refuse("it writes in place and has no out-of-place form that is known here");
    }
    const ValueId written = operands[0];
    if (keeps_contents) {
      if (inputs_only && row->name != "aten.detach_.default") {
        return refuse("it changes the shape of an input in place");
      }
      return rewriteRename(id, *row, written);
    }
    if (versions_.storage(written).is_input) {
      return refuse("it writes in place through a view of an input");
    }
    if (versions_.mayBeInput(written)) {
      return refuse("it writes in place to what may be a view of an input");
    }
    if (row->kind == InplaceKind::kCopy && !isStatic(graph_.type(written))) {
      return refuse("it writes in place to a tensor of symbolic size");
    }
    // The views between the written one and the whole storage, outermost last, before the write.
    std::vector<std::pair<ValueId, ValueId>> chain;  // original, its contents
    for (ValueId v = written; v.valid(); v = versions_.slot(v).parent) {
      ValueId now;
      AUTOSP_RETURN_IF_ERROR(read(v, name, location, now));
      chain.emplace_back(v, now);
      if (!emitter_.gradMode() && graph_.value(now).requires_grad) {
        return refuse("it writes in place, without gradients, to a tensor that has one");
      }
      if (row->kind == InplaceKind::kUnrecorded && graph_.value(now).requires_grad) {
        return refuse(
            "it writes truth values in place to a tensor that has a gradient, and torch keeps the "
            "gradient of what was there before");
      }
      if (versions_.slot(v).view.valid() && !hasInverse(graph_, versions_.slot(v).view)) {
        return refuse("it writes in place through " + graph_.describe(versions_.slot(v).view));
      }
    }
    emitter_.placeAfter(id);
    ValueId contents = newContents(id, *row, chain[0].second);
    versions_.clobberLinked(written, name);
    const int version = ++versions_.storage(written).version;
    for (std::size_t k = 0; k < chain.size(); ++k) {
      if (k > 0) {
        const Slot& inner = versions_.slot(chain[k - 1].first);
        contents = inner.view.valid()
                       ? putBack(emitter_, inner.view, resultIndex(chain[k - 1].first),
                                 chain[k].second, contents)
                       : contents;
      }
      Slot& slot = versions_.slot(chain[k].first);
      slot.current = contents;
      slot.version = version;
    }
    for (ValueId result : graph_.op(id).results) {
      versions_.addView(result, written, OpId(), emitter_.gradMode());
      versions_.slot(result).current = versions_.slot(written).current;
    }
    if (row->kind == InplaceKind::kCopy) {
      graph_.removeOp(id);
    }
    return Status::ok();
  }

  std::size_t resultIndex(ValueId v) const {
    return static_cast<std::size_t>(graph_.value(v).result);
  }

  // transpose_ and its kind: the result is a view, the old name is not to be read any more.
  Status rewriteRename(OpId id, const InplaceOp& row, ValueId written) {
    Op& op = graph_.op(id);
    const std::string writer = graph_.describe(id);
    op.name = row.functional;
    op.traits.mutates = false;
    const bool same = atenBaseName(op) == "detach" && !graph_.value(op.operands()[0]).requires_grad;
    addResults(id, {written});
    if (!same) {
      versions_.slot(written).renamed_by = writer;
    }
    return Status::ok();
  }

  // Turns the in-place op into one that computes the new contents of what it writes.
  ValueId newContents(OpId id, const InplaceOp& row, ValueId old) {
    Op& op = graph_.op(id);
    const ValueId result = op.results[0];
    const TensorType type = graph_.type(old);
    if (row.kind == InplaceKind::kCopy) {
      const ValueId source = op.valueArg(op.find("src") != nullptr ? "src" : "value");
      return ownCopy(castTo(source, type), source);
    }
    op.traits.mutates = false;
    op.name = row.functional;
    restrided_[result.at()] = 1;
    if (op.name == "aten.dropout.default") {
      op.args.front().first = "input";
    }
    if (row.kind == InplaceKind::kFill) {
      op.args = {
          {"self", Attr(old)},      {"fill_value", op.has("value") ? op.arg("value") : Attr(0)},
          {"dtype", Attr()},        {"layout", Attr()},
          {"device", Attr()},       {"pin_memory", Attr()},
          {"memory_format", Attr()}};
      graph_.value(result).requires_grad = false;
      return result;
    }
    op.traits.pointwise = op.traits.pointwise || row.kind == InplaceKind::kElementwise;
    graph_.value(result).type.dtype = promotedDtype(graph_, op);
    if (graph_.value(result).type.dtype == ir::DType::kBool) {
      graph_.value(result).requires_grad = false;
    }
    return castTo(result, type);
  }

  // A tensor's contents as this type: cast, broadcast.
  ValueId castTo(ValueId value, const TensorType& type) {
    const bool grad = graph_.value(value).requires_grad && emitter_.gradMode();
    if (graph_.type(value).dtype != type.dtype) {
      Op cast;
      cast.name = "aten.to.dtype";
      cast.args = {{"self", Attr(value)},
                   {"dtype", Attr(ir::Opaque{torchDtype(type.dtype)})},
                   {"non_blocking", Attr(false)},
                   {"copy", Attr(false)},
                   {"memory_format", Attr()}};
      value =
          emitter_.emit(std::move(cast), {{{type.dtype, graph_.type(value).shape}, grad, true}})[0];
    }
    if (graph_.type(value).shape != type.shape) {
      Op expand;
      expand.name = "aten.expand.default";
      expand.args = {
          {"self", Attr(value)}, {"size", Attr::ints(type.sizes())}, {"implicit", Attr(false)}};
      value = emitter_.emit(std::move(expand), {{type, grad, true}})[0];
    }
    return value;
  }

  // A copy of it, where `source` is memory that the caller sees and may write.
  ValueId ownCopy(ValueId value, ValueId source) {
    const bool emitted = source.at() >= raised_.size();
    if (emitted || graph_.type(value).dtype != graph_.type(source).dtype ||
        (!versions_.storage(source).is_input && !versions_.mayBeInput(source))) {
      return value;
    }
    Op clone;
    clone.name = "aten.clone.default";
    clone.args = {{"self", Attr(value)}, {"memory_format", Attr()}};
    return emitter_.emit(
        std::move(clone),
        {{graph_.type(value), graph_.value(value).requires_grad && emitter_.gradMode(), true}})[0];
  }

  // An operand now has a gradient that the original had not (a write gave it one): so have the
  // results.
  void raise(OpId id, ValueId original, ValueId now) {
    const bool gained =
        (graph_.value(now).requires_grad && !graph_.value(original).requires_grad) ||
        raised_[original.at()] != 0;
    const Op& op = graph_.op(id);
    if (!gained || !emitter_.gradMode() || cutsGradient(op)) {
      return;
    }
    for (ValueId result : op.results) {
      ir::Value& value = graph_.value(result);
      if (value.is_tensor && isFloating(value.type.dtype) && !value.requires_grad) {
        value.requires_grad = true;
        raised_[result.at()] = 1;
      }
    }
  }

  // A value not laid out in memory as the original was, or computed from one, may be laid out
  // otherwise.
  void restride(OpId id, ValueId original, ValueId now) {
    const bool rewritten = now.at() >= restrided_.size() || now != original;
    if (rewritten || restrided_[original.at()] != 0) {
      for (ValueId result : graph_.op(id).results) {
        restrided_[result.at()] = 1;
      }
    }
  }

  // A view of such a value may need a copy.
  void relaxView(OpId id) {
    Op& op = graph_.op(id);
    if (op.name == "aten.view.default" && restrided_[op.results[0].at()] != 0) {
      op.name = "aten.reshape.default";
      op.args[1].first = "shape";
    }
  }

  Graph& graph_;
  StorageVersions versions_;
  std::vector<char> restrided_;  // by original
  std::vector<char> raised_;     // by original: its gradient was found here
  OpEmitter emitter_;
};

}  // namespace

Status functionalize(Graph& graph) {
  const auto& order = graph.order();
  if (std::none_of(order.begin(), order.end(),
                   [&](OpId id) { return graph.op(id).traits.mutates; })) {
    return Status::ok();
  }
  return Functionalizer(graph).run();
}

}  // namespace autosp::passes
