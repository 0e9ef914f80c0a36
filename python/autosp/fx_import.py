"""Import: a captured FX graph becomes the core's graph. Each call is one op with its arguments named by the op's schema, defaults filled
in; tuple results become several values. What the core does not read (dtypes, devices) goes in as an opaque text and comes back at
export from the node itself."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import fx

from . import torch_compat
from ._core import Graph, Opaque, Value
from .capture import Captured, location_of
from .errors import CompileError
from .torch_compat import pytree

DTYPE_NAMES = {
    torch.bool: "b8",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
# Results of these carry no gradient, whatever they read.
_NO_GRAD = {"aten.detach.default", "aten.detach_.default", "aten.zeros_like.default", "aten.ones_like.default", "aten.full_like.default"}


@dataclass
class Imported:
    """graph: the core's graph; nodes: FX nodes by their index (an op's origin); template: the program's outputs, with an
    _OutputSlot in place of each value and anything else as it is."""

    graph: Graph
    nodes: list[fx.Node]
    template: object
    captured: Captured
    constants: dict[int, str] = field(default_factory=dict)  # input value -> get_attr target


def import_graph(captured: Captured, ranks: int, outputs_may_stay_cut: bool) -> Imported:
    """`outputs_may_stay_cut`: float outputs may be returned sharded when the program also returns a scalar loss."""
    return _Importer(captured, ranks).run(outputs_may_stay_cut)


def normalized_arguments(node: fx.Node) -> list[tuple[str, object, bool]]:
    """(name, value, keyword only) of an op node by its schema, defaults filled in."""
    schema = torch_compat.op_schema(node.target)
    out = []
    for i, argument in enumerate(schema.arguments):
        if not argument.kwarg_only and i < len(node.args):
            value = node.args[i]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        else:
            value = argument.default_value
        out.append((argument.name, value, argument.kwarg_only))
    return out


class _Importer:
    def __init__(self, captured: Captured, ranks: int):
        self.captured = captured
        self.graph = Graph("forward", ranks)
        self.values: dict[fx.Node, int | list[int]] = {}
        self.numbers: dict[fx.Node, bool | int | float] = {}  # nodes that are numbers, known while tracing
        self.grad: dict[int, bool] = {}
        self.grad_enabled = torch.is_grad_enabled()
        self.nodes: list[fx.Node] = []
        self.constants: dict[int, str] = {}

    def run(self, outputs_may_stay_cut: bool) -> Imported:
        inputs = iter(self.captured.inputs)
        template = None
        for index, node in enumerate(self.captured.graph.graph.nodes):
            self.nodes.append(node)
            if node.op == "placeholder":
                given = next(inputs)
                self._add_input(node, given.name, given.kind, given.requires_grad)
            elif node.op == "get_attr":
                value = self._constant(node)
                self._add_input(node, str(node.target), "constant", isinstance(value, torch.Tensor) and value.requires_grad)
                self.constants[self.values[node]] = str(node.target)
            elif node.op == "call_function":
                self._add_call(node, index)
            elif node.op == "output":
                template = self._add_outputs(node, outputs_may_stay_cut)
            else:
                raise self._refuse(node, f"a node of kind {node.op} cannot be compiled")
        return Imported(self.graph, self.nodes, template, self.captured, self.constants)

    def _constant(self, node: fx.Node):
        value = self.captured.graph
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if torch_compat.is_fake(value):
            raise self._refuse(
                next(iter(node.users), node),
                "tracing lost track of a tensor that this op reads, as it does inside torch.vmap and other transforms of functions",
                "Write that part of the model with ordinary ops of torch",
            )
        node.meta.setdefault("val", value)
        return value

    def _refuse(self, node: fx.Node, found: str, remedy: str = "") -> CompileError:
        return CompileError(found, op=str(node.target), location=location_of(node) or None, remedy=remedy or None)

    def _add_input(self, node: fx.Node, name: str, kind: str, requires_grad: bool) -> None:
        val = node.meta["val"]
        if not isinstance(val, torch.Tensor):
            raise self._refuse(node, f"an input of type {type(val).__name__} cannot be compiled")
        value = self.graph.add_input(name, kind, self._dtype(val), self._shape(node, val), requires_grad)
        self.values[node] = value
        self.grad[value] = requires_grad

    def _dtype(self, val: torch.Tensor) -> str:
        return DTYPE_NAMES.get(val.dtype, "other")

    def _shape(self, node: fx.Node, val: torch.Tensor) -> list[int]:
        shape = [torch_compat.constant_int(s) for s in val.shape]
        if None in shape:
            raise self._refuse(
                node,
                f"the shape {tuple(val.shape)} depends on data or is symbolic",
                "Rewrite it with fixed shapes (masks instead of nonzero, where instead of indexing by a mask)",
            )
        return shape

    def _add_call(self, node: fx.Node, index: int) -> None:
        target = node.target
        number = torch_compat.constant_number(node.meta.get("val"))
        if number is not None:
            self.numbers[node] = number
            return
        if torch_compat.is_assertion(target) and self.numbers.get(node.args[0]):
            return
        if target is operator.getitem and isinstance(self.values.get(node.args[0]), list):
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return
        if torch_compat.is_grad_mode_marker(target):
            self.grad_enabled = bool(node.args[0])
            self._effect(node, index, "torch.set_grad_enabled", [("mode", self.grad_enabled)])
            return
        marker = torch_compat.autocast_marker(target)
        if marker:
            args = [(f"a{i}", self._attr(node, a)) for i, a in enumerate(node.args)]
            self.values[node] = self._effect(node, index, f"torch.{marker}_autocast", args)[0]
            return
        if not torch_compat.is_aten_like(target):
            kind = "a higher-order op" if torch_compat.is_higher_order(target) else "a Python function"
            raise self._refuse(
                node,
                f"{kind} in the graph cannot be compiled",
                "Use ops of torch, or a custom op with a rule from autosp.register_rule; user checkpoints are not supported yet",
            )
        arguments = normalized_arguments(node)
        args = [(name, self._attr(node, value)) for name, value, _ in arguments]
        results = self._results(node)
        traits = torch_compat.traits(target)
        ids = self.graph.add_op(str(target), args, results, traits, index, location_of(node))
        for value, result in zip(ids, results, strict=True):
            self.grad[value] = result is not None and result[2]
        val = node.meta.get("val")
        self.values[node] = list(ids) if isinstance(val, (tuple, list)) else ids[0] if ids else []

    def _effect(self, node, index, name, args) -> list[int]:
        return self.graph.add_op(name, args, [None], ["effect"], index, location_of(node))

    def _results(self, node: fx.Node) -> list[tuple[str, list[int], bool] | None]:
        val = node.meta.get("val")
        grad = self.grad_enabled and str(node.target) not in _NO_GRAD and any(self._needs_grad(a) for a in node.all_input_nodes)
        out: list[tuple[str, list[int], bool] | None] = []
        for item in val if isinstance(val, (tuple, list)) else [val]:
            if isinstance(item, torch.Tensor):
                floating = item.dtype.is_floating_point or item.dtype.is_complex
                out.append((self._dtype(item), self._shape(node, item), grad and floating))
            elif item is None:
                out.append(None)
            else:
                raise self._refuse(
                    node,
                    f"the op returns a {type(item).__name__} that depends on data",
                    "Remove .item(), int(tensor) and control flow on tensor values from the model's forward",
                )
        return out

    def _needs_grad(self, node: fx.Node) -> bool:
        ids = self.values.get(node)
        return any(self.grad.get(v, False) for v in (ids if isinstance(ids, list) else [ids]))

    def _attr(self, node: fx.Node, value):
        """A Python argument as the core takes it."""
        if isinstance(value, fx.Node):
            if value in self.numbers:
                return self.numbers[value]
            ids = self.values[value]
            return [Value(v) for v in ids] if isinstance(ids, list) else Value(ids)
        if value is None or isinstance(value, (bool, int, float, str)):
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise self._refuse(node, f"the integer {value} does not fit 64 bits")
            return value
        if isinstance(value, (list, tuple)):
            return [self._attr(node, v) for v in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise self._refuse(node, "a symbolic number is an argument", "Compile with dynamic=False")
        return Opaque(str(value))

    def _add_outputs(self, node: fx.Node, outputs_may_stay_cut: bool):
        leaves, spec = pytree.tree_flatten(node.args[0])
        vals = [leaf.meta.get("val") if isinstance(leaf, fx.Node) else None for leaf in leaves]
        has_loss = any(isinstance(v, torch.Tensor) and v.dim() == 0 and v.is_floating_point() for v in vals)
        out = []
        for position, (leaf, val) in enumerate(zip(leaves, vals, strict=True)):
            if not isinstance(leaf, fx.Node) or not isinstance(val, torch.Tensor):
                out.append(leaf)
                continue
            may = outputs_may_stay_cut and has_loss and val.is_floating_point() and val.dim() > 0
            self.graph.add_output(self.values[leaf], f"output{position}", may)
            out.append(_OutputSlot(len(self._slots(out))))
        return pytree.tree_unflatten(out, spec)

    @staticmethod
    def _slots(leaves: Iterable) -> list:
        return [x for x in leaves if isinstance(x, _OutputSlot)]


@dataclass(frozen=True)
class _OutputSlot:
    """Stands in the template for the k-th output of the core's graph."""

    index: int


def fill_template(template, values: list):
    """The program's outputs: the template with its slots filled."""
    return pytree.tree_map_only(_OutputSlot, lambda slot: values[slot.index], template)
