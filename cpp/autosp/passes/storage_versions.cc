#include "autosp/passes/storage_versions.h"

#include <algorithm>

namespace autosp::passes {

StorageVersions::StorageVersions(ir::Graph& graph) : slots_(graph.valueCount()) {
  for (const ir::Input& input : graph.inputs()) {
    addFresh(input.value);
    storage(input.value).is_input = true;
  }
}

void StorageVersions::addFresh(ir::ValueId value) {
  Slot& added = slot(value);
  added.current = value;
  added.storage = storages_.size();
  storages_.emplace_back();
}

void StorageVersions::addView(ir::ValueId value, ir::ValueId parent, ir::OpId view,
                              bool grad_mode) {
  Slot& added = slot(value);
  added.current = value;
  added.parent = parent;
  added.view = view;
  added.storage = slot(parent).storage;
  added.version = storage(parent).version;
  added.grad_mode = grad_mode;
}

void StorageVersions::addLinked(ir::ValueId value, const std::vector<ir::ValueId>& sources) {
  addFresh(value);
  const std::size_t own = slot(value).storage;
  for (ir::ValueId source : sources) {
    const std::size_t other = slot(source).storage;
    storages_[own].linked.push_back(other);
    storages_[other].linked.push_back(own);
  }
}

bool StorageVersions::isWhole(ir::ValueId original) const {
  for (const Slot* s = &slots_[original.at()];; s = &slots_[s->parent.at()]) {
    if (s->view.valid()) {
      return false;
    }
    if (!s->parent.valid()) {
      return true;
    }
  }
}

std::vector<std::size_t> StorageVersions::linkedTo(std::size_t storage) const {
  std::vector<std::size_t> out{storage};
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t next : storages_[out[i]].linked) {
      if (std::find(out.begin(), out.end(), next) == out.end()) {
        out.push_back(next);
      }
    }
  }
  out.erase(out.begin());
  return out;
}

bool StorageVersions::mayBeInput(ir::ValueId original) const {
  const std::vector<std::size_t> linked = linkedTo(slots_[original.at()].storage);
  return std::any_of(linked.begin(), linked.end(),
                     [&](std::size_t s) { return storages_[s].is_input; });
}

void StorageVersions::clobberLinked(ir::ValueId original, const std::string& writer) {
  for (std::size_t s : linkedTo(slot(original).storage)) {
    storages_[s].clobbered_by = writer;
  }
}

}  // namespace autosp::passes
