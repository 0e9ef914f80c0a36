// Peaks of small programs, each counted by hand. Sizes are powers of two where it helps: a sum then
// names its terms.
#include "autosp/cost/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "autosp/support/check.h"

namespace autosp::cost {
namespace {

using Values = std::vector<ValueIndex>;

// Builds a program and a plan for it.
struct Fixture {
  JointProgram program;
  CheckpointPlan plan;

  ValueIndex value(std::int64_t bytes, OpIndex maker, ValueIndex base = -1) {
    const auto v = static_cast<ValueIndex>(program.values.size());
    JointValue made;
    made.maker = maker;
    made.base = base < 0 ? v : program.base(base);
    made.bytes = base < 0 ? bytes : 0;
    program.values.push_back(made);
    plan.saved.push_back(0);
    return v;
  }
  ValueIndex input() { return value(1 << 20, -1); }
  ValueIndex tangent(std::int64_t bytes) {
    const ValueIndex v = value(bytes, -1);
    program.values[v].tangent = true;
    return v;
  }
  OpIndex op(const Values& reads, bool backward) {
    JointOp made;
    made.reads = reads;
    made.backward = backward;
    program.ops.push_back(made);
    plan.recomputed.push_back(0);
    return static_cast<OpIndex>(program.ops.size() - 1);
  }
  Values make(OpIndex maker, const std::vector<std::int64_t>& sizes) {
    for (std::int64_t bytes : sizes) program.ops[maker].makes.push_back(value(bytes, maker));
    return program.ops[maker].makes;
  }
  ValueIndex forward(const Values& reads, std::int64_t bytes) {
    return make(op(reads, false), {bytes}).front();
  }
  ValueIndex backward(const Values& reads, std::int64_t bytes) {
    return make(op(reads, true), {bytes}).front();
  }
  ValueIndex view(ValueIndex of, bool backward = false) {
    const OpIndex maker = op({of}, backward);
    program.ops[maker].kind = OpClass::kView;
    program.ops[maker].makes.push_back(value(0, maker, of));
    return program.ops[maker].makes.front();
  }
  OpIndex maker(ValueIndex v) const { return program.values[v].maker; }
  void save(ValueIndex v) { plan.saved[v] = 1; }
  void recompute(const Values& values) {
    for (ValueIndex v : values) plan.recomputed[maker(v)] = 1;
  }
  Peak peak(LivenessSettings settings = {}) const { return simulatePeak(program, plan, settings); }
};

TEST(Liveness, ForwardOnlyTemporariesDieAfterTheirLastReader) {
  Fixture f;
  const ValueIndex x = f.input();
  const ValueIndex a = f.forward({x}, 1);
  const ValueIndex b = f.forward({a}, 2);
  const ValueIndex c = f.forward({b}, 4);   // a is gone: 2 + 4
  f.program.results = {f.forward({c}, 1)};  // 4 + 1
  const Peak peak = f.peak();
  EXPECT_EQ(peak.bytes, 6);
  EXPECT_EQ(peak.op, f.maker(c));
  EXPECT_FALSE(peak.in_backward);
  EXPECT_EQ(peak.saved, 0);
}

TEST(Liveness, OpsThatNothingNeedsDoNotRun) {
  Fixture f;
  const ValueIndex x = f.input();
  f.forward({x}, 1000);
  f.program.results = {f.forward({x}, 1)};
  EXPECT_EQ(f.peak().bytes, 1);
}

TEST(Liveness, AViewKeepsTheMemoryItLooksAt) {
  Fixture f;
  const ValueIndex a = f.forward({f.input()}, 1);
  const ValueIndex view = f.view(f.view(a));
  const ValueIndex b = f.forward({f.input()}, 2);
  const ValueIndex c = f.forward({b}, 4);        // 1 + 2 + 4
  const ValueIndex d = f.forward({view, c}, 8);  // 1 + 4 + 8
  f.program.results = {d};
  EXPECT_EQ(f.peak().bytes, 13);
}

TEST(Liveness, UnreadResultsOfATupleDieAtOnce) {
  Fixture f;
  const Values pair = f.make(f.op({f.input()}, false), {1, 16});  // 17
  const ValueIndex b = f.forward({pair[0]}, 8);                   // 1 + 8
  f.program.results = {b};
  EXPECT_EQ(f.peak().bytes, 17);
}

TEST(Liveness, ScratchLivesWhileItsOpRuns) {
  Fixture f;
  const ValueIndex a = f.forward({f.input()}, 1);
  const ValueIndex b = f.forward({a}, 2);
  f.program.ops[f.maker(b)].scratch = 32;  // 1 + 2 + 32
  f.program.results = {f.forward({b}, 4)};
  const Peak peak = f.peak({.list_alive = true});
  EXPECT_EQ(peak.bytes, 35);
  const std::vector<std::pair<ValueIndex, std::int64_t>> alive = {{a, 1}, {b, 2}};
  EXPECT_EQ(peak.alive, alive);
}

TEST(Liveness, RoundingIsPerAllocation) {
  Fixture f;
  const ValueIndex a = f.forward({f.input()}, 1);
  f.program.results = {f.forward({a}, 513)};
  EXPECT_EQ(f.peak({.rounding = 512}).bytes, 512 + 1024);
}

// x -> a -> b -> loss; the backward reads b, then a.
struct Chain : Fixture {
  ValueIndex x = input();
  ValueIndex weight = input();
  ValueIndex a = forward({x, weight}, 100);
  ValueIndex b = forward({a}, 200);
  ValueIndex loss = forward({b}, 4);
  ValueIndex seed = tangent(4);
  ValueIndex grad_b = backward({seed, b}, 200);
  ValueIndex grad_a = backward({grad_b, a}, 100);
  ValueIndex grad_weight = backward({grad_a, x}, 50);

  Chain() {
    program.results = {loss};
    program.gradients = {grad_weight};
  }
};

TEST(Liveness, SavedValuesLiveUntilTheirLastReader) {
  Chain f;
  f.save(f.a);
  f.save(f.b);
  const Peak peak = f.peak();
  // At grad_b: a, b, loss, seed, grad_b. At grad_a b is gone: 100 + 4 + 4 + 200 + 100.
  EXPECT_EQ(peak.bytes, 100 + 200 + 4 + 4 + 200);
  EXPECT_TRUE(peak.in_backward);
  EXPECT_EQ(peak.op, f.maker(f.grad_b));
  EXPECT_EQ(peak.saved, 300);
  EXPECT_EQ(peak.gradients, 50);
}

TEST(Liveness, SavedValuesNobodyReadsAreNotKept) {
  Chain f;
  f.save(f.a);
  f.save(f.b);
  f.save(f.loss);
  EXPECT_EQ(f.peak().saved, 300);
}

TEST(Liveness, RecomputedValuesAreMadeJustBeforeTheirReader) {
  Chain f;
  f.save(f.a);
  f.recompute({f.b});
  const Peak peak = f.peak();
  EXPECT_EQ(peak.saved, 100);
  // As with b saved, but at grad_b: a, b (again), loss, seed, grad_b.
  EXPECT_EQ(peak.bytes, 508);
}

TEST(Liveness, ARecomputedChainHoldsWhatTheBackwardStillReads) {
  Chain f;
  f.recompute({f.a, f.b});
  const Peak peak = f.peak();
  EXPECT_EQ(peak.saved, 0);
  EXPECT_EQ(peak.bytes, 508);
  EXPECT_EQ(peak.op, f.maker(f.grad_b));
}

TEST(Liveness, RecomputationIsLazy) {
  // Two branches: the recomputed value of the second is not there while the first one runs.
  Fixture f;
  const ValueIndex x = f.input();
  const ValueIndex a = f.forward({x}, 100);
  const ValueIndex b = f.forward({x}, 100);
  const ValueIndex loss = f.forward({a, b}, 4);
  const ValueIndex seed = f.tangent(4);
  const ValueIndex grad_1 = f.backward({seed, a}, 10);
  const ValueIndex grad_2 = f.backward({grad_1, b}, 20);
  f.program.results = {loss};
  f.program.gradients = {grad_1, grad_2};
  f.recompute({a, b});
  const Peak peak = f.peak();
  // Forward: 100 + 100 + 4. Backward: loss, seed, a, grad_1; then loss, seed, grad_1, b, grad_2.
  EXPECT_EQ(peak.bytes, 204);
  EXPECT_FALSE(peak.in_backward);
}

TEST(Liveness, GradientsLiveToTheEnd) {
  Fixture f;
  const ValueIndex seed = f.tangent(1);
  const ValueIndex x = f.input();
  f.program.results = {f.forward({x}, 1)};
  const ValueIndex grad_1 = f.backward({seed}, 16);
  const ValueIndex grad_2 = f.backward({seed, x}, 32);
  f.program.gradients = {f.view(grad_1, true), grad_2, grad_2, x};
  const Peak peak = f.peak();
  EXPECT_EQ(peak.bytes, 1 + 1 + 16 + 32);
  EXPECT_EQ(peak.gradients, 48);
}

TEST(Liveness, ResultsAreDroppedOrKept) {
  Fixture f;
  const ValueIndex x = f.input();
  const ValueIndex logits = f.forward({x}, 1000);
  const ValueIndex loss = f.forward({logits}, 4);
  const ValueIndex seed = f.tangent(4);
  const ValueIndex grad = f.backward({seed, x}, 300);
  const ValueIndex gradient = f.backward({grad}, 800);
  f.program.results = {loss, logits};
  f.program.gradients = {gradient};
  // The loss, grad and gradient; the tangent died with its reader.
  EXPECT_EQ(f.peak().bytes, 4 + 300 + 800);
  EXPECT_EQ(f.peak({.results_kept = true}).bytes, 1000 + 4 + 300 + 800);
}

TEST(Liveness, AResultTheBackwardReadsLivesUntilItsReader) {
  Fixture f;
  const ValueIndex x = f.input();
  const ValueIndex logits = f.forward({x}, 1000);
  const ValueIndex loss = f.forward({logits}, 4);
  const ValueIndex seed = f.tangent(4);
  const ValueIndex grad = f.backward({seed, logits}, 300);
  const ValueIndex gradient = f.backward({grad, x}, 2000);
  f.program.results = {loss, logits};
  f.program.gradients = {gradient};
  f.save(logits);
  EXPECT_EQ(f.peak().bytes, 4 + 300 + 2000);
  EXPECT_EQ(f.peak().saved, 1000);
  EXPECT_EQ(f.peak({.results_kept = true}).bytes, 1000 + 4 + 300 + 2000);
}

TEST(Liveness, AnOpRunAgainForOneResultMakesItsSavedOnesTwice) {
  Fixture f;
  const ValueIndex x = f.input();
  const Values pair = f.make(f.op({x}, false), {100, 10});
  const ValueIndex loss = f.forward({pair[0]}, 4);
  const ValueIndex seed = f.tangent(4);
  const ValueIndex gradient = f.backward({seed, pair[0], pair[1]}, 1);
  f.program.results = {loss};
  f.program.gradients = {gradient};
  f.save(pair[0]);
  f.recompute({pair[1]});
  const Peak peak = f.peak();
  EXPECT_EQ(peak.bytes, 100 + 4 + 4 + 100 + 10);
  EXPECT_EQ(peak.op, f.maker(pair[0]));
}

TEST(Liveness, PlansThatDoNotFitAreRefused) {
  Chain f;
  EXPECT_THROW(f.peak(), InternalError);  // b is neither saved nor recomputed
  f.save(f.a);
  f.save(f.b);
  EXPECT_NO_THROW(f.peak());
  f.save(f.x);
  EXPECT_THROW(f.peak(), InternalError);
  f.plan.saved.pop_back();
  EXPECT_THROW(f.peak(), InternalError);
}

// ---- Inductor's kernels ----

constexpr LivenessSettings kFused = {.fused = true};

// A program whose values carry as many elements as bytes, with the classes of its ops.
struct FusedFixture : Fixture {
  ValueIndex weight = sized(input(), 50);

  ValueIndex sized(ValueIndex v, std::int64_t elements) {
    program.values[v].elements = elements;
    return v;
  }
  ValueIndex made(const Values& reads, std::int64_t bytes, OpClass kind, bool backward = false) {
    const ValueIndex v = sized(make(op(reads, backward), {bytes}).front(), bytes);
    program.ops[maker(v)].kind = kind;
    return v;
  }
  ValueIndex pointwise(const Values& reads, std::int64_t bytes, bool backward = false) {
    return made(reads, bytes, OpClass::kPointwise, backward);
  }
  ValueIndex reduction(const Values& reads, std::int64_t bytes, bool backward = false) {
    return made(reads, bytes, OpClass::kReduction, backward);
  }
  ValueIndex matmul(const Values& reads, std::int64_t bytes, bool backward = false) {
    return made(reads, bytes, OpClass::kMatmul, backward);
  }
};

TEST(FusedLiveness, ElementwiseChainsAreNotStored) {
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex b = f.pointwise({a}, 100);
  const ValueIndex c = f.pointwise({b}, 100);
  const ValueIndex d = f.pointwise({a, f.view(c)}, 100);
  f.program.results = {f.matmul({d, f.weight}, 1)};
  // d is written over a: nothing else reads a after it.
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 1);
  EXPECT_EQ(f.peak().bytes, 300);
}

TEST(FusedLiveness, ALoopDoesNotWriteOverWhatIsReadLater) {
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex b = f.pointwise({a}, 100);
  const ValueIndex c = f.matmul({b, f.weight}, 1);
  f.program.results = {f.matmul({a, c}, 2)};
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 100 + 1);
}

TEST(FusedLiveness, ReadersOfOneBufferShareAKernel) {
  // Two elementwise values of a, each read by a product: one kernel, so both are there at once.
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex left = f.pointwise({a}, 100);
  const ValueIndex small = f.matmul({left, f.weight}, 1);
  const ValueIndex right = f.pointwise({a, f.weight}, 100);
  f.program.results = {f.matmul({right, small}, 2)};
  // a, left and right: a is read by both parts, so neither is written over it.
  EXPECT_EQ(f.peak(kFused).bytes, 300);
}

TEST(FusedLiveness, ReadersOfManyBuffersAreStoredForSeveralReaders) {
  FusedFixture f;
  Values parts;
  for (int i = 0; i < 5; ++i) parts.push_back(f.sized(f.input(), 100));
  const ValueIndex sum = f.pointwise(parts, 100);
  const ValueIndex a = f.matmul({f.pointwise({sum}, 100)}, 10);
  const ValueIndex b = f.reduction({f.pointwise({sum, a}, 100)}, 2);
  f.program.results = {b};
  // The reader of the first product is fused with `sum`: both are stored. Of four buffers it is
  // computed again in both readers.
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 100 + 10);
  f.program.ops[f.maker(sum)].reads.pop_back();
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 10);
}

TEST(FusedLiveness, OnCpuAReusedExponentialIsStored) {
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 10);
  const ValueIndex e = f.pointwise({a}, 100);  // of a repeated
  f.program.ops[f.maker(e)].heavy = true;
  const ValueIndex b = f.matmul({f.pointwise({e}, 100)}, 10);
  f.program.results = {f.matmul({f.pointwise({e, b}, 100)}, 1)};
  EXPECT_EQ(f.peak({.fused = true, .on_cpu = true}).bytes, 100 + 100 + 10);
  EXPECT_EQ(f.peak(kFused).bytes, 10 + 100 + 10);  // both readers compute it from a
}

TEST(FusedLiveness, AReductionTakesItsElementwiseProducersIn) {
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex square = f.pointwise({a}, 100);
  const ValueIndex mean = f.reduction({square}, 4);
  const ValueIndex normed = f.pointwise({a, mean}, 100);
  f.program.results = {f.matmul({normed}, 1)};
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 1);
  EXPECT_EQ(f.peak().bytes, 204);
}

TEST(FusedLiveness, AProductIsAddedInPlaceOfItsOnlyReader) {
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex b = f.matmul({f.weight}, 100);
  const ValueIndex sum = f.pointwise({a, b}, 100);
  f.program.results = {sum};
  EXPECT_EQ(f.peak(kFused).bytes, 200);
  f.program.ops[f.maker(sum)].adds = true;  // one product, and the sum that computes the other
  EXPECT_EQ(f.peak(kFused).bytes, 200);
  f.program.ops[f.maker(a)].scratch = 1000;  // it no longer runs on its own
  EXPECT_EQ(f.peak(kFused).bytes, 200);
}

TEST(FusedLiveness, SavedValuesTheCallerDoesNotSeeAreWrittenOver) {
  FusedFixture f;
  const ValueIndex logits = f.matmul({f.weight}, 1000);
  const ValueIndex loss = f.reduction({logits}, 4);
  const ValueIndex seed = f.sized(f.tangent(4), 4);
  const ValueIndex grad = f.pointwise({seed, logits}, 1000, true);
  f.program.gradients = {f.matmul({grad, f.weight}, 50, true)};
  f.program.results = {loss};
  f.save(logits);
  EXPECT_EQ(f.peak(kFused).bytes, 1000 + 4 + 50);
  f.program.results = {loss, logits};
  EXPECT_EQ(f.peak(kFused).bytes, 1000 + 4 + 4 + 1000);
}

TEST(FusedLiveness, ProductsAreOrderedForTheLeastPeak) {
  // The program makes both large values before either is used; Inductor does not.
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 100);
  const ValueIndex b = f.matmul({f.weight}, 100);
  const ValueIndex small_a = f.matmul({a}, 1);
  const ValueIndex small_b = f.matmul({b}, 1);
  f.program.results = {small_a, small_b};
  EXPECT_EQ(f.peak().bytes, 201);
  EXPECT_EQ(f.peak(kFused).bytes, 102);
}

TEST(FusedLiveness, DeadMemoryIsHeldForALaterValueWhenTheEstimateAllows) {
  // The estimate counts a and what is written over it, 600: so the memory of `big` is kept for
  // `again`, through a kernel where it is not needed.
  FusedFixture f;
  const ValueIndex a = f.matmul({f.weight}, 300);
  const ValueIndex over = f.pointwise({a}, 300);
  const ValueIndex big = f.matmul({f.matmul({over}, 7)}, 100);
  const ValueIndex peak = f.matmul({big}, 300);
  const ValueIndex small = f.matmul({peak}, 7);
  const ValueIndex again = f.matmul({small}, 100);
  f.program.results = {f.matmul({again}, 1)};
  EXPECT_EQ(f.peak(kFused).bytes, 100 + 300 + 7);
  EXPECT_EQ(f.peak().bytes, 600);
}

}  // namespace
}  // namespace autosp::cost
