"""One compile: captured graph -> core -> this rank's program -> the inner compiler. Every step that could differ between ranks is compared
through the store before anything runs."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import fx

from . import collective_list, torch_compat
from .agreement import Agreement
from .capture import Captured, capture
from .checkpoint import Checkpointing
from .config import Options
from .errors import CompileError
from .fx_export import Rank, export_graph
from .fx_import import Imported, import_graph
from .report import Report

log = logging.getLogger("autosp")


@dataclass
class Compiler:
    """Compiles graphs for one process group. `mesh`: a 1-D DeviceMesh, used for outputs that stay sharded; None for a single process."""

    options: Options
    mesh: object | None = None
    rules: dict[str, str] = field(default_factory=dict)
    positional_names: tuple[str, ...] = ()
    reports: list[Report] = field(default_factory=list)

    def __post_init__(self):
        group = self.mesh.get_group() if self.mesh is not None else None
        self.agreement = Agreement.of(group) if self.mesh is not None else Agreement.alone()
        self.rank = Rank(
            dist.get_rank(group) if group is not None else 0,
            dist.get_world_size(group) if group is not None else 1,
            torch_compat.group_name(group) if group is not None else "",
            self.options.gradients == "reduced",
        )

    def compile(self, gm: fx.GraphModule, example_inputs: Sequence) -> Callable:
        """A callable with the signature of Dynamo's graph. Errors are CompileError, on every rank."""
        with self.agreement.guard():
            return self._compile(gm, example_inputs)

    def _compile(self, gm: fx.GraphModule, example_inputs: Sequence) -> Callable:
        captured = capture(gm, example_inputs, self.positional_names)
        may_stay_cut = self.options.outputs == "auto" and self.options.fullgraph and self.mesh is not None
        imported, report = self._planned(captured, may_stay_cut)
        if not self.options.fullgraph:
            self._warn_of_break(gm, imported)
        self.agreement.same("plan", self.options.text() + "\n" + imported.graph.text())
        local = imported.graph.localize(self.rank.index if imported.graph.ranks > 1 else 0)
        self._dump("local", local.text())
        exported = export_graph(imported, local, self.rank)
        self._dump("exported", exported.module.print_readable(print_output=False), suffix="py")
        inputs = list(example_inputs)
        if exported.takes_seed:
            inputs.append(torch.zeros((), dtype=torch.int64, device=_device(example_inputs)))
        run = self._inner(exported.module, inputs, self._checkpointing(captured, imported, report))
        self.reports.append(report)
        return self._entry(run, imported, exported.takes_seed)

    def _planned(self, captured: Captured, may_stay_cut: bool) -> tuple[Imported, Report]:
        imported = import_graph(captured, self.rank.count, may_stay_cut)
        try:
            return imported, self._plan(imported)
        except CompileError as error:
            if self.options.fullgraph or not error.found.startswith("no sequence dimension was found"):
                raise
        # A piece between graph breaks that has no attention: every rank runs all of it, and the warning says so.
        warnings.warn(
            f"autosp: a part of the model between graph breaks has no attention and runs whole on every rank ({len(imported.nodes)} nodes)",
            UserWarning,
            stacklevel=2,
        )
        imported = import_graph(captured, 1, False)
        return imported, self._plan(imported)

    def _warn_of_break(self, gm: fx.GraphModule, imported: Imported) -> None:
        place = torch_compat.graph_break(gm)
        if place is None:
            return
        values = [leaf.meta["val"] for leaf in imported.nodes[-1].all_input_nodes]
        size = sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))
        warnings.warn(
            f"autosp: the graph breaks at {place}; {len(values)} values ({size} bytes) that cross it are made whole on every rank",
            UserWarning,
            stacklevel=2,
        )

    def _plan(self, imported: Imported) -> Report:
        core_report, timing = imported.graph.run_forward(core_options(self.options), sorted(self.rules.items()), self._dump_dir() or "")
        report = Report(core_report, timing, self.rank.count)
        log.info("compiled for %d ranks\n%s", self.rank.count, timing)
        if report.ops_made_whole:
            warnings.warn(report.made_whole_warning(), UserWarning, stacklevel=2)
        for text, _op, _location in core_report.diagnostics:
            if text.startswith("warning: "):
                warnings.warn("autosp: " + text.removeprefix("warning: "), UserWarning, stacklevel=2)
        return report

    def _dump_dir(self) -> str | None:
        root = os.environ.get("AUTOSP_DUMP")
        return os.path.join(root, f"rank{dist.get_rank() if self.mesh is not None else 0}", f"graph{len(self.reports)}") if root else None

    def _dump(self, stem: str, text: str, suffix: str = "sp") -> None:
        folder = self._dump_dir()
        if folder:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{stem}.{suffix}"), "w") as f:
                f.write(text)

    def _checkpointing(self, captured: Captured, imported: Imported, report: Report) -> Checkpointing:
        kinds = {i: given.kind for i, given in enumerate(captured.inputs)}
        folder = self._dump_dir()
        return Checkpointing(
            self.options,
            self.agreement if imported.graph.ranks > 1 else Agreement.alone(),
            kinds,
            captured.policies,
            report.sequence_length,
            os.path.join(folder, "joint") if folder else None,
            report.add_checkpoints,
        )

    def _inner(self, module: fx.GraphModule, inputs: list, checkpointing: Checkpointing) -> Callable:
        if self.options.inner == "eager":
            self.agreement.ready("compiled")
            return module.forward
        partition = torch_compat.partitioner(checkpointing.choose, self._compare_collectives, checkpointing.identity)
        compiled = torch_compat.compile_inner(self.options.inner, module, inputs, partition)
        self.agreement.ready("compiled")
        return compiled

    def _compare_collectives(self, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
        lists = collective_list.collectives_of(forward), collective_list.collectives_of(backward)
        collective_list.compare(*lists, self.agreement)

    def _entry(self, run: Callable, imported: Imported, takes_seed: bool) -> Callable:
        """What Dynamo calls: adds the seed, wraps outputs that stay sharded."""
        wraps = self._sharded_outputs(imported)
        if not wraps and not takes_seed:
            return run

        def entry(*args):
            if takes_seed:
                args = (*args, self._seed(_device(args)))
            outputs = run(*args)
            if not wraps:
                return outputs
            outputs = list(outputs)
            for position, dim, shape, stride in wraps:
                outputs[position] = torch_compat.sharded(outputs[position], self.mesh, dim, shape, stride)
            return tuple(outputs)

        return entry

    def _seed(self, device: torch.device) -> torch.Tensor:
        """Drawn from this process's default generator; the group's first rank decides. Every rank that runs this graph comes here."""
        seed = torch.randint(0, 2**62, (), dtype=torch.int64).to(device)
        if self.rank.count > 1:
            dist.broadcast(seed, group=self.mesh.get_group(), group_src=0)
        return seed

    def _sharded_outputs(self, imported: Imported) -> list[tuple[int, int, torch.Size, tuple]]:
        """(position, dim, global shape, global stride) of the outputs returned as DTensor."""
        out = []
        leaves = imported.nodes[-1].args[0]
        positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, fx.Node)]
        for position, value in zip(positions, imported.graph.outputs, strict=True):
            kind, dim = imported.graph.form(value)
            if kind == "S":
                val = leaves[position].meta["val"]
                out.append((position, dim, val.shape, val.stride()))
        return out


def core_options(options: Options) -> list[tuple[str, str]]:
    """The options that the core reads, as it takes them."""
    out = [("objective", options.objective), ("gradients", options.gradients), ("on_unsupported", options.on_unsupported)]
    if options.sequence_dims != "auto":
        out.append(("sequence_dims", ",".join(f"{k}={v}" for k, v in options.sequence_dims.items())))
    return out


def _device(tensors: Sequence) -> torch.device:
    return next((x.device for x in tensors if isinstance(x, torch.Tensor)), torch.device("cpu"))
