// What Inductor makes of a list of ops: which values it never stores and which ops share a kernel.
// Read from torch 2.13 (paths under torch/_inductor); the rules that decide bytes are kept, those
// about loop order and strides are not (shapes are unknown here):
//
// Lowering (graph.py, run_node; ir.py, StorageBox)
//  - an elementwise op is computed inside its readers, each of them anew, and not stored, unless
//      it is read by an op that is no elementwise op or reduction (needs realized inputs), or
//      it leaves the pass (saved, result, gradient), or
//      it has several readers and reads more than realize_reads_threshold buffers (on CPU also
//      when it computes an exp, log, sigmoid or tanh), or
//      it reads more than realize_acc_reads_threshold buffers.
//  - a reduction is stored; its elementwise producers run inside it. One over at most
//      unroll_reductions_threshold elements is an elementwise op. Views cost nothing.
//  - a matrix product that only an addition reads is computed with it (fx_passes/post_grad.py).
// Fusion (scheduler.py, fuse_nodes; choices.py)
//  - two loops over the same number of elements that share a buffer become one kernel, most shared
//    bytes first: a reader into the maker, unless the fusion makes a cycle; two readers of a buffer
//    only within 64 kernels of each other (are_long_distant_nodes). Reductions must reduce alike.
//  - a value whose readers are all in its own kernel is not stored.
// Order (memory.py, reorder_for_peak_memory): liveness_reorder.h. Reuse: liveness_reuse.h.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/cost/joint_program.h"

namespace autosp::cost::liveness {

// A stored result of the lowering with the loop that makes it, or a kernel that Inductor calls.
struct LoopNode {
  OpIndex op = -1;
  bool loop = false;  // elementwise or reduction: may be fused
  bool reduction = false;
  bool pooled = false;      // its results may take the memory of dead buffers, and give theirs
  std::int64_t domain = 0;  // elements that the loop runs over
  std::int64_t made = 0;    // elements of a result
  std::int64_t scratch = 0;
  std::vector<ValueIndex> reads;  // values that own memory, each once; inputs too
  std::vector<ValueIndex> makes;
};

// Loops that run as one kernel, in the order of the program.
struct FusedKernel {
  std::vector<int> parts;         // indices of loop nodes
  std::vector<ValueIndex> reads;  // that the kernel does not make itself
  std::vector<ValueIndex> makes;  // also the internal ones: Inductor's own estimate counts them
};

struct FusedPass {
  std::vector<LoopNode> nodes;
  std::vector<FusedKernel> kernels;  // a legal order; the one Inductor compares others with
  std::vector<char> internal;        // by value: made and read inside one kernel only, not stored
};

// `leaves` by value that owns memory: saved, a result, a gradient.
FusedPass fusePass(const JointProgram& program, const std::vector<OpIndex>& order,
                   const std::vector<char>& leaves, bool on_cpu);

}  // namespace autosp::cost::liveness
