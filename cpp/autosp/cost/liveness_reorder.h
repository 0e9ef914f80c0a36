// The order of Inductor's kernels: reorder_for_peak_memory of torch/_inductor/memory.py (2.13).
// Four orders are estimated, and the first of the least peak is taken: the order of the program,
// least peak memory first, breadth first, depth first.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/cost/joint_program.h"
#include "autosp/cost/liveness_fusion.h"

namespace autosp::cost::liveness {

struct KernelOrder {
  std::vector<int> order;            // kernels of the pass
  std::vector<std::int64_t> memory;  // Inductor's estimate at each position
  std::int64_t peak = 0;             // its maximum
};

// `freeable` by value: saved values, whose memory ends with their last reader, unless it leaves.
KernelOrder reorderKernels(const JointProgram& program, const FusedPass& pass,
                           const std::vector<char>& leaves, const std::vector<char>& freeable);

}  // namespace autosp::cost::liveness
