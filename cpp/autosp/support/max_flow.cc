// Dinic's algorithm with distances measured to the sink; the components of the residual network.
#include "autosp/support/max_flow.h"

#include <algorithm>

#include "autosp/support/check.h"

namespace autosp {
namespace {

// No finite residual capacity reaches this, and no infinite arc falls below it.
constexpr MaxFlow::Capacity kUnbounded = MaxFlow::Capacity{1} << 125;

}  // namespace

MaxFlow::MaxFlow(int nodes, int source, int sink) : nodes_(nodes), source_(source), sink_(sink) {
  AUTOSP_CHECK(source >= 0 && source < nodes && sink >= 0 && sink < nodes && source != sink,
               "a network has a source and another node as sink");
}

int MaxFlow::addArc(int from, int to, Capacity capacity) {
  AUTOSP_CHECK(from >= 0 && from < nodes_ && to >= 0 && to < nodes_, "an arc joins known nodes");
  AUTOSP_CHECK(first_.empty(), "arcs are added before the first solve");
  AUTOSP_CHECK(capacity >= 0, "no capacity is negative");
  capacity_.push_back(capacity);
  arcs_.push_back({to, 0});
  arcs_.push_back({from, 0});
  return static_cast<int>(capacity_.size()) - 1;
}

void MaxFlow::setCapacity(int arc, Capacity capacity) {
  AUTOSP_CHECK(capacity >= 0, "no capacity is negative");
  capacity_.at(static_cast<std::size_t>(arc)) = capacity;
  solved_ = false;
}

void MaxFlow::indexArcs() {
  first_.assign(static_cast<std::size_t>(nodes_) + 1, 0);
  const int ends = static_cast<int>(arcs_.size());
  for (int e = 0; e < ends; ++e) ++first_[arcs_[e ^ 1].to + 1];
  for (int v = 0; v < nodes_; ++v) first_[v + 1] += first_[v];
  out_.resize(arcs_.size());
  std::vector<int> next(first_.begin(), first_.end() - 1);
  for (int e = 0; e < ends; ++e) out_[next[arcs_[e ^ 1].to]++] = e;
}

bool MaxFlow::layer() {
  distance_.assign(nodes_, -1);
  distance_[sink_] = 0;
  queue_.assign(1, sink_);
  for (std::size_t head = 0; head < queue_.size() && distance_[source_] < 0; ++head) {
    const int v = queue_[head];
    for (int i = first_[v]; i < first_[v + 1]; ++i) {
      const int u = arcs_[out_[i]].to;
      if (distance_[u] < 0 && arcs_[out_[i] ^ 1].residual > 0) {
        distance_[u] = distance_[v] + 1;
        queue_.push_back(u);
      }
    }
  }
  return distance_[source_] >= 0;
}

bool MaxFlow::augmentLayers() {
  current_.assign(first_.begin(), first_.end() - 1);
  std::vector<int> path;  // arcs from the source to v
  int v = source_;
  while (true) {
    if (v == sink_) {
      Capacity amount = kInfinite;
      for (int e : path) amount = std::min(amount, arcs_[e].residual);
      if (amount >= kUnbounded) return false;
      std::size_t full = path.size();
      for (std::size_t k = path.size(); k-- > 0;) {
        arcs_[path[k]].residual -= amount;
        arcs_[path[k] ^ 1].residual += amount;
        if (arcs_[path[k]].residual == 0) full = k;
      }
      value_ += amount;
      v = arcs_[path[full] ^ 1].to;
      path.resize(full);
      continue;
    }
    int& i = current_[v];
    for (; i < first_[v + 1]; ++i) {
      const Arc& arc = arcs_[out_[i]];
      if (arc.residual > 0 && distance_[arc.to] == distance_[v] - 1) break;
    }
    if (i < first_[v + 1]) {
      path.push_back(out_[i]);
      v = arcs_[out_[i]].to;
    } else {
      if (v == source_) return true;
      v = arcs_[path.back() ^ 1].to;
      path.pop_back();
      ++current_[v];
    }
  }
}

MaxFlow::Capacity MaxFlow::solve() {
  if (first_.empty()) indexArcs();
  Capacity total = 0;
  for (std::size_t a = 0; a < capacity_.size(); ++a) {
    if (capacity_[a] < kInfinite) total += capacity_[a];
    AUTOSP_CHECK(total < kLargestTotal, "the finite capacities add up to too much");
    arcs_[2 * a].residual = std::min(capacity_[a], kInfinite);
    arcs_[2 * a + 1].residual = 0;
  }
  value_ = 0;
  solved_ = false;
  while (layer()) {
    if (!augmentLayers()) return kInfinite;
  }
  solved_ = true;
  return value_;
}

void MaxFlow::checkSolved() const {
  AUTOSP_CHECK(solved_, "minimum cuts are asked of a solved network whose value is finite");
}

std::vector<char> MaxFlow::minimalSourceSide() const {
  checkSolved();
  std::vector<char> side(static_cast<std::size_t>(nodes_), 0);
  std::vector<int> queue{source_};
  side[source_] = 1;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const int v = queue[head];
    for (int i = first_[v]; i < first_[v + 1]; ++i) {
      const Arc& arc = arcs_[out_[i]];
      if (arc.residual > 0 && !side[arc.to]) {
        side[arc.to] = 1;
        queue.push_back(arc.to);
      }
    }
  }
  return side;
}

std::vector<char> MaxFlow::maximalSourceSide() const {
  checkSolved();
  std::vector<char> side(static_cast<std::size_t>(nodes_), 1);
  std::vector<int> queue{sink_};
  side[sink_] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const int v = queue[head];
    for (int i = first_[v]; i < first_[v + 1]; ++i) {
      const int u = arcs_[out_[i]].to;
      if (side[u] && arcs_[out_[i] ^ 1].residual > 0) {
        side[u] = 0;
        queue.push_back(u);
      }
    }
  }
  return side;
}

// Tarjan's components (1972), without recursion, of the nodes that minimum cuts disagree on. They
// come out successors first, which is the order in which a closed set can grow.
std::vector<std::vector<int>> MaxFlow::minimumCutChain() const {
  const std::vector<char> smallest = minimalSourceSide();
  const std::vector<char> largest = maximalSourceSide();
  std::vector<std::vector<int>> groups(1);
  std::vector<int> number(static_cast<std::size_t>(nodes_), -1);  // of the visit; nodes_ once done
  std::vector<int> low(static_cast<std::size_t>(nodes_), 0);
  for (int v = 0; v < nodes_; ++v) {
    if (smallest[v]) groups[0].push_back(v);
    if (smallest[v] || !largest[v]) number[v] = nodes_;
  }
  struct Visit {
    int node, next;
  };
  std::vector<Visit> visits;
  std::vector<int> open;  // visited, component not yet closed
  int visited = 0;
  auto enter = [&](int v) {
    number[v] = low[v] = visited++;
    open.push_back(v);
    visits.push_back({v, first_[v]});
  };
  for (int root = 0; root < nodes_; ++root) {
    if (number[root] >= 0) continue;
    enter(root);
    while (!visits.empty()) {
      const int v = visits.back().node;
      if (visits.back().next < first_[v + 1]) {
        const Arc& arc = arcs_[out_[visits.back().next++]];
        if (arc.residual == 0) continue;
        if (number[arc.to] < 0) {
          enter(arc.to);
        } else if (number[arc.to] < nodes_) {
          low[v] = std::min(low[v], number[arc.to]);
        }
        continue;
      }
      visits.pop_back();
      if (!visits.empty()) {
        const int parent = visits.back().node;
        low[parent] = std::min(low[parent], low[v]);
      }
      if (low[v] < number[v]) continue;
      const auto member = std::find(open.rbegin(), open.rend(), v).base() - 1;
      groups.emplace_back(member, open.end());
      open.erase(member, open.end());
      for (int w : groups.back()) number[w] = nodes_;
    }
  }
  return groups;
}

}  // namespace autosp
