"""Cuts: which part of a dim each rank holds, and the views that collectives need.

A cut is the tuple `(dim, outer, inner, ranges)`. The dim, of size outer * n * inner, is seen as [outer, n, inner]; rank r holds the
units [lo, hi) of `ranges[r]` in every outer block. Ranges may be empty, and tile [0, n) in rank order, except for the K/V heads of
grouped queries: those may overlap.

Collectives move rows: the cut axis comes first, everything else is flattened into features. A view does it where memory allows.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Cut(NamedTuple):
    """A cut as printed: `ranges` count units of `inner` elements."""

    dim: int
    outer: int
    inner: int
    ranges: tuple

    @property
    def units(self) -> int:
        """Number of units over all ranks."""
        return max(hi for _, hi in self.ranges)

    @property
    def sizes(self) -> list[int]:
        """Number of units on each rank."""
        return [hi - lo for lo, hi in self.ranges]

    @property
    def overlaps(self) -> bool:
        """Whether some unit is held by two ranks."""
        return sum(self.sizes) != self.units

    def elements(self) -> "Cut":
        """The same cut with units of one element."""
        return Cut(self.dim, self.outer, 1, tuple((lo * self.inner, hi * self.inner) for lo, hi in self.ranges))


def make_cuts(cuts: tuple) -> tuple[Cut, ...]:
    """Reads the printed form of several cuts."""
    return tuple(Cut(*cut) for cut in cuts)


def shared_rows(cuts: tuple[Cut, ...]) -> tuple[Cut, ...] | None:
    """The cuts in units that give all of them the same ranges, none overlapping; None where there are none."""
    for same in (tuple(cut.elements() for cut in cuts), cuts):
        if not same[0].overlaps and all(cut.ranges == same[0].ranges for cut in same):
            return same
    return None


def check_local(x: Tensor, cut: Cut, rank: int) -> None:
    """Raises where the local tensor is not what the cut says."""
    expected = cut.outer * cut.sizes[rank] * cut.inner
    if x.shape[cut.dim] != expected:
        raise ValueError(f"rank {rank}: dim {cut.dim} of {tuple(x.shape)} should hold {expected} elements of {cut}")


def take(x: Tensor, cut: Cut, rank: int) -> Tensor:
    """The part of a whole tensor that `rank` holds; a view where outer is 1."""
    cut = cut.elements()
    lo, hi = cut.ranges[rank]
    if cut.outer == 1:
        return x.narrow(cut.dim, lo, hi - lo)
    x = x.unflatten(cut.dim, (cut.outer, cut.units))
    return x.narrow(cut.dim + 1, lo, hi - lo).flatten(cut.dim, cut.dim + 1)


def pad_whole(x: Tensor, cut: Cut, rank: int) -> Tensor:
    """The whole tensor that is `x` where `rank` holds it and zero elsewhere."""
    cut = cut.elements()
    lo, hi = cut.ranges[rank]
    axis = cut.dim
    if cut.outer > 1:
        x = x.unflatten(cut.dim, (cut.outer, hi - lo))
        axis += 1
    after = x.dim() - 1 - axis
    x = functional.pad(x, (0, 0) * after + (lo, cut.units - hi))
    return x.flatten(cut.dim, cut.dim + 1) if cut.outer > 1 else x


def rows_first(x: Tensor, cut: Cut) -> Tensor:
    """[..., outer * m * inner, ...] -> [m, ..., outer, inner, ...], without outer and inner where they are 1: a view."""
    if cut.outer == cut.inner == 1:
        return x.movedim(cut.dim, 0)
    sizes = (cut.outer, x.shape[cut.dim] // (cut.outer * cut.inner), cut.inner)
    x = x.unflatten(cut.dim, sizes if cut.inner > 1 else sizes[:2])
    return x.movedim(cut.dim + 1, 0)


def rows_back(x: Tensor, cut: Cut) -> Tensor:
    """The inverse of `rows_first`; a view where outer and inner are 1."""
    if cut.outer == cut.inner == 1:
        return x.movedim(0, cut.dim)
    return x.movedim(0, cut.dim + 1).flatten(cut.dim, cut.dim + 1 + (cut.inner > 1))


def pack(xs: list[Tensor]) -> Tensor:
    """Tensors with the same number of rows -> [rows, features of all of them]."""
    flat = [x.reshape(x.shape[0], math.prod(x.shape[1:])) for x in xs]
    return flat[0] if len(flat) == 1 else torch.cat(flat, 1)


def unpack(buffer: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """[rows, features] -> one view [rows, *shape] per shape."""
    widths = [math.prod(shape) for shape in shapes]
    parts = [buffer] if len(widths) == 1 else buffer.split(widths, 1)
    return [part.view(buffer.shape[0], *shape) for part, shape in zip(parts, shapes)]


class Blocks(NamedTuple):
    """Ranges of one length: `number` adjacent blocks of `size`, each held by `repeat` ranks in a row."""

    number: int
    size: int
    repeat: int


def regular_blocks(cut: Cut) -> Blocks | None:
    """The regular structure of the ranges, if they have one."""
    distinct = list(dict.fromkeys(cut.ranges))
    repeat = len(cut.ranges) // len(distinct)
    size = cut.sizes[0]
    if size == 0 or tuple(r for r in distinct for _ in range(repeat)) != cut.ranges:
        return None
    if any(r != (i * size, (i + 1) * size) for i, r in enumerate(distinct)):
        return None
    return Blocks(len(distinct), size, repeat)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of `dtype` are summed."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def assemble(pieces: list[tuple[int, int, Tensor]], axis: int) -> Tensor:
    """Joins non-empty (lo, hi, tensor) pieces along `axis`; what several pieces cover is summed."""
    pieces = sorted(pieces, key=lambda piece: piece[:2])
    if all(a[1] <= b[0] for a, b in zip(pieces, pieces[1:])):
        tensors = [x for _, _, x in pieces]
    else:
        edges = sorted({edge for lo, hi, _ in pieces for edge in (lo, hi)})
        tensors = [_sum_over(pieces, lo, hi, axis) for lo, hi in zip(edges, edges[1:])]
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, axis)


def _sum_over(pieces: list[tuple[int, int, Tensor]], lo: int, hi: int, axis: int) -> Tensor:
    parts = [x.narrow(axis, lo - start, hi - lo) for start, stop, x in pieces if start <= lo and hi <= stop]
    if len(parts) == 1:
        return parts[0]
    dtype = parts[0].dtype
    total = parts[0].to(accumulation_dtype(dtype))
    for part in parts[1:]:
        total = total + part
    return total.to(dtype)
