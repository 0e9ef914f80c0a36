"""Export: the core's program of one rank becomes an FX graph. An op with an origin is its node called with patched arguments; an op born
in the core (`autosp.*`) is a call of one function of `autosp.runtime`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx

from . import torch_compat
from ._core import Graph, Opaque, Value
from .errors import InternalError
from .fx_import import Imported, fill_template, normalized_arguments
from .runtime import attention as attention_runtime
from .runtime import conversions, counting, dropout, exchange, loss


@dataclass(frozen=True)
class Rank:
    """Which rank of which group a program is for. group: the name functional collectives know it by."""

    index: int
    count: int
    group: str
    reduce_gradients: bool = True


@dataclass(frozen=True)
class Exported:
    """module: the local program; its placeholders are the captured ones, then a seed when `takes_seed`."""

    module: fx.GraphModule
    takes_seed: bool


def export_graph(imported: Imported, local: Graph, rank: Rank) -> Exported:
    """`local`: imported.graph after the forward pipeline, localized for rank.index."""
    return _Exporter(imported, local, rank).run()


class _Exporter:
    def __init__(self, imported: Imported, local: Graph, rank: Rank):
        self.imported, self.local, self.rank = imported, local, rank
        self.graph = fx.Graph()
        self.env: dict[int, fx.Node] = {}
        self.emitters: dict[str, Callable] = {
            "autosp.convert": self._convert,
            "autosp.attention": self._attention,
            "autosp.cross_entropy": self._cross_entropy,
            "autosp.dropout": self._dropout,
        }

    def run(self) -> Exported:
        placeholders = [n for n in self.imported.nodes if n.op == "placeholder"]
        names = iter(placeholders)
        takes_seed = False
        for value, kind, name in self.local.inputs:
            if kind == "constant":
                self.env[value] = self.graph.get_attr(self.imported.constants[value])
            elif kind == "seed":
                self.env[value] = self.graph.placeholder(name)
                takes_seed = True
            else:
                self.env[value] = self.graph.placeholder(next(names).name)
        self._placeholders_first()
        for name, args, results, origin, _location in self.local.ops():
            arguments = dict(args)
            emit = self.emitters.get(name)
            if emit is not None:
                emit(arguments, results, origin)
            elif name == "aten.bincount.default":
                self._bincount(arguments, results, origin)
            elif name.startswith("torch."):
                self._marker(arguments, results, origin)
            else:
                self._call(name, arguments, results, origin)
        outputs = [self.env[v] for v in self.local.outputs]
        self.graph.output(fill_template(self.imported.template, outputs))
        module = fx.GraphModule(self.imported.captured.graph, self.graph)
        self.graph.lint()
        return Exported(module, takes_seed)

    def _placeholders_first(self) -> None:
        """get_attr nodes were made between placeholders: FX wants placeholders first."""
        attrs = [n for n in self.graph.nodes if n.op == "get_attr"]
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in attrs:
            if inputs:
                inputs[-1].append(node)
                inputs.append(node)

    def _note(self, node: fx.Node, origin: int) -> fx.Node:
        if origin >= 0:
            source = self.imported.nodes[origin]
            for key in ("stack_trace", "nn_module_stack", "custom"):
                if key in source.meta:
                    node.meta[key] = source.meta[key]
        return node

    def _bind(self, node: fx.Node, results: list[int], unpack: bool) -> None:
        if not unpack:
            self.env[results[0]] = node
            return
        for k, value in enumerate(results):
            self.env[value] = self.graph.call_function(operator.getitem, (node, k))

    def _marker(self, arguments: dict, results: list[int], origin: int) -> None:
        """An autocast or grad-mode marker: its node's target; a token among the arguments is the node that opened the region."""
        source = self.imported.nodes[origin]
        args = [self._argument(v, o) for v, o in zip(arguments.values(), source.args, strict=True)]
        node = self._note(self.graph.call_function(source.target, tuple(args)), origin)
        if results:
            self.env[results[0]] = node

    def _call(self, name: str, arguments: dict, results: list[int], origin: int) -> None:
        target = _resolve(name)
        schema = torch_compat.op_schema(target)
        opaque = {}
        if origin >= 0:
            opaque = {key: value for key, value, _ in normalized_arguments(self.imported.nodes[origin])}
        positional, keywords = [], {}
        for argument in schema.arguments:
            value = self._argument(arguments.get(argument.name, argument.default_value), opaque.get(argument.name))
            if argument.kwarg_only:
                if value != argument.default_value or isinstance(value, fx.Node):
                    keywords[argument.name] = value
            else:
                positional.append(value)
        while positional and len(positional) > 1:
            argument = schema.arguments[len(positional) - 1]
            last = positional[-1]
            if not argument.has_default_value() or isinstance(last, fx.Node) or last != argument.default_value:
                break
            positional.pop()
        node = self._note(self.graph.call_function(target, tuple(positional), keywords), origin)
        self._bind(node, results, unpack=len(schema.returns) > 1 or _returns_list(schema))

    def _argument(self, value, original):
        """An argument of the core as FX takes it; `original`: the same argument of the node it came from."""
        if isinstance(value, Value):
            return self.env[value.index]
        if isinstance(value, Opaque):
            if original is not None:
                return original
            dtype = getattr(torch, value.text.removeprefix("torch."), None)  # written by the core itself
            if not isinstance(dtype, torch.dtype):
                raise InternalError(f"the opaque argument {value.text} has no origin")
            return dtype
        if isinstance(value, list):
            items = original if isinstance(original, (list, tuple)) and len(original) == len(value) else [None] * len(value)
            return [self._argument(v, o) for v, o in zip(value, items, strict=True)]
        return value

    def _bincount(self, arguments: dict, results: list[int], origin: int) -> None:
        """Its size depends on data, in every trace anew; here it is known."""
        size = torch_compat.constant_int(self.imported.nodes[origin].meta["val"].shape[0])
        args = (self.env[arguments["self"].index], self._argument(arguments["weights"], None), size)
        self.env[results[0]] = self._note(self.graph.call_function(counting.bincount, args), origin)

    # ---- ops born in the core

    def _convert(self, arguments: dict, results: list[int], origin: int) -> None:
        xs = [self.env[v.index] for v in arguments["inputs"]]
        kind, rank = arguments["kind"], self.rank
        source, target = _tuples(arguments["source"]), _tuples(arguments["target"])
        function, args = {
            "shard": (conversions.shard, (xs, target, rank.index, rank.group)),
            "enter_partial": (conversions.enter_partial, (xs, rank.count, rank.group, self._reduces(arguments))),
            "shard_partial": (conversions.shard_partial, (xs, target, rank.index)),
            "keep_on_first": (conversions.keep_on_first, (xs, rank.index)),
            "gather": (conversions.gather, (xs, source, rank.index, rank.group)),
            "gather_partial": (conversions.gather_partial, (xs, source, rank.index, rank.group)),
            "exchange": (exchange.exchange, (xs, source, target, rank.index, rank.group)),
            "all_reduce": (conversions.all_reduce, (xs, rank.group)),
            "all_reduce_partial": (conversions.all_reduce_partial, (xs, rank.group)),
            "reduce_scatter": (conversions.reduce_scatter, (xs, target, rank.index, rank.group)),
        }[kind]
        self._bind(self._note(self.graph.call_function(function, args), origin), results, unpack=True)

    def _reduces(self, arguments: dict) -> bool:
        """gradients="partial" leaves the gradients of parameters, and of nothing else, to the caller's average."""
        parameters = {v for v, kind, _ in self.local.inputs if kind == "parameter"}
        return self.rank.reduce_gradients or not all(v.index in parameters for v in arguments["inputs"])

    def _attention(self, arguments: dict, results: list[int], origin: int) -> None:
        def value(name):
            return self._argument(arguments[name], None)

        kv_index = arguments["kv_index"]
        args = (
            value("query"),
            value("key"),
            value("value"),
            value("attn_mask"),
            arguments["is_causal"],
            arguments["scale"],
            None if kv_index is None else tuple(kv_index),
            arguments["q_offset"],
        )
        self.env[results[0]] = self._note(self.graph.call_function(attention_runtime.attention, args), origin)

    def _cross_entropy(self, arguments: dict, results: list[int], origin: int) -> None:
        args = (
            self.env[arguments["self"].index],
            self.env[arguments["target"].index],
            self._argument(arguments["weight"], None),
            arguments["reduction"],
            arguments["ignore_index"],
            arguments["label_smoothing"],
            arguments["rows"],
            self.rank.group,
        )
        self.env[results[0]] = self._note(self.graph.call_function(loss.cross_entropy, args), origin)

    def _dropout(self, arguments: dict, results: list[int], origin: int) -> None:
        cut = arguments.get("cut")
        args = (
            self.env[arguments["input"].index],
            arguments["p"],
            self.env[arguments["seed"].index],
            arguments["op_id"],
            None if cut is None else _tuples(cut),
            tuple(arguments["shape"]),
            self.rank.index,
        )
        self.env[results[0]] = self._note(self.graph.call_function(dropout.dropout, args), origin)


def _tuples(value):
    """Nested lists as nested tuples: FX prints them, and they hash."""
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _resolve(name: str):
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _returns_list(schema) -> bool:
    return len(schema.returns) == 1 and "[]" in str(schema.returns[0].type).replace("List[", "[]")
