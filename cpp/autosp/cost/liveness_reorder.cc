#include "autosp/cost/liveness_reorder.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>

namespace autosp::cost::liveness {
namespace {

// The kernels as a graph, with buffers numbered densely (memory.py, prepare_planning_info).
class Planner {
 public:
  Planner(const JointProgram& program, const FusedPass& pass, const std::vector<char>& leaves,
          const std::vector<char>& freeable)
      : count_(static_cast<int>(pass.kernels.size())),
        size_(count_, 0),
        reads_(count_),
        makes_(count_),
        before_(count_),
        after_(count_) {
    std::vector<int> buffer_of(program.values.size(), -1);
    auto add = [&](ValueIndex v, int maker) {
      buffer_of[v] = static_cast<int>(bytes_.size());
      bytes_.push_back(program.values[v].bytes);
      maker_.push_back(maker);
      leaves_.push_back(leaves[v]);
      readers_.emplace_back();
    };
    for (int k = 0; k < count_; ++k) {
      for (ValueIndex v : pass.kernels[k].makes) {
        add(v, k);
        makes_[k].push_back(buffer_of[v]);
        size_[k] += bytes_.back();
      }
    }
    for (int k = 0; k < count_; ++k) {
      for (ValueIndex v : pass.kernels[k].reads) {
        if (buffer_of[v] < 0 && freeable[v]) {
          add(v, -1);
          inputs_ += bytes_.back();
        }
        const int b = buffer_of[v];
        if (b < 0) continue;
        reads_[k].push_back(b);
        readers_[b].push_back(k);
        if (maker_[b] >= 0) before_[k].push_back(maker_[b]);
      }
      std::sort(before_[k].begin(), before_[k].end());
      before_[k].erase(std::unique(before_[k].begin(), before_[k].end()), before_[k].end());
      for (int p : before_[k]) after_[p].push_back(k);
    }
  }

  int count() const { return count_; }

  // estimate_peak_memory: what is alive at each position, results and last reads both counted.
  KernelOrder estimate(std::vector<int> order) const {
    std::vector<int> step(count_, 0);
    for (int i = 0; i < count_; ++i) step[order[i]] = i;
    std::vector<std::int64_t> change(count_ + 1, 0);
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
      const int born = maker_[b] < 0 ? 0 : step[maker_[b]];
      change[born] += bytes_[b];
      if (leaves_[b]) continue;
      int last = born;
      for (int k : readers_[b]) last = std::max(last, step[k]);
      change[last + 1] -= bytes_[b];
    }
    KernelOrder result;
    result.memory.resize(count_);
    std::int64_t held = 0;
    for (int i = 0; i < count_; ++i) {
      held += change[i];
      result.memory[i] = held;
      result.peak = std::max(result.peak, held);
    }
    result.order = std::move(order);
    return result;
  }

  // topological_sort_lpmf: the kernel that leaves least memory among those that stay under the peak
  // so far; else the one that needs least.
  std::vector<int> leastPeakFirst() const {
    std::vector<int> missing(count_);
    std::vector<std::int64_t> frees(count_, 0);
    std::vector<int> uses(bytes_.size());
    std::int64_t outputs = 0;
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
      uses[b] = static_cast<int>(readers_[b].size()) + (leaves_[b] ? 1 : 0);
      if (leaves_[b]) outputs += bytes_[b];
    }
    std::vector<int> ready;
    for (int k = 0; k < count_; ++k) {
      missing[k] = static_cast<int>(before_[k].size());
      if (missing[k] == 0) ready.push_back(k);
      for (int b : reads_[k]) {
        if (uses[b] == 1) frees[k] += bytes_[b];
      }
      for (int b : makes_[k]) {
        if (uses[b] == 0) frees[k] += bytes_[b];
      }
    }
    std::int64_t live = inputs_;
    std::int64_t peak = std::max(live, outputs);
    std::int64_t gap = peak - live;
    std::vector<int> order;
    while (!ready.empty()) {
      std::size_t best = 0;
      auto better = [&](int p, int q) {
        const std::int64_t over_p = size_[p] > gap ? size_[p] : 0;
        const std::int64_t over_q = size_[q] > gap ? size_[q] : 0;
        if (over_p != over_q) return over_p < over_q;
        const std::int64_t left_p = size_[p] - frees[p];
        const std::int64_t left_q = size_[q] - frees[q];
        return left_p != left_q ? left_p < left_q : p < q;
      };
      for (std::size_t i = 1; i < ready.size(); ++i) {
        if (better(ready[i], ready[best])) best = i;
      }
      const int k = ready[best];
      ready[best] = ready.back();
      ready.pop_back();
      order.push_back(k);
      live += size_[k];
      peak = std::max(peak, live);
      live -= frees[k];
      gap = peak - live;
      for (int next : after_[k]) {
        if (--missing[next] == 0) ready.push_back(next);
      }
      for (int b : reads_[k]) {
        if (--uses[b] != 1) continue;
        for (int reader : readers_[b]) frees[reader] += bytes_[b];
      }
    }
    return order;
  }

  // topological_sort_bfs: the kernel whose makers ran first, compared as sorted lists.
  std::vector<int> breadthFirst() const {
    std::vector<int> missing(count_);
    std::vector<int> step(count_, -1);
    using Ready = std::pair<std::vector<int>, int>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    auto add = [&](int k) {
      std::vector<int> made_at;
      for (int p : before_[k]) made_at.push_back(step[p]);
      std::sort(made_at.begin(), made_at.end());
      ready.emplace(std::move(made_at), k);
    };
    for (int k = 0; k < count_; ++k) {
      missing[k] = static_cast<int>(before_[k].size());
      if (missing[k] == 0) add(k);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int k = ready.top().second;
      ready.pop();
      step[k] = static_cast<int>(order.size());
      order.push_back(k);
      for (int next : after_[k]) {
        if (--missing[next] == 0) add(next);
      }
    }
    return order;
  }

  // topological_sort_dfs: depth first, from the kernels that touch least memory.
  std::vector<int> depthFirst() const {
    std::vector<std::int64_t> touched = size_;
    for (int k = 0; k < count_; ++k) {
      for (int b : reads_[k]) touched[k] += bytes_[b];
    }
    auto lighter = [&](int p, int q) {
      return touched[p] != touched[q] ? touched[p] < touched[q] : p < q;
    };
    std::vector<int> roots(count_);
    for (int k = 0; k < count_; ++k) roots[k] = k;
    std::sort(roots.begin(), roots.end(), lighter);
    std::vector<std::vector<int>> makers = before_;
    for (std::vector<int>& list : makers) std::sort(list.begin(), list.end(), lighter);
    std::vector<char> seen(count_, 0);
    std::vector<std::pair<int, std::size_t>> stack;
    std::vector<int> order;
    auto visit = [&](int k) {
      if (seen[k]) return;
      seen[k] = 1;
      stack.emplace_back(k, 0);
    };
    for (int root : roots) {
      visit(root);
      while (!stack.empty()) {
        const int k = stack.back().first;
        const std::size_t next = stack.back().second++;
        if (next < makers[k].size()) {
          visit(makers[k][next]);
        } else {
          order.push_back(k);
          stack.pop_back();
        }
      }
    }
    return order;
  }

 private:
  int count_;
  std::vector<std::int64_t> size_;       // by kernel: bytes of its results
  std::vector<std::vector<int>> reads_;  // buffers
  std::vector<std::vector<int>> makes_;
  std::vector<std::vector<int>> before_;  // kernels
  std::vector<std::vector<int>> after_;
  std::vector<std::int64_t> bytes_;  // by buffer
  std::vector<int> maker_;
  std::vector<char> leaves_;
  std::vector<std::vector<int>> readers_;
  std::int64_t inputs_ = 0;
};

}  // namespace

KernelOrder reorderKernels(const JointProgram& program, const FusedPass& pass,
                           const std::vector<char>& leaves, const std::vector<char>& freeable) {
  const Planner planner(program, pass, leaves, freeable);
  std::vector<int> given(planner.count());
  for (int k = 0; k < planner.count(); ++k) given[k] = k;
  KernelOrder best = planner.estimate(std::move(given));
  for (auto sort : {&Planner::leastPeakFirst, &Planner::breadthFirst, &Planner::depthFirst}) {
    std::vector<int> order = (planner.*sort)();
    if (static_cast<int>(order.size()) != planner.count()) continue;
    KernelOrder other = planner.estimate(std::move(order));
    if (other.peak < best.peak) best = std::move(other);
  }
  return best;
}

}  // namespace autosp::cost::liveness
