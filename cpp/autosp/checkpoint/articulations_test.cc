// Articulations of hand-made networks, and against the definition on random programs.
#include "autosp/checkpoint/articulations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "autosp/checkpoint/sample_programs.h"

namespace autosp::checkpoint {
namespace {

using namespace samples;
using Values = std::vector<ValueIndex>;

// Blocks that read the stream, and a tail with logits.
class Network {
 public:
  ProgramBuilder b;
  Values stream;  // the embedding, then after each block
  ValueIndex x;

  Network() { grow(b.op(OpClass::kOther, {b.parameter(), b.data()}, 4, 1)); }

  ValueIndex attention(ValueIndex from) {
    const ValueIndex normed = b.op(OpClass::kReduction, {b.view(from), b.parameter()}, 4, 1);
    return b.view(b.ops(OpClass::kAttention, {normed, b.view(normed)}, {4, 1}, 9).front());
  }
  ValueIndex mlp(ValueIndex from) {
    const ValueIndex normed = b.op(OpClass::kReduction, {from, b.parameter()}, 4, 1);
    const ValueIndex wide = b.op(OpClass::kMatmul, {normed, b.parameter()}, 16, 9);
    const ValueIndex gated = b.op(OpClass::kPointwise, {wide, b.view(wide)}, 16, 0);
    return b.op(OpClass::kMatmul, {gated, b.parameter()}, 4, 9);
  }
  ValueIndex add(Reads reads) { return b.op(OpClass::kPointwise, std::move(reads), 4, 0); }
  void grow(ValueIndex next) {
    x = next;
    stream.push_back(next);
  }
  const JointProgram& finish() {
    const ValueIndex logits = b.op(OpClass::kMatmul, {b.view(x), b.parameter()}, 64, 9);
    const ValueIndex shifted = b.op(OpClass::kPointwise, {logits, b.data()}, 64, 1);
    const ValueIndex loss = b.op(OpClass::kReduction, {logits, shifted}, 1, 1);
    b.op(OpClass::kPointwise, {x}, 2, 1);  // a metric that nobody asked for
    b.program.results = {logits, loss};
    b.backward({loss, x});
    return b.program;
  }
};

// The norm of a half-precision model converts the stream first: the last of the stream has no other
// reader.
TEST(Articulations, AreSeenThroughAChangeOfType) {
  Network n;
  n.grow(n.add({n.x, n.attention(n.x)}));
  n.grow(n.add({n.x, n.mlp(n.x)}));
  const Values stream = n.stream;
  const ValueIndex wide = n.b.op(OpClass::kPointwise, {n.x}, 8, 0);
  const ValueIndex statistic = n.b.op(OpClass::kReduction, {wide}, 1, 1);
  n.x = n.b.op(OpClass::kPointwise, {wide, statistic, n.b.parameter()}, 4, 0);
  const JointProgram& program = n.finish();
  EXPECT_EQ(articulations(program), stream);
}

TEST(Articulations, AreTheResidualStreamBeforeAndAfterEachBlock) {
  Network n;
  for (int layer = 0; layer < 3; ++layer) {
    n.grow(n.add({n.x, n.attention(n.x)}));
    n.grow(n.add({n.x, n.mlp(n.x)}));
  }
  const Values before_head = n.stream;
  const ValueIndex last = n.x;
  const JointProgram& program = n.finish();
  // The last one has one reader, the head; the logits have two.
  Values expected(before_head.begin(), before_head.end() - 1);
  EXPECT_EQ(articulations(program), expected);
  expected.push_back(last + 3);  // after its view and the weight: the logits
  EXPECT_EQ(allArticulations(program), expected);
  EXPECT_EQ(layerInputs(program, articulations(program)),
            (Values{n.stream[0], n.stream[2], n.stream[4]}));
}

TEST(Articulations, AParallelResidualBlockHasOneALayer) {
  Network n;
  for (int layer = 0; layer < 3; ++layer) n.grow(n.add({n.x, n.attention(n.x), n.mlp(n.x)}));
  const JointProgram& program = n.finish();
  const Values expected(n.stream.begin(), n.stream.end() - 1);
  EXPECT_EQ(layerInputs(program, articulations(program)), expected);
  Values boundaries = articulations(program);
  // After the last attention only the logits are an articulation: nothing smaller stands there.
  ASSERT_EQ(boundaries.size(), 4U);
  boundaries.pop_back();
  EXPECT_EQ(boundaries, expected);
}

TEST(Articulations, AChainWithoutAttentionIsOneSegment) {
  Network n;
  for (int layer = 0; layer < 4; ++layer) n.grow(n.add({n.x, n.mlp(n.x)}));
  const JointProgram& program = n.finish();
  EXPECT_EQ(articulations(program), Values(n.stream.begin(), n.stream.end() - 1));
  EXPECT_TRUE(layerInputs(program, articulations(program)).empty());
}

TEST(Articulations, AConnectionOverALayerHidesWhatItPasses) {
  Network n;
  for (int layer = 0; layer < 4; ++layer) {
    const ValueIndex skipped = layer == 2 ? n.stream[1] : n.x;
    n.grow(n.add({n.x, n.mlp(n.x), n.b.view(skipped)}));
  }
  EXPECT_EQ(articulations(n.finish()), (Values{n.stream[0], n.stream[1], n.stream[3]}));
}

TEST(Articulations, WhatDependsOnDataAloneIsNoActivation) {
  ProgramBuilder b;
  const ValueIndex angles = b.op(OpClass::kOther, {b.data()}, 1, 1);
  const ValueIndex x = b.op(OpClass::kOther, {b.parameter(), b.data()}, 4, 1);
  const ValueIndex y = b.op(OpClass::kOther, {x, angles}, 4, 1);
  const ValueIndex z = b.op(OpClass::kOther, {x, y, angles}, 4, 1);
  b.program.results = {z, angles};
  EXPECT_EQ(articulations(b.program), Values{x});
  b.program.results = {angles};
  EXPECT_TRUE(articulations(b.program).empty());
}

TEST(Articulations, AnAttentionBeforeAnyBoundaryHasNoLayerInput) {
  ProgramBuilder b;
  const ValueIndex a = b.op(OpClass::kAttention, {b.parameter(), b.data()}, 4, 1);
  const ValueIndex c = b.op(OpClass::kOther, {a}, 4, 1);
  b.program.results = {b.op(OpClass::kAttention, {a, c}, 4, 1)};
  EXPECT_EQ(articulations(b.program), Values{a});
  EXPECT_EQ(layerInputs(b.program, {a}), (Values{-1, a}));
}

// The definition, word by word: dependence and reachability by search.
class Definition {
 public:
  explicit Definition(const JointProgram& program) : p_(program) {
    for (const JointOp& op : p_.ops) {
      if (op.backward) continue;
      for (ValueIndex v : op.makes) {
        if (p_.base(v) == v && dependsOn(v, true) && dependsOn(v, false)) dependent_.push_back(v);
      }
    }
    for (ValueIndex v : dependent_) {
      for (ValueIndex r : p_.results) {
        const ValueIndex final = p_.base(r);
        if (!contains(dependent_, final) || !successors(final, dependent_).empty()) continue;
        if (!contains(activations_, v) && reaches(v, final, dependent_, -1)) {
          activations_.push_back(v);
        }
      }
    }
  }

  Values articulations() const {
    Values out;
    for (std::size_t k = 0; k < activations_.size(); ++k) {
      bool separates = readers(activations_[k]) >= 2;
      for (std::size_t i = 0; i < k; ++i) {
        for (std::size_t j = k + 1; j < activations_.size(); ++j) {
          separates &= !reaches(activations_[i], activations_[j], activations_, activations_[k]);
        }
      }
      if (separates) out.push_back(activations_[k]);
    }
    return out;
  }

 private:
  // Ops that make activations of it; an elementwise op that reads nothing else stands for its
  // readers.
  int readers(ValueIndex of) const {
    int out = 0;
    for (const JointOp& op : p_.ops) {
      if (op.backward || !readsBase(op, of)) continue;
      ValueIndex made = -1;
      for (ValueIndex v : op.makes) made = contains(activations_, v) ? v : made;
      if (made < 0) continue;
      const bool conversion = op.kind == OpClass::kPointwise && op.reads.size() == 1;
      out += conversion ? std::max(1, readers(made)) : 1;
    }
    return out;
  }

  static bool contains(const Values& values, ValueIndex v) {
    for (ValueIndex other : values) {
      if (other == v) return true;
    }
    return false;
  }
  bool readsBase(const JointOp& op, ValueIndex base) const {
    for (ValueIndex v : op.reads) {
      if (p_.base(v) == base) return true;
    }
    return false;
  }
  bool dependsOn(ValueIndex v, bool parameter) const {
    const JointValue& value = p_.values[v];
    if (value.maker < 0) return parameter ? value.parameter : value.data;
    for (ValueIndex read : p_.ops[value.maker].reads) {
      if (dependsOn(read, parameter)) return true;
    }
    return false;
  }
  Values successors(ValueIndex v, const Values& among) const {
    Values out;
    for (const JointOp& op : p_.ops) {
      if (op.backward || !readsBase(op, v)) continue;
      for (ValueIndex made : op.makes) {
        if (contains(among, made)) out.push_back(made);
      }
    }
    return out;
  }
  bool reaches(ValueIndex from, ValueIndex to, const Values& among, ValueIndex without) const {
    if (from == to) return true;
    for (ValueIndex next : successors(from, among)) {
      if (next != without && reaches(next, to, among, without)) return true;
    }
    return false;
  }

  const JointProgram& p_;
  Values dependent_, activations_;
};

// Narrow: ops read what was made shortly before.
JointProgram narrowProgram(std::mt19937& random) {
  auto below = [&](int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random); };
  ProgramBuilder b;
  Values recent{b.op(OpClass::kOther, {b.parameter(), b.data()}, 1, 1)};
  for (int i = 4 + below(10); i > 0; --i) {
    const int window = std::min(3, static_cast<int>(recent.size()));
    auto any = [&] { return recent[recent.size() - 1 - below(window)]; };
    Reads reads{any()};
    const ValueIndex other = any();
    if (other != reads[0]) reads.push_back(other);
    if (below(4) == 0) {
      recent.push_back(b.view(reads[0]));
    } else {
      const std::vector<std::int64_t> bytes(1 + below(8) / 7, 1);
      recent.push_back(b.ops(OpClass::kOther, reads, bytes, 1).back());
    }
    if (below(12) == 0) b.program.results.push_back(recent.back());
  }
  b.program.results.push_back(recent.back());
  return b.program;
}

TEST(Articulations, AgreeWithTheDefinitionOnRandomPrograms) {
  std::mt19937 random(5);
  std::size_t found = 0;
  for (int round = 0; round < 3000; ++round) {
    const JointProgram program = round % 2 == 0 ? randomProgram(random, 12) : narrowProgram(random);
    const Values values = allArticulations(program);
    EXPECT_EQ(values, Definition(program).articulations());
    found += values.size();
  }
  EXPECT_GT(found, 1000U);
}

TEST(Articulations, OfATransformerAreTwoALayer) {
  TransformerShape shape;
  shape.layers = 5;
  const JointProgram program = transformer(shape);
  const Values boundaries = articulations(program);
  const Values inputs = layerInputs(program, boundaries);
  ASSERT_EQ(inputs.size(), 5U);
  for (std::size_t layer = 0; layer < inputs.size(); ++layer) {
    EXPECT_EQ(boundaries.at(2 * layer), inputs[layer]);
    EXPECT_EQ(program.values[inputs[layer]].bytes, 2 * shape.tokens * shape.width);
  }
}

}  // namespace
}  // namespace autosp::checkpoint
