#include "autosp/cost/liveness_fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>

namespace autosp::cost::liveness {
namespace {

constexpr std::size_t kRealizeReads = 4;          // config.realize_reads_threshold
constexpr std::size_t kAccumulatedReads = 8;      // config._realize_acc_reads_threshold_default
constexpr std::size_t kAccumulatedReadsCpu = 12;  // config.realize_cpu_acc_reads_threshold
constexpr std::int64_t kUnrolled = 8;             // config.unroll_reductions_threshold
constexpr int kLargestFusion = 64;                // config.max_fusion_size
constexpr int kLargestDistance = 64;              // scheduler.are_long_distant_nodes
constexpr int kPairAttempts = 64;  // config.max_fusion_buffer_group_pairwise_attempts
constexpr int kRounds = 10;        // scheduler.fuse_nodes

bool isLoop(OpClass kind) {
  return kind == OpClass::kPointwise || kind == OpClass::kReduction;
}

void addOnce(std::vector<ValueIndex>& list, ValueIndex v) {
  if (std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
}

// ---- lowering ----

class Lowering {
 public:
  Lowering(const JointProgram& program, const std::vector<OpIndex>& order,
           const std::vector<char>& leaves, bool on_cpu)
      : program_(program),
        leaves_(leaves),
        on_cpu_(on_cpu),
        accumulated_(on_cpu ? kAccumulatedReadsCpu : kAccumulatedReads),
        readers_(program.values.size(), 0),
        needs_storage_(program.values.size(), 0),
        is_added_(program.ops.size(), 0),
        added_(program.ops.size(), -1),
        inlined_(program.values.size(), -1) {
    for (OpIndex i : order) {
      const JointOp& op = program.ops[i];
      if (op.kind == OpClass::kView) continue;
      for (ValueIndex v : op.reads) {
        ++readers_[program.base(v)];
        if (!isLoop(op.kind)) needs_storage_[program.base(v)] = 1;
      }
    }
    findAddedProducts(order);
    nodes_.reserve(order.size());
    for (OpIndex i : order) {
      if (!is_added_[i]) lower(i);
    }
  }

  std::vector<LoopNode> take() { return std::move(nodes_); }

 private:
  // fx_passes/post_grad.py, addmm: a matrix product that only one addition reads is computed with
  // it. On GPU not when all that read the sum are elementwise (should_prefer_unfused_addmm).
  void findAddedProducts(const std::vector<OpIndex>& order) {
    std::vector<OpIndex> product(program_.values.size(), -1);
    std::vector<char> kernel_reads(needs_storage_);
    for (OpIndex i : order) {
      const JointOp& op = program_.ops[i];
      if (op.kind == OpClass::kMatmul && op.makes.size() == 1) product[op.makes.front()] = i;
      if (!op.adds || op.reads.size() != 2 || op.makes.size() != 1) continue;
      const ValueIndex sum = op.makes.front();
      if (!on_cpu_ && !leaves_[sum] && !kernel_reads[sum]) continue;
      for (std::size_t side = 0; side < 2; ++side) {
        const ValueIndex v = op.reads[side];
        if (product[v] < 0 || readers_[v] != 1 || leaves_[v]) continue;
        if (program_.values[v].bytes != program_.values[sum].bytes) continue;
        is_added_[product[v]] = 1;
        added_[i] = product[v];
        needs_storage_[program_.base(op.reads[1 - side])] = 1;
        break;
      }
    }
  }

  void lower(OpIndex i) {
    const JointOp& op = program_.ops[i];
    LoopNode node;
    node.op = i;
    node.loop = isLoop(op.kind) && added_[i] < 0;
    node.reduction = op.kind == OpClass::kReduction;
    node.pooled = isLoop(op.kind) || op.kind == OpClass::kMatmul;
    node.scratch = op.scratch;
    for (ValueIndex v : op.makes) {
      if (program_.base(v) != v) continue;
      node.makes.push_back(v);
      node.made = std::max(node.made, program_.values[v].elements);
    }
    if (node.makes.empty() && op.kind == OpClass::kView) return;
    node.domain = node.made;
    bool heavy = op.heavy;
    std::vector<ValueIndex> with_product;
    if (added_[i] >= 0) {
      const JointOp& product = program_.ops[added_[i]];
      with_product = op.reads;
      std::erase(with_product, product.makes.front());
      with_product.insert(with_product.end(), product.reads.begin(), product.reads.end());
    }
    for (ValueIndex v : added_[i] >= 0 ? with_product : op.reads) {
      if (node.reduction) node.domain = std::max(node.domain, program_.values[v].elements);
      const ValueIndex owner = program_.base(v);
      if (inlined_[owner] < 0) {
        addOnce(node.reads, owner);
      } else {
        const Expression& inlined = expressions_[inlined_[owner]];
        for (ValueIndex r : inlined.reads) addOnce(node.reads, r);
        heavy |= inlined.heavy;
      }
    }
    if (node.reduction && node.domain <= kUnrolled * node.made) {
      node.reduction = false;  // written out as an elementwise sum (ir.py, Reduction.create)
      node.domain = node.made;
    }
    if (node.loop && !node.reduction && node.makes.size() == 1) {
      const ValueIndex v = node.makes.front();
      const bool costly = node.reads.size() > kRealizeReads || (heavy && on_cpu_);
      const bool stored = needs_storage_[v] || leaves_[v] || node.reads.size() > accumulated_ ||
                          (readers_[v] > 1 && costly);
      if (!stored) {
        inlined_[v] = static_cast<int>(expressions_.size());
        expressions_.push_back({std::move(node.reads), heavy});
        return;
      }
    }
    nodes_.push_back(std::move(node));
  }

  struct Expression {
    std::vector<ValueIndex> reads;  // buffers
    bool heavy;
  };

  const JointProgram& program_;
  const std::vector<char>& leaves_;
  bool on_cpu_;
  std::size_t accumulated_;
  std::vector<int> readers_;
  std::vector<char> needs_storage_;
  std::vector<char> is_added_;  // by op: a product that its one reader computes
  std::vector<OpIndex> added_;  // by op: the product that it computes, -1: none
  std::vector<int> inlined_;    // index into expressions_, -1: stored
  std::vector<Expression> expressions_;
  std::vector<LoopNode> nodes_;
};

// ---- fusion ----

class Fusion {
 public:
  Fusion(const JointProgram& program, const std::vector<char>& leaves, FusedPass& pass)
      : program_(program), leaves_(leaves), pass_(pass), maker_(program.values.size(), -1) {
    const int count = static_cast<int>(pass.nodes.size());
    group_.resize(count);
    std::iota(group_.begin(), group_.end(), 0);
    groups_.resize(count);
    seen_.assign(count, 0);
    grown_.assign(count, 1);
    for (int n = 0; n < count; ++n) {
      const LoopNode& node = pass.nodes[n];
      for (ValueIndex v : node.makes) maker_[v] = n;
      groups_[n] = {
          {n},           n,          n,         node.loop, node.reduction, node.domain, node.made,
          shapeOf(node), node.reads, node.makes};
      std::sort(groups_[n].reads.begin(), groups_[n].reads.end());
      std::sort(groups_[n].makes.begin(), groups_[n].makes.end());
    }
  }

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      if (!fuseOnce()) break;
    }
    emit();
  }

 private:
  struct Group {
    std::vector<int> parts;
    int first = 0;  // lowest and highest part
    int last = 0;
    bool loop = false;
    bool reduction = false;
    std::int64_t domain = 0;
    std::int64_t made = 0;  // elements of a result of its reductions; of an elementwise one its own
    std::uint64_t shape = 0;        // a hash of the sizes it reads and makes
    std::vector<ValueIndex> reads;  // sorted; also what it makes itself
    std::vector<ValueIndex> makes;  // sorted
  };
  struct Pair {
    int a;
    int b;
    bool alike;
    std::int64_t shared;
    int distance;
  };

  std::uint64_t shapeOf(const LoopNode& node) const {
    std::vector<std::int64_t> sizes;
    for (ValueIndex v : node.reads) sizes.push_back(program_.values[v].elements);
    std::sort(sizes.begin(), sizes.end());
    sizes.push_back(node.domain);
    sizes.push_back(node.made);
    std::uint64_t hash = 0;
    for (std::int64_t size : sizes) {
      hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  static int distance(const Group& a, const Group& b) {
    return std::max(std::abs(a.first - b.last), std::abs(b.first - a.last));
  }

  static bool sameLoop(const Group& a, const Group& b) {
    return a.loop && b.loop && a.domain == b.domain &&
           (!a.reduction || !b.reduction || a.made == b.made);
  }

  // Bytes of the buffers that both groups read or write.
  std::int64_t shared(const Group& a, const Group& b) const {
    std::int64_t bytes = 0;
    auto meet = [&](const std::vector<ValueIndex>& x, const std::vector<ValueIndex>& y) {
      auto i = x.begin();
      auto j = y.begin();
      while (i != x.end() && j != y.end()) {
        if (*i == *j) bytes += program_.values[*i].bytes;
        if (*i < *j) {
          ++i;
        } else if (*j < *i) {
          ++j;
        } else {
          ++i, ++j;
        }
      }
    };
    meet(a.reads, b.reads);
    meet(a.makes, b.reads);
    meet(a.reads, b.makes);
    return bytes;
  }

  bool readsFrom(const Group& reader, const Group& maker) const {
    return std::any_of(reader.reads.begin(), reader.reads.end(), [&](ValueIndex v) {
      return std::binary_search(maker.makes.begin(), maker.makes.end(), v);
    });
  }

  // Whether `later` depends on `earlier` through other groups.
  bool pathBetween(int earlier, int later) {
    ++stamp_;
    stack_.clear();
    auto push = [&](int g) {
      for (ValueIndex v : groups_[g].reads) {
        if (maker_[v] < 0) continue;
        const int made_by = group_[maker_[v]];
        if (made_by == g || seen_[made_by] == stamp_) continue;
        if (groups_[made_by].last < groups_[earlier].first) continue;
        seen_[made_by] = stamp_;
        stack_.push_back(made_by);
      }
    };
    seen_[later] = stamp_;
    push(later);
    // The first step to `earlier` itself is the direct edge.
    std::erase(stack_, earlier);
    seen_[earlier] = 0;
    while (!stack_.empty()) {
      const int g = stack_.back();
      stack_.pop_back();
      if (g == earlier) return true;
      push(g);
    }
    return false;
  }

  bool canFuse(int a, int b) {
    const Group& x = groups_[a];
    const Group& y = groups_[b];
    if (!sameLoop(x, y) || static_cast<int>(x.parts.size() + y.parts.size()) > kLargestFusion) {
      return false;
    }
    const bool vertical = readsFrom(y, x) || readsFrom(x, y);
    if (!vertical && distance(x, y) > kLargestDistance) return false;
    return !pathBetween(a, b) && !pathBetween(b, a);
  }

  void join(int a, int b) {
    Group& x = groups_[a];
    Group& y = groups_[b];
    for (int part : y.parts) group_[part] = a;
    x.parts.insert(x.parts.end(), y.parts.begin(), y.parts.end());
    std::sort(x.parts.begin(), x.parts.end());
    x.first = std::min(x.first, y.first);
    x.last = std::max(x.last, y.last);
    if (y.reduction && !x.reduction) x.made = y.made;
    x.reduction |= y.reduction;
    x.shape += y.shape;
    auto merge = [](std::vector<ValueIndex>& into, const std::vector<ValueIndex>& from) {
      std::vector<ValueIndex> both;
      both.reserve(into.size() + from.size());
      std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(both));
      into = std::move(both);
    };
    merge(x.reads, y.reads);
    merge(x.makes, y.makes);
    y = {};
  }

  // The loops that read or write each value, ascending: row v is [begin[v], begin[v + 1]).
  void listUsers(std::vector<int>& begin, std::vector<int>& users) const {
    begin.assign(program_.values.size() + 1, 0);
    auto visit = [&](auto&& each) {
      for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
        if (!groups_[g].loop) continue;
        const Group& group = groups_[g];
        for (ValueIndex v : group.makes) each(v, g);
        for (ValueIndex v : group.reads) {
          if (!std::binary_search(group.makes.begin(), group.makes.end(), v)) each(v, g);
        }
      }
    };
    visit([&](ValueIndex v, int) { ++begin[v + 1]; });
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    users.resize(begin.back());
    std::vector<int> at(begin.begin(), begin.end() - 1);
    visit([&](ValueIndex v, int g) { users[at[v]++] = g; });
  }

  // Pairs worth fusing, best first. Two loops that only share a small buffer, which both read
  // again and again, are fused when they read it in the same loop order (score_fusion_memory).
  // Strides are unknown here: loops are taken to agree when they run over the buffer element by
  // element, or are the same piece of two layers.
  std::vector<Pair> candidates() const {
    std::vector<int> begin;
    std::vector<int> users;
    listUsers(begin, users);
    std::vector<Pair> pairs;
    for (std::size_t v = 0; v + 1 < begin.size(); ++v) {
      for (int i = begin[v]; i < begin[v + 1]; ++i) {
        const Group& a = groups_[users[i]];
        for (int j = i + 1; j < begin[v + 1] && j <= i + kPairAttempts; ++j) {
          const Group& b = groups_[users[j]];
          if (!sameLoop(a, b) || !(grown_[users[i]] || grown_[users[j]])) continue;
          // Whether this buffer is a reason to fuse; another one may be.
          const bool vertical =
              maker_[v] >= 0 && (group_[maker_[v]] == users[i] || group_[maker_[v]] == users[j]);
          const bool near = distance(a, b) <= kLargestDistance;
          const bool whole = program_.values[v].elements == a.domain || a.shape == b.shape;
          if (!vertical && !(near && whole)) continue;
          pairs.push_back({users[i], users[j], a.reduction == b.reduction, 0, distance(a, b)});
        }
      }
    }
    std::sort(pairs.begin(), pairs.end(),
              [](const Pair& p, const Pair& q) { return std::tie(p.a, p.b) < std::tie(q.a, q.b); });
    pairs.erase(std::unique(pairs.begin(), pairs.end(),
                            [](const Pair& p, const Pair& q) { return p.a == q.a && p.b == q.b; }),
                pairs.end());
    for (Pair& pair : pairs) pair.shared = shared(groups_[pair.a], groups_[pair.b]);
    // choices.score_fusion: alike, then shared bytes, then near in the program.
    std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& p, const Pair& q) {
      if (p.alike != q.alike) return p.alike;
      if (p.shared != q.shared) return p.shared > q.shared;
      return p.distance < q.distance;
    });
    return pairs;
  }

  bool fuseOnce() {
    const std::vector<Pair> pairs = candidates();
    // Other fusions only add paths: a pair that failed stays so until one of it grows.
    std::fill(grown_.begin(), grown_.end(), 0);
    bool fused = false;
    for (const Pair& pair : pairs) {
      const int a = find(pair.a);
      const int b = find(pair.b);
      if (a == b || !canFuse(std::min(a, b), std::max(a, b))) continue;
      join(std::min(a, b), std::max(a, b));
      moved_to_[std::max(a, b)] = std::min(a, b);
      grown_[std::min(a, b)] = 1;
      fused = true;
    }
    return fused;
  }

  int find(int g) {
    if (moved_to_.empty()) {
      moved_to_.resize(groups_.size());
      std::iota(moved_to_.begin(), moved_to_.end(), 0);
    }
    while (moved_to_[g] != g) g = moved_to_[g] = moved_to_[moved_to_[g]];
    return g;
  }

  // Kernels in topological order, by first part (fuse_nodes_once, topological_sort_schedule).
  void emit() {
    std::vector<int> uses(program_.values.size(), 0);
    for (const Group& g : groups_) {
      for (ValueIndex v : g.reads) ++uses[v];
    }
    std::vector<char> done(groups_.size(), 0);
    std::vector<std::pair<int, std::size_t>> stack;
    for (int root = 0; root < static_cast<int>(groups_.size()); ++root) {
      if (groups_[root].parts.empty() || done[root]) continue;
      done[root] = 1;
      stack.emplace_back(root, 0);
      while (!stack.empty()) {
        auto& [g, next] = stack.back();
        const Group& group = groups_[g];
        if (next < group.reads.size()) {
          const ValueIndex v = group.reads[next++];
          const int made_by = maker_[v] < 0 ? -1 : group_[maker_[v]];
          if (made_by >= 0 && !done[made_by]) {
            done[made_by] = 1;
            stack.emplace_back(made_by, 0);
          }
          continue;
        }
        FusedKernel kernel;
        kernel.parts = group.parts;
        kernel.makes = group.makes;
        for (ValueIndex v : group.reads) {
          const bool own = std::binary_search(group.makes.begin(), group.makes.end(), v);
          if (!own) kernel.reads.push_back(v);
          if (own && uses[v] == 1 && !leaves_[v] && group.loop) pass_.internal[v] = 1;
        }
        pass_.kernels.push_back(std::move(kernel));
        stack.pop_back();
      }
    }
  }

  const JointProgram& program_;
  const std::vector<char>& leaves_;
  FusedPass& pass_;
  std::vector<int> maker_;  // node by value, -1: an input of the pass
  std::vector<int> group_;  // by node
  std::vector<Group> groups_;
  std::vector<int> moved_to_;
  std::vector<char> grown_;  // by group: fused in the last round
  std::vector<int> seen_;
  std::vector<int> stack_;
  int stamp_ = 0;
};

}  // namespace

FusedPass fusePass(const JointProgram& program, const std::vector<OpIndex>& order,
                   const std::vector<char>& leaves, bool on_cpu) {
  FusedPass pass;
  pass.nodes = Lowering(program, order, leaves, on_cpu).take();
  pass.internal.assign(program.values.size(), 0);
  Fusion(program, leaves, pass).run();
  return pass;
}

}  // namespace autosp::cost::liveness
