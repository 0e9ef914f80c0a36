#include "autosp/passes/inplace_ops.h"

#include <algorithm>
#include <array>

namespace autosp::passes {
namespace {

using ir::DType;
using enum InplaceKind;

constexpr std::array kTable = std::to_array<InplaceOp>({
    {"aten.__iand__.Scalar", "aten.__and__.Scalar"},
    {"aten.__iand__.Tensor", "aten.__and__.Tensor"},
    {"aten.__ior__.Scalar", "aten.__or__.Scalar"},
    {"aten.__ior__.Tensor", "aten.__or__.Tensor"},
    {"aten.__ixor__.Tensor", "aten.__xor__.Tensor"},
    {"aten.abs_.default", "aten.abs.default"},
    {"aten.add_.Scalar", "aten.add.Scalar"},
    {"aten.add_.Tensor", "aten.add.Tensor"},
    {"aten.addcdiv_.default", "aten.addcdiv.default"},
    {"aten.addcmul_.default", "aten.addcmul.default"},
    {"aten.addmm_.default", "aten.addmm.default"},
    {"aten.baddbmm_.default", "aten.baddbmm.default"},
    {"aten.bitwise_and_.Scalar", "aten.bitwise_and.Scalar"},
    {"aten.bitwise_and_.Tensor", "aten.bitwise_and.Tensor"},
    {"aten.bitwise_not_.default", "aten.bitwise_not.default"},
    {"aten.bitwise_or_.Scalar", "aten.bitwise_or.Scalar"},
    {"aten.bitwise_or_.Tensor", "aten.bitwise_or.Tensor"},
    {"aten.bitwise_xor_.Tensor", "aten.bitwise_xor.Tensor"},
    {"aten.ceil_.default", "aten.ceil.default"},
    {"aten.clamp_.Tensor", "aten.clamp.Tensor"},
    {"aten.clamp_.default", "aten.clamp.default"},
    {"aten.clamp_max_.default", "aten.clamp_max.default"},
    {"aten.clamp_min_.default", "aten.clamp_min.default"},
    {"aten.copy_.default", "", kCopy},
    {"aten.cos_.default", "aten.cos.default"},
    {"aten.detach_.default", "aten.detach.default", kReshape},
    {"aten.div_.Scalar", "aten.div.Scalar"},
    {"aten.div_.Scalar_mode", "aten.div.Scalar_mode"},
    {"aten.div_.Tensor", "aten.div.Tensor"},
    {"aten.div_.Tensor_mode", "aten.div.Tensor_mode"},
    {"aten.dropout_.default", "aten.dropout.default"},
    {"aten.elu_.default", "aten.elu.default"},
    {"aten.erf_.default", "aten.erf.default"},
    {"aten.exp_.default", "aten.exp.default"},
    {"aten.expm1_.default", "aten.expm1.default"},
    {"aten.fill_.Scalar", "aten.full_like.default", kFill},
    {"aten.fill_.Tensor", "", kCopy},
    {"aten.floor_.default", "aten.floor.default"},
    {"aten.floor_divide_.Scalar", "aten.floor_divide.Scalar"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.gelu_.default", "aten.gelu.default"},
    {"aten.hardtanh_.default", "aten.hardtanh.default"},
    {"aten.index_add_.default", "aten.index_add.default"},
    {"aten.index_copy_.default", "aten.index_copy.default"},
    {"aten.index_fill_.int_Scalar", "aten.index_fill.int_Scalar"},
    {"aten.index_fill_.int_Tensor", "aten.index_fill.int_Tensor"},
    {"aten.index_put_.default", "aten.index_put.default"},
    {"aten.leaky_relu_.default", "aten.leaky_relu.default"},
    {"aten.lerp_.Scalar", "aten.lerp.Scalar"},
    {"aten.lerp_.Tensor", "aten.lerp.Tensor"},
    {"aten.log1p_.default", "aten.log1p.default"},
    {"aten.log_.default", "aten.log.default"},
    {"aten.logical_and_.default", "aten.logical_and.default"},
    {"aten.logical_not_.default", "aten.logical_not.default"},
    {"aten.logical_or_.default", "aten.logical_or.default"},
    {"aten.logical_xor_.default", "aten.logical_xor.default"},
    {"aten.masked_fill_.Scalar", "aten.masked_fill.Scalar"},
    {"aten.masked_fill_.Tensor", "aten.masked_fill.Tensor"},
    {"aten.masked_scatter_.default", "aten.masked_scatter.default"},
    {"aten.mul_.Scalar", "aten.mul.Scalar"},
    {"aten.mul_.Tensor", "aten.mul.Tensor"},
    {"aten.nan_to_num_.default", "aten.nan_to_num.default"},
    {"aten.neg_.default", "aten.neg.default"},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.reciprocal_.default", "aten.reciprocal.default"},
    {"aten.relu_.default", "aten.relu.default"},
    {"aten.remainder_.Scalar", "aten.remainder.Scalar"},
    {"aten.remainder_.Tensor", "aten.remainder.Tensor"},
    {"aten.round_.default", "aten.round.default"},
    {"aten.rsqrt_.default", "aten.rsqrt.default"},
    {"aten.scatter_.src", "aten.scatter.src"},
    {"aten.scatter_.value", "aten.scatter.value"},
    {"aten.scatter_add_.default", "aten.scatter_add.default"},
    {"aten.sigmoid_.default", "aten.sigmoid.default"},
    {"aten.sign_.default", "aten.sign.default"},
    {"aten.silu_.default", "aten.silu.default"},
    {"aten.sin_.default", "aten.sin.default"},
    {"aten.sqrt_.default", "aten.sqrt.default"},
    {"aten.square_.default", "aten.square.default"},
    {"aten.squeeze_.default", "aten.squeeze.default", kReshape},
    {"aten.squeeze_.dim", "aten.squeeze.dim", kReshape},
    {"aten.sub_.Scalar", "aten.sub.Scalar"},
    {"aten.sub_.Tensor", "aten.sub.Tensor"},
    {"aten.t_.default", "aten.t.default", kReshape},
    {"aten.tanh_.default", "aten.tanh.default"},
    {"aten.transpose_.default", "aten.transpose.int", kReshape},
    {"aten.tril_.default", "aten.tril.default"},
    {"aten.triu_.default", "aten.triu.default"},
    {"aten.trunc_.default", "aten.trunc.default"},
    {"aten.unsqueeze_.default", "aten.unsqueeze.default", kReshape},
    {"aten.zero_.default", "aten.full_like.default", kFill},
});

int category(DType dtype) {
  if (dtype == DType::kBool) {
    return 0;
  }
  if (dtype <= DType::kI64) {
    return 1;
  }
  return dtype <= DType::kF64 ? 2 : 3;
}

// Of one category.
DType wider(DType a, DType b) {
  if (a == b) {
    return a;
  }
  const auto both = [&](DType x, DType y) { return (a == x && b == y) || (a == y && b == x); };
  if (both(DType::kF16, DType::kBF16)) {
    return DType::kF32;
  }
  if (both(DType::kU8, DType::kI8)) {
    return DType::kI16;
  }
  return dtypeBytes(a) > dtypeBytes(b) ? a : b;
}

// Operands that torch's type promotion looks at, besides what is written.
bool promotes(std::string_view arg) {
  static constexpr std::array kArgs = std::to_array<std::string_view>(
      {"other", "tensor1", "tensor2", "min", "max", "exponent"});
  return std::find(kArgs.begin(), kArgs.end(), arg) != kArgs.end();
}

}  // namespace

std::optional<InplaceOp> findInplaceOp(std::string_view name) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const InplaceOp& row) { return row.name == name; });
  return found == kTable.end() ? std::nullopt : std::optional(*found);
}

DType promotedDtype(const ir::Graph& graph, const ir::Op& op) {
  const ir::TensorType& self = graph.type(op.args.front().second.asValue());
  if (op.name.find(".logical_") != std::string::npos) {
    return DType::kBool;
  }
  DType out = self.dtype;
  for (const auto& [arg, value] : op.args) {
    if (!value.isValue() || !promotes(arg)) {
      continue;
    }
    const ir::TensorType& other = graph.type(value.asValue());
    const bool counts = other.rank() > 0 || self.rank() == 0;  // a 0-dim tensor only lifts the category
    if (category(other.dtype) == category(out) ? counts : category(other.dtype) > category(out)) {
      out = category(other.dtype) == category(out) ? wider(out, other.dtype) : other.dtype;
    }
  }
  return out;
}

}  // namespace autosp::passes
