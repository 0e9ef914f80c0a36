"""Captured graphs of Llama-like models at real sizes, as text, without memory for weights; each captured once a test run."""

from __future__ import annotations

import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
from llama_graph import MODELS, graph_text  # noqa: E402


@functools.cache
def text(layers: int = 1, seq: int = 131072, ranks: int = 8, **figures) -> str:
    """The 8B configuration with these figures changed."""
    return graph_text({**MODELS["llama-3.1-8b"], "num_hidden_layers": layers, **figures}, seq, ranks)


def at_ranks(graph: str, ranks: int) -> str:
    """The same graph for another number of ranks."""
    first, rest = graph.split("\n", 1)
    return first.rsplit("ranks=", 1)[0] + f"ranks={ranks} {{\n" + rest
