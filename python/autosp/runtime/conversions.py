"""Changes of form, each with the gradient that belongs to it.

A value is R (whole, gradient whole on every rank), S (a cut of it), P (a partial sum per rank) or Q (whole, but its gradient is a
partial sum per rank). Every function takes a list of tensors and returns the list of results; what stands in one list shares one
collective, forward and backward. Tensors that share one have the same ranges (in elements or in units), and, but for all-reduces, one
dtype.

function             form       forward         backward
shard                R -> S     slice           all-gather (overlapping ranges: zero padding and all-reduce)
enter_partial        R -> Q     nothing         all-reduce
shard_partial        Q -> S     slice           zero padding
gather               S -> R     all-gather      slice
gather_partial       S -> Q     all-gather      reduce-scatter
keep_on_first        Q -> R     nothing         gradient kept on rank 0
all_reduce           P -> R     all-reduce      nothing
all_reduce_partial   P -> Q     all-reduce      all-reduce
reduce_scatter       P -> S     reduce-scatter  all-gather
"""

import torch
from torch import Tensor
from torch.autograd import Function

from .collectives import gather_rows, reduce_scatter_rows, sum_everywhere, tie
from .layout import Cut, check_local, make_cuts, pack, pad_whole, rows_back, rows_first, shared_rows, take, unpack


def shard(xs: list[Tensor], cuts: tuple, rank: int, group: str) -> list[Tensor]:
    """R -> S."""
    return list(_Shard.apply(make_cuts(cuts), rank, group, *xs))


def shard_partial(xs: list[Tensor], cuts: tuple, rank: int) -> list[Tensor]:
    """Q -> S."""
    return list(_ShardPartial.apply(make_cuts(cuts), rank, *xs))


def enter_partial(xs: list[Tensor], world: int, group: str, reduce: bool) -> list[Tensor]:
    """R -> Q. Without `reduce` the gradient stays partial, times `world`: averaging over the group makes it whole."""
    return list(_EnterPartial.apply(world, group, reduce, *xs))


def gather(xs: list[Tensor], cuts: tuple, rank: int, group: str) -> list[Tensor]:
    """S -> R."""
    return list(_Gather.apply(make_cuts(cuts), rank, group, *xs))


def gather_partial(xs: list[Tensor], cuts: tuple, rank: int, group: str) -> list[Tensor]:
    """S -> Q."""
    return list(_GatherPartial.apply(make_cuts(cuts), rank, group, *xs))


def keep_on_first(xs: list[Tensor], rank: int) -> list[Tensor]:
    """Q -> R."""
    return list(_KeepOnFirst.apply(rank, *xs))


def all_reduce(xs: list[Tensor], group: str) -> list[Tensor]:
    """P -> R."""
    return list(_AllReduce.apply(group, *xs))


def all_reduce_partial(xs: list[Tensor], group: str) -> list[Tensor]:
    """P -> Q."""
    return list(_AllReducePartial.apply(group, *xs))


def reduce_scatter(xs: list[Tensor], cuts: tuple, rank: int, group: str) -> list[Tensor]:
    """P -> S."""
    return list(_ReduceScatter.apply(make_cuts(cuts), rank, group, *xs))


def _rows_of(xs: tuple[Tensor, ...], cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    rows = shared_rows(cuts)
    if rows is None:
        raise ValueError(f"tensors that share a collective need the same ranges, none overlapping: {cuts}")
    if any(x.dtype != xs[0].dtype for x in xs):
        raise ValueError(f"tensors that share a collective need one dtype: {[x.dtype for x in xs]}")
    return rows


def _all_gather(xs: tuple[Tensor, ...], cuts: tuple[Cut, ...], rank: int, group: str) -> tuple[Tensor, ...]:
    for x, cut in zip(xs, cuts):
        check_local(x, cut, rank)
    cuts = _rows_of(xs, cuts)
    rows = [rows_first(x, cut) for x, cut in zip(xs, cuts)]
    whole = gather_rows(pack(rows), cuts[0].sizes, group)
    return tuple(rows_back(y, cut) for y, cut in zip(unpack(whole, [r.shape[1:] for r in rows]), cuts))


def _reduce_scatter(xs: tuple[Tensor, ...], cuts: tuple[Cut, ...], rank: int, group: str) -> tuple[Tensor, ...]:
    cuts = _rows_of(xs, cuts)
    rows = [rows_first(x, cut) for x, cut in zip(xs, cuts)]
    own = reduce_scatter_rows(pack(rows), cuts[0].sizes, rank, group)
    return tuple(rows_back(y, cut) for y, cut in zip(unpack(own, [r.shape[1:] for r in rows]), cuts))


def _pad_all(gs: tuple[Tensor, ...], cuts: tuple[Cut, ...], rank: int) -> list[Tensor]:
    padded = [pad_whole(g, cut, rank) for g, cut in zip(gs, cuts)]
    return [tie(p, g) if g.numel() == 0 else p for p, g in zip(padded, gs)]


class _Shard(Function):
    @staticmethod
    def forward(ctx, cuts, rank, group, *xs):
        ctx.plan = (cuts, rank, group)
        return tuple(take(x, cut, rank) for x, cut in zip(xs, cuts))

    @staticmethod
    def backward(ctx, *gs):
        cuts, rank, group = ctx.plan
        if any(cut.overlaps for cut in cuts):
            return None, None, None, *sum_everywhere(_pad_all(gs, cuts, rank), group)
        return None, None, None, *_all_gather(gs, cuts, rank, group)


class _ShardPartial(Function):
    @staticmethod
    def forward(ctx, cuts, rank, *xs):
        ctx.plan = (cuts, rank)
        return tuple(take(x, cut, rank) for x, cut in zip(xs, cuts))

    @staticmethod
    def backward(ctx, *gs):
        return None, None, *_pad_all(gs, *ctx.plan)


class _EnterPartial(Function):
    @staticmethod
    def forward(ctx, world, group, reduce, *xs):
        ctx.plan = (world, group, reduce)
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gs):
        world, group, reduce = ctx.plan
        summed = sum_everywhere(list(gs), group) if reduce else [g * world for g in gs]
        return None, None, None, *summed


class _Gather(Function):
    @staticmethod
    def forward(ctx, cuts, rank, group, *xs):
        ctx.plan = (cuts, rank)
        return _all_gather(xs, cuts, rank, group)

    @staticmethod
    def backward(ctx, *gs):
        cuts, rank = ctx.plan
        return None, None, None, *(take(g, cut, rank) for g, cut in zip(gs, cuts))


class _GatherPartial(Function):
    @staticmethod
    def forward(ctx, cuts, rank, group, *xs):
        ctx.plan = (cuts, rank, group)
        return _all_gather(xs, cuts, rank, group)

    @staticmethod
    def backward(ctx, *gs):
        return None, None, None, *_reduce_scatter(gs, *ctx.plan)


class _KeepOnFirst(Function):
    @staticmethod
    def forward(ctx, rank, *xs):
        ctx.rank = rank
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gs):
        return None, *(gs if ctx.rank == 0 else (tie(torch.zeros_like(g), g) for g in gs))


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, group, *xs):
        return tuple(sum_everywhere(list(xs), group))

    @staticmethod
    def backward(ctx, *gs):
        return None, *gs


class _AllReducePartial(Function):
    @staticmethod
    def forward(ctx, group, *xs):
        ctx.group = group
        return tuple(sum_everywhere(list(xs), group))

    @staticmethod
    def backward(ctx, *gs):
        return None, *sum_everywhere(list(gs), ctx.group)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, cuts, rank, group, *xs):
        ctx.plan = (cuts, rank, group)
        return _reduce_scatter(xs, cuts, rank, group)

    @staticmethod
    def backward(ctx, *gs):
        return None, None, None, *_all_gather(gs, *ctx.plan)
