"""Simulated against measured peak of a training step: bytes that the step allocates beyond parameters and inputs.

    python benchmarks/peak_model.py --inner aot_eager
    torchrun --standalone --nproc-per-node 2 benchmarks/peak_model.py --inner inductor

Measured: autosp.memory.PeakMeter around one step (gradients unset before, logits dropped after the forward), after compilation. On
several ranks the least of five steps: gloo's threads let go of a collective's tensors some time after the graph does, never before.
Simulated: autosp.explain(model), `checkpoints["peak"]`. One JSON line a configuration, from rank 0; the last says the errors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import warnings

import torch
import torch.distributed as dist
import transformers

import autosp
from autosp.memory import PeakMeter

# Model, layers, sequence, vocabulary, what is saved. "chain": all of the model's body under one torch.utils.checkpoint, so that the
# backward runs all layers again in one go. The first four (FITTED) were looked at while the simulator was written.
CONFIGURATIONS = [
    ("llama", 2, 512, 512, "stock"),
    ("llama", 2, 512, 512, "sac"),
    ("llama", 2, 512, 512, "full"),
    ("llama", 2, 512, 512, "chain"),
    ("llama", 4, 1024, 512, "stock"),
    ("llama", 4, 1024, 512, "sac"),
    ("llama", 4, 1024, 512, "full"),
    ("llama", 4, 1024, 512, "85%"),
    ("llama", 4, 1024, 512, "70%"),
    ("llama", 4, 1024, 512, "chain"),
    ("llama", 4, 1024, 4096, "sac"),
    ("llama", 4, 1024, 4096, "90%"),
    ("llama", 6, 2048, 512, "stock"),
    ("llama", 6, 2048, 512, "sac"),
    ("llama", 6, 2048, 512, "75%"),
    ("llama", 8, 512, 512, "full"),
    ("llama", 8, 512, 512, "chain"),
    ("llama", 2, 8192, 512, "stock"),
    ("llama", 2, 8192, 512, "sac"),
    ("llama", 2, 8192, 512, "full"),
    ("gpt2", 4, 1024, 512, "stock"),
    ("gpt2", 4, 1024, 512, "sac"),
    ("gpt2", 4, 1024, 512, "80%"),
]
FITTED = 4


def build(name: str, layers: int, vocab: int) -> torch.nn.Module:
    torch.manual_seed(0)
    common = dict(vocab_size=vocab, use_cache=False, attn_implementation="sdpa")
    if name == "gpt2":
        figures = dict(n_embd=256, n_layer=layers, n_head=8, n_positions=4096, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**figures, **common)).train()
    figures = dict(hidden_size=256, intermediate_size=688, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=4)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**figures, max_position_embeddings=8192, **common)).train()


class Chain(torch.nn.Module):
    """A causal model whose whole body is one checkpointed region."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        def body(ids):
            return self.model.model(input_ids=ids).last_hidden_state

        hidden = torch.utils.checkpoint.checkpoint(body, input_ids, use_reentrant=False)
        logits = self.model.lm_head(hidden)
        return {"loss": self.model.loss_function(logits=logits, labels=labels, vocab_size=logits.shape[-1])}


def run(configuration: tuple, inner: str, mesh) -> dict:
    name, layers, seq, vocab, mode = configuration
    torch.compiler.reset()
    model = build(name, layers, vocab)
    model = Chain(model) if mode == "chain" else model
    option = {"memory_budget": mode} if mode.endswith("%") else {"checkpoint": "sac" if mode == "chain" else mode}
    ids = torch.randint(0, vocab, (1, seq), generator=torch.Generator().manual_seed(1))
    model = autosp.compile(model, mesh, inner=inner, **option)

    def step() -> None:
        loss = model(input_ids=ids, labels=ids)["loss"]
        loss.backward()

    step()
    peaks = []
    for _ in range(1 if mesh is None else 5):
        for p in model.parameters():
            p.grad = None
        with PeakMeter() as meter:
            step()
        peaks.append(meter.max_memory_allocated())
    measured = min(peaks)
    simulated = autosp.explain(model).graphs[0].checkpoints["peak"]
    figures = dict(measured=measured, largest=max(peaks), simulated=simulated)
    return dict(model=name, layers=layers, seq=seq, vocab=vocab, mode=mode, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inner", choices=["aot_eager", "inductor"], default="aot_eager")
    parser.add_argument("--only", default="", help="run the configurations whose text contains this")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    mesh, rank = None, 0
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("sp",))
    errors = []
    for k, configuration in enumerate(CONFIGURATIONS):
        if args.only not in "/".join(map(str, configuration)):
            continue
        row = dict(inner=args.inner, sp=1 if mesh is None else dist.get_world_size(), **run(configuration, args.inner, mesh))
        row["error"] = round(row["simulated"] / row["measured"] - 1, 4)
        row["fitted"] = k < FITTED
        if not row["fitted"]:
            errors.append(abs(row["error"]))
        if rank == 0:
            print(json.dumps(row), flush=True)
    if rank == 0 and errors:
        print(json.dumps(dict(held_out=len(errors), median=statistics.median(errors), largest=max(errors))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
