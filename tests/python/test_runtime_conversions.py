"""Conversions and the exchange on 2, 3 and 4 gloo ranks against what one process computes, on random cuts.

Every rank draws the same whole tensors and the gradients of all ranks, so each knows what all of them must get: the value of a
form, and the gradient that the form of the input demands.
"""

import random

import pytest
import torch
import torch.distributed as dist

from autosp.runtime import conversions as cv
from autosp.runtime.exchange import exchange
from autosp.runtime.layout import Cut, pad_whole, take
from ranks import run_ranks


def balanced(units, world, base=None, shift=0):
    """The ranges of the plan: `base` units dealt evenly, boundaries moved by `shift`."""
    base = units + shift if base is None else base
    edges = [min(max(r * (base // world) + min(r, base % world) - shift, 0), units) for r in range(world + 1)]
    edges[0], edges[-1] = 0, units
    return tuple(zip(edges, edges[1:]))


def grouped(query_heads, group, world):
    """K/V heads read by the query heads of each rank; may overlap."""
    return tuple((lo // group, -(-hi // group)) if hi > lo else (lo // group,) * 2 for lo, hi in balanced(query_heads, world))


def random_ranges(rng, world, units):
    kind = rng.random()
    if kind < 0.4:
        return balanced(units, world)
    if kind < 0.6 and units:
        return balanced(units, world, shift=1)
    edges = [0, *sorted(rng.randint(0, units) for _ in range(world - 1)), units]
    return tuple(zip(edges, edges[1:]))


def random_cut(rng, world, dim, ranges):
    """A cut over `dim`, and the length of that dim."""
    outer, inner = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
    return (dim, outer, inner, ranges), outer * inner * max(hi for _, hi in ranges)


def draw(generator, shape, dtype=torch.float64):
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


class Case:
    """One random value with a cut, its partial summands, and a gradient per rank."""

    def __init__(self, seed, world, overlapping=False, tensors=1, dtype=torch.float64):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        if overlapping:
            ranges = grouped(rng.randint(1, 9), rng.randint(2, 3), world)
        else:
            ranges = random_ranges(rng, world, rng.randint(0, 9))
        self.cuts, self.shapes = [], []
        for _ in range(tensors):
            shape = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
            dim = rng.randrange(len(shape) + 1)
            cut, length = random_cut(rng, world, dim, ranges)
            self.cuts.append(cut)
            self.shapes.append((*shape[:dim], length, *shape[dim:]))
        self.parts = [[draw(generator, s, dtype) for s in self.shapes] for _ in range(world)]
        self.grads = [[draw(generator, s, dtype) for s in self.shapes] for _ in range(world)]
        self.whole, self.grad = self.parts[0], self.grads[0]
        self.world = world

    def total(self, per_rank):
        return [sum(xs[1:], xs[0].clone()) for xs in zip(*per_rank)]

    def local(self, whole, rank):
        return [take(x, Cut(*cut), rank).contiguous() for x, cut in zip(whole, self.cuts)]

    def padded(self, rank, whole):
        """What the local part of `whole` on `rank` is as a whole tensor."""
        cuts = [Cut(*cut) for cut in self.cuts]
        return [pad_whole(take(x, cut, rank), cut, rank) for x, cut in zip(whole, cuts)]


def check(function, arguments, inputs, outputs, out_grads, in_grads, tolerance=1e-12):
    """Runs `function(inputs, *arguments)` and compares what it returns, and its gradients."""
    inputs = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    got = function(inputs, *arguments)
    for a, b in zip(got, outputs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    if out_grads is not None:
        gradients = torch.autograd.grad(got, inputs, out_grads)
        for a, b in zip(gradients, in_grads, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    return got


def conversions_hold(rank, world, group, cases):
    for seed in range(cases):
        c = Case(seed, world, tensors=1 + seed % 3)
        cuts = tuple(c.cuts)
        whole, grad, mine, my_part = c.whole, c.grad, c.grads[rank], c.parts[rank]
        grad_sum, part_sum = c.total(c.grads), c.total(c.parts)

        def local(xs, c=c):
            return c.local(xs, rank)

        check(cv.shard, (cuts, rank, group), whole, local(whole), local(grad), grad)
        check(cv.shard_partial, (cuts, rank), whole, local(whole), local(grad), c.padded(rank, grad))
        check(cv.enter_partial, (world, group, True), whole, whole, mine, grad_sum)
        check(cv.enter_partial, (world, group, False), whole, whole, mine, [g * world for g in mine])
        check(cv.gather, (cuts, rank, group), local(whole), whole, grad, local(grad))
        check(cv.gather_partial, (cuts, rank, group), local(whole), whole, mine, local(grad_sum))
        kept = grad if rank == 0 else [torch.zeros_like(g) for g in grad]
        check(cv.keep_on_first, (rank,), whole, whole, grad, kept)
        check(cv.all_reduce, (group,), my_part, part_sum, grad, grad)
        check(cv.all_reduce_partial, (group,), my_part, part_sum, mine, grad_sum)
        check(cv.reduce_scatter, (cuts, rank, group), my_part, local(part_sum), local(grad), grad)

        overlapping = Case(seed, world, overlapping=True, tensors=1 + seed % 2)
        summed = overlapping.total([overlapping.padded(r, overlapping.grads[r]) for r in range(world)])
        check(
            cv.shard,
            (tuple(overlapping.cuts), rank, group),
            overlapping.whole,
            overlapping.local(overlapping.whole, rank),
            overlapping.local(overlapping.grads[rank], rank),
            summed,
        )


def other_dtypes_hold(rank, world, group):
    for dtype in (torch.bool, torch.int64, torch.int32):
        c = Case(7, world)
        whole = [(x * 3).to(dtype) for x in c.whole]
        cuts = tuple(c.cuts)
        check(cv.shard, (cuts, rank, group), whole, c.local(whole, rank), None, None)
        check(cv.gather, (cuts, rank, group), c.local(whole, rank), whole, None, None)
        swap = (cuts, tuple((d, o, i, balanced(r[-1][1], world)) for d, o, i, r in cuts))
        check(exchange, (*swap, rank, group), c.local(whole, rank), [take(whole[0], Cut(*swap[1][0]), rank)], None, None)
    # The sum of a half type is rounded once.
    c = Case(9, world, dtype=torch.bfloat16)
    cuts = tuple(c.cuts)
    exact = [x.to(torch.bfloat16) for x in c.total([[g.double() for g in gs] for gs in c.grads])]
    check(cv.gather_partial, (cuts, rank, group), c.local(c.whole, rank), c.whole, c.grads[rank], c.local(exact, rank), 1e-2)
    # K/V heads read by several ranks: a bf16 gradient is summed in fp32 too.
    kv = grouped(2 * world, 2 * world, world)
    gradients = [draw(torch.Generator().manual_seed(r), (1, 1, world, 4), torch.bfloat16) for r in range(world)]
    plan = (((2, 1, 1, balanced(world, world)),), ((1, 1, 1, kv),), rank, group)
    exact = sum(g.double() for g in gradients).to(torch.bfloat16)[:, :, rank : rank + 1]
    x = torch.zeros(1, 1, 1, 4, dtype=torch.bfloat16, requires_grad=True)
    (got,) = torch.autograd.grad(exchange([x], *plan), [x], [gradients[rank]])
    torch.testing.assert_close(got, exact, rtol=1e-2, atol=1e-2)
    mixed = [torch.ones(2), torch.ones(3, dtype=torch.float64), torch.ones(1)]
    for y, x in zip(cv.all_reduce(mixed, group), mixed):
        assert y.dtype == x.dtype and torch.equal(y, x * world)
    with pytest.raises(ValueError, match="one dtype"):
        exchange(mixed[:2], ((0, 1, 1, balanced(2, world)),) * 2, ((0, 1, 1, balanced(2, world)),) * 2, rank, group)
    with pytest.raises(ValueError, match="should hold"):
        cv.gather([torch.ones(5)], ((0, 1, 1, balanced(2, world)),), rank, group)


class ExchangeCase(Case):
    """Tensors with a source and a target cut each: two dims, or one dim with moved boundaries or nested factors."""

    def __init__(self, seed, world, tensors):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.world = world
        self.sources, self.targets, self.shapes = [], [], []
        rows = random_ranges(rng, world, rng.randint(0, 9))
        kind = rng.choice(("two", "two", "two", "same", "outers", "nested"))
        shared = None
        for _ in range(tensors):
            shape = [rng.randint(1, 3) for _ in range(rng.randint(2, 4))]
            if kind == "two":
                row_dim, column_dim = rng.sample(range(len(shape)), 2)
                overlap = rng.random() < 0.4
                columns = grouped(rng.randint(0, 9), rng.randint(1, 3), world) if overlap else random_ranges(rng, world, rng.randint(0, 9))
                source, shape[row_dim] = random_cut(rng, world, row_dim, rows)
                target, shape[column_dim] = random_cut(rng, world, column_dim, columns)
            else:
                dim = rng.randrange(len(shape))
                if shared is None:
                    shared = self.one_dim(rng, world, kind)
                source, target, shape[dim] = (dim, *shared[0]), (dim, *shared[1]), shared[2]
            self.sources.append(source)
            self.targets.append(target)
            self.shapes.append(tuple(shape))
        if kind in ("two", "nested") and rng.random() < 0.4 and not any(Cut(*c).overlaps for c in self.targets):
            self.sources, self.targets = self.targets, self.sources
            if kind == "two" and tensors > 1:
                self.shapes, self.sources, self.targets = self.shapes[:1], self.sources[:1], self.targets[:1]
        self.cuts = self.targets
        self.whole = [draw(generator, s) for s in self.shapes]
        self.grads = [[draw(generator, s) for s in self.shapes] for _ in range(world)]

    @staticmethod
    def one_dim(rng, world, kind):
        units = rng.randint(0, 8)
        if kind == "same":
            outer, inner = rng.choice((1, 2)), rng.choice((1, 2))
            target = grouped(units, 1, world) if rng.random() < 0.7 else grouped(units * 2, 2, world)
            return (outer, inner, random_ranges(rng, world, units)), (outer, inner, target), outer * inner * units
        units += 1
        if kind == "outers":
            return (1, 1, random_ranges(rng, world, 2 * units)), (2, 1, random_ranges(rng, world, units)), 2 * units
        inside = rng.randint(1, 5)
        around = (2, inside, random_ranges(rng, world, units))
        return around, (2 * units, 1, random_ranges(rng, world, inside)), 2 * units * inside


def exchanges_hold(rank, world, group, cases):
    for seed in range(cases):
        c = ExchangeCase(seed, world, 1 + seed % 3)
        c.cuts = c.targets
        outputs, out_grads = c.local(c.whole, rank), c.local(c.grads[rank], rank)
        summed = c.total([c.padded(r, c.grads[r]) for r in range(world)])
        c.cuts = c.sources
        plan = (tuple(c.sources), tuple(c.targets), rank, group)
        try:
            check(exchange, plan, c.local(c.whole, rank), outputs, out_grads, c.local(summed, rank))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {c.shapes} {plan}") from error


def layouts_hold(rank, world, group):
    """What arrives for q, k and v is one buffer; what comes back has its rows before its heads in memory."""
    batch, heads, kv_heads, size, length = 2, 2 * world, 2 * world, 4, 4 * world + 1
    sequence, by_head = balanced(length, world), balanced(heads, world)
    own = sequence[rank][1] - sequence[rank][0]
    xs = [torch.randn(batch, h, own, d) for h, d in ((heads, size), (kv_heads, size), (kv_heads, 2 * size))]
    cut, heads_cut = (2, 1, 1, sequence), (1, 1, 1, by_head)
    q, k, v = exchange(xs, (cut,) * 3, (heads_cut,) * 3, rank, group)
    assert q.untyped_storage().data_ptr() == k.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()
    assert v.stride(-1) == 1 and tuple(v.shape) == (batch, 2, length, 2 * size)
    (out,) = exchange([q], (heads_cut,), (cut,), rank, group)
    assert out.transpose(1, 2).is_contiguous() and torch.equal(out, xs[0])


def every_group(rank, world):
    """Groups of 4, 3 and 2 of the four ranks, one after another."""
    for size, cases in ((4, 8), (3, 10), (2, 12)):
        member = dist.new_group(list(range(size)))
        if rank < size:
            group = member.group_name
            conversions_hold(rank, size, group, cases)
            exchanges_hold(rank, size, group, 4 * cases)
            other_dtypes_hold(rank, size, group)
            layouts_hold(rank, size, group)


def test_conversions():
    run_ranks(4, every_group, timeout=180)
