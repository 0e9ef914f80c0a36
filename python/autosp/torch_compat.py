"""The only file that touches private names of torch (or public ones whose shape changes between versions), for torch 2.11 to 2.13.

One function per name, so that a new version of torch is one file to read. No logic of autosp.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.utils._pytree as pytree  # noqa: F401 - nested containers, used by import and export


def default_store() -> dist.Store:
    """The store of the default process group: what its ranks met through."""
    return dist.distributed_c10d._get_default_store()


def group_name(group) -> str:
    """Name of a process group given as the group or already as its name: functional collectives take either."""
    return group if isinstance(group, str) else group.group_name


def op_schema(target):
    """The schema of an ATen-like op that is the target of an FX node; None for any other callable."""
    return target._schema if isinstance(target, torch._ops.OpOverload) else None


def all_gather(every: torch.Tensor, mine: torch.Tensor, group) -> None:
    """Eager all-gather of equal tensors into one (torch 2.13 warns about the older name)."""
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(every, mine, group=group)


def placeholder_sources(gm) -> list[str | None]:
    """Where each placeholder of a Dynamo graph comes from, as Dynamo writes it: "L['kwargs']['input_ids']"."""
    out = []
    for node in gm.graph.find_nodes(op="placeholder"):
        arg = node.meta.get("grapharg")
        source = getattr(arg, "source", None)
        name = getattr(source, "name", None)
        out.append(name() if callable(name) else name)
    return out


def trace_pre_dispatch(gm, example_inputs):
    """Dynamo's graph as pre-dispatch ATen ops, traced on the fake mode of the compile in progress; nodes keep stack traces."""
    from torch.fx.experimental.proxy_tensor import make_fx

    context = torch._guards.TracingContext.try_get()
    fake_mode = context.fake_mode if context is not None and context.fake_mode is not None else fake_tensor_mode()
    fake = [fake_mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in example_inputs]
    class Run(torch.fx.Interpreter):
        """Enters autocast for real: the marker functions by themselves only leave their node, and dtypes would be those outside it."""

        def call_function(self, target, args, kwargs):
            if target is torch.amp.autocast_mode._enter_autocast:
                mode = torch.amp.autocast(*args)
                mode.__enter__()
                return mode
            if target is torch.amp.autocast_mode._exit_autocast:
                args[0].__exit__(None, None, None)
                return None
            return super().call_function(target, args, kwargs)

    with fake_mode, torch.fx.traceback.preserve_node_meta():
        return make_fx(Run(gm).run, pre_dispatch=True, tracing_mode="real")(*fake)


def fake_tensor_mode():
    """A fake mode of its own, for compiles outside Dynamo."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def is_grad_mode_marker(target) -> bool:
    """Whether an FX target is the function that switches grad mode inside a graph."""
    return target is torch._C._set_grad_enabled


def autocast_marker(target) -> str | None:
    """ "enter" or "exit" for the functions that bound an autocast region inside a graph."""
    if target is torch.amp.autocast_mode._enter_autocast:
        return "enter"
    if target is torch.amp.autocast_mode._exit_autocast:
        return "exit"
    return None


def is_aten_like(target) -> bool:
    """Whether an FX target is an operator with a schema."""
    return isinstance(target, torch._ops.OpOverload)


def is_higher_order(target) -> bool:
    """Whether an FX target is a higher-order operator (checkpoint, cond, flex_attention...)."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def higher_order_name(target) -> str | None:
    """The name of a higher-order operator that is an FX target; None for any other."""
    return target.name() if is_higher_order(target) else None


def constant_int(size) -> int | None:
    """A size that is a number, also one that tracing found out to be; None where it depends on data."""
    return size if isinstance(size, int) else size.node.maybe_as_int()


def constant_number(value) -> bool | int | float | None:
    """A symbolic number that is in fact known; None for one that depends on data, and for anything else."""
    if isinstance(value, torch.SymBool):
        return value.node.maybe_as_bool()
    if isinstance(value, torch.SymInt):
        return value.node.maybe_as_int()
    if isinstance(value, torch.SymFloat):
        return value.node.maybe_as_float()
    return None


def is_assertion(target) -> bool:
    """Whether an FX target checks a number while the graph runs."""
    return target is torch.ops.aten._assert_scalar.default


def is_fake(value) -> bool:
    """Whether a tensor is one of a trace, without contents."""
    return isinstance(value, torch._subclasses.fake_tensor.FakeTensor)


def partitioner(compare):
    """Torch's own min-cut partitioner, followed by compare(forward graph, backward graph). A CustomPartitionerFn for Inductor, and
    callable as partition_fn of aot_autograd."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(self, gm, joint_inputs, **kwargs):
            forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
            compare(forward, backward)
            return forward, backward

        def uuid(self):
            return "autosp.stock"

        def __reduce__(self):  # Inductor pickles its settings to make the key of a cached graph
            return str, (self.uuid(),)

    return Partitioner()


def compile_inner(inner: str, module, inputs: list, partition):
    """Compile the local program with "inductor" or "aot_eager" from inside a Dynamo backend.

    AOTAutograd's own cache is off: a rank that took a graph from it would skip the comparisons that another rank makes.
    """
    import torch._functorch.config as functorch_config

    with functorch_config.patch(enable_autograd_cache=False):
        if inner == "aot_eager":
            from torch._dynamo.backends.common import aot_autograd
            from torch._dynamo.backends.debugging import boxed_nop

            return aot_autograd(fw_compiler=boxed_nop, partition_fn=partition, keep_inference_input_mutations=True)(module, inputs)
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(module, inputs, config_patches={"custom_partitioner_fn": partition})


def sharded(local, mesh, dim: int, shape, stride):
    """A DTensor of this global shape, cut along `dim`, whose shard is `local`; differentiable."""
    from torch.distributed.tensor import DTensor, Shard

    return DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, shape=shape, stride=stride)


TESTED = ("2.13",)
OLDEST = (2, 11)


def warn_untested() -> None:
    """One warning where this torch is newer or older than what the tests ran on; an error below the oldest that is accepted."""
    import warnings

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < OLDEST:
        raise RuntimeError(f"autosp needs torch >= {'.'.join(map(str, OLDEST))}, found {torch.__version__}")
    if not torch.__version__.startswith(TESTED):
        warnings.warn(f"autosp is tested on torch {', '.join(TESTED)}; this is {torch.__version__}", UserWarning, stacklevel=3)


def world_mesh(device_type: str):
    """A 1-D mesh over the default process group."""
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(dist.group.WORLD, device_type)


def set_compiled_call(module, call) -> None:
    """Make `call` what `module(...)` runs, as nn.Module.compile does."""
    module._compiled_call_impl = call


def compiled_call(module):
    """What set_compiled_call was given, or None."""
    return getattr(module, "_compiled_call_impl", None)


def compile_call(module, backend, fullgraph: bool):
    """The module's own call, compiled with a backend function, one graph for each shape."""

    def call(*args, **kwargs):  # a frame of ours: Dynamo does not start in torch's own files, where nn.TransformerEncoder's forward is
        return module._call_impl(*args, **kwargs)

    return torch.compile(call, backend=backend, fullgraph=fullgraph, dynamic=False)


def positional_names(forward) -> tuple[str, ...]:
    """Names of forward's positional parameters without self."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in inspect.signature(forward).parameters.values() if p.kind in kinds)[1:]


def compile_settings():
    """Dynamo's settings while a compiled module runs: logging does not break the graph, no recompile limit falls back to eager."""
    import logging
    import sys

    ignored = {logging.Logger.warning, logging.Logger.info, logging.Logger.debug, logging.Logger.error}
    config = torch._dynamo.config
    theirs = sys.modules.get("transformers.utils.logging")  # its own functions, where the program uses it at all
    if theirs is not None:
        logger = theirs.get_logger("transformers")
        names = ("warning_once", "warning_advice", "info_once")
        ignored |= {getattr(owner, n) for owner in (logger, type(logger)) for n in names if hasattr(owner, n)}
    return config.patch(
        ignore_logging_functions=set(config.ignore_logging_functions) | ignored,
        recompile_limit=1 << 20,
        accumulated_recompile_limit=1 << 20,
        fail_on_recompile_limit_hit=True,
    )


def compile_failure(error: Exception):
    """What went wrong in a compile: the CompileError a backend raised, or the fields of one for what Dynamo itself refuses. None for an
    error of the running program."""
    from torch._dynamo import exc

    from .errors import CompileError, InternalError

    if isinstance(error, exc.BackendCompilerFailed):
        error = error.inner_exception
        if isinstance(error, (CompileError, InternalError)):
            return error
    data_dependent = (
        torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode,
        torch._subclasses.fake_tensor.DataDependentOutputException,
        torch._subclasses.fake_tensor.DynamicOutputShapeException,
    )
    if isinstance(error, (exc.Unsupported, exc.UserError, *data_dependent)):
        import re

        text = str(error)
        lines = re.findall(r'File "([^"]+)", line (\d+)', text)
        place = next((f"{p.rsplit('/', 1)[-1]}:{n}" for p, n in reversed(lines) if "/torch/" not in p), None)
        first = text.strip().splitlines()[0]
        return dict(
            found=f"the model cannot be captured as one graph: {first}",
            location=place,
            remedy="Remove .item(), .tolist() and sizes that depend on tensor values from the model's forward"
            if isinstance(error, data_dependent)
            else "Remove what breaks the graph there, or pass fullgraph=False (values that cross a break are made whole)",
        )
    return None


def trace_joint(module, inputs: list, partition, inference_compiler):
    """AOTAutograd of an exported program outside a Dynamo compile: calls `partition` (or `inference_compiler` where nothing requires a
    gradient) with the traced graph."""
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.aot_autograd import aot_module_simplified

    fake_mode = fake_tensor_mode()
    context = torch._guards.TracingContext(fake_mode)
    with torch._guards.tracing(context):
        return aot_module_simplified(
            module, inputs, fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=partition, inference_compiler=inference_compiler
        )


def graph_break(gm) -> str | None:
    """Where and why Dynamo ended this graph early: "model.py:12 (reason)"; None where the graph is the whole program."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frame = reason.user_stack[-1] if reason.user_stack else None
    place = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" if frame is not None else "an unknown line"
    return f"{place} ({reason.reason.splitlines()[0]})"
