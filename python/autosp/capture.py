"""Capture: the graph Dynamo hands to a backend becomes a pre-dispatch ATen graph at global shapes.

Composite ops stay whole (linear, scaled_dot_product_attention, cross_entropy_loss, layer_norm, dropout), autocast and grad-mode regions
stay as marker nodes, and every node keeps the stack trace of the model's own line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from . import torch_compat
from .errors import CompileError


@dataclass(frozen=True)
class CapturedInput:
    """One placeholder: what it is to the user. kind: "user", "parameter" or "buffer"."""

    name: str
    kind: str
    requires_grad: bool


@dataclass(frozen=True)
class Captured:
    """graph: ATen ops with global shapes in meta["val"]; inputs: one entry a placeholder, in order; policies: the selective checkpoint
    policy, or None, of each region that the user checkpoints. A region's nodes carry its number in meta["custom"][REGION]."""

    graph: fx.GraphModule
    inputs: tuple[CapturedInput, ...]
    policies: dict[int, Callable | None] = field(default_factory=dict)


REGION = "autosp_checkpoint"


def capture(gm: fx.GraphModule, example_inputs: Sequence, positional_names: Sequence[str] = ()) -> Captured:
    """Trace Dynamo's graph. `positional_names`: the names of forward's positional parameters, to name `args[0]`."""
    symbolic = [x for x in example_inputs if not isinstance(x, torch.Tensor)]
    if symbolic:
        raise CompileError(
            "the graph has symbolic sizes as inputs", remedy="Compile with dynamic=False: autosp compiles once for each length"
        )
    sources = torch_compat.placeholder_sources(gm)
    named = list(zip(sources, example_inputs, gm.graph.find_nodes(op="placeholder"), strict=True))
    names = [_name_and_kind(source, x, node.name, positional_names) for source, x, node in named]
    seen = Counter(name for name, _ in names)
    inputs = tuple(
        CapturedInput(name if seen[name] == 1 else node.name, kind, x.requires_grad)  # two inputs of one name: Dynamo's own are unique
        for (name, kind), (_, x, node) in zip(names, named, strict=True)
    )
    _refuse_higher_order(gm)
    policies = _mark_regions(gm)
    graph = torch_compat.trace_pre_dispatch(gm, example_inputs)
    graph.graph.eliminate_dead_code()
    return Captured(graph, inputs, policies)


def _mark_regions(gm: fx.GraphModule) -> dict[int, Callable | None]:
    """Number the regions under torch.utils.checkpoint, in every node of their bodies; an inner region's number stands over an outer's."""
    policies: dict[int, Callable | None] = {}

    def mark(body: fx.GraphModule, region: int | None) -> None:
        for node in body.graph.nodes:
            if region is not None:
                node.meta["custom"] = {**(node.meta.get("custom") or {}), REGION: region}
            if torch_compat.higher_order_name(node.target) != "tag_activation_checkpoint":
                continue
            inner = getattr(body, str(node.args[0].target))
            try:
                policy = torch_compat.checkpoint_policy(inner)
            except TypeError as error:
                raise CompileError(
                    f"a checkpoint's context_fn gives a {error}, which is no selective checkpoint policy",
                    op="torch.utils.checkpoint",
                    location=location_of(node) or None,
                    remedy="Use torch.utils.checkpoint.create_selective_checkpoint_contexts, or no context_fn",
                ) from None
            number = len(policies)
            policies[number] = policy
            mark(inner, number)

    mark(gm, None)
    return policies


def _refuse_higher_order(gm: fx.GraphModule) -> None:
    """Tracing would lose what these say, as the backward of an autograd.Function. Checkpoints are kept (`_mark_regions`)."""
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            name = torch_compat.higher_order_name(node.target)
            if name is None or name == "tag_activation_checkpoint":
                continue
            found, remedy = {
                "autograd_function_apply": (
                    "a torch.autograd.Function with a backward of its own cannot be compiled",
                    "Write it with ops of torch, or as torch.library.custom_op with register_autograd and autosp.register_rule",
                ),
            }.get(name, ("a higher-order op cannot be compiled", "Write it with ordinary ops of torch"))
            raise CompileError(found, op=name, location=location_of(node) or None, remedy=remedy)


def _name_and_kind(source: str | None, x: torch.Tensor, placeholder: str, positional_names: Sequence[str]) -> tuple[str, str]:
    parts = re.findall(r"\['([^']*)'\]|\[(\d+)\]|\.([A-Za-z_]\w*)", source or "")
    steps = [next(p for p in part if p) for part in parts]
    if isinstance(x, torch.nn.Parameter) or "_parameters" in steps:
        return _module_path(steps) or placeholder, "parameter"
    if "_buffers" in steps:
        return _module_path(steps) or placeholder, "buffer"
    if "args" in steps and steps[-1].isdigit():
        index = int(steps[-1])
        name = positional_names[index] if index < len(positional_names) else f"args[{index}]"
        return name, "user"
    return (steps[-1] if steps else placeholder), "user"


def _module_path(steps: Sequence[str]) -> str:
    return ".".join(s for s in steps[1:] if s not in ("_modules", "_parameters", "_buffers"))


def location_of(node: fx.Node) -> str:
    """ "modeling_llama.py:88": the innermost line of the model's code, outside torch and autosp."""
    trace = node.meta.get("stack_trace") or ""
    lines = re.findall(r'File "([^"]+)", line (\d+)', trace)
    for path, line in reversed(lines):
        if "/torch/" not in path and "/autosp/" not in path:
            return f"{path.rsplit('/', 1)[-1]}:{line}"
    return ""
