// The value of a tensor as one scalar expression in its index variables, for tensors whose elements
// are known functions of their position (masks, position ids, segment ids). Broadcasting, slicing
// and indexing are substitutions of index variables; what has no rule is a load of a tensor that
// exists.
//
//   integers   affine: c + sum of coef * atom; an atom is an index variable of known size, a load,
//              select(p, a, b), floordiv(e, c), mod(e, c), abs(e), int(p)
//   booleans   constants, e <= 0, e == 0, not (of e == 0 or a load), and, or, loads
//   reals      constants, select(p, a, b), loads
//
// Integers are mathematical, not of a width: who makes an expression of a tensor checks that its
// interval fits the tensor's type, and who evaluates one must not let a difference of loads wrap.
// Expressions are hash-consed, so equal ones have equal ids; intervals of index variables decide
// comparisons, and a select simplifies its branches under its condition. A constructor given an
// invalid id, or one that would overflow, returns an invalid id, which stands for "no rule".
// Source: shared expression idiom of index-based compilers (Halide, TVM), cut to what attention
// masks need.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autosp/ir/attr.h"
#include "autosp/support/ids.h"

namespace autosp::passes {

struct ExprTag;
using ExprId = Id<ExprTag>;

// Bounds of an integer, both included; the extremes of int64 mean that there is no bound.
struct Interval {
  std::int64_t lo = std::numeric_limits<std::int64_t>::min();
  std::int64_t hi = std::numeric_limits<std::int64_t>::max();
  // Bounded on both sides, and inside [low, high].
  bool within(std::int64_t low, std::int64_t high) const {
    return lo != std::numeric_limits<std::int64_t>::min() &&
           hi != std::numeric_limits<std::int64_t>::max() && lo >= low && hi <= high;
  }
};

enum class Sort : std::uint8_t { kInt, kBool, kReal };

enum class ExprKind : std::uint8_t {
  // integers
  kAffine,    // a + sum coefs[i] * args[i]; args are atoms, ascending
  kIndex,     // atom: index variable of dim a, in [0, b)
  kFloorDiv,  // atom: args[0] divided by a > 0, rounded down
  kMod,       // atom: args[0] modulo a > 0, in [0, a)
  kAbs,       // atom
  kFromBool,  // atom: 1 where args[0]
  // booleans
  kBool,  // a is 0 or 1
  kLessEqualZero,
  kEqualZero,
  kNot,
  kAnd,  // args ascending, without duplicates
  kOr,
  // reals
  kReal,
  // every sort; of an integer, an atom
  kSelect,  // args[0] ? args[1] : args[2]
  kLoad,    // tensor a at indices args
};

struct Expr {
  ExprKind kind = ExprKind::kBool;
  Sort sort = Sort::kBool;
  std::int64_t a = 0;
  std::int64_t b = 0;
  double number = 0;
  std::vector<ExprId> args;
  std::vector<std::int64_t> coefs;
  Interval range;  // of integers
  friend bool sameExpr(const Expr& x, const Expr& y);
};

// The arena of expressions. Integer expressions are always kAffine, never a bare atom.
class IndexExprs {
 public:
  const Expr& at(ExprId id) const { return nodes_[id.at()]; }
  Sort sort(ExprId id) const { return at(id).sort; }
  Interval range(ExprId id) const { return at(id).range; }

  ExprId integer(std::int64_t value);
  // 0 when the dim has size 1.
  ExprId index(std::int64_t dim, std::int64_t size);
  ExprId add(ExprId x, ExprId y, std::int64_t times = 1);  // x + times * y
  ExprId scale(ExprId x, std::int64_t by);
  ExprId floorDiv(ExprId x, std::int64_t by);
  ExprId mod(ExprId x, std::int64_t by);
  ExprId absolute(ExprId x);
  ExprId fromBool(ExprId p);

  ExprId boolean(bool value);
  ExprId lessEqualZero(ExprId x);
  ExprId equalZero(ExprId x);
  ExprId negation(ExprId p);
  ExprId conjunction(std::vector<ExprId> all);
  ExprId disjunction(std::vector<ExprId> any);

  ExprId real(double value);

  ExprId select(ExprId p, ExprId a, ExprId b);
  // The tensor's element at these indices; `range` bounds it when it is an integer.
  ExprId load(ir::ValueId tensor, std::vector<ExprId> indices, Sort sort, Interval range);

  std::optional<std::int64_t> constantInteger(ExprId x) const;
  std::optional<bool> constantBool(ExprId p) const;
  std::optional<double> constantReal(ExprId x) const;

  // Index variable of dim i replaced by by_dim[i], all at once; an invalid entry leaves the
  // variable.
  ExprId substitute(ExprId e, const std::vector<ExprId>& by_dim);
  // e, simplified where p holds.
  ExprId assume(ExprId e, ExprId p);

  // "k <= q" is "(-q + k <= 0)"; index variables are i0, i1, ... unless names are given.
  std::string text(ExprId e, const std::vector<std::string>& names = {}) const;

 private:
  // A replacement for a boolean, a real or an atom, or nothing to go on below it.
  using Replace = std::function<std::optional<ExprId>(ExprId)>;

  ExprId intern(Expr expr);
  ExprId affine(std::int64_t constant, std::vector<std::pair<ExprId, std::int64_t>> terms);
  ExprId ofAtom(Expr atom);
  ExprId junction(ExprKind kind, std::vector<ExprId> args);
  // A comparison of coef * atom + c that the atom's kind decides: select, int(p), abs.
  std::optional<ExprId> compareOneAtom(ExprId x, bool equal);
  ExprId rewrite(ExprId e, const Replace& replace, std::unordered_map<ExprId, ExprId>& memo);
  ExprId rebuild(ExprId e, const std::vector<ExprId>& args);
  // The index variable that p pins to one value, and the value.
  std::optional<std::pair<ExprId, std::int64_t>> pinned(ExprId p) const;

  std::vector<Expr> nodes_;
  std::unordered_multimap<std::size_t, ExprId> by_hash_;  // looked up, never walked
};

}  // namespace autosp::passes
