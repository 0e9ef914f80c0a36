// Ops that move no element: views, permutations, expansions. A reshape is split into the smallest groups of
// dims with equal products, and within a group the dims of both sides are taken apart from the left, and
// then from the right, into the factors they share: [B, S, H*D] -> [B, S, H, D] is a b (c d) -> a b c d,
// [4, 6] -> [8, 3] is (4) (2 3) -> (4 2) (3). What cannot be shared is kept whole.
#include <algorithm>
#include <numeric>

#include "autosp/sharding/rule_table.h"
#include "autosp/sharding/rules/dims.h"

namespace autosp::sharding {
namespace {

// One dim of one side while its group is taken apart: factors found at its left and at its right end, and
// the size that lies between them.
struct OpenDim {
  std::size_t dim = 0;
  std::int64_t left_over = 1;
  std::vector<int> left;
  std::vector<int> right;  // innermost first
};

std::vector<OpenDim> openDims(const Sizes& sizes) {
  std::vector<OpenDim> out;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) {
      out.push_back({d, sizes[d], {}, {}});
    }
  }
  return out;
}

// Takes shared factors off two ranges of dims, from their front, until the dims there share none.
template <typename Iterator>
void share(OpRule& rule, Iterator a, Iterator a_end, Iterator b, Iterator b_end,
           std::vector<int> OpenDim::*side) {
  while (a != a_end && b != b_end) {
    const std::int64_t common = std::gcd(a->left_over, b->left_over);
    if (common > 1) {
      const int factor = newFactor(rule, common);
      ((*a).*side).push_back(factor);
      ((*b).*side).push_back(factor);
      a->left_over /= common;
      b->left_over /= common;
    } else if (a->left_over != 1 && b->left_over != 1) {
      return;
    }
    a += a->left_over == 1 ? 1 : 0;
    b += b->left_over == 1 ? 1 : 0;
  }
}

void close(OpRule& rule, const std::vector<OpenDim>& dims, TensorMap& map) {
  for (const OpenDim& dim : dims) {
    std::vector<int>& factors = map[dim.dim].factors;
    factors = dim.left;
    if (dim.left_over > 1) {
      factors.push_back(newFactor(rule, dim.left_over, FactorKind::kWhole));
    }
    factors.insert(factors.end(), dim.right.rbegin(), dim.right.rend());
  }
}

std::optional<OpRule> reshapeRule(const Sizes& from, const Sizes& to) {
  auto elements = [](const Sizes& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  };
  if (elements(from) != elements(to) || elements(from) == 0) {
    return std::nullopt;
  }
  OpRule rule;
  std::vector<OpenDim> a = openDims(from);
  std::vector<OpenDim> b = openDims(to);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size()) {
    const std::size_t first_a = i;
    const std::size_t first_b = j;
    std::int64_t product_a = a[i++].left_over;
    std::int64_t product_b = b[j++].left_over;
    while (product_a != product_b) {
      if (product_a < product_b) {
        product_a *= a[i++].left_over;
      } else {
        product_b *= b[j++].left_over;
      }
    }
    auto at = [](auto& dims, std::size_t k) { return dims.begin() + static_cast<std::ptrdiff_t>(k); };
    share(rule, at(a, first_a), at(a, i), at(b, first_b), at(b, j), &OpenDim::left);
    share(rule, std::make_reverse_iterator(at(a, i)), std::make_reverse_iterator(at(a, first_a)),
          std::make_reverse_iterator(at(b, j)), std::make_reverse_iterator(at(b, first_b)),
          &OpenDim::right);
  }
  rule.operands.resize(1, TensorMap(from.size()));
  rule.results.resize(1, TensorMap(to.size()));
  close(rule, a, rule.operands[0]);
  close(rule, b, rule.results[0]);
  return rule;
}

// Of a second operand only the shape is read: it has the shape of the result.
std::optional<OpRule> reshape(const ir::Graph& graph, const ir::Op& op) {
  const std::vector<ir::ValueId> operands = op.operands();
  auto rule = reshapeRule(sizesOf(graph, operands[0]), sizesOf(graph, op.results[0]));
  if (rule && operands.size() == 2) {
    rule->operands.push_back(rule->results[0]);
  }
  return rule;
}

// Result dim i is operand dim order[i].
std::optional<OpRule> permuteRule(const ir::Graph& graph, const ir::Op& op,
                                  const std::vector<std::size_t>& order) {
  OpRule rule;
  rule.operands = {ownDims(rule, sizesOf(graph, op.operands()[0]))};
  if (order.size() != rule.operands[0].size()) {
    return std::nullopt;
  }
  TensorMap result;
  for (std::size_t dim : order) {
    result.push_back(rule.operands[0][dim]);
  }
  rule.results = {std::move(result)};
  return rule;
}

std::vector<std::size_t> identity(const ir::Graph& graph, const ir::Op& op) {
  std::vector<std::size_t> order(graph.type(op.operands()[0]).rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

std::optional<OpRule> permute(const ir::Graph& graph, const ir::Op& op) {
  const auto dims = dimsArg(op, "dims", graph.type(op.operands()[0]).rank());
  return dims ? permuteRule(graph, op, {dims->begin(), dims->end()}) : std::nullopt;
}

std::optional<OpRule> transpose(const ir::Graph& graph, const ir::Op& op) {
  std::vector<std::size_t> order = identity(graph, op);
  const bool axes = op.find("axis0") != nullptr;
  const auto first = dimArg(op, axes ? "axis0" : "dim0", 0, order.size());
  const auto second = dimArg(op, axes ? "axis1" : "dim1", 0, order.size());
  if (!first || !second) {
    return std::nullopt;
  }
  std::swap(order[*first], order[*second]);
  return permuteRule(graph, op, order);
}

// t, mT, mH: the last two dims change places; t leaves one dim alone.
std::optional<OpRule> transposeLast(const ir::Graph& graph, const ir::Op& op) {
  std::vector<std::size_t> order = identity(graph, op);
  if (order.size() >= 2) {
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  }
  return permuteRule(graph, op, order);
}

std::optional<OpRule> reverseDims(const ir::Graph& graph, const ir::Op& op) {
  std::vector<std::size_t> order = identity(graph, op);
  std::reverse(order.begin(), order.end());
  return permuteRule(graph, op, order);
}

// Dims `source` stand at `destination`; the others keep their order in the places left.
std::optional<OpRule> moveDims(const ir::Graph& graph, const ir::Op& op) {
  const std::size_t rank = graph.type(op.operands()[0]).rank();
  const auto source = dimsArg(op, "source", rank);
  const auto destination = dimsArg(op, "destination", rank);
  if (!source || !destination || source->size() != destination->size()) {
    return std::nullopt;
  }
  std::vector<std::optional<std::size_t>> order(rank);
  std::vector<char> moved(rank, 0);
  for (std::size_t k = 0; k < source->size(); ++k) {
    order[static_cast<std::size_t>((*destination)[k])] = static_cast<std::size_t>((*source)[k]);
    moved[static_cast<std::size_t>((*source)[k])] = 1;
  }
  std::size_t next = 0;
  std::vector<std::size_t> full;
  for (const auto& dim : order) {
    while (!dim && moved[next]) {
      ++next;
    }
    full.push_back(dim ? *dim : next++);
  }
  return permuteRule(graph, op, full);
}

// The complex pair is a last dim of size 2, kept whole.
std::optional<OpRule> viewAsReal(const ir::Graph& graph, const ir::Op& op) {
  OpRule rule;
  rule.operands = {ownDims(rule, sizesOf(graph, op.operands()[0]))};
  rule.results = rule.operands;
  rule.results[0].push_back({});
  return rule;
}

std::optional<OpRule> viewAsComplex(const ir::Graph& graph, const ir::Op& op) {
  OpRule rule;
  rule.results = {ownDims(rule, sizesOf(graph, op.results[0]))};
  rule.operands = rule.results;
  rule.operands[0].push_back({});
  return rule;
}

}  // namespace

const std::vector<RuleRow>& viewRules() {
  static const std::vector<RuleRow> rows = {
      {"aten.view.default", "(a (b c)) -> (a b) c", reshape},
      {"aten.reshape.default", "(a (b c)) -> (a b) c", reshape},
      {"aten._unsafe_view.default", "(a (b c)) -> (a b) c", reshape},
      {"aten._reshape_alias.default", "(a (b c)) -> (a b) c", reshape},
      {"aten.view_as.default", "(a (b c), (a b) c) -> (a b) c", reshape},
      {"aten.reshape_as.default", "(a (b c), (a b) c) -> (a b) c", reshape},
      {"aten.flatten.using_ints", "(a b c) -> a (b c)", reshape},
      {"aten.unflatten.int", "(a (b c)) -> a b c", reshape},
      {"aten.ravel.default", "(a b) -> (a b)", reshape},
      {"aten.squeeze.default", "(a 1 b) -> a b", reshape},
      {"aten.squeeze.dim", "(a 1 b) -> a b", reshape},
      {"aten.squeeze.dims", "(a 1 b) -> a b", reshape},
      {"aten.unsqueeze.default", "(a b) -> a 1 b", reshape},
      {"aten.atleast_1d.default", "(a) -> a", reshape},
      {"aten.atleast_2d.default", "(a) -> 1 a", reshape},
      {"aten.atleast_3d.default", "(a) -> 1 a 1", reshape},
      {"aten.expand.default", "(1 b) -> a b", broadcastRule},
      {"aten.expand_as.default", "(1 b, a b) -> a b", broadcastRule},
      {"aten.broadcast_to.default", "(1 b) -> a b", broadcastRule},
      {"aten.broadcast_tensors.default", "(1 b, a 1) -> (a b, a b)", broadcastRule},
      {"aten.transpose.int", "(a b c) -> a c b", transpose},
      {"aten.swapaxes.default", "(a b c) -> a c b", transpose},
      {"aten.swapdims.default", "(a b c) -> a c b", transpose},
      {"aten.permute.default", "(a b c) -> c a b", permute},
      {"aten.movedim.int", "(a b c) -> b c a", moveDims},
      {"aten.movedim.intlist", "(a b c) -> b c a", moveDims},
      {"aten.moveaxis.int", "(a b c) -> b c a", moveDims},
      {"aten.moveaxis.intlist", "(a b c) -> b c a", moveDims},
      {"aten.t.default", "(a b) -> b a", transposeLast},
      {"aten.mT.default", "(... a b) -> ... b a", transposeLast},
      {"aten.mT.a", "(... a b) -> ... b a", transposeLast},
      {"aten.mH.default", "(... a b) -> ... b a", transposeLast},
      {"aten.mH.a", "(... a b) -> ... b a", transposeLast},
      {"aten.adjoint.default", "(... a b) -> ... b a", transposeLast},
      {"aten.numpy_T.default", "(a b c) -> c b a", reverseDims},
      {"aten.numpy_T.a", "(a b c) -> c b a", reverseDims},
      {"aten.view_as_real.default", "(...) -> ... 1", viewAsReal},
      {"aten.view_as_complex.default", "(... 1) -> ...", viewAsComplex},
  };
  return rows;
}

}  // namespace autosp::sharding
