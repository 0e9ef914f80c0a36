// Runs passes over a graph. The pass manager, never the pass, checks their order, verifies the
// graph, takes the time and writes dumps:
//
//   00-input.sp                 with a line "// RUN: --flags" that makes it a reproducer for
//   autosp-opt 01-remove-dead-ops.sp ...   the graph after each pass
//
// A graph that is illegal at the start is the caller's fault (Status). One that is illegal after a
// pass is ours: InternalError, which says the pass and the dump from before it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/passes/context.h"
#include "autosp/passes/registry.h"
#include "autosp/support/status.h"

namespace autosp::driver {

struct RunConfig {
  std::string dump_dir;  // made when missing; empty: no dumps
  std::function<double()>
      now;                 // a clock in seconds, given by who may read one; none: times are zero
  std::string stop_after;  // the last pass to run, by name; empty: all run
  std::vector<std::string> assumed;  // facts that hold at the start, for a pass run by itself
};

struct PassRun {
  std::string pass;
  double seconds = 0;
  std::size_t ops_before = 0;
  std::size_t ops_after = 0;
};

struct RunRecord {
  std::vector<PassRun> passes;
  std::vector<std::string> dumps;  // paths, in order
};

// Whether each pass's needs are assumed or provided by a pass before it.
Status checkOrder(const std::vector<passes::Pass>& sequence,
                  const std::vector<std::string>& assumed);

// Sets the graph's ranks when the options give them, then runs the passes in the order given.
Result<RunRecord> runPasses(ir::Graph& graph, const std::vector<passes::Pass>& sequence,
                            passes::PassContext& context, const RunConfig& config);

// A table: pass, milliseconds, ops before -> after; the last line is the total.
std::string timingTable(const RunRecord& record);

}  // namespace autosp::driver
