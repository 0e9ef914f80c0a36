// Greedy elimination orders, by a queue of scores in which outdated entries are skipped.
#include "autosp/sharding/elimination_order.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace autosp::sharding::elimination {
namespace {

class OrderBuilder {
 public:
  OrderBuilder(const std::vector<int>& domain, const std::vector<std::pair<int, int>>& edges,
               OrderRule rule)
      : domain_(domain),
        rule_(rule),
        neighbours_(domain.size()),
        key_(domain.size(), kTaken),
        marked_(domain.size(), false) {
    for (auto [a, b] : edges) {
      neighbours_[a].push_back(b);
      neighbours_[b].push_back(a);
    }
    for (auto& list : neighbours_) std::sort(list.begin(), list.end());
    for (int v = 0; v < static_cast<int>(domain.size()); ++v) enqueue(v);
  }

  std::vector<int> build() {
    std::vector<int> order;
    order.reserve(domain_.size());
    while (!queue_.empty()) {
      const Key key = queue_.top();
      queue_.pop();
      const int v = std::get<2>(key);
      if (key != key_[v]) continue;
      key_[v] = kTaken;
      order.push_back(v);
      eliminate(v);
    }
    return order;
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, int>;  // score, entries of the table, id
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  static constexpr Key kTaken{-1, -1, -1};

  bool adjacent(int a, int b) const {
    const bool a_shorter = neighbours_[a].size() < neighbours_[b].size();
    const auto& shorter = neighbours_[a_shorter ? a : b];
    return std::binary_search(shorter.begin(), shorter.end(), a_shorter ? b : a);
  }

  std::int64_t score(int v) const {
    const auto& around = neighbours_[v];
    if (rule_ == OrderRule::kMinDegree) return static_cast<std::int64_t>(around.size());
    if (around.size() > kHubDegree) return kMost;
    std::int64_t missing = 0;
    for (std::size_t i = 0; i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j)
        missing += !adjacent(around[i], around[j]);
    }
    return missing;
  }

  std::int64_t entries(int v) const {
    std::int64_t product = domain_[v];
    for (int n : neighbours_[v]) {
      if (product > kMost / domain_[n]) return kMost;
      product *= domain_[n];
    }
    return product;
  }

  void enqueue(int v) {
    const Key key{score(v), entries(v), v};
    if (key == key_[v]) return;
    key_[v] = key;
    queue_.push(key);
  }

  void mark(int v) {
    if (marked_[v]) return;
    marked_[v] = true;
    outdated_.push_back(v);
  }

  // Joins a and b, whose other neighbours then lack one edge less.
  void connect(int a, int b) {
    auto insert = [](std::vector<int>& list, int v) {
      list.insert(std::lower_bound(list.begin(), list.end(), v), v);
    };
    insert(neighbours_[a], b);
    insert(neighbours_[b], a);
    if (rule_ == OrderRule::kMinDegree) return;
    if (neighbours_[a].size() > neighbours_[b].size()) std::swap(a, b);
    for (int c : neighbours_[a]) {
      if (adjacent(b, c)) mark(c);
    }
  }

  void eliminate(int v) {
    const std::vector<int> around = std::move(neighbours_[v]);
    for (int n : around) {
      auto& list = neighbours_[n];
      list.erase(std::lower_bound(list.begin(), list.end(), v));
      mark(n);
    }
    for (std::size_t i = 0; i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j) {
        if (!adjacent(around[i], around[j])) connect(around[i], around[j]);
      }
    }
    for (int n : outdated_) {
      marked_[n] = false;
      enqueue(n);
    }
    outdated_.clear();
  }

  const std::vector<int>& domain_;
  const OrderRule rule_;
  std::vector<std::vector<int>> neighbours_;  // sorted; variables taken are absent
  std::vector<Key> key_;                      // the queue entry that counts, per variable
  std::vector<char> marked_;
  std::vector<int> outdated_;  // variables whose score must be found again
  std::priority_queue<Key, std::vector<Key>, std::greater<Key>> queue_;
};

}  // namespace

std::vector<int> eliminationOrder(const std::vector<int>& domain,
                                  const std::vector<std::pair<int, int>>& edges, OrderRule rule) {
  return OrderBuilder(domain, edges, rule).build();
}

}  // namespace autosp::sharding::elimination
