// Which kernels' results take the memory of dead buffers in Inductor's wrapper (torch 2.13, paths
// under torch/_inductor), and with it how long that memory is held:
//  - a loop writes over a buffer that nothing else reads after it (scheduler.py,
//    decide_inplace_update): same size, read by that loop only;
//  - the memory of a dead buffer is not given back if a later result of its size takes it: the
//    latest one dead is taken, when the next kernel takes it or when holding it stays under the
//    peak that Inductor estimates (codegen/wrapper.py, AllocateLine.should_reuse_buffer);
//  - what calls return (attention, collectives) takes no part; of the inputs only the saved values
//      that the caller does not see, and only in the first way (donated buffers);
//  - on CPU, loops that follow each other run in one call (codegen/cpp.py, KernelGroup): all their
//    results are allocated before it, and dead buffers are dropped after it.
#pragma once

#include <vector>

#include "autosp/cost/joint_program.h"
#include "autosp/cost/liveness_fusion.h"
#include "autosp/cost/liveness_reorder.h"
#include "autosp/cost/liveness_schedule.h"

namespace autosp::cost::liveness {

// The calls of the pass. `donated` by value: saved values that are no results. Memory that several
// values hold one after the other stands under the last of them.
KernelList planReuse(const JointProgram& program, const FusedPass& pass, const KernelOrder& order,
                     const std::vector<char>& leaves, const std::vector<char>& donated,
                     bool on_cpu);

}  // namespace autosp::cost::liveness
