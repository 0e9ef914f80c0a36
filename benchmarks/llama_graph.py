"""Writes the captured global graph of a Llama as text for autosp-opt, without memory for its weights (fake tensors).

python benchmarks/llama_graph.py --layers 32 --ranks 8 --seq 131072 --out llama8b.sp
autosp-opt llama8b.sp --pipeline=forward --timing -o /dev/null
"""

from __future__ import annotations

import argparse

import torch
import transformers

from autosp import torch_compat
from autosp.capture import Captured, capture
from autosp.fx_import import import_graph

# Figures of the published configurations.
MODELS = {
    "llama-3.2-1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                         num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.2-3b": dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
                         num_key_value_heads=8, head_dim=128, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.1-8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                         num_key_value_heads=8, vocab_size=128256),
    "llama-2-13b": dict(hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40,
                        num_key_value_heads=40, vocab_size=32000),
}  # fmt: skip


def captured_step(figures: dict, seq: int, logits: bool = True) -> tuple[Captured, list]:
    """The global graph of a bf16 training step of one sequence of this many tokens, and its inputs; all fake. `logits`: the step returns
    them beside the loss, as Hugging Face's models do."""
    config = transformers.LlamaConfig(**figures, use_cache=False, attn_implementation="sdpa", max_position_embeddings=1 << 22)
    found: list = []

    class Done(Exception):
        pass

    def keep(gm, example_inputs):
        found.append((capture(gm, example_inputs), list(example_inputs)))
        raise Done

    with torch_compat.fake_tensor_mode(), torch_compat.compile_settings():
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(config).train()
        torch.set_default_dtype(torch.float32)
        ids = torch.zeros(1, seq, dtype=torch.int64)
        step = model if logits else lambda **inputs: model(**inputs).loss
        try:
            torch.compile(step, backend=keep, fullgraph=True, dynamic=False)(input_ids=ids, labels=ids.clone())
        except Exception:
            if not found:
                raise
    torch.compiler.reset()
    return found[0]


def graph_text(figures: dict, seq: int, ranks: int) -> str:
    """The captured graph of a bf16 training step at this sequence length."""
    return import_graph(captured_step(figures, seq)[0], ranks, True).graph.text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="llama-3.1-8b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--seq", type=int, default=131072)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    figures = dict(MODELS[args.model])
    if args.layers:
        figures["num_hidden_layers"] = args.layers
    with open(args.out, "w") as f:
        f.write(graph_text(figures, args.seq, args.ranks))


if __name__ == "__main__":
    main()
