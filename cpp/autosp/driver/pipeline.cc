#include "autosp/driver/pipeline.h"

namespace autosp::driver {

Result<std::vector<std::string>> pipelinePasses(std::string_view pipeline) {
  if (pipeline == "forward") {
    return std::vector<std::string>{
        "remove-dead-ops",   "canonicalize", "analyze-masks",    "fold-repeat-kv",
        "remove-dead-ops",   "lower-random", "choose-placement", "insert-conversions",
        "merge-collectives", "report-plan",
    };
  }
  if (pipeline == "joint") {
    return std::vector<std::string>{"choose-checkpoints"};
  }
  return Status::error("unknown pipeline '" + std::string(pipeline) +
                       "'; the pipelines are: forward, joint");
}

Result<RunRecord> runPipeline(ir::Graph& graph, std::string_view pipeline,
                              const passes::Options& options, passes::Report& report,
                              const RunConfig& config) {
  AUTOSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, pipelinePasses(pipeline));
  AUTOSP_ASSIGN_OR_RETURN(const std::vector<passes::Pass> sequence, passes::findPasses(names));
  passes::PassContext context{options, report};
  return runPasses(graph, sequence, context, config);
}

}  // namespace autosp::driver
