"""One op as a program: built as a captured graph without Dynamo, planned with a chosen cut, run on ranks and as a whole.

The program reads the op's tensors, passes each through an elementwise op (so that the op meets values of the program, not inputs), calls
the op, and weighs every element of every float result into a loss, so that a wrong element is a wrong number. Beside it stands a wide
elementwise branch: a plan may make the op's own tensors whole without more than half of the sequence being whole.

Ranks are threads that run the exported program eagerly, forward and backward, and meet at each collective: a few milliseconds a
program, where AOTAutograd for each rank takes a hundred times as long.
"""

from __future__ import annotations

import operator
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import fx

from autosp.capture import Captured, CapturedInput
from autosp.compiler import core_options
from autosp.config import Options
from autosp.fx_export import Rank, export_graph
from autosp.fx_import import import_graph
from autosp.runtime import collectives
from lockstep import collective

aten = torch.ops.aten


@dataclass(frozen=True)
class Spec:
    """A tensor to be made. kind: float, int, bool, complex; float in [low, high), no two elements equal; int in [low, high)."""

    shape: tuple[int, ...]
    kind: str = "float"
    low: float = 0.1
    high: float = 0.9
    values: tuple | None = None

    def make(self, generator: torch.Generator) -> torch.Tensor:
        if self.values is not None:
            return torch.tensor(self.values).reshape(self.shape)
        count = max(1, torch.Size(self.shape).numel())
        if self.kind == "int":
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator)
        if self.kind == "bool":
            return torch.rand(self.shape, generator=generator) < 0.5
        if self.kind == "complex":
            return torch.randn(self.shape, generator=generator, dtype=torch.complex128)
        steps = torch.randperm(count, generator=generator).double()
        return (self.low + (self.high - self.low) * (steps + 0.37) / count).reshape(self.shape)


@dataclass(frozen=True)
class Call:
    """An op with its arguments, Specs in place of tensors."""

    op: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    grad: bool = True

    @property
    def target(self):
        return resolve(self.op)


def resolve(name: str):
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _map(value, function):
    """`value` with every Spec in it replaced."""
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, function) for v in value)
    return function(value) if isinstance(value, Spec) else value


def _tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


class _Record(fx.Interpreter):
    def run_node(self, node):
        node.meta["val"] = result = super().run_node(node)
        return result


class OpProgram:
    """`split`: (operand, dim, blocks): that operand enters as [..., blocks, size / blocks, ...] and is flattened before the op.
    `seen`: the tensor whose cut the wide branch follows."""

    def __init__(self, call: Call, seen: str = "t0", split: tuple[int, int, int] | None = None):
        self.call, self.graph = call, fx.Graph()
        generator = torch.Generator().manual_seed(1)
        tensors: list[torch.Tensor] = []

        def make(spec):
            tensors.append(spec.make(generator))
            return tensors[-1]

        args, kwargs = _map(call.args, make), {k: _map(v, make) for k, v in call.kwargs.items()}
        self.operands = [f"t{i}" for i in range(len(tensors))]
        self.shapes = [tuple(t.shape) for t in tensors]
        with torch.no_grad():
            fresh = iter([t.clone() for t in tensors])
            call_args, call_kwargs = _map(call.args, lambda _: next(fresh)), {}
            for k, v in call.kwargs.items():
                call_kwargs[k] = _map(v, lambda _: next(fresh))
            results = _tensors(call.target(*call_args, **call_kwargs))
        del args, kwargs
        if split is not None:
            operand, dim, blocks = split
            shape = list(tensors[operand].shape)
            shape[dim : dim + 1] = [blocks, shape[dim] // blocks]
            tensors[operand] = tensors[operand].reshape(shape)
        self.inputs = dict(zip(self.operands, tensors, strict=True))
        self.results = []
        for i, result in enumerate(results):
            real = torch.view_as_real(result) if result.is_complex() else result
            if real.is_floating_point():
                weights = Spec(tuple(real.shape), low=0.5, high=1.5).make(generator).to(real.dtype)
                self.inputs[f"w{i}"] = weights
                self.results.append(f"w{i}")
        size = sum(r.numel() * r.element_size() for r in results) + sum(t.numel() * t.element_size() for t in tensors)
        self.inputs["wide"] = torch.full((4 + 6 * size // max(1, 8 * self.inputs[seen].numel()),), 0.01, dtype=torch.float64)
        nodes = {name: self.graph.placeholder(name) for name in self.inputs}
        loss = self._wide_branch(nodes[seen], self.inputs[seen], nodes["wide"])
        operands = iter([self._operand(nodes[n], self.inputs[n], s) for n, s in zip(self.operands, self.shapes, strict=True)])
        call_args = _map(call.args, lambda _: next(operands))
        call_kwargs = {k: _map(v, lambda _: next(operands)) for k, v in call.kwargs.items()}
        self.node = self._add(call.target, *call_args, **call_kwargs)
        returns = call.target._schema.returns
        outs = [self.node]
        if len(returns) > 1 or "[]" in str(returns[0].type) or str(returns[0].type).startswith("List"):
            outs = [self._add(operator.getitem, self.node, i) for i in range(len(results))]
        for i, (out, result) in enumerate(zip(outs, results, strict=True)):
            if f"w{i}" in nodes:
                real = self._add(aten.view_as_real.default, out) if result.is_complex() else out
                term = self._add(aten.sum.default, self._add(aten.mul.Tensor, real, nodes[f"w{i}"]))
                loss = self._add(aten.add.Tensor, loss, term)
        self.graph.output((loss, *outs))
        self.module = fx.GraphModule({}, self.graph)
        self.expected, self.gradients, self.differentiable = None, None, None
        self._run_whole()

    def _add(self, target, *args, **kwargs) -> fx.Node:
        return self.graph.call_function(target, args, kwargs)

    def _operand(self, node: fx.Node, x: torch.Tensor, shape: tuple[int, ...]) -> fx.Node:
        if tuple(x.shape) != shape:
            node = self._add(aten.reshape.default, node, list(shape))
        return self._add(aten.mul.Scalar, node, 1.25 - 0.25) if x.is_floating_point() and False else self._add(aten.clone.default, node)

    def _wide_branch(self, node: fx.Node, x: torch.Tensor, wide: fx.Node) -> fx.Node:
        if x.is_complex():
            node = self._add(aten.real.default, node)
        if x.dtype is not torch.float64:
            node = self._add(aten.to.dtype, node, torch.float64)
        return self._add(aten.sum.default, self._add(aten.mul.Tensor, self._add(aten.unsqueeze.default, node, -1), wide))

    def _leaves(self) -> list[torch.Tensor]:
        wanted = self.call.grad
        return [x.detach().clone().requires_grad_(wanted and (x.is_floating_point() or x.is_complex())) for x in self.inputs.values()]

    def _run_whole(self) -> None:
        leaves = self._leaves()
        outputs = _Record(self.module).run(*leaves)
        for node in self.graph.nodes:
            node.meta["val"] = _detached(node.meta["val"])
        self.expected, self.gradients = _detached(outputs), _gradients(outputs[0], leaves)
        inputs = tuple(CapturedInput(n, "user", leaf.requires_grad) for n, leaf in zip(self.inputs, leaves, strict=True))
        self.captured = Captured(self.module, inputs)

    def run(self, name: str, dim: int, ranks: int) -> Run:
        """Run with input `name` cut along `dim`."""
        options = core_options(Options.parse({"inner": "eager", "sequence_dims": {name: dim}}))
        imported = import_graph(self.captured, ranks, False)
        report, _ = imported.graph.run_forward(options, [], "")
        modules = [
            export_graph(imported, imported.graph.localize(r), Rank(r, ranks, "threads", True)).module for r in range(ranks)
        ]
        origin = list(self.graph.nodes).index(self.node)
        cut = any(
            imported.graph.form(v)[0] == "S"
            for _, args, results, at, _ in imported.graph.ops()
            if at == origin
            for v in [*results, *_values(args)]
        )
        run = Run(report.summary["ops_made_whole"], cut, imported.graph.text())

        def body(rank):
            leaves = self._leaves()
            outputs = modules[rank](*leaves)
            return _detached(outputs), _gradients(outputs[0], leaves)

        run.ranks = on_threads(body, ranks)
        return run

    def check(self, name: str, dim: int, ranks: int, tolerance: float = 1e-9) -> Run:
        run = self.run(name, dim, ranks)
        for outputs, gradients in run.ranks:
            for k, (got, want) in enumerate(zip(_tensors(outputs), _tensors(self.expected), strict=True)):
                torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m, k=k: f"output {k}: {m}")
            for n, got, want in zip(self.inputs, gradients, self.gradients, strict=True):
                if want is not None or got is not None:
                    zero = torch.zeros_like(self.inputs[n])
                    got, want = zero if got is None else got, zero if want is None else want
                    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m, n=n: f"grad of {n}: {m}")
        return run


@dataclass
class Run:
    """made_whole: ops without a rule; cut: whether the op itself had a cut operand or result; ranks: (outputs, gradients) of each."""

    made_whole: int
    cut: bool
    text: str
    ranks: list = field(default_factory=list)


def _values(args) -> list[int]:
    out = []
    for _, value in args:
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "index") and not isinstance(item, (int, str, list)):
                out.append(item.index)
    return out


def _detached(value):
    if isinstance(value, torch.Tensor):
        return value.detach()
    return type(value)(_detached(v) for v in value) if type(value) in (list, tuple) else value


def _gradients(loss: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    wanted = [x for x in leaves if x.requires_grad]
    if not wanted or not loss.requires_grad:
        return [None] * len(leaves)
    found = iter(torch.autograd.grad(loss, wanted, allow_unused=True))
    return [next(found) if x.requires_grad else None for x in leaves]


class _Meeting:
    """What a collective is where the ranks are threads; stands in for torch.ops._c10d_functional."""

    def __init__(self, ranks: int):
        self.local = threading.local()
        self.requests: list = [None] * ranks
        self.replies: list = [None] * ranks
        self.error: Exception | None = None
        self.barrier = threading.Barrier(ranks, self._collective, timeout=60)

    def _collective(self) -> None:
        names = {name for name, _ in self.requests}
        assert len(names) == 1, f"ranks wait at {[name for name, _ in self.requests]}"
        self.replies = [None] * len(self.requests) if names == {"end"} else collective(self.requests)

    def meet(self, name: str, *args):
        rank = self.local.rank
        self.requests[rank] = (name, args)
        self.barrier.wait()
        return self.replies[rank]

    def __getattr__(self, name: str):
        return (lambda x: x) if name == "wait_tensor" else lambda *args: self.meet(name, *args)


@contextmanager
def _collectives_of(meeting):
    before, collectives._ops = collectives._ops, meeting
    try:
        yield
    finally:
        collectives._ops = before


def on_threads(body, ranks: int) -> list:
    """body(rank) for each rank, all at once; collectives of autosp.runtime are met by all. The first error of a rank is raised."""
    meeting = _Meeting(ranks)
    results, errors = [None] * ranks, []

    def run(rank):
        meeting.local.rank = rank
        try:
            results[rank] = body(rank)
            meeting.meet("end")
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)
            meeting.barrier.abort()

    with _collectives_of(meeting):
        threads = [threading.Thread(target=run, args=(r,)) for r in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    assert not meeting.barrier.broken, "a rank waited too long"
    return results
