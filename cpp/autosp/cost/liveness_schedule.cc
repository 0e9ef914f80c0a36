// Order of the ops, and the count of bytes over kernels: one interval of positions for each piece
// of memory, summed over time.
#include "autosp/cost/liveness_schedule.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "autosp/support/check.h"

namespace autosp::cost::liveness {
namespace {

// Ops that some of `wanted` needs, walking back until values with stop[v] and inputs. Values
// stopped at that are read get used[v].
std::vector<char> neededOps(const JointProgram& program, const std::vector<ValueIndex>& wanted,
                            const std::vector<char>& stop, std::vector<char>* used) {
  std::vector<char> needed_value(program.values.size(), 0);
  std::vector<char> needed_op(program.ops.size(), 0);
  auto want = [&](ValueIndex v) {
    if (stop[v]) {
      if (used != nullptr) (*used)[v] = 1;
    } else {
      needed_value[v] = 1;
    }
  };
  for (ValueIndex v : wanted) want(v);
  for (OpIndex i = static_cast<OpIndex>(program.ops.size()) - 1; i >= 0; --i) {
    const JointOp& op = program.ops[i];
    const auto needed = [&](ValueIndex v) { return needed_value[v] != 0; };
    if (std::none_of(op.makes.begin(), op.makes.end(), needed)) continue;
    needed_op[i] = 1;
    for (ValueIndex v : op.reads) want(v);
  }
  return needed_op;
}

bool readsTangent(const JointProgram& program, const JointOp& op) {
  return std::any_of(op.reads.begin(), op.reads.end(),
                     [&](ValueIndex v) { return program.values[v].tangent; });
}

// The needed ops of the backward in the order of torch's reordering_to_mimic_autograd_engine.
std::vector<OpIndex> backwardOrder(const JointProgram& program, const std::vector<char>& saved,
                                   std::vector<char> pending) {
  const OpIndex ops = static_cast<OpIndex>(program.ops.size());
  OpIndex first = 0;
  while (first < ops && !(pending[first] && readsTangent(program, program.ops[first]))) ++first;
  if (first == ops) first = 0;  // no op reads a tangent: torch leaves the order alone

  std::vector<OpIndex> order;
  std::vector<OpIndex> stack;
  auto insert = [&](OpIndex root) {
    const auto begin = static_cast<std::ptrdiff_t>(order.size());
    stack.push_back(root);
    while (!stack.empty()) {
      const OpIndex i = stack.back();
      stack.pop_back();
      if (!pending[i]) continue;
      pending[i] = 0;
      order.push_back(i);
      for (ValueIndex v : program.ops[i].reads) {
        const OpIndex maker = program.values[v].maker;
        if (maker >= 0 && !saved[v] && pending[maker]) stack.push_back(maker);
      }
    }
    std::sort(order.begin() + begin, order.end());
  };
  for (OpIndex i = first; i < ops; ++i) insert(i);
  // Gradients that depend on no tangent hang on the output node, which torch inserts last.
  for (OpIndex i = 0; i < first; ++i) {
    if (pending[i]) order.push_back(i);
  }
  return order;
}

std::int64_t rounded(std::int64_t bytes, std::int64_t block) {
  return (bytes + block - 1) / block * block;
}

// The positions at which the pieces of memory of a step are alive, and their sum over time.
class Timeline {
 public:
  Timeline(const JointProgram& program, const LivenessSettings& settings, int positions)
      : program_(program),
        rounding_(settings.rounding),
        last_(positions - 1),
        change_(positions + 1, 0),
        scratch_(positions, 0),
        birth_(program.values.size(), kUnborn),
        death_(program.values.size(), 0),
        lists_(settings.list_alive) {}

  std::int64_t size(ValueIndex owner) const {
    return rounded(program_.values[owner].bytes, rounding_);
  }
  int lastPosition() const { return last_; }

  void run(const KernelList& kernels, int position) {
    for (int k = 0; k < kernels.size(); ++k, ++position) {
      scratch_[position] += rounded(kernels.scratch[k], rounding_);
      for (int i = kernels.make_begin[k]; i < kernels.make_begin[k + 1]; ++i) {
        const ValueIndex v = kernels.makes[i];
        if (birth_[v] == kUnborn) {
          birth_[v] = death_[v] = position;
        } else {
          scratch_[position] += size(v);  // a second copy of a saved result: dropped at once
        }
      }
      for (int i = kernels.touch_begin[k]; i < kernels.touch_begin[k + 1]; ++i) {
        keepUntil(kernels.touches[i], position);
      }
    }
  }

  bool isAlive(ValueIndex owner) const { return birth_[owner] != kUnborn; }
  void give(ValueIndex owner, int position) { birth_[owner] = death_[owner] = position; }
  void keepUntil(ValueIndex owner, int position) {
    death_[owner] = std::max(death_[owner], position);
  }

  // The memory of `owner` is over: it counts from its birth to its last use.
  void end(ValueIndex owner) {
    change_[birth_[owner]] += size(owner);
    change_[death_[owner] + 1] -= size(owner);
    if (lists_) intervals_.push_back({owner, birth_[owner], death_[owner]});
    birth_[owner] = kUnborn;
  }

  std::int64_t atPeak(int& peak_position) const {
    std::int64_t held = 0;
    std::int64_t peak = 0;
    peak_position = 0;
    for (int position = 0; position <= last_; ++position) {
      held += change_[position];
      if (held + scratch_[position] > peak) {
        peak = held + scratch_[position];
        peak_position = position;
      }
    }
    return peak;
  }

  std::vector<std::pair<ValueIndex, std::int64_t>> alive(int position) const {
    std::vector<std::pair<ValueIndex, std::int64_t>> found;
    for (const Interval& interval : intervals_) {
      if (interval.birth <= position && position <= interval.death && size(interval.value) > 0) {
        found.emplace_back(interval.value, size(interval.value));
      }
    }
    return found;
  }

 private:
  static constexpr int kUnborn = -1;
  struct Interval {
    ValueIndex value;
    int birth;
    int death;
  };

  const JointProgram& program_;
  std::int64_t rounding_;
  int last_;
  std::vector<std::int64_t> change_;
  std::vector<std::int64_t> scratch_;
  std::vector<int> birth_;
  std::vector<int> death_;
  std::vector<Interval> intervals_;
  bool lists_;
};

// A loss: small enough that whether the caller drops it does not matter, and callers keep it.
constexpr std::int64_t kScalarBytes = 8;

}  // namespace

Phases orderPhases(const JointProgram& program, const CheckpointPlan& plan) {
  const std::size_t values = program.values.size();
  AUTOSP_CHECK(plan.saved.size() == values && plan.recomputed.size() == program.ops.size(),
               "the plan is of another program");
  for (std::size_t v = 0; v < values; ++v) {
    AUTOSP_CHECK(!plan.saved[v] || (program.values[v].maker >= 0 &&
                                    program.values[v].base == static_cast<ValueIndex>(v)),
                 "value " + std::to_string(v) + " is an input or a view: neither is saved");
  }

  Phases phases;
  phases.saved.assign(values, 0);
  const std::vector<char> again = neededOps(program, program.gradients, plan.saved, &phases.saved);
  for (std::size_t i = 0; i < again.size(); ++i) {
    AUTOSP_CHECK(!again[i] || program.ops[i].backward || plan.recomputed[i],
                 "the backward needs op " + std::to_string(i) +
                     ": it is not recomputed, nor are its results saved");
  }
  phases.backward = backwardOrder(program, phases.saved, again);

  std::vector<ValueIndex> wanted = program.results;
  for (std::size_t v = 0; v < values; ++v) {
    if (phases.saved[v]) wanted.push_back(static_cast<ValueIndex>(v));
  }
  const std::vector<char> once = neededOps(program, wanted, std::vector<char>(values, 0), nullptr);
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (once[i]) phases.forward.push_back(static_cast<OpIndex>(i));
  }
  return phases;
}

void KernelList::close(OpIndex representative, std::int64_t scratch_bytes) {
  op.push_back(representative);
  scratch.push_back(scratch_bytes);
  touch_begin.push_back(static_cast<int>(touches.size()));
  make_begin.push_back(static_cast<int>(makes.size()));
}

KernelList opKernels(const JointProgram& program, const std::vector<OpIndex>& order) {
  KernelList kernels;
  for (OpIndex i : order) {
    const JointOp& op = program.ops[i];
    for (ValueIndex v : op.reads) kernels.touches.push_back(program.base(v));
    for (ValueIndex v : op.makes) {
      kernels.touches.push_back(program.base(v));
      if (program.base(v) == v) kernels.makes.push_back(v);
    }
    kernels.close(i, op.scratch);
  }
  return kernels;
}

Peak countBytes(const JointProgram& program, const Phases& phases, const KernelList& forward,
                const KernelList& backward, const LivenessSettings& settings) {
  // Positions: the kernels of the forward, the hand-over, the kernels of the backward.
  const int hand_over = forward.size();
  const int positions = hand_over + 1 + backward.size();
  Timeline timeline(program, settings, positions);
  Peak peak;

  timeline.run(forward, 0);
  std::vector<char> is_result(program.values.size(), 0);
  for (ValueIndex v : program.results) is_result[program.base(v)] = 1;
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    const auto v = static_cast<ValueIndex>(i);
    if (!timeline.isAlive(v)) continue;
    const bool held =
        is_result[v] && (settings.results_kept || program.values[v].bytes <= kScalarBytes);
    if (phases.saved[v]) peak.saved += timeline.size(v);
    if (held) {
      timeline.keepUntil(v, timeline.lastPosition());
    } else if (is_result[v] || phases.saved[v]) {
      timeline.keepUntil(v, hand_over - 1);
    }
    if (!phases.saved[v]) timeline.end(v);  // what the backward makes of it is another piece
  }
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    const JointValue& value = program.values[i];
    if (value.tangent && value.base == static_cast<ValueIndex>(i)) {
      timeline.give(static_cast<ValueIndex>(i), hand_over);
    }
  }

  timeline.run(backward, hand_over + 1);
  std::vector<char> is_gradient(program.values.size(), 0);
  for (ValueIndex v : program.gradients) is_gradient[program.base(v)] = 1;
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    const auto v = static_cast<ValueIndex>(i);
    if (!timeline.isAlive(v)) continue;
    const bool is_input = program.values[i].maker < 0;
    if (is_gradient[v] && !is_input) peak.gradients += timeline.size(v);
    if (is_gradient[v]) timeline.keepUntil(v, timeline.lastPosition());
    timeline.end(v);
  }

  int position = 0;
  peak.bytes = timeline.atPeak(position);
  peak.in_backward = position >= hand_over;
  if (position < hand_over) {
    peak.op = forward.op[position];
  } else if (position > hand_over) {
    peak.op = backward.op[position - hand_over - 1];
  }
  if (settings.list_alive) peak.alive = timeline.alive(position);
  return peak;
}

}  // namespace autosp::cost::liveness
