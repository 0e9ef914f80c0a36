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
    """What was decided for one joint graph. saved: values; recomputed: nodes, by index; policies: what the user's checkpoints say."""

    imported: ImportedJoint
    saved: list[int]
    recomputed: list[int]
    policies: dict[torch.fx.Node, str]

    def names(self, nodes: list[int]) -> list[str]:
        return [self.imported.nodes[i].name for i in nodes]

    def nodes_run_again(self) -> set[torch.fx.Node]:
        return {self.imported.nodes[i] for i in self.recomputed}

    def nodes_saved(self) -> set[torch.fx.Node]:
        """The ops that make what is saved."""
        return {self.imported.nodes[self.imported.origins[v]] for v in self.saved}


@contextlib.contextmanager
def plans():
    """Collects the plans that are applied inside."""
    found: list[Plan] = []
    policies: list[dict] = []
    apply, load = checkpoint._apply, checkpoint.import_joint

    def keep_policies(*args, **kwargs):
        policies.append(kwargs["policies"])
        return load(*args, **kwargs)

    def keep(imported, saved, recomputed):
        found.append(Plan(imported, saved, recomputed, policies[-1]))
        apply(imported, saved, recomputed)

    checkpoint._apply, checkpoint.import_joint = keep, keep_policies
    try:
        yield found
    finally:
        checkpoint._apply, checkpoint.import_joint = apply, load


def under(c: Comparison, ranks: int, **options) -> tuple[Result, list[Plan]]:
    """The program with these options, right against the single process, saving what was planned on every rank."""
    with plans() as found:
        result = c.check_compiled(ranks, **options)
    for forward, plan in zip(result.forward, found, strict=bool(found)):
        saves_as_planned(forward, result.number, plan)
    return result, found


def saves_as_planned(forward: torch.fx.GraphModule, number: int, plan: Plan) -> None:
    """Besides the plan's values torch keeps the generator's state for each op with the tag of random ops that is run again."""
    graph = plan.imported.graph
    leaves = [n for n in torch_compat.output_leaves(forward)[number:] if isinstance(n, torch.fx.Node)]
    states = [n for n in leaves if n.op == "call_function" and "run_and_save_rng_state" in str(n.args[0])]
    tagged = [n for n in plan.nodes_run_again() if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())]
    assert len(states) == len(tagged), f"generator states are kept: {states}, for {tagged}"
    names = {n.name for n in leaves if isinstance(n.meta.get("val"), torch.Tensor)} - {n.name for n in states}
    shared = {n.name: graph.base(v) for n, v in plan.imported.values.items()}
    assert names <= set(shared), f"saved, and not known to the core: {names - set(shared)}"
    inputs = {i[0] for i in graph.inputs}
    got, want = {shared[n] for n in names} - inputs, set(plan.saved)
    name = {v: plan.imported.node_of[v].name for v in got | want}
    assert got == want, f"saved beyond the plan: {[name[v] for v in got - want]}; planned, not saved: {[name[v] for v in want - got]}"


def same_gradients(result: Result, reference: Result, mode: str, tolerance: float = 1e-6) -> None:
    """Of every input on every rank, and new contents of inputs."""
    for rank, (grads, expected) in enumerate(zip(result.grads, reference.grads, strict=True)):
        assert grads.keys() == expected.keys()
        floor = 1e-3 * max([float(g.norm()) for g in expected.values() if g is not None], default=1.0)
        for name, want in expected.items():
            assert (grads[name] is None) == (want is None), name
            if want is not None:
                close(grads[name], want, tolerance, f"{mode}: gradient of {name} against stock's, rank {rank}", floor)
    for mine, expected in zip(result.written, reference.written, strict=True):
        for got, want in zip(mine, expected, strict=True):
            close(got, want, tolerance, f"{mode}: new contents of an input against stock's")


def budgets(result: Result) -> list[str]:
    """That some plan of every rank fits: the least, and for one rank one in the middle."""
    reports = [r.checkpoints for r in result.joint]
    least = max(r["frontier"][0][0] for r in reports)
    most = max(r["frontier"][-1][0] for r in reports)
    return [f"{least}B"] + ([f"{(least + most) // 2}B"] if most > least and len(reports) == 1 else [])


def every_mode(c: Comparison, ranks: int, tolerance: float = 1e-6, percent: str | None = None) -> dict[str, tuple[Result, list[Plan]]]:
    """By mode or budget. Gradients are stock's, and a budget's simulated peak is within it."""
    stock, none = under(c, ranks, checkpoint="stock")
    assert not none
    out = {"stock": (stock, none)}
    for mode in ("sac", "full"):
        out[mode] = under(c, ranks, checkpoint=mode)
    for budget in [*budgets(stock), *([percent] if percent else [])]:
        result, _ = out[budget] = under(c, ranks, memory_budget=budget)
        for report in result.joint:
            peak, whole = report.checkpoints["peak"], report.checkpoints["stock_peak"]
            assert peak <= (int(budget[:-1]) if budget.endswith("B") else whole * float(budget[:-1]) / 100), budget
    for mode, (result, _) in out.items():
        same_gradients(result, stock, mode, tolerance)
    return out


def calls(graph: torch.fx.GraphModule, packet: str) -> int:
    """How often a graph calls an op, by itself or under torch's keeping of the generator's state."""
    found = [t for n in graph.graph.nodes for t in (n.target, *n.args[:2])]
    return sum(getattr(getattr(t, "overloadpacket", None), "__name__", "") == packet for t in found)
