// Which rule an op has. Rows of the built-in table come from sharding/rules/, one file a family; each row is
// an overload name and a function that computes the rule from the op's arguments and types. Ops tagged
// pointwise need no row. A user's own ops are added by spelling: "b h s d, s d -> b h s d".
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autosp/sharding/rule.h"

namespace autosp::sharding {

// A rule computed for one op of a graph; nothing when these arguments have none.
using RuleFunction = std::optional<OpRule> (*)(const ir::Graph& graph, const ir::Op& op);

struct RuleRow {
  std::string_view op;        // "aten.linear.default"
  std::string_view spelling;  // for docs: "(... k, n k, n?) -> ... n   sum k"
  RuleFunction function;
};

// A rule by spelling: comma separated operands of blank separated factors, "->", results; after it clauses
// "sum k", "mean n", "whole d". The operands may stand in parentheses, as OpRule::text writes them. "..."
// stands for leading dims, which broadcast; "1" for a dim that is never cut; "()" for a tensor without dims.
// A factor has the size of its first dim and every other dim of it must have the same.
class SpelledRule {
 public:
  // Errors say the position in the spelling and what was expected there.
  static Result<SpelledRule> parse(std::string_view spelling);
  // The rule for operands and results of these types; nothing when ranks or sizes do not fit.
  std::optional<OpRule> bind(const ir::Graph& graph, const ir::Op& op) const;
  const std::string& spelling() const { return spelling_; }

 private:
  struct Term {
    std::vector<std::string> names;  // "..." allowed as first; "1" for a dim without factor
  };
  friend class SpellingParser;
  std::string spelling_;
  std::vector<Term> operands_;
  std::vector<Term> results_;
  std::vector<std::pair<std::string, FactorKind>> kinds_;
};

class RuleTable {
 public:
  // The built-in rows.
  RuleTable();
  // Adds or replaces a user's rule. The op is named as in a graph or as torch registers it:
  // "mylib.rope.default", "mylib.rope" and "mylib::rope" are one op.
  Status add(std::string op, std::string_view spelling);
  // A user's rule, else the row of the op, else broadcastRule for an op tagged pointwise.
  std::optional<OpRule> find(const ir::Graph& graph, const ir::Op& op) const;
  // All built-in rows, sorted by op, for docs/ops.md.
  std::vector<RuleRow> rows() const;

 private:
  std::map<std::string, RuleFunction, std::less<>> built_in_;
  std::map<std::string, SpelledRule, std::less<>> spelled_;
};

// The families, each in rules/<family>.cc.
const std::vector<RuleRow>& pointwiseRules();   // listed overloads that torch does not tag pointwise, and the tag itself
const std::vector<RuleRow>& matmulRules();      // linear, mm, bmm, matmul, addmm, baddbmm, einsum
const std::vector<RuleRow>& viewRules();        // view, reshape, flatten, unflatten, squeeze, unsqueeze, expand, transpose...
const std::vector<RuleRow>& windowRules();      // slice, narrow, select, split, chunk, pad, cat, stack, roll...
const std::vector<RuleRow>& creationRules();    // arange, zeros, ones, full, new_*, *_like, scalar_tensor
const std::vector<RuleRow>& reductionRules();   // sum, mean, amax, softmax, cumsum, sort, topk, norm...
const std::vector<RuleRow>& normRules();        // layer_norm, rms_norm, group_norm, batch_norm
const std::vector<RuleRow>& indexingRules();    // embedding, index.Tensor, gather, scatter, index_select, one_hot...
const std::vector<RuleRow>& lossRules();        // cross_entropy_loss, nll_loss, mse_loss...
const std::vector<RuleRow>& convolutionRules(); // conv1d and friends
// The rule of any elementwise op: operands broadcast against each other, results of the broadcast shape.
std::optional<OpRule> broadcastRule(const ir::Graph& graph, const ir::Op& op);

}  // namespace autosp::sharding
