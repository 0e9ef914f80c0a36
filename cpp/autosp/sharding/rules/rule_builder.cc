#include "autosp/sharding/rules/rule_builder.h"

#include <algorithm>
#include <utility>

namespace autosp::sharding {
namespace {

std::size_t countTensors(const ir::Attr& attr) {
  if (attr.isValue()) {
    return 1;
  }
  std::size_t count = 0;
  if (attr.isList()) {
    for (const ir::Attr& item : attr.asList()) {
      count += countTensors(item);
    }
  }
  return count;
}

}  // namespace

RuleBuilder::RuleBuilder(const ir::Graph& graph, const ir::Op& op)
    : graph_(graph),
      op_(op),
      operands_(op.operands()),
      operand_maps_(operands_.size()),
      result_maps_(op.results.size()) {
  std::size_t first = 0;
  for (const auto& [name, attr] : op.args) {
    const std::size_t count = countTensors(attr);
    slots_.push_back({name, first, count});
    first += count;
  }
}

std::optional<std::size_t> RuleBuilder::position(std::string_view arg, std::size_t item) const {
  for (const Slot& slot : slots_) {
    if (slot.arg == arg && item < slot.count) {
      return slot.first + item;
    }
  }
  return std::nullopt;
}

const ir::TensorType* RuleBuilder::type(std::string_view arg, std::size_t item) const {
  const std::optional<std::size_t> at = position(arg, item);
  return at ? &graph_.type(operands_[*at]) : nullptr;
}

const ir::TensorType* RuleBuilder::resultType(std::size_t index) const {
  return index < op_.results.size() ? &graph_.type(op_.results[index]) : nullptr;
}

int RuleBuilder::factor(std::string name, std::int64_t size, FactorKind kind) {
  if (size <= 1) {
    return kNoFactor;
  }
  factors_.push_back({std::move(name), size, kind});
  return static_cast<int>(factors_.size()) - 1;
}

int RuleBuilder::occupiedFactor(std::string name, std::int64_t size, FactorKind kind) {
  const int out = factor(std::move(name), size, size >= graph_.ranks ? kind : FactorKind::kWhole);
  if (out != kNoFactor) {
    factors_.back().occupied = true;
  }
  return out;
}

DimFactors RuleBuilder::factors(const ir::TensorType& type, FactorKind kind,
                                std::string_view prefix) {
  DimFactors out;
  for (std::size_t i = 0; i < type.rank(); ++i) {
    out.push_back(factor(std::string(prefix) + std::to_string(i), type.dim(i), kind));
  }
  return out;
}

std::optional<DimFactors> RuleBuilder::broadcastFactors(const std::vector<std::int64_t>& a,
                                                        const std::vector<std::int64_t>& b,
                                                        std::string_view prefix) {
  const auto sizes = broadcastSizes(a, b);
  if (!sizes) {
    return std::nullopt;
  }
  DimFactors out;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    out.push_back(factor(std::string(prefix) + std::to_string(i), (*sizes)[i]));
  }
  return out;
}

std::optional<TensorMap> RuleBuilder::bind(const ir::TensorType& type, const DimFactors& dims,
                                           bool may_broadcast) const {
  if (dims.size() != type.rank()) {
    return std::nullopt;
  }
  TensorMap map(type.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == kNoFactor || (may_broadcast && type.dim(i) == 1)) {
      continue;
    }
    if (type.dim(i) != factors_[static_cast<std::size_t>(dims[i])].size) {
      return std::nullopt;
    }
    map[i].factors = {dims[i]};
  }
  return map;
}

void RuleBuilder::operand(std::string_view arg, const DimFactors& dims, std::size_t item) {
  const std::optional<std::size_t> at = position(arg, item);
  if (!at) {
    return;
  }
  operand_maps_[*at] = bind(graph_.type(operands_[*at]), dims, true);
  fits_ = fits_ && operand_maps_[*at].has_value();
}

void RuleBuilder::broadcastOperand(std::string_view arg, const DimFactors& dims, std::size_t item) {
  const ir::TensorType* own = type(arg, item);
  if (own == nullptr) {
    return;
  }
  if (own->rank() > dims.size()) {
    fits_ = false;
    return;
  }
  operand(arg, DimFactors(dims.end() - static_cast<std::ptrdiff_t>(own->rank()), dims.end()), item);
}

void RuleBuilder::result(std::size_t index, const DimFactors& dims) {
  const ir::TensorType* own = resultType(index);
  if (own == nullptr) {
    fits_ = false;
    return;
  }
  result_maps_[index] = bind(*own, dims, false);
  fits_ = fits_ && result_maps_[index].has_value();
}

void RuleBuilder::results(const DimFactors& dims) {
  for (std::size_t i = 0; i < result_maps_.size(); ++i) {
    result(i, dims);
  }
}

std::optional<OpRule> RuleBuilder::build() && {
  const auto described = [](const std::optional<TensorMap>& map) { return map.has_value(); };
  if (!fits_ || !std::all_of(operand_maps_.begin(), operand_maps_.end(), described) ||
      !std::all_of(result_maps_.begin(), result_maps_.end(), described)) {
    return std::nullopt;
  }
  OpRule rule;
  rule.factors = std::move(factors_);
  for (std::optional<TensorMap>& map : operand_maps_) {
    rule.operands.push_back(std::move(*map));
  }
  for (std::optional<TensorMap>& map : result_maps_) {
    rule.results.push_back(std::move(*map));
  }
  return rule;
}

std::vector<bool> dimSet(const ir::Op& op, std::string_view arg, std::size_t rank) {
  std::vector<std::int64_t> dims;
  if (op.has(arg)) {
    const ir::Attr& attr = op.arg(arg);
    dims = attr.isInt() ? std::vector<std::int64_t>{attr.asInt()} : attr.asInts();
  }
  std::vector<bool> out(rank, dims.empty());
  for (std::int64_t dim : dims) {
    const auto i = static_cast<std::size_t>(ir::normalDim(dim, rank));
    if (i < rank) {
      out[i] = true;
    }
  }
  return out;
}

std::optional<std::vector<std::int64_t>> broadcastSizes(const std::vector<std::int64_t>& a,
                                                        const std::vector<std::int64_t>& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  std::vector<std::int64_t> out(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return std::nullopt;
    }
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace autosp::sharding
