// Which conversions make the forms that a value's readers need. A copy is made once, whoever reads it, and a
// copy may be made from another copy when that is cheaper (one gather serves a reader that wants the value
// whole and one that gives back a partial gradient): a star from the own form, or a star through one of the
// copies. Placement prices with this and insert-conversions builds from it, so the two cannot differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autosp/cost/prices.h"
#include "autosp/ir/form.h"

namespace autosp::passes {

// What the conversions of each value of a graph depend on.
class ValueTerms {
 public:
  explicit ValueTerms(const ir::Graph& graph);
  cost::ConversionTerms of(ir::ValueId value) const;

 private:
  const ir::Graph& graph_;
  std::vector<char> is_parameter_;
};

struct ConversionStep {
  ir::Form from;
  ir::Form to;
};

struct ConversionTree {
  std::int64_t time = 0;  // picoseconds, forward and backward
  std::vector<ConversionStep> steps;  // in an order that can be executed
};

// The cheapest tree that makes every form of `needed` (own excluded, no duplicates); nothing when one of
// them cannot be made.
std::optional<ConversionTree> conversionTree(const cost::Machine& machine, int ranks,
                                             const cost::ConversionTerms& terms,
                                             bool gradients_partial, const ir::Form& own,
                                             const std::vector<ir::Form>& needed);

}  // namespace autosp::passes
