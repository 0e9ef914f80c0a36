#include "autosp/ir/form.h"

#include <algorithm>

#include "autosp/support/check.h"

namespace autosp::ir {
namespace {

// Boundary before rank r when `base` units are dealt as evenly as they go.
std::int64_t boundary(std::int64_t base, int rank, int ranks) {
  return rank * (base / ranks) + std::min<std::int64_t>(rank, base % ranks);
}

}  // namespace

std::int64_t Cut::units(std::int64_t dim_size) const {
  AUTOSP_CHECK(outer > 0 && inner > 0 && dim_size % (outer * inner) == 0,
               "a cut's blocks do not divide its dim of size " + std::to_string(dim_size));
  return dim_size / (outer * inner);
}

Range Cut::range(std::int64_t dim_size, int rank, int ranks) const {
  const std::int64_t n = units(dim_size);
  const std::int64_t top = group > 1 ? n * group : n;
  auto bound = [&](int r) {
    if (r == 0) {
      return std::int64_t{0};
    }
    if (r == ranks) {
      return top;
    }
    return std::clamp<std::int64_t>(boundary(base, r, ranks) - shift, 0, top);
  };
  Range range{bound(rank), bound(rank + 1)};
  if (group > 1) {
    // A rank without query heads reads no key head.
    range = range.size() == 0 ? Range{range.lo / group, range.lo / group}
                              : Range{range.lo / group, (range.hi + group - 1) / group};
  }
  return range;
}

std::vector<Range> Cut::ranges(std::int64_t dim_size, int ranks) const {
  std::vector<Range> out;
  out.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    out.push_back(range(dim_size, r, ranks));
  }
  return out;
}

std::int64_t Cut::localSize(std::int64_t dim_size, int rank, int ranks) const {
  return outer * range(dim_size, rank, ranks).size() * inner;
}

Cut Cut::canonical(std::int64_t dim_size, int ranks) const {
  Cut out = *this;
  if (group > 1) {
    Cut plain = *this;
    plain.base = units(dim_size);
    plain.group = 1;
    if (plain.ranges(dim_size, ranks) == ranges(dim_size, ranks)) {
      out = plain;
    }
  }
  if (out.group == 1 && out.shift == 0 && out.base == out.units(dim_size) && out.base % ranks == 0) {
    out.base *= out.inner;
    out.inner = 1;
  }
  return out;
}

std::string Form::text() const {
  switch (kind) {
    case FormKind::kWhole:
      return "R";
    case FormKind::kWholePartialGrad:
      return "Q";
    case FormKind::kPartial:
      return "P";
    case FormKind::kCut:
      break;
  }
  std::string out = "S(" + std::to_string(cut.dim);
  auto field = [&](const char* name, std::int64_t value, std::int64_t absent) {
    if (value != absent) {
      out += std::string(",") + name + "=" + std::to_string(value);
    }
  };
  field("outer", cut.outer, 1);
  field("inner", cut.inner, 1);
  field("base", cut.base, -1);
  field("shift", cut.shift, 0);
  field("group", cut.group, 1);
  return out + ")";
}

}  // namespace autosp::ir
