// The dynamic program over needed values, with lists of undominated partial decisions.
#include "autosp/checkpoint/budget_search.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "autosp/support/check.h"

namespace autosp::checkpoint {
namespace {

using cost::JointOp;
using cost::OpIndex;
using cost::ValueIndex;
using Sum = MaxFlow::Capacity;

// A partial decision. `trace` is the last op that it keeps by choice, as an index into the traces.
struct Label {
  std::int64_t bytes = 0, time = 0;
  std::int32_t trace = -1;
};
struct Trace {
  std::int32_t before;
  OpIndex op;
};
using Labels = std::vector<Label>;      // bytes ascending, time descending
using State = std::vector<ValueIndex>;  // ascending: needed, and the maker is still to come
using States = std::map<State, Labels>;

// Both lists together without what another label dominates; of equal ones the first list's stays.
Labels merged(const Labels& a, const Labels& b) {
  Labels out;
  out.reserve(a.size() + b.size());
  auto add = [&](const Label& label) {
    if (out.empty() || label.time < out.back().time) out.push_back(label);
  };
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool first =
        j == b.size() || (i < a.size() && (a[i].bytes < b[j].bytes ||
                                           (a[i].bytes == b[j].bytes && a[i].time <= b[j].time)));
    add(first ? a[i++] : b[j++]);
  }
  return out;
}

class Search {
 public:
  Search(const RecomputeChoices& choices, const std::vector<char>& low,
         const std::vector<char>& high, const BudgetQuestion& question)
      : choices_(choices),
        low_(low),
        high_(high),
        question_(question),
        may_need_(choices.needed(low)),
        always_needed_(choices.needed(high)) {
    for (std::size_t v = 0; v < may_need_.size(); ++v) {
      if (always_needed_[v]) may_need_[v] = 0;
    }
    gap_ = weigh({question.budget, question.incumbent.time}) - weigh(question.on_hull);
  }

  BudgetAnswer run() {
    BudgetAnswer answer;
    if (gap_ <= 0) {  // the incumbent is on the hull
      answer.complete = true;
      return answer;
    }
    States states{{State{}, Labels{Label{}}}};
    for (OpIndex o = static_cast<OpIndex>(choices_.program().ops.size()) - 1; o >= 0; --o) {
      if (!choices_.isUseful(o)) continue;
      if (isSettled(o)) {
        if (addSettledCost(o)) continue;
        answer.complete = true;  // no decision between low and high is legal
        return answer;
      }
      states = past(o, states);
      for (const auto& [state, labels] : states) work_ += 1 + labels.size();
      if (work_ > question_.most_work) return answer;
    }
    answer.complete = true;
    AUTOSP_CHECK(states.size() <= 1, "a value is needed and nothing makes it");
    for (const auto& [state, labels] : states) {
      for (const Label& label : labels) {  // the last within the budget is the fastest
        const CheckpointCost cost{settled_.bytes + label.bytes, settled_.time + label.time};
        if (cost.bytes > question_.budget || cost.time >= question_.incumbent.time) continue;
        answer.cost = cost;
        answer.kept = keptBy(label);
      }
    }
    return answer;
  }

 private:
  Sum weigh(CheckpointCost cost) const {
    return Sum{question_.weights.bytes} * cost.bytes + Sum{question_.weights.time} * cost.time;
  }

  bool isChoice(OpIndex o) const { return high_[o] && !low_[o]; }

  // Whether op and results are the same in every decision between low and high.
  bool isSettled(OpIndex o) const {
    const JointOp& op = choices_.program().ops[o];
    bool always = false;
    for (ValueIndex v : op.makes) {
      if (may_need_[v]) return false;
      always |= always_needed_[v] != 0;
    }
    return !always || !isChoice(o);
  }

  // Whether it is legal.
  bool addSettledCost(OpIndex o) {
    const JointOp& op = choices_.program().ops[o];
    bool needed = false;
    for (ValueIndex v : op.makes) {
      if (!always_needed_[v]) continue;
      needed = true;
      if (!low_[o]) continue;
      if (!choices_.maySave(v)) return false;
      settled_.bytes += choices_.bytes(v);
    }
    if (needed && !low_[o]) settled_.time += op.time;
    return true;
  }

  // The states once op o is decided, with the labels that can still beat the incumbent.
  States past(OpIndex o, States& states) {
    const JointOp& op = choices_.program().ops[o];
    States next;
    for (auto& [state, labels] : states) {
      State rest = state;
      bool needed = false, may_keep = high_[o] != 0;
      std::int64_t bytes = 0;
      for (ValueIndex v : op.makes) {
        const auto place = std::lower_bound(rest.begin(), rest.end(), v);
        const bool in_state = place != rest.end() && *place == v;
        if (in_state) rest.erase(place);
        if (!in_state && !always_needed_[v]) continue;
        needed = true;
        bytes += choices_.bytes(v);
        may_keep = may_keep && choices_.maySave(v);
      }
      if (!needed) {
        add(next, std::move(rest), std::move(labels));
        continue;
      }
      const bool may_run = !low_[o];
      if (may_keep) {
        Labels keep = labels;
        for (Label& label : keep) {
          label.bytes += bytes;
          if (!may_run) continue;
          traces_.push_back({label.trace, o});
          label.trace = static_cast<std::int32_t>(traces_.size()) - 1;
        }
        add(next, rest, std::move(keep));
      }
      if (may_run) {
        for (ValueIndex v : op.reads) {
          const auto place = std::lower_bound(rest.begin(), rest.end(), v);
          if (may_need_[v] && (place == rest.end() || *place != v)) rest.insert(place, v);
        }
        for (Label& label : labels) label.time += op.time;
        add(next, std::move(rest), std::move(labels));
      }
    }
    for (auto& [state, labels] : next) prune(labels);
    std::erase_if(next, [](const auto& entry) { return entry.second.empty(); });
    return next;
  }

  static void add(States& states, State state, Labels labels) {
    const auto [entry, is_new] = states.try_emplace(std::move(state));
    entry->second = is_new ? std::move(labels) : merged(entry->second, labels);
  }

  void prune(Labels& labels) const {
    Sum least = MaxFlow::kInfinite;
    for (const Label& label : labels) least = std::min(least, weigh({label.bytes, label.time}));
    std::erase_if(labels, [&](const Label& label) {
      return label.bytes > question_.budget || label.time >= question_.incumbent.time ||
             weigh({label.bytes, label.time}) - least >= gap_;
    });
  }

  std::vector<char> keptBy(const Label& label) const {
    std::vector<char> kept = low_;
    for (std::int32_t t = label.trace; t >= 0; t = traces_[t].before) kept[traces_[t].op] = 1;
    return kept;
  }

  const RecomputeChoices& choices_;
  const std::vector<char>& low_;
  const std::vector<char>& high_;
  const BudgetQuestion& question_;
  std::vector<char> may_need_;       // by value: needed or not, depending on the decision
  std::vector<char> always_needed_;  // by value: whatever the decision
  Sum gap_ = 0;
  CheckpointCost settled_;  // of what every decision has in common
  std::vector<Trace> traces_;
  std::int64_t work_ = 0;
};

}  // namespace

BudgetAnswer fastestBetween(const RecomputeChoices& choices, const std::vector<char>& low,
                            const std::vector<char>& high, const BudgetQuestion& question) {
  return Search(choices, low, high, question).run();
}

}  // namespace autosp::checkpoint
