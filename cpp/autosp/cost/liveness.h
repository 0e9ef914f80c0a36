// The peak of memory of one training step: the forward and then the backward of a JointProgram are
// replayed under a CheckpointPlan, and the bytes that the step holds are counted at every kernel.
//
// Counted: saved values, temporaries, results, gradients and tangents, and what an op needs only
// while it runs (JointOp::scratch). Not counted: what was there before the step (inputs and
// parameters). A value's memory dies after the last kernel that reads it, itself or through a view;
// a gradient lives to the end of the backward, a saved value until its last reader there.
//
// Order of the ops. Forward: those that the results and the saved values need, in program order.
// Backward: as torch orders it (reordering_to_mimic_autograd_engine in
// torch/_functorch/partitioners.py): from the first op that reads a tangent, each op with the
// recomputed ops that it still lacks just before it.
//
// Two models of how ops become kernels (LivenessSettings::fused): each op its own kernel, as eager
// and "aot_eager" run a graph; or Inductor's, where chains of elementwise ops and reductions become
// one kernel and most of their values are never stored (liveness_fusion.h states the rules).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "autosp/cost/joint_program.h"

namespace autosp::cost {

struct LivenessSettings {
  bool fused = false;         // Inductor's kernels rather than one for each op
  bool on_cpu = false;        // fused: Inductor's C++ backend rather than Triton
  std::int64_t rounding = 1;  // allocations are multiples of this: 512 on CUDA, 1 on CPU
  bool results_kept = false;  // the caller still holds the results (logits) during the backward;
                              // if not, those that the backward does not read die before it
  bool list_alive = false;    // fill Peak::alive
};

struct Peak {
  std::int64_t bytes = 0;
  bool in_backward = false;
  OpIndex op = -1;             // that runs at the peak; of a fused kernel its last; -1: none runs
  std::int64_t saved = 0;      // what the forward hands to the backward, without the results
  std::int64_t gradients = 0;  // memory of the gradients, as the backward ends
  std::vector<std::pair<ValueIndex, std::int64_t>> alive;  // at the peak, with bytes; no scratch
};

// The plan may save values that the backward does not read: torch drops them, and so does this.
// Throws InternalError when the plan does not fit the program (sizes; a saved input or view), or
// the backward needs a forward op that the plan does not recompute.
Peak simulatePeak(const JointProgram& program, const CheckpointPlan& plan,
                  const LivenessSettings& settings);

}  // namespace autosp::cost
