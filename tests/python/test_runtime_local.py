"""Runtime functions without a group: dropout's masks, local attention, and the loss where nothing is cut."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from autosp.runtime.attention import attention
from autosp.runtime.dropout import dropout, positions, random_words
from autosp.runtime.layout import Cut, take
from autosp.runtime.loss import cross_entropy

SEED = torch.tensor(1234567890123)


def balanced(units, world):
    edges = [r * (units // world) + min(r, units % world) for r in range(world + 1)]
    return tuple(zip(edges, edges[1:]))


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dim, outer, inner", [(0, 1, 1), (1, 1, 1), (1, 2, 1), (1, 1, 3), (1, 2, 3), (2, 1, 1)])
def test_dropout_is_the_same_for_every_cut(world, dim, outer, inner):
    shape = [3, 4, 5]
    shape[dim] = outer * inner * 7
    x = torch.randn(shape)
    whole = dropout(x, 0.3, SEED, 5, None, tuple(shape), 0)
    cut = (dim, outer, inner, balanced(7, world))
    for rank in range(world):
        local = take(x, Cut(*cut), rank)
        assert torch.equal(dropout(local, 0.3, SEED, 5, cut, tuple(shape), rank), take(whole, Cut(*cut), rank))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_rate_scale_and_gradient(p, dtype):
    n = 200_000
    x = torch.ones(n, dtype=dtype, requires_grad=True)
    y = dropout(x, p, SEED, 1, None, (n,), 0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y.dtype == dtype and torch.equal(gradient, y.detach())
    kept = y != 0
    assert abs(kept.double().mean().item() - (1 - p)) <= 5 * math.sqrt(p * (1 - p) / n)
    if p < 1:
        torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)))


def test_dropout_masks_are_uncorrelated():
    n = 1 << 16
    at = torch.arange(n)
    masks = [
        random_words(torch.tensor(s), op, at + offset)
        for s, op, offset in itertools.product((0, 1, 2, 1 << 32, -1), (0, 1, 2), (0, 1 << 16, 1 << 32, 1 << 33))
    ]
    signs = torch.stack([torch.where(m >= 1 << 31, 1.0, -1.0) for m in masks])
    correlations = signs @ signs.T / n - torch.eye(len(masks))
    assert correlations.abs().max().item() < 6 / math.sqrt(n)
    for lag in (1, 2, 3, 4, 8, 16, 64, 128, 1000, 4096):
        lagged = (signs[:, lag:] * signs[:, :-lag]).mean(1).abs().max().item()
        assert lagged < 6 / math.sqrt(n - lag), lag
    # Every bit and byte of the words is uniform, also between neighbours.
    words = masks[0]
    for bit in range(32):
        assert abs(((words >> bit) & 1).double().mean().item() - 0.5) < 3 / math.sqrt(n)
    flips = words[1:] ^ words[:-1]
    assert abs(sum(((flips >> bit) & 1).double().mean().item() for bit in range(32)) - 16) < 0.2


def test_dropout_positions_above_32_bits():
    rows, columns = 1 << 22, 1 << 14
    first = (1 << 20) + 3
    cut = (0, 1, 1, ((0, first), (first, first + 2), (first + 2, rows)))
    index = positions(cut, (rows, columns), 1, torch.device("cpu"))
    assert index.shape == (2, columns) and index[0, 0].item() == first * columns > 1 << 33
    assert index[1, -1].item() == (first + 2) * columns - 1
    low = positions(None, (2, columns), 0, torch.device("cpu"))
    high = low + (1 << 34)
    same = (random_words(SEED, 0, low) >> 31) == (random_words(SEED, 0, high) >> 31)
    assert abs(same.double().mean().item() - 0.5) < 0.02


def reference(q, k, v, mask=None, is_causal=False, scale=None, kv_index=None):
    """Dense attention; K/V head of query head j is kv_index[j]."""
    heads, kv_heads = q.shape[-3], k.shape[-3]
    index = torch.tensor(kv_index or [j * kv_heads // heads for j in range(heads)])
    return functional.scaled_dot_product_attention(
        q, k.index_select(-3, index), v.index_select(-3, index), mask, 0.0, is_causal, scale=scale
    )


def operands(heads, kv_heads, queries, keys, size=4, batch=2):
    make = lambda h, s: torch.randn(batch, h, s, size, dtype=torch.float64, requires_grad=True)  # noqa: E731
    return make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)


def same_with_gradients(got, expected, inputs):
    torch.testing.assert_close(got, expected)
    tangent = torch.randn_like(expected)
    for a, b in zip(torch.autograd.grad(got, inputs, tangent), torch.autograd.grad(expected, inputs, tangent), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("heads, kv_heads, kv_index", [
    (4, 4, None), (4, 2, None), (3, 1, None), (4, 2, (0, 0, 1, 1)), (3, 2, (0, 0, 1)), (3, 2, (0, 1, 1)), (5, 3, (0, 1, 1, 1, 2)),
])  # fmt: skip
@pytest.mark.parametrize("form", ["full", "causal", "bool", "bias"])
def test_attention_heads_and_masks(heads, kv_heads, kv_index, form):
    q, k, v = operands(heads, kv_heads, 6, 6)
    mask = {"bool": torch.rand(2, 1, 6, 6) > 0.3, "bias": torch.randn(6, 6, dtype=torch.float64)}.get(form)
    got = attention(q, k, v, mask, form == "causal", 0.7, kv_index, None)
    same_with_gradients(got, reference(q, k, v, mask, form == "causal", 0.7, kv_index), (q, k, v))


@pytest.mark.parametrize("lo, hi", [(0, 7), (0, 3), (3, 5), (6, 7)])
def test_attention_of_a_slice_of_causal_queries(lo, hi):
    q, k, v = operands(4, 2, 7, 7)
    got = attention(q[:, :, lo:hi], k, v, None, True, None, None, lo)
    same_with_gradients(got, reference(q, k, v, None, True)[:, :, lo:hi], (q, k, v))


@pytest.mark.parametrize("heads, kv_heads, queries, keys, batch", [(0, 0, 5, 5, 2), (4, 2, 0, 5, 2), (4, 2, 3, 0, 2), (4, 2, 3, 3, 0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_attention_of_nothing(heads, kv_heads, queries, keys, batch, dtype):
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in operands(heads, kv_heads, queries, keys, batch=batch))
    bias = torch.zeros(queries, keys, dtype=dtype, requires_grad=True)
    out = attention(q, k, v, bias, False, None, (), 1)
    assert out.shape == q.shape and not out.any()
    for x, g in zip((q, k, v, bias), torch.autograd.grad(out, (q, k, v, bias), torch.ones_like(out))):
        assert g.shape == x.shape and g.dtype == x.dtype and not g.any()


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_dropout_is_the_same_for_every_cut(dim, is_causal):
    q, k, v = operands(6, 3, 7, 7)
    shape = (2, 6, 7, 7)
    whole = attention(q, k, v, None, is_causal, None, None, None, 0.4, SEED, 9, None, shape, 0)
    keep = dropout(torch.ones(shape, dtype=torch.float64), 0.4, SEED, 9, None, shape, 0)
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 2
    if is_causal:
        scores = scores.masked_fill(~torch.ones(7, 7, dtype=torch.bool).tril(), -math.inf)
    same_with_gradients(whole, (scores.softmax(-1) * keep) @ v.repeat_interleave(2, 1), (q, k, v))
    for rank, (lo, hi) in enumerate(ranges := balanced(shape[dim], 3)):
        where = (0.4, SEED, 9, (dim, 1, 1, ranges), shape, rank)
        if dim == 1:
            local = attention(
                q[:, lo:hi], k[:, lo // 2 : -(-hi // 2)], v[:, lo // 2 : -(-hi // 2)], None, is_causal, None, None, None, *where
            )
        else:
            local = attention(q[:, :, lo:hi], k, v, None, is_causal, None, None, lo, *where)
        torch.testing.assert_close(local, whole.narrow(dim, lo, hi - lo))


def test_attention_dropout_of_a_row_without_keys():
    q, k, v = operands(2, 2, 3, 3)
    mask = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    out = attention(q, k, v, mask, False, None, None, None, 0.5, SEED, 0, None, (2, 2, 3, 3), 0)
    assert not out[:, :, 1].any() and not out.isnan().any()


def test_loss_without_a_group_is_torch_s():
    logits, target = torch.randn(5, 4), torch.tensor([0, 3, -100, 2, 1])
    for number, name in enumerate(("none", "mean", "sum")):
        got = cross_entropy(logits, target, None, number, -100, 0.1, 5, None)
        assert torch.equal(got, functional.cross_entropy(logits, target, reduction=name, label_smoothing=0.1))
