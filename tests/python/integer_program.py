"""The checkpointing problem as an integer program (HiGHS), without any of the core's shortcuts; and the price of a plan."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np


class IntegerProgram:
    """Least time run again with saved bytes <= budget: one binary an op (it runs again), one a value (it is saved).

    p.ops, p.values and p.gradients are as solve_frontier takes them; `unsaved`: values that may not be saved."""

    def __init__(self, p, bans: list[int], unsaved: Collection[int] = ()) -> None:
        from scipy.sparse import coo_array

        ops, values = len(p.ops), len(p.values)
        bans, unsaved = set(bans), set(unsaved)
        made = [maker >= 0 and not p.ops[maker][3] for maker, _, _ in p.values]
        self.time = np.array([0 if backward else picoseconds for _, _, picoseconds, backward, _ in p.ops] + [0] * values, dtype=float)
        self.bytes = np.array([0] * ops + [size for _, _, size in p.values], dtype=float)
        self.upper = np.array(
            [0 if backward or once or o in bans else 1 for o, (_, _, _, backward, once) in enumerate(p.ops)]
            + [1 if made[v] and base == v and v not in unsaved else 0 for v, (_, base, _) in enumerate(p.values)],
            dtype=float,
        )
        rows, columns, entries, low = [], [], [], []

        def available(v: int, reader: int | None) -> None:
            terms = [(p.values[v][0], 1), (ops + v, 1)] + ([(reader, -1)] if reader is not None else [])
            for column, entry in terms:
                rows.append(len(low))
                columns.append(column)
                entries.append(entry)
            low.append(1 if reader is None else 0)

        for o, (reads, _, _, backward, _) in enumerate(p.ops):
            for v in reads:
                if made[v]:
                    available(v, None if backward else o)
        for v in p.gradients:
            if made[v]:
                available(v, None)
        self.matrix = coo_array((entries, (rows, columns)), shape=(len(low), ops + values)).tocsr()
        self.low = np.array(low, dtype=float)

    def solve(self, budget: int, seconds: float) -> tuple[float, float]:
        """(time of a plan, bound that no plan passes), in picoseconds."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        microseconds, mebibytes = 1e-6, 2.0**-20
        solution = milp(
            self.time * microseconds,
            constraints=[
                LinearConstraint(self.matrix, self.low, np.inf),
                LinearConstraint(self.bytes[None, :] * mebibytes, -np.inf, budget * mebibytes),
            ],
            integrality=np.ones(len(self.time)),
            bounds=Bounds(0, self.upper),
            options={"time_limit": seconds, "mip_rel_gap": 5e-3},
        )
        assert solution.mip_dual_bound is not None, solution.message
        found = np.inf if solution.x is None else float(self.time @ np.round(solution.x))
        return found, solution.mip_dual_bound / microseconds


def price(p, bans: list[int], saved: list[int], recomputed: list[int]) -> tuple[int, int]:
    """(bytes, time) of a plan, after checking that it is legal."""
    there = {v for v, (maker, _, _) in enumerate(p.values) if maker < 0} | set(saved)
    again = set(recomputed)
    for o, (reads, makes, _, backward, once) in enumerate(p.ops):
        if o in again:
            assert not backward and not once and o not in bans
            there |= set(makes)
        if backward:
            there |= set(makes)
        if o in again or backward:
            assert there >= set(reads)
    assert there >= set(p.gradients)
    assert all(p.values[v][1] == v and p.values[v][0] >= 0 for v in saved)
    return sum(p.values[v][2] for v in saved), sum(p.ops[o][2] for o in again)
