// In-place writes to intermediates, made into new values. A write to a tensor gives it new
// contents; so does a write through a view of it, put back by the inverse of the view (a slice by
// cat, a transpose by a transpose), and views read after the write are taken again from the new
// contents.
//
// Writes to whole inputs stay: the caller sees them. Refused, with the op and its line: a write
// through a view of an input; a read of what may or may not share memory with what was written
// (reshape, contiguous); a write without gradients to what has one, which would cut it; ops without
// an out-of-place form.
#pragma once

#include "autosp/ir/graph.h"
#include "autosp/support/status.h"

namespace autosp::passes {

Status functionalize(ir::Graph& graph);

}  // namespace autosp::passes
