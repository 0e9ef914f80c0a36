// The program of one rank, derived from the placed graph: local shapes, no forms, rank-dependent arguments.
// The plan does not know ranks; this is where they enter. What changes on an op whose values are cut:
//
//   shapes       sizes given as arguments become the local sizes of the result
//   windows      slices and pads of a cut dim begin and end where this rank's part of the window does
//   arange       begins at this rank's first element
//   autosp.*     cuts become lists of ranges [dim, outer, inner, [[lo, hi], ...]], one range a rank
//
// autosp.convert gets `kind`: shard, enter_partial, shard_partial, keep_on_first, gather, gather_partial,
// exchange, all_reduce, all_reduce_partial, reduce_scatter (design.md section 2 has the table).
#pragma once

#include "autosp/ir/graph.h"
#include "autosp/support/status.h"

namespace autosp::passes {

Result<ir::Graph> localize(const ir::Graph& graph, int rank);

// The cut as an attribute: [dim, outer, inner, [[lo, hi], ...]].
ir::Attr cutAttr(const ir::Cut& cut, std::int64_t dim_size, int ranks);

}  // namespace autosp::passes
