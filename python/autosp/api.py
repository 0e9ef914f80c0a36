"""The public functions: compile, explain, register_rule, and what a compiled module does when it is called."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from . import _core, torch_compat
from .agreement import parameters_agree
from .compiler import Compiler
from .config import Options
from .errors import CompileError
from .input_check import InputCheck
from .report import Report, Reports

_rules: dict[str, str] = {}  # what register_rule was given: a declaration about ops, like torch.library's


def compile(model: torch.nn.Module, mesh=None, **options) -> torch.nn.Module:
    """Make `model` sequence parallel over `mesh`, in place, and return it.

    model    any module; its parameters and `.grad` keep their names and their whole shapes
    mesh     1-D DeviceMesh (any dim name) on the model's device, or None for the default process group. With
             `checkpoint` or `memory_budget`, a program of one process (no process group, no launcher) is not sharded; its memory is saved
    options  see `autosp.config.Options`

    From then on every rank of the mesh calls the model with the same full batch, whole shapes in; losses, outputs and gradients are
    the single process's, whole shapes out (float outputs may be DTensors, see option `outputs`). Every call is collective over the
    mesh. Compilation happens at the first call of each input shape and mode.

    Raises CompileError for a wrong argument or option here, and at a call for what cannot be compiled or differs between ranks, on all
    of them; InternalError for a fault of autosp; RuntimeError for a torch older than 2.11. The contract: docs/usage.md.
    """
    parsed = Options.parse(options)
    torch_compat.warn_untested()
    if not isinstance(model, torch.nn.Module):
        raise CompileError(f"autosp.compile takes a torch.nn.Module, found {type(model).__name__}", remedy="Wrap the code in a module")
    if mesh is None and _only_saves_memory(options):
        warnings.warn("autosp: there is no process group, so nothing is sharded; only memory is saved", UserWarning, stacklevel=2)
    else:
        mesh = _checked_mesh(model, mesh)
    torch_compat.set_compiled_call(model, CompiledCall(model, mesh, parsed, dict(_rules)))
    return model


def explain(model: torch.nn.Module) -> Reports:
    """What the compiler did for each graph of `model` (or of the model that DistributedDataParallel wraps) so far; its str() is the text.

    Bytes in it are those one rank sends, or those of global tensors where it says so. It is local: no rank waits for another.
    Raises CompileError for a model that was not compiled by autosp.compile or not called yet.
    """
    call = torch_compat.compiled_call(getattr(model, "module", model))
    if not isinstance(call, CompiledCall):
        raise CompileError("the model was not compiled by autosp.compile", remedy="Call autosp.compile(model, mesh) first")
    if not call.compiler.reports:
        raise CompileError("the model has not been called yet", remedy="Call it once; graphs are compiled at the first call")
    return Reports(tuple(call.compiler.reports))


def register_rule(op, spelling: str) -> None:
    """Give an op a sharding rule, e.g. `register_rule("mylib::rope", "b h s d, s d -> b h s d")`.

    op        "namespace::name" or "namespace::name.overload", or a torch.ops overload
    spelling  operands, "->", results: a name for each dim; after them "sum k", "mean n" or "whole d" for factors that are contracted,
              averaged or must not be cut

    Models compiled afterwards use it, before a built-in rule of the same op; every rank must register the same. It is taken on trust: the
    op, run on the parts of a cut factor, must compute the parts of its results. A call whose shapes do not fit has no rule.
    Raises CompileError when the spelling is not a rule. The notation: docs/sharding.md, after Shardy's factor rules.
    """
    name = str(op) if torch_compat.is_aten_like(op) else str(op).replace("::", ".")
    if name.count(".") == 1:
        name += ".default"
    _core.check_rule(name, spelling)
    _rules[name] = spelling


class CompiledCall:
    """Stands in for a module's call: compares the inputs over the ranks, then runs the compiled graph."""

    def __init__(self, model: torch.nn.Module, mesh, options: Options, rules: dict[str, str]):
        forward = type(model).forward
        self.model, self.options = model, options
        self.check = None  # one process has nobody to differ from
        if mesh is not None:
            self.check = InputCheck(mesh.get_group(), options.check_inputs, model.forward, _wire_device(mesh))
        self.compiler = Compiler(options, mesh, rules, torch_compat.positional_names(forward))
        self.parameters_checked = False
        self.compiled: Callable = torch_compat.compile_call(model, self.compiler.compile, options.fullgraph)

    def __call__(self, *args, **kwargs):
        if self.check is not None:
            self.check.check(args, kwargs, state="training" if self.model.training else "evaluation")
        if not self.parameters_checked:
            parameters_agree(self.model, self.compiler.agreement)
            self.parameters_checked = True
        with torch_compat.compile_settings():
            try:
                return self.compiled(*args, **kwargs)
            except Exception as error:
                found = torch_compat.compile_failure(error)
                if found is None:
                    raise
                if isinstance(found, dict):  # refused by Dynamo, before the backend could tell the other ranks
                    found = CompileError(**found)
                    self.compiler.agreement.fail(str(found))
                raise found from (None if getattr(found, "agreed", False) else error)


def _wire_device(mesh) -> torch.device:
    return torch.device(mesh.device_type) if mesh.device_type == "cpu" else torch.device(mesh.device_type, torch.cuda.current_device())


def _only_saves_memory(options: Mapping | None) -> bool:
    """Whether nothing is to be sharded: there is no process group and no launcher that started other processes, and an option asks for
    what makes sense without them. Without such an option a missing process group is an error, never a program that shards nothing."""
    alone = not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) == 1
    return alone and bool({"checkpoint", "memory_budget"} & set(options or {}))


def _checked_mesh(model: torch.nn.Module, mesh):
    if not dist.is_initialized():
        raise CompileError(
            "torch.distributed is not initialised, so the argument mesh has no process group to stand for",
            remedy="Call torch.distributed.init_process_group and pass mesh=init_device_mesh(device, (sp,)) before autosp.compile; "
            "to save memory in one process without sharding, pass checkpoint or memory_budget",
        )
    devices = {p.device.type for p in model.parameters()}
    if mesh is None:
        device = next(iter(devices)) if len(devices) == 1 else "cpu"
        return torch_compat.world_mesh(device)
    if not isinstance(mesh, torch.distributed.device_mesh.DeviceMesh):
        raise CompileError(f"the argument mesh is a {type(mesh).__name__}", remedy="Pass a 1-D DeviceMesh, e.g. mesh['sp'], or None")
    if mesh.ndim != 1:
        names = mesh.mesh_dim_names or ()
        sp = "sp" if "sp" in names else names[-1] if names else "sp"
        raise CompileError(
            f"the argument mesh has {mesh.ndim} dims {tuple(names)}", remedy=f"Pass mesh['{sp}']: the ranks that share one batch"
        )
    if devices and devices != {mesh.device_type}:
        raise CompileError(
            f"the mesh is on {mesh.device_type} and the model's parameters are on {', '.join(sorted(devices))}",
            remedy="Move the model to the mesh's device first",
        )
    return mesh


def backend_for(options: dict | None) -> Callable[[torch.fx.GraphModule, Sequence], Callable]:
    """The Dynamo backend with these options over the whole world, for `model.compile(backend="autosp", options=...)`."""
    parsed = Options.parse(options)
    alone = _only_saves_memory(options)
    if not dist.is_initialized() and not alone:
        raise CompileError(
            "torch.distributed is not initialised", remedy="Call torch.distributed.init_process_group before the first call of the model"
        )

    def compile_graph(gm, example_inputs):
        if alone:
            return Compiler(parsed, None, dict(_rules)).compile(gm, example_inputs)
        device = next((x.device.type for x in example_inputs if isinstance(x, torch.Tensor)), "cpu")
        mesh = torch_compat.world_mesh(device)
        compiler = Compiler(parsed, mesh, dict(_rules))
        run = compiler.compile(gm, example_inputs)
        check = InputCheck(mesh.get_group(), parsed.check_inputs, None, _wire_device(mesh))
        user = [i for i, x in enumerate(example_inputs) if not isinstance(x, torch.nn.Parameter)]

        def checked(*args):
            check.check([args[i] for i in user])
            return run(*args)

        return checked

    return compile_graph


__all__ = ["CompiledCall", "Report", "backend_for", "compile", "explain", "register_rule"]
