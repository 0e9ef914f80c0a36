#include "autosp/passes/index_expr.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::passes {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
// Beyond this an expression is not worth lifting; its tensor is loaded instead.
constexpr std::size_t kMaxNodes = std::size_t{1} << 17;

bool addChecked(std::int64_t x, std::int64_t y, std::int64_t& out) {
  return !__builtin_add_overflow(x, y, &out);
}
bool mulChecked(std::int64_t x, std::int64_t y, std::int64_t& out) {
  return !__builtin_mul_overflow(x, y, &out);
}

// Bounds that would overflow are none.
std::int64_t addLow(std::int64_t x, std::int64_t y) {
  std::int64_t out = 0;
  return x == kMin || y == kMin || !addChecked(x, y, out) ? kMin : out;
}
std::int64_t addHigh(std::int64_t x, std::int64_t y) {
  std::int64_t out = 0;
  return x == kMax || y == kMax || !addChecked(x, y, out) ? kMax : out;
}

Interval times(Interval x, std::int64_t by) {
  Interval out;
  const std::int64_t low = by < 0 ? x.hi : x.lo;
  const std::int64_t high = by < 0 ? x.lo : x.hi;
  std::int64_t bound = 0;
  if (low != kMin && low != kMax && mulChecked(low, by, bound)) {
    out.lo = bound;
  }
  if (high != kMin && high != kMax && mulChecked(high, by, bound)) {
    out.hi = bound;
  }
  return out;
}

std::int64_t floorDivide(std::int64_t x, std::int64_t by) {
  const std::int64_t quotient = x / by;
  return quotient * by > x ? quotient - 1 : quotient;
}

bool anyInvalid(const std::vector<ExprId>& ids) {
  return std::any_of(ids.begin(), ids.end(), [](ExprId id) { return !id.valid(); });
}

std::size_t mix(std::size_t hash, std::size_t value) {
  return (hash ^ (value + 0x9e3779b97f4a7c15ULL + (hash << 6U) + (hash >> 2U))) * 0x100000001b3ULL;
}

std::size_t hashOf(const Expr& e) {
  std::size_t hash = mix(static_cast<std::size_t>(e.kind), static_cast<std::size_t>(e.sort));
  hash = mix(hash, static_cast<std::size_t>(e.a));
  hash = mix(hash, static_cast<std::size_t>(e.b));
  hash = mix(hash, std::bit_cast<std::uint64_t>(e.number));
  for (ExprId arg : e.args) {
    hash = mix(hash, arg.at());
  }
  for (std::int64_t coef : e.coefs) {
    hash = mix(hash, static_cast<std::size_t>(coef));
  }
  return hash;
}

}  // namespace

bool sameExpr(const Expr& x, const Expr& y) {
  return x.kind == y.kind && x.sort == y.sort && x.a == y.a && x.b == y.b &&
         std::bit_cast<std::uint64_t>(x.number) == std::bit_cast<std::uint64_t>(y.number) &&
         x.args == y.args && x.coefs == y.coefs;
}

ExprId IndexExprs::intern(Expr expr) {
  if (anyInvalid(expr.args)) {
    return {};
  }
  const std::size_t hash = hashOf(expr);
  auto [first, last] = by_hash_.equal_range(hash);
  for (; first != last; ++first) {
    if (sameExpr(at(first->second), expr)) {
      return first->second;
    }
  }
  if (nodes_.size() >= kMaxNodes) {
    return {};
  }
  const ExprId id(nodes_.size());
  nodes_.push_back(std::move(expr));
  by_hash_.emplace(hash, id);
  return id;
}

ExprId IndexExprs::affine(std::int64_t constant,
                          std::vector<std::pair<ExprId, std::int64_t>> terms) {
  std::sort(terms.begin(), terms.end());
  Expr e;
  e.kind = ExprKind::kAffine;
  e.sort = Sort::kInt;
  e.a = constant;
  for (const auto& [atom, coef] : terms) {
    if (!e.args.empty() && e.args.back() == atom) {
      if (!addChecked(e.coefs.back(), coef, e.coefs.back())) {
        return {};
      }
    } else {
      e.args.push_back(atom);
      e.coefs.push_back(coef);
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < e.args.size(); ++i) {
    if (e.coefs[i] != 0) {
      e.args[kept] = e.args[i];
      e.coefs[kept++] = e.coefs[i];
    }
  }
  e.args.resize(kept);
  e.coefs.resize(kept);
  e.range = {constant, constant};
  for (std::size_t i = 0; i < kept; ++i) {
    const Interval term = times(at(e.args[i]).range, e.coefs[i]);
    e.range = {addLow(e.range.lo, term.lo), addHigh(e.range.hi, term.hi)};
  }
  return intern(std::move(e));
}

ExprId IndexExprs::ofAtom(Expr atom) {
  atom.sort = Sort::kInt;
  const ExprId id = intern(std::move(atom));
  return id.valid() ? affine(0, {{id, 1}}) : ExprId();
}

ExprId IndexExprs::integer(std::int64_t value) {
  return affine(value, {});
}

ExprId IndexExprs::index(std::int64_t dim, std::int64_t size) {
  if (size <= 1) {
    return integer(0);
  }
  Expr atom;
  atom.kind = ExprKind::kIndex;
  atom.a = dim;
  atom.b = size;
  atom.range = {0, size - 1};
  return ofAtom(std::move(atom));
}

ExprId IndexExprs::add(ExprId x, ExprId y, std::int64_t times) {
  if (!x.valid() || !y.valid()) {
    return {};
  }
  std::vector<std::pair<ExprId, std::int64_t>> terms;
  for (std::size_t i = 0; i < at(x).args.size(); ++i) {
    terms.emplace_back(at(x).args[i], at(x).coefs[i]);
  }
  for (std::size_t i = 0; i < at(y).args.size(); ++i) {
    std::int64_t coef = 0;
    if (!mulChecked(at(y).coefs[i], times, coef)) {
      return {};
    }
    terms.emplace_back(at(y).args[i], coef);
  }
  std::int64_t constant = 0;
  if (!mulChecked(at(y).a, times, constant) || !addChecked(at(x).a, constant, constant)) {
    return {};
  }
  return affine(constant, std::move(terms));
}

ExprId IndexExprs::scale(ExprId x, std::int64_t by) {
  return add(integer(0), x, by);
}

ExprId IndexExprs::floorDiv(ExprId x, std::int64_t by) {
  if (!x.valid() || by <= 0) {
    return {};
  }
  if (by == 1) {
    return x;
  }
  const Interval r = range(x);
  Expr atom;
  atom.kind = ExprKind::kFloorDiv;
  atom.a = by;
  atom.args = {x};
  atom.range = {r.lo == kMin ? kMin : floorDivide(r.lo, by),
                r.hi == kMax ? kMax : floorDivide(r.hi, by)};
  if (atom.range.lo == atom.range.hi) {
    return integer(atom.range.lo);
  }
  return ofAtom(std::move(atom));
}

ExprId IndexExprs::mod(ExprId x, std::int64_t by) {
  if (!x.valid() || by <= 0) {
    return {};
  }
  if (range(x).within(0, by - 1)) {
    return x;
  }
  if (auto value = constantInteger(x)) {
    return integer(*value - by * floorDivide(*value, by));
  }
  Expr atom;
  atom.kind = ExprKind::kMod;
  atom.a = by;
  atom.args = {x};
  atom.range = {0, by - 1};
  return ofAtom(std::move(atom));
}

ExprId IndexExprs::absolute(ExprId x) {
  if (!x.valid()) {
    return {};
  }
  const Interval r = range(x);
  if (r.lo >= 0) {
    return x;
  }
  if (r.hi <= 0) {
    return scale(x, -1);
  }
  if (!at(x).coefs.empty() && at(x).coefs.front() < 0) {
    x = scale(x, -1);  // one spelling of |e| and |-e|
  }
  Expr atom;
  atom.kind = ExprKind::kAbs;
  atom.args = {x};
  atom.range = {0, r.lo == kMin || r.hi == kMax ? kMax : std::max(-r.lo, r.hi)};
  return ofAtom(std::move(atom));
}

ExprId IndexExprs::fromBool(ExprId p) {
  if (!p.valid()) {
    return {};
  }
  if (auto value = constantBool(p)) {
    return integer(*value ? 1 : 0);
  }
  Expr atom;
  atom.kind = ExprKind::kFromBool;
  atom.args = {p};
  atom.range = {0, 1};
  return ofAtom(std::move(atom));
}

ExprId IndexExprs::boolean(bool value) {
  Expr e;
  e.kind = ExprKind::kBool;
  e.a = value ? 1 : 0;
  return intern(std::move(e));
}

std::optional<ExprId> IndexExprs::compareOneAtom(ExprId x, bool equal) {
  const Expr sum = at(x);
  if (sum.args.size() != 1) {
    return std::nullopt;
  }
  const Expr atom = at(sum.args[0]);
  const std::int64_t coef = sum.coefs[0];
  auto compare = [&](ExprId e) {
    const ExprId value = add(integer(sum.a), e, coef);
    return !value.valid() ? ExprId() : equal ? equalZero(value) : lessEqualZero(value);
  };
  switch (atom.kind) {
    case ExprKind::kSelect:
      return select(atom.args[0], compare(atom.args[1]), compare(atom.args[2]));
    case ExprKind::kFromBool:
      return select(atom.args[0], compare(integer(1)), compare(integer(0)));
    case ExprKind::kAbs:
      if (!equal && coef > 0) {  // both e and -e are at most the bound
        return conjunction({compare(atom.args[0]), compare(scale(atom.args[0], -1))});
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

ExprId IndexExprs::lessEqualZero(ExprId x) {
  if (!x.valid()) {
    return {};
  }
  if (range(x).hi <= 0) {
    return boolean(true);
  }
  if (range(x).lo > 0) {
    return boolean(false);
  }
  if (auto decided = compareOneAtom(x, false)) {
    return *decided;
  }
  std::int64_t divisor = 0;
  for (std::int64_t coef : at(x).coefs) {
    divisor = std::gcd(divisor, coef);
  }
  if (divisor > 1 && at(x).a != kMin) {  // c + g*e <= 0 is e <= floor(-c/g)
    std::vector<std::pair<ExprId, std::int64_t>> terms;
    for (std::size_t i = 0; i < at(x).args.size(); ++i) {
      terms.emplace_back(at(x).args[i], at(x).coefs[i] / divisor);
    }
    x = affine(-floorDivide(-at(x).a, divisor), std::move(terms));
  }
  Expr e;
  e.kind = ExprKind::kLessEqualZero;
  e.args = {x};
  return intern(std::move(e));
}

ExprId IndexExprs::equalZero(ExprId x) {
  if (!x.valid()) {
    return {};
  }
  if (auto value = constantInteger(x)) {
    return boolean(*value == 0);
  }
  if (range(x).lo > 0 || range(x).hi < 0) {
    return boolean(false);
  }
  if (auto decided = compareOneAtom(x, true)) {
    return *decided;
  }
  if (at(x).coefs.front() < 0) {
    x = scale(x, -1);
  }
  Expr e;
  e.kind = ExprKind::kEqualZero;
  e.args = {x};
  return intern(std::move(e));
}

ExprId IndexExprs::negation(ExprId p) {
  if (!p.valid()) {
    return {};
  }
  const Expr e = at(p);
  switch (e.kind) {
    case ExprKind::kBool:
      return boolean(e.a == 0);
    case ExprKind::kNot:
      return e.args[0];
    case ExprKind::kLessEqualZero:  // not x <= 0 is 1 - x <= 0
      return lessEqualZero(add(integer(1), e.args[0], -1));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      std::vector<ExprId> args;
      for (ExprId arg : e.args) {
        args.push_back(negation(arg));
      }
      return e.kind == ExprKind::kAnd ? disjunction(std::move(args)) : conjunction(std::move(args));
    }
    default: {
      Expr out;
      out.kind = ExprKind::kNot;
      out.args = {p};
      return intern(std::move(out));
    }
  }
}

ExprId IndexExprs::junction(ExprKind kind, std::vector<ExprId> args) {
  const bool unit = kind == ExprKind::kAnd;
  std::vector<ExprId> flat;
  for (ExprId arg : args) {
    if (!arg.valid()) {
      return {};
    }
    if (auto value = constantBool(arg)) {
      if (*value != unit) {
        return boolean(!unit);
      }
    } else if (at(arg).kind == kind) {
      flat.insert(flat.end(), at(arg).args.begin(), at(arg).args.end());
    } else {
      flat.push_back(arg);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  for (ExprId arg : flat) {
    // p and not p; the negation of a junction is a junction of the other kind, not a member.
    if (at(arg).kind != ExprKind::kAnd && at(arg).kind != ExprKind::kOr &&
        std::binary_search(flat.begin(), flat.end(), negation(arg))) {
      return boolean(!unit);
    }
  }
  if (flat.empty()) {
    return boolean(unit);
  }
  if (flat.size() == 1) {
    return flat.front();
  }
  Expr e;
  e.kind = kind;
  e.args = std::move(flat);
  return intern(std::move(e));
}

ExprId IndexExprs::conjunction(std::vector<ExprId> all) {
  return junction(ExprKind::kAnd, std::move(all));
}
ExprId IndexExprs::disjunction(std::vector<ExprId> any) {
  return junction(ExprKind::kOr, std::move(any));
}

ExprId IndexExprs::real(double value) {
  Expr e;
  e.kind = ExprKind::kReal;
  e.sort = Sort::kReal;
  e.number = value == 0 ? 0.0 : value;  // one zero
  return intern(std::move(e));
}

ExprId IndexExprs::select(ExprId p, ExprId a, ExprId b) {
  if (!p.valid() || !a.valid() || !b.valid()) {
    return {};
  }
  AUTOSP_CHECK(sort(p) == Sort::kBool && sort(a) == sort(b), "select of mixed sorts");
  if (auto value = constantBool(p)) {
    return *value ? a : b;
  }
  const ExprId otherwise = negation(p);
  a = assume(a, p);
  b = assume(b, otherwise);
  if (!a.valid() || !b.valid() || a == b) {
    return a.valid() ? b : a;
  }
  if (sort(a) == Sort::kBool) {
    return disjunction({conjunction({p, a}), conjunction({otherwise, b})});
  }
  Expr e;
  e.kind = ExprKind::kSelect;
  e.args = {p, a, b};
  if (sort(a) == Sort::kReal) {
    e.sort = Sort::kReal;
    return intern(std::move(e));
  }
  e.range = {std::min(range(a).lo, range(b).lo), std::max(range(a).hi, range(b).hi)};
  return ofAtom(std::move(e));
}

ExprId IndexExprs::load(ir::ValueId tensor, std::vector<ExprId> indices, Sort sort,
                        Interval range) {
  Expr e;
  e.kind = ExprKind::kLoad;
  e.sort = sort;
  e.a = tensor.index;
  e.args = std::move(indices);
  e.range = range;
  return sort == Sort::kInt ? ofAtom(std::move(e)) : intern(std::move(e));
}

std::optional<std::int64_t> IndexExprs::constantInteger(ExprId x) const {
  if (x.valid() && at(x).kind == ExprKind::kAffine && at(x).args.empty()) {
    return at(x).a;
  }
  return std::nullopt;
}

std::optional<bool> IndexExprs::constantBool(ExprId p) const {
  if (p.valid() && at(p).kind == ExprKind::kBool) {
    return at(p).a != 0;
  }
  return std::nullopt;
}

std::optional<double> IndexExprs::constantReal(ExprId x) const {
  if (x.valid() && at(x).kind == ExprKind::kReal) {
    return at(x).number;
  }
  return std::nullopt;
}

}  // namespace autosp::passes
