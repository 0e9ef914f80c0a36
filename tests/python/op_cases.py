"""Calls of every op that has a row in the rule table: small tensors, sizes that no number of ranks divides, one size that is a product.

Elementwise ops need no entry: `elementwise_call` makes arguments from the schema.
"""

from __future__ import annotations

import re

import torch

from op_programs import Call, Spec, resolve, tensors_in

F64 = torch.float64


def F(*shape: int, low: float = 0.1, high: float = 0.9) -> Spec:
    return Spec(shape, "float", low, high)


def W(*shape: int) -> Spec:
    """Weights that torch has no derivative for."""
    return Spec(shape, grad=False)


def Z(high: int, *shape: int) -> Spec:
    return Spec(shape, "int", 0, high)


def B(*shape: int) -> Spec:
    return Spec(shape, "bool")


def C(*shape: int) -> Spec:
    return Spec(shape, "complex")


def V(*values) -> Spec:
    return Spec((len(values),), values=values)


CASES: dict[str, list[Call]] = {}


def add(names: str, *args, grad: bool = True, ruled: bool = True, **kwargs) -> None:
    """One more call of each named op ("cat.default concat.default")."""
    for name in names.split():
        op = f"aten.{name}"
        CASES.setdefault(op, []).append(Call(op, args, kwargs, grad, ruled))


# ---- products
add("linear.default", F(2, 5, 7), F(4, 7), F(4))
add("linear.default", F(5, 7), F(6, 7))
add("linear.default", F(5, 7), F(7))
add("mm.default", F(5, 7), F(7, 6))
add("bmm.default", F(3, 5, 7), F(3, 7, 4))
add("matmul.default", F(2, 3, 5, 7), F(3, 7, 4))
add("matmul.default", F(5, 7), F(7))
add("matmul.default", F(7), F(2, 7, 4))
add("matmul.default", F(7), F(7))
add("addmm.default", F(4), F(5, 7), F(7, 4), beta=0.5, alpha=2)
add("addmm.default", F(5, 1), F(5, 7), F(7, 4))
add("baddbmm.default", F(3, 5, 4), F(3, 5, 7), F(3, 7, 4))
add("baddbmm.default", F(1, 1, 4), F(3, 5, 7), F(3, 7, 4))
add("addbmm.default", F(5, 4), F(3, 5, 7), F(3, 7, 4))
add("mv.default", F(5, 7), F(7))
add("addmv.default", F(5), F(5, 7), F(7))
add("dot.default vdot.default", F(7), F(7))
add("outer.default ger.default", F(5), F(7))
add("addr.default", F(5, 7), F(5), F(7))
add("inner.default", F(2, 5, 7), F(3, 7))
add("tensordot.default", F(5, 7, 3), F(3, 5, 4), [0, 2], [1, 0])
add("einsum.default", "bij,bjk->bik", [F(3, 5, 7), F(3, 7, 4)])
add("einsum.default", "...i,ij->...j", [F(2, 5, 7), F(7, 4)])
add("einsum.default", "bshd,bthd->bhst", [F(2, 5, 3, 4), F(2, 7, 3, 4)])
add("einsum.default", "bi,bi", [F(5, 7), F(5, 7)])

# ---- views
VIEWS = "view.default reshape.default _unsafe_view.default"
for shape, to in [
    ((2, 5, 12), [10, 12]),
    ((10, 12), [2, 5, 3, 4]),
    ((5, 6), [3, 10]),
    ((5, 12), [5, -1, 3]),
    ((5, 1, 7), [5, 7]),
    ((5, 7), [1, 5, 1, 7]),
]:
    add(VIEWS, F(*shape), to)
add("reshape.default", F(4, 6), [8, 3])
add("_reshape_alias.default", F(2, 5, 6), [10, 6], [6, 1])
add("view_as.default reshape_as.default", F(2, 5, 6), F(10, 6))
add("flatten.using_ints", F(2, 5, 6))
add("flatten.using_ints", F(2, 5, 3, 4), 1, 2)
add("flatten.using_ints", F(2, 5, 3, 4), -2)
add("unflatten.int", F(5, 12, 7), 1, [3, 4])
add("unflatten.int", F(5, 12), -1, [-1, 6])
add("ravel.default", F(5, 6))
add("squeeze.default", F(3, 1, 5))
add("squeeze.default", F(1, 3, 1, 2))
add("squeeze.dim", F(3, 1, 5), 1)
add("squeeze.dim", F(3, 1, 5), 0)
add("squeeze.dims", F(3, 1, 5, 1), [1, 3])
add("squeeze.dims", F(3, 1, 5, 1), [0, 1])
add("unsqueeze.default", F(5, 7), -1)
add("unsqueeze.default", F(5, 7), 0)
add("atleast_1d.default atleast_2d.default atleast_3d.default", F(5))
add("atleast_3d.default", F(5, 7))
add("expand.default", F(5, 1, 7), [3, 5, 4, -1])
add("expand.default", F(1, 7), [5, 7])
add("broadcast_to.default", F(5, 1), [3, 5, 7])
add("expand_as.default", F(5, 1), F(3, 5, 7))
add("broadcast_tensors.default", [F(5, 1), F(7)])
add("permute.default", F(5, 7, 3), [2, 0, 1])
add("transpose.int swapaxes.default swapdims.default", F(5, 7, 3), 0, -1)
add("t.default", F(5, 7))
add("t.default", F(5))
add("mT.default mH.default adjoint.default mT.a mH.a", F(2, 5, 7))
add("numpy_T.default numpy_T.a", F(5, 7, 3))
add("movedim.int moveaxis.int", F(5, 7, 3), 0, -1)
add("movedim.intlist moveaxis.intlist", F(5, 7, 3), [0, 2], [1, 0])
add("view_as_real.default", C(5, 7))
add("view_as_complex.default", F(5, 7, 2))

# ---- windows and parts of a dim
for window in [(1, None), (None, -1), (2, 5), (-3, None), (0, 1), (None, None), (-100, 100)]:
    add("slice.Tensor", F(3, 7), 1, *window)
add("slice.Tensor", F(5, 7), 0, 1, None, 2)
add("narrow.default", F(5, 7), 0, 1, 3)
add("narrow.default", F(5, 7), -1, -3, 2)
add("pad.default constant_pad_nd.default", F(5, 7), [1, 2, -1, 3])
add("pad.default constant_pad_nd.default", F(3, 5, 7), [0, 0, 2, -1])
add("pad.default", F(3, 5, 7), [2, 1], "reflect")
add("select.int", F(5, 7), 0, 2)
add("select.int", F(5, 7), -1, -1)
add("unbind.int", F(3, 5, 7), 1)
add("split.Tensor unsafe_split.Tensor", F(5, 7), 3, 1)
add("split.sizes split.default split_with_sizes.default unsafe_split_with_sizes.default", F(5, 7), [2, 4, 1], 1)
add("chunk.default unsafe_chunk.default tensor_split.sections", F(5, 7), 3, 1)
add("chunk.default", F(5, 7), 2)
add("tensor_split.indices", F(5, 7), [2, 3], -1)
add("unfold.default", F(5, 7), 1, 3, 2)
add("cat.default concat.default concatenate.default", [F(5, 2), F(5, 7)], 1)
add("cat.default", [F(5, 7), F(3, 7), F(5, 7)])
add("cat.default", [F(0), F(5, 7)])
add("diff.default", F(5, 7))
add("diff.default", F(5, 7), 1, 0, F(1, 7), F(2, 7))
add("stack.default", [F(5, 7), F(5, 7)], 1)
add("stack.default", [F(5, 7), F(5, 7)], -1)
add("repeat.default", F(5, 7), [2, 1, 3])
add("tile.default", F(5, 7), [2, 1, 3])
add("tile.default", F(5, 7), [3])
add("repeat_interleave.self_int", F(5, 7), 3, 1)
add("repeat_interleave.self_int", F(5, 7), 3, 1, output_size=21)
add("repeat_interleave.self_int", F(5, 7), 2)
add("roll.default", F(5, 7), [2], [1])
add("roll.default", F(5, 7), [3])
add("flip.default", F(5, 7, 3), [0, 2])
add("tril.default triu.default", F(3, 5, 7), 1)
add("slice_scatter.default", F(5, 7), F(5, 3), 1, 1, 4)
add("select_scatter.default", F(5, 7), F(5), 1, 3)

# ---- creation
add("arange.default", 7)
add("arange.start", 3, 10)
add("arange.start_step", 3, 17, 2)
add("arange.start_step", 9, 2, -1)
add("arange.default", 7, dtype=F64)
add("arange.start", 3, 10, dtype=F64)
add("arange.start_step", 0.0, 1.0, 0.15, dtype=F64, ruled=False)
add("arange.start_step", 0.5, 7, 1, dtype=F64, ruled=False)
add("arange.default", 6.5, dtype=F64, ruled=False)
add("zeros.default ones.default", [5, 7], dtype=F64)
add("full.default", [5, 7], 0.3, dtype=F64)
add("scalar_tensor.default", 2.5, dtype=F64)
add("new_zeros.default new_ones.default", F(5, 7), [5, 7])
add("new_ones.default", F(5, 7), [7, 3])
add("new_full.default", F(5, 7), [5, 3], 0.3)
add("zeros_like.default ones_like.default", F(5, 7))
add("full_like.default", F(5, 7), 0.3)

# ---- reductions
ALL = "sum mean nanmean nansum amax amin max min argmax argmin prod median nanmedian std var std_mean var_mean"
add(" ".join(f"{n}.default" for n in ALL.split()), F(5, 7))
add("std.default var_mean.default", F(5, 7), False)
for keep in (False, True):
    add("max.dim min.dim median.dim nanmedian.dim prod.dim_int", F(3, 5, 7), 1, keep)
    add("sum.dim_IntList mean.dim amax.default amin.default nansum.default nanmean.default logsumexp.default", F(3, 5, 7), [0, -1], keep)
    add("std.dim var.dim std_mean.dim var_mean.dim", F(3, 5, 7), [1], True, keep)
    add("argmax.default argmin.default", F(5, 7), 1, keep)
    add("any.dim all.dim", B(5, 7), 1, keep)
    add("any.dims all.dims", B(3, 5, 7), [0, 2], keep)
    add("std.correction var.correction std_mean.correction var_mean.correction", F(3, 5, 7), [0, 1], correction=0, keepdim=keep)
    add("aminmax.default", F(5, 7), dim=1, keepdim=keep)
    add("kthvalue.default", F(5, 7), 2, 1, keep)
    add("special_logsumexp.default frobenius_norm.dim", F(5, 7), [1], keep)
    add("linalg_vector_norm.default", F(5, 7), 2, [1], keep)
    add("norm.ScalarOpt_dim", F(5, 7), 2, [1], keep)
    add("norm.ScalarOpt_dim_dtype", F(5, 7), 3, [0], keep, dtype=F64)
add("std.correction var.correction std_mean.correction var_mean.correction", F(5, 7))
add("aminmax.default", F(5, 7))
add("sum.dim_IntList", F(3, 5, 7), None)
add("sum.dim_IntList mean.dim", F(3, 5, 7), [])
add("sum.default", Z(9, 5, 7))
add("sum.dim_IntList", B(5, 7), [0])
add("mean.dim", F(5, 7), [1], dtype=torch.float32)
add("mean.default", Z(9, 5, 7), dtype=F64)
add("any.default all.default count_nonzero.default", B(5, 7))
add("any.dims all.dims", B(5, 7))
add("any.dims all.dims", B(5, 7), [])
add("count_nonzero.default", Z(3, 5, 7), 1)
add("count_nonzero.dim_IntList", Z(3, 3, 5, 7), [0, 2])
add("mode.default", Z(3, 5, 7), 1, True)
add("norm.Scalar", F(5, 7), 3)
add("norm.ScalarOpt_dtype", F(5, 7), 2, dtype=F64)
add("linalg_vector_norm.default", F(5, 7))
ALONG = (
    "softmax.int _safe_softmax.default special_softmax.default log_softmax.int special_log_softmax.default cumsum.default cumprod.default"
)
add(f"{ALONG} cummax.default cummin.default logcumsumexp.default", F(3, 5, 7), 1)
add("softmax.int log_softmax.int cumsum.default", F(5, 7), -1)
add("_softmax.default _log_softmax.default", F(3, 5, 7), -1, False)
add("sort.default argsort.default", F(3, 5, 7), 1, True)
add("sort.stable argsort.stable", F(5, 7), stable=True, dim=0)
add("msort.default", F(5, 7))
add("topk.default", F(3, 5, 7), 2, 1)

# ---- normalisations
add("layer_norm.default", F(3, 5, 7), [7], F(7), F(7))
add("layer_norm.default", F(3, 5, 7), [5, 7])
add("rms_norm.default", F(3, 5, 7), [7], F(7), 1e-6)
add("native_layer_norm.default", F(3, 5, 7), [7], F(7), F(7), 1e-5)
add("_fused_rms_norm.default", F(3, 5, 7), [7], F(7), 1e-6)
add("group_norm.default", F(5, 6, 7), 3, F(6), F(6))
add("batch_norm.default", F(5, 6, 7), F(6), F(6), None, None, True, 0.1, 1e-5, False)
add("batch_norm.default", F(5, 6, 7), F(6), F(6), W(6), W(6), False, 0.1, 1e-5, False)
add("instance_norm.default", F(5, 6, 7), F(6), F(6), None, None, True, 0.1, 1e-5, False)

# ---- indexing
add("embedding.default", F(9, 6), Z(9, 5, 7), 3)
add("embedding.default", F(9, 6), Z(9, 5, 7), -1, True)
add("index.Tensor _unsafe_index.Tensor", F(5, 7, 3), [Z(5, 6)])
add("index.Tensor", F(5, 7, 3), [None, Z(7, 6)])
add("index.Tensor", F(5, 7, 3), [Z(5, 6, 1), Z(7, 5)])
add("index.Tensor", F(5, 7, 3), [Z(5, 6), None, Z(3, 6)])
add("index.Tensor", F(5, 7, 3), [Z(5), Z(7, 4)])
add("index_put.default", F(5, 7, 3), [V(0, 3, 2)], F(3, 7, 3))
add("index_put.default", F(5, 7, 3), [None, V(0, 3, 3)], F(3), True)
add("index_select.default", F(5, 7), 1, Z(7, 4))
add("index_select.default", F(5, 7), 0, Z(5, 6))
add("index_add.default", F(5, 7), 1, Z(7, 4), F(5, 4), alpha=2)
add("index_copy.default", F(5, 7), 1, V(1, 6, 3), F(5, 3))
add("index_fill.int_Scalar", F(5, 7), 1, V(1, 6, 3), 0.5)
add("index_fill.int_Tensor", F(5, 7), 1, V(1, 6, 3), F())
add("gather.default", F(5, 7), 1, Z(7, 5, 4))
add("gather.default", F(5, 7), 1, Z(7, 3, 4))
add("take_along_dim.default", F(5, 7), Z(7, 5, 4), 1)
add("take_along_dim.default", F(5, 7), Z(35, 6), ruled=False)
add("take.default", F(5, 7), Z(35, 6, 4))
DISTINCT = Spec((5, 2), values=(0, 3, 1, 2, 6, 0, 4, 5, 2, 1))
add("scatter.src scatter_add.default", F(5, 7), 1, DISTINCT, F(5, 2))
add("scatter_add.default", F(5, 7), 1, Z(7, 5, 4), F(5, 4))
add("scatter.value", F(5, 7), 1, DISTINCT, 0.4)
add("scatter.reduce", F(5, 7), 1, DISTINCT, F(5, 2), reduce="add", grad=False)
add("scatter.value_reduce", F(5, 7), 1, DISTINCT, 0.4, reduce="multiply", grad=False)
add("scatter_reduce.two", F(5, 7), 1, DISTINCT, F(5, 2), "sum")
add("scatter_reduce.two", F(5, 7), 1, DISTINCT, F(5, 2), "amax", include_self=False)
add("one_hot.default", Z(6, 5, 7), 6)
add("bincount.default", Z(6, 35), None, 6)
add("histc.default", W(5, 7), 4, 0.1, 0.9)
add("one_hot.default", Spec((3, 5), values=(0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0)), -1, ruled=False)
ROWS = V(0.1, 0.2, 0.4, 0.5, 0.9)
add("bucketize.Tensor", F(5, 7), ROWS)
add("bucketize.Scalar", 0.3, ROWS)
add("searchsorted.Tensor", Spec((2, 4), values=(0.1, 0.3, 0.5, 0.7, 0.2, 0.4, 0.6, 0.8)), F(2, 5))
add("searchsorted.Tensor", ROWS, F(5, 7))
add("searchsorted.Scalar", ROWS, 0.3)
add("isin.Tensor_Tensor", Z(9, 5, 7), Z(9, 3))
add("isin.Tensor_Scalar", Z(9, 5, 7), 3)

# ---- losses
IGNORED = Spec((5,), values=(2, -100, 0, 5, -100))
for reduction in (0, 1, 2):
    add("mse_loss.default l1_loss.default smooth_l1_loss.default huber_loss.default", F(5, 7), F(5, 7, low=0.2), reduction)
    add("soft_margin_loss.default", F(5, 7), W(5, 7), reduction)
    add("kl_div.default", F(5, 7), F(5, 7), reduction)
    add("binary_cross_entropy.default", F(5, 7), F(5, 7), W(7), reduction)
    add("binary_cross_entropy_with_logits.default", F(5, 7), F(5, 7), W(5, 1), W(7), reduction)
    add("poisson_nll_loss.default", F(5, 7), F(5, 7), True, False, 1e-8, reduction)
    for smoothing in (0.0, 0.1):
        add("cross_entropy_loss.default", F(5, 6), IGNORED, W(6), reduction, -100, smoothing)
    add("cross_entropy_loss.default", F(5, 6), IGNORED, None, reduction)
    add("cross_entropy_loss.default", F(5, 6, 7), Z(6, 5, 7), W(6), reduction)
    add("cross_entropy_loss.default", F(5, 6), F(5, 6), W(6), reduction, -100, 0.1)
    add("nll_loss.default nll_loss_nd.default", F(5, 6), IGNORED, W(6), reduction)
    add("nll_loss2d.default nll_loss_nd.default", F(5, 6, 7, 3), Z(6, 5, 7, 3), None, reduction)

# ---- convolutions, pools, interpolation
for bias in (None, F(4)):
    add("conv1d.default", F(3, 5, 9), F(4, 5, 3), bias, [2], [1])
    add("conv2d.default", F(3, 5, 6, 7), F(4, 5, 3, 2), bias)
    add("conv3d.default", F(2, 3, 4, 5, 4), F(4, 3, 2, 2, 2), bias)
    add("convolution.default", F(3, 5, 9), F(4, 5, 3), bias, [1], [1], [1], False, [0], 1)
    add("conv_transpose1d.default", F(3, 5, 9), F(5, 4, 3), bias, [2])
    add("conv_transpose2d.input", F(3, 5, 6, 7), F(5, 4, 3, 2), bias)
    add("conv_transpose3d.input", F(2, 3, 4, 5, 4), F(3, 4, 2, 2, 2), bias)
add("convolution.default", F(3, 5, 9), F(5, 4, 3), None, [1], [1], [1], True, [0], 1)
add("conv1d.default", F(3, 5, 9), F(5, 1, 3), F(5), [1], [2], [1], 5)
add("conv1d.default", F(3, 6, 9), F(4, 3, 3), None, [1], [1], [1], 2)
add("conv1d.default", F(5, 9), F(4, 5, 3))
add("conv1d.padding", F(3, 5, 9), F(4, 5, 3), F(4), [1], "same")
add("conv2d.padding", F(3, 5, 6, 7), F(4, 5, 3, 2), F(4), [1, 1], "same")
add("conv3d.padding", F(2, 3, 4, 5, 4), F(4, 3, 2, 2, 2), F(4), [1, 1, 1], "valid")
add("avg_pool1d.default max_pool1d.default max_pool1d_with_indices.default", F(3, 5, 9), [3], [2], [1])
add("avg_pool2d.default max_pool2d.default max_pool2d_with_indices.default", F(3, 5, 6, 7), [2, 2])
add("avg_pool3d.default max_pool3d.default max_pool3d_with_indices.default", F(2, 3, 4, 5, 4), [2, 2, 2])
add("adaptive_avg_pool1d.default adaptive_max_pool1d.default", F(3, 5, 9), [4])
add("adaptive_avg_pool2d.default _adaptive_avg_pool2d.default adaptive_max_pool2d.default", F(3, 5, 6, 7), [3, 2])
add("adaptive_avg_pool3d.default", F(2, 3, 4, 5, 4), [2, 2, 2])
add("upsample_nearest1d.default", F(3, 5, 6), [9])
add("upsample_nearest1d.vec", F(3, 5, 6), None, [2.0])
add("upsample_nearest2d.default", F(3, 5, 4, 6), [7, 9])
add("upsample_nearest2d.vec", F(3, 5, 4, 6), None, [2.0, 1.5])
add("upsample_linear1d.default", F(3, 5, 6), [9], False)
add("upsample_linear1d.vec", F(3, 5, 6), None, True, [2.0])
add("upsample_bilinear2d.default upsample_bicubic2d.default", F(3, 5, 4, 6), [7, 9], False)
add("upsample_bilinear2d.vec upsample_bicubic2d.vec", F(3, 5, 4, 6), None, True, [2.0, 2.0])

# ---- elementwise ops whose arguments the schema does not tell
add("glu.default", F(5, 6, 7), 1)
add("prelu.default", F(5, 6, 7, low=-0.9), F(6))
add("prelu.default", F(5, 6, 7, low=-0.9), F(1))
add("_prelu_kernel.default", F(5, 6, 7, low=-0.9), F(1, 6, 1))
add("dropout.default", F(5, 7), 0.5, False)
add("to.device to.prim_Device", F(5, 7), torch.device("cpu"), torch.float32)
add("to.dtype_layout", F(5, 7), dtype=torch.float32)
add("to.prim_dtype", F(5, 7), torch.float32)
add("to.other", F(5, 7), Z(3, 4))
add("type_as.default", F(5, 7), Spec((3,), values=(1.0, 2.0, 3.0)))
add("masked_fill.Tensor", F(5, 7), B(5, 1), F())
add("fill.Tensor", F(5, 7), F())
add("lift.default lift_fresh.default lift_fresh_copy.default", F(5, 7), grad=False)

# Rows that no call on a CPU reaches, and why.
NOT_RUN = {
    "aten._masked_scale.default": "CUDA only",
    "aten.mm.dtype": "CUDA only",
    "aten.bmm.dtype": "CUDA only",
    "aten.addmm.dtype": "CUDA only",
    "aten.baddbmm.dtype": "CUDA only",
    "aten.pin_memory.default": "needs an accelerator",
}


def elementwise_call(name: str) -> Call | None:
    """Arguments by schema: the first tensor [5, 7], the others broadcast against it. The first guess that the op accepts: floats in two
    domains, integers, booleans, complex numbers, floats with a boolean vector; None where none is."""
    guesses = [
        (lambda s: F(*s), 0.5),
        (lambda s: F(*s, low=1.1, high=2.9), 0.5),
        (lambda s: Spec(s, "int", 1, 9), 2),
        (lambda s: B(*s), True),
        (lambda s: C(*s), 0.5),
        (lambda s: B(*s) if len(s) == 1 else F(*s), 0.5),
    ]
    for make, number in guesses:
        call = _call_by_schema(name, make, number)
        if call is not None and _accepted(call):
            return call
    return None


def _call_by_schema(name: str, make, number) -> Call | None:
    shapes = iter([(5, 7), (7,), (5, 1), (5, 7)])
    args, kwargs = [], {}
    for argument in resolve(name)._schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor" or (kind == "Optional[Tensor]" and not argument.has_default_value()):
            value = make(next(shapes))
        elif argument.has_default_value():
            continue
        elif kind in ("number", "float", "Optional[number]", "Optional[float]"):
            value = number
        elif kind in ("int", "Optional[int]"):
            value = 1
        elif kind in ("bool", "Optional[bool]"):
            value = False
        elif kind in ("str", "Optional[str]"):
            value = "floor"
        else:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    # Written in place to a tensor with a gradient these are refused: torch keeps the gradient of what was there before.
    return Call(name, tuple(args), kwargs, grad=False if re.match(r"aten\.logical_\w+_\.", name) else None)


def _accepted(call: Call) -> bool:
    generator = torch.Generator().manual_seed(0)
    args, kwargs = call.with_tensors(lambda spec: spec.make(generator))
    try:
        with torch.no_grad():
            out = call.target(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return False
    tensors = tensors_in(out)
    return bool(tensors) and not any(t.is_floating_point() and bool(torch.isnan(t).any()) for t in tensors)
