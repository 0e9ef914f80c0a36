// The pipelines: which passes turn a captured graph into the plan, in which order. They are lists
// of names; the registry holds the passes and the pass manager checks and runs them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autosp/driver/pass_manager.h"

namespace autosp::driver {

// The passes of a pipeline: "forward" for a captured graph, "joint" for a rank's forward and
// backward. The error for another name says which there are.
Result<std::vector<std::string>> pipelinePasses(std::string_view pipeline);

Result<RunRecord> runPipeline(ir::Graph& graph, std::string_view pipeline,
                              const passes::Options& options, passes::Report& report,
                              const RunConfig& config);

}  // namespace autosp::driver
