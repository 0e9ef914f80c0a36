#include "autosp/cost/liveness.h"

#include <cstddef>
#include <vector>

#include "autosp/cost/liveness_fusion.h"
#include "autosp/cost/liveness_reorder.h"
#include "autosp/cost/liveness_reuse.h"
#include "autosp/cost/liveness_schedule.h"
#include "autosp/support/check.h"

namespace autosp::cost {
namespace {

liveness::KernelList fusedKernels(const JointProgram& program, const std::vector<OpIndex>& order,
                                  const std::vector<char>& leaves,
                                  const std::vector<char>& freeable,
                                  const std::vector<char>& donated, bool on_cpu) {
  const liveness::FusedPass pass = liveness::fusePass(program, order, leaves, on_cpu);
  const liveness::KernelOrder kernels = liveness::reorderKernels(program, pass, leaves, freeable);
  return liveness::planReuse(program, pass, kernels, leaves, donated, on_cpu);
}

std::vector<char> owners(const JointProgram& program, const std::vector<ValueIndex>& list) {
  std::vector<char> mark(program.values.size(), 0);
  for (ValueIndex v : list) mark[program.base(v)] = 1;
  return mark;
}

}  // namespace

Peak simulatePeak(const JointProgram& program, const CheckpointPlan& plan,
                  const LivenessSettings& settings) {
  AUTOSP_CHECK(settings.rounding > 0, "allocations are multiples of at least one byte");
  const liveness::Phases phases = liveness::orderPhases(program, plan);
  if (!settings.fused) {
    return liveness::countBytes(program, phases, liveness::opKernels(program, phases.forward),
                                liveness::opKernels(program, phases.backward), settings);
  }
  std::vector<char> leave_forward = owners(program, program.results);
  std::vector<char> donated = phases.saved;
  for (std::size_t v = 0; v < donated.size(); ++v) {
    if (leave_forward[v]) donated[v] = 0;
    leave_forward[v] |= phases.saved[v];
  }
  const std::vector<char> nothing(program.values.size(), 0);
  return liveness::countBytes(
      program, phases,
      fusedKernels(program, phases.forward, leave_forward, nothing, nothing, settings.on_cpu),
      fusedKernels(program, phases.backward, owners(program, program.gradients), phases.saved,
                   donated, settings.on_cpu),
      settings);
}

}  // namespace autosp::cost
