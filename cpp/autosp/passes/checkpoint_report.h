// What choose-checkpoints tells the user about the plan it took.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/cost/liveness.h"
#include "autosp/passes/joint_program.h"
#include "autosp/passes/report.h"

namespace autosp::passes {

// "12.3 MiB"; exact bytes below 1 KiB.
std::string bytesText(std::int64_t bytes);

// `boundaries`: the articulation values, in order. What is saved between two of them belongs to
// attention when an attention op stands between them, else to the MLP; after the last one to the
// loss, before the first to the rest.
CheckpointSummary describeCheckpoints(const ir::Graph& graph, const JointView& view,
                                      const std::vector<cost::ValueIndex>& boundaries,
                                      const checkpoint::PricedPlan& plan, const cost::Peak& peak);

// The summary as lines for a person.
std::string checkpointText(const CheckpointSummary& summary);

}  // namespace autosp::passes
