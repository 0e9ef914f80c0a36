// The rules that decide which plans are legal, and the closure that turns a decision into a plan.
#include "autosp/checkpoint/recompute_choices.h"

#include <algorithm>
#include <string>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::checkpoint {
namespace {

using cost::Demand;
using cost::JointOp;
using cost::JointProgram;
using cost::OpIndex;
using cost::ValueIndex;

constexpr std::int64_t kLargestTotal = std::int64_t{1} << 60;

std::vector<char> valuesMadeByForward(const JointProgram& program) {
  std::vector<char> made(program.values.size(), 0);
  for (std::size_t v = 0; v < made.size(); ++v) {
    const OpIndex maker = program.values[v].maker;
    made[v] = maker >= 0 && !program.ops[maker].backward;
  }
  return made;
}

std::vector<char> valuesReadByBackward(const JointProgram& program, const std::vector<char>& made) {
  std::vector<char> read(program.values.size(), 0);
  for (const JointOp& op : program.ops) {
    if (!op.backward) continue;
    for (ValueIndex v : op.reads) read[v] = made[v];
  }
  for (ValueIndex v : program.gradients) read[v] = made[v];
  return read;
}

bool maySaveResult(const JointProgram& program, ValueIndex v) {
  return program.base(v) == v && program.ops[program.values[v].maker].demand != Demand::kRecompute;
}

// What every legal plan needs and runs again: the backward's reads that cannot be saved, and so on.
struct MustSets {
  std::vector<char> need, recompute;  // by value; by op
};

MustSets mustSets(const JointProgram& program, const std::vector<char>& made,
                  const std::vector<char>& read_by_backward) {
  MustSets must{read_by_backward, std::vector<char>(program.ops.size(), 0)};
  for (OpIndex o = static_cast<OpIndex>(program.ops.size()) - 1; o >= 0; --o) {
    if (program.ops[o].backward) continue;
    for (ValueIndex v : program.ops[o].makes) {
      if (must.need[v] && !maySaveResult(program, v)) must.recompute[o] = 1;
    }
    if (!must.recompute[o]) continue;
    for (ValueIndex v : program.ops[o].reads) must.need[v] |= made[v];
  }
  return must;
}

}  // namespace

std::vector<OpIndex> opsThatCannotRunAgain(const JointProgram& program) {
  const std::vector<char> made = valuesMadeByForward(program);
  const MustSets must = mustSets(program, made, valuesReadByBackward(program, made));
  std::vector<OpIndex> out;
  for (std::size_t o = 0; o < program.ops.size(); ++o) {
    if (must.recompute[o] && program.ops[o].once) out.push_back(static_cast<OpIndex>(o));
  }
  return out;
}

RecomputeChoices::RecomputeChoices(const JointProgram& program, const CheckpointRules& rules)
    : program_(&program), made_(valuesMadeByForward(program)) {
  const std::size_t ops = program.ops.size();
  AUTOSP_CHECK(rules.banned.empty() || rules.banned.size() == ops, "bans are by op");
  read_by_backward_ = valuesReadByBackward(program, made_);
  MustSets must = mustSets(program, made_, read_by_backward_);
  must_need_ = std::move(must.need);
  must_recompute_ = std::move(must.recompute);

  may_save_.assign(program.values.size(), 0);
  bytes_.assign(program.values.size(), 0);
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    may_save_[v] = made_[v] && maySaveResult(program, static_cast<ValueIndex>(v));
    bytes_[v] = program.values[v].bytes;
    AUTOSP_CHECK(bytes_[v] >= 0, "value " + std::to_string(v) + " has a negative size");
  }
  if (rules.results_kept) {
    for (ValueIndex v : program.results) bytes_[program.base(v)] = 0;
  }

  must_keep_.assign(ops, 0);
  for (std::size_t o = 0; o < ops; ++o) {
    const JointOp& op = program.ops[o];
    if (op.backward) continue;
    if (op.once) must_keep_[o] = 1;
    const bool banned = !rules.banned.empty() && rules.banned[o];
    if (!banned && op.demand != Demand::kSave) continue;
    for (ValueIndex v : op.makes) {
      const OpIndex maker = program.values[program.base(v)].maker;
      if (maker < 0 || program.ops[maker].backward) continue;
      if (program.ops[maker].demand != Demand::kRecompute) must_keep_[maker] = 1;
    }
  }
  useful_.assign(ops, 0);
  std::vector<char> wanted = read_by_backward_;
  for (std::size_t o = ops; o-- > 0;) {
    const JointOp& op = program.ops[o];
    if (op.backward) continue;
    if (must_recompute_[o]) {
      AUTOSP_CHECK(!op.once, "op " + std::to_string(o) + " cannot run again and must");
      must_keep_[o] = 0;
    }
    for (ValueIndex v : op.makes) useful_[o] |= wanted[v];
    if (!useful_[o]) continue;
    AUTOSP_CHECK(op.time >= 0, "op " + std::to_string(o) + " has a negative time");
    total_.time += op.time;
    for (ValueIndex v : op.makes) {
      total_.bytes += bytes_[v];
      AUTOSP_CHECK(total_.bytes <= kLargestTotal, "all values have over 2^60 bytes");
    }
    AUTOSP_CHECK(total_.time <= kLargestTotal, "all ops take over 2^60 picoseconds");
    for (ValueIndex v : op.reads) wanted[v] |= made_[v];
  }
}

std::vector<char> RecomputeChoices::needed(const std::vector<char>& kept) const {
  std::vector<char> need = read_by_backward_;
  for (std::size_t o = program_->ops.size(); o-- > 0;) {
    const JointOp& op = program_->ops[o];
    if (!useful_[o] || kept[o]) continue;
    const bool runs =
        std::any_of(op.makes.begin(), op.makes.end(), [&](ValueIndex v) { return need[v] != 0; });
    if (!runs) continue;
    for (ValueIndex v : op.reads) need[v] |= made_[v];
  }
  return need;
}

PricedPlan RecomputeChoices::plan(const std::vector<char>& kept) const {
  AUTOSP_CHECK(kept.size() == program_->ops.size(), "a decision has one bit an op");
  PricedPlan out;
  out.plan.saved.assign(program_->values.size(), 0);
  out.plan.recomputed.assign(program_->ops.size(), 0);
  const std::vector<char> need = needed(kept);
  for (std::size_t v = 0; v < need.size(); ++v) {
    if (!need[v]) continue;
    const OpIndex maker = program_->values[v].maker;
    if (kept[maker]) {
      AUTOSP_CHECK(may_save_[v], "value " + std::to_string(v) + " may not be saved");
      out.plan.saved[v] = 1;
      out.cost.bytes += bytes_[v];
    } else if (!out.plan.recomputed[maker]) {
      AUTOSP_CHECK(!must_keep_[maker], "op " + std::to_string(maker) + " may not run again");
      out.plan.recomputed[maker] = 1;
      out.cost.time += program_->ops[maker].time;
    }
  }
  return out;
}

}  // namespace autosp::checkpoint
