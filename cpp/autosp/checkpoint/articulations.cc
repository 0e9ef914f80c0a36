// Articulations by one sweep: an activation is one when no edge between activations passes over it.
#include "autosp/checkpoint/articulations.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace autosp::checkpoint {
namespace {

using cost::JointOp;
using cost::JointProgram;
using cost::OpClass;
using cost::OpIndex;
using cost::ValueIndex;

// By value, of those that own memory; views say what their base says.
struct Activations {
  std::vector<char> is;
  std::vector<ValueIndex> order;  // of the program
};

// By value: made by the forward and dependent on a parameter and on data.
std::vector<char> dependentOnBoth(const JointProgram& program) {
  constexpr char kParameter = 1, kData = 2, kBoth = 3;
  std::vector<char> on(program.values.size(), 0);
  for (std::size_t v = 0; v < on.size(); ++v) {
    const auto& value = program.values[v];
    if (value.maker >= 0) continue;
    on[v] = static_cast<char>((value.parameter ? kParameter : 0) | (value.data ? kData : 0));
  }
  for (const JointOp& op : program.ops) {
    if (op.backward) continue;
    char any = 0;
    for (ValueIndex v : op.reads) any = static_cast<char>(any | on[v]);
    for (ValueIndex v : op.makes) on[v] = any;
  }
  for (std::size_t v = 0; v < on.size(); ++v)
    on[v] = on[v] == kBoth && program.values[v].maker >= 0;
  return on;
}

Activations findActivations(const JointProgram& program) {
  const std::vector<char> dependent = dependentOnBoth(program);
  auto owns = [&](ValueIndex v) { return program.base(v) == v; };
  std::vector<char> is_read(program.values.size(), 0);  // by an op that makes a dependent value
  for (const JointOp& op : program.ops) {
    if (op.backward) continue;
    const bool makes = std::any_of(op.makes.begin(), op.makes.end(),
                                   [&](ValueIndex v) { return owns(v) && dependent[v]; });
    if (!makes) continue;
    for (ValueIndex v : op.reads) is_read[program.base(v)] = 1;
  }
  Activations activations;
  activations.is.assign(program.values.size(), 0);
  for (ValueIndex r : program.results) {
    const ValueIndex v = program.base(r);
    activations.is[v] = dependent[v] && !is_read[v];
  }
  for (std::size_t o = program.ops.size(); o-- > 0;) {
    const JointOp& op = program.ops[o];
    if (op.backward) continue;
    bool leads_on = false;
    for (std::size_t i = op.makes.size(); i-- > 0;) {
      const ValueIndex v = op.makes[i];
      if (!owns(v) || !activations.is[v]) continue;
      leads_on = true;
      activations.order.push_back(v);
    }
    if (!leads_on) continue;
    for (ValueIndex v : op.reads) {
      if (dependent[program.base(v)]) activations.is[program.base(v)] = 1;
    }
  }
  std::reverse(activations.order.begin(), activations.order.end());
  return activations;
}

std::vector<OpIndex> attentionOps(const JointProgram& program) {
  std::vector<OpIndex> out;
  for (std::size_t o = 0; o < program.ops.size(); ++o) {
    if (program.ops[o].kind == OpClass::kAttention && !program.ops[o].backward) {
      out.push_back(static_cast<OpIndex>(o));
    }
  }
  return out;
}

}  // namespace

std::vector<ValueIndex> allArticulations(const JointProgram& program) {
  const Activations activations = findActivations(program);
  const std::size_t count = activations.order.size();
  std::vector<std::size_t> position(program.values.size(), count);
  for (std::size_t i = 0; i < count; ++i) position[activations.order[i]] = i;

  std::vector<std::size_t> farthest(count, 0);  // the last position that reads each
  std::vector<int> readers(count, 0);
  std::vector<std::vector<std::size_t>> converted(
      count);  // what elementwise ops make of each alone
  for (const JointOp& op : program.ops) {
    if (op.backward) continue;
    std::size_t last = count;
    for (ValueIndex v : op.makes) {
      if (position[v] < count) last = position[v];
    }
    if (last == count) continue;
    std::vector<std::size_t> reads;
    for (ValueIndex v : op.reads) {
      const std::size_t read = position[program.base(v)];
      if (read < count) reads.push_back(read);
    }
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    const bool conversion = op.kind == OpClass::kPointwise && op.reads.size() == 1;
    for (std::size_t read : reads) {
      if (conversion) {
        converted[read].push_back(last);
      } else {
        ++readers[read];
      }
      farthest[read] = std::max(farthest[read], last);
    }
  }
  for (std::size_t i = count; i-- > 0;) {
    for (std::size_t made : converted[i]) readers[i] += std::max(1, readers[made]);
  }
  std::vector<ValueIndex> out;
  std::size_t reach = 0;  // the last position that reads an earlier activation
  for (std::size_t i = 0; i < count; ++i) {
    if (reach <= i && readers[i] >= 2) out.push_back(activations.order[i]);
    reach = std::max(reach, farthest[i]);
  }
  return out;
}

std::vector<ValueIndex> articulations(const JointProgram& program) {
  const std::vector<OpIndex> attention = attentionOps(program);
  const std::vector<ValueIndex> all = allArticulations(program);
  auto segment = [&](ValueIndex v) {  // how many attention ops come before it
    const auto after =
        std::upper_bound(attention.begin(), attention.end(), program.values[v].maker);
    return static_cast<std::size_t>(after - attention.begin());
  };
  std::vector<std::int64_t> fewest(attention.size() + 1, std::numeric_limits<std::int64_t>::max());
  for (ValueIndex v : all) {
    std::int64_t& bytes = fewest[segment(v)];
    bytes = std::min(bytes, program.values[v].bytes);
  }
  std::vector<ValueIndex> out;
  for (ValueIndex v : all) {
    if (program.values[v].bytes == fewest[segment(v)]) out.push_back(v);
  }
  return out;
}

std::vector<ValueIndex> layerInputs(const JointProgram& program,
                                    const std::vector<ValueIndex>& boundaries) {
  std::vector<ValueIndex> out;
  for (OpIndex attention : attentionOps(program)) {
    ValueIndex last = -1;
    for (ValueIndex v : boundaries) {
      if (program.values[v].maker < attention) last = v;
    }
    out.push_back(last);
  }
  return out;
}

}  // namespace autosp::checkpoint
