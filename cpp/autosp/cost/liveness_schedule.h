// The steps of liveness.h that both of its models share: which ops run in which order, and the
// count of bytes over a list of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/cost/joint_program.h"
#include "autosp/cost/liveness.h"

namespace autosp::cost::liveness {

// The ops of each pass in the order they run.
struct Phases {
  std::vector<OpIndex> forward;
  std::vector<OpIndex> backward;
  std::vector<char> saved;  // by value: saved by the plan and read by the backward
};

Phases orderPhases(const JointProgram& program, const CheckpointPlan& plan);

// Kernels in the order they run, as flat rows: row k of a list is [begin[k], begin[k + 1]).
struct KernelList {
  std::vector<OpIndex> op;  // that stands for the kernel in the report
  std::vector<std::int64_t> scratch;
  std::vector<int> touch_begin = {0};
  std::vector<ValueIndex> touches;  // values that own memory which the kernel reads or writes
  std::vector<int> make_begin = {0};
  std::vector<ValueIndex> makes;  // values whose memory is allocated for the kernel

  int size() const { return static_cast<int>(op.size()); }
  void close(OpIndex representative, std::int64_t scratch_bytes);  // ends the row being filled
};

// Each op a kernel.
KernelList opKernels(const JointProgram& program, const std::vector<OpIndex>& order);

Peak countBytes(const JointProgram& program, const Phases& phases, const KernelList& forward,
                const KernelList& backward, const LivenessSettings& settings);

}  // namespace autosp::cost::liveness
