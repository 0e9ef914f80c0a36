"""Scaled dot-product attention on what one rank holds: some heads of all queries, or some queries of all heads.

Query heads [..., H, S, E] read K/V heads [..., G, T, E] and [..., G, T, V]. Ranks without heads or without queries return an empty
result without calling a kernel (the CPU flash kernel dies of an empty dim), and their gradients still depend on the tangent, so
that the collectives around the attention stay in the same graph on every rank.
"""

import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from .collectives import tie
from .dropout import dropout


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    kv_index: tuple | None,
    q_offset: int | None,
    dropout_p: float = 0.0,
    dropout_seed: Tensor | None = None,
    dropout_op: int = 0,
    dropout_cut: tuple | None = None,
    dropout_shape: tuple | None = None,
    rank: int = 0,
) -> Tensor:
    """Attention of local queries over local keys.

    mask       bool (true: attend) or additive, of local size; with `is_causal` it must be None, as in torch
    kv_index   local query head j reads local K/V head kv_index[j]; None: heads are grouped evenly
    q_offset   with `is_causal`: global position of the first query row, where the rows are a slice of the sequence
    dropout_*  dropout of the weights: `dropout_shape` and `dropout_cut` say where the local weights stand in the global [B, H, S, T]
    """
    if q.numel() == 0 or k.numel() == 0 or v.numel() == 0:
        return _Empty.apply(q, k, v, mask)
    k, v = _select_heads(k, q.shape[-3], kv_index), _select_heads(v, q.shape[-3], kv_index)
    if is_causal and q_offset is not None:
        if dropout_p == 0.0:
            visible = min(k.shape[-2], q_offset + q.shape[-2])
            k, v = k.narrow(-2, 0, visible), v.narrow(-2, 0, visible)
        if q_offset > 0:
            mask, is_causal = causal_mask(q.shape[-2], k.shape[-2], q_offset, q.device), False
    if dropout_p > 0.0:
        where = (dropout_p, dropout_seed, dropout_op, dropout_cut, dropout_shape, rank)
        return _attention_with_dropout(q, k, v, mask, is_causal, scale, where)
    grouped = k.shape[-3] != q.shape[-3]
    return functional.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, scale=scale, enable_gqa=grouped)


def causal_mask(queries: int, keys: int, q_offset: int, device: torch.device) -> Tensor:
    """[queries, keys]: true where key j <= q_offset + query i."""
    rows = torch.arange(q_offset, q_offset + queries, device=device)
    return rows.unsqueeze(1) >= torch.arange(keys, device=device).unsqueeze(0)


def _select_heads(x: Tensor, query_heads: int, kv_index: tuple | None) -> Tensor:
    """K or V with heads that the query heads read in even groups; copies only where they do not already."""
    heads = x.shape[-3]
    if kv_index is None:
        return x
    if query_heads % heads == 0 and all(i == j // (query_heads // heads) for j, i in enumerate(kv_index)):
        return x
    parts, start = [], 0
    for j in range(1, query_heads + 1):
        if j == query_heads or kv_index[j] != kv_index[start]:
            head = x.narrow(-3, kv_index[start], 1)
            parts.append(head.expand(*x.shape[:-3], j - start, *x.shape[-2:]))
            start = j
    return torch.cat(parts, -3)


def _attention_with_dropout(q, k, v, mask, is_causal, scale, where) -> Tensor:
    """Written out, because the kernels draw masks that differ with the sharding."""
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    group = q.shape[-3] // k.shape[-3]
    if group > 1:
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if is_causal:
        mask = causal_mask(q.shape[-2], k.shape[-2], 0, q.device)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    # A row that sees no key is all zeros, as in torch's own attention.
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return torch.matmul(dropout(weights, *where), v).to(dtype)


class _Empty(Function):
    """Attention where there is no query or no key: zeros (mostly of size 0) that depend on every operand, and back."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        operands = [x for x in (q, k, v, mask) if x is not None]
        ctx.shapes = [None if x is None else x.shape for x in (q, k, v, mask)]
        ctx.dtypes = [None if x is None else x.dtype for x in (q, k, v, mask)]
        return tie(q.new_zeros(*q.shape[:-1], v.shape[-1]), *operands)

    @staticmethod
    def backward(ctx, g):
        needed = zip(ctx.shapes, ctx.dtypes, ctx.needs_input_grad)
        return tuple(tie(g.new_zeros(shape, dtype=dtype), g) if need else None for shape, dtype, need in needed)
