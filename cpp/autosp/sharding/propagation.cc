#include "autosp/sharding/propagation.h"

#include <algorithm>
#include <cstdlib>

#include "autosp/sharding/attention.h"

namespace autosp::sharding {
bool isAttention(const ir::Op& op) {
  return op.name == "aten.scaled_dot_product_attention.default";
}

RuleCache::RuleCache(const ir::Graph& graph, const RuleTable& table) : rules_(graph.opCount()) {
  for (ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.traits.effect) {
      continue;
    }
    rules_[id.at()] = isAttention(op) ? attentionRule(graph, op) : ruleFor(graph, id, table);
  }
}

CutPropagation::CutPropagation(const ir::Graph& graph, const RuleCache& rules, Through through)
    : graph_(graph),
      rules_(rules),
      through_(through),
      reached_(graph.valueCount()),
      neighbours_(graph.users()),
      forbidden_(graph.valueCount(), 0) {
  for (ir::OpId id : graph.order()) {
    for (ir::ValueId v : graph.op(id).results) {
      neighbours_[v.at()].push_back(id);
    }
  }
}

void CutPropagation::forbid(ir::ValueId value) { forbidden_[value.at()] = 1; }

int CutPropagation::seed(ir::ValueId value, const ir::Cut& cut) {
  const int id = static_cast<int>(parent_.size());
  parent_.push_back(id);
  const auto dim = static_cast<std::size_t>(cut.dim);
  add(value, cut.canonical(graph_.type(value).dim(dim), graph_.ranks), id);
  return id;
}

int CutPropagation::find(int seed) {
  while (parent_[static_cast<std::size_t>(seed)] != seed) {
    int& up = parent_[static_cast<std::size_t>(seed)];
    up = parent_[static_cast<std::size_t>(up)];
    seed = up;
  }
  return seed;
}

int CutPropagation::classOf(int seed) const {
  while (parent_[static_cast<std::size_t>(seed)] != seed) {
    seed = parent_[static_cast<std::size_t>(seed)];
  }
  return seed;
}

bool CutPropagation::has(ir::ValueId value, const ir::Cut& cut) const {
  const auto& list = reached_[value.at()];
  return std::any_of(list.begin(), list.end(), [&](const Reached& r) { return r.cut == cut; });
}

void CutPropagation::add(ir::ValueId value, const ir::Cut& cut, int seed) {
  auto& list = reached_[value.at()];
  int boundaries = 0;
  for (const Reached& r : list) {
    // The same dim seen in the same blocks is the same coordinate, whatever the window.
    if (r.cut.dim == cut.dim && r.cut.outer == cut.outer && r.cut.inner == cut.inner) {
      const int a = find(r.seed);
      const int b = find(seed);
      parent_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
      ++boundaries;
      if (r.cut == cut) {
        return;
      }
    }
  }
  if (boundaries >= (graph_.value(value).requires_grad ? 1 : 2)) {
    return;
  }
  list.push_back({cut, seed});
  work_[std::abs(cut.shift)].push_back({value, cut, seed});
}

void CutPropagation::run() {
  while (!work_.empty()) {
    const auto nearest = work_.begin();
    const Work item = nearest->second.front();
    nearest->second.pop_front();
    if (nearest->second.empty()) {
      work_.erase(nearest);
    }
    for (ir::OpId op : neighbours_[item.value.at()]) {
      step(op, item.value, item.cut, item.seed);
    }
  }
}

void CutPropagation::step(ir::OpId id, ir::ValueId value, const ir::Cut& cut, int seed) {
  const std::optional<OpRule>& rule = rules_.rule(id);
  if (!rule) {
    return;
  }
  const ir::Op& op = graph_.op(id);
  const std::vector<ir::ValueId> operands = op.operands();
  auto project = [&](const std::vector<TensorMap>& maps, const std::vector<ir::ValueId>& values,
                     std::vector<FactorCut>& out) {
    for (std::size_t i = 0; i < values.size() && i < maps.size(); ++i) {
      const auto dim = static_cast<std::size_t>(cut.dim);
      if (values[i] != value || dim >= maps[i].size()) {
        continue;
      }
      auto found = projectToFactor(*rule, maps[i][dim], graph_.type(value).dim(dim), cut,
                                   graph_.ranks);
      if (found && std::find(out.begin(), out.end(), *found) == out.end()) {
        out.push_back(*found);
      }
    }
  };
  std::vector<FactorCut> factors;
  project(rule->operands, operands, factors);
  project(rule->results, op.results, factors);
  for (const FactorCut& factor : factors) {
    const FactorKind kind = rule->factors[static_cast<std::size_t>(factor.factor)].kind;
    if (through_ == Through::kCutFactors && kind == FactorKind::kWhole) {
      continue;
    }
    std::vector<std::pair<ir::ValueId, ir::Cut>> next;
    bool allowed = true;
    auto visit = [&](const std::vector<TensorMap>& maps, const std::vector<ir::ValueId>& values) {
      for (std::size_t i = 0; i < values.size() && i < maps.size(); ++i) {
        for (std::size_t d = 0; d < maps[i].size(); ++d) {
          auto there = projectToDim(*rule, maps[i], d, graph_.type(values[i]).dim(d), factor,
                                    graph_.ranks);
          if (there) {
            allowed &= forbidden_[values[i].at()] == 0;
            next.emplace_back(values[i], *there);
          }
        }
      }
    };
    visit(rule->operands, operands);
    visit(rule->results, op.results);
    if (!allowed) {
      continue;
    }
    for (const auto& [v, c] : next) {
      add(v, c, seed);
    }
  }
}

}  // namespace autosp::sharding
