"""One program under every way of checkpointing, on ranks in lock step: gradients against torch's own plan and against eager PyTorch, and
what the two graphs really save and run again against what was planned."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch

from autosp import checkpoint, torch_compat
from autosp.joint_import import ImportedJoint
from lockstep import Result
from sharded_runs import Comparison, close

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@dataclass
class Plan:
    """What was decided for one joint graph. saved: values; recomputed: nodes, by index."""

    imported: ImportedJoint
    saved: list[int]
    recomputed: list[int]

    def names(self, nodes) -> list[str]:
        return [self.imported.nodes[i].name for i in nodes]


@contextlib.contextmanager
def plans():
    """Collects the plans that are applied inside."""
    found: list[Plan] = []
    apply = checkpoint._apply

    def keep(imported, saved, recomputed):
        found.append(Plan(imported, saved, recomputed))
        apply(imported, saved, recomputed)

    checkpoint._apply = keep
    try:
        yield found
    finally:
        checkpoint._apply = apply


def under(c: Comparison, ranks: int, **options) -> tuple[Result, list[Plan]]:
    """The program with these options, right against the single process, saving what was planned on every rank."""
    with plans() as found:
        result = c.check_compiled(ranks, **options)
    for forward, plan in zip(result.forward, found, strict=bool(found)):
        saves_as_planned(forward, result.number, plan)
    return result, found


def saves_as_planned(forward: torch.fx.GraphModule, number: int, plan: Plan) -> None:
    graph = plan.imported.graph
    leaves = torch_compat.output_leaves(forward)[number:]
    names = {n.name for n in leaves if isinstance(n, torch.fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)}
    shared = {n.name: graph.base(v) for n, v in plan.imported.values.items()}
    assert names <= set(shared), f"saved, and not known to the core: {names - set(shared)}"
    inputs = {i[0] for i in graph.inputs}
    got, want = {shared[n] for n in names} - inputs, set(plan.saved)
    name = {v: plan.imported.node_of[v].name for v in got | want}
    assert got == want, f"saved beyond the plan: {[name[v] for v in got - want]}; planned, not saved: {[name[v] for v in want - got]}"


def same_gradients(result: Result, reference: Result, tolerance: float = 1e-6) -> None:
    """Of every input on every rank, and new contents of inputs."""
    for rank, (grads, expected) in enumerate(zip(result.grads, reference.grads, strict=True)):
        assert grads.keys() == expected.keys()
        floor = 1e-3 * max([float(g.norm()) for g in expected.values() if g is not None], default=1.0)
        for name, want in expected.items():
            assert (grads[name] is None) == (want is None), name
            if want is not None:
                close(grads[name], want, tolerance, f"gradient of {name} against stock's, rank {rank}", floor)
    for mine, expected in zip(result.written, reference.written, strict=True):
        for got, want in zip(mine, expected, strict=True):
            close(got, want, tolerance, "new contents of an input against stock's")


def budgets(result: Result) -> list[str]:
    """Budgets that some plan of every rank fits: the least, one in the middle, all of the stock plan's peak where that is enough."""
    reports = [r.checkpoints for r in result.joint]
    least = max(r["frontier"][0][0] for r in reports)
    most = max(r["frontier"][-1][0] for r in reports)
    out = [f"{least}B"] + ([f"{(least + most) // 2}B"] if most > least else [])
    return [*out, "100%"] if all(r["frontier"][0][0] <= r["stock_peak"] for r in reports) else out


def every_mode(c: Comparison, ranks: int, tolerance: float = 1e-6) -> dict[str, tuple[Result, list[Plan]]]:
    """By mode or budget; a budget's simulated peak is within it."""
    stock, none = under(c, ranks, checkpoint="stock")
    assert not none
    out = {"stock": (stock, none)}
    for mode in ("sac", "full"):
        out[mode] = under(c, ranks, checkpoint=mode)
    for budget in budgets(stock):
        result, _ = out[budget] = under(c, ranks, memory_budget=budget)
        for report in result.joint:
            limit = int(budget[:-1]) if budget.endswith("B") else report.checkpoints["stock_peak"]
            assert report.checkpoints["peak"] <= limit, budget
    for mode, (result, _) in out.items():
        try:
            same_gradients(result, stock, tolerance)
        except AssertionError as error:
            raise AssertionError(f"{mode}: {error}") from None
    return out


def calls(graph: torch.fx.GraphModule, packet: str) -> int:
    """How often a graph calls an op, by itself or under torch's keeping of the generator's state."""
    found = [t for n in graph.graph.nodes for t in (n.target, *n.args[:2])]
    return sum(getattr(getattr(t, "overloadpacket", None), "__name__", "") == packet for t in found)
