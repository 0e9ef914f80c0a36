// Sharding rules in factor notation: each op relates the dims of its operands and results by named factors,
// as an einsum does ((b s k, n k) -> b s n). A dim is a product of factors, outermost first ("(b s)" of a
// flattened batch), possibly a window of one factor (a slice or a pad moves the window). From one rule come
// all strategies of the op: cutting one factor cuts every dim it stands in, and what does not contain it
// stays whole.
//
// A rule says which factors may be cut and what happens to results that lack a cut factor:
//   kPass       cut freely; every result must contain it
//   kSum        results that lack it become partial sums (the contraction of a matmul, a sum over a dim)
//   kMean       the same, after the op is turned into a sum and divided by the global count
//   kWhole      never cut
// Source: the notation follows Shardy's factor rules (openxla/shardy, sharding representation docs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autosp/ir/form.h"
#include "autosp/ir/graph.h"
#include "autosp/support/status.h"

namespace autosp::sharding {

enum class FactorKind : std::uint8_t { kPass, kSum, kMean, kWhole };

struct Factor {
  std::string name;       // for print: "b", "s", "k"
  std::int64_t size = 0;  // in the factor's own coordinates
  FactorKind kind = FactorKind::kPass;
  bool one_block = false;  // may be cut only as a whole, not inside blocks [outer, n, inner] of it
  bool occupied = false;   // may be cut only so that every rank holds a part
};

// One dim of an operand or result: the product of these factors, outermost first; none for a dim of size 1
// or one that carries no factor (a broadcast dim). With exactly one factor the dim may be the window
// [lo, lo + size of the dim) of it: lo = 1 for x[:, 1:], -1 for a pad of one on the left.
struct DimMap {
  std::vector<int> factors;  // indices into OpRule::factors
  std::int64_t lo = 0;
  friend bool operator==(const DimMap&, const DimMap&) = default;
};

using TensorMap = std::vector<DimMap>;

struct OpRule {
  std::vector<Factor> factors;
  std::vector<TensorMap> operands;  // by position in Op::operands()
  std::vector<TensorMap> results;   // by position in Op::results

  int addFactor(std::string name, std::int64_t size, FactorKind kind = FactorKind::kPass);
  // "(b s k, n k) -> b s n   sum k": factors of one dim in parentheses, "1" for a dim without factor,
  // "s+1" / "s-1" for a window that begins at lo = 1 / -1.
  std::string text() const;
};

// How the op runs once its strategy is chosen; the lowering reads it.
enum class Lowering : std::uint8_t {
  kAsIs,           // the same op on local shapes
  kSumThenDivide,  // a mean over a cut factor
  kCrossEntropy,   // autosp.cross_entropy over local rows
  kAttentionHeads,    // heads cut: queries exchanged from the sequence, keys and values as their readers need
  kAttentionQueries,  // query rows cut, keys and values whole
};

// One way to run an op: the form each operand must have and the form of each result.
struct Strategy {
  std::vector<ir::Form> operands;
  std::vector<ir::Form> results;
  Lowering lowering = Lowering::kAsIs;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// A cut in the coordinates of one factor: the factor, of size outer*n*inner, seen as [outer, n, inner].
struct FactorCut {
  int factor = -1;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t base = 0;
  std::int64_t shift = 0;
  friend bool operator==(const FactorCut&, const FactorCut&) = default;
};

// What factor a cut of this dim cuts; nothing when its boundaries do not lie on one factor.
std::optional<FactorCut> projectToFactor(const OpRule& rule, const DimMap& dim,
                                         std::int64_t dim_size, const ir::Cut& cut, int ranks);

// The cut of the dim when the factor is cut so; nothing when the dim does not contain it. Canonical.
std::optional<ir::Cut> projectToDim(const OpRule& rule, const TensorMap& map, std::size_t dim,
                                    std::int64_t dim_size, const FactorCut& cut, int ranks);

// The strategy that cuts one factor; nothing when the rule forbids it. Operands without the factor are
// required as Q (whole, partial gradient).
std::optional<Strategy> cutFactor(const ir::Graph& graph, const ir::Op& op, const OpRule& rule,
                                  const FactorCut& cut);

// The rule of an op, computed from its arguments and the types of its values; nothing for an op without
// one, which runs on whole operands, and for one with a symbolic dim. A user's rule stands before the
// built-in one of the same op (see rule_table.h).
class RuleTable;
std::optional<OpRule> ruleFor(const ir::Graph& graph, ir::OpId op, const RuleTable& table);

}  // namespace autosp::sharding
