"""Sequence-aware activation checkpointing: asks the core what the forward saves and what the backward runs again, for one joint graph,
and tells the stock partitioner by tags. One decision for the whole group: the first rank's, where all ranks have the same program."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from torch import fx

from . import _core, torch_compat
from .agreement import Agreement
from .capture import REGION
from .config import Options
from .joint_import import ImportedJoint, import_joint, saved_values


@dataclass
class Checkpointing:
    """The choice for the graphs of one compile.

    kinds      what each input of the program is, by position
    policies   the user's selective checkpoint policies by region; None: everything in the region is run again
    sequence   the length of the whole sequence; 0 where it is not known
    dump       where dumps go; None: nowhere
    done       called with the core's report and its table of times
    """

    options: Options
    agreement: Agreement
    kinds: Mapping[int, str] = field(default_factory=dict)
    policies: Mapping[int, Callable | None] = field(default_factory=dict)
    sequence: int = 0
    dump: str | None = None
    done: Callable = lambda report, timing: None

    @property
    def identity(self) -> str:
        """Changes with the core and with every option: a compiled graph kept under another identity is not used."""
        return f"autosp.{core_digest()}.{hashlib.blake2b(self.options.text().encode(), digest_size=8).hexdigest()}"

    def choose(self, gm: fx.GraphModule, num_forward_outputs: int) -> None:
        """Tag the nodes of a joint graph."""
        self._mark_regions(gm)
        torch_compat.tidy_joint(gm)
        policies = {n: t for n in gm.graph.nodes if (t := torch_compat.tag_of(n)) is not None}
        imported = import_joint(gm, num_forward_outputs, self.kinds, ranks=len(self.agreement.ranks), policies=policies)
        budget = self.options.memory_budget
        if self.options.checkpoint == "stock" and budget is None or budget is not None and budget.fraction is not None:
            for value in saved_values(imported, torch_compat.stock_saved(gm, num_forward_outputs)):
                imported.graph.mark_saved(value)
        structure = _structure(imported)
        alike = self.agreement.alike("program of forward and backward", structure)
        on_cpu = all(n.meta["val"].device.type == "cpu" for n in imported.values if n.op == "placeholder")
        report, timing = imported.graph.run_joint(core_options(self.options, self.sequence, alike, on_cpu), self.dump or "")
        self.done(report, timing)
        if self.options.checkpoint == "stock" and budget is None:
            return
        plan = json.dumps([imported.graph.saved, imported.graph.recomputed])
        if alike:
            plan = self.agreement.first("checkpoint plan", plan)
        _apply(imported, *json.loads(plan))

    def _mark_regions(self, gm: fx.GraphModule) -> None:
        """Nodes of the forward that stand in a checkpointed region get the tags that torch gives them when it traces one. Collectives do not:
        they were put there by the compiler, and whether they run again is the plan's to say, on every rank alike."""
        if not self.policies:
            return
        backward = torch_compat.depends_on_tangents(gm)
        for node in gm.graph.nodes:
            region = (node.meta.get("custom") or {}).get(REGION)
            if region is None or node.op != "call_function" or node in backward or torch_compat.is_collective(node.target):
                continue
            torch_compat.mark_region(node, region, self._said(node, region))

    def _said(self, node: fx.Node, region: int) -> str:
        """What the region's policy says of a node. An item of a tuple goes with its op: a tuple itself cannot be saved."""
        policy = self.policies.get(region)
        if node.target is operator.getitem:
            return torch_compat.tag_of(node.args[0]) or "recompute"
        if policy is None or not torch_compat.is_aten_like(node.target):
            return "recompute"
        return torch_compat.ask_policy(policy, node)


def core_options(options: Options, sequence: int, may_repeat_collectives: bool, on_cpu: bool) -> list[tuple[str, str]]:
    """What choose-checkpoints reads."""
    out = [
        ("checkpoint", options.checkpoint),
        ("fused", "true" if options.inner == "inductor" else "false"),
        ("on_cpu", "true" if on_cpu else "false"),
        ("rounding", "1" if on_cpu else "512"),  # of torch's allocators
        ("sequence_length", str(sequence)),
        ("repeat_collectives", "true" if may_repeat_collectives else "false"),
    ]
    budget = options.memory_budget
    if budget is not None:
        out.append(("memory_budget", f"{budget.fraction * 100:.17g}%" if budget.nbytes is None else str(budget.nbytes)))
    return out


def _structure(imported: ImportedJoint) -> str:
    """The program without sizes: two ranks with the same one can follow one plan."""
    lines = []
    for name, args, results, origin, _location in imported.graph.ops():
        reads = ",".join(str(v) for v in _values(args))
        lines.append(f"{origin} {name}({reads}) -> {results}")
    return "\n".join(lines)


def _values(args) -> list[int]:
    if isinstance(args, _core.Value):
        return [args.index]
    if isinstance(args, (list, tuple)):
        return [v for a in args for v in _values(a)]
    return []


def _apply(imported: ImportedJoint, saved: list[int], recomputed: list[int]) -> None:
    """Tags: a saved value's maker is not run again, whatever else is needed is. A wait is part of its collective."""
    for node in imported.nodes:  # a tag on what the backward does not need would make torch save for it, or find no cut
        torch_compat.untag(node)
    for origin in recomputed:
        node = imported.nodes[origin]
        torch_compat.tag(node, recompute=True)
        for item in imported.items.get(node, ()):
            torch_compat.tag(item, recompute=True)
    for value in saved:
        for node in (imported.nodes[imported.origins[value]], imported.node_of[value]):
            torch_compat.tag(node, recompute=False)
            for item in imported.items.get(node, ()):
                torch_compat.tag(item, recompute=False)


@cache
def core_digest() -> str:
    """Of the compiled core's file."""
    return hashlib.blake2b(Path(_core.__file__).read_bytes(), digest_size=8).hexdigest()
