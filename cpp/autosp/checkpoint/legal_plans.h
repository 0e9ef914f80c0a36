// Every legal plan of a small program, by trying all sets of ops to run again: what the algorithms
// of this layer are tested against. Shares no code with them.
#pragma once

#include <cstdint>
#include <vector>

#include "autosp/checkpoint/recompute_choices.h"
#include "autosp/cost/joint_program.h"

namespace autosp::checkpoint::samples {

struct LegalPlan {
  std::vector<char> recomputed;  // by op
  std::vector<char> saved;       // by value: what is needed and not made again, no more
  CheckpointCost cost;
};

inline bool isMadeByForward(const cost::JointProgram& p, cost::ValueIndex v) {
  const cost::OpIndex maker = p.values[v].maker;
  return maker >= 0 && !p.ops[maker].backward;
}

// Fills in `saved` and the cost for plan.recomputed; whether that is legal but for bans and
// Demand::kSave.
inline bool completePlan(const cost::JointProgram& p, const CheckpointRules& rules,
                         LegalPlan& plan) {
  std::vector<char> needed(p.values.size(), 0);
  for (std::size_t o = 0; o < p.ops.size(); ++o) {
    if (!p.ops[o].backward && !plan.recomputed[o]) continue;
    if (p.ops[o].once && plan.recomputed[o]) return false;
    if (plan.recomputed[o]) plan.cost.time += p.ops[o].time;
    for (cost::ValueIndex v : p.ops[o].reads) needed[v] = 1;
  }
  for (cost::ValueIndex v : p.gradients) needed[v] = 1;
  plan.saved.assign(p.values.size(), 0);
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    const auto v = static_cast<cost::ValueIndex>(i);
    if (!needed[v] || !isMadeByForward(p, v) || plan.recomputed[p.values[v].maker]) continue;
    if (p.base(v) != v) return false;
    if (p.ops[p.values[v].maker].demand == cost::Demand::kRecompute) return false;
    plan.saved[v] = 1;
    bool is_free = false;
    for (cost::ValueIndex r : p.results) is_free |= rules.results_kept && p.base(r) == v;
    if (!is_free) plan.cost.bytes += p.values[v].bytes;
  }
  return true;
}

// Ops of the forward first, at most 16 of them.
inline std::vector<LegalPlan> allLegalPlans(const cost::JointProgram& p,
                                            const CheckpointRules& rules) {
  std::size_t forward = 0;
  while (forward < p.ops.size() && !p.ops[forward].backward) ++forward;
  std::vector<LegalPlan> plans;
  std::vector<char> in_all(p.ops.size(), 1);
  for (unsigned set = 0; set < 1U << forward; ++set) {
    LegalPlan plan;
    plan.recomputed.assign(p.ops.size(), 0);
    for (std::size_t o = 0; o < forward; ++o) plan.recomputed[o] = set >> o & 1;
    if (!completePlan(p, rules, plan)) continue;
    for (std::size_t o = 0; o < p.ops.size(); ++o) in_all[o] &= plan.recomputed[o];
    plans.push_back(plan);
  }
  std::vector<char> banned(p.ops.size(), 0);
  for (std::size_t o = 0; o < forward; ++o) {
    const bool ban = !rules.banned.empty() && rules.banned[o];
    if (!ban && p.ops[o].demand != cost::Demand::kSave) continue;
    for (cost::ValueIndex v : p.ops[o].makes) {
      const cost::ValueIndex base = p.base(v);
      if (!isMadeByForward(p, base)) continue;
      const cost::OpIndex maker = p.values[base].maker;
      banned[maker] = !in_all[maker] && p.ops[maker].demand != cost::Demand::kRecompute;
    }
  }
  std::erase_if(plans, [&](const LegalPlan& plan) {
    for (std::size_t o = 0; o < forward; ++o) {
      if (banned[o] && plan.recomputed[o]) return true;
    }
    return false;
  });
  return plans;
}

}  // namespace autosp::checkpoint::samples
