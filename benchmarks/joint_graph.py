"""The joint forward and backward graph of one rank of a Llama training step, without memory for weights or activations (fake tensors).

    python benchmarks/joint_graph.py --model llama-3.1-8b --local 16384 --ranks 8 --out FOLDER
    autosp-opt FOLDER/llama-3.1-8b-32x16384x8-inductor.sp --pipeline=joint --timing -o /dev/null

The graph is what Inductor hands to the partitioner (--decompositions inductor, the default) or what AOTAutograd makes without
decompositions (aten); bf16; torch's own choice of saved values is marked in it.
"""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import dataclass
from pathlib import Path

import torch
from llama_graph import MODELS, captured_step

from autosp import torch_compat
from autosp.compiler import core_options
from autosp.config import Options
from autosp.fx_export import Rank, export_graph
from autosp.fx_import import import_graph
from autosp.joint_import import ImportedJoint, import_joint, saved_values

GROUP = "joint"


@dataclass
class Traced:
    """gm: the FX graph after torch's own tidying; imported: the core's graph of it, with torch's saved values marked."""

    gm: torch.fx.GraphModule
    imported: ImportedJoint
    num_forward_outputs: int

    @property
    def text(self) -> str:
        return self.imported.graph.text()


def joint_graph(figures: dict, local: int, ranks: int = 8, decompositions: str = "inductor", logits: bool = True) -> Traced:
    """Rank 0's joint graph of a training step with `local` tokens on each of `ranks` ranks."""
    captured, inputs = captured_step(figures, local * ranks, logits)
    imported = import_graph(captured, ranks, True)
    options = Options.parse({})
    imported.graph.run_forward(core_options(options), [], "")
    exported = export_graph(imported, imported.graph.localize(0), Rank(0, ranks, GROUP, options.gradients == "reduced"))
    kinds = {i: x.kind for i, x in enumerate(captured.inputs)}
    found: list[Traced] = []

    class Done(Exception):
        pass

    def choose(gm, num_forward_outputs):
        if decompositions == "inductor":
            torch_compat.inductor_joint_passes(gm)
        torch_compat.tidy_joint(gm)
        joint = import_joint(gm, num_forward_outputs, kinds, ranks=ranks)
        for value in saved_values(joint, torch_compat.stock_saved(gm, num_forward_outputs)):
            joint.graph.mark_saved(value)
        found.append(Traced(gm, joint, num_forward_outputs))
        raise Done

    partition = torch_compat.partitioner(choose, lambda forward, backward: None, "joint graph")
    table = torch_compat.inductor_decompositions() if decompositions == "inductor" else None
    with contextlib.suppress(Done):
        torch_compat.trace_joint(exported.module, inputs, partition, None, table)
    return found[0]


def figures_of(model: str, layers: int | None = None) -> dict:
    """A model's published figures, with another number of layers where one is given."""
    figures = dict(MODELS[model])
    return {**figures, "num_hidden_layers": layers} if layers else figures


def cached_text(
    folder: str | Path, model: str, layers: int | None, local: int, ranks: int = 8, decompositions: str = "inductor", logits: bool = True
) -> str:
    """The text of a joint graph, traced once for each folder."""
    figures = figures_of(model, layers)
    kind = decompositions + ("" if logits else "-loss")
    path = Path(folder) / f"{model}-{figures['num_hidden_layers']}x{local}x{ranks}-{kind}.sp"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(joint_graph(figures, local, ranks, decompositions, logits).text)
    return path.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="llama-3.1-8b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--local", type=int, default=16384, help="tokens of one rank")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--decompositions", choices=("inductor", "aten"), default="inductor")
    parser.add_argument("--loss-only", action="store_true", help="the step returns the loss without the logits")
    parser.add_argument("--out", required=True, help="a folder outside the repository")
    args = parser.parse_args()
    cached_text(args.out, args.model, args.layers, args.local, args.ranks, args.decompositions, not args.loss_only)


if __name__ == "__main__":
    main()
