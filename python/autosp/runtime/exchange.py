"""S(f) -> S(g): one all-to-all for one or several tensors (q, k and v together), forward and backward.

Two dims. One cut is called the rows, the other the columns; a block that travels is [rows, features of the columns]. Rows to columns
(sequence to heads): the blocks that arrive, one under another, are one [all rows, features] buffer, and every result is a strided
view of it. Columns to rows (heads to sequence): what is sent to a rank is a contiguous slice of rows, so a tensor whose rows come
first in memory is sent as it lies, and one copy puts the columns together. The backward of one is the other. The longer cut is the
rows, so that sequences are; columns may overlap, and then the direction to rows sums them.

One dim. Boundaries move: each rank sends the overlaps of its old runs with the new runs of every other.
"""

import math

import torch
from torch import Tensor
from torch.autograd import Function

from .collectives import all_to_all, tie
from .layout import (
    Cut,
    accumulation_dtype,
    assemble,
    check_local,
    make_cuts,
    pack,
    regular_blocks,
    rows_back,
    rows_first,
    shared_rows,
    unpack,
)


def exchange(xs: list[Tensor], source_cuts: tuple, target_cuts: tuple, rank: int, group: str) -> list[Tensor]:
    """S(f) -> S(g). All tensors have one dtype and the same ranges on the side of the rows (q, k, v: the sequence)."""
    sources, targets = make_cuts(source_cuts), make_cuts(target_cuts)
    if any(x.dtype != xs[0].dtype for x in xs):
        raise ValueError(f"tensors that share a collective need one dtype: {[x.dtype for x in xs]}")
    return list(_Exchange.apply(sources, targets, rank, group, *xs))


class _Exchange(Function):
    @staticmethod
    def forward(ctx, sources, targets, rank, group, *xs):
        ctx.plan = (targets, sources, rank, group)
        return _exchange(xs, sources, targets, rank, group)

    @staticmethod
    def backward(ctx, *gs):
        return None, None, None, None, *_exchange(gs, *ctx.plan)


def _exchange(xs, sources, targets, rank, group) -> tuple[Tensor, ...]:
    for x, cut in zip(xs, sources):
        check_local(x, cut, rank)
    one_dim = {source.dim == target.dim for source, target in zip(sources, targets)}
    if len(one_dim) > 1:
        raise ValueError(f"an exchange along one dim and one across two dims cannot share: {sources} -> {targets}")
    if one_dim.pop():
        sources, targets = (tuple(cut.elements() for cut in cuts) for cuts in (sources, targets))
        nested = _is_nested(sources[0], targets[0])
        return (_exchange_nested if nested else _move_boundaries)(xs, sources, targets, rank, group)
    to_columns, rows, columns = _rows_and_columns(sources, targets)
    views = [_Canonical(r, c) for r, c in zip(rows, columns)]
    canonical = [view.open(x) for view, x in zip(views, xs)]
    move = _rows_to_columns if to_columns else _columns_to_rows
    moved = move(canonical, [view.axis for view in views], rows[0], columns, rank, group)
    return tuple(view.close(y) for view, y in zip(views, moved))


def _rows_and_columns(sources: tuple[Cut, ...], targets: tuple[Cut, ...]):
    """(whether the source is the rows, rows, columns). Symmetric: a backward has the rows of its forward."""
    source_rows, target_rows = shared_rows(sources), shared_rows(targets)
    if source_rows is None and target_rows is None:
        raise ValueError(f"tensors that share an exchange need the same ranges on one side: {sources} -> {targets}")
    to_columns = target_rows is None
    if source_rows is not None and target_rows is not None:
        to_columns = (sources[0].units, sources[0].dim) > (targets[0].units, targets[0].dim)
    rows, columns = (source_rows, targets) if to_columns else (target_rows, sources)
    return to_columns, rows, tuple(cut.elements() for cut in columns)


class _Canonical:
    """The view [row, ..., column block, column, ...] of a tensor: `axis` is the column's."""

    def __init__(self, rows: Cut, columns: Cut):
        column = columns.dim + (columns.outer > 1)
        row = rows.dim + (columns.outer > 1 and rows.dim > columns.dim)
        self.columns = columns
        self.rows = rows._replace(dim=row)
        if rows.outer > 1 or rows.inner > 1:
            column += (1 + (rows.inner > 1)) * (row < column)
            row += 1
        self.axis = column + (column < row)

    def open(self, x: Tensor) -> Tensor:
        dim, outer = self.columns.dim, self.columns.outer
        if outer > 1:
            x = x.unflatten(dim, (outer, x.shape[dim] // outer))
        return rows_first(x, self.rows)

    def close(self, x: Tensor) -> Tensor:
        x = rows_back(x, self.rows)
        return x.flatten(self.columns.dim, self.columns.dim + 1) if self.columns.outer > 1 else x


def _width(x: Tensor, axis: int, size: int) -> int:
    """Features per row when the column axis has `size` elements."""
    return math.prod(_features(x, axis, size))


def _features(x: Tensor, axis: int, size: int) -> list[int]:
    shape = list(x.shape)
    shape[axis] = size
    return shape[1:]


def _rows_to_columns(xs, axes, rows, columns, rank, group) -> list[Tensor]:
    """[own rows, all columns] -> [all rows, own columns], as views of what arrives."""
    own = rows.sizes[rank]
    widths = [sum(_width(x, a, c.sizes[j]) for x, a, c in zip(xs, axes, columns)) for j in range(len(rows.ranges))]
    blocks = [regular_blocks(cut) for cut in columns]
    if own and all(blocks):
        parts = [_split_blocks(x, axis, b) for x, axis, b in zip(xs, axes, blocks)]
        sent = (parts[0] if len(parts) == 1 else torch.cat(parts, 2)).reshape(-1)
    else:
        sent = _join([_column_block(xs, axes, columns, j) for j in range(len(widths))], xs)
    received = all_to_all(sent, [n * widths[rank] for n in rows.sizes], [own * w for w in widths], group, xs)
    shapes = [_features(x, a, c.sizes[rank]) for x, a, c in zip(xs, axes, columns)]
    return unpack(received.view(rows.units, widths[rank]), shapes)


def _split_blocks(x: Tensor, axis: int, blocks) -> Tensor:
    """[m, ..., columns, ...] -> [ranks, m, features]: one copy."""
    x = x.unflatten(axis, (blocks.number, blocks.size)).movedim(axis, 0)
    if blocks.repeat > 1:
        x = x.unsqueeze(1).expand(blocks.number, blocks.repeat, *x.shape[1:])
    rows = x.shape[2] if blocks.repeat > 1 else x.shape[1]
    return x.reshape(blocks.number * blocks.repeat, rows, x.numel() // (blocks.number * blocks.repeat * rows))


def _column_block(xs, axes, columns, j: int) -> Tensor:
    """What goes to rank j, flat."""
    parts = [x.narrow(a, c.ranges[j][0], c.sizes[j]) for x, a, c in zip(xs, axes, columns)]
    return pack(parts).reshape(-1)


def _columns_to_rows(xs, axes, rows, columns, rank, group) -> list[Tensor]:
    """[all rows, own columns] -> [own rows, all columns], summed where columns overlap."""
    own, world = rows.sizes[rank], len(rows.ranges)
    buffer = pack(xs)
    per_rank = [[_width(x, a, c.sizes[i]) for x, a, c in zip(xs, axes, columns)] for i in range(world)]
    widths = [sum(w) for w in per_rank]
    sent_sizes = [n * widths[rank] for n in rows.sizes]
    received = all_to_all(buffer.reshape(-1), [own * w for w in widths], sent_sizes, group, xs)
    blocks = [regular_blocks(cut) for cut in columns]
    if own and all(blocks):
        arrived = received.view(world, own, widths[0]).split(per_rank[0], 2)
        return [_merge_blocks(y, x, a, b) for y, x, a, b in zip(arrived, xs, axes, blocks)]
    arrived = [y.view(own, w) for y, w in zip(received.split([own * w for w in widths]), widths)]
    results = []
    for t, (x, axis, cut) in enumerate(zip(xs, axes, columns)):
        pieces = []
        for i, (lo, hi) in enumerate(cut.ranges):
            if own and hi > lo:
                y = arrived[i].narrow(1, sum(per_rank[i][:t]), per_rank[i][t])
                pieces.append((lo, hi, y.view(own, *_features(x, axis, hi - lo)).movedim(0, axis - 1)))
        if pieces:
            results.append(assemble(pieces, axis).movedim(axis - 1, 0))
        else:
            results.append(tie(x.new_zeros(own, *_features(x, axis, cut.units)), received))
    return results


def _merge_blocks(y: Tensor, x: Tensor, axis: int, blocks) -> Tensor:
    """[ranks, m, features] -> [m, ..., columns, ...]; in memory the rows stand right before the columns."""
    features = _features(x, axis, blocks.size)
    y = y.view(blocks.number, blocks.repeat, y.shape[1], *features)
    if blocks.repeat > 1:
        y = y.to(accumulation_dtype(x.dtype)).sum(1).to(x.dtype)
    else:
        y = y.squeeze(1)
    # [blocks, m, ..., column, ...] -> [..., m, blocks, column, ...] -> [..., m, columns, ...] -> [m, ..., columns, ...]
    y = y.movedim((1, 0), (axis - 1, axis)).flatten(axis, axis + 1)
    return y.movedim(axis - 1, 0)


def _join(blocks: list[Tensor], sources) -> Tensor:
    """1-D blocks one after another, without the empty ones: a `cat` of those would lose where they came from."""
    filled = [b for b in blocks if b.numel()]
    if not filled:
        return tie(sources[0].new_zeros(0), *sources)
    return filled[0] if len(filled) == 1 else torch.cat(filled)


def _is_nested(source: Cut, target: Cut) -> bool:
    """Whether one cut lies inside the units of the other, so that the dim can be split into one for each."""
    if source.outer == target.outer:
        return False
    inside, around = (target, source) if target.outer > source.outer else (source, target)
    return inside.units > 0 and all(edge % inside.units == 0 for pair in around.ranges for edge in pair)


def _exchange_nested(xs, sources, targets, rank, group) -> tuple[Tensor, ...]:
    """One dim that holds both factors: exchanged as two dims."""
    opened, before, after, target_inside = [], [], [], targets[0].outer > sources[0].outer
    for x, source, target in zip(xs, sources, targets):
        inside, around = (target, source) if target_inside else (source, target)
        size = inside.units
        outer_cut = Cut(around.dim, around.outer, 1, tuple((lo // size, hi // size) for lo, hi in around.ranges))
        inner_cut = Cut(inside.dim + 1, 1, 1, inside.ranges)
        local = size if target_inside else inside.sizes[rank]
        count = around.outer * (outer_cut.sizes[rank] if target_inside else outer_cut.units)
        opened.append(x.unflatten(source.dim, (count, local)))
        before.append(outer_cut if target_inside else inner_cut)
        after.append(inner_cut if target_inside else outer_cut)
    moved = _exchange(opened, before, after, rank, group)
    return tuple(y.flatten(source.dim, source.dim + 1) for y, source in zip(moved, sources))


def _runs(cut: Cut, rank: int) -> list[tuple[int, int, int]]:
    """What `rank` holds of the whole dim: (first, last + 1, local position of first), adjacent runs joined."""
    lo, hi = cut.ranges[rank]
    runs: list[tuple[int, int, int]] = []
    local = 0
    for block in range(cut.outer if hi > lo else 0):
        first, last = block * cut.units + lo, block * cut.units + hi
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], last, runs[-1][2])
        else:
            runs.append((first, last, local))
        local += hi - lo
    return runs


def _overlaps(source_runs, target_runs) -> list[tuple[int, int, int]]:
    """(position in the source, position in the target, length) of what both hold, in global order."""
    found = []
    for first, last, position in source_runs:
        for begin, end, place in target_runs:
            lo, hi = max(first, begin), min(last, end)
            if hi > lo:
                found.append((position + lo - first, place + lo - begin, hi - lo))
    return found


def _move_boundaries(xs, sources, targets, rank, group) -> tuple[Tensor, ...]:
    """Both cuts on one dim: every rank sends what others hold from now on."""
    source, target, world = sources[0], targets[0], len(sources[0].ranges)
    for cuts, first in ((sources, source), (targets, target)):
        if any(cut[1:] != first[1:] for cut in cuts):
            raise ValueError(f"tensors that share an exchange along one dim need the same cuts: {cuts}")
    rows = [x.movedim(cut.dim, 0) for x, cut in zip(xs, sources)]
    features = [r.shape[1:] for r in rows]
    buffer = pack(rows)
    width = buffer.shape[1]
    sends = [_overlaps(_runs(source, rank), _runs(target, j)) for j in range(world)]
    receives = [_overlaps(_runs(source, i), _runs(target, rank)) for i in range(world)]
    flat = [part for parts in sends for part in parts]
    whole = sum(n for _, _, n in flat) == buffer.shape[0] and all(a[0] + a[2] == b[0] for a, b in zip(flat, flat[1:]))
    sent = buffer.reshape(-1) if whole else _join([buffer.narrow(0, at, n).reshape(-1) for at, _, n in flat], xs)
    arriving, leaving = ([width * sum(n for _, _, n in parts) for parts in side] for side in (receives, sends))
    received = all_to_all(sent, arriving, leaving, group, xs)
    received = received.view(sum(n for parts in receives for _, _, n in parts), width)
    pieces, position = [], 0
    for _, place, n in (part for parts in receives for part in parts):
        pieces.append((place, place + n, received.narrow(0, position, n)))
        position += n
    in_order = all(a[1] == b[0] for a, b in zip(pieces, pieces[1:]))
    moved = received if in_order else assemble(pieces, 0)
    return tuple(y.movedim(0, cut.dim) for y, cut in zip(unpack(moved, features), targets))
