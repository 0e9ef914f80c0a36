"""What the activation-checkpointing pass saves, repeats and costs on joint graphs of Llama training steps (rank 0 of 8, bf16).

    python benchmarks/bench_checkpoints.py saved --out FOLDER       saved bytes against the formulas
    python benchmarks/bench_checkpoints.py repeats                  what the backward graphs run a second time
    python benchmarks/bench_checkpoints.py time                     one solve, the whole choice, torch's own solver
    python benchmarks/bench_checkpoints.py optimum --out FOLDER     budgets of bytes against the integer optimum
    python benchmarks/bench_checkpoints.py ablation --out FOLDER    longest sequence and time, bytes by class

Joint graphs are traced once for each FOLDER (outside the repository) and read from there. Results are in checkpointing.md.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from autosp._core import Graph, joint_program, solve_joint, time_cut
from joint_graph import cached_text, figures_of, joint_graph
from llama_graph import MODELS

from autosp import torch_compat
from autosp.checkpoint import Checkpointing
from autosp.config import Options

FULL = ("llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b")
MODES = ("stock", "sac", "full")


def options(mode: str) -> list[tuple[str, str]]:
    """As on a GPU under Inductor."""
    return [("checkpoint", mode), ("fused", "true"), ("on_cpu", "false"), ("rounding", "512")]


def run(text: str, mode: str) -> tuple[Graph, dict]:
    """The graph with its plan marked, and the report."""
    graph = Graph.parse(text)
    report, _ = graph.run_joint(options(mode), "")
    return graph, report.checkpoints


def formulas(figures: dict) -> dict[str, int]:
    """Saved bytes per token per layer, paper.md. "stock at kv heads": the first with K and V as they are before each is repeated for its
    group of query heads, twice 2(h - kv*d) bytes less."""
    h, i, a = (figures[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    kv = figures["num_key_value_heads"] * figures.get("head_dim", h // a)
    stock = 2 * (9 * h + 3 * i) + 4 * a + 8
    return {
        "stock": stock,
        "stock at kv heads": stock - 4 * (h - kv),
        "sac": 2 * (5 * h + 2 * kv) + 4 * a + 8,
        "full": 2 * h,
    }


def saved_by_op(graph: Graph) -> list[tuple[str, list[int], int]]:
    """(op, shape, bytes) of each saved value that an op makes."""
    program, names = joint_program(graph, []), [name for name, *_ in graph.ops()]
    place = {v: k for k, v in enumerate(program["graph_values"])}
    rows = (program["values"][place[v]] + (v,) for v in graph.saved)
    return [(names[maker], graph.shape(v), nbytes) for maker, _, nbytes, v in rows if maker >= 0]


def per_layer(fewer: Graph, more: Graph) -> list[tuple[str, int, int]]:
    """(op, bytes of one value, how many of them) of what the one graph saves beyond the other."""
    count: dict[tuple[str, int], int] = {}
    for graph, sign in ((fewer, -1), (more, 1)):
        for name, _, nbytes in saved_by_op(graph):
            count[name, nbytes] = count.get((name, nbytes), 0) + sign
    return [(*key, n) for key, n in count.items() if n]


def saved(args) -> None:
    print(f"{'model':14}{'plan':8}{'bytes':>9}{'formula':>9}{'less':>8}   value by value")
    for model in args.models or MODELS:
        expected = formulas(figures_of(model))
        for mode in MODES:
            graphs = [run(cached_text(args.out, model, layers, args.local), mode) for layers in (2, 3)]
            nbytes = (graphs[1][1]["saved"] - graphs[0][1]["saved"]) / args.local
            values = [f"{n} {name.split('.')[1]} {b / args.local:g}" for name, b, n in per_layer(graphs[0][0], graphs[1][0])]
            formula = expected[mode]
            print(f"{model:14}{mode:8}{nbytes:9g}{formula:9}{formula - nbytes:8g}   {', '.join(values)}")
        print(f"{'':14}stock at kv heads: formula {expected['stock at kv heads']}")


FAMILIES = {
    "attention": ("scaled_dot_product",),
    "collectives": ("all_to_all", "all_gather", "all_reduce", "reduce_scatter"),
    "products": ("aten.mm", "aten.bmm", "aten.addmm"),
}


def repeated(traced, mode: str) -> dict[str, tuple[int, int]]:
    """By family: how many calls the backward graph has, and how many of them the forward graph ran already. A random op that is run again
    stands in a wrapper that restores the generator's state."""
    alone = SimpleNamespace(ranks=list(range(8)), alike=lambda *_: True, first=lambda _, plan: plan)
    gm, _ = torch_compat.copied(traced.gm)  # tags are left on it
    Checkpointing(Options.parse({"checkpoint": mode}), alone).choose(gm, traced.num_forward_outputs)
    partition = torch_compat.partitioner(lambda gm, n: None, lambda forward, backward: None, "bench")
    forward, backward = torch_compat.partition_joint(gm, traced.num_forward_outputs, partition)
    ran = {n.name for n in forward.graph.nodes if n.op == "call_function"}
    found = dict.fromkeys(FAMILIES, (0, 0))
    for node in backward.graph.nodes:
        if node.op != "call_function":
            continue
        wrapped = "run_with_rng_state" in str(node.target)
        target = str(node.args[1] if wrapped else node.target)
        for family, names in FAMILIES.items():
            if any(x in target for x in names):
                calls, again = found[family]
                found[family] = (calls + 1, again + (wrapped or node.name in ran))
    return found


def repeats(args) -> None:
    print(f"{args.layers} layers; in the backward graph: calls (of these, run before by the forward graph)")
    for model in args.models or MODELS:
        for mode in MODES:
            found = repeated(joint_graph(figures_of(model, args.layers), args.local), mode)
            print(f"{model:14}{mode:8}" + "   ".join(f"{k} {calls} ({again})" for k, (calls, again) in found.items()), flush=True)


def separated(program: dict, sac: bool) -> list[int]:
    """Ops that may not run again: those without a price; under "sac" also attention, collectives and the makers of boundaries."""
    kinds = {"other"} | ({"attention", "collective", "random"} if sac else set())
    bans = [o for o, kind in enumerate(program["kinds"]) if kind in kinds]
    bans += [program["values"][v][0] for v in program["boundaries"]] if sac else []
    return [o for o in bans if program["demands"][o] != 2]  # what the backward runs for the first time


@contextlib.contextmanager
def timed(module, name: str, into: list[float]):
    """Times each call of a function of a module."""
    original = getattr(module, name)

    def call(*args, **kwargs):
        start = time.perf_counter()
        out = original(*args, **kwargs)
        into.append(time.perf_counter() - start)
        return out

    setattr(module, name, call)
    try:
        yield
    finally:
        setattr(module, name, original)


def times(args) -> None:
    import networkx

    from autosp.torch_compat import stock_partitioners

    traced = joint_graph(figures_of(args.models[0] if args.models else "llama-3.1-8b", args.layers), args.local)
    text = traced.text
    if args.out:
        Path(args.out, "timed.sp").write_text(text)
    program = joint_program(traced.imported.graph, options("sac"))
    print(f"{len(program['ops'])} ops, {len(program['values'])} values")
    patience = (10**12, int(2.5e12) // 256)  # the weights of "sac"
    whole, whole_cpu, networks, theirs = [], [], [], []
    cuts: dict[bool, list] = {True: [], False: []}
    for _ in range(args.repeat):
        graph = Graph.parse(text)
        start, start_cpu = time.perf_counter(), time.process_time()
        graph.run_joint(options("sac"), "")
        whole.append(time.perf_counter() - start)
        whole_cpu.append(time.process_time() - start_cpu)
        cuts[True] += time_cut(graph, options("sac"), separated(program, True), *patience, 3)
        for exponent in range(6, 13):  # of the price of time: from fewest bytes to nearly no time
            cuts[False] += time_cut(graph, options("sac"), separated(program, False), 10**12, 10**exponent, 3)
        with timed(networkx, "minimum_cut", networks), timed(stock_partitioners(), "choose_saved_values_set", theirs):
            torch_compat.stock_saved(traced.gm, traced.num_forward_outputs)

    def ms(seconds) -> str:
        return (
            f"median {statistics.median(seconds) * 1e3:.2f} ms ({min(seconds) * 1e3:.2f} to {max(seconds) * 1e3:.2f}, {len(seconds)} runs)"
        )

    for sac, found in cuts.items():
        rules = "sac rules" if sac else "all plans"
        print(f"{rules}: one solve            {ms([s for _, s, *_ in found])}")
        print(f"{rules}: network and solve    {ms([b + s for b, s, *_ in found])}")
    print(f"whole choice (run_joint)        {ms(whole)}")
    print(f"whole choice, CPU time          {ms(whole_cpu)}")
    print(f"networkx.minimum_cut            {ms(networks)}, {len(networks) / args.repeat:g} a choice")
    print(f"choose_saved_values_set         {ms(theirs)}")
    both = statistics.median(b + s for b, s, *_ in cuts[False])
    print(f"networkx.minimum_cut / network and solve, all plans: {statistics.median(networks) / both:.0f}")


def integer_program(program: dict, bans: list[int]):
    """The program as tests/python/integer_program.py reads it, and the values that may not be saved."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
    from integer_program import IntegerProgram

    p = SimpleNamespace(**{k: program[k] for k in ("ops", "values", "gradients")})
    unsaved = [v for o, demand in enumerate(program["demands"]) if demand == 2 for v in program["ops"][o][1]]
    return p, IntegerProgram(p, bans, unsaved)


def against_optimum(graph: Graph, sac: bool, count: int, seconds: float) -> list[tuple[int, int, float, float]]:
    """(budget, our time, time of the integer program's plan, bound that no plan passes) at evenly spaced budgets of bytes."""
    program = joint_program(graph, options("sac"))
    bans = separated(program, sac)
    points, _, _ = solve_joint(graph, options("sac"), bans, [])
    fewest, most = points[0][0], points[-1][0]
    budgets = [fewest + (most - fewest) * k // (count + 1) for k in range(1, count + 1)]
    _, _, fastest = solve_joint(graph, options("sac"), bans, budgets)
    _, exact = integer_program(program, bans)
    out = []
    for budget, (nbytes, picoseconds, bound, *_) in zip(budgets, fastest, strict=True):
        assert nbytes <= budget
        found, at_least = exact.solve(budget, seconds)
        out.append((budget, picoseconds, found, max(at_least, bound)))
    return out


def optimum(args) -> None:
    print("budget of saved bytes, GiB: time run again, ms; the integer program's plan; bound on every plan; we are over the bound by")
    for model in args.models or FULL:
        graph = Graph.parse(cached_text(args.out, model, args.layers, args.local))
        for sac in (False, True):
            rows = against_optimum(graph, sac, 10, args.seconds)
            worst = max(ours / bound - 1 for _, ours, _, bound in rows)
            print(f"{model}, {'sac rules' if sac else 'all plans'}: at most {worst:.2%}")
            for budget, ours, found, bound in rows:
                print(
                    f"  {budget / 2**30:7.2f} {ours * 1e-9:9.3f} {found * 1e-9:9.3f} {bound * 1e-9:9.3f} {max(0.0, ours / bound - 1):7.2%}",
                    flush=True,
                )


def longest(peaks: dict[int, int], room: float) -> float:
    """Local tokens at which the peak fills the room, between or beyond the measured lengths."""
    lengths = sorted(peaks)
    low, high = next(((a, b) for a, b in zip(lengths, lengths[1:], strict=False) if peaks[b] >= room), (lengths[-2], lengths[-1]))
    return low + (room - peaks[low]) * (high - low) / (peaks[high] - peaks[low])


def parameters(graph: Graph) -> int:
    """How many; `inputs` names a tied weight once."""
    total = 0
    for value, kind, _ in graph.inputs:
        if kind == "parameter":
            size = 1
            for n in graph.shape(value):
                size *= n
            total += size
    return total


def ablation(args) -> None:
    model = args.models[0] if args.models else "llama-3.2-1b"
    for logits in (True, False):
        print(f"{model}, the step returns {'loss and logits' if logits else 'the loss only'}")
        peaks: dict[str, dict[int, int]] = {mode: {} for mode in MODES}
        extra: dict[str, dict[int, float]] = {mode: {} for mode in MODES}
        for local in args.lengths:
            text = cached_text(args.out, model, args.layers, local, logits=logits)
            for mode in MODES:
                graph, report = run(text, mode)
                peaks[mode][local] = report["peak"]
                extra[mode][local] = report["recompute_time"] / report["step_time"]
                classes = ", ".join(f"{k} {report['saved_' + k] / 2**30:.3f}" for k in ("attention", "mlp", "residual", "loss", "other"))
                print(
                    f"  local {local:6} {mode:6} peak {report['peak'] / 2**30:7.2f} GiB ({report['peak'] / local:9.0f} bytes a token), at "
                    f"{report['peak_op']}; extra time {extra[mode][local]:.2%}; saved GiB: {classes}",
                    flush=True,
                )
        count = parameters(graph)
        for memory, zero in ((80e9, 1), (80e9, 0), (96e9, 0)):
            each = 2 + 12 / (8 if zero else 1)  # weights and optimizer; gradients are in the simulated peak
            room = memory - each * count
            fits = {mode: longest(peaks[mode], room) for mode in MODES}
            print(
                f"  {memory / 1e9:g} GB, ZeRO-{zero}, {count / 1e9:.3f} G parameters, {each:g} bytes each: longest local "
                + ", ".join(f"{mode} {fits[mode] / 1024:.1f}K" for mode in MODES)
                + f"; sac over stock {fits['sac'] / fits['stock']:.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"saved": saved, "repeats": repeats, "time": times, "optimum": optimum, "ablation": ablation}
    parser.add_argument("what", choices=commands)
    parser.add_argument("--models", nargs="*", choices=MODELS, help="default: those of the claim")
    parser.add_argument("--layers", type=int, help="in place of the published number")
    parser.add_argument("--local", type=int, default=16384, help="tokens of one rank")
    parser.add_argument("--lengths", type=int, nargs="*", default=[16384, 32768, 65536], help="of the ablation: tokens of one rank")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the integer program, for each budget")
    parser.add_argument("--out", default=None, help="a folder outside the repository")
    args = parser.parse_args()
    if args.what in ("saved", "optimum", "ablation") and not args.out:
        parser.error("--out says where joint graphs are kept")
    if args.what == "repeats":
        args.layers = args.layers or 2
    torch.set_num_threads(1)
    commands[args.what](args)


if __name__ == "__main__":
    main()
