// Rules of products: a factor of both operands that no result has is contracted. Each rank then
// sums over its part and holds a partial sum (kSum), unless something is added after the product: a
// bias would be added once per rank, so the contraction stays whole there.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/rule_builder.h"

namespace autosp::sharding {
namespace {

using ir::Graph;
using ir::Op;
using ir::TensorType;
using Rule = std::optional<OpRule>;

DimFactors join(DimFactors a, const DimFactors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// One factor for each dim of `type` but the last `tail`.
DimFactors leading(RuleBuilder& build, const TensorType& type, std::size_t tail) {
  DimFactors out;
  for (std::size_t i = 0; i + tail < type.rank(); ++i) {
    out.push_back(build.factor("d" + std::to_string(i), type.dim(i)));
  }
  return out;
}

Rule linear(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* input = build.type("input");
  const TensorType* weight = build.type("weight");
  if (input == nullptr || weight == nullptr || input->rank() == 0 || weight->rank() == 0 ||
      weight->rank() > 2) {
    return std::nullopt;
  }
  const DimFactors rows = leading(build, *input, 1);
  const FactorKind contraction = op.has("bias") ? FactorKind::kWhole : FactorKind::kSum;
  const int k = build.factor("k", input->dim(input->rank() - 1), contraction);
  // A weight of one dim has no n.
  const DimFactors columns =
      weight->rank() == 2 ? DimFactors{build.factor("n", weight->dim(0))} : DimFactors{};
  build.operand("input", join(rows, {k}));
  build.operand("weight", join(columns, {k}));
  build.broadcastOperand("bias", join(rows, columns));
  build.results(join(rows, columns));
  return std::move(build).build();
}

// a: [batch..., i, k] or [k]; b: [batch..., k, j] or [k]; batch dims broadcast. `added` is the name
// of a tensor added to the product, which broadcasts to the result.
Rule product(const Graph& graph, const Op& op, std::string_view a_arg, std::string_view b_arg,
             std::string_view added = "") {
  RuleBuilder build(graph, op);
  const TensorType* a = build.type(a_arg);
  const TensorType* b = build.type(b_arg);
  if (a == nullptr || b == nullptr || a->rank() == 0 || b->rank() == 0) {
    return std::nullopt;
  }
  const auto batchSizes = [](const TensorType& type) {
    std::vector<std::int64_t> sizes = type.sizes();
    sizes.resize(sizes.size() > 2 ? sizes.size() - 2 : 0);
    return sizes;
  };
  const auto batch = build.broadcastFactors(batchSizes(*a), batchSizes(*b), "b");
  if (!batch) {
    return std::nullopt;
  }
  // The last `count` of the batch factors: those an operand of lower rank has.
  const auto batchOf = [&](const TensorType& type) {
    const std::size_t count = type.rank() > 2 ? type.rank() - 2 : 0;
    return DimFactors(batch->end() - static_cast<std::ptrdiff_t>(count), batch->end());
  };
  DimFactors rows;
  if (a->rank() > 1) {
    rows = {build.factor("i", a->dim(a->rank() - 2))};
  }
  const int k = build.factor("k", a->dim(a->rank() - 1),
                             added.empty() ? FactorKind::kSum : FactorKind::kWhole);
  DimFactors columns;
  if (b->rank() > 1) {
    columns = {build.factor("j", b->dim(b->rank() - 1))};
  }
  const DimFactors out = join(join(*batch, rows), columns);
  build.operand(a_arg, join(join(batchOf(*a), rows), {k}));
  build.operand(b_arg, join(join(batchOf(*b), {k}), columns));
  if (!added.empty()) {
    build.broadcastOperand(added, out);
  }
  build.results(out);
  return std::move(build).build();
}

Rule mm(const Graph& graph, const Op& op) {
  return product(graph, op, "self", "mat2");
}
Rule matmul(const Graph& graph, const Op& op) {
  return product(graph, op, "self", "other");
}
Rule mv(const Graph& graph, const Op& op) {
  return product(graph, op, "self", "vec");
}
Rule dot(const Graph& graph, const Op& op) {
  return product(graph, op, "self", "tensor");
}
Rule vdot(const Graph& graph, const Op& op) {
  return product(graph, op, "self", "other");
}
Rule addmm(const Graph& graph, const Op& op) {
  return product(graph, op, "mat1", "mat2", "self");
}
Rule addmv(const Graph& graph, const Op& op) {
  return product(graph, op, "mat", "vec", "self");
}
Rule baddbmm(const Graph& graph, const Op& op) {
  return product(graph, op, "batch1", "batch2", "self");
}

// The batch is contracted too, into something that is added.
Rule addbmm(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* a = build.type("batch1");
  const TensorType* b = build.type("batch2");
  if (a == nullptr || b == nullptr || a->rank() != 3 || b->rank() != 3) {
    return std::nullopt;
  }
  const int batch = build.factor("b", a->dim(0), FactorKind::kWhole);
  const int i = build.factor("i", a->dim(1));
  const int k = build.factor("k", a->dim(2), FactorKind::kWhole);
  const int j = build.factor("j", b->dim(2));
  build.operand("batch1", {batch, i, k});
  build.operand("batch2", {batch, k, j});
  build.broadcastOperand("self", {i, j});
  build.results({i, j});
  return std::move(build).build();
}

// Outer product of two vectors, possibly added to a matrix: nothing is contracted.
Rule outerProduct(const Graph& graph, const Op& op, std::string_view a_arg, std::string_view b_arg,
                  std::string_view added) {
  RuleBuilder build(graph, op);
  const TensorType* a = build.type(a_arg);
  const TensorType* b = build.type(b_arg);
  if (a == nullptr || b == nullptr || a->rank() != 1 || b->rank() != 1) {
    return std::nullopt;
  }
  const int i = build.factor("i", a->dim(0));
  const int j = build.factor("j", b->dim(0));
  build.operand(a_arg, {i});
  build.operand(b_arg, {j});
  if (!added.empty()) {
    build.broadcastOperand(added, {i, j});
  }
  build.results({i, j});
  return std::move(build).build();
}

Rule outer(const Graph& graph, const Op& op) {
  return outerProduct(graph, op, "self", "vec2", "");
}
Rule addr(const Graph& graph, const Op& op) {
  return outerProduct(graph, op, "vec1", "vec2", "self");
}

// Contracts the last dim of both.
Rule inner(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* a = build.type("self");
  const TensorType* b = build.type("other");
  if (a == nullptr || b == nullptr || a->rank() == 0 || b->rank() == 0) {
    return std::nullopt;
  }
  const DimFactors rows = leading(build, *a, 1);
  const int k = build.factor("k", a->dim(a->rank() - 1), FactorKind::kSum);
  DimFactors columns;
  for (std::size_t i = 0; i + 1 < b->rank(); ++i) {
    columns.push_back(build.factor("n" + std::to_string(i), b->dim(i)));
  }
  build.operand("self", join(rows, {k}));
  build.operand("other", join(columns, {k}));
  build.results(join(rows, columns));
  return std::move(build).build();
}

Rule tensordot(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  const TensorType* a = build.type("self");
  const TensorType* b = build.type("other");
  if (a == nullptr || b == nullptr || !op.arg("dims_self").isInts() ||
      !op.arg("dims_other").isInts()) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> a_dims = op.arg("dims_self").asInts();
  const std::vector<std::int64_t> b_dims = op.arg("dims_other").asInts();
  if (a_dims.size() != b_dims.size()) {
    return std::nullopt;
  }
  constexpr int kFree = -2;
  DimFactors a_map(a->rank(), kFree);
  DimFactors b_map(b->rank(), kFree);
  for (std::size_t i = 0; i < a_dims.size(); ++i) {
    const auto x = static_cast<std::size_t>(ir::normalDim(a_dims[i], a->rank()));
    const auto y = static_cast<std::size_t>(ir::normalDim(b_dims[i], b->rank()));
    if (x >= a->rank() || y >= b->rank() || a->dim(x) != b->dim(y)) {
      return std::nullopt;
    }
    a_map[x] = b_map[y] = build.factor("k" + std::to_string(i), a->dim(x), FactorKind::kSum);
  }
  DimFactors out;
  const auto free = [&](const TensorType& type, DimFactors& map, const std::string& prefix) {
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (map[i] == kFree) {
        map[i] = build.factor(prefix + std::to_string(i), type.dim(i));
        out.push_back(map[i]);
      }
    }
  };
  free(*a, a_map, "i");
  free(*b, b_map, "j");
  build.operand("self", a_map);
  build.operand("other", b_map);
  build.results(out);
  return std::move(build).build();
}

// An einsum equation with one label for each dim. The dims of an ellipsis get the labels "...0",
// counted from the right, since they broadcast so.
struct Equation {
  std::vector<std::vector<std::string>> operands;
  std::vector<std::string> result;
};

std::optional<std::vector<std::string>> parseLabels(const std::string& text,
                                                    std::size_t ellipsis_dims, bool& ellipsis) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0 && !ellipsis) {
      ellipsis = true;
      for (std::size_t d = ellipsis_dims; d > 0; --d) {
        out.push_back("..." + std::to_string(d - 1));
      }
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      out.emplace_back(1, text[i]);
    } else {
      return std::nullopt;
    }
    for (std::size_t a = 0; a + 1 < out.size(); ++a) {
      if (out[a] == out.back()) {
        return std::nullopt;  // a repeated letter takes a diagonal
      }
    }
  }
  return out;
}

std::optional<Equation> parseEquation(std::string text, const std::vector<std::size_t>& ranks) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation out;
  std::size_t most_dims = 0;
  bool any_ellipsis = false;
  for (std::size_t at = 0; at <= left.size();) {
    const std::size_t end = std::min(left.find(',', at), left.size());
    const std::string term = left.substr(at, end - at);
    at = end + 1;
    if (out.operands.size() == ranks.size()) {
      return std::nullopt;
    }
    const std::size_t rank = ranks[out.operands.size()];
    const std::size_t letters = term.size() - (term.find("...") == std::string::npos ? 0 : 3);
    bool ellipsis = false;
    const auto labels = parseLabels(term, rank - std::min(letters, rank), ellipsis);
    if (!labels || labels->size() != rank) {
      return std::nullopt;
    }
    any_ellipsis = any_ellipsis || ellipsis;
    most_dims = ellipsis ? std::max(most_dims, rank - letters) : most_dims;
    out.operands.push_back(*labels);
  }
  if (out.operands.size() != ranks.size()) {
    return std::nullopt;
  }
  std::string right = any_ellipsis ? "..." : "";
  if (arrow != std::string::npos) {
    right = text.substr(arrow + 2);
  } else {
    // Without a result: the letters that occur once, sorted, after the ellipsis.
    std::map<char, int> counts;
    for (char c : left) {
      counts[c] += std::isalpha(static_cast<unsigned char>(c)) != 0 ? 1 : 0;
    }
    for (const auto& [c, count] : counts) {
      right += count == 1 ? std::string(1, c) : "";
    }
  }
  bool ellipsis = false;
  const auto labels = parseLabels(right, most_dims, ellipsis);
  // An ellipsis that only the operands have would be summed; an output's own would be new.
  if (!labels || ellipsis != any_ellipsis) {
    return std::nullopt;
  }
  out.result = *labels;
  return out;
}

Rule einsum(const Graph& graph, const Op& op) {
  RuleBuilder build(graph, op);
  std::vector<std::size_t> ranks;
  while (const TensorType* type = build.type("tensors", ranks.size())) {
    ranks.push_back(type->rank());
  }
  const auto equation = parseEquation(op.arg("equation").asString(), ranks);
  if (!equation) {
    return std::nullopt;
  }
  // A label's size is the largest met: a dim of size 1 broadcasts.
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::string> order;
  for (std::size_t t = 0; t < ranks.size(); ++t) {
    for (std::size_t d = 0; d < ranks[t]; ++d) {
      const std::int64_t size = build.type("tensors", t)->dim(d);
      const auto [it, is_new] = sizes.emplace(equation->operands[t][d], size);
      if (is_new) {
        order.push_back(it->first);
      } else if (it->second == 1) {
        it->second = size;
      }
    }
  }
  std::map<std::string, int> factors;
  for (const std::string& label : order) {
    const bool kept = std::find(equation->result.begin(), equation->result.end(), label) !=
                      equation->result.end();
    const std::string name = label.size() > 1 ? "d" + label.substr(3) : label;
    factors[label] =
        build.factor(name, sizes.at(label), kept ? FactorKind::kPass : FactorKind::kSum);
  }
  const auto bind = [&](const std::vector<std::string>& labels) -> std::optional<DimFactors> {
    DimFactors out;
    for (const std::string& label : labels) {
      const auto found = factors.find(label);
      if (found == factors.end()) {
        return std::nullopt;
      }
      out.push_back(found->second);
    }
    return out;
  };
  for (std::size_t t = 0; t < ranks.size(); ++t) {
    build.operand("tensors", *bind(equation->operands[t]), t);
  }
  const auto out = bind(equation->result);
  if (!out) {
    return std::nullopt;
  }
  build.results(*out);
  return std::move(build).build();
}

}  // namespace

const std::vector<RuleRow>& matmulRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.linear.default", "(... k, n k, n?) -> ... n   sum k (whole with a bias)", linear},
      {"aten.mm.default", "(i k, k j) -> i j   sum k", mm},
      {"aten.mm.dtype", "(i k, k j) -> i j   sum k", mm},
      {"aten.bmm.default", "(b i k, b k j) -> b i j   sum k", mm},
      {"aten.bmm.dtype", "(b i k, b k j) -> b i j   sum k", mm},
      {"aten.matmul.default", "(...b i k, ...b k j) -> ...b i j   sum k", matmul},
      {"aten.addmm.default", "(i j, i k, k j) -> i j   whole k", addmm},
      {"aten.addmm.dtype", "(i j, i k, k j) -> i j   whole k", addmm},
      {"aten.baddbmm.default", "(b i j, b i k, b k j) -> b i j   whole k", baddbmm},
      {"aten.baddbmm.dtype", "(b i j, b i k, b k j) -> b i j   whole k", baddbmm},
      {"aten.addbmm.default", "(i j, b i k, b k j) -> i j   whole b, whole k", addbmm},
      {"aten.mv.default", "(i k, k) -> i   sum k", mv},
      {"aten.addmv.default", "(i, i k, k) -> i   whole k", addmv},
      {"aten.dot.default", "(k, k) ->   sum k", dot},
      {"aten.vdot.default", "(k, k) ->   sum k", vdot},
      {"aten.outer.default", "(i, j) -> i j", outer},
      {"aten.ger.default", "(i, j) -> i j", outer},
      {"aten.addr.default", "(i j, i, j) -> i j", addr},
      {"aten.inner.default", "(... k, ...n k) -> ... ...n   sum k", inner},
      {"aten.tensordot.default", "as its dims say; the contracted ones are summed", tensordot},
      {"aten.einsum.default", "as its equation says; letters the result lacks are summed", einsum},
  };
  return rows;
}

}  // namespace autosp::sharding
