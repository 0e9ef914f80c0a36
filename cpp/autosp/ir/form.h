// How one value lies on the ranks of the sp axis.
//
//   R  whole on every rank; its gradient is whole on every rank
//   Q  whole on every rank; its gradient is a partial sum on each rank
//   P  a partial sum on each rank
//   S  cut: each rank holds a range of the units of one dim
//
// A cut sees its dim, of size outer*n*inner, as [outer, n, inner]; the n units are dealt out in ranges.
// With b(r) = r*(base/P) + min(r, base%P), rank r holds units [b(r)-shift, b(r+1)-shift) clamped to
// [0, n]; the first range begins at 0 and the last ends at n. So a value of n = base units is dealt as
// evenly as it goes, and a slice or a pad of a cut value keeps its boundaries: same base, other n, other
// shift. group > 1 occurs only as what attention reads for keys and values: base counts query heads, the
// units are key/value heads, and rank r holds [floor(lo/group), ceil(hi/group)) of its query range; the
// ranges may overlap.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace autosp::ir {

struct Range {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  std::int64_t size() const { return hi - lo; }
  friend auto operator<=>(const Range&, const Range&) = default;
};

struct Cut {
  std::int32_t dim = 0;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t base = 0;
  std::int64_t shift = 0;
  std::int64_t group = 1;
  friend auto operator<=>(const Cut&, const Cut&) = default;

  // Units of a dim of this size; checked: outer*inner divides it.
  std::int64_t units(std::int64_t dim_size) const;
  // The range of units that rank r of `ranks` holds.
  Range range(std::int64_t dim_size, int rank, int ranks) const;
  std::vector<Range> ranges(std::int64_t dim_size, int ranks) const;
  // Size of the dim on rank r.
  std::int64_t localSize(std::int64_t dim_size, int rank, int ranks) const;
  // The one spelling of cuts that deal alike: inner is merged into the units where the deal is even, and
  // key heads whose ranges are a plain deal are spelled so. Base and shift stay: they say which sequence the
  // boundaries belong to, and a window of one element must not become a deal of one.
  Cut canonical(std::int64_t dim_size, int ranks) const;
};

enum class FormKind : std::uint8_t { kWhole, kWholePartialGrad, kPartial, kCut };

struct Form {
  FormKind kind = FormKind::kWhole;
  Cut cut;  // read only when kind is kCut

  static Form whole() { return {}; }
  static Form wholePartialGrad() { return {FormKind::kWholePartialGrad, {}}; }
  static Form partial() { return {FormKind::kPartial, {}}; }
  static Form cutAt(Cut cut) { return {FormKind::kCut, cut}; }
  bool isCut() const { return kind == FormKind::kCut; }
  bool isWhole() const {
    return kind == FormKind::kWhole || kind == FormKind::kWholePartialGrad;
  }
  // "R", "Q", "P", "S(1,base=32)", "S(0,outer=2,inner=8,base=3,shift=1,group=4)": defaults are left out; base is
  // always written.
  std::string text() const;
  friend auto operator<=>(const Form&, const Form&) = default;
};

}  // namespace autosp::ir
