// Projection of cuts between dims and factors. With A the product of the factors before factor j in a dim
// and C the product of those after it, the dim is [A, s_j, C]: a cut of the dim, seen as
// [outer, n, inner], is a cut of factor j when A divides outer and C divides inner. An even deal has more
// freedom: only the chunk that each rank holds must be made of whole C's.
#include <algorithm>

#include "autosp/sharding/rule.h"
#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

std::int64_t sizeOf(const OpRule& rule, int factor) {
  return rule.factors[static_cast<std::size_t>(factor)].size;
}

std::int64_t product(const OpRule& rule, const DimMap& dim) {
  std::int64_t out = 1;
  for (int factor : dim.factors) {
    out *= sizeOf(rule, factor);
  }
  return out;
}

// A window has one factor and sees a part of it, or more than it.
bool isWindow(const OpRule& rule, const DimMap& dim, std::int64_t dim_size) {
  const bool window = dim.lo != 0 || product(rule, dim) != dim_size;
  AUTOSP_CHECK(!window || dim.factors.size() == 1,
               "a dim of size " + std::to_string(dim_size) + " is not the product of its factors");
  return window;
}

}  // namespace

std::optional<FactorCut> projectToFactor(const OpRule& rule, const DimMap& dim,
                                         std::int64_t dim_size, const ir::Cut& given, int ranks) {
  if (dim.factors.empty() || dim_size == 0) {
    return std::nullopt;
  }
  const ir::Cut cut = given.canonical(dim_size, ranks);
  if (cut.group != 1) {
    return std::nullopt;
  }
  if (isWindow(rule, dim, dim_size)) {
    if (cut.outer != 1 || cut.inner != 1 || sizeOf(rule, dim.factors[0]) == 1) {
      return std::nullopt;
    }
    return FactorCut{dim.factors[0], 1, 1, cut.base, cut.shift - dim.lo};
  }
  const std::int64_t n = cut.units(dim_size);
  const bool even = cut.shift == 0 && cut.base == n && n % ranks == 0;
  std::int64_t before = 1;
  for (int factor : dim.factors) {
    const std::int64_t size = sizeOf(rule, factor);
    const std::int64_t after = dim_size / (before * size);
    if (size > 1 && cut.outer % before == 0) {
      const std::int64_t outer = cut.outer / before;
      const std::int64_t chunk = n * cut.inner / ranks;
      if (cut.inner % after == 0) {
        return FactorCut{factor, outer, cut.inner / after, cut.base, cut.shift};
      }
      if (even && chunk % after == 0) {
        return FactorCut{factor, outer, 1, ranks * (chunk / after), 0};
      }
    }
    before *= size;
  }
  return std::nullopt;
}

std::optional<ir::Cut> projectToDim(const OpRule& rule, const TensorMap& map, std::size_t dim,
                                    std::int64_t dim_size, const FactorCut& cut, int ranks) {
  const DimMap& place = map[dim];
  const auto at = std::find(place.factors.begin(), place.factors.end(), cut.factor);
  if (at == place.factors.end()) {
    return std::nullopt;
  }
  const auto index = static_cast<std::int32_t>(dim);
  if (isWindow(rule, place, dim_size)) {
    if (cut.outer != 1 || cut.inner != 1) {
      return std::nullopt;
    }
    return ir::Cut{index, 1, 1, cut.base, cut.shift + place.lo, 1}.canonical(dim_size, ranks);
  }
  std::int64_t before = 1;
  for (auto it = place.factors.begin(); it != at; ++it) {
    before *= sizeOf(rule, *it);
  }
  std::int64_t after = 1;
  for (auto it = at + 1; it != place.factors.end(); ++it) {
    after *= sizeOf(rule, *it);
  }
  return ir::Cut{index, before * cut.outer, cut.inner * after, cut.base, cut.shift, 1}.canonical(
      dim_size, ranks);
}

}  // namespace autosp::sharding
