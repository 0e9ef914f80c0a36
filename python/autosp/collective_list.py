"""The ordered list of collectives of a compiled graph, and its comparison over the group before the first run.

Ranks hang when their graphs issue different collectives, or the same in another order; with uneven shards the partitioner can bring
that about on one rank only. What must be equal is equal line by line: op, order, group, dtype, reduction, and the shape of what every
rank contributes alike. The split sizes of an all-to-all differ from rank to rank and must *pair*: what rank i sends to j, in
elements, is what j expects from i.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from . import torch_compat
from .agreement import Agreement

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")
_NOT_ISSUED = ("wait_tensor",)  # waits for a collective, is none


class Collective(NamedTuple):
    """One issued collective. `sizes`: shape of each tensor this rank contributes; `sends`, `receives`: the splits of an all-to-all along
    dim 0, one per rank of its group, else (); `detail`: reduction, root, peers. A symbolic size is its text."""

    op: str
    group: str
    dtype: str
    sizes: tuple[tuple[int | str, ...], ...]
    sends: tuple[int | str, ...] = ()
    receives: tuple[int | str, ...] = ()
    detail: str = ""

    def text(self) -> str:
        """A stable line with everything in it."""
        splits = f" sends {list(self.sends)} receives {list(self.receives)}" if self.sends or self.receives else ""
        return f"{self.op} group {self.group} {self.dtype} {_shapes(self.sizes)}{splits}{' ' + self.detail if self.detail else ''}"


def collectives_of(graph_module: torch.fx.GraphModule) -> list[Collective]:
    """The functional collectives of a graph in the order of its nodes, those of called sub-graphs at their call. Needs `meta["val"]`
    (any graph that AOTAutograd hands out has it)."""
    return list(_walk(graph_module))


def text_of(collectives: Sequence[Collective]) -> str:
    """One numbered line per collective."""
    return "\n".join(f"{k} {c.text()}" for k, c in enumerate(collectives))


def compare(forward: Sequence[Collective], backward: Sequence[Collective], agreement: Agreement) -> None:
    """CompileError on every rank unless the lists of both graphs fit together over the group. All ranks must call it.

    Collectives of another group (a user's own) may differ in group and splits: they are compared by op, order and dtype.
    """
    sides = [("forward", c) for c in forward] + [("backward", c) for c in backward]
    agreement.same(
        "collectives",
        "\n".join(f"{side} {k} {_common(c, agreement)}" for k, (side, c) in enumerate(sides)),
        found="the lists of collectives (forward, then backward) differ between ranks",
        remedy="A group whose ranks run these would hang: please report it, with AUTOSP_DUMP=DIR set",
    )
    exchanges = [(f"{side} {k} {c.op}", c) for k, (side, c) in enumerate(sides) if _is_ours(c, agreement) and c.op == "all_to_all_single"]
    if not exchanges:
        return
    n = len(agreement.ranks)
    sends = ["\n".join(f"{where} {_elements(_split(c.sends, j, c, n), c)} elements" for where, c in exchanges) for j in range(n)]
    receives = ["\n".join(f"{where} {_elements(_split(c.receives, j, c, n), c)} elements" for where, c in exchanges) for j in range(n)]
    agreement.paired(
        "split sizes of all-to-all",
        sends,
        receives,
        remedy="A group whose ranks run these would hang: please report it, with AUTOSP_DUMP=DIR set",
    )


def _walk(gm: torch.fx.GraphModule) -> Iterator[Collective]:
    for node in gm.graph.nodes:
        if node.op == "call_module":
            called = gm.get_submodule(node.target)
            if isinstance(called, torch.fx.GraphModule):
                yield from _walk(called)
        elif node.op == "call_function":
            for arg in node.all_input_nodes:
                inner = getattr(gm, arg.target, None) if arg.op == "get_attr" and "." not in arg.target else None
                if isinstance(inner, torch.fx.GraphModule):
                    yield from _walk(inner)
            schema = torch_compat.op_schema(node.target)
            namespace, _, name = schema.name.partition("::") if schema else ("", "", "")
            if namespace in _NAMESPACES and name not in _NOT_ISSUED:
                yield _collective(name, [a.name for a in schema.arguments], node)


def _collective(name: str, parameters: Sequence[str], node: torch.fx.Node) -> Collective:
    given: dict[str, Any] = dict(zip(parameters, node.args, strict=False)) | dict(node.kwargs)
    tensors = next(given.pop(k) for k in ("input", "inputs", "tensor", "tensors") if k in given)
    values = [_value(t) for t in (tensors if isinstance(tensors, (list, tuple)) else [tensors])]
    group = given.pop("group_name", "")
    if isinstance(group, torch.fx.Node):
        group = group.meta.get("val", group.name)
    sends, receives = given.pop("input_split_sizes", ()), given.pop("output_split_sizes", ())
    given.pop("out", None)
    return Collective(
        op=name,
        group=group if isinstance(group, str) else str(getattr(group, "group_name", group)),
        dtype=",".join(dict.fromkeys(str(v.dtype).removeprefix("torch.") for v in values)),
        sizes=tuple(tuple(map(_size, v.shape)) for v in values),
        sends=tuple(map(_size, sends)),
        receives=tuple(map(_size, receives)),
        detail=" ".join(f"{k}={v}" for k, v in given.items()),
    )


def _value(node):
    return node.meta["val"] if isinstance(node, torch.fx.Node) else node


def _size(s) -> int | str:
    if isinstance(s, torch.fx.Node):
        s = s.meta.get("val", s.name)
    return s if isinstance(s, int) else str(s)


def _is_ours(c: Collective, agreement: Agreement) -> bool:
    return c.group == agreement.name


def _common(c: Collective, agreement: Agreement) -> str:
    """The part of a collective that must be equal on every rank."""
    if not _is_ours(c, agreement):
        return f"{c.op} another group {c.dtype}"
    if c.op == "all_to_all_single":
        return f"{c.op} {c.dtype}"
    return f"{c.op} {c.dtype} {_shapes(c.sizes)}{' ' + c.detail if c.detail else ''}"


def _split(splits: tuple, j: int, c: Collective, n: int) -> int | str:
    """Rows of the j-th rank; without splits an all-to-all divides dim 0 evenly."""
    if splits:
        return splits[j] if j < len(splits) else "(no split for this rank)"
    rows = c.sizes[0][0]
    return rows // n if isinstance(rows, int) else f"{rows}/{n}"


def _elements(rows: int | str, c: Collective) -> int | str:
    rest = c.sizes[0][1:]
    if isinstance(rows, int) and all(isinstance(s, int) for s in rest):
        return rows * math.prod(rest)
    return "*".join(map(str, (rows, *rest)))


def _shapes(sizes) -> str:
    return " ".join("[" + ",".join(map(str, s)) + "]" for s in sizes)
