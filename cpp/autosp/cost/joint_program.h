// The joint forward and backward program as the checkpointing algorithms and the simulator see it:
// plain numbers, no op names. Ops stand in the order of the trace (forward, then backward); values
// are what ops read and make. passes/joint_program.h builds it from a graph.
//
// A value either owns its memory (base is itself, bytes is its size) or is a view of the value that
// does (base, bytes 0). An op with several results makes several values; its time is paid once.
#pragma once

#include <cstdint>
#include <vector>

namespace autosp::cost {

using OpIndex = std::int32_t;
using ValueIndex = std::int32_t;

enum class OpClass : std::uint8_t {
  kView,       // only changes how memory is read: free, makes values without memory of their own
  kPointwise,  // elementwise: a fusing compiler computes it inside the kernel that reads it
  kReduction,  // may take elementwise producers into its kernel, and be the head of a fused kernel
  kMatmul,     // linear, mm, bmm, convolution: a library kernel
  kAttention,
  kCollective,
  kRandom,  // draws from a generator: a second run draws other numbers
  kOther,   // a kernel of its own
};

// What the user's checkpoint policy (torch.utils.checkpoint) says of an op.
enum class Demand : std::uint8_t { kNone, kSave, kRecompute };

struct JointOp {
  std::vector<ValueIndex> reads;  // in order of first appearance, each once
  std::vector<ValueIndex> makes;  // all results; those nothing reads too
  OpClass kind = OpClass::kOther;
  Demand demand = Demand::kNone;
  bool backward = false;  // depends on a tangent: runs in the backward whatever the plan
  bool once =
      false;  // may never run twice: random, or it reads an input that the program overwrites
  bool deferred = false;  // no result depends on it and no tangent reaches it: it runs in the
                          // backward, for the first time. Then demand is kRecompute and time 0
  std::int64_t time = 0;  // picoseconds of a second run; 0 for views and what fuses into its reader
  std::int64_t flops = 0;
  std::int64_t scratch = 0;  // bytes that live only while it runs
  bool adds =
      false;  // aten.add of two tensors: Inductor computes it inside the mm that it alone reads
  bool heavy = false;  // computes an exp, log, sigmoid or tanh (silu, gelu, softplus too)
};

struct JointValue {
  OpIndex maker = -1;      // -1: an input of the program
  ValueIndex base = -1;    // the value that owns its memory; itself when it does
  std::int64_t bytes = 0;  // of the memory it owns, on this rank; 0 for a view
  std::int64_t elements =
      0;                 // on this rank, of a view as it looks (expanded); decides which loops fuse
  bool tangent = false;  // an input: the gradient of a result
  bool parameter = false;    // an input that is a parameter, or requires a gradient
  bool data = false;         // an input that is given anew at each step
  bool overwritten = false;  // an input whose contents are replaced before the backward runs
};

struct JointProgram {
  std::vector<JointOp> ops;  // topological: an op reads what stands before it
  std::vector<JointValue> values;
  std::vector<ValueIndex>
      results;  // of the forward, also new contents of overwritten inputs; may repeat
  std::vector<ValueIndex> gradients;  // of the backward; may repeat, and may be forward values

  ValueIndex base(ValueIndex v) const { return values[static_cast<std::size_t>(v)].base; }
};

// Which values the forward hands to the backward, and which forward ops the backward runs again. A
// value that the backward needs is an input, saved, or made by a recomputed op.
struct CheckpointPlan {
  std::vector<char> saved;       // by value; only values that own their memory and are no inputs
  std::vector<char> recomputed;  // by op; views included
};

}  // namespace autosp::cost
