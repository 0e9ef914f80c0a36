"""The placement of captured graphs: exact against an integer program, the same under two elimination orders, and right about attention."""

from __future__ import annotations

import numpy as np
import pytest
from autosp._core import Graph, solve_placement

import llama_graphs

MACHINE = (5e14, 2.5e12, 2e11, 1e-5)
BYTES_ONLY = (5e14, 1e30, 2e11, 0.0)  # memory traffic and latency cost nothing: arithmetic must be shared, then what is sent counts


def ready(text: str) -> Graph:
    graph = Graph.parse(text)
    graph.run_forward([], [], "", "lower-random")
    return graph


def solve(text: str, memory: bool = True, machine=MACHINE, gradients_partial: bool = False, **kwargs):
    return solve_placement(ready(text), memory, gradients_partial, machine, **kwargs)


def integer_optimum(placement):
    """(whole bytes, time) of the optimum by two integer programs: the local polytope with binary states."""
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import coo_array

    offsets, count = [], 0
    for states in placement.unary:
        offsets.append(count)
        count += len(states)
    whole, time, upper = [], [], []

    def add(cost):
        whole.append(cost[0] if not cost[3] else 0)
        time.append(cost[1] if not cost[3] else 0)
        upper.append(0.0 if cost[3] else 1.0)

    for states in placement.unary:
        for cost in states:
            add(cost)
    rows, cols, vals, low, high = [], [], [], [], []

    def constrain(entries, value):
        for col, val in entries:
            rows.append(len(low))
            cols.append(col)
            vals.append(val)
        low.append(value)
        high.append(value)

    for v, states in enumerate(placement.unary):
        constrain([(offsets[v] + k, 1.0) for k in range(len(states))], 1.0)
    for a, b, table in placement.pairs:
        na, nb = len(placement.unary[a]), len(placement.unary[b])
        start = len(upper)
        for cost in table:
            add(cost)
        for i in range(na):
            constrain([(start + i * nb + j, 1.0) for j in range(nb)] + [(offsets[a] + i, -1.0)], 0.0)
        for j in range(nb):
            constrain([(start + i * nb + j, 1.0) for i in range(na)] + [(offsets[b] + j, -1.0)], 0.0)
    matrix = coo_array((vals, (rows, cols)), shape=(len(low), len(upper))).tocsr()
    integrality = np.array([1] * count + [0] * (len(upper) - count))
    base = [LinearConstraint(matrix, low, high)]
    scale = max(1.0, max(whole))
    first = milp(np.array(whole) / scale, constraints=base, integrality=integrality, bounds=(0, np.array(upper)))
    assert first.success
    least = first.fun
    within = LinearConstraint(np.array([whole]) / scale, -np.inf, least * (1 + 1e-9) + 1e-9)
    unit = max(1.0, max(time))
    second = milp(np.array(time) / unit, constraints=[*base, within], integrality=integrality, bounds=(0, np.array(upper)))
    assert second.success
    return least * scale, second.fun * unit


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize(("ranks", "kv_heads"), [(2, 8), (8, 8), (4, 1), (8, 2)])
def test_the_solver_finds_the_integer_programs_optimum(memory, ranks, kv_heads):
    placement = solve(llama_graphs.at_ranks(llama_graphs.text(num_key_value_heads=kv_heads), ranks), memory)
    whole, time = integer_optimum(placement)
    assert placement.cost[0] == pytest.approx(whole, rel=1e-6, abs=1)
    assert placement.cost[1] == pytest.approx(time, rel=1e-6)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_plan_does_not_depend_on_the_elimination_order(ranks):
    text = llama_graphs.at_ranks(llama_graphs.text(layers=2), ranks)
    one, other = solve(text), solve(text, min_degree=True)
    assert one.cost == other.cost
    assert one.state == other.state


def sent(kind: str, heads: int, kv: int, ranks: int) -> float:
    """Bytes a rank sends per layer, forward and backward, over e*S*d/P: paper.md, "Bytes sent" (gathered K/V with gradients in bf16)."""
    if kind == "heads":
        held = kv if ranks <= kv else sum(len({h * kv // heads for h in range(lo, hi)}) for lo, hi in shares(heads, ranks))
        return 2 * (2 * heads + 2 * held) * (ranks - 1) / ranks
    return 4 * kv * (ranks - 1)


def shares(heads: int, ranks: int):
    bounds = [r * (heads // ranks) + min(r, heads % ranks) for r in range(ranks + 1)]
    return list(zip(bounds, bounds[1:], strict=False))


@pytest.mark.parametrize("kv", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_attention_sends_the_fewest_bytes_with_objective_time(kv, ranks):
    heads = sent("heads", 32, kv, ranks)
    queries = sent("queries", 32, kv, ranks)
    if heads == queries:
        pytest.skip("a tie in bytes")
    # Weights' gradients are left out of the price: what they cost depends on the plan too (column-cut projections at 2 ranks). The
    # second layer is looked at: the first may compute the embedding whole, which costs nothing here.
    text = llama_graphs.at_ranks(llama_graphs.text(layers=2, num_key_value_heads=kv), ranks)
    placement = solve(text, False, BYTES_ONLY, gradients_partial=True)
    assert placement.attention[1][1] == ("heads" if heads < queries else "queries")


def test_unmasked_attention_exchanges_heads_with_objective_memory():
    for kv in (1, 8):
        for ranks in (2, 4, 8):
            placement = solve(llama_graphs.at_ranks(llama_graphs.text(num_key_value_heads=kv), ranks))
            assert [how for _, how in placement.attention] == ["heads"]
            assert placement.cost[0] == 0  # nothing that carries the sequence is whole
