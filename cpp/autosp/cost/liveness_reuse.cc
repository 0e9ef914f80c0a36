#include "autosp/cost/liveness_reuse.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace autosp::cost::liveness {
namespace {

class Wrapper {
 public:
  Wrapper(const JointProgram& program, const FusedPass& pass, const KernelOrder& order,
          const std::vector<char>& leaves, const std::vector<char>& donated, bool on_cpu)
      : program_(program),
        pass_(pass),
        order_(order.order),
        leaves_(leaves),
        donated_(donated),
        memory_(order.memory),
        peak_(order.peak),
        last_reader_(program.values.size(), -1),
        taken_from_(program.values.size(), -1),
        pooled_(program.values.size(), 0) {
    const int count = static_cast<int>(order_.size());
    call_.resize(count, 0);
    bool open = false;  // the call before is one of loops
    for (int i = 0; i < count; ++i) {
      const FusedKernel& kernel = pass.kernels[order_[i]];
      const bool loops = pass.nodes[kernel.parts.front()].loop;
      call_[i] = i == 0 ? 0 : call_[i - 1] + (on_cpu && loops && open ? 0 : 1);
      open = loops;
      for (ValueIndex v : kernel.makes) {
        last_reader_[v] = i;
        pooled_[v] = pass.nodes[kernel.parts.front()].pooled && !pass.internal[v];
      }
      for (ValueIndex v : kernel.reads) last_reader_[v] = i;
    }
  }

  KernelList run() {
    const int count = static_cast<int>(order_.size());
    std::vector<ValueIndex> dead;
    for (int i = 0; i < count; ++i) {
      const FusedKernel& kernel = pass_.kernels[order_[i]];
      for (int part : kernel.parts) allocate(pass_.nodes[part], kernel, i);
      auto die = [&](ValueIndex v) {
        if (last_reader_[v] == i && pooled_[v] && !leaves_[v] && !overwritten(v)) dead.push_back(v);
      };
      for (ValueIndex v : kernel.reads) die(v);
      for (ValueIndex v : kernel.makes) die(v);
      if (i + 1 < count && call_[i + 1] == call_[i]) continue;
      for (ValueIndex v : dead) pool_[key(v)].push_back({v, i});
      dead.clear();
    }
    return list();
  }

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;
  struct Dead {
    ValueIndex value;
    int position;
  };

  Key key(ValueIndex v) const { return {program_.values[v].bytes, program_.values[v].elements}; }

  bool overwritten(ValueIndex v) const {
    return std::find(overwritten_.begin(), overwritten_.end(), v) != overwritten_.end();
  }

  static bool contains(const std::vector<ValueIndex>& list, ValueIndex v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  }

  // Whether the memory of v is that of a saved value. A gradient is never put there: it would have
  // to be counted under the name of one that dies.
  bool isDonated(ValueIndex v) const {
    while (taken_from_[v] >= 0) v = taken_from_[v];
    return donated_[v];
  }

  // Whether `node` needs what `earlier` makes, both in the kernel: then that has run before it.
  bool feeds(const LoopNode& earlier, const LoopNode& node, const FusedKernel& kernel) const {
    std::vector<const LoopNode*> found = {&node};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (int part : kernel.parts) {
        const LoopNode* maker = &pass_.nodes[part];
        if (maker == found[i] || std::find(found.begin(), found.end(), maker) != found.end()) {
          continue;
        }
        for (ValueIndex v : maker->makes) {
          if (!contains(found[i]->reads, v)) continue;
          if (maker == &earlier) return true;
          found.push_back(maker);
          break;
        }
      }
    }
    return false;
  }

  // A buffer that `node`, part of the kernel at position i, may write v over.
  ValueIndex inPlaceOf(const LoopNode& node, const FusedKernel& kernel, ValueIndex v, int i) const {
    if (!node.loop && !(node.reads.size() > 0 && node.makes.size() == 1 && !node.pooled)) return -1;
    for (ValueIndex r : node.reads) {
      if (!(pooled_[r] || donated_[r]) || last_reader_[r] != i || key(r) != key(v)) continue;
      if (leaves_[r] || (leaves_[v] && isDonated(r))) continue;
      if (node.loop && node.domain != program_.values[r].elements) continue;
      if (overwritten(r)) continue;
      const bool last = std::none_of(kernel.parts.begin(), kernel.parts.end(), [&](int other) {
        const LoopNode& reader = pass_.nodes[other];
        return &reader != &node && contains(reader.reads, r) && !feeds(reader, node, kernel);
      });
      if (last) return r;
    }
    return -1;
  }

  void allocate(const LoopNode& node, const FusedKernel& kernel, int i) {
    for (ValueIndex v : node.makes) {
      if (pass_.internal[v]) continue;
      const ValueIndex over = inPlaceOf(node, kernel, v, i);
      if (over >= 0) {
        taken_from_[v] = over;
        overwritten_.push_back(over);
        pooled_[v] = 1;
        continue;
      }
      if (!pooled_[v]) continue;
      const auto found = pool_.find(key(v));
      if (found == pool_.end() || found->second.empty()) continue;
      const Dead candidate = found->second.back();
      if (leaves_[v] && isDonated(candidate.value)) continue;
      const std::int64_t bytes = program_.values[v].bytes;
      if (candidate.position + 1 < i) {
        const auto begin = memory_.begin() + candidate.position + 1;
        const auto end = memory_.begin() + i;
        if (*std::max_element(begin, end) + bytes > peak_) continue;
        std::for_each(begin, end, [&](std::int64_t& at) { at += bytes; });
      }
      found->second.pop_back();
      taken_from_[v] = candidate.value;
    }
  }

  // Calls with the memory each allocates and the last touches.
  KernelList list() {
    const std::size_t values = program_.values.size();
    // The value that holds a piece of memory last stands for it; of a saved piece that value.
    std::vector<ValueIndex> holder(values);
    for (std::size_t v = 0; v < values; ++v) holder[v] = static_cast<ValueIndex>(v);
    for (int i = static_cast<int>(order_.size()) - 1; i >= 0; --i) {
      const FusedKernel& kernel = pass_.kernels[order_[i]];
      for (auto part = kernel.parts.rbegin(); part != kernel.parts.rend(); ++part) {
        for (ValueIndex v : pass_.nodes[*part].makes) {
          if (taken_from_[v] >= 0) holder[taken_from_[v]] = holder[v];
        }
      }
    }
    for (std::size_t i = 0; i < values; ++i) {
      auto v = static_cast<ValueIndex>(i);
      while (taken_from_[v] >= 0) v = taken_from_[v];
      if (donated_[v]) holder[i] = v;
    }
    KernelList calls;
    std::int64_t scratch = 0;
    const int count = static_cast<int>(order_.size());
    for (int i = 0; i < count; ++i) {
      const FusedKernel& kernel = pass_.kernels[order_[i]];
      for (ValueIndex v : kernel.reads) calls.touches.push_back(holder[v]);
      for (int part : kernel.parts) {
        for (ValueIndex v : pass_.nodes[part].makes) {
          if (pass_.internal[v]) continue;
          calls.touches.push_back(holder[v]);
          if (taken_from_[v] < 0) calls.makes.push_back(holder[v]);
        }
        scratch = std::max(scratch, pass_.nodes[part].scratch);
      }
      if (i + 1 < count && call_[i + 1] == call_[i]) continue;
      calls.close(pass_.nodes[kernel.parts.back()].op, scratch);
      scratch = 0;
    }
    return calls;
  }

  const JointProgram& program_;
  const FusedPass& pass_;
  const std::vector<int>& order_;
  const std::vector<char>& leaves_;
  const std::vector<char>& donated_;
  std::vector<std::int64_t> memory_;  // Inductor's estimate, with what is held for reuse
  std::int64_t peak_;
  std::vector<int> last_reader_;        // position by value
  std::vector<ValueIndex> taken_from_;  // by value: whose memory it takes
  std::vector<char> pooled_;
  std::vector<int> call_;  // by position
  std::map<Key, std::vector<Dead>> pool_;
  std::vector<ValueIndex> overwritten_;
};

}  // namespace

KernelList planReuse(const JointProgram& program, const FusedPass& pass, const KernelOrder& order,
                     const std::vector<char>& leaves, const std::vector<char>& donated,
                     bool on_cpu) {
  return Wrapper(program, pass, order, leaves, donated, on_cpu).run();
}

}  // namespace autosp::cost::liveness
