// Narrowing of the set of optima to its lexicographically first member.
#include "autosp/sharding/optimum_set.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace autosp::sharding::elimination {
namespace {

// An assignment of a bucket's scope that some optimum has.
struct Slot {
  std::size_t position = 0;  // row-major in the scope's domains
  int first_choice = 0;      // its choices are contiguous
  int last_choice = 0;       // one past the last
  int open = 0;              // choices not removed
  int reached_by = 0;        // choices of the parent bucket, not removed, that lead here
  int first_link = -1;       // list of all choices of the parent that lead here
};

// A slot with a state of the bucket's own variable.
struct Choice {
  int slot = 0;
  int state = 0;
  bool removed = false;
};

// The slot of one child that a choice leads to.
struct Link {
  int slot = 0;
  int next = -1;  // choice of the same bucket that leads to the same slot
};

struct Relation {
  std::vector<Slot> slots;  // by position
  std::vector<Choice> choices;
  std::vector<int> children;
  std::vector<std::vector<Link>> links;  // per child, per choice
  std::vector<int> open_with;            // per state, the choices not removed
};

class OptimumSet {
 public:
  explicit OptimumSet(const BucketTree& tree)
      : tree_(tree), relations_(tree.size()), index_in_parent_(tree.size()) {
    for (int v = 0; v < tree.size(); ++v) {
      if (isRoot(v)) {
        relations_[v].slots.push_back({});
      } else {
        addSlotsBelow(parent(v), v);
      }
      addChoices(v);
    }
  }

  // The lowest state that v has in an optimum.
  int lowestState(int v) const {
    const auto& open_with = relations_[v].open_with;
    return static_cast<int>(
        std::find_if(open_with.begin(), open_with.end(), [](int open) { return open > 0; }) -
        open_with.begin());
  }

  // Keeps the optima in which v has this state.
  void keep(int v, int state) {
    for (std::size_t c = 0; c < relations_[v].choices.size(); ++c) {
      if (relations_[v].choices[c].state != state) remove(v, static_cast<int>(c));
    }
    while (!removed_.empty()) {
      auto [bucket, choice] = removed_.back();
      removed_.pop_back();
      removeDependents(bucket, choice);
    }
  }

 private:
  bool isRoot(int v) const { return tree_.bucket(v).scope.empty(); }
  int parent(int v) const { return tree_.bucket(v).scope.back(); }

  // Gives v a slot for each assignment of its scope that the choices of bucket `above` lead to.
  void addSlotsBelow(int above, int v) {
    Relation& upper = relations_[above];
    std::vector<Slot>& slots = relations_[v].slots;
    index_in_parent_[v] = static_cast<int>(upper.children.size());
    upper.children.push_back(v);
    std::vector<std::size_t> base;
    for (const Slot& slot : upper.slots) base.push_back(project(above, slot.position, v));
    std::vector<std::size_t> reached;
    for (const Choice& choice : upper.choices) reached.push_back(base[choice.slot] + choice.state);
    std::vector<std::size_t> positions = reached;
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    for (std::size_t position : positions) slots.push_back({.position = position});
    std::vector<Link>& links = upper.links.emplace_back(upper.choices.size());
    for (std::size_t c = 0; c < reached.size(); ++c) {
      const auto at = std::lower_bound(positions.begin(), positions.end(), reached[c]);
      links[c].slot = static_cast<int>(at - positions.begin());
      Slot& slot = slots[links[c].slot];
      ++slot.reached_by;
      links[c].next = std::exchange(slot.first_link, static_cast<int>(c));
    }
  }

  // Position in v's scope when bucket `above`, its parent, is in state 0 at this position. The
  // scope of v is some of the parent's scope and, last and thus fastest, the parent itself.
  std::size_t project(int above, std::size_t position, int v) const {
    const std::vector<int>& outer = tree_.bucket(above).scope;
    const std::vector<int>& scope = tree_.bucket(v).scope;
    std::size_t projected = 0;
    std::size_t stride = tree_.domain(above);
    std::size_t left = scope.size() - 1;
    for (std::size_t i = outer.size(); i-- > 0 && left > 0;) {
      const std::size_t domain = tree_.domain(outer[i]);
      if (scope[left - 1] == outer[i]) {
        projected += position % domain * stride;
        stride *= domain;
        --left;
      }
      position /= domain;
    }
    return projected;
  }

  void addChoices(int v) {
    Relation& relation = relations_[v];
    relation.open_with.resize(tree_.domain(v));
    for (std::size_t s = 0; s < relation.slots.size(); ++s) {
      Slot& slot = relation.slots[s];
      slot.first_choice = static_cast<int>(relation.choices.size());
      for (int state : tree_.optimalStates(v, slot.position)) {
        relation.choices.push_back({static_cast<int>(s), state});
        ++relation.open_with[state];
        ++slot.open;
      }
      slot.last_choice = static_cast<int>(relation.choices.size());
    }
  }

  void remove(int v, int c) {
    Choice& choice = relations_[v].choices[c];
    if (choice.removed) return;
    choice.removed = true;
    --relations_[v].open_with[choice.state];
    removed_.emplace_back(v, c);
  }

  // A slot without choices closes those that lead to it; a slot nothing leads to loses its choices.
  void removeDependents(int v, int c) {
    Relation& relation = relations_[v];
    Slot& slot = relation.slots[relation.choices[c].slot];
    if (--slot.open == 0 && !isRoot(v)) {
      const auto& links = relations_[parent(v)].links[index_in_parent_[v]];
      for (int up = slot.first_link; up >= 0; up = links[up].next) remove(parent(v), up);
    }
    for (std::size_t i = 0; i < relation.children.size(); ++i) {
      const int child = relation.children[i];
      Slot& below = relations_[child].slots[relation.links[i][c].slot];
      if (--below.reached_by > 0) continue;
      for (int down = below.first_choice; down < below.last_choice; ++down) remove(child, down);
    }
  }

  const BucketTree& tree_;
  std::vector<Relation> relations_;           // per rank
  std::vector<int> index_in_parent_;          // of a rank among its parent's children
  std::vector<std::pair<int, int>> removed_;  // (rank, choice) whose dependents are to be seen
};

}  // namespace

std::vector<int> firstOptimum(const BucketTree& tree, const std::vector<int>& ranks_by_id) {
  OptimumSet optima(tree);
  std::vector<int> state(tree.size());
  for (int v : ranks_by_id) {
    state[v] = optima.lowestState(v);
    optima.keep(v, state[v]);
  }
  return state;
}

}  // namespace autosp::sharding::elimination
