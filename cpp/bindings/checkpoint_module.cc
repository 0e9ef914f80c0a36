// The checkpointing algorithms for tests and benchmarks: solve_frontier on tuples, against an
// integer program; joint_program, solve_joint and time_cut on a joint graph.
#include "checkpoint_module.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autosp/checkpoint/articulations.h"
#include "autosp/checkpoint/frontier.h"
#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/checkpoint/recompute_cut.h"
#include "autosp/cost/joint_program.h"
#include "autosp/ir/graph.h"
#include "autosp/passes/joint_program.h"
#include "autosp/passes/options.h"
#include "status.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using autosp::bindings::OptionTexts;
using autosp::checkpoint::CheckpointRules;
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

CheckpointRules rulesOf(const JointProgram& program, const std::vector<OpIndex>& bans) {
  CheckpointRules rules;
  rules.banned.assign(program.ops.size(), 0);
  for (OpIndex o : bans) rules.banned.at(static_cast<std::size_t>(o)) = 1;
  return rules;
}

// (points, corners, the fastest within each budget).
nb::tuple solved(const RecomputeChoices& choices, const std::vector<std::int64_t>& budgets) {
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

nb::tuple solveFrontier(const std::vector<OpTuple>& ops, const std::vector<ValueTuple>& values,
                        const std::vector<ValueIndex>& results,
                        const std::vector<ValueIndex>& gradients, const std::vector<OpIndex>& bans,
                        const std::vector<std::int64_t>& budgets) {
  const JointProgram program = programOf(ops, values, results, gradients);
  if (!autosp::checkpoint::opsThatCannotRunAgain(program).empty()) {
    throw nb::value_error("solve_frontier: no plan is legal");
  }
  return solved(RecomputeChoices(program, rulesOf(program, bans)), budgets);
}

// The program of a joint graph, as choose-checkpoints sees it under these options.
autosp::passes::JointView viewOf(const autosp::ir::Graph& graph, const OptionTexts& texts) {
  const autosp::passes::Options options = autosp::bindings::parseOptions(texts);
  return autosp::passes::jointProgram(graph, options.machine, options.fused);
}

nb::dict describeJoint(const autosp::ir::Graph& graph, const OptionTexts& options) {
  static constexpr std::array<const char*, 8> kKinds = {
      "view", "pointwise", "reduction", "matmul", "attention", "collective", "random", "other"};
  const autosp::passes::JointView view = viewOf(graph, options);
  nb::list ops, kinds, demands, values, graph_values;
  for (const JointOp& op : view.program.ops) {
    ops.append(nb::make_tuple(op.reads, op.makes, op.time, op.backward, op.once));
    kinds.append(kKinds.at(static_cast<std::size_t>(op.kind)));
    demands.append(static_cast<int>(op.demand));
  }
  for (const JointValue& value : view.program.values) {
    values.append(nb::make_tuple(value.maker, value.base, value.bytes));
  }
  for (const auto& id : view.values) graph_values.append(id.index);
  const auto boundaries = autosp::checkpoint::articulations(view.program);
  nb::dict out;
  out["ops"] = ops;
  out["kinds"] = kinds;
  out["demands"] = demands;
  out["values"] = values;
  out["graph_values"] = graph_values;
  out["results"] = view.program.results;
  out["gradients"] = view.program.gradients;
  out["boundaries"] = boundaries;
  out["layer_inputs"] = autosp::checkpoint::layerInputs(view.program, boundaries);
  return out;
}

nb::tuple solveJoint(const autosp::ir::Graph& graph, const OptionTexts& options,
                     const std::vector<OpIndex>& bans, const std::vector<std::int64_t>& budgets) {
  const autosp::passes::JointView view = viewOf(graph, options);
  return solved(RecomputeChoices(view.program, rulesOf(view.program, bans)), budgets);
}

nb::list timeCut(const autosp::ir::Graph& graph, const OptionTexts& options,
                 const std::vector<OpIndex>& bans, std::int64_t bytes_weight,
                 std::int64_t time_weight, int repeat) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const autosp::passes::JointView view = viewOf(graph, options);
  const RecomputeChoices choices(view.program, rulesOf(view.program, bans));
  nb::list out;
  for (int k = 0; k < repeat; ++k) {
    const auto start = Clock::now();
    autosp::checkpoint::RecomputeCut cut(choices);
    const auto built = Clock::now();
    const auto kept = cut.solve({bytes_weight, time_weight}, autosp::checkpoint::Tie::kFewestBytes);
    const auto done = Clock::now();
    const auto cost = choices.plan(kept).cost;
    out.append(nb::make_tuple(seconds(start, built), seconds(built, done), cost.bytes, cost.time));
  }
  return out;
}

}  // namespace

void bindCheckpointAlgorithms(nb::module_& m) {
  m.def("solve_frontier", &solveFrontier, "ops"_a, "values"_a, "results"_a, "gradients"_a, "bans"_a,
        "budgets"_a = std::vector<std::int64_t>(),
        "The frontier of checkpointing, for tests. ops: (reads, makes, time, backward, once); "
        "values: (maker or -1, base, bytes); bans: ops not to be run again. Returns the points "
        "(bytes, time), the indices of the corners among them, and for each budget None or (bytes, "
        "time, bound on the time, proven optimal, saved values, recomputed ops).");
  m.def(
      "joint_program", &describeJoint, "graph"_a, "options"_a,
      "What choose-checkpoints sees of a joint graph: ops, values, results and gradients as "
      "solve_frontier takes them, the ops' kinds and demands (0: none, 1: save, 2: recompute), the "
      "graph's values, boundaries and layers' inputs.");
  m.def("solve_joint", &solveJoint, "graph"_a, "options"_a, "bans"_a, "budgets"_a,
        "solve_frontier on the program of a joint graph.");
  m.def("time_cut", &timeCut, "graph"_a, "options"_a, "bans"_a, "bytes_weight"_a, "time_weight"_a,
        "repeat"_a = 1,
        "One minimum cut, that often: (seconds to build the network, seconds to solve it, bytes, "
        "time).");
}
