"""Trains a small Llama on CPython's documentation at sequence 4,096: in one process, then on 2 ranks after adding one line.

    make demo            or            python examples/train_llama.py [--steps 6] [--inner aot_eager]

`train` is the training loop; what is added to it is marked ADDED (the ranks and their mesh, as for any distributed training, and the one line).
Both runs start from the same weights and see the same batches, so their losses must be the same: the script exits with 1 when they differ.
"""

import argparse
import pydoc_data.topics
import queue
import statistics
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from tokenizers import ByteLevelBPETokenizer
from torch.distributed.device_mesh import init_device_mesh
from transformers import LlamaConfig, LlamaForCausalLM

import autosp
from autosp.memory import PeakMeter

SEQUENCE, VOCABULARY, RANKS, TOLERANCE, MIB = 4096, 2048, 2, 1e-5, 1 << 20
METERED = 1  # the step whose memory is measured; its time and the first step's (which compiles) do not count


def batches(steps: int) -> torch.Tensor:
    """[steps, 1, SEQUENCE] token ids of the documentation that ships with Python, by a byte-level BPE tokenizer trained on it."""
    topics = pydoc_data.topics.topics
    text = "\n\n".join(topics[name] for name in sorted(topics))
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([text], vocab_size=VOCABULARY, show_progress=False)
    ids = torch.tensor(tokenizer.encode(text).ids)
    return ids[: steps * SEQUENCE].view(steps, 1, SEQUENCE)  # 31 fit


def build_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=256, intermediate_size=704, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
                         vocab_size=VOCABULARY, max_position_embeddings=SEQUENCE, use_cache=False, attn_implementation="sdpa")  # fmt: skip
    return LlamaForCausalLM(config)


def train(rank: int, ranks: int, data: torch.Tensor, store: str, inner: str, tell) -> None:
    """Trains one rank's model, one SGD step per batch; `tell(loss=, cpu=, peak=)` after each, `tell(report=)` at the end."""
    model = build_model()
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)  # ADDED: the ranks
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("sp",))  # ADDED: their mesh
        model = autosp.compile(model, mesh["sp"], inner=inner)  # ADDED: the one line
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step, ids in enumerate(data):
        start = time.process_time()
        with PeakMeter() if step == METERED else nullcontext() as meter:
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        tell(loss=loss.item(), cpu=time.process_time() - start, peak=meter and meter.max_memory_allocated())
        del loss
    if ranks > 1:
        report = autosp.explain(model)
        tell(report=(report.values_cut, report.values_whole, report.collectives))


def rank_main(rank: int, ranks: int, data: torch.Tensor, store: str, inner: str, inbox) -> None:
    torch.set_num_threads(1)
    try:
        train(rank, ranks, data, store, inner, lambda **news: inbox.put((rank, news)))
    except Exception:
        inbox.put((rank, {"error": traceback.format_exc()}))
        time.sleep(60)  # the starting process ends all of us; leaving now would only bury the message under the peers' errors


def run(ranks: int, data: torch.Tensor, inner: str, advance) -> tuple[list[list[dict]], tuple | None]:
    """Starts the ranks and gathers their news: [steps of rank 0, of rank 1], and rank 0's report."""
    context = mp.get_context("spawn")
    inbox, steps, report = context.Queue(), [[] for _ in range(ranks)], None
    with tempfile.TemporaryDirectory() as directory:
        shared = (ranks, data, f"{directory}/store", inner, inbox)
        processes = [context.Process(target=rank_main, args=(rank, *shared), daemon=True) for rank in range(ranks)]
        try:
            for process in processes:
                process.start()
            for _ in range(ranks * (len(data) + (ranks > 1))):
                rank, news = inbox.get(timeout=240)
                if "error" in news:
                    sys.exit(f"rank {rank} of {ranks} failed:\n{news['error']}")
                if "report" in news:
                    report = news["report"]  # the same on every rank
                else:
                    steps[rank].append(news)
                    if rank == 0:
                        advance()
        except queue.Empty:
            sys.exit(f"no news from {ranks} ranks for 240 s")
        finally:
            for process in processes:
                process.kill()
    return steps, report


def show(console: Console, one: list[dict], many: list[list[dict]], report: tuple) -> bool:
    """Prints the tables; whether the losses are equal."""
    runs = [one, *many]
    errors = [abs(a["loss"] - b["loss"]) / a["loss"] for rank in many for a, b in zip(one, rank, strict=True)]
    equal = all(error <= TOLERANCE for error in errors)
    names = ("1 process", *(f"rank {r} of {len(many)}" for r in range(len(many))))
    table = Table("", *(Column(name, justify="right") for name in names), title=f"Llama, sequence {SEQUENCE:,}", title_justify="left")
    for step in range(len(one)):
        table.add_row(f"loss, step {step + 1}", *(f"{run[step]['loss']:.6f}" for run in runs))
    table.add_row("peak live MiB", *(f"{run[METERED]['peak'] / MIB:.1f}" for run in runs))
    table.add_row("CPU seconds per step", *(f"{statistics.median(s['cpu'] for s in run[METERED + 1 :]):.2f}" for run in runs))
    console.print(table, f"losses {'equal' if equal else 'DIFFERENT'}: largest relative difference {max(errors):.1e}")
    cut, whole, collectives = report
    console.print(f"\nThe compiler cut {cut} values along the sequence, left {whole} whole, and inserted (MiB sent per rank, step):")
    for name in dict.fromkeys(name for name, _ in collectives):
        sizes = [size for other, size in collectives if other == name]
        console.print(f"  {len(sizes):3} x {name:<30} {sum(sizes) / MIB:8.2f} MiB")
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, choices=range(3, 32), metavar="3..31")
    parser.add_argument("--inner", default="aot_eager", help="what compiles the rewritten graph: aot_eager, or inductor")
    args = parser.parse_args()
    console, data = Console(), batches(args.steps)
    bar = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeElapsedColumn())
    with Progress(*bar, console=console) as progress:
        tasks = [progress.add_task(name, total=len(data), start=False) for name in ("1 process", f"{RANKS} ranks")]
        results = []
        for ranks, task in zip((1, RANKS), tasks, strict=True):
            progress.start_task(task)
            results.append(run(ranks, data, args.inner, lambda task=task: progress.advance(task)))
    (one, _), (many, report) = results
    return 0 if show(console, one[0], many, report) else 1


if __name__ == "__main__":
    sys.exit(main())
