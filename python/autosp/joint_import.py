"""Import of a joint forward and backward graph (AOTAutograd's) into the core: ops with their classes' facts, values with the memory
they share, inputs that are tangents, outputs that are gradients. Nothing is refused here: what the core does not know is a kernel of
its own, whose results are kept."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import fx

from . import torch_compat
from ._core import Graph, Opaque, Value
from .capture import location_of
from .fx_import import DTYPE_NAMES, normalized_arguments


@dataclass
class ImportedJoint:
    """graph: the core's; nodes: FX nodes by index (an op's origin); values: each tensor's value; node_of: the FX node that stands for
    a value (for an item of a tuple its getitem, for a collective its wait)."""

    graph: Graph
    nodes: list[fx.Node] = field(default_factory=list)
    values: dict[fx.Node, int] = field(default_factory=dict)
    node_of: dict[int, fx.Node] = field(default_factory=dict)
    items: dict[fx.Node, list[fx.Node]] = field(default_factory=dict)  # getitem nodes of an op with several results
    origins: dict[int, int] = field(default_factory=dict)  # value -> the op's node, by index


def import_joint(
    gm: fx.GraphModule,
    num_forward_outputs: int,
    kinds: Mapping[int, str],
    *,
    ranks: int = 1,
    policies: Mapping[fx.Node, str] | None = None,
) -> ImportedJoint:
    """`kinds`: "parameter", "buffer" or "user" of the program's inputs by position; `policies`: "keep" or "recompute" where the user's
    checkpoints say so."""
    return _JointImporter(gm, kinds, ranks, policies or {}).run(num_forward_outputs)


class _JointImporter:
    def __init__(self, gm: fx.GraphModule, kinds: Mapping[int, str], ranks: int, policies: Mapping[fx.Node, str]):
        self.gm, self.kinds, self.policies = gm, kinds, policies
        self.out = ImportedJoint(Graph("joint", ranks))
        self.results: dict[fx.Node, list[int | None]] = {}  # of ops with several results
        self.tokens: dict[fx.Node, int] = {}  # what is no tensor and not known while tracing
        self.owner: dict[object, int] = {}  # storage -> the value that owns it
        self.written: dict[fx.Node, fx.Node] = {}  # an input -> its new contents

    def run(self, num_forward_outputs: int) -> ImportedJoint:
        gradients_of = torch_compat.gradient_inputs(self.gm, num_forward_outputs)
        for index, node in enumerate(self.gm.graph.nodes):
            self.out.nodes.append(node)
            if node.op in ("placeholder", "get_attr"):
                self._input(node, node in gradients_of)
            elif node.op == "call_function":
                self._call(node, index)
        self._outputs(num_forward_outputs)
        return self.out

    def _input(self, node: fx.Node, requires_grad: bool) -> None:
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor):
            return  # a number, a generator's state, a submodule of a higher-order op
        if node.op == "get_attr":
            kind = "constant"
        elif torch_compat.is_tangent(node):
            kind = "tangent"
        else:  # what AOTAutograd lifts out of the program, a tensor written in the forward, is no argument
            position = torch_compat.input_position(node)
            kind = "constant" if position < 0 else self.kinds.get(position, "user")
        value = self.out.graph.add_input(node.name, kind, *self._type(val), requires_grad)
        self._define(node, value, val)

    def _define(self, node: fx.Node, value: int, val: torch.Tensor) -> None:
        self.out.values[node] = value
        self.out.node_of.setdefault(value, node)
        self.owner.setdefault(torch_compat.storage_key(val), value)

    def _type(self, val: torch.Tensor) -> tuple[str, list[int]]:
        return DTYPE_NAMES.get(val.dtype, "other"), [torch_compat.size_hint(s) for s in val.shape]

    def _call(self, node: fx.Node, index: int) -> None:
        val = node.meta.get("val")
        source = node.args[0] if node.args else None
        if node.target is operator.getitem and source in self.results:
            value = self.results[source][node.args[1]] if isinstance(val, torch.Tensor) else None
            if value is not None:
                self.out.values[node] = value
                self.out.items.setdefault(source, []).append(node)
                if self.out.node_of.get(value, source) is source:
                    self.out.node_of[value] = node
                return
        if torch_compat.writes_input(node):
            self.written[source] = node.args[1]
            self.out.values[node] = self.out.values[source]
            return
        self._op(node, index, val)

    def _op(self, node: fx.Node, index: int, val) -> None:
        target = node.target
        if torch_compat.is_aten_like(target):
            name, traits = str(target), torch_compat.traits(target)
            args = [(n, self._attr(v)) for n, v, _ in normalized_arguments(node)]
        else:
            name, traits = torch_compat.function_name(target), []
            args = [("inputs", [self._attr(n) for n in node.all_input_nodes])]
        if node in self.policies:
            traits.append(self.policies[node])
        if any(n in self.tokens for n in node.all_input_nodes):
            traits.append("effect")
        items = list(val) if isinstance(val, (tuple, list)) else [val]
        types = [(*self._type(v), False) if isinstance(v, torch.Tensor) else None for v in items]
        ids = self.out.graph.add_op(name, args, types, traits, index, location_of(node), [self._base(node, v) for v in items])
        self.out.origins.update((i, index) for i in ids)
        if isinstance(val, (tuple, list)):
            self.results[node] = [i if isinstance(v, torch.Tensor) else None for i, v in zip(ids, items, strict=True)]
            for i, v in zip(ids, items, strict=True):
                if isinstance(v, torch.Tensor):
                    self.out.node_of.setdefault(i, node)
                    self.owner.setdefault(torch_compat.storage_key(v), i)
                else:
                    self.tokens[node] = i
        elif isinstance(val, torch.Tensor):
            self._define(node, ids[0], val)
        elif ids:
            self.tokens[node] = ids[0]
        if torch_compat.is_wait(target) and node.args[0] in self.out.values:
            self.out.node_of[self._root(node.args[0])] = node  # what is saved is what has arrived

    def _root(self, node: fx.Node) -> int:
        return self.owner.get(torch_compat.storage_key(node.meta["val"]), self.out.values[node])

    def _base(self, node: fx.Node, val) -> int:
        """The value whose memory a result shares; -1: its own."""
        if not isinstance(val, torch.Tensor):
            return -1
        if torch_compat.is_wait(node.target):  # its meta kernel makes a new tensor, the real one waits in place
            base = self._root(node.args[0])
            self.owner[torch_compat.storage_key(val)] = base
            return base
        base = self.owner.get(torch_compat.storage_key(val), -1)
        source = node.args[0] if node.args else None
        if base < 0 and isinstance(source, fx.Node) and source in self.out.values and torch_compat.returns_view(node.target):
            base = self._root(source)  # made by a pass that merged nodes: the storage in its metadata is a removed node's
            self.owner[torch_compat.storage_key(val)] = base
        return base

    def _attr(self, value):
        if isinstance(value, fx.Node):
            if value in self.out.values:
                return Value(self.out.values[value])
            if value in self.results:
                return [None if v is None else Value(v) for v in self.results[value]]
            if value in self.tokens:
                return Value(self.tokens[value])
            number = torch_compat.constant_number(value.meta.get("val"))
            return number if number is not None else Opaque(value.name)
        if value is None or isinstance(value, (bool, float, str)):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**63 else Opaque(str(value))
        if isinstance(value, (list, tuple)):
            return [self._attr(v) for v in value]
        return Opaque(str(value))

    def _outputs(self, num_forward_outputs: int) -> None:
        leaves = torch_compat.output_leaves(self.gm)
        writes = torch_compat.written_by_outputs(self.gm, num_forward_outputs)
        writes = {k: self.out.values[n] for k, n in writes.items() if n in self.out.values}
        for k, leaf in enumerate(leaves):
            value = self.out.values.get(leaf) if isinstance(leaf, fx.Node) else None
            gradient = k >= num_forward_outputs
            name = f"gradient{k - num_forward_outputs}" if gradient else f"output{k}"
            self.out.graph.add_output(value, name, False, gradient, writes.get(k, -1))
        for place, new in self.written.items():
            if new in self.out.values and place in self.out.values:
                self.out.graph.add_output(self.out.values[new], f"new {place.name}", False, False, self.out.values[place])


def saved_values(imported: ImportedJoint, names: set[str]) -> list[int]:
    """The values that own the memory of the nodes of these names."""
    return sorted({imported.graph.base(v) for n, v in imported.values.items() if n.name in names})
