"""Cross-entropy over cut rows on gloo ranks equals torch's on the whole: value, same bits everywhere, and the rows' gradients."""

import itertools

import torch
import torch.distributed as dist
from torch.nn import functional

from autosp.runtime.loss import cross_entropy
from ranks import run_ranks

NAMES = ("none", "mean", "sum")


def part(length, world, rank):
    lo = rank * (length // world) + min(rank, length % world)
    return lo, length // world + (rank < length % world)


def one_case(rank, world, group, shape, dim, reduction, kind, weighted, smoothing, ignored, dtype=torch.float64):
    """Logits of `shape` (classes on dim 1), cut along `dim`."""
    generator = torch.Generator().manual_seed(shape[dim])
    logits = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    classes, rows = shape[1], logits.numel() // shape[1]
    weight = torch.rand(classes, generator=generator, dtype=torch.float64).to(dtype) if weighted else None
    if kind == "classes":
        target = torch.randint(classes, (shape[0], *shape[2:]), generator=generator)
        hide = torch.rand(target.shape, generator=generator) < {"none": 0.0, "some": 0.5, "all": 1.1}[ignored]
        target, target_dim = target.masked_fill(hide, -100), min(dim, 1)
    else:
        target, target_dim = torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype), dim
    expected = functional.cross_entropy(logits, target, weight, reduction=NAMES[reduction], label_smoothing=smoothing)
    tangent = torch.randn(expected.shape, generator=generator, dtype=torch.float64).to(dtype)
    (gradient,) = torch.autograd.grad(expected, logits, tangent)

    lo, n = part(shape[dim], world, rank)
    local = logits.detach().narrow(dim, lo, n).clone().requires_grad_()
    got = cross_entropy(local, target.narrow(target_dim, lo, n), weight, reduction, -100, smoothing, rows, group)
    if reduction == 0:
        row_dim = min(dim, 1)
        expected, tangent = expected.narrow(row_dim, lo, n), tangent.narrow(row_dim, lo, n)
    assert got.dtype == expected.dtype
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    same = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
    torch.testing.assert_close(got, expected, **same)
    (own,) = torch.autograd.grad(got, local, tangent)
    torch.testing.assert_close(own, gradient.narrow(dim, lo, n), **same)
    if reduction:
        values = [torch.empty_like(got) for _ in range(world)]
        dist.all_gather(values, got.detach().contiguous())
        assert all(torch.equal(v.nan_to_num(7.0), values[0].nan_to_num(7.0)) for v in values)


def every_case(rank, world):
    group = dist.group.WORLD.group_name
    options = list(itertools.product((0, 1, 2), ("classes", "probabilities"), (False, True), (0.0, 0.1)))
    for (shape, dim), (reduction, kind, weighted, smoothing) in itertools.product((((7, 5), 0), ((2, 3, 2), 2)), options):
        for ignored in ("none", "some", "all") if kind == "classes" else ("none",):
            one_case(rank, world, group, shape, dim, reduction, kind, weighted, smoothing, ignored)
    one_case(rank, world, group, (0, 4), 0, 1, "classes", False, 0.0, "none")
    one_case(rank, world, group, (0, 4), 0, 1, "probabilities", False, 0.0, "none")
    for dtype, (_, kind, weighted, smoothing) in itertools.product((torch.float32, torch.bfloat16, torch.float16), options[8:16]):
        one_case(rank, world, group, (40, 6), 0, 1, kind, weighted, smoothing, "none", dtype)
    # A sum that overflows fp16 where its mean does not.
    logits = torch.zeros(20_000, 100, dtype=torch.float16, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(20_000, dtype=torch.long), None, 1, -100, 0.0, world * 20_000, group)
    torch.testing.assert_close(loss, torch.tensor(100.0).log().half())
    assert torch.autograd.grad(loss, logits)[0].any()


def test_cross_entropy():
    run_ranks(3, every_case, timeout=150)
