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
            called = checkpointed_body(target, args, kwargs)
            if called is not None:  # its nodes say which region they stand in
                return Run(called[0]).run(*args[1:], **called[1])
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


def partitioner(choose, compare, identity: str):
    """Torch's own min-cut partitioner between choose(joint graph, number of forward outputs), which may tag nodes, and compare(forward
    graph, backward graph). A CustomPartitionerFn for Inductor, and callable as partition_fn of aot_autograd.

    `identity` is part of the key under which Inductor keeps a compiled graph: it must change with whatever choose depends on.
    """
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(self, gm, joint_inputs, **kwargs):
            choose(gm, kwargs["num_fwd_outputs"])
            forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
            compare(forward, backward)
            return forward, backward

        def uuid(self):
            return identity

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


def trace_joint(module, inputs: list, partition, inference_compiler, decompositions=None):
    """AOTAutograd of an exported program outside a Dynamo compile: calls `partition` (or `inference_compiler` where nothing requires a
    gradient) with the traced graph. `decompositions`: what ops become before the trace; None: torch's own default. Fake inputs stay on
    their own mode."""
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.aot_autograd import aot_module_simplified

    fake_mode = next((x.fake_mode for x in inputs if is_fake(x)), None) or fake_tensor_mode()
    context = torch._guards.TracingContext(fake_mode)
    with torch._guards.tracing(context):
        return aot_module_simplified(
            module,
            inputs,
            fw_compiler=boxed_nop,
            bw_compiler=boxed_nop,
            partition_fn=partition,
            inference_compiler=inference_compiler,
            decompositions=decompositions,
        )


def _fake_mode_of(gm):
    """The fake mode that a graph was traced on."""
    return next(n.meta["val"].fake_mode for n in gm.graph.nodes if is_fake(n.meta.get("val")))


def tracing_of(gm):
    """The tracing context that a traced graph came from, for a partitioner that runs after the trace."""
    return torch._guards.tracing(torch._guards.TracingContext(_fake_mode_of(gm)))


def inductor_decompositions() -> dict:
    """What Inductor turns ops into before it partitions a joint graph."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def inductor_joint_passes(gm) -> None:
    """What Inductor rewrites in a joint graph before it partitions it."""
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V

    with V.set_fake_mode(_fake_mode_of(gm)):
        joint_graph_passes(gm)


def partition_joint(gm, num_forward_outputs: int, partition):
    """(forward, backward) that `partition` cuts a traced joint graph into, outside a compile; gm stays as it is."""
    with tracing_of(gm):
        return partition(copied(gm)[0], None, num_fwd_outputs=num_forward_outputs)


def graph_break(gm) -> str | None:
    """Where and why Dynamo ended this graph early: "model.py:12 (reason)"; None where the graph is the whole program."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frame = reason.user_stack[-1] if reason.user_stack else None
    place = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" if frame is not None else "an unknown line"
    return f"{place} ({reason.reason.splitlines()[0]})"


def tidy_joint(gm) -> None:
    """What the stock partitioner does first: removes dead nodes and common subexpressions, moves the ends of checkpointed regions out.
    The ends are found before: what two regions compute alike, as the numbers behind masks of dropout, is no end of the first."""
    from torch._functorch import config, partitioners
    from torch._functorch.compile_utils import fx_graph_cse

    gm.graph.eliminate_dead_code()
    if partitioners.has_recomputable_ops(gm):
        partitioners.cleanup_recompute_tags(gm, is_default_partition=False)
    if config.cse:
        gm.graph = fx_graph_cse(gm.graph)
    gm.recompile()


def copied(gm) -> tuple[torch.fx.GraphModule, dict[str, str]]:
    """A copy of a joint graph that can be cut without touching gm, and gm's names of its nodes."""
    graph, env = torch.fx.Graph(), {}
    node = graph.output(graph.graph_copy(gm.graph, env))
    node.meta = dict(next(iter(gm.graph.find_nodes(op="output"))).meta)
    return torch.fx.GraphModule(gm, graph), {new.name: old.name for old, new in env.items()}


def stock_saved(gm, num_forward_outputs: int) -> set[str]:
    """Names of the nodes that the stock partitioner would hand from the forward to the backward; gm stays as it is."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graph, names = copied(gm)
    forward, _ = min_cut_rematerialization_partition(graph, None, num_fwd_outputs=num_forward_outputs)
    kept = [x for x in output_leaves(forward)[num_forward_outputs:] if isinstance(x, torch.fx.Node)]
    return {names.get(x.name, x.name) for x in kept}


def tag(node, recompute: bool) -> None:
    """Tell the stock partitioner what becomes of a node: run again by the backward, or saved if the backward needs it."""
    from torch.utils.checkpoint import CheckpointPolicy

    node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE if recompute else CheckpointPolicy.MUST_SAVE


def untag(node) -> None:
    """Take the tag of `tag`, of `mark_region` or of torch's own checkpoints off a node."""
    node.meta.pop("recompute", None)
    node.meta.pop("ac_graph_id", None)


def tag_of(node) -> str | None:
    """ "keep" or "recompute" where a node carries a checkpoint policy."""
    from torch.utils.checkpoint import CheckpointPolicy as Policy

    names = {Policy.MUST_SAVE: "keep", Policy.PREFER_SAVE: "keep", Policy.MUST_RECOMPUTE: "recompute", Policy.PREFER_RECOMPUTE: "recompute"}
    return names.get(node.meta.get("recompute"))


def output_leaves(gm) -> list:
    """The outputs of a graph, flat."""
    return pytree.arg_tree_leaves(*next(iter(gm.graph.find_nodes(op="output"))).args)


def _output_descriptors(gm) -> list:
    return pytree.arg_tree_leaves(next(iter(gm.graph.find_nodes(op="output"))).meta["desc"])  # without them writes would go unseen


def gradient_inputs(gm, num_forward_outputs: int) -> set:
    """The inputs of a joint graph whose gradient it returns."""
    primals = [n for n in gm.graph.find_nodes(op="placeholder") if not is_tangent(n)]
    gradients = output_leaves(gm)[num_forward_outputs:]
    return {p for p, g in zip(primals, gradients, strict=False) if isinstance(g, torch.fx.Node)}


def written_by_outputs(gm, num_forward_outputs: int) -> dict[int, torch.fx.Node]:
    """Output position -> the input that AOTAutograd overwrites with it after the forward."""
    from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput

    inputs = {n.meta.get("desc"): n for n in gm.graph.find_nodes(op="placeholder")}
    descriptors = _output_descriptors(gm)[:num_forward_outputs]
    return {
        k: inputs[d.mutated_input] for k, d in enumerate(descriptors) if isinstance(d, InputMutationAOTOutput) and d.mutated_input in inputs
    }


def writes_input(node) -> bool:
    """Whether a node is the final copy of new contents into an input of the graph."""
    return (
        node.target is torch.ops.aten.copy_.default
        and isinstance(node.args[0], torch.fx.Node)
        and node.args[0].op == "placeholder"
        and isinstance(node.args[1], torch.fx.Node)
    )


def is_tangent(node) -> bool:
    """Whether a placeholder of a joint graph is the gradient of an output (or other state that only the backward has)."""
    return "tangents" in str(node.target) or "bwd_" in str(node.target)


def input_position(node) -> int:
    """Which argument of the traced function a placeholder of a joint graph is; -1: none."""
    return getattr(node.meta.get("desc"), "idx", -1)


def storage_key(tensor):
    """Equal for tensors of a trace that share memory."""
    return tensor.untyped_storage()._cdata


def size_hint(size) -> int:
    """A size, or what it was at tracing."""
    return size if isinstance(size, int) else int(size.node.hint)


def returns_view(target) -> bool:
    """Whether an op's result shares the memory of its first argument."""
    if target is torch.ops.aten._unsafe_view.default:
        return True
    returns = op_schema(target).returns if is_aten_like(target) else ()
    return len(returns) == 1 and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def is_collective(target) -> bool:
    """Whether an FX target is a functional collective, or the wait for one."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "_c10d_functional"


def is_wait(target) -> bool:
    """Whether an FX target waits for a collective."""
    return target is torch.ops._c10d_functional.wait_tensor.default


def traits(target) -> list[str]:
    """The tags of an op that the core reads, by its names for them."""
    out = []
    if torch.Tag.pointwise in target.tags:
        out.append("pointwise")
    if torch.Tag.nondeterministic_seeded in target.tags:
        out.append("random")
    if op_schema(target).is_mutable:
        out.append("mutates")
    return out


def function_name(target) -> str:
    """A name for an FX target that is no ATen-like op: "higher_order.flex_attention", "python.getitem"."""
    if is_higher_order(target):
        return f"higher_order.{target.name()}"
    return f"python.{getattr(target, '__name__', type(target).__name__)}"


def checkpoint_policy(body):
    """The selective policy of a checkpointed region, called as policy(context, op, *args, **kwargs); None where all of it is run again.
    TypeError with a type's name for a context that is no selective policy."""
    from torch.utils.checkpoint import _CachingTorchDispatchMode

    context_fn = body.meta.get("_checkpoint_context_fn")
    if context_fn is None:
        return None
    forward, _ = context_fn()
    if not isinstance(forward, _CachingTorchDispatchMode):
        raise TypeError(type(forward).__name__)
    return forward.policy_fn


def checkpointed_body(target, args, kwargs):
    """(body, keyword arguments of the body) of a call of torch.utils.checkpoint in a Dynamo graph; None for any other target."""
    from torch._higher_order_ops.wrap import tag_activation_checkpoint

    if target is not tag_activation_checkpoint:
        return None
    return args[0], type(tag_activation_checkpoint).divide_kwargs(kwargs)[1]


def ask_policy(policy, node) -> str:
    """What a selective checkpoint policy says of a node of the joint graph: "keep" or "recompute"."""
    from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext

    def value(x):
        return x.meta.get("val") if isinstance(x, torch.fx.Node) else x

    args, kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), value)
    said = policy(SelectiveCheckpointContext(is_recompute=False, op_output=node.meta.get("val")), node.target, *args, **kwargs)
    saves = said if isinstance(said, bool) else said in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
    return "keep" if saves else "recompute"


def mark_region(node, region: int, policy: str) -> None:
    """Tag a node of a checkpointed region as torch.utils.checkpoint does while it traces."""
    tag(node, policy == "recompute")
    node.meta["ac_graph_id"] = region


def depends_on_tangents(gm) -> set:
    """The nodes of a joint graph that only the backward can run."""
    out: set = set()
    for node in gm.graph.nodes:
        if (node.op == "placeholder" and is_tangent(node)) or any(n in out for n in node.all_input_nodes):
            out.add(node)
    return out


def activation_budget(share: float):
    """A context in which the stock partitioner keeps this share of what it would save (torch's own memory budget)."""
    import torch._functorch.config as functorch_config

    return functorch_config.patch(activation_memory_budget=share)


def stock_partitioners():
    """The module of torch's partitioners, for benchmarks that time its solver."""
    from torch._functorch import partitioners

    return partitioners
