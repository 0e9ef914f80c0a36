"""A model's call on n ranks against the same call in one process: every output, every gradient, every buffer it updates.

Truth is eager PyTorch on a copy of the model. The sharded program runs twice: `check` runs each rank's exported graph with eager autograd,
the ranks as threads (fast, so most tests use it); `check_compiled` runs the forward and backward graphs that AOTAutograd makes of it, in
lock step. Outputs come back through Dynamo, so they are compared as the user gets them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch

from autosp import torch_compat
from autosp.capture import capture
from autosp.compiler import core_options
from autosp.config import Options
from autosp.fx_export import Rank, export_graph
from autosp.fx_import import import_graph
from autosp.torch_compat import pytree
from lockstep import Program
from op_programs import on_threads

SEED = 1234  # of dropout


@dataclass
class Run:
    """One sharded run. summary: the core's report in numbers; text: the planned graph; conversions: as the report lists them."""

    summary: dict
    text: str
    conversions: list[dict]
    grads: list[dict[str, torch.Tensor | None]]
    outputs: list[list[torch.Tensor]]
    forms: list


class Comparison(Program):
    """`forward(model, **batch)` returns tensors in any nest, with at least one float scalar that requires a gradient; what is
    differentiated is the sum of those scalars, plus (`through_outputs`) every other float output times fixed weights. reset: Dynamo's
    caches are emptied first."""

    def __init__(
        self,
        model: torch.nn.Module,
        batch: dict,
        forward: Callable | None = None,
        tolerance: float = 1e-5,
        through_outputs: bool = False,
        reset: bool = True,
    ):
        self.model, self.batch, self.tolerance, self.through_outputs = model, batch, tolerance, through_outputs
        self.forward = forward or (lambda m, **b: m(**b))
        self.captured, self.inputs = None, []
        self._single_process()
        self._capture(reset)

    def _single_process(self) -> None:
        model = copy.deepcopy(self.model)
        batch = {k: v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for k, v in self.batch.items()}
        self.expected = tensors(self.forward(model, **batch))
        objective(self.expected, self.through_outputs)
        named = dict(model.named_parameters()) | {k: v for k, v in batch.items() if isinstance(v, torch.Tensor)}
        self.expected_grads = {n: x.grad for n, x in named.items() if x.requires_grad}
        self.expected_buffers = dict(model.named_buffers())
        self.expected = [t.detach() for t in self.expected]

    def _capture(self, reset: bool) -> None:
        def keep(gm, example_inputs):
            self.captured = capture(gm, example_inputs)
            self.inputs, self.module = list(example_inputs), gm.forward
            self.execute = once
            return lambda *args: self.execute(args)

        def once(args):
            found.append(self.module(*copies(args)))
            return found[-1]

        found = []
        if reset:
            torch.compiler.reset()
        with torch_compat.compile_settings():
            self.compiled = torch.compile(self.forward, backend=keep, fullgraph=True, dynamic=False)
            self.compiled(self.model, **self.batch)  # may set attributes that the next call depends on
            returned = {id(t) for t in tensors(self.compiled(self.model, **self.batch))}
        # The graph may have more outputs than the call: what it stores on the module.
        self.differentiated = {k for k, x in enumerate(tensors(found[-1])) if id(x) in returned}
        known = {id(p): n for n, p in self.model.named_parameters()} | {id(b): n for n, b in self.model.named_buffers()}
        known |= {id(v): n for n, v in self.batch.items() if isinstance(v, torch.Tensor)}
        self.names = [known.get(id(x), i.name) for x, i in zip(self.inputs, self.captured.inputs, strict=True)]

    def threads(self, ranks: int, **options) -> Run:
        """Run on `ranks` ranks as threads; nothing is compared."""
        parsed = Options.parse({"inner": "eager", **options})
        imported = import_graph(self.captured, ranks, parsed.outputs == "auto")
        report, _ = imported.graph.run_forward(core_options(parsed), [], "")
        exported = [
            export_graph(imported, imported.graph.localize(r), Rank(r, ranks, "threads", parsed.gradients == "reduced"))
            for r in range(ranks)
        ]
        forms = [imported.graph.form(v) for v in imported.graph.outputs]
        run = Run(report.summary, imported.graph.text(), report.conversions, [], [], forms)
        structure, grad_mode = [], torch.is_grad_enabled()

        def body(rank):
            torch.set_grad_enabled(grad_mode)  # a state of the thread
            leaves = copies(self.inputs)
            given = [*leaves, *([torch.tensor(SEED)] if exported[rank].takes_seed else [])]
            outputs = exported[rank].module(*given)
            flat, spec = pytree.tree_flatten(outputs)
            structure.append(spec)
            live = [x for x in flat if isinstance(x, torch.Tensor)]
            live = [x if k in self.differentiated else x.detach() for k, x in enumerate(live)]
            objective(live, self.through_outputs, self._part(rank, ranks, forms))
            return [x.detach() if isinstance(x, torch.Tensor) else x for x in flat], leaves

        def together(_args):
            found = on_threads(body, ranks)
            run.outputs = [[x for x in flat if isinstance(x, torch.Tensor)] for flat, _ in found]
            run.grads = [{n: x.grad for n, x in zip(self.names, leaves, strict=True) if x.requires_grad} for _, leaves in found]
            self.buffers = [{n: x for n, x in zip(self.names, leaves, strict=True) if n in self.expected_buffers} for _, leaves in found]
            wholes, k, out = self._wholes(run), 0, []
            for x in found[0][0]:
                out.append(wholes[k] if isinstance(x, torch.Tensor) else x)
                k += isinstance(x, torch.Tensor)
            return pytree.tree_unflatten(out, structure[0])

        self.execute = together
        with torch_compat.compile_settings():
            self.returned = [t.detach() for t in tensors(self.compiled(self.model, **self.batch))]
        assert run.outputs, "the sharded program did not run"
        return run

    def _part(self, rank: int, ranks: int, forms: list) -> Callable:
        """What of an output's whole weights belongs to a rank: outputs stay cut only where all ranks hold equal parts."""
        return lambda k, local, whole: whole(local.shape) if forms[k][0] != "S" else _chunk(whole, local, forms[k][1], rank, ranks)

    def _wholes(self, run: Run) -> list[torch.Tensor]:
        out = []
        for k, form in enumerate(run.forms):
            parts = [outputs[k] for outputs in run.outputs]
            if form[0] == "S":
                out.append(torch.cat(parts, form[1]))
            else:
                for other in parts[1:]:
                    assert torch.equal(other, parts[0]) or bool(other.isnan().any()), f"output {k} differs between ranks"
                out.append(parts[0])
        return out

    def check(self, *ranks: int, made_whole: int = 0, whole_share: float = 0.0, **options) -> Run:
        """Compare on each number of ranks; the last run. made_whole: how many ops may lack a rule; whole_share: which part of the
        bytes that carry the sequence may be whole."""
        for n in ranks:
            run = self.threads(n, **options)
            self.compare(run, n)
            if n > 1:
                s = run.summary
                assert s["values_cut"] > 0, "nothing was cut"
                assert s["ops_made_whole"] <= made_whole, f"{s['ops_made_whole']} ops were made whole"
                share = s["whole_bytes"] / max(1, s["sequence_bytes"])
                assert share <= whole_share, f"{share:.2f} of the sequence's bytes are whole"
        return run

    def expect_one_rank(self) -> None:
        """From here on truth is the program of one rank: for dropout, whose masks are not those of eager PyTorch."""
        run = self.threads(1)
        self.expected, self.expected_grads = self.returned, run.grads[0]

    def compare(self, run: Run, ranks: int) -> None:
        where = f"on {ranks} ranks"
        assert len(self.returned) == len(self.expected), where
        for k, (got, want) in enumerate(zip(self.returned, self.expected, strict=True)):
            assert got.shape == want.shape and got.dtype == want.dtype, f"output {k} {where}"
            close(got, want, self.tolerance, f"output {k} {where}")
        for rank, grads in enumerate(run.grads):
            self.compare_grads(grads, f"{where}, rank {rank}")
            for name, got in self.buffers[rank].items():
                close(got, self.expected_buffers[name], self.tolerance, f"buffer {name} {where}, rank {rank}")

    def compare_grads(self, grads: dict, where: str) -> None:
        norms = [float(g.norm()) for g in self.expected_grads.values() if g is not None and bool(g.isfinite().all())]
        floor = 1e-3 * max(norms, default=1.0)
        for name, want in self.expected_grads.items():
            got = grads.get(name)
            assert (got is None) == (want is None), f"gradient of {name} {where}: {got if got is None else 'one'}, not {want}"
            if want is not None:
                assert got.dtype == want.dtype
                close(got, want, self.tolerance, f"gradient of {name} {where}", floor)

    def check_compiled(self, ranks: int, **options):
        """The same with AOTAutograd's graphs. The program's one float scalar is the first output of its graph."""
        result = self.run(ranks, seed=SEED, **options)
        for rank, grads in enumerate(result.grads):
            named = {n: grads.get(i.name) for n, i in zip(self.names, self.captured.inputs, strict=True)}
            self.compare_grads(named, f"compiled for {ranks} ranks, rank {rank}")
        loss = next(t for t in self.expected if t.dim() == 0 and t.is_floating_point())
        for outputs in result.outputs:
            close(outputs[0].detach(), loss, self.tolerance, f"loss compiled for {ranks} ranks")
        return result


def tensors(outputs) -> list[torch.Tensor]:
    """The tensors in what a call returned, in order; a model output of transformers counts as a dict."""
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    return [x for x in pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def copies(inputs) -> list:
    return [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs]


def _weights(shape) -> torch.Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float32)).reshape(shape)


def _chunk(whole: Callable, local: torch.Tensor, dim: int, rank: int, ranks: int) -> torch.Tensor:
    shape = list(local.shape)
    shape[dim] *= ranks
    return whole(shape).chunk(ranks, dim)[rank]


def objective(outputs: list[torch.Tensor], through_outputs: bool, part: Callable | None = None) -> None:
    """Differentiates the sum of the scalars, and of the other outputs under fixed weights (a rank's `part` of them)."""
    total, seen = [], set()
    for k, x in enumerate(outputs):
        if id(x) in seen:
            continue  # returned twice
        seen.add(id(x))
        if x.is_floating_point() and x.requires_grad and x.dim() == 0:
            total.append(x)
        elif x.is_floating_point() and x.requires_grad and through_outputs:
            total.append((x * (part(k, x, _weights) if part else _weights(x.shape)).to(x.dtype)).sum())
    if total:
        sum(total).backward()


def close(got: torch.Tensor, want: torch.Tensor, tolerance: float, what: str, floor: float = 0.0) -> None:
    """Equal to `tolerance`, norm of the difference over norm of the truth; NaN where the truth has NaN; equal where they are no floats."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, not {tuple(want.shape)}"
    if not want.is_floating_point():
        assert torch.equal(got, want), f"{what} differs"
        return
    got, want = got.detach().double(), want.detach().double()
    assert torch.equal(got.isnan(), want.isnan()), f"{what}: NaN in {int(got.isnan().sum())} places, not in {int(want.isnan().sum())}"
    got, want = got.nan_to_num(0.0), want.nan_to_num(0.0)
    error = float((got - want).norm()) / max(float(want.norm()), floor, 1e-30)
    assert error <= tolerance or bool((got == want).all()), f"{what}: relative error {error:.3g}"
