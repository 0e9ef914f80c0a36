"""One op as a program: built as a captured graph without Dynamo, planned with a chosen cut, run on ranks and as a whole.

The program reads the op's tensors, copies each (so that the op meets values of the program, not inputs), calls the op, and sums its
results, each weighed element by element by an input. So the gradient of a weight is the element: comparing gradients compares every
result, and no result need be returned, which would be a reason to make it whole. Beside it stands a wide elementwise branch: a plan may
make the op's own tensors whole without more than half of the sequence being whole.

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
    """A tensor to be made. kind: float, int, bool, complex; float in [low, high), no two elements equal; int in [low, high).
    grad: whether a float tensor requires a gradient."""

    shape: tuple[int, ...]
    kind: str = "float"
    low: float = 0.1
    high: float = 0.9
    values: tuple | None = None
    grad: bool = True

    def make(self, generator: torch.Generator) -> torch.Tensor:
        if self.values is not None:
            return torch.tensor(self.values).reshape(self.shape)
        count = torch.Size(self.shape).numel()
        if self.kind == "int":
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator)
        if self.kind == "bool":
            return torch.rand(self.shape, generator=generator) < 0.5
        if self.kind == "complex":
            return torch.randn(self.shape, generator=generator, dtype=torch.complex128)
        steps = torch.randperm(count, generator=generator).double()
        return (self.low + (self.high - self.low) * (steps + 0.37) / max(1, count)).reshape(self.shape)


@dataclass(frozen=True)
class Call:
    """An op with its arguments, Specs in place of tensors.

    grad    whether the operands require gradients; None: where torch has a derivative
    ruled   whether these arguments have a rule
    """

    op: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    grad: bool | None = True
    ruled: bool = True

    @property
    def target(self):
        return resolve(self.op)

    @property
    def returns_many(self) -> bool:
        returns = self.target._schema.returns
        return len(returns) > 1 or "List" in str(returns[0].type)

    def specs(self) -> list[Spec]:
        found = []
        self.with_tensors(lambda spec: found.append(spec))
        return found

    def with_tensors(self, function) -> tuple[tuple, dict]:
        """(args, kwargs) with function(spec) in place of each Spec."""
        return _map(self.args, function), {k: _map(v, function) for k, v in self.kwargs.items()}


def resolve(name: str):
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _map(value, function):
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, function) for v in value)
    return function(value) if isinstance(value, Spec) else value


def tensors_in(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


class _Record(fx.Interpreter):
    def run_node(self, node):
        node.meta["val"] = result = super().run_node(node)
        return result


class OpProgram:
    """A program around one call. Its inputs: t0, t1, ... the op's tensors; w0, w1, ... the weights of its float results.
    split: (operand, dim, blocks): that operand enters as [..., blocks, size / blocks, ...] and is flattened before the op."""

    def __init__(self, call: Call, split: tuple[int, int, int] | None = None):
        self.call, self.graph = call, fx.Graph()
        generator = torch.Generator().manual_seed(1)
        specs = call.specs()
        tensors = [spec.make(generator) for spec in specs]
        shapes = [tuple(t.shape) for t in tensors]
        with torch.no_grad():
            fresh = iter([t.clone() for t in tensors])
            args, kwargs = call.with_tensors(lambda _: next(fresh))
            results = tensors_in(call.target(*args, **kwargs))
        if split is not None:
            operand, dim, blocks = split
            shape = list(shapes[operand])
            shape[dim : dim + 1] = [blocks, shape[dim] // blocks]
            tensors[operand] = tensors[operand].reshape(shape)
        self.operands = [f"t{i}" for i in range(len(tensors))]
        self.inputs = dict(zip(self.operands, tensors, strict=True))
        self.constant = {n for n, spec in zip(self.operands, specs, strict=True) if not spec.grad}
        for i, result in enumerate(results):
            shape = (*result.shape, 2) if result.is_complex() else tuple(result.shape)
            self.inputs[f"w{i}"] = Spec(shape, low=0.5, high=1.5).make(generator)
        self.results = [n for n in self.inputs if n.startswith("w")]
        followed = (self.operands + self.results)[0]
        size = sum(t.numel() * t.element_size() for t in results + tensors)
        self.inputs["wide"] = torch.full((4 + 6 * size // max(1, 8 * self.inputs[followed].numel()),), 0.01, dtype=torch.float64)
        nodes = {name: self.graph.placeholder(name) for name in self.inputs}
        loss = self._wide_branch(nodes[followed], self.inputs[followed], nodes["wide"])
        values = iter([self._value(nodes[n], self.inputs[n], s) for n, s in zip(self.operands, shapes, strict=True)])
        args, kwargs = call.with_tensors(lambda _: next(values))
        self.node = self._add(call.target, *args, **kwargs)
        outs = [self.node]
        if call.returns_many:
            outs = [self._add(operator.getitem, self.node, i) for i in range(len(results))]
        for i, (out, result) in enumerate(zip(outs, results, strict=True)):
            if result.is_complex():
                out = self._add(aten.view_as_real.default, self._add(aten.resolve_conj.default, out))
            elif not result.is_floating_point():
                out = self._add(aten.to.dtype, out, torch.float64)
            term = self._add(aten.sum.default, self._add(aten.mul.Tensor, out, nodes[f"w{i}"]))
            loss = self._add(aten.add.Tensor, loss, term)
        self.graph.output((loss,))
        with _no_code():
            self.module = fx.GraphModule({}, self.graph)
        self._run_whole()

    def _add(self, target, *args, **kwargs) -> fx.Node:
        return self.graph.call_function(target, args, kwargs)

    def _value(self, node: fx.Node, x: torch.Tensor, shape: tuple[int, ...]) -> fx.Node:
        if tuple(x.shape) != shape:
            node = self._add(aten.reshape.default, node, list(shape))
        return self._add(aten.clone.default, node)

    def _wide_branch(self, node: fx.Node, x: torch.Tensor, wide: fx.Node) -> fx.Node:
        if x.is_complex():
            node = self._add(aten.real.default, node)
        if x.dtype is not torch.float64:
            node = self._add(aten.to.dtype, node, torch.float64)
        return self._add(aten.sum.default, self._add(aten.mul.Tensor, self._add(aten.unsqueeze.default, node, -1), wide))

    def _leaves(self, grad: bool) -> list[torch.Tensor]:
        def leaf(n, x):
            wanted = n in self.results or (grad and n not in self.constant)
            return x.detach().clone().requires_grad_(wanted and (x.is_floating_point() or x.is_complex()))

        return [leaf(n, x) for n, x in self.inputs.items()]

    def _run_whole(self) -> None:
        self.grad = self.call.grad is not False
        try:
            leaves = self._leaves(self.grad)
            outputs = _Record(self.module).run(*leaves)
            self.gradients = _gradients(outputs[0], leaves)
        except RuntimeError as error:
            if self.call.grad or not any(words in str(error) for words in ("not implemented", "not differentiable")):
                raise
            self.grad, leaves = False, self._leaves(False)
            outputs = _Record(self.module).run(*leaves)
            self.gradients = _gradients(outputs[0], leaves)
        self.expected = _detached(outputs)
        self.tolerance = 1e-9
        for node in self.graph.nodes:
            node.meta["val"] = value = _detached(node.meta["val"])
            for t in tensors_in(value):
                precision = torch.finfo(t.dtype).eps if t.is_floating_point() or t.is_complex() else 0.0
                self.tolerance = max(self.tolerance, 20 * precision)
        inputs = tuple(CapturedInput(n, "user", leaf.requires_grad) for n, leaf in zip(self.inputs, leaves, strict=True))
        self.captured = Captured(self.module, inputs)

    def run(self, name: str, dim: int, ranks: int) -> Run:
        """Run with input `name` cut along `dim`."""
        options = core_options(Options.parse({"inner": "eager", "sequence_dims": {name: dim}}))
        imported = import_graph(self.captured, ranks, False)
        report, _ = imported.graph.run_forward(options, [], "")
        with _no_code():
            locals_ = [imported.graph.localize(r) for r in range(ranks)]
            modules = [export_graph(imported, local, Rank(r, ranks, "threads", True)).module for r, local in enumerate(locals_)]
        origin = list(self.graph.nodes).index(self.node)
        cut = any(
            imported.graph.form(v)[0] == "S"
            for _, args, results, at, _ in imported.graph.ops()
            if at == origin
            for v in [*results, *_values(args)]
        )
        run = Run(report.summary["ops_made_whole"], cut, imported.graph.text())

        def body(rank):
            leaves = self._leaves(self.grad)
            outputs = fx.Interpreter(modules[rank]).run(*leaves)
            return _detached(outputs), _gradients(outputs[0], leaves)

        run.ranks = on_threads(body, ranks)
        return run

    def cuts(self, names: list[str]) -> list[tuple[str, int]]:
        """The (input, dim) that can be cut."""
        return [(n, d) for n in names for d in range(self.inputs[n].dim()) if self.inputs[n].shape[d] > 1]

    def check(self, name: str, dim: int, ranks: int) -> Run:
        """Run so, and compare every output and gradient of every rank with the whole run's."""
        run = self.run(name, dim, ranks)
        where = f"{self.call.op}, {name} cut along {dim} on {ranks} ranks"
        for outputs, gradients in run.ranks:
            self._compare(outputs[0], self.expected[0], f"{where}: loss")
            for n, got, want in zip(self.inputs, gradients, self.gradients, strict=True):
                zero = torch.zeros_like(self.inputs[n])
                if want is not None or got is not None:
                    self._compare(
                        zero if got is None else got,
                        zero if want is None else want,
                        f"{where}: gradient of {n} (of a weight: the op's result)",
                    )
        return run

    def _compare(self, got, want, what: str) -> None:
        torch.testing.assert_close(got, want, rtol=self.tolerance, atol=self.tolerance, equal_nan=True, msg=lambda m: f"{what}: {m}")


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


@contextmanager
def _no_code():
    """Graph modules are interpreted here: writing and compiling their Python text would take longer than all the rest."""
    before, fx.GraphModule.recompile = fx.GraphModule.recompile, lambda self: None
    try:
        yield
    finally:
        fx.GraphModule.recompile = before


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
