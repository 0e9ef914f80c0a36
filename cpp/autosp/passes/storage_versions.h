// What each value of a graph with in-place ops holds at the current point of a walk over its ops:
// the value it was views of, and which of its storage's versions it was last taken from.
// functionalize.cc walks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autosp/ir/graph.h"
#include "autosp/support/status.h"

namespace autosp::passes {

// A value as the graph wrote it ("original"), seen by the walk.
struct Slot {
  ir::ValueId current;  // holds its contents, as of `version`
  ir::ValueId parent;   // the original it is a view of; invalid for a whole storage
  ir::OpId view;        // the op that takes the view; invalid when it is the parent itself
  std::size_t storage = 0;
  int version = 0;
  bool grad_mode = true;   // whether gradients were recorded where the view was taken
  std::string renamed_by;  // the op that changed the tensor object's shape or history
};

struct Storage {
  int version = 0;
  bool is_input = false;
  std::vector<std::size_t> linked;  // may be the same memory
  std::string clobbered_by;         // the op that wrote a linked storage
};

class StorageVersions {
 public:
  explicit StorageVersions(ir::Graph& graph);

  Slot& slot(ir::ValueId original) { return slots_[original.at()]; }
  Storage& storage(ir::ValueId original) { return storages_[slot(original).storage]; }

  void addFresh(ir::ValueId value);
  void addView(ir::ValueId value, ir::ValueId parent, ir::OpId view, bool grad_mode);
  // A value that shares memory with these or does not.
  void addLinked(ir::ValueId value, const std::vector<ir::ValueId>& sources);

  // Whether the original is all of its storage, under another name or not.
  bool isWhole(ir::ValueId original) const;
  // Whether memory of an input may be written by a write to this value.
  bool mayBeInput(ir::ValueId original) const;
  // Marks the storages linked to this one, directly or not, as written by `writer`.
  void clobberLinked(ir::ValueId original, const std::string& writer);

 private:
  std::vector<std::size_t> linkedTo(std::size_t storage) const;

  std::vector<Slot> slots_;  // by original
  std::vector<Storage> storages_;
};

}  // namespace autosp::passes
