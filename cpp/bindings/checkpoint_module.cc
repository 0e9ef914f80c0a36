// solve_frontier: the checkpointing algorithms on tuples, for tests against an integer program.
#include "checkpoint_module.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autosp/checkpoint/frontier.h"
#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/cost/joint_program.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using autosp::checkpoint::Frontier;
using autosp::checkpoint::RecomputeChoices;
using autosp::cost::JointOp;
using autosp::cost::JointProgram;
using autosp::cost::JointValue;
using autosp::cost::OpIndex;
using autosp::cost::ValueIndex;

// (reads, makes, time, backward, once)
using OpTuple =
    std::tuple<std::vector<ValueIndex>, std::vector<ValueIndex>, std::int64_t, bool, bool>;
// (maker, base, bytes)
using ValueTuple = std::tuple<OpIndex, ValueIndex, std::int64_t>;

JointProgram programOf(const std::vector<OpTuple>& ops, const std::vector<ValueTuple>& values,
                       const std::vector<ValueIndex>& results,
                       const std::vector<ValueIndex>& gradients) {
  JointProgram program;
  auto checked = [](std::int32_t index, std::size_t count, std::int32_t least) {
    if (index < least || index >= static_cast<std::int32_t>(count)) {
      throw nb::index_error("solve_frontier: no such op or value");
    }
    return index;
  };
  for (const auto& [reads, makes, time, backward, once] : ops) {
    for (ValueIndex v : reads) checked(v, values.size(), 0);
    for (ValueIndex v : makes) checked(v, values.size(), 0);
    JointOp op;
    op.reads = reads;
    op.makes = makes;
    op.time = time;
    op.backward = backward;
    op.once = once;
    program.ops.push_back(std::move(op));
  }
  for (const auto& [maker, base, bytes] : values) {
    JointValue value;
    value.maker = checked(maker, ops.size(), -1);
    value.base = checked(base, values.size(), 0);
    value.bytes = bytes;
    program.values.push_back(value);
  }
  for (ValueIndex v : results) program.results.push_back(checked(v, values.size(), 0));
  for (ValueIndex v : gradients) program.gradients.push_back(checked(v, values.size(), 0));
  return program;
}

std::vector<std::size_t> setBits(const std::vector<char>& bits) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) out.push_back(i);
  }
  return out;
}

nb::tuple solveFrontier(const std::vector<OpTuple>& ops, const std::vector<ValueTuple>& values,
                        const std::vector<ValueIndex>& results,
                        const std::vector<ValueIndex>& gradients, const std::vector<OpIndex>& bans,
                        const std::vector<std::int64_t>& budgets) {
  const JointProgram program = programOf(ops, values, results, gradients);
  if (!autosp::checkpoint::opsThatCannotRunAgain(program).empty()) {
    throw nb::value_error("solve_frontier: no plan is legal");
  }
  autosp::checkpoint::CheckpointRules rules;
  rules.banned.assign(ops.size(), 0);
  for (OpIndex o : bans) rules.banned.at(static_cast<std::size_t>(o)) = 1;
  const RecomputeChoices choices(program, rules);
  const Frontier frontier(choices);

  nb::list points, fastest;
  for (const auto& point : frontier.points())
    points.append(nb::make_tuple(point.bytes, point.time));
  for (std::int64_t budget : budgets) {
    const auto found = frontier.fastestWithin(budget);
    if (!found) {
      fastest.append(nb::none());
      continue;
    }
    const auto& [plan, cost] = found->plan;
    fastest.append(nb::make_tuple(cost.bytes, cost.time, *frontier.leastTimeWithin(budget),
                                  found->optimal, setBits(plan.saved), setBits(plan.recomputed)));
  }
  return nb::make_tuple(points, frontier.corners(), fastest);
}

}  // namespace

void bindCheckpointAlgorithms(nb::module_& m) {
  m.def("solve_frontier", &solveFrontier, "ops"_a, "values"_a, "results"_a, "gradients"_a, "bans"_a,
        "budgets"_a = std::vector<std::int64_t>(),
        "The frontier of checkpointing, for tests. ops: (reads, makes, time, backward, once); "
        "values: (maker or -1, base, bytes); bans: ops not to be run again. Returns the points "
        "(bytes, time), the indices of the corners among them, and for each budget None or (bytes, "
        "time, bound on the time, proven optimal, saved values, recomputed ops).");
}
