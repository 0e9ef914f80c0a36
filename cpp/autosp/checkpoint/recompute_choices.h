// What a checkpointing algorithm may decide on a joint program, and what its decision costs.
//
// The decision is one bit an op of the forward: kept (it runs once, in the forward; what the
// backward needs of it is saved) or not (the backward runs it again). The plan follows from it:
//
//   needed      what the backward reads, and what the ops that run again read; never an input
//   saved       the needed results of kept ops
//   recomputed  the ops that make a needed value and are not kept
//   bytes       of the saved values, each once; time: of the recomputed ops, each once
//
// So nothing is saved or run again in vain. A legal plan obeys:
//
//   - a view is not saved: it is made again from the value that owns the memory (a saved view would
//     pin all of it);
//   - an op that may run only once (JointOp::once) is not run again;
//   - no result of an op with Demand::kRecompute is saved. This wins over the bans of a caller;
//   - a banned op, or one with Demand::kSave, is not run again. For a view this bans the maker of
//     the memory that it shows. An op that every legal plan runs again is not banned.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/cost/joint_program.h"

namespace autosp::checkpoint {

// What the caller of an algorithm asks for.
struct CheckpointRules {
  std::vector<char> banned;   // by op: not to be run again; empty: none
  bool results_kept = false;  // the caller of the program keeps the forward's results: free to save
};

struct CheckpointCost {
  std::int64_t bytes = 0;
  std::int64_t time = 0;  // picoseconds
  friend bool operator==(const CheckpointCost&, const CheckpointCost&) = default;
};

struct PricedPlan {
  cost::CheckpointPlan plan;
  CheckpointCost cost;
};

// Ops that may run only once although every legal plan runs them again: their result is read by the
// backward, and it is a view or Demand::kRecompute lies on it. Ascending; empty when there is a
// legal plan, whatever is banned.
std::vector<cost::OpIndex> opsThatCannotRunAgain(const cost::JointProgram& program);

// The rules above, settled for one program, which must outlive this. There must be a legal plan
// (opsThatCannotRunAgain() is empty), and all bytes, as all times, must sum to at most 2^60: else
// throws InternalError.
class RecomputeChoices {
 public:
  RecomputeChoices(const cost::JointProgram& program, const CheckpointRules& rules);

  const cost::JointProgram& program() const { return *program_; }

  // By value.
  bool isReadByBackward(cost::ValueIndex v) const { return read_by_backward_[v]; }
  bool isMade(cost::ValueIndex v) const { return made_[v]; }  // by an op of the forward
  bool maySave(cost::ValueIndex v) const { return may_save_[v]; }
  bool mustNeed(cost::ValueIndex v) const { return must_need_[v]; }   // in every legal plan
  std::int64_t bytes(cost::ValueIndex v) const { return bytes_[v]; }  // price when saved

  // By op.
  bool isUseful(cost::OpIndex o) const { return useful_[o]; }  // the backward's reads depend on it
  bool mustKeep(cost::OpIndex o) const { return must_keep_[o]; }
  bool mustRecompute(cost::OpIndex o) const { return must_recompute_[o]; }  // in every legal plan

  // Of all useful ops and of all that they make.
  CheckpointCost total() const { return total_; }

  // `kept` by op; what it says of ops that are not useful has no effect.
  // By value: what the backward needs.
  std::vector<char> needed(const std::vector<char>& kept) const;
  // The plan of a decision. Throws InternalError when it is not legal.
  PricedPlan plan(const std::vector<char>& kept) const;

 private:
  const cost::JointProgram* program_;
  std::vector<char> read_by_backward_, made_, may_save_, must_need_;
  std::vector<std::int64_t> bytes_;
  std::vector<char> useful_, must_keep_, must_recompute_;
  CheckpointCost total_;
};

}  // namespace autosp::checkpoint
