#include "autosp/passes/conversions.h"

#include <algorithm>

namespace autosp::passes {

ValueTerms::ValueTerms(const ir::Graph& graph)
    : graph_(graph), is_parameter_(graph.valueCount(), 0) {
  for (const ir::Input& input : graph.inputs()) {
    is_parameter_[input.value.at()] = input.kind == ir::InputKind::kParameter ? 1 : 0;
  }
}

cost::ConversionTerms ValueTerms::of(ir::ValueId value) const {
  const ir::Value& v = graph_.value(value);
  cost::ConversionTerms out;
  out.bytes = v.type.bytes();
  out.dim_size = v.type.rank() >= 2 ? v.type.dim(1) : 0;  // heads stand in dim 1
  out.requires_grad = v.requires_grad;
  out.parameter = is_parameter_[value.at()] != 0;
  return out;
}

std::optional<ConversionTree> conversionTree(const cost::Machine& machine, int ranks,
                                             const cost::ConversionTerms& terms,
                                             bool gradients_partial, const ir::Form& own,
                                             const std::vector<ir::Form>& needed) {
  if (needed.empty()) {
    return ConversionTree{};
  }
  auto price = [&](const ir::Form& from, const ir::Form& to) {
    return cost::conversionTime(machine, ranks, terms, from, to, gradients_partial);
  };
  // Helpers: none, then whole forms that nobody may have asked for, then each needed form.
  std::vector<std::optional<ir::Form>> helpers = {std::nullopt, ir::Form::whole(),
                                                  ir::Form::wholePartialGrad()};
  helpers.insert(helpers.end(), needed.begin(), needed.end());
  std::optional<ConversionTree> best;
  for (const std::optional<ir::Form>& helper : helpers) {
    if (helper && *helper == own) {
      continue;
    }
    ConversionTree tree;
    if (helper) {
      const auto first = price(own, *helper);
      if (!first) {
        continue;
      }
      tree.time = *first;
      tree.steps.push_back({own, *helper});
    }
    bool possible = true;
    for (const ir::Form& form : needed) {
      if (helper && form == *helper) {
        continue;
      }
      const auto direct = price(own, form);
      const auto through = helper ? price(*helper, form) : std::nullopt;
      if (!direct && !through) {
        possible = false;
        break;
      }
      const bool from_helper = through && (!direct || *through < *direct);
      tree.time += from_helper ? *through : *direct;
      tree.steps.push_back({from_helper ? *helper : own, form});
    }
    if (possible && (!best || tree.time < best->time)) {
      best = std::move(tree);
    }
  }
  return best;
}

}  // namespace autosp::passes
