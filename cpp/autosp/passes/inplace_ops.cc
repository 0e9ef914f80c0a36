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
    {"aten.__ilshift__.Scalar", "aten.__lshift__.Scalar", kElementwise},
    {"aten.__ilshift__.Tensor", "aten.__lshift__.Tensor", kElementwise},
    {"aten.__ior__.Scalar", "aten.__or__.Scalar"},
    {"aten.__ior__.Tensor", "aten.__or__.Tensor"},
    {"aten.__irshift__.Scalar", "aten.__rshift__.Scalar", kElementwise},
    {"aten.__irshift__.Tensor", "aten.__rshift__.Tensor", kElementwise},
    {"aten.__ixor__.Scalar", "aten.__xor__.Scalar", kElementwise},
    {"aten.__ixor__.Tensor", "aten.__xor__.Tensor"},
    {"aten.abs_.default", "aten.abs.default", kElementwise},
    {"aten.absolute_.default", "aten.absolute.default", kElementwise},
    {"aten.acos_.default", "aten.acos.default", kElementwise},
    {"aten.acosh_.default", "aten.acosh.default", kElementwise},
    {"aten.add_.Scalar", "aten.add.Scalar"},
    {"aten.add_.Tensor", "aten.add.Tensor"},
    {"aten.addbmm_.default", "aten.addbmm.default"},
    {"aten.addcdiv_.default", "aten.addcdiv.default"},
    {"aten.addcmul_.default", "aten.addcmul.default"},
    {"aten.addmm_.default", "aten.addmm.default"},
    {"aten.addmv_.default", "aten.addmv.default"},
    {"aten.addr_.default", "aten.addr.default"},
    {"aten.arccos_.default", "aten.arccos.default", kElementwise},
    {"aten.arccosh_.default", "aten.arccosh.default", kElementwise},
    {"aten.arcsin_.default", "aten.arcsin.default", kElementwise},
    {"aten.arcsinh_.default", "aten.arcsinh.default", kElementwise},
    {"aten.arctan2_.default", "aten.arctan2.default", kElementwise},
    {"aten.arctan_.default", "aten.arctan.default", kElementwise},
    {"aten.arctanh_.default", "aten.arctanh.default", kElementwise},
    {"aten.asin_.default", "aten.asin.default", kElementwise},
    {"aten.asinh_.default", "aten.asinh.default", kElementwise},
    {"aten.atan2_.default", "aten.atan2.default", kElementwise},
    {"aten.atan_.default", "aten.atan.default", kElementwise},
    {"aten.atanh_.default", "aten.atanh.default", kElementwise},
    {"aten.baddbmm_.default", "aten.baddbmm.default"},
    {"aten.bitwise_and_.Scalar", "aten.bitwise_and.Scalar"},
    {"aten.bitwise_and_.Tensor", "aten.bitwise_and.Tensor"},
    {"aten.bitwise_left_shift_.Tensor", "aten.bitwise_left_shift.Tensor", kElementwise},
    {"aten.bitwise_left_shift_.Tensor_Scalar", "aten.bitwise_left_shift.Tensor_Scalar", kElementwise},
    {"aten.bitwise_not_.default", "aten.bitwise_not.default"},
    {"aten.bitwise_or_.Scalar", "aten.bitwise_or.Scalar"},
    {"aten.bitwise_or_.Tensor", "aten.bitwise_or.Tensor"},
    {"aten.bitwise_right_shift_.Tensor", "aten.bitwise_right_shift.Tensor", kElementwise},
    {"aten.bitwise_right_shift_.Tensor_Scalar", "aten.bitwise_right_shift.Tensor_Scalar", kElementwise},
    {"aten.bitwise_xor_.Scalar", "aten.bitwise_xor.Scalar", kElementwise},
    {"aten.bitwise_xor_.Tensor", "aten.bitwise_xor.Tensor"},
    {"aten.ceil_.default", "aten.ceil.default"},
    {"aten.celu_.default", "aten.celu.default", kElementwise},
    {"aten.clamp_.Tensor", "aten.clamp.Tensor"},
    {"aten.clamp_.default", "aten.clamp.default"},
    {"aten.clamp_max_.Tensor", "aten.clamp_max.Tensor", kElementwise},
    {"aten.clamp_max_.default", "aten.clamp_max.default"},
    {"aten.clamp_min_.Tensor", "aten.clamp_min.Tensor", kElementwise},
    {"aten.clamp_min_.default", "aten.clamp_min.default"},
    {"aten.clip_.Tensor", "aten.clip.Tensor", kElementwise},
    {"aten.clip_.default", "aten.clip.default", kElementwise},
    {"aten.conj_physical_.default", "aten.conj_physical.default", kElementwise},
    {"aten.copy_.default", "", kCopy},
    {"aten.copysign_.Scalar", "aten.copysign.Scalar", kElementwise},
    {"aten.copysign_.Tensor", "aten.copysign.Tensor", kElementwise},
    {"aten.cos_.default", "aten.cos.default"},
    {"aten.cosh_.default", "aten.cosh.default", kElementwise},
    {"aten.cumprod_.default", "aten.cumprod.default"},
    {"aten.cumsum_.default", "aten.cumsum.default"},
    {"aten.deg2rad_.default", "aten.deg2rad.default", kElementwise},
    {"aten.detach_.default", "aten.detach.default", kReshape},
    {"aten.digamma_.default", "aten.digamma.default", kElementwise},
    {"aten.div_.Scalar", "aten.div.Scalar"},
    {"aten.div_.Scalar_mode", "aten.div.Scalar_mode"},
    {"aten.div_.Tensor", "aten.div.Tensor"},
    {"aten.div_.Tensor_mode", "aten.div.Tensor_mode"},
    {"aten.divide_.Scalar", "aten.divide.Scalar", kElementwise},
    {"aten.divide_.Scalar_mode", "aten.divide.Scalar_mode", kElementwise},
    {"aten.divide_.Tensor", "aten.divide.Tensor", kElementwise},
    {"aten.divide_.Tensor_mode", "aten.divide.Tensor_mode", kElementwise},
    {"aten.dropout_.default", "aten.dropout.default"},
    {"aten.elu_.default", "aten.elu.default"},
    {"aten.eq_.Scalar", "aten.eq.Scalar", kElementwise},
    {"aten.eq_.Tensor", "aten.eq.Tensor", kElementwise},
    {"aten.erf_.default", "aten.erf.default"},
    {"aten.erfc_.default", "aten.erfc.default", kElementwise},
    {"aten.erfinv_.default", "aten.erfinv.default", kElementwise},
    {"aten.exp2_.default", "aten.exp2.default", kElementwise},
    {"aten.exp_.default", "aten.exp.default"},
    {"aten.expm1_.default", "aten.expm1.default"},
    {"aten.fill_.Scalar", "aten.full_like.default", kFill},
    {"aten.fill_.Tensor", "", kCopy},
    {"aten.fix_.default", "aten.fix.default", kElementwise},
    {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar", kElementwise},
    {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor", kElementwise},
    {"aten.floor_.default", "aten.floor.default"},
    {"aten.floor_divide_.Scalar", "aten.floor_divide.Scalar"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.fmod_.Scalar", "aten.fmod.Scalar", kElementwise},
    {"aten.fmod_.Tensor", "aten.fmod.Tensor", kElementwise},
    {"aten.frac_.default", "aten.frac.default", kElementwise},
    {"aten.gcd_.default", "aten.gcd.default", kElementwise},
    {"aten.ge_.Scalar", "aten.ge.Scalar", kElementwise},
    {"aten.ge_.Tensor", "aten.ge.Tensor", kElementwise},
    {"aten.gelu_.default", "aten.gelu.default", kElementwise},
    {"aten.greater_.Scalar", "aten.greater.Scalar", kElementwise},
    {"aten.greater_.Tensor", "aten.greater.Tensor", kElementwise},
    {"aten.greater_equal_.Scalar", "aten.greater_equal.Scalar", kElementwise},
    {"aten.greater_equal_.Tensor", "aten.greater_equal.Tensor", kElementwise},
    {"aten.gt_.Scalar", "aten.gt.Scalar", kElementwise},
    {"aten.gt_.Tensor", "aten.gt.Tensor", kElementwise},
    {"aten.hardsigmoid_.default", "aten.hardsigmoid.default", kElementwise},
    {"aten.hardswish_.default", "aten.hardswish.default", kElementwise},
    {"aten.hardtanh_.default", "aten.hardtanh.default"},
    {"aten.heaviside_.default", "aten.heaviside.default", kElementwise},
    {"aten.hypot_.default", "aten.hypot.default", kElementwise},
    {"aten.i0_.default", "aten.i0.default", kElementwise},
    {"aten.igamma_.default", "aten.igamma.default", kElementwise},
    {"aten.igammac_.default", "aten.igammac.default", kElementwise},
    {"aten.index_add_.default", "aten.index_add.default"},
    {"aten.index_copy_.default", "aten.index_copy.default"},
    {"aten.index_fill_.int_Scalar", "aten.index_fill.int_Scalar"},
    {"aten.index_fill_.int_Tensor", "aten.index_fill.int_Tensor"},
    {"aten.index_put_.default", "aten.index_put.default"},
    {"aten.lcm_.default", "aten.lcm.default", kElementwise},
    {"aten.ldexp_.default", "aten.ldexp.Tensor", kElementwise},
    {"aten.le_.Scalar", "aten.le.Scalar", kElementwise},
    {"aten.le_.Tensor", "aten.le.Tensor", kElementwise},
    {"aten.leaky_relu_.default", "aten.leaky_relu.default"},
    {"aten.lerp_.Scalar", "aten.lerp.Scalar"},
    {"aten.lerp_.Tensor", "aten.lerp.Tensor"},
    {"aten.less_.Scalar", "aten.less.Scalar", kElementwise},
    {"aten.less_.Tensor", "aten.less.Tensor", kElementwise},
    {"aten.less_equal_.Scalar", "aten.less_equal.Scalar", kElementwise},
    {"aten.less_equal_.Tensor", "aten.less_equal.Tensor", kElementwise},
    {"aten.lgamma_.default", "aten.lgamma.default", kElementwise},
    {"aten.log10_.default", "aten.log10.default", kElementwise},
    {"aten.log1p_.default", "aten.log1p.default"},
    {"aten.log2_.default", "aten.log2.default", kElementwise},
    {"aten.log_.default", "aten.log.default"},
    {"aten.logical_and_.default", "aten.logical_and.default", kUnrecorded},
    {"aten.logical_not_.default", "aten.logical_not.default", kUnrecorded},
    {"aten.logical_or_.default", "aten.logical_or.default", kUnrecorded},
    {"aten.logical_xor_.default", "aten.logical_xor.default", kUnrecorded},
    {"aten.logit_.default", "aten.logit.default", kElementwise},
    {"aten.lt_.Scalar", "aten.lt.Scalar", kElementwise},
    {"aten.lt_.Tensor", "aten.lt.Tensor", kElementwise},
    {"aten.masked_fill_.Scalar", "aten.masked_fill.Scalar", kElementwise},
    {"aten.masked_fill_.Tensor", "aten.masked_fill.Tensor", kElementwise},
    {"aten.masked_scatter_.default", "aten.masked_scatter.default"},
    {"aten.mish_.default", "aten.mish.default", kElementwise},
    {"aten.mul_.Scalar", "aten.mul.Scalar"},
    {"aten.mul_.Tensor", "aten.mul.Tensor"},
    {"aten.multiply_.Scalar", "aten.multiply.Scalar", kElementwise},
    {"aten.multiply_.Tensor", "aten.multiply.Tensor", kElementwise},
    {"aten.mvlgamma_.default", "aten.mvlgamma.default", kElementwise},
    {"aten.nan_to_num_.default", "aten.nan_to_num.default"},
    {"aten.ne_.Scalar", "aten.ne.Scalar", kElementwise},
    {"aten.ne_.Tensor", "aten.ne.Tensor", kElementwise},
    {"aten.neg_.default", "aten.neg.default"},
    {"aten.negative_.default", "aten.negative.default", kElementwise},
    {"aten.nextafter_.default", "aten.nextafter.default", kElementwise},
    {"aten.not_equal_.Scalar", "aten.not_equal.Scalar", kElementwise},
    {"aten.not_equal_.Tensor", "aten.not_equal.Tensor", kElementwise},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.rad2deg_.default", "aten.rad2deg.default", kElementwise},
    {"aten.reciprocal_.default", "aten.reciprocal.default"},
    {"aten.relu6_.default", "aten.relu6.default", kElementwise},
    {"aten.relu_.default", "aten.relu.default"},
    {"aten.remainder_.Scalar", "aten.remainder.Scalar"},
    {"aten.remainder_.Tensor", "aten.remainder.Tensor"},
    {"aten.round_.decimals", "aten.round.decimals", kElementwise},
    {"aten.round_.default", "aten.round.default"},
    {"aten.rsqrt_.default", "aten.rsqrt.default"},
    {"aten.scatter_.reduce", "aten.scatter.reduce"},
    {"aten.scatter_.src", "aten.scatter.src"},
    {"aten.scatter_.value", "aten.scatter.value"},
    {"aten.scatter_.value_reduce", "aten.scatter.value_reduce"},
    {"aten.scatter_add_.default", "aten.scatter_add.default"},
    {"aten.scatter_reduce_.two", "aten.scatter_reduce.two"},
    {"aten.selu_.default", "aten.selu.default", kElementwise},
    {"aten.sgn_.default", "aten.sgn.default", kElementwise},
    {"aten.sigmoid_.default", "aten.sigmoid.default"},
    {"aten.sign_.default", "aten.sign.default"},
    {"aten.silu_.default", "aten.silu.default"},
    {"aten.sin_.default", "aten.sin.default"},
    {"aten.sinc_.default", "aten.sinc.default", kElementwise},
    {"aten.sinh_.default", "aten.sinh.default", kElementwise},
    {"aten.sqrt_.default", "aten.sqrt.default"},
    {"aten.square_.default", "aten.square.default"},
    {"aten.squeeze_.default", "aten.squeeze.default", kReshape},
    {"aten.squeeze_.dim", "aten.squeeze.dim", kReshape},
    {"aten.squeeze_.dims", "aten.squeeze.dims", kReshape},
    {"aten.sub_.Scalar", "aten.sub.Scalar"},
    {"aten.sub_.Tensor", "aten.sub.Tensor"},
    {"aten.subtract_.Scalar", "aten.subtract.Scalar", kElementwise},
    {"aten.subtract_.Tensor", "aten.subtract.Tensor", kElementwise},
    {"aten.swapaxes_.default", "aten.swapaxes.default", kReshape},
    {"aten.swapdims_.default", "aten.swapdims.default", kReshape},
    {"aten.t_.default", "aten.t.default", kReshape},
    {"aten.tan_.default", "aten.tan.default", kElementwise},
    {"aten.tanh_.default", "aten.tanh.default"},
    {"aten.threshold_.default", "aten.threshold.default", kElementwise},
    {"aten.transpose_.default", "aten.transpose.int", kReshape},
    {"aten.tril_.default", "aten.tril.default"},
    {"aten.triu_.default", "aten.triu.default"},
    {"aten.true_divide_.Scalar", "aten.true_divide.Scalar", kElementwise},
    {"aten.true_divide_.Tensor", "aten.true_divide.Tensor", kElementwise},
    {"aten.trunc_.default", "aten.trunc.default"},
    {"aten.unsqueeze_.default", "aten.unsqueeze.default", kReshape},
    {"aten.xlogy_.Scalar_Other", "aten.xlogy.Scalar_Other", kElementwise},
    {"aten.xlogy_.Tensor", "aten.xlogy.Tensor", kElementwise},
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
  static constexpr std::array kArgs =
      std::to_array<std::string_view>({"other", "tensor1", "tensor2", "min", "max", "exponent"});
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
  static constexpr std::array kComparisons = std::to_array<std::string_view>(
      {"aten.eq.", "aten.ne.", "aten.ge.", "aten.gt.", "aten.le.", "aten.lt."});
  if (std::any_of(kComparisons.begin(), kComparisons.end(),
                  [&](std::string_view name) { return op.name.starts_with(name); })) {
    return DType::kBool;
  }
  DType out = self.dtype;
  for (const auto& [arg, value] : op.args) {
    if (!value.isValue() || !promotes(arg)) {
      continue;
    }
    const ir::TensorType& other = graph.type(value.asValue());
    const bool counts =
        other.rank() > 0 || self.rank() == 0;  // a 0-dim tensor only lifts the category
    if (category(other.dtype) == category(out) ? counts : category(other.dtype) > category(out)) {
      out = category(other.dtype) == category(out) ? wider(out, other.dtype) : other.dtype;
    }
  }
  return out;
}

}  // namespace autosp::passes
