// The Python module autosp._core: the graph, its text, the forward pipeline, the program of one
// rank. No logic. Errors that are the graph's or the options' fault raise
// autosp.errors.CompileError; a broken invariant raises autosp.errors.InternalError.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autosp/driver/pipeline.h"
#include "autosp/ir/graph.h"
#include "autosp/ir/parser.h"
#include "autosp/ir/printer.h"
#include "autosp/ir/verifier.h"
#include "autosp/passes/localize.h"
#include "autosp/passes/options.h"
#include "autosp/passes/placement_network.h"
#include "autosp/passes/report.h"
#include "autosp/sharding/rule_table.h"
#include "checkpoint_module.h"
#include "status.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using autosp::Diagnostic;
using autosp::bindings::check;
using autosp::bindings::OptionTexts;
using autosp::bindings::parseOptions;
using autosp::bindings::take;
using autosp::ir::Attr;
using autosp::ir::AttrList;
using autosp::ir::Graph;
using autosp::ir::Op;
using autosp::ir::Opaque;
using autosp::ir::OpId;
using autosp::ir::ValueId;

// A value as it stands in the arguments of an op, on the Python side.
struct ValueRef {
  std::int32_t index;
};

Attr toAttr(nb::handle object) {
  if (object.is_none()) {
    return {};
  }
  if (nb::isinstance<nb::bool_>(object)) {
    return Attr(nb::cast<bool>(object));
  }
  if (nb::isinstance<nb::int_>(object)) {
    return Attr(nb::cast<std::int64_t>(object));
  }
  if (nb::isinstance<nb::float_>(object)) {
    return Attr(nb::cast<double>(object));
  }
  if (nb::isinstance<nb::str>(object)) {
    return Attr(nb::cast<std::string>(object));
  }
  if (nb::isinstance<ValueRef>(object)) {
    return Attr(ValueId(static_cast<std::size_t>(nb::cast<ValueRef>(object).index)));
  }
  if (nb::isinstance<Opaque>(object)) {
    return Attr(nb::cast<Opaque>(object));
  }
  AttrList list;
  for (nb::handle item : object) {
    list.push_back(toAttr(item));
  }
  return Attr(std::move(list));
}

nb::object fromAttr(const Attr& attr) {
  struct Visitor {
    nb::object operator()(std::monostate) const { return nb::none(); }
    nb::object operator()(bool v) const { return nb::cast(v); }
    nb::object operator()(std::int64_t v) const { return nb::cast(v); }
    nb::object operator()(double v) const { return nb::cast(v); }
    nb::object operator()(const std::string& v) const { return nb::cast(v); }
    nb::object operator()(ValueId v) const { return nb::cast(ValueRef{v.index}); }
    nb::object operator()(const Opaque& v) const { return nb::cast(v); }
    nb::object operator()(const AttrList& v) const {
      nb::list out;
      for (const Attr& item : v) {
        out.append(fromAttr(item));
      }
      return out;
    }
  };
  return std::visit(Visitor(), attr.storage());
}

autosp::ir::InputKind inputKind(const std::string& name) {
  using autosp::ir::InputKind;
  for (InputKind kind : {InputKind::kUser, InputKind::kParameter, InputKind::kBuffer,
                         InputKind::kConstant, InputKind::kSeed, InputKind::kTangent}) {
    if (autosp::ir::inputKindName(kind) == name) {
      return kind;
    }
  }
  throw nb::value_error(("no input kind '" + name + "'").c_str());
}

using TypeTuple = std::tuple<std::string, std::vector<std::int64_t>, bool>;  // dtype, shape, grad

autosp::ir::TensorType tensorType(const std::string& dtype,
                                  const std::vector<std::int64_t>& shape) {
  autosp::ir::TensorType type;
  type.dtype = autosp::ir::dtypeFromName(dtype);
  type.shape.assign(shape.begin(), shape.end());
  return type;
}

// One op as a tuple: name, arguments by name, result ids, origin, location.
nb::tuple opTuple(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  nb::list args;
  for (const auto& [key, value] : op.args) {
    args.append(nb::make_tuple(key, fromAttr(value)));
  }
  nb::list results;
  for (ValueId v : op.results) {
    results.append(v.index);
  }
  return nb::make_tuple(op.name, args, results, op.origin, op.location);
}

// The placement problem of a graph that is ready for it, solved; for tests and for pricing
// alternatives.
struct Placement {
  autosp::sharding::PairwiseProblem problem;
  autosp::sharding::Solution solution;
  std::vector<std::pair<std::string, std::string>> attention;  // op and how it is placed
};

Placement solvePlacement(Graph& graph, bool memory, bool gradients_partial,
                         const std::tuple<double, double, double, double>& machine,
                         bool min_degree) {
  autosp::sharding::RuleTable table;
  const autosp::sharding::RuleCache rules(graph, table);
  const auto sequence = take(autosp::sharding::inferSequence(graph, rules, {}));
  autosp::passes::PlacementSettings settings;
  settings.minimize_memory = memory;
  settings.gradients_partial = gradients_partial;
  std::tie(settings.machine.flops, settings.machine.memory, settings.machine.link,
           settings.machine.latency) = machine;
  const autosp::passes::PlacementNetwork network(graph, rules, sequence, settings);
  Placement out;
  out.problem = network.problem();
  out.solution = autosp::sharding::minimize(
      out.problem, min_degree ? autosp::sharding::OrderRule::kMinDegree
                              : autosp::sharding::OrderRule::kMinFillHubLast);
  if (out.solution.cost.isForbidden()) {
    return out;
  }
  for (OpId id : graph.order()) {
    if (!autosp::sharding::isAttention(graph.op(id))) {
      continue;
    }
    const auto& strategy = network.strategy(id, out.solution.state);
    using autosp::sharding::Lowering;
    out.attention.emplace_back(graph.describe(id),
                               strategy.lowering == Lowering::kAttentionHeads     ? "heads"
                               : strategy.lowering == Lowering::kAttentionQueries ? "queries"
                                                                                  : "whole");
  }
  return out;
}

using CostTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>;

CostTuple costTuple(const autosp::sharding::Cost& cost) {
  return {cost.whole_bytes, cost.time, cost.tie, cost.isForbidden()};
}

std::vector<CostTuple> costTuples(const std::vector<autosp::sharding::Cost>& costs) {
  std::vector<CostTuple> out;
  for (const auto& cost : costs) {
    out.push_back(costTuple(cost));
  }
  return out;
}

void bindPlacement(nb::module_& m) {
  nb::class_<Placement>(m, "Placement", "A placement problem and its exact solution.")
      .def_prop_ro("unary",
                   [](const Placement& p) {
                     std::vector<std::vector<CostTuple>> out;
                     for (const auto& costs : p.problem.unary) {
                       out.push_back(costTuples(costs));
                     }
                     return out;
                   })
      .def_prop_ro("pairs",
                   [](const Placement& p) {
                     std::vector<std::tuple<int, int, std::vector<CostTuple>>> out;
                     for (const auto& table : p.problem.pairs) {
                       out.emplace_back(table.a, table.b, costTuples(table.cost));
                     }
                     return out;
                   })
      .def_prop_ro("cost", [](const Placement& p) { return costTuple(p.solution.cost); })
      .def_prop_ro("state", [](const Placement& p) { return p.solution.state; })
      .def_prop_ro("unique", [](const Placement& p) { return p.solution.unique; })
      .def_prop_ro("width", [](const Placement& p) { return p.solution.width; })
      .def_prop_ro("largest_table", [](const Placement& p) { return p.solution.largest_table; })
      .def_prop_ro("attention", [](const Placement& p) { return p.attention; });
  m.def(
      "solve_placement", solvePlacement, "graph"_a, "memory"_a, "gradients_partial"_a, "machine"_a,
      "min_degree"_a = false,
      "Solve the placement of a graph for a machine (flop/s, bytes/s of memory, bytes/s of a link, "
      "seconds of latency).");
}

double now();

// (report, table of times)
nb::tuple runPipeline(Graph& graph, const std::string& pipeline, const OptionTexts& options,
                      const OptionTexts& rules, const std::string& dump_dir,
                      const std::string& stop_after) {
  autosp::passes::Options parsed = parseOptions(options);
  parsed.rules = rules;
  autosp::passes::Report report;
  autosp::driver::RunConfig config;
  config.dump_dir = dump_dir;
  config.stop_after = stop_after;
  config.now = now;
  const auto record = take(autosp::driver::runPipeline(graph, pipeline, parsed, report, config));
  return nb::make_tuple(nb::cast(std::move(report)), autosp::driver::timingTable(record));
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  m.attr("__version__") = AUTOSP_VERSION;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const autosp::InternalError& e) {
      nb::object type = nb::module_::import_("autosp.errors").attr("InternalError");
      PyErr_SetObject(type.ptr(), type(e.what()).ptr());
    }
  });

  nb::class_<ValueRef>(m, "Value", "A value in the arguments of an op, by its id.")
      .def(nb::init<std::int32_t>(), "index"_a)
      .def_ro("index", &ValueRef::index);
  nb::class_<Opaque>(m, "Opaque", "An argument the core hands back untouched.")
      .def(nb::init<std::string>(), "text"_a)
      .def_ro("text", &Opaque::text);

  nb::class_<autosp::passes::Report>(m, "Report",
                                     "What the compiler did: remarks, conversions, facts.")
      .def(nb::init<>())
      .def("text", &autosp::passes::Report::text)
      .def_prop_ro(
          "diagnostics",
          [](const autosp::passes::Report& r) {
            nb::list out;
            for (const Diagnostic& d : r.diagnostics()) {
              out.append(nb::make_tuple(autosp::passes::severityText(d), d.op, d.location));
            }
            return out;
          })
      .def_prop_ro("conversions",
                   [](const autosp::passes::Report& r) {
                     nb::list out;
                     for (const autosp::passes::Conversion& c : r.conversions()) {
                       nb::dict d;
                       d["value"] = c.value;
                       d["reader"] = c.reader;
                       d["location"] = c.location;
                       d["from"] = c.from.text();
                       d["to"] = c.to.text();
                       d["forward"] = c.forward;
                       d["backward"] = c.backward;
                       d["bytes"] = c.bytes;
                       out.append(d);
                     }
                     return out;
                   })
      .def_prop_ro("summary",
                   [](const autosp::passes::Report& r) {
                     nb::dict d;
                     d["values_cut"] = r.summary.values_cut;
                     d["values_whole"] = r.summary.values_whole;
                     d["sequence_bytes"] = r.summary.sequence_bytes;
                     d["whole_bytes"] = r.summary.whole_bytes;
                     d["ops_made_whole"] = r.summary.ops_made_whole;
                     d["bytes_made_whole"] = r.summary.bytes_made_whole;
                     d["plan_time"] = r.summary.plan_time;
                     d["sequence_length"] = r.summary.sequence_length;
                     return d;
                   })
      .def_prop_ro("checkpoints", [](const autosp::passes::Report& r) -> nb::object {
        if (!r.checkpoints) {
          return nb::none();
        }
        const autosp::passes::CheckpointSummary& s = *r.checkpoints;
        nb::dict d;
        d["mode"] = s.mode;
        d["saved"] = s.saved;
        d["saved_attention"] = s.saved_attention;
        d["saved_mlp"] = s.saved_mlp;
        d["saved_residual"] = s.saved_residual;
        d["saved_loss"] = s.saved_loss;
        d["saved_other"] = s.saved_other;
        d["recomputed_ops"] = s.recomputed_ops;
        d["recomputed_matmuls"] = s.recomputed_matmuls;
        d["recomputed_attention"] = s.recomputed_attention;
        d["recomputed_collectives"] = s.recomputed_collectives;
        d["recompute_time"] = s.recompute_time;
        d["step_time"] = s.step_time;
        d["peak"] = s.peak;
        d["gradients"] = s.gradients;
        d["peak_in_backward"] = s.peak_in_backward;
        d["peak_op"] = s.peak_op;
        d["peak_location"] = s.peak_location;
        d["alive"] = s.alive;
        d["frontier"] = s.frontier;
        d["stock_peak"] = s.stock_peak;
        return d;
      });

  nb::class_<Graph>(m, "Graph", "The program, global or of one rank.")
      .def(
          "__init__",
          [](Graph* self, std::string name, int ranks) {
            new (self) Graph();
            self->name = std::move(name);
            self->ranks = ranks;
          },
          "name"_a, "ranks"_a)
      .def_static("parse", [](const std::string& text) { return take(autosp::ir::parse(text)); })
      .def("text", [](const Graph& g) { return autosp::ir::print(g); })
      .def_ro("ranks", &Graph::ranks)
      .def(
          "add_input",
          [](Graph& g, std::string name, const std::string& kind, const std::string& dtype,
             const std::vector<std::int64_t>& shape, bool grad) {
            return g.addInput(std::move(name), inputKind(kind), tensorType(dtype, shape), grad)
                .index;
          },
          "name"_a, "kind"_a, "dtype"_a, "shape"_a, "requires_grad"_a)
      .def(
          "add_op",
          [](Graph& g, std::string name,
             const std::vector<std::pair<std::string, nb::object>>& args,
             const std::vector<std::optional<TypeTuple>>& results,
             const std::vector<std::string>& traits, std::int64_t origin, std::string location,
             const std::vector<std::int32_t>& bases) {
            Op op;
            op.name = std::move(name);
            for (const auto& [key, value] : args) {
              op.args.emplace_back(key, toAttr(value));
            }
            for (const std::string& trait : traits) {
              op.traits.pointwise |= trait == "pointwise";
              op.traits.random |= trait == "random";
              op.traits.mutates |= trait == "mutates";
              op.traits.effect |= trait == "effect";
              op.traits.keep |= trait == "keep";
              op.traits.recompute |= trait == "recompute";
            }
            op.origin = origin;
            op.location = std::move(location);
            std::vector<Graph::ResultType> types;
            for (const auto& result : results) {
              Graph::ResultType type;
              type.is_tensor = result.has_value();
              if (result) {
                type.type = tensorType(std::get<0>(*result), std::get<1>(*result));
                type.requires_grad = std::get<2>(*result);
              }
              if (types.size() < bases.size() && bases[types.size()] >= 0) {
                type.base = ValueId(static_cast<std::size_t>(bases[types.size()]));
              }
              types.push_back(std::move(type));
            }
            const OpId id = g.addOp(std::move(op), types);
            std::vector<std::int32_t> out;
            for (ValueId v : g.op(id).results) {
              out.push_back(v.index);
            }
            return out;
          },
          "name"_a, "args"_a, "results"_a, "traits"_a, "origin"_a, "location"_a,
          "bases"_a = std::vector<std::int32_t>())
      .def(
          "add_output",
          [](Graph& g, std::optional<std::int32_t> value, std::string name, bool may_stay_cut,
             bool gradient, std::int32_t writes) {
            g.addOutput(
                value ? std::optional(ValueId(static_cast<std::size_t>(*value))) : std::nullopt,
                std::move(name), may_stay_cut);
            g.outputs().back().gradient = gradient;
            if (writes >= 0) {
              g.outputs().back().writes = ValueId(static_cast<std::size_t>(writes));
            }
          },
          "value"_a.none(), "name"_a, "may_stay_cut"_a, "gradient"_a = false, "writes"_a = -1)
      .def(
          "mark_saved",
          [](Graph& g, std::int32_t value) {
            g.value(ValueId(static_cast<std::size_t>(value))).saved = true;
          },
          "value"_a, "The forward hands this value to the backward.")
      .def("verify", [](const Graph& g) { check(autosp::ir::verify(g)); })
      .def(
          "run_forward",
          [](Graph& g, const OptionTexts& options,
             const std::vector<std::pair<std::string, std::string>>& rules,
             const std::string& dump_dir, const std::string& stop_after) {
            return runPipeline(g, "forward", options, rules, dump_dir, stop_after);
          },
          "options"_a, "rules"_a, "dump_dir"_a, "stop_after"_a = "")
      .def(
          "run_joint",
          [](Graph& g, const OptionTexts& options, const std::string& dump_dir) {
            return runPipeline(g, "joint", options, {}, dump_dir, "");
          },
          "options"_a, "dump_dir"_a)
      .def_prop_ro("saved",
                   [](const Graph& g) {
                     std::vector<std::int32_t> out;
                     for (std::size_t i = 0; i < g.valueCount(); ++i) {
                       if (g.value(ValueId(i)).saved) {
                         out.push_back(static_cast<std::int32_t>(i));
                       }
                     }
                     return out;
                   })
      .def_prop_ro("recomputed",
                   [](const Graph& g) {
                     std::vector<std::int64_t> origins;
                     for (OpId id : g.order()) {
                       if (g.op(id).traits.recompute) {
                         origins.push_back(g.op(id).origin);
                       }
                     }
                     return origins;
                   })
      .def(
          "localize",
          [](const Graph& g, int rank) { return take(autosp::passes::localize(g, rank)); },
          "rank"_a)
      .def_prop_ro("inputs",
                   [](const Graph& g) {
                     nb::list out;
                     for (const autosp::ir::Input& input : g.inputs()) {
                       out.append(nb::make_tuple(input.value.index,
                                                 std::string(autosp::ir::inputKindName(input.kind)),
                                                 input.name));
                     }
                     return out;
                   })
      .def_prop_ro("outputs",
                   [](const Graph& g) {
                     nb::list out;
                     for (const autosp::ir::Output& output : g.outputs()) {
                       out.append(output.value ? nb::cast(output.value->index) : nb::none());
                     }
                     return out;
                   })
      .def("ops",
           [](const Graph& g) {
             nb::list out;
             for (OpId id : g.order()) {
               out.append(opTuple(g, id));
             }
             return out;
           })
      .def(
          "base",
          [](const Graph& g, std::int32_t value) {
            const ValueId base = g.value(ValueId(static_cast<std::size_t>(value))).base;
            return base.valid() ? base.index : value;
          },
          "value"_a, "The value that owns the memory of this one.")
      .def("shape",
           [](const Graph& g, std::int32_t value) {
             return g.type(ValueId(static_cast<std::size_t>(value))).sizes();
           })
      .def("form", [](const Graph& g, std::int32_t value) -> nb::object {
        // None, or (kind, dim): "R", "Q", "P", "S"; dim is -1 but for a cut.
        const auto& form = g.value(ValueId(static_cast<std::size_t>(value))).form;
        if (!form) {
          return nb::none();
        }
        const char* kind = form->isCut()                                  ? "S"
                           : form->kind == autosp::ir::FormKind::kPartial ? "P"
                           : form->kind == autosp::ir::FormKind::kWhole   ? "R"
                                                                          : "Q";
        return nb::make_tuple(kind, form->isCut() ? form->cut.dim : -1);
      });

  bindPlacement(m);
  bindCheckpointAlgorithms(m);
  m.def(
      "check_rule",
      [](const std::string& op, const std::string& spelling) {
        autosp::sharding::RuleTable table;
        check(table.add(op, spelling));
      },
      "op"_a, "spelling"_a, "Raises CompileError when the spelling is not a rule.");
  m.def(
      "rule_rows",
      [] {
        std::vector<std::pair<std::string, std::string>> out;
        for (const auto& row : autosp::sharding::RuleTable().rows()) {
          out.emplace_back(std::string(row.op), std::string(row.spelling));
        }
        return out;
      },
      "Built-in rules: op and spelling.");
}
