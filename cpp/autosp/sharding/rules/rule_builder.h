// How a rule function of rules/ states its rule: factors are declared, then each tensor argument
// (by its schema name) and each result is given the factor of each of its dims. The builder knows
// where an argument stands in Op::operands(), gives dims of size 0 or 1 no factor, and yields no
// rule at all when something does not fit: a dim whose size is not its factor's, a tensor that was
// not described, a missing argument. So a rule function never has to check twice what the op itself
// would have refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autosp/sharding/rule.h"

namespace autosp::sharding {

// The index of "no factor".
inline constexpr int kNoFactor = -1;

// The factor of each dim of a tensor, or kNoFactor.
using DimFactors = std::vector<int>;

class RuleBuilder {
 public:
  RuleBuilder(const ir::Graph& graph, const ir::Op& op);

  // Type of a tensor argument; of item `item` when it is a list. Null when absent.
  const ir::TensorType* type(std::string_view arg, std::size_t item = 0) const;
  // Type of a result; null when there is no such result.
  const ir::TensorType* resultType(std::size_t index) const;

  // A new factor; kNoFactor when its size is 0 or 1: there is nothing to cut.
  int factor(std::string name, std::int64_t size, FactorKind kind = FactorKind::kPass);
  // The same for a dim of which torch cannot run the op, or its backward, on none: it is not cut
  // where a rank would hold no part.
  int occupiedFactor(std::string name, std::int64_t size, FactorKind kind = FactorKind::kPass);
  // One new factor for each dim, named prefix0, prefix1, ...
  DimFactors factors(const ir::TensorType& type, FactorKind kind = FactorKind::kPass,
                     std::string_view prefix = "d");
  // Factors of the shape two shapes broadcast to. Empty shapes broadcast with all; nothing when
  // they do not broadcast.
  std::optional<DimFactors> broadcastFactors(const std::vector<std::int64_t>& a,
                                             const std::vector<std::int64_t>& b,
                                             std::string_view prefix = "d");

  // The factor of each dim of a tensor argument. An absent argument is left alone; a dim of size 1
  // carries no factor whatever is given.
  void operand(std::string_view arg, const DimFactors& dims, std::size_t item = 0);
  // The same for an argument that broadcasts to a tensor with these factors: dims are aligned at
  // the right.
  void broadcastOperand(std::string_view arg, const DimFactors& dims, std::size_t item = 0);
  // The factor of each dim of one result, or of every result; here sizes must be equal.
  void result(std::size_t index, const DimFactors& dims);
  void results(const DimFactors& dims);

  // The rule; nothing when something did not fit.
  std::optional<OpRule> build() &&;

 private:
  // Where an argument's tensors stand among the operands.
  struct Slot {
    std::string_view arg;
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::optional<std::size_t> position(std::string_view arg, std::size_t item) const;
  std::optional<TensorMap> bind(const ir::TensorType& type, const DimFactors& dims,
                                bool may_broadcast) const;

  const ir::Graph& graph_;
  const ir::Op& op_;
  std::vector<ir::ValueId> operands_;
  std::vector<Slot> slots_;
  std::vector<Factor> factors_;
  std::vector<std::optional<TensorMap>> operand_maps_;
  std::vector<std::optional<TensorMap>> result_maps_;
  bool fits_ = true;
};

// The dims an op reduces, by its argument `arg`: an int, a list, or none. True where the dim is
// reduced. No dims, or an empty list, are all dims. Dims beyond the rank (dim 0 of a scalar) are
// dropped.
std::vector<bool> dimSet(const ir::Op& op, std::string_view arg, std::size_t rank);

// a and b broadcast against each other, aligned at the right; nothing when they do not.
std::optional<std::vector<std::int64_t>> broadcastSizes(const std::vector<std::int64_t>& a,
                                                        const std::vector<std::int64_t>& b);

}  // namespace autosp::sharding
