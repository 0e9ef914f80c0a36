// Peaks of small programs, each counted by hand. Sizes are powers of two where it helps: a sum then
// names its terms.
#include "autosp/cost/liveness.h"

#include <gtest/gtest.h>

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
  const ValueIndex c = f.forward({b}, 4);  // a is gone: 2 + 4
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
  const ValueIndex c = f.forward({b}, 4);     // 1 + 2 + 4
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
  EXPECT_EQ(f.peak().bytes, 4 + 4 + 300 + 800);
  EXPECT_EQ(f.peak({.results_kept = true}).bytes, 1000 + 4 + 4 + 300 + 800);
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
  EXPECT_EQ(f.peak().bytes, 4 + 4 + 300 + 2000);
  EXPECT_EQ(f.peak().saved, 1000);
  EXPECT_EQ(f.peak({.results_kept = true}).bytes, 1000 + 4 + 4 + 300 + 2000);
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

}  // namespace
}  // namespace autosp::cost
