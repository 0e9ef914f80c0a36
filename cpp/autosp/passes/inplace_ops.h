// In-place ATen overloads and their out-of-place forms. Both take the same arguments, of the same
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "autosp/ir/graph.h"

namespace autosp::passes {

enum class InplaceKind : std::uint8_t {
  kCompute,  // the out-of-place form computes the new contents
  kUnrecorded,   // the same, but torch's autograd takes no notice of the write
  kElementwise,  // as kCompute, elementwise also where torch does not tag the in-place form pointwise
  kCopy,     // the new contents are another tensor, cast and broadcast (copy_, fill_ with a tensor)
  kFill,     // the new contents are a scalar
  kReshape,  // changes the shape or the history of the tensor object, not its contents
};

struct InplaceOp {
  std::string_view name;        // "aten.add_.Tensor"
  std::string_view functional;  // "aten.add.Tensor"
  InplaceKind kind = InplaceKind::kCompute;
};

// Nothing for an op that is not in the table.
std::optional<InplaceOp> findInplaceOp(std::string_view name);

// The dtype that the out-of-place form of a kCompute op gives by torch's type promotion; in place,
// the result is cast back to the dtype of what is written.
ir::DType promotedDtype(const ir::Graph& graph, const ir::Op& op);

}  // namespace autosp::passes
