// Projections checked by brute force: a strategy is right when, on every rank, running the op on what the
// rank holds of the operand gives what the rank is to hold of the result, element by element.
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "autosp/sharding/op_case.h"

namespace autosp::sharding {
namespace {

using Sizes = OpCase::Sizes;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// A tensor by its elements, row major. The elements of an operand are numbered; -1 is padding.
struct Tensor {
  Sizes sizes;
  std::vector<std::int64_t> elements;
};

Tensor numbered(const Sizes& sizes) {
  Tensor out{sizes, std::vector<std::int64_t>(static_cast<std::size_t>(product(sizes)))};
  std::iota(out.elements.begin(), out.elements.end(), 0);
  return out;
}

// What a rank holds of the tensor.
Tensor local(const Tensor& full, const ir::Form& form, int rank, int ranks) {
  if (!form.isCut()) {
    return full;
  }
  const auto d = static_cast<std::size_t>(form.cut.dim);
  const ir::Range range = form.cut.range(full.sizes[d], rank, ranks);
  const std::int64_t n = form.cut.units(full.sizes[d]);
  std::int64_t below = form.cut.inner;
  for (std::size_t k = d + 1; k < full.sizes.size(); ++k) {
    below *= full.sizes[k];
  }
  Tensor out{full.sizes, {}};
  out.sizes[d] = form.cut.localSize(full.sizes[d], rank, ranks);
  for (std::size_t i = 0; i < full.elements.size(); ++i) {
    const std::int64_t unit = static_cast<std::int64_t>(i) / below % n;
    if (range.lo <= unit && unit < range.hi) {
      out.elements.push_back(full.elements[i]);
    }
  }
  return out;
}

// result[i] is computed by the op from the operand, given the sizes it has to make.
using Run = std::function<Tensor(const Tensor& operand, const Sizes& result_sizes)>;

Tensor reshape(const Tensor& in, const Sizes& sizes) { return {sizes, in.elements}; }

// Each result element at the index given by `from` (operand index for a result index; nothing: padding).
Tensor index(const Tensor& in, const Sizes& sizes,
             const std::function<std::optional<Sizes>(const Sizes&)>& from) {
  Tensor out{sizes, {}};
  Sizes at(sizes.size(), 0);
  for (std::int64_t i = 0; i < product(sizes); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    const auto source = from(at);
    std::int64_t flat = 0;
    for (std::size_t d = 0; source && d < in.sizes.size(); ++d) {
      EXPECT_TRUE((*source)[d] >= 0 && (*source)[d] < in.sizes[d]) << "a read outside the operand";
      flat = flat * in.sizes[d] + (*source)[d];
    }
    out.elements.push_back(source ? in.elements.at(static_cast<std::size_t>(flat)) : -1);
  }
  return out;
}

// Runs one strategy on every rank.
void expectExact(OpCase& op, const Strategy& strategy, const Run& run, int ranks) {
  const Sizes from = op.graph().type(op.op().operands()[0]).sizes();
  const Sizes to = op.graph().type(op.op().results[0]).sizes();
  const Tensor operand = numbered(from);
  const Tensor result = run(operand, to);
  for (int r = 0; r < ranks; ++r) {
    const Tensor expected = local(result, strategy.results[0], r, ranks);
    const Tensor held = local(operand, strategy.operands[0], r, ranks);
    const Tensor computed = run(held, expected.sizes);
    EXPECT_EQ(computed.elements, expected.elements)
        << op.text() << " rank " << r << " of " << ranks << ": " << strategy.operands[0].text()
        << " -> " << strategy.results[0].text();
  }
}

// All cuts of a dim: each way to see it as [outer, n, inner], dealt plainly or with moved boundaries.
std::vector<ir::Cut> cutsOf(const Sizes& sizes, std::mt19937& random) {
  std::vector<ir::Cut> out;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    for (std::int64_t outer = 1; outer <= sizes[d]; ++outer) {
      for (std::int64_t inner = 1; sizes[d] % outer == 0 && inner <= sizes[d] / outer; ++inner) {
        if (sizes[d] / outer % inner != 0) {
          continue;
        }
        const std::int64_t n = sizes[d] / outer / inner;
        const auto dim = static_cast<std::int32_t>(d);
        out.push_back({dim, outer, inner, n, 0, 1});
        const auto moved = static_cast<std::int64_t>(random() % 4);
        out.push_back({dim, outer, inner, n + moved, static_cast<std::int64_t>(random() % 4) - 1, 1});
      }
    }
  }
  return out;
}

// The strategies that each cut of the operand, and of the result, leads to; how many there were.
int checkAllCuts(OpCase& op, const Run& run, int ranks, std::mt19937& random) {
  const auto rule = op.rule();
  EXPECT_TRUE(rule.has_value());
  if (!rule) {
    return 0;
  }
  int strategies = 0;
  auto check = [&](const TensorMap& map, const Sizes& sizes, bool of_result) {
    for (const ir::Cut& cut : cutsOf(sizes, random)) {
      const auto d = static_cast<std::size_t>(cut.dim);
      const auto factor = projectToFactor(*rule, map[d], sizes[d], cut, ranks);
      if (!factor) {
        continue;
      }
      // Back at the dim it came from, the same cut.
      EXPECT_EQ(projectToDim(*rule, map, d, sizes[d], *factor, ranks),
                cut.canonical(sizes[d], ranks))
          << op.text() << ": " << ir::Form::cutAt(cut).text();
      const auto strategy = cutFactor(op.graph(), op.op(), *rule, *factor);
      if (!strategy) {
        continue;
      }
      ++strategies;
      EXPECT_EQ((of_result ? strategy->results : strategy->operands)[0],
                ir::Form::cutAt(cut.canonical(sizes[d], ranks)));
      expectExact(op, *strategy, run, ranks);
    }
  };
  check(rule->operands[0], op.graph().type(op.op().operands()[0]).sizes(), false);
  check(rule->results[0], op.graph().type(op.op().results[0]).sizes(), true);
  return strategies;
}

Sizes randomGroups(const Sizes& atoms, std::mt19937& random) {
  Sizes out = {1};
  for (std::int64_t atom : atoms) {
    if (random() % 2) {
      out.push_back(1);
    }
    out.back() *= atom;
  }
  return out;
}

TEST(Projection, ViewsAreExactOnEveryRank) {
  std::mt19937 random(7);
  int strategies = 0;
  for (int round = 0; round < 300; ++round) {
    Sizes atoms;
    for (int k = 0; k < 4; ++k) {
      atoms.push_back(1 + static_cast<std::int64_t>(random() % 4));
    }
    const int ranks = 1 + static_cast<int>(random() % 5);
    OpCase op("aten.view.default", ranks);
    op.tensor("self", randomGroups(atoms, random)).result(randomGroups(atoms, random));
    strategies += checkAllCuts(op, reshape, ranks, random);
  }
  EXPECT_GT(strategies, 2000);
}

TEST(Projection, ViewsWhoseBoundariesDoNotNest) {
  std::mt19937 random(8);
  int strategies = 0;
  for (const auto& [from, to] : std::vector<std::pair<Sizes, Sizes>>{
           {{4, 6}, {8, 3}}, {{6, 4}, {4, 6}}, {{6, 4}, {8, 3}}, {{12, 2, 5}, {8, 15}}}) {
    for (int ranks : {2, 3, 4}) {
      OpCase op("aten.view.default", ranks);
      op.tensor("self", from).result(to);
      strategies += checkAllCuts(op, reshape, ranks, random);
    }
  }
  EXPECT_GT(strategies, 20);
}

TEST(Projection, SlicesAreExactOnEveryRank) {
  std::mt19937 random(9);
  int strategies = 0;
  for (int round = 0; round < 300; ++round) {
    const auto n = 1 + static_cast<std::int64_t>(random() % 11);
    const auto start = static_cast<std::int64_t>(random()) % n;
    const auto length = 1 + static_cast<std::int64_t>(random()) % (n - start);
    const int ranks = 1 + static_cast<int>(random() % 5);
    OpCase op("aten.slice.Tensor", ranks);
    op.tensor("self", {2, n}).set("dim", 1).set("start", start).set("end", start + length);
    op.set("step", 1).result({2, length});
    // A rank slices by global positions: the lowering knows where its own range begins.
    auto run = [&](const Tensor& in, const Sizes& sizes) {
      Tensor out{sizes, {}};
      for (std::int64_t element : in.elements) {
        if (start <= element % n && element % n < start + length) {
          out.elements.push_back(element);
        }
      }
      return out;
    };
    strategies += checkAllCuts(op, run, ranks, random);
  }
  EXPECT_GT(strategies, 500);
}

TEST(Projection, PadsAreExactOnEveryRank) {
  std::mt19937 random(10);
  int strategies = 0;
  for (int round = 0; round < 300; ++round) {
    const auto n = 2 + static_cast<std::int64_t>(random() % 9);
    const auto before = static_cast<std::int64_t>(random() % 4) - 1;
    const auto after = static_cast<std::int64_t>(random() % 4) - (n + before > 1 ? 1 : 0);
    if (n + before + after < 1) {
      continue;
    }
    const int ranks = 1 + static_cast<int>(random() % 5);
    OpCase op("aten.constant_pad_nd.default", ranks);
    op.tensor("self", {n}).ints("pad", {before, after}).result({n + before + after});
    const auto rule = op.rule();
    ASSERT_TRUE(rule);
    for (bool of_result : {false, true}) {
      const std::int64_t size = of_result ? n + before + after : n;
      for (const ir::Cut& cut : cutsOf({size}, random)) {
        const auto factor = projectToFactor(
            *rule, (of_result ? rule->results : rule->operands)[0][0], size, cut, ranks);
        const auto strategy = factor ? cutFactor(op.graph(), op.op(), *rule, *factor) : std::nullopt;
        if (!strategy) {
          continue;
        }
        ++strategies;
        // Every element of the operand that a rank's part of the result shows is on that rank.
        for (int r = 0; r < ranks; ++r) {
          const ir::Range made = strategy->results[0].cut.range(n + before + after, r, ranks);
          const ir::Range held = strategy->operands[0].cut.range(n, r, ranks);
          for (std::int64_t i = made.lo; i < made.hi; ++i) {
            const std::int64_t x = i - before;
            EXPECT_TRUE(x < 0 || x >= n || (held.lo <= x && x < held.hi))
                << op.text() << " rank " << r << " of " << ranks << ": "
                << strategy->operands[0].text() << " -> " << strategy->results[0].text();
          }
        }
      }
    }
  }
  EXPECT_GT(strategies, 500);
}

TEST(Projection, PermutationsRepeatsAndInterleavingsAreExactOnEveryRank) {
  std::mt19937 random(11);
  int strategies = 0;
  for (int ranks : {1, 2, 3, 4}) {
    OpCase permute("aten.permute.default", ranks);
    permute.tensor("self", {3, 4, 5}).ints("dims", {2, 0, 1}).result({5, 3, 4});
    strategies += checkAllCuts(permute, [](const Tensor& in, const Sizes& sizes) {
      return index(in, sizes, [](const Sizes& at) { return Sizes{at[1], at[2], at[0]}; });
    }, ranks, random);

    OpCase repeat("aten.repeat.default", ranks);
    repeat.tensor("self", {3, 4}).ints("repeats", {2, 1, 3}).result({2, 3, 12});
    strategies += checkAllCuts(repeat, [](const Tensor& in, const Sizes& sizes) {
      return index(in, sizes, [&](const Sizes& at) { return Sizes{at[1], at[2] % in.sizes[1]}; });
    }, ranks, random);

    OpCase interleave("aten.repeat_interleave.self_int", ranks);
    interleave.tensor("self", {2, 6, 2}).set("repeats", 4).set("dim", 1).result({2, 24, 2});
    strategies += checkAllCuts(interleave, [](const Tensor& in, const Sizes& sizes) {
      return index(in, sizes, [](const Sizes& at) { return Sizes{at[0], at[1] / 4, at[2]}; });
    }, ranks, random);

    OpCase flat("aten.repeat_interleave.self_int", ranks);
    flat.tensor("self", {3, 4}).set("repeats", 2).result({24});
    strategies += checkAllCuts(flat, [](const Tensor& in, const Sizes& sizes) {
      Tensor out{sizes, {}};
      for (std::int64_t element : in.elements) {
        out.elements.insert(out.elements.end(), 2, element);
      }
      return out;
    }, ranks, random);
  }
  EXPECT_GT(strategies, 100);
}

OpRule headsRule() {
  OpRule rule;
  const int s = rule.addFactor("s", 10);
  const int h = rule.addFactor("h", 6);
  const int d = rule.addFactor("d", 4);
  rule.operands = {{{{s}, 0}, {{h, d}, 0}}};
  rule.results = {{{{h}, 0}, {{s}, 1}, {{d}, 0}}};
  return rule;
}

TEST(Projection, AnEvenDealOfAProductIsRederivedInUnitsOfItsFactor) {
  const OpRule rule = headsRule();
  // 24 = 6 heads of 4 over 2 ranks: 12 elements each are 3 heads.
  EXPECT_EQ(projectToFactor(rule, rule.operands[0][1], 24, {1, 1, 1, 24, 0, 1}, 2),
            (FactorCut{1, 1, 1, 6, 0}));
  // Over 4 ranks a chunk of 6 elements ends within a head, and over 24 each rank has one element.
  EXPECT_FALSE(projectToFactor(rule, rule.operands[0][1], 24, {1, 1, 1, 24, 0, 1}, 4));
  EXPECT_FALSE(projectToFactor(rule, rule.operands[0][1], 24, {1, 1, 1, 24, 0, 1}, 24));
  // Four heads' worth of units in blocks: [6] x [4] dealt inside each head.
  EXPECT_EQ(projectToFactor(rule, rule.operands[0][1], 24, {1, 6, 1, 4, 0, 1}, 4),
            (FactorCut{2, 1, 1, 4, 0}));
}

TEST(Projection, UnevenHeadsKeepTheirUnits) {
  const OpRule rule = headsRule();
  const FactorCut heads{1, 1, 1, 6, 0};
  EXPECT_EQ(projectToDim(rule, rule.operands[0], 1, 24, heads, 4), (ir::Cut{1, 1, 4, 6, 0, 1}));
  EXPECT_EQ(projectToDim(rule, rule.results[0], 0, 6, heads, 4), (ir::Cut{0, 1, 1, 6, 0, 1}));
  EXPECT_EQ(projectToFactor(rule, rule.operands[0][1], 24, {1, 1, 4, 6, 0, 1}, 4), heads);
  // Even: the units merge with what lies inside.
  EXPECT_EQ(projectToDim(rule, rule.operands[0], 1, 24, heads, 3), (ir::Cut{1, 1, 1, 24, 0, 1}));
  EXPECT_FALSE(projectToDim(rule, rule.operands[0], 0, 10, heads, 3));
}

TEST(Projection, AWindowMovesTheBoundaries) {
  const OpRule rule = headsRule();
  // Factor s of 10 over 2 ranks: boundary 5, in the window that begins at 1 boundary 4 of 9.
  const FactorCut plain{0, 1, 1, 10, 0};
  EXPECT_EQ(projectToDim(rule, rule.operands[0], 0, 10, plain, 2), (ir::Cut{0, 1, 1, 10, 0, 1}));
  EXPECT_EQ(projectToDim(rule, rule.results[0], 1, 9, plain, 2), (ir::Cut{1, 1, 1, 10, 1, 1}));
  EXPECT_EQ(projectToFactor(rule, rule.results[0][1], 9, {1, 1, 1, 10, 1, 1}, 2), plain);
  // The plain deal of 9 has boundary 5: 6 of the factor.
  const auto moved = projectToFactor(rule, rule.results[0][1], 9, {1, 1, 1, 9, 0, 1}, 2);
  EXPECT_EQ(moved, (FactorCut{0, 1, 1, 9, -1}));
  EXPECT_EQ(projectToDim(rule, rule.operands[0], 0, 10, *moved, 2), (ir::Cut{0, 1, 1, 9, -1, 1}));
  // Blocks cannot be seen through a window.
  EXPECT_FALSE(projectToFactor(rule, rule.results[0][1], 9, {1, 3, 1, 3, 0, 1}, 2));
  EXPECT_FALSE(projectToDim(rule, rule.results[0], 1, 9, {0, 2, 1, 5, 0}, 2));
}

TEST(Projection, NothingIsCutWhereThereIsNoFactor) {
  OpRule rule;
  rule.addFactor("o", 1);
  rule.operands = {{{{}, 0}, {{0}, 0}}};
  EXPECT_FALSE(projectToFactor(rule, rule.operands[0][0], 8, {0, 1, 1, 8, 0, 1}, 2));
  EXPECT_FALSE(projectToFactor(rule, rule.operands[0][1], 1, {1, 1, 1, 1, 0, 1}, 2));
  // Overlapping ranges are attention's alone.
  const OpRule heads = headsRule();
  EXPECT_FALSE(projectToFactor(heads, heads.results[0][0], 6, {0, 1, 1, 24, 0, 4}, 5));
}

}  // namespace
}  // namespace autosp::sharding
