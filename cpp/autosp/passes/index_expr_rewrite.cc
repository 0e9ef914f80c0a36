// Substitution, simplification under an assumption, and the text form of index expressions.
// Rewriting runs the constructors again from the leaves, so what becomes constant folds.
#include <utility>

#include "autosp/passes/index_expr.h"
#include "autosp/support/check.h"

namespace autosp::passes {

ExprId IndexExprs::rebuild(ExprId e, const std::vector<ExprId>& args) {
  const Expr node = at(e);
  switch (node.kind) {
    case ExprKind::kAffine: {
      ExprId sum = integer(node.a);
      for (std::size_t i = 0; i < args.size(); ++i) {
        sum = add(sum, args[i], node.coefs[i]);
      }
      return sum;
    }
    case ExprKind::kIndex:
      return index(node.a, node.b);
    case ExprKind::kFloorDiv:
      return floorDiv(args[0], node.a);
    case ExprKind::kMod:
      return mod(args[0], node.a);
    case ExprKind::kAbs:
      return absolute(args[0]);
    case ExprKind::kFromBool:
      return fromBool(args[0]);
    case ExprKind::kBool:
    case ExprKind::kReal:
      return e;
    case ExprKind::kLessEqualZero:
      return lessEqualZero(args[0]);
    case ExprKind::kEqualZero:
      return equalZero(args[0]);
    case ExprKind::kNot:
      return negation(args[0]);
    case ExprKind::kAnd:
      return conjunction(args);
    case ExprKind::kOr:
      return disjunction(args);
    case ExprKind::kSelect:
      return select(args[0], args[1], args[2]);
    case ExprKind::kLoad:
      return load(ir::ValueId(static_cast<std::size_t>(node.a)), args, node.sort, node.range);
  }
  failCheck("rebuild", "an expression of unknown kind", __FILE__, __LINE__);
}

// An atom is rewritten to an integer expression, everything else to its own sort.
ExprId IndexExprs::rewrite(ExprId e, const Replace& replace,
                           std::unordered_map<ExprId, ExprId>& memo) {
  if (!e.valid()) {
    return {};
  }
  if (auto known = memo.find(e); known != memo.end()) {
    return known->second;
  }
  ExprId out;
  if (std::optional<ExprId> replaced = replace(e)) {
    out = *replaced;
  } else {
    const std::vector<ExprId> old_args = at(e).args;
    std::vector<ExprId> args;
    bool valid = true;
    for (ExprId arg : old_args) {
      args.push_back(rewrite(arg, replace, memo));
      valid = valid && args.back().valid();
    }
    out = valid ? rebuild(e, args) : ExprId();
  }
  memo.emplace(e, out);
  return out;
}

ExprId IndexExprs::substitute(ExprId e, const std::vector<ExprId>& by_dim) {
  std::unordered_map<ExprId, ExprId> memo;
  return rewrite(
      e,
      [&](ExprId node) -> std::optional<ExprId> {
        const Expr& expr = at(node);
        if (expr.kind == ExprKind::kIndex && static_cast<std::size_t>(expr.a) < by_dim.size() &&
            by_dim[static_cast<std::size_t>(expr.a)].valid()) {
          return by_dim[static_cast<std::size_t>(expr.a)];
        }
        return std::nullopt;
      },
      memo);
}

std::optional<std::pair<ExprId, std::int64_t>> IndexExprs::pinned(ExprId p) const {
  const Expr& e = at(p);
  if (e.kind != ExprKind::kLessEqualZero && e.kind != ExprKind::kEqualZero) {
    return std::nullopt;
  }
  const Expr& sum = at(e.args[0]);
  if (sum.args.size() != 1 || at(sum.args[0]).kind != ExprKind::kIndex ||
      (sum.coefs[0] != 1 && sum.coefs[0] != -1)) {
    return std::nullopt;
  }
  const std::int64_t last = at(sum.args[0]).b - 1;
  if (e.kind == ExprKind::kEqualZero) {
    return std::pair(sum.args[0], -sum.a * sum.coefs[0]);
  }
  if (sum.coefs[0] == 1 && sum.a == 0) {  // i <= 0
    return std::pair(sum.args[0], std::int64_t{0});
  }
  if (sum.coefs[0] == -1 && sum.a == last) {  // i >= size - 1
    return std::pair(sum.args[0], last);
  }
  return std::nullopt;
}

ExprId IndexExprs::assume(ExprId e, ExprId p) {
  if (!e.valid() || !p.valid()) {
    return {};
  }
  const std::vector<ExprId> facts =
      at(p).kind == ExprKind::kAnd ? at(p).args : std::vector<ExprId>{p};
  for (ExprId fact : facts) {
    const ExprId contrary = negation(fact);
    const auto pin = pinned(fact);
    std::unordered_map<ExprId, ExprId> memo;
    e = rewrite(
        e,
        [&](ExprId node) -> std::optional<ExprId> {
          if (node == fact) {
            return boolean(true);
          }
          if (node == contrary) {
            return boolean(false);
          }
          if (pin && node == pin->first) {
            return integer(pin->second);
          }
          return std::nullopt;
        },
        memo);
  }
  return e;
}

std::string IndexExprs::text(ExprId e, const std::vector<std::string>& names) const {
  if (!e.valid()) {
    return "?";
  }
  const Expr& node = at(e);
  auto joined = [&](const char* separator) {
    std::string out;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      out += (i != 0 ? separator : "") + text(node.args[i], names);
    }
    return out;
  };
  switch (node.kind) {
    case ExprKind::kAffine: {
      std::string out;
      for (std::size_t i = 0; i < node.args.size(); ++i) {
        const std::int64_t coef = node.coefs[i];
        out += out.empty() ? (coef < 0 ? "-" : "") : (coef < 0 ? " - " : " + ");
        const std::string size = std::to_string(coef);
        out += coef == 1 || coef == -1 ? "" : (coef < 0 ? size.substr(1) : size) + "*";
        out += text(node.args[i], names);
      }
      if (out.empty()) {
        return std::to_string(node.a);
      }
      if (node.a != 0) {
        const std::string constant = std::to_string(node.a);
        out += node.a < 0 ? " - " + constant.substr(1) : " + " + constant;
      }
      return out;
    }
    case ExprKind::kIndex: {
      const auto dim = static_cast<std::size_t>(node.a);
      return dim < names.size() ? names[dim] : "i" + std::to_string(node.a);
    }
    case ExprKind::kFloorDiv:
      return "floordiv(" + joined("") + ", " + std::to_string(node.a) + ")";
    case ExprKind::kMod:
      return "mod(" + joined("") + ", " + std::to_string(node.a) + ")";
    case ExprKind::kAbs:
      return "abs(" + joined("") + ")";
    case ExprKind::kFromBool:
      return "int(" + joined("") + ")";
    case ExprKind::kBool:
      return node.a != 0 ? "true" : "false";
    case ExprKind::kLessEqualZero:
      return "(" + joined("") + " <= 0)";
    case ExprKind::kEqualZero:
      return "(" + joined("") + " == 0)";
    case ExprKind::kNot:
      return "!" + joined("");
    case ExprKind::kAnd:
      return "(" + joined(" and ") + ")";
    case ExprKind::kOr:
      return "(" + joined(" or ") + ")";
    case ExprKind::kReal:
      return std::to_string(node.number);
    case ExprKind::kSelect:
      return "select(" + joined(", ") + ")";
    case ExprKind::kLoad:
      return "%" + std::to_string(node.a) + "[" + joined(", ") + "]";
  }
  return "?";
}

}  // namespace autosp::passes
