"""The checkpointing frontier on synthetic transformer training steps, against an integer program (HiGHS)."""

from __future__ import annotations

import time

import pytest
from autosp._core import solve_frontier

from integer_program import IntegerProgram, price

pytest.importorskip("scipy")

UNLIMITED = 1 << 60  # bytes


class Program:
    """Ops and values as solve_frontier takes them. Time in picoseconds at 400 TFLOP/s and 2 TB/s; what fuses into its reader takes none."""

    def __init__(self) -> None:
        self.ops: list[tuple[list[int], list[int], int, bool, bool]] = []
        self.values: list[tuple[int, int, int]] = []
        self.results: list[int] = []
        self.gradients: list[int] = []

    def input(self, size: int = 0) -> int:
        self.values.append((-1, len(self.values), size))
        return len(self.values) - 1

    def op(self, reads, sizes, picoseconds, backward=False, once=False) -> list[int]:
        makes = list(range(len(self.values), len(self.values) + len(sizes)))
        self.values += [(len(self.ops), v, size) for v, size in zip(makes, sizes, strict=True)]
        self.ops.append((list(dict.fromkeys(reads)), makes, int(picoseconds), backward, once))
        return makes

    def view(self, of: int) -> int:
        self.values.append((len(self.ops), self.values[of][1], 0))
        self.ops.append(([of], [len(self.values) - 1], 0, False, False))
        return len(self.values) - 1

    def fused(self, *reads: int, size: int) -> int:
        return self.op(reads, [size], 0)[0]

    def kernel(self, *reads: int, size: int) -> int:
        return self.op(reads, [size], (len(reads) + 1) * size // 2)[0]

    def matmul(self, x: int, rows: int, inner: int, columns: int) -> int:
        flops = 2 * rows * inner * columns
        return self.view(self.op([self.view(x), self.view(self.input())], [2 * rows * columns], flops // 400)[0])


def transformer(layers: int, tokens: int, width: int, hidden: int, groups: int, dropout: bool) -> tuple[Program, list[int], list[int]]:
    """Also the attention ops and the ops that make the layers' inputs."""
    p = Program()
    act, wide = 2 * tokens * width, 2 * tokens * hidden
    attention_ops, layer_makers, saved_for_backward = [], [], []

    def norm(x: int) -> int:
        precise = p.fused(x, size=2 * act)
        scale = p.op([p.fused(precise, size=2 * act)], [4 * tokens], act // 2)[0]
        narrow = p.fused(p.fused(precise, scale, size=2 * act), size=act)
        weight = p.input()
        saved_for_backward.extend([[precise, scale, weight], [narrow]])
        return p.kernel(narrow, weight, size=act)

    def exchange(x: int, size: int) -> int:
        return p.view(p.op([p.view(x)], [size], 5 * size)[0])

    angles = p.kernel(p.input(), size=256 * tokens)
    x = p.op([p.input(), p.input()], [act], act)[0]
    for _ in range(layers):
        layer_makers.append(p.values[x][0])
        normed = norm(x)
        heads = []
        for out in (width, width // groups, width // groups):
            size = 2 * tokens * out
            projected = p.matmul(normed, tokens, width, out)
            saved_for_backward.append([p.view(normed)])
            if len(heads) < 2:
                turned = p.fused(p.view(projected), size=size)
                projected = p.kernel(projected, angles, turned, size=size)
                saved_for_backward.append([angles])
            heads.append(exchange(projected, size))
        attention_ops.append(len(p.ops))
        attended = p.op(heads, [act, 4 * tokens * 32], 4 * tokens * tokens * width // 400)
        saved_for_backward.append([*heads, *attended])
        mixed = exchange(attended[0], act)
        projected = p.matmul(mixed, tokens, width, width)
        saved_for_backward.append([p.view(mixed)])
        if dropout:
            mask = p.op([p.input()], [act // 2], act, once=True)[0]
            projected = p.fused(projected, mask, size=act)
            saved_for_backward.append([mask])
        x = p.kernel(x, projected, size=act)
        normed = norm(x)
        gate, up = (p.matmul(normed, tokens, width, hidden) for _ in range(2))
        saved_for_backward.append([p.view(normed)])
        precise = p.fused(gate, size=2 * wide)
        sigmoid = p.fused(precise, size=2 * wide)
        silu = p.kernel(p.fused(precise, sigmoid, size=2 * wide), size=wide)
        both = p.kernel(silu, up, size=wide)
        saved_for_backward.extend([[silu, up], [precise, sigmoid], [p.view(both)]])
        x = p.kernel(x, p.matmul(both, tokens, hidden, width), size=act)
    logits = p.matmul(norm(x), tokens, width, 32000)
    saved_for_backward.append([logits])
    p.results = [logits]
    gradient = p.input(act)
    for reads in reversed(saved_for_backward):
        gradient = p.op([*reads, gradient], [act], 0, backward=True)[0]
    p.gradients = [gradient]
    return p, attention_ops, layer_makers


CASES = {
    # Layers' inputs saved, attention not run again: what a sequence-parallel training step asks for.
    "16-layers-separated": ({"layers": 16, "tokens": 8192, "width": 2048, "hidden": 8192, "groups": 4, "dropout": False}, True),
    "24-layers": ({"layers": 24, "tokens": 16384, "width": 3072, "hidden": 8192, "groups": 3, "dropout": False}, False),
    "32-layers-dropout": ({"layers": 32, "tokens": 16384, "width": 4096, "hidden": 14336, "groups": 4, "dropout": True}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_budgets_are_met_within_two_percent_of_the_integer_optimum(case):
    shape, separated = CASES[case]
    p, attention, layer_makers = transformer(**shape)
    bans = attention + (layer_makers if separated else [])
    points, corners, _ = solve_frontier(p.ops, p.values, p.results, p.gradients, bans)
    fewest, most = points[0][0], points[-1][0]
    budgets = [fewest + (most - fewest) * k // 11 for k in range(1, 11)]
    start = time.perf_counter()
    _, _, fastest = solve_frontier(p.ops, p.values, p.results, p.gradients, bans, budgets)
    ours = time.perf_counter() - start
    assert len(corners) >= 3 and len(points) > shape["layers"]

    integer_program = IntegerProgram(p, bans)
    start = time.perf_counter()
    worst = 0.0
    for budget, (size, picoseconds, bound, optimal, saved, recomputed) in zip(budgets, fastest, strict=True):
        assert price(p, bans, saved, recomputed) == (size, picoseconds)
        assert size <= budget and bound <= picoseconds
        found, at_least = integer_program.solve(budget, seconds=3.0)
        assert bound <= found * (1 + 1e-6)
        assert at_least <= picoseconds * (1 + 1e-6)
        if optimal:
            assert picoseconds <= found * (1 + 1e-6)
        nearest = max(at_least, bound)  # both hold for every plan
        assert picoseconds <= 1.02 * nearest, f"budget {budget}: {picoseconds} against at least {nearest}"
        worst = max(worst, picoseconds / nearest - 1)
    theirs = time.perf_counter() - start
    print(f"{len(p.ops)} ops, at most {worst:.2%} over the bound; 10 budgets in {ours:.2f} s, integer program {theirs:.1f} s")


def test_ends_of_the_frontier_are_least_bytes_and_no_recompute():
    p, attention, _ = transformer(layers=2, tokens=512, width=256, hidden=1024, groups=2, dropout=True)
    points, corners, fastest = solve_frontier(p.ops, p.values, p.results, p.gradients, attention, [UNLIMITED])
    assert corners[0] == 0 and corners[-1] == len(points) - 1
    assert points[-1][1] == 0 and fastest[0][:2] == points[-1]
    found, _ = IntegerProgram(p, attention).solve(points[0][0], seconds=10.0)
    assert found == pytest.approx(points[0][1])


def test_programs_without_a_legal_plan_and_bad_indices_are_refused():
    p = Program()
    state = p.input()
    shown = p.view(state)
    p.ops[0] = (*p.ops[0][:4], True)
    p.op([shown], [1], 0, backward=True)
    with pytest.raises(ValueError, match="no plan is legal"):
        solve_frontier(p.ops, p.values, [], [], [])
    with pytest.raises(IndexError):
        solve_frontier(p.ops, p.values, [9], [], [])
