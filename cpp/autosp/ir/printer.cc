#include "autosp/ir/printer.h"

#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "autosp/support/text_cursor.h"

namespace autosp::ir {
namespace {

std::string valueText(ValueId id) {
  return "%" + std::to_string(id.index);
}

// A name as it is, or as a string where it would not read back as a name.
std::string nameText(const std::string& name) {
  return isName(name) && name != "input" && name != "output" ? name : quoteText(name);
}

struct AttrPrinter {
  std::string operator()(std::monostate /*none*/) const { return "none"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return floatText(v); }
  std::string operator()(const std::string& v) const { return quoteText(v); }
  std::string operator()(ValueId v) const { return valueText(v); }
  std::string operator()(const Opaque& v) const { return "#" + quoteText(v.text); }
  std::string operator()(const AttrList& list) const {
    std::string out = "[";
    for (std::size_t i = 0; i < list.size(); ++i) {
      out += (i == 0 ? "" : ", ") + attrText(list[i]);
    }
    return out + "]";
  }
};

// "%1 : f32[97,32] grad", "%2 : f32[97,32] of %1 saved"
std::string declaration(ValueId id, const Value& value) {
  return valueText(id) + " : " + (value.is_tensor ? value.type.text() : "token") +
         (value.requires_grad ? " grad" : "") +
         (value.base.valid() ? " of " + valueText(value.base) : "") + (value.saved ? " saved" : "");
}

std::string formText(const std::optional<Form>& form) {
  return form ? " @" + form->text() : "";
}

// What choose-placement decided for an op: " needs [S(1,base=32), Q] lowering "attention-heads"".
std::string strategyText(const Op& op) {
  std::string out;
  for (const Form& form : op.needs) {
    out += (out.empty() ? " needs [" : ", ") + form.text();
  }
  out += out.empty() ? "" : "]";
  return op.lowering.empty() ? out : out + " lowering " + quoteText(op.lowering);
}

std::string traitsText(const Traits& traits) {
  std::string out;
  auto add = [&](bool holds, const char* name) {
    if (holds) {
      out += (out.empty() ? " {" : ", ") + std::string(name);
    }
  };
  add(traits.pointwise, "pointwise");
  add(traits.random, "random");
  add(traits.mutates, "mutates");
  add(traits.effect, "effect");
  add(traits.keep, "keep");
  add(traits.recompute, "recompute");
  return out.empty() ? out : out + "}";
}

}  // namespace

std::string_view inputKindName(InputKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"user",     "parameter", "buffer",
                                                      "constant", "seed",      "tangent"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string attrText(const Attr& attr) {
  return std::visit(AttrPrinter(), attr.storage());
}

std::string opText(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::string out;
  for (ValueId result : op.results) {
    const Value& value = graph.value(result);
    out += (out.empty() ? "" : ", ") + declaration(result, value) + formText(value.form);
  }
  out += (out.empty() ? "" : " = ") + nameText(op.name) + "(";
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    out += (i == 0 ? "" : ", ") + nameText(op.args[i].first) + "=" + attrText(op.args[i].second);
  }
  out += ")" + traitsText(op.traits) + strategyText(op);
  if (op.origin >= 0) {
    out += " from " + std::to_string(op.origin);
  }
  if (!op.location.empty()) {
    out += " at " + quoteText(op.location);
  }
  return out;
}

std::string print(const Graph& graph) {
  std::string out =
      "autosp.graph " + quoteText(graph.name) + " ranks=" + std::to_string(graph.ranks) + " {\n";
  for (const Input& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    out += "  input " + declaration(input.value, value) + " ";
    out += std::string(inputKindName(input.kind)) + " " + quoteText(input.name);
    out += formText(value.form) + "\n";
  }
  for (OpId id : graph.order()) {
    out += "  " + opText(graph, id) + "\n";
  }
  for (const Output& output : graph.outputs()) {
    out += "  output " + (output.value ? valueText(*output.value) : "none") + " " +
           quoteText(output.name) + (output.may_stay_cut ? " may_stay_cut" : "") +
           (output.gradient ? " gradient" : "") +
           (output.writes.valid() ? " writes " + valueText(output.writes) : "") +
           formText(output.form) + "\n";
  }
  return out + "}\n";
}

}  // namespace autosp::ir
