"""n ranks in one process: each rank's compiled forward and backward graphs, stepped together, meeting at each collective.

The program is captured once (global shapes), planned once for each number of ranks, and exported for every rank; AOTAutograd and torch's
own partitioner make the rank's two graphs. A rank's interpreter yields at a collective; when all have yielded the same kind of
collective, the results are computed from all contributions. Ranks that would hang fail here with the names of what they wait at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from autosp import collective_list, torch_compat
from autosp.capture import Captured, capture
from autosp.checkpoint import Checkpointing
from autosp.compiler import core_options
from autosp.config import Options
from autosp.fx_export import Rank, export_graph
from autosp.fx_import import import_graph

GROUP = "lockstep"


@dataclass
class Result:
    """What one run gave, by rank. outputs: local tensors; grads: of inputs that require one, by name; forms: of the outputs."""

    outputs: list[list[torch.Tensor]]
    grads: list[dict[str, torch.Tensor | None]]
    forms: list[tuple[str, int] | None]
    forward: list[torch.fx.GraphModule] = field(default_factory=list)
    backward: list[torch.fx.GraphModule] = field(default_factory=list)
    local: list = field(default_factory=list)
    text: str = ""
    joint: list = field(default_factory=list)  # the core's reports on the joint graphs
    written: list[list[torch.Tensor]] = field(default_factory=list)  # new contents of inputs, by rank
    number: int = 0  # of outputs of the forward graph; what is saved for the backward comes after them

    def whole(self, k: int) -> torch.Tensor:
        """Output k, put together from the ranks."""
        kind, dim = self.forms[k]
        return torch.cat([outs[k] for outs in self.outputs], dim) if kind == "S" else self.outputs[0][k]


class Program:
    """A model's call, captured once. `call(model)` runs it; its graph must be whole."""

    def __init__(self, model: torch.nn.Module, call: Callable):
        self.model = model
        self.captured: Captured | None = None
        self.inputs: list[torch.Tensor] = []

        def keep(gm, example_inputs):
            self.captured = capture(gm, example_inputs)
            self.inputs = list(example_inputs)
            return gm.forward

        torch.compiler.reset()
        with torch_compat.compile_settings():
            compiled = torch.compile(call, backend=keep, fullgraph=True, dynamic=False)
            self.result = compiled(model)

    def run(self, ranks: int, rules: dict[str, str] | None = None, seed: int = 0, inputs: list | None = None, **options) -> Result:
        """Forward and backward (of output 0, a scalar, with tangent 1) on `ranks` ranks."""
        parsed = Options.parse({"inner": "aot_eager", **options})
        inputs = list(self.inputs if inputs is None else inputs)
        imported, locals_, joints, takes_seed, own, heard = self._traced(ranks, parsed, rules or {}, inputs)
        given = [[*buffers, *inputs, *([torch.tensor(seed)] if takes_seed else [])] for buffers in own]
        reports, graphs = [], joints
        if isinstance(joints[0], tuple):
            group, kinds = Together(ranks, heard), {i: x.kind for i, x in enumerate(self.captured.inputs)}
            choices = [Checkpointing(parsed, group, kinds, self.captured.policies, done=lambda report, _: reports.append(report))] * ranks
            graphs = together(group, joints, choices)
        forms = [imported.graph.form(v) for v in imported.graph.outputs]
        result = Result([], [], forms, local=locals_, text=imported.graph.text(), joint=reports)
        if not isinstance(graphs[0], tuple):  # nothing requires a gradient
            result.forward = graphs
            result.outputs = step(list(zip(graphs, given, strict=True)))
            return result
        result.forward, result.backward = [list(g) for g in zip(*graphs, strict=True)]
        same_collectives(result.forward)
        same_collectives(result.backward)
        number = joints[0][1]  # of the outputs of the forward: new contents of inputs, then the program's own
        written = number - len(imported.graph.outputs)
        result.number = number
        flat = step([(forward, copies(x)) for forward, x in zip(result.forward, given, strict=True)])
        result.outputs = [outs[written:number] for outs in flat]
        result.written = [outs[:written] for outs in flat]
        arguments = []
        for backward, outs in zip(result.backward, flat, strict=True):
            saved = outs[number:]
            wanted = len(backward.graph.find_nodes(op="placeholder")) - len(saved)
            floats = [o for o in outs[written:number] if isinstance(o, torch.Tensor) and o.is_floating_point()]
            assert len(floats) >= wanted, "an output has no tangent"
            tangents = [torch.ones_like(o) if o.dim() == 0 and o is floats[0] else torch.zeros_like(o) for o in floats[:wanted]]
            arguments.append((backward, [*saved, *tangents]))
        names = [i.name for i in self.captured.inputs]
        for grads, buffers in zip(step(arguments), own, strict=True):
            result.grads.append({n: g for n, g, x in zip(names, grads[len(buffers) :], inputs, strict=False) if x.requires_grad})
        return result

    def _traced(self, ranks: int, parsed: Options, rules: dict[str, str], inputs: list):
        """(imported, each rank's local graph, what AOTAutograd traces of each rank's program, whether those take a seed, the constants
        of each, what the ranks said to each other), made once for each set of options that the forward's plan depends on."""
        key = (ranks, str(core_options(parsed)), str(sorted(rules.items())), parsed.outputs, parsed.gradients, tuple(map(id, inputs)))
        if key not in self._made:
            imported = import_graph(self.captured, ranks, parsed.outputs == "auto")
            imported.graph.run_forward(core_options(parsed), sorted(rules.items()), "")
            locals_ = [imported.graph.localize(r) for r in range(ranks)]
            programs = [export_graph(imported, locals_[r], Rank(r, ranks, GROUP, parsed.gradients == "reduced")) for r in range(ranks)]
            takes_seed = any(p.takes_seed for p in programs)
            given = inputs + ([torch.tensor(0)] if takes_seed else [])
            joints = [traced(p.module, given) for p in programs]
            own = [list(p.module.buffers()) for p in programs]  # constants: AOTAutograd makes them the first arguments
            self._made[key] = (imported, locals_, joints, takes_seed, own, {}), inputs  # inputs: their ids are in the key
        return self._made[key][0]

    def joints(self, ranks: int) -> list[tuple[torch.fx.GraphModule, int]]:
        """(joint graph, number of outputs of its forward) of each rank, as traced; not to be changed."""
        return self._traced(ranks, Options.parse({"inner": "aot_eager"}), {}, list(self.inputs))[2]

    @property
    def _made(self) -> dict:
        return self.__dict__.setdefault("_made_so_far", {})


class Together:
    """What autosp.agreement.Agreement is to ranks in processes, for ranks that are compiled one after another. heard: what they bring to
    alike(), by key; while it is not known they are only heard, and stopped there."""

    class Heard(Exception):
        pass

    def __init__(self, ranks: int, heard: dict[str, list[str]]):
        self.ranks, self.heard = tuple(range(ranks)), heard
        self.listening = not heard
        self.plans: dict[str, str] = {}

    def alike(self, key: str, payload: str) -> bool:
        if self.listening:
            self.heard.setdefault(key, []).append(payload)
            raise self.Heard
        assert payload in self.heard[key]
        return len(set(self.heard[key])) == 1

    def first(self, key: str, payload: str) -> str:
        return self.plans.setdefault(key, payload)


def together(group: Together, joints: list[tuple], choices: list[Checkpointing]) -> list[tuple]:
    """Each rank's (forward, backward) graphs of its (joint graph, number of forward outputs)."""
    for (gm, number), choice in zip(joints, choices, strict=True) if group.listening else ():
        with contextlib.suppress(Together.Heard), torch_compat.tracing_of(gm):
            partitioned(gm, number, choice.choose)
    group.listening = False
    return [partitioned(gm, number, choice.choose) for (gm, number), choice in zip(joints, choices, strict=True)]


def traced(module: torch.fx.GraphModule, inputs: list):
    """(joint graph, number of outputs of its forward) of AOTAutograd, or the one graph where nothing requires a gradient."""
    found = []

    class Done(Exception):
        pass

    def keep(gm, number):
        found.append((gm, number))
        raise Done

    def keep_inference(graph, _example_inputs):
        found.append(graph)
        raise Done

    with contextlib.suppress(Done):
        torch_compat.trace_joint(module, inputs, torch_compat.partitioner(keep, None, "lockstep"), keep_inference)
    return found[0]


def partitioned(gm: torch.fx.GraphModule, number: int, choose: Callable) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """(forward, backward) graphs of a joint graph, which stays as it is."""
    with torch_compat.tracing_of(gm):
        return torch_compat.partition_joint(gm, number, torch_compat.partitioner(choose, lambda *_: None, "lockstep"))


def copies(inputs: list) -> list:
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def same_collectives(graphs: list[torch.fx.GraphModule]) -> None:
    lists = [[c.op for c in collective_list.collectives_of(g)] for g in graphs]
    assert all(ops == lists[0] for ops in lists), f"ranks issue different collectives: {lists}"


def step(programs: list[tuple[torch.fx.GraphModule, list]]) -> list[list]:
    """Run one graph a rank, all together; each rank's flat outputs."""
    runs = [_interpret(graph, list(args)) for graph, args in programs]
    waiting, results = {}, {}
    for r, run in enumerate(runs):
        _advance(r, run, None, waiting, results)
    while waiting:
        names = {r: request[0] for r, request in waiting.items()}
        assert not results and len(set(names.values())) == 1, f"ranks wait at {names}, done: {sorted(results)}"
        replies = collective([waiting[r] for r in range(len(runs))])
        waiting = {}
        for r, run in enumerate(runs):
            _advance(r, run, replies[r], waiting, results)
    return [results[r] for r in range(len(runs))]


def _advance(r, run, reply, waiting, results) -> None:
    try:
        waiting[r] = run.send(reply)
    except StopIteration as stop:
        results[r] = list(stop.value)


def _interpret(graph: torch.fx.GraphModule, args: list):
    """A generator: yields (op name, arguments) at each collective and is sent its result; returns the graph's outputs."""
    env, given = {}, iter(args)
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            env[node] = next(given)
        elif node.op == "get_attr":
            env[node] = getattr(graph, node.target)
        elif node.op == "output":
            return torch.fx.node.map_arg(node.args[0], env.__getitem__)
        else:
            a, kw = torch.fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
            name = str(node.target)
            if name.startswith("_c10d_functional.wait_tensor"):
                env[node] = a[0]
            elif name.startswith("_c10d_functional."):
                env[node] = yield name.split(".")[1], a
            else:
                env[node] = node.target(*a, **kw)
    raise AssertionError("a graph without output")


def collective(requests: list[tuple[str, tuple]]) -> list:
    name, n = requests[0][0], len(requests)
    if name == "all_to_all_single":
        pieces = [x.split(sends) for _, (x, _, sends, _) in requests]
        for i, (_, (_, receives, _, _)) in enumerate(requests):
            assert [p[i].shape[0] for p in pieces] == list(receives), "what is sent is not what is expected"
        return [torch.cat([pieces[j][i] for j in range(n)]) for i in range(n)]
    if name in ("all_reduce", "all_reduce_"):
        total = _sum([x for _, (x, *_) in requests])
        return [total.clone() for _ in requests]
    if name in ("all_reduce_coalesced", "all_reduce_coalesced_"):
        totals = [_sum(list(xs)) for xs in zip(*(xs for _, (xs, *_) in requests), strict=True)]
        return [[t.clone() for t in totals] for _ in requests]
    if name == "all_gather_into_tensor":
        whole = torch.cat([x for _, (x, *_) in requests])
        return [whole.clone() for _ in requests]
    if name == "reduce_scatter_tensor":
        return list(_sum([x for _, (x, *_) in requests]).chunk(n))
    raise AssertionError(f"no lock-step form of {name}")


def _sum(xs: list[torch.Tensor]) -> torch.Tensor:
    assert len({x.shape for x in xs}) == 1, f"shapes differ: {[tuple(x.shape) for x in xs]}"
    total = xs[0].clone()
    for x in xs[1:]:
        total += x
    return total
